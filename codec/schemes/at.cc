// The exact values at the places of an index set, which is Inputs::side (Ivkin et al., "Communication-efficient
// distributed SGD with sketching", NeurIPS 2019, algorithm 3, line 7); or as a scheme below codes them. Without a set
// every place is one of them.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/at.h"

#include "codec/schemes/sparsifier.h"

namespace gradcodec {
namespace {

class At final : public Scheme {
 public:
  std::string_view name() const override { return "at"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "the values at the places of an index set (--at), the others 0"; }
  std::string_view promises() const override {
    return "not random: what the set asks for is exact, or has the errors of the scheme below; the places are not in\n"
           "the file, which says which set it answers";
  }
  std::string_view source() const override { return "Ivkin et al., arXiv 1903.04488, algorithm 3"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::optional; }
  unsigned work_per_value(const Params&) const override { return kSparsifierWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    return std::make_unique<SparseEncoder>(tensor, given_of(tensor, inputs), extent, std::nullopt, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    Kept kept;
    kept.given = true;
    kept.set = inputs.side;
    return SparseDecoder::restore(std::move(kept), stored, inputs);
  }
};

}  // namespace

const Scheme& at_scheme() {
  static const At scheme;
  return scheme;
}

}  // namespace gradcodec
