// Vargaftik et al., "DRIVE: one-bit distributed mean estimation", arXiv 2105.08339: a random rotation, signs, a scale
// for each block.
//
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/drive.h"

#include <array>

#include "codec/schemes/eden.h"
#include "codec/schemes/rotation.h"

namespace gradcodec {
namespace {

constexpr unsigned kBits = 1;
constexpr std::array<ParamSpec, 3> kParams = {{eden::kScaleParam, kBlockParam, kSharedParam}};

class Drive final : public Scheme {
 public:
  std::string_view name() const override { return "drive"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "a random rotation of blocks, then the sign alone"; }
  std::string_view promises() const override { return eden::kPromises; }
  std::string_view source() const override { return "Vargaftik et al., arXiv 2105.08339"; }

  bool draws() const override { return true; }
  void check(const Params& params, bool) const override { check_block(params); }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return eden::prepare(tensor, kBits, params, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader&, const Inputs& inputs) const override {
    return eden::restore(kBits, params, inputs);
  }
};

}  // namespace

const Scheme& drive_scheme() {
  static const Drive scheme;
  return scheme;
}

}  // namespace gradcodec
