// Elements of at least a given magnitude (Aji and Heafield, "Sparse communication for distributed gradient descent",
// EMNLP 2017, with the threshold given instead of found).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/threshold.h"

#include <array>

#include "codec/room.h"
#include "codec/schemes/sparsifier.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real,
     .name = "t",
     .help = "the least magnitude that is kept",
     .min = 1e-37,
     .max = 1e37,
     .required = true,
     .example = "0.01"},
}};

// The key of the smallest float32 from `least` up.
uint32_t last_key(double least) {
  auto value = static_cast<float>(least);
  if (static_cast<double>(value) < least) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) + 1);
  return magnitude_key(value);
}

Selection select_from(const Tensor& tensor, double least, const Inputs& inputs) {
  Selection selection{last_key(least), {}};
  const auto count = [&](Range, std::span<const float> x) {
    Room<uint32_t> room;
    const std::span<uint32_t> keys = room.first(x.size());
    magnitude_keys(x, keys);
    return count_up_to(keys, selection.last);
  };
  scan_chunks(tensor, inputs, count, [&](uint64_t kept) { selection.kept.push_back(kept); });
  return selection;
}

class Threshold final : public Scheme {
 public:
  std::string_view name() const override { return "threshold"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "the elements of magnitude t or more, the others 0"; }
  std::string_view promises() const override {
    return "not random, biased: each error below t, what is kept exact or with the errors of the scheme below;\n"
           "no share of the norm is promised: all may be below t";
  }
  std::string_view source() const override { return "Aji and Heafield, EMNLP 2017 (arXiv 1704.05021)"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::optional; }
  unsigned work_per_value(const Params&) const override { return kSparsifierWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    const Selection selection = select_from(tensor, real_of(params, "t"), inputs);
    return std::make_unique<SparseEncoder>(tensor, kept_of(tensor, selection, {}, inputs), extent, std::nullopt,
                                           inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return SparseDecoder::restore({}, stored, inputs);
  }
};

}  // namespace

const Scheme& threshold_scheme() {
  static const Threshold scheme;
  return scheme;
}

}  // namespace gradcodec
