// SPDX-License-Identifier: Apache-2.0
#include "codec/memory/remembering.h"

#include <algorithm>
#include <cmath>

#include "codec/room.h"

namespace gradcodec {
namespace {

// The memory's vectors at `first`; one that is not there is all zeros.
const double* at(const Memory& memory, size_t vector, uint64_t first) {
  return memory.vectors[vector].empty() ? nullptr : memory.vectors[vector].data() + first;
}

}  // namespace

void shift_values(Range range, std::span<const float> x, const Memory& memory, double a, double b,
                  std::span<float> out) {
  const double* v0 = at(memory, 0, range.first);
  const double* v1 = at(memory, 1, range.first);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      out[i] = x[i];
      continue;
    }
    double sum = static_cast<double>(x[i]);
    if (v1 != nullptr) sum += b * v1[i];
    if (v0 != nullptr) sum += a * v0[i];
    out[i] = static_cast<float>(sum);
    if (std::isfinite(out[i])) continue;
    throw Error(Exit::bad_input, "element " + std::to_string(range.first + i) +
                                     " and what is remembered of it are together beyond float32: the memory has grown "
                                     "without bound. Start anew with another scheme, or weaker parameters");
  }
}

std::span<const float> Shifted::read(Range range, std::span<float> scratch) const {
  const std::span<const float> x = tensor_.read(range, scratch);
  if (memory_ == nullptr) return x;
  const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
  shift_values(range, x, *memory_, a_, b_, out);
  return out;
}

RememberingEncoder::RememberingEncoder(const Tensor& tensor, const Inputs& inputs, double a, double b)
    : tensor_(tensor), memory_(inputs.memory), a_(a), b_(b), shifted_(tensor, inputs.memory, a, b) {
  inner_ = inputs.inner->prepare(shifted_, inputs.behind());
}

void RememberingEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const bool updates = memory_ != nullptr && memory_->updates;
  Room<float> room, values;
  const bool known = inner_->decoder().is_digested();
  if (updates && known && decoded.empty()) decoded = room.first(range.count);
  inner_->encode(range, code, decoded);
  std::span<const float> x;
  if (updates) x = tensor_.read(range, values.first(range.count));
  settle(range, x, known ? decoded : std::span<float>());
}

void RememberingEncoder::targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const {
  if (memory_ == nullptr) return inner_->targets(code, range, x, out);
  Room<float> room;
  const std::span<float> shifted = room.first(range.count);
  shift_values(range, x, *memory_, a_, b_, shifted);
  inner_->targets(code, range, shifted, out);
}

Promise RememberingEncoder::promise() const {
  Promise promise = inner_->promise();
  if (memory_ != nullptr && promise.target == nullptr) promise.target = &shifted_;
  return promise;
}

void check_known(const Encoder& inner, std::string_view memory) {
  if (inner.decoder().is_digested()) return;
  throw Error(Exit::usage, "'" + std::string(memory) +
                               "' needs a scheme of which the encoder knows what it decodes to: not a sketch, and not "
                               "one that the decoder's side information decides");
}

std::unique_ptr<Decoder> restore_known(ByteReader& stored, const Inputs& inputs) {
  auto inner = inputs.inner->restore(stored, inputs.behind());
  if (!inner->is_digested()) stored.fail("stand below a memory, and no encoder knows what they decode to");
  return inner;
}

}  // namespace gradcodec
