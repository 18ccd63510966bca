// A set of places, as a tensor that is 1 there and 0 elsewhere: the list of places of the sparsifier, without values.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/mask.h"

#include "codec/schemes/sparsifier.h"

namespace gradcodec {
namespace {

class Mask final : public Scheme {
 public:
  std::string_view name() const override { return "mask"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "where the values are not 0: there 1, elsewhere 0"; }
  std::string_view promises() const override { return "not random: the places are exact, and no value is kept"; }
  std::string_view source() const override { return "the sparsifier's list of places, alone"; }
  bool draws() const override { return false; }
  unsigned work_per_value(const Params&) const override { return kSparsifierWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    Kept kept;
    kept.ones = true;
    return std::make_unique<SparseEncoder>(tensor, kept_of(tensor, select_nonzero(tensor, inputs), kept, inputs),
                                           extent, std::nullopt, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    Kept kept;
    kept.ones = true;
    return SparseDecoder::restore(std::move(kept), stored, inputs);
  }
};

}  // namespace

const Scheme& mask_scheme() {
  static const Mask scheme;
  return scheme;
}

}  // namespace gradcodec
