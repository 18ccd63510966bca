// k elements drawn without replacement, times d/k (Wangni, Wang, Liu, Zhang, "Gradient sparsification for
// communication-efficient distributed optimization", NeurIPS 2018; Stich et al., definition 2.1, there without the
// factor). Which are drawn follows from the seed.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/randk.h"

#include <array>

#include "codec/schemes/sparsifier.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{
    {.kind = ParamSpec::amount,
     .name = "k",
     .help = "how many elements are drawn, or how many in a hundred (rounded up)",
     .min = 1,
     .max = 0x1p53,
     .required = true,
     .example = "10%"},
    {.kind = ParamSpec::choice,
     .name = "shared",
     .help = "yes: the same for all workers of a step; no: of each worker its own",
     .choices = "no|yes",
     .fallback = "no",
     .decoder_needs = true},
}};

Kept drawn(const Params& params, const Inputs& inputs) {
  Kept kept;
  kept.shared = choice_of(params, "shared") == "yes";
  kept.draws = kept.shared ? inputs.random.shared_draws(Purpose::subset, inputs.stage)
                           : inputs.random.draws(Purpose::subset, inputs.stage);
  return kept;
}

class RandK final : public Scheme {
 public:
  std::string_view name() const override { return "randk"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "k elements drawn at random, times d/k, the others 0"; }
  std::string_view promises() const override {
    return "unbiased, variance (d/k - 1) ||x||^2 exactly for d elements; errors of elements are not independent\n"
           "(k are drawn without replacement); over an unbiased scheme unbiased too: (1 + omega) d/k - 1";
  }
  std::string_view source() const override {
    return "Wangni et al., NeurIPS 2018 (arXiv 1710.09854); Stich et al., NeurIPS 2018 (arXiv 1809.07599)";
  }
  bool draws() const override { return true; }
  bool adds_up(const Params& params) const override { return choice_of(params, "shared") == "yes"; }
  Inner inner() const override { return Inner::optional; }
  unsigned work_per_value(const Params&) const override { return kSparsifierWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    const Kept known = drawn(params, inputs);
    const KeyReader words = [&known](Range chunk, std::span<uint32_t> room) {
      kernels::philox_words(*known.draws, chunk.first, room.size(), room.data());
      return std::span<const uint32_t>(room);
    };
    const uint64_t count = amount_of(params, "k").of(tensor.size());
    const Selection selection = select_smallest(tensor.size(), count, words, inputs);
    return std::make_unique<SparseEncoder>(tensor, kept_of(tensor, selection, known, inputs), extent, std::nullopt,
                                           inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return SparseDecoder::restore(drawn(params, inputs), stored, inputs);
  }
};

}  // namespace

const Scheme& randk_scheme() {
  static const RandK scheme;
  return scheme;
}

}  // namespace gradcodec
