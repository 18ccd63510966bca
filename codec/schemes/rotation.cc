// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rotation.h"

#include <algorithm>
#include <bit>

#include "codec/kernels/hadamard.h"

namespace gradcodec {
namespace {

unsigned log2_of(uint64_t power) { return static_cast<unsigned>(std::countr_zero(power)); }

// Calls visit(at, block's size as a logarithm, how many of its values are elements) for n elements from a block's first
// on.
template <typename Visit>
void for_each_block(uint64_t n, uint64_t block, Visit visit) {
  for (uint64_t at = 0; at < n; at += block) {
    const uint64_t kept = std::min(block, n - at);
    visit(static_cast<size_t>(at), log2_of(std::bit_ceil(kept)), static_cast<size_t>(kept));
  }
}

// Room for the rotated values of a chunk: `out` itself, but for a chunk that is filled up, the last
// one of a tensor as a rule.
std::span<float> room_for(uint64_t count, std::span<float> out, std::vector<float>& room) {
  if (count == out.size()) return out;
  room.resize(static_cast<size_t>(count));
  return room;
}

// Infinities, too: of both signs.
void limit(std::span<float> values) {
  for (float& value : values) {
    const float below = value < kMaxDecodedRotated ? value : kMaxDecodedRotated;
    value = below > -kMaxDecodedRotated ? below : -kMaxDecodedRotated;
  }
}

void drop_irregular(std::span<float> x) {
  for (float& value : x) {
    if (!fits(std::bit_cast<uint32_t>(value), kMaxRotated)) value = 0;
  }
}

void check_exceptions(std::span<const Exception> list, double limit, bool must_fit) {
  for (const Exception& exception : list) {
    if (fits(exception.bits, limit) == must_fit) continue;
    throw Error(Exit::bad_input, "exception " + std::to_string(exception.index) + " of a chunk is " +
                                     (must_fit ? "too large for a rotated value" : "one without need"));
  }
}

}  // namespace

void check_block(const Params& params) {
  const auto block = static_cast<uint64_t>(integer_of(params, "block"));
  if (!std::has_single_bit(block)) {
    throw Error(Exit::usage, "'block' must be a power of two, not " + std::to_string(block));
  }
}

BlockPlan::BlockPlan(uint64_t block, const Inputs& inputs)
    : block_(block), chunk_len_(inputs.chunk_len), ends_(inputs.ends) {
  uint64_t first = 0, end = 0;
  for (const uint64_t chunk_end : ends_) {
    end += padded(chunk_end - first);
    first = chunk_end;
    rotated_ends_.push_back(end);
  }
}

uint64_t BlockPlan::padded(uint64_t count) const {
  const uint64_t rest = count % block_;
  return count - rest + (rest == 0 ? 0 : std::bit_ceil(rest));
}

Range BlockPlan::rotated(Range chunk) const {
  if (ends_.empty()) return {chunk.first / chunk_len_ * padded(chunk_len_), padded(chunk.count)};
  // Chunks without elements have none here, so that it does not matter which of those that begin here is meant.
  const auto before = std::upper_bound(ends_.begin(), ends_.end(), chunk.first) - ends_.begin();
  return {before == 0 ? 0 : rotated_ends_[static_cast<size_t>(before - 1)], padded(chunk.count)};
}

uint64_t BlockPlan::rotated_size(uint64_t size) const {
  if (!ends_.empty()) return rotated_ends_.back();
  return size / chunk_len_ * padded(chunk_len_) + padded(size % chunk_len_);
}

Inputs BlockPlan::below(const Inputs& inputs) const {
  Inputs below = inputs.below();
  below.size = rotated_size(inputs.size);
  below.chunk_len = padded(inputs.chunk_len);
  below.ends = rotated_ends_;
  return below;
}

std::shared_ptr<const Rotation> Rotation::of(const Params& params, const Inputs& inputs) {
  const bool shared = choice_of(params, "shared") == "yes";
  const kernels::Draws signs = shared ? inputs.random.shared_draws(Purpose::rotation, inputs.stage)
                                      : inputs.random.draws(Purpose::rotation, inputs.stage);
  const auto block = static_cast<uint64_t>(integer_of(params, "block"));
  return std::make_shared<Rotation>(Rotation{BlockPlan(block, inputs), signs, shared});
}

void rotate_blocks(std::span<float> values, uint64_t n, const Rotation& rotation, uint64_t first) {
  for_each_block(n, rotation.plan.block(), [&](size_t at, unsigned log2, size_t kept) {
    float* block = values.data() + at;
    kernels::flip_signs(rotation.signs, first + at, kept, block, block);
    std::fill(block + kept, block + (size_t{1} << log2), 0.0F);
    kernels::hadamard(block, log2);
  });
}

void rotate_blocks_back(std::span<float> values, uint64_t n, const Rotation& rotation, uint64_t first) {
  for_each_block(n, rotation.plan.block(), [&](size_t at, unsigned log2, size_t kept) {
    float* block = values.data() + at;
    limit(std::span(block, size_t{1} << log2));
    kernels::hadamard(block, log2);
    kernels::flip_signs(rotation.signs, first + at, kept, block, block);
  });
}

Rotated::Rotated(const Tensor& tensor, const Rotation& rotation, const Inputs& inputs, bool irregular)
    : tensor_(tensor),
      rotation_(rotation),
      chunks_(tensor.size(), inputs),
      irregular_(irregular),
      size_(1, rotation.plan.rotated_size(tensor.size())) {}

// The chunk whose rotated values hold number `at`.
Range Rotated::chunk_at(uint64_t at) const {
  uint64_t low = 0;  // the last chunk that begins there or before
  for (uint64_t left = chunks_.count(); left > 1;) {
    const uint64_t half = left / 2;
    if (rotation_.plan.rotated(chunks_[low + half]).first <= at) low += half;
    left -= half;
  }
  return chunks_[low];
}

// Whole blocks of a chunk, of which the first begins `at` after the chunk does.
void Rotated::read_blocks(Range chunk, uint64_t at, std::span<float> out) const {
  const Range elements{chunk.first + at, std::min<uint64_t>(chunk.count - at, out.size())};
  const std::span<const float> x = tensor_.read(elements, out.first(static_cast<size_t>(elements.count)));
  if (x.data() != out.data()) std::copy(x.begin(), x.end(), out.begin());
  if (irregular_) drop_irregular(out.first(static_cast<size_t>(elements.count)));
  rotate_blocks(out, elements.count, rotation_, elements.first);
}

std::span<const float> Rotated::read(Range range, std::span<float> scratch) const {
  std::vector<float> room;
  for (uint64_t done = 0; done < range.count;) {
    const Range chunk = chunk_at(range.first + done), rotated = rotation_.plan.rotated(chunk);
    const uint64_t block = rotation_.plan.block(), skipped = range.first + done - rotated.first;
    const uint64_t begin = skipped - skipped % block, end = std::min(rotated.count, skipped + range.count - done);
    const uint64_t stop = std::min(rotated.count, (end + block - 1) / block * block);
    const std::span<float> out = scratch.subspan(static_cast<size_t>(done), static_cast<size_t>(end - skipped));
    if (begin == skipped && stop == end) {
      read_blocks(chunk, begin, out);
    } else {
      room.resize(static_cast<size_t>(stop - begin));
      read_blocks(chunk, begin, room);
      std::copy_n(room.begin() + static_cast<ptrdiff_t>(skipped - begin), out.size(), out.begin());
    }
    done += out.size();
  }
  return scratch.first(static_cast<size_t>(range.count));
}

std::string RotationDecoder::describe() const {
  return "blocks of " + std::to_string(rotation_->plan.block()) + ", " + inner_->describe();
}

void RotationDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  check_exceptions(code.exceptions, kMaxRotated, false);
  check_exceptions(code.inner->exceptions, static_cast<double>(kMaxDecodedRotated), true);
  std::vector<float> room;
  const Range rotated = rotation_->plan.rotated(range);
  const std::span<float> values = room_for(rotated.count, out, room);
  inner_->decode(*code.inner, rotated, values);
  rotate_blocks_back(values, range.count, *rotation_, range.first);
  if (values.data() != out.data()) std::copy_n(values.begin(), out.size(), out.begin());
  put_back(code.exceptions, out);
}

uint64_t RotationDecoder::domain(Range range) const {
  const Range rotated = rotation_->plan.rotated(range);
  return is_below(Before::transform) ? inner_->domain(rotated) : rotated.count;
}

void RotationDecoder::decode_domain(const Code& code, Range range, std::span<float> out) const {
  const Range rotated = rotation_->plan.rotated(range);
  if (is_below(Before::transform)) return inner_->decode_domain(*code.inner, rotated, out);
  inner_->decode(*code.inner, rotated, out);
}

void RotationDecoder::targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const {
  const Range rotated = rotation_->plan.rotated(range);
  std::vector<float> room;
  const std::span<float> values = room_for(rotated.count, out, room);
  std::copy(x.begin(), x.end(), values.begin());
  rotate_blocks(values, range.count, *rotation_, range.first);
  if (!is_below(Before::transform)) return;
  const std::vector<float> y(values.begin(), values.end());
  inner_->targets(*code.inner, rotated, y, out);
}

void RotationDecoder::laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const {
  if (is_below(Before::draw)) return std::fill(laws.begin(), laws.end(), Law{});
  inner_->laws(*code.inner, rotation_->plan.rotated(range), target, laws);
  // A scheme below may limit the values that it is given. What it limits here is nothing that the encoder knows, and so
  // nothing is declared of it.
  for (Law& law : laws) {
    if (law.kind == Law::outside) law = Law{};
  }
}

RotationEncoder::RotationEncoder(const Tensor& tensor, std::shared_ptr<const Rotation> rotation, const Inputs& inputs,
                                 const MakeInner& make_inner)
    : tensor_(tensor), rotation_(std::move(rotation)) {
  const Extent extent = scan_extent(tensor, inputs);
  exceptions_ = extent.irregular > 0 || static_cast<double>(extent.max) > kMaxRotated;
  rotated_ = std::make_unique<Rotated>(tensor, *rotation_, inputs, exceptions_);
  inner_ = make_inner(*rotated_, rotation_->plan.below(inputs));
  decoder_ = std::make_unique<RotationDecoder>(rotation_, inner_->decoder());
}

void RotationEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  code.params.clear();
  code.streams.clear();
  code.exceptions.clear();
  const auto len = static_cast<size_t>(range.count);
  if (exceptions_) {
    code.scratch.resize(std::max(code.scratch.size(), len));
    const std::span<float> scratch = std::span(code.scratch).first(len);
    const std::span<const float> x = tensor_.read(range, scratch);
    if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
    set_aside(scratch, kMaxRotated, 0, code.exceptions);
  }
  const Range rotated = rotation_->plan.rotated(range);
  if (decoded.empty()) return inner_->encode(rotated, code.below(), {});
  std::vector<float> room;
  const std::span<float> values = room_for(rotated.count, decoded, room);
  inner_->encode(rotated, code.below(), values);
  rotate_blocks_back(values, range.count, *rotation_, range.first);
  if (values.data() != decoded.data()) std::copy_n(values.begin(), len, decoded.begin());
  put_back(code.exceptions, decoded);
}

Promise RotationEncoder::promise() const {
  // What float32 arithmetic adds to the norms of a block of 2^18, there and back: below 2^-18 of them.
  constexpr double kMore = 1 + 0x1p-17;
  const Promise below = inner_->promise();
  Promise promise;
  if (below.target != nullptr) return promise;
  promise.unbiased = below.unbiased;
  promise.inner_product = below.inner_product;
  if (below.omega) promise.omega = *below.omega * kMore;
  if (below.delta) promise.delta = std::max(0.0, 1 - (1 - *below.delta) * kMore);
  return promise;
}

}  // namespace gradcodec
