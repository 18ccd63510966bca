// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/raw.h"

namespace gradcodec {
namespace {

class Raw final : public Scheme {
 public:
  std::string_view name() const override { return "raw"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "lossless: the bytes of any element type"; }
  std::string_view promises() const override { return "every bit comes back, NaN payloads and signs of zero included"; }
  std::string_view source() const override { return "byte planes, as in HDF5's shuffle filter"; }
  bool carries_bytes() const override { return true; }
  bool draws() const override { return false; }
  void check(const Params&, bool) const override {}
  std::unique_ptr<Encoder> prepare(const Tensor&, const Params&, const Inputs&) const override {
    throw Error(Exit::bug, "raw has no encoder of values");
  }
  std::unique_ptr<Decoder> restore(const Params&, ByteReader&, const Inputs&) const override {
    throw Error(Exit::bug, "raw has no decoder of values");
  }
};

}  // namespace

const Scheme& raw_scheme() {
  static const Raw scheme;
  return scheme;
}

}  // namespace gradcodec
