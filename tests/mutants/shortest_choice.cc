// SPDX-License-Identifier: Apache-2.0
#include "mutants/shortest_choice.h"

#include <array>
#include <bit>
#include <limits>

#include "codec/coders/rans.h"
#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real, .name = "nmse", .help = "error", .min = 1e-8, .max = 1e4, .required = true},
}};

size_t bytes_of(const GridEncoder& encoder, uint64_t size, uint64_t chunk_len) {
  size_t bytes = 0;
  for (uint64_t first = 0; first < size; first += chunk_len) {
    const Range range = {first, std::min(chunk_len, size - first)};
    Code code;
    encoder.encode(range, code, {});
    Stream& stream = code.streams[0];
    stream.classes = kernels::kDitherClasses;
    stream.contexts.resize(stream.symbols.size());
    encoder.decoder().contexts(code, 0, range, stream.contexts);
    Bytes out;
    rans_dither_coder().shrink(stream, out);
    bytes += out.size();
  }
  return bytes;
}

constexpr uint32_t kSteps = 8;

// Which of the steps it is stands in its last bits, so that the decoder finds the draws.
float marked(float step, uint32_t number) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(step) & ~(kSteps - 1)) | number);
}

Inputs inputs_for(float step, const Inputs& inputs) {
  Inputs own = inputs;
  own.stage = static_cast<uint8_t>(std::bit_cast<uint32_t>(step) % kSteps);
  return own;
}

class ShortestChoice final : public Scheme {
 public:
  std::string_view name() const override { return "shortest choice"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "for tests: the shortest of several encodings"; }
  std::string_view promises() const override { return "what dither promises"; }
  std::string_view source() const override { return "none"; }
  bool draws() const override { return true; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Energy energy = scan_energy(tensor, inputs);
    std::unique_ptr<Encoder> best;
    size_t fewest = std::numeric_limits<size_t>::max();
    for (uint32_t i = 0; i < kSteps; ++i) {
      GridLayout layout = {.stores_level = true};
      const double nmse = real_of(params, "nmse") * (1 - i / 256.0);
      layout.step = marked(step_for_nmse(energy.squares, tensor.size(), nmse), i);
      layout.max_level = level_for(energy.extent.max, layout.step);
      auto encoder = std::make_unique<GridEncoder>(tensor, layout, inputs_for(layout.step, inputs), GridChoice{});
      const size_t bytes = bytes_of(*encoder, tensor.size(), inputs.chunk_len);
      if (bytes >= fewest) continue;
      fewest = bytes;
      best = std::move(encoder);
    }
    return best;
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    ByteReader ahead = stored;
    return GridDecoder::restore({.stores_level = true}, stored, inputs_for(ahead.get<float>(), inputs));
  }
};

}  // namespace

const Scheme& shortest_choice_scheme() {
  static const ShortestChoice scheme;
  return scheme;
}

}  // namespace gradcodec
