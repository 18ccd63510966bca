// The k elements of largest magnitude (Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018, definition
// 2.1 and lemma A.1: the squared error is at most 1 - k/d of the squared norm).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/topk.h"

#include <array>

#include "codec/schemes/sparsifier.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::amount,
     .name = "k",
     .help = "how many elements are kept, or how many in a hundred (rounded up)",
     .min = 1,
     .max = 0x1p53,
     .required = true,
     .example = "1%"},
}};

class TopK final : public Scheme {
 public:
  std::string_view name() const override { return "topk"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "the k elements of largest magnitude, the others 0"; }
  std::string_view promises() const override {
    return "not random, biased: a projection, squared error at most (1 - k/d) ||x||^2 for d elements;\n"
           "what is kept is exact, or has the errors of the scheme below: then (1 - k/d (1 - omega)) ||x||^2 is "
           "expected";
  }
  std::string_view source() const override { return "Stich, Cordonnier and Jaggi, NeurIPS 2018 (arXiv 1809.07599)"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::optional; }
  unsigned work_per_value(const Params&) const override { return kSparsifierWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    const uint64_t count = amount_of(params, "k").of(tensor.size());
    const Selection selection = select_smallest(tensor.size(), count, magnitude_keys_of(tensor), inputs);
    std::optional<double> delta;
    if (count > 0) delta = static_cast<double>(count) / static_cast<double>(tensor.size());
    return std::make_unique<SparseEncoder>(tensor, kept_of(tensor, selection, {}, inputs), extent, delta, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return SparseDecoder::restore({}, stored, inputs);
  }
};

}  // namespace

const Scheme& topk_scheme() {
  static const TopK scheme;
  return scheme;
}

}  // namespace gradcodec
