// Ramezani-Kebrya et al., "NUQSGD: Provably communication-efficient data-parallel SGD via nonuniform quantization",
// JMLR 22 (114), 2021, section 3.
//
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/nuqsgd.h"

#include <array>

#include "codec/levels/fitted.h"
#include "codec/schemes/levels/norm_levels.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{inner_levels_param(30), norm_bucket_param("512")}};

LevelLayout layout_of(const Params& params) {
  const auto s = static_cast<unsigned>(integer_of(params, "s"));
  return norm_layout(stored_magnitudes(exponential_levels(s)), static_cast<uint64_t>(integer_of(params, "bucket")));
}

class Nuqsgd final : public Scheme {
 public:
  std::string_view name() const override { return "nuqsgd"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "random rounding to powers of two of the norm"; }
  std::string_view promises() const override {
    return "unbiased; |x| goes to one of its neighbours among 0, 2^-s N, ..., N/2, N, N the Euclidean norm of the\n"
           "bucket; with A = 2^-s sqrt(bucket), E ||x' - x||^2 is at most 1/8 + 2 A^2/9 of ||x||^2, or A - 1 if A > "
           "9/4";
  }
  std::string_view source() const override { return "Ramezani-Kebrya et al., JMLR 22 (114), 2021; arXiv 1908.06077"; }

  bool draws() const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return prepare_by_norm(tensor, inputs, layout_of(params), scan_extent(tensor, inputs));
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return LevelDecoder::restore(layout_of(params), stored, inputs);
  }
};

}  // namespace

const Scheme& nuqsgd_scheme() {
  static const Nuqsgd scheme;
  return scheme;
}

}  // namespace gradcodec
