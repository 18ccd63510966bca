// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/sparsifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "codec/exact.h"
#include "codec/indices.h"
#include "codec/room.h"

namespace gradcodec {
namespace {

constexpr double kMaxRegular = 0x1p126;
constexpr double kMinNormal = 0x1p-126;    // below it float32 has not all its bits
constexpr uint32_t kZeroKey = 0x7FFFFFFF;  // of what is 0 or not regular
constexpr double kRounding = 1 + 0x1p-30;  // bounds that hold with equality, but for float64

// Of the calling thread: the newest.
thread_local const KeptTensor::Found* newest_found = nullptr;

void scatter(std::span<const float> values, std::span<const uint32_t> places, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (size_t i = 0; i < places.size(); ++i) out[places[i]] = values[i];
}

// 0 where there is a value, for select_smallest: the count of each chunk is all it has to say.
void nonzero_keys(std::span<const float> x, std::span<uint32_t> keys) {
  for (size_t i = 0; i < x.size(); ++i) keys[i] = magnitude_key(x[i]) == kZeroKey ? 1 : 0;
}

float magnitude_of_key(uint32_t key) { return std::bit_cast<float>(0x7FFFFFFF - key); }

}  // namespace

Range Kept::of_chunk(Range range) const {
  if (range.count == 0) return {0, 0};
  const auto chunk =
      cuts.empty() ? range.first / chunk_len
                   : static_cast<uint64_t>(std::upper_bound(cuts.begin(), cuts.end(), range.first) - cuts.begin());
  const uint64_t first = chunk == 0 ? 0 : ends[static_cast<size_t>(chunk - 1)];
  return {first, ends[static_cast<size_t>(chunk)] - first};
}

void Kept::list_given(Range range, std::vector<uint32_t>& places) const {
  places.resize(static_cast<size_t>(range.count));
  if (set == nullptr) {
    std::iota(places.begin(), places.end(), 0U);
    return;
  }
  Room<float> room;
  const std::span<const float> marks = set->read(range, room.first(range.count));
  uint32_t* to = places.data();
  for (size_t i = 0; i < marks.size(); ++i) {
    *to = static_cast<uint32_t>(i);
    to += marks[i] != 0 ? 1 : 0;
  }
  places.resize(static_cast<size_t>(to - places.data()));
}

bool Kept::is_exception(uint32_t bits) const {
  if ((bits & 0x7FFFFFFF) > kernels::kMaxRegularBits) return true;
  if (!draws) return false;
  const double scaled = static_cast<double>(std::fabs(std::bit_cast<float>(bits))) * static_cast<double>(size);
  const auto drawn = static_cast<double>(count());
  return scaled > kMaxRegular * drawn || (scaled != 0 && scaled < kMinNormal * drawn);
}

std::unique_ptr<Decoder> SparseDecoder::restore(Kept known, ByteReader& stored, const Inputs& inputs) {
  auto kept = std::make_shared<Kept>(std::move(known));
  kept->size = inputs.size;
  kept->chunk_len = inputs.chunk_len;
  kept->cuts.assign(inputs.ends.begin(), inputs.ends.end());
  const Chunks chunks(inputs.size, inputs);
  uint64_t end = 0;
  if (kept->given) count_given(*kept, inputs);
  for (uint64_t i = 0; i < chunks.count() && !kept->given; ++i) {
    const uint64_t count = stored.get_varint();
    if (count > chunks[i].count) stored.fail("says that more of a chunk is kept than it has");
    end += count;
    kept->ends.push_back(end);
  }
  if (kept->draws && inputs.size > 0) {
    if (end == 0) stored.fail("says that nothing is kept");
    kept->last = stored.get<uint32_t>();
  }
  auto decoder = std::make_unique<SparseDecoder>(kept, nullptr);
  if (inputs.inner != nullptr) {
    Inputs below = inputs.below();
    below.size = kept->count();
    below.ends = kept->ends;
    decoder->owned_ = inputs.inner->restore(stored, below);
    decoder->inner_ = decoder->owned_.get();
  }
  return decoder;
}

Bytes SparseDecoder::stored() const {
  Bytes out;
  uint64_t before = 0;
  for (const uint64_t end : kept_->ends) {
    if (!kept_->given) put_varint(out, end - before);
    before = end;
  }
  if (kept_->draws && kept_->size > 0) put(out, kept_->last);
  if (inner_ != nullptr) put_bytes(out, inner_->stored());
  return out;
}

std::optional<uint64_t> SparseDecoder::params_size(Range) const {
  if (!kept_->lists()) return 0;
  return std::nullopt;
}

void SparseDecoder::take_params(Range range, ByteReader& payload, Code& code) const {
  code.params.clear();
  if (!kept_->lists()) return;
  const ByteView before = payload.rest();
  Room<uint32_t> places;
  take_indices(payload, kept_->of_chunk(range).count, range.count, places.vector());
  put_bytes(code.params, before.first(before.size() - payload.left()));
}

StreamShapes SparseDecoder::streams(const Code&, Range range) const {
  if (inner_ != nullptr || kept_->ones) return {};
  return exact_shapes(kept_->of_chunk(range).count);
}

Range SparseDecoder::inner_range(const Code&, Range range) const { return kept_->of_chunk(range); }

std::string SparseDecoder::describe() const {
  const std::string own = std::to_string(kept_->count()) + " kept of " + std::to_string(kept_->size);
  return inner_ == nullptr ? own : own + ", " + inner_->describe();
}

void SparseDecoder::list_places(const Code& code, Range range, std::vector<uint32_t>& places) const {
  const uint64_t count = kept_->of_chunk(range).count;
  if (kept_->given) return kept_->list_given(range, places);
  if (!kept_->draws) {
    ByteReader params(code.params, "a chunk's list of places");
    return take_indices(params, count, range.count, places);
  }
  Room<uint32_t> room;
  const std::span<uint32_t> words = room.first(range.count);
  kernels::philox_words(*kept_->draws, range.first, words.size(), words.data());
  if (!list_selected(words, kept_->last, count, places)) {
    throw Error(Exit::bad_input, "a chunk keeps another number of elements than were drawn");
  }
}

void SparseDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  Room<uint32_t> places;
  Room<float> room;
  list_places(code, range, places.vector());
  const Range part = kept_->of_chunk(range);
  const std::span<float> values = room.first(part.count);
  if (inner_ != nullptr) {
    inner_->decode(*code.inner, part, values);
  } else if (kept_->ones) {
    std::fill(values.begin(), values.end(), 1.0F);
  } else {
    take_exact(code.streams, values);
  }
  scatter(values, places.vector(), out);
  check_exceptions(code, out);
  put_back(code.exceptions, out);
}

void SparseDecoder::add_values(const Code& code, double weight, std::span<double> sums) const {
  Room<float> room;
  const std::span<float> values = room.first(sums.size());
  take_exact(code.streams, values);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * static_cast<double>(values[i]);
}

// Only what must be an exception is one, and it is kept as 0, if it is; what the scheme below made of that 0 is its
// own.
void SparseDecoder::check_exceptions(const Code& code, std::span<const float> decoded) const {
  for (const Exception& exception : code.exceptions) {
    const bool has_value = std::bit_cast<uint32_t>(decoded[static_cast<size_t>(exception.index)]) != 0;
    if (!kept_->is_exception(exception.bits) || (inner_ == nullptr && has_value)) {
      throw Error(Exit::bad_input, "element " + std::to_string(exception.index) +
                                       " of the chunk is an exception without need, or has a value too");
    }
  }
}

// Of what is dropped the error is known; what is kept has the errors of the scheme below, unless these are not those of
// single elements.
void SparseDecoder::laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const {
  if (kept_->draws && inner_ == nullptr) {
    first_laws(code, range, target, laws);
  } else {
    std::transform(target.begin(), target.end(), laws.begin(),
                   [](float x) { return Law::at(-static_cast<double>(x)); });
    Room<uint32_t> places;
    list_places(code, range, places.vector());
    Room<float> room;
    const std::span<float> values = room.first(places.vector().size());
    for (size_t i = 0; i < values.size(); ++i) {
      const float x = target[places.vector()[i]];
      values[i] = kept_->is_exception(std::bit_cast<uint32_t>(x)) ? 0 : x;
    }
    std::vector<Law> below(values.size(), Law::at(0));
    if (inner_ != nullptr && inner_->before() != Before::nothing) {
      below.assign(values.size(), Law());
    } else if (inner_ != nullptr) {
      inner_->laws(*code.inner, kept_->of_chunk(range), values, below);
    } else if (kept_->ones) {
      std::transform(values.begin(), values.end(), below.begin(),
                     [](float x) { return Law::at(1 - static_cast<double>(x)); });
    }
    for (size_t i = 0; i < below.size(); ++i) laws[places.vector()[i]] = below[i];
  }
  for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
}

void SparseDecoder::targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const {
  Room<uint32_t> places;
  list_places(code, range, places.vector());
  Room<float> room;
  const std::span<float> values = room.first(places.vector().size());
  const double ratio = kept_->ratio();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(x[places.vector()[i]]) * ratio);
  }
  scatter(values, places.vector(), out);
}

void SparseDecoder::first_laws(const Code&, Range, std::span<const float> x, std::span<Law> laws) const {
  const auto size = static_cast<double>(kept_->size), count = static_cast<double>(kept_->count());
  std::transform(x.begin(), x.end(), laws.begin(),
                 [&](float value) { return Law::sampled(static_cast<double>(value), count, size); });
}

KeptTensor::KeptTensor(const Tensor& tensor, std::shared_ptr<const Kept> kept, bool any)
    : tensor_(tensor), kept_(std::move(kept)), any_(any), shape_{kept_->count()} {}

KeptTensor::Found::Found(const KeptTensor& tensor, Range part, std::span<const float> values)
    : tensor_(tensor), part_(part), values_(values), before_(newest_found) {
  newest_found = this;
}

KeptTensor::Found::~Found() { newest_found = before_; }

Range KeptTensor::chunk(size_t i) const {
  const std::vector<uint64_t>& cuts = kept_->cuts;
  const uint64_t first = cuts.empty() ? i * kept_->chunk_len : i == 0 ? 0 : cuts[i - 1];
  const uint64_t end = cuts.empty() ? std::min(first + kept_->chunk_len, kept_->size) : cuts[i];
  return {first, end - first};
}

void KeptTensor::list_places(Range range, std::span<const float> x, std::vector<uint32_t>& places) const {
  if (kept_->given) return kept_->list_given(range, places);
  Room<uint32_t> room;
  const std::span<uint32_t> keys = room.first(range.count);
  if (kept_->draws) {
    kernels::philox_words(*kept_->draws, range.first, keys.size(), keys.data());
  } else if (kept_->ones) {
    nonzero_keys(x, keys);
  } else {
    magnitude_keys(x, keys);
  }
  if (!list_selected(keys, kept_->last, kept_->of_chunk(range).count, places)) {
    throw Error(Exit::bug, "a chunk keeps another number of elements than were counted");
  }
}

void KeptTensor::gather(std::span<const float> x, std::span<const uint32_t> places, std::span<float> out) const {
  if (kept_->draws) {
    const double ratio = kept_->ratio();
    for (size_t i = 0; i < places.size(); ++i) {
      out[i] = static_cast<float>(static_cast<double>(x[places[i]]) * ratio);
    }
  } else {
    for (size_t i = 0; i < places.size(); ++i) out[i] = x[places[i]];
  }
  if (!any_) return;
  for (size_t i = 0; i < places.size(); ++i) {
    if (kept_->is_exception(std::bit_cast<uint32_t>(x[places[i]]))) out[i] = 0;
  }
}

std::span<const float> KeptTensor::read(Range range, std::span<float> scratch) const {
  for (const Found* found = newest_found; found != nullptr; found = found->before_) {
    const uint64_t skipped = range.first - found->part_.first;
    if (&found->tensor_ != this || range.first < found->part_.first || skipped > found->part_.count) continue;
    if (range.count > found->part_.count - skipped) continue;
    return found->values_.subspan(static_cast<size_t>(skipped), static_cast<size_t>(range.count));
  }
  Room<uint32_t> places;
  Room<float> room, part_room;
  const std::vector<uint64_t>& ends = kept_->ends;
  auto i = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), range.first) - ends.begin());
  for (uint64_t done = 0; done < range.count; ++i) {
    const Range whole = chunk(i), part = kept_->of_chunk(whole);
    if (part.count == 0) continue;
    const std::span<const float> x = tensor_.read(whole, room.first(whole.count));
    list_places(whole, x, places.vector());
    const std::span<float> values = part_room.first(part.count);
    gather(x, places.vector(), values);
    const uint64_t skipped = range.first + done - part.first;
    const uint64_t count = std::min(part.count - skipped, range.count - done);
    const auto from = values.begin() + static_cast<ptrdiff_t>(skipped);
    std::copy(from, from + static_cast<ptrdiff_t>(count), scratch.begin() + static_cast<ptrdiff_t>(done));
    done += count;
  }
  return scratch.first(static_cast<size_t>(range.count));
}

SparseEncoder::SparseEncoder(const Tensor& tensor, std::shared_ptr<const Kept> kept, const Extent& extent,
                             std::optional<double> delta, const Inputs& inputs)
    : tensor_(tensor),
      kept_(std::move(kept)),
      below_(tensor, kept_, extent.irregular > 0 || kept_->draws.has_value()),
      largest_(extent.max),
      delta_(delta),
      inner_([&]() -> std::unique_ptr<Encoder> {
        if (inputs.inner == nullptr) return nullptr;
        Inputs below = inputs.below();
        below.size = kept_->count();
        below.ends = kept_->ends;
        return inputs.inner->prepare(below_, below);
      }()),
      decoder_(kept_, inner_ ? &inner_->decoder() : nullptr),
      limited_(*this) {}

void SparseEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  code.params.clear();
  code.exceptions.clear();
  code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
  const std::span<const float> x = tensor_.read(range, code.scratch);
  Room<uint32_t> places;
  Room<float> room, decoded_room;
  below_.list_places(range, x, places.vector());
  const Range part = kept_->of_chunk(range);
  const std::span<float> values = room.first(part.count);
  below_.gather(x, places.vector(), values);
  for (size_t i = 0; below_.any_exceptions() && i < x.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    if (kept_->is_exception(bits)) code.exceptions.push_back({i, bits});
  }
  if (kept_->lists()) put_indices(code.params, places.vector(), range.count);
  std::span<const float> kept = values;
  if (inner_) {
    code.streams.clear();
    const std::span<float> below = decoded.empty() ? std::span<float>() : decoded_room.first(part.count);
    const KeptTensor::Found found(below_, part, values);
    inner_->encode(part, code.below(), below);
    kept = below;
  } else if (kept_->ones) {
    code.streams.clear();
    std::fill(values.begin(), values.end(), 1.0F);
  } else {
    put_exact(values, code.streams);
  }
  if (decoded.empty()) return;
  scatter(kept, places.vector(), decoded);
  put_back(code.exceptions, decoded);
}

// Sum of x^2 over what is no exception, or over that part of it that is dropped.
double SparseEncoder::energy(bool dropped) const {
  double total = 0;
  Room<float> room, counted_room;
  Room<uint32_t> places;
  for (size_t i = 0; i < kept_->ends.size(); ++i) {
    const Range range = below_.chunk(i);
    const std::span<const float> x = tensor_.read(range, room.first(range.count));
    const std::span<float> counted = counted_room.first(range.count);
    std::transform(x.begin(), x.end(), counted.begin(),
                   [&](float value) { return kept_->is_exception(std::bit_cast<uint32_t>(value)) ? 0.0F : value; });
    if (dropped) {
      below_.list_places(range, x, places.vector());
      for (const uint32_t place : places.vector()) counted[place] = 0;
    }
    total += squares_of(counted);
  }
  return total;
}

double SparseEncoder::energy_of_ones() const {
  double total = 0;
  Room<float> room;
  Room<uint32_t> places;
  for (size_t i = 0; i < kept_->ends.size(); ++i) {
    const Range range = below_.chunk(i);
    const std::span<const float> x = tensor_.read(range, room.first(range.count));
    below_.list_places(range, x, places.vector());
    for (const uint32_t place : places.vector()) {
      const double error = 1 - static_cast<double>(x[place]);
      total += error * error;
    }
  }
  return total;
}

Promise SparseEncoder::own_promise() const {
  Promise promise;
  if (kept_->ones) {
    promise.variance = energy_of_ones();
    return promise;
  }
  if (!kept_->draws) {
    promise.projection = true;
    promise.delta = delta_;
    promise.variance = energy(true);
    if (kept_->size > 0 && !kept_->given)
      promise.max_error = static_cast<double>(magnitude_of_key(kept_->last));  // of what is dropped
    return promise;
  }
  promise.unbiased = true;
  promise.variance = 0;
  if (kept_->count() == 0) return promise;
  const double ratio = kept_->ratio();
  promise.variance = (ratio - 1) * energy(false);
  promise.omega = (ratio - 1) * kRounding;
  promise.delta = delta_of(promise.omega);
  promise.max_error = static_cast<double>(largest_) * std::max(1.0, ratio - 1);
  return promise;
}

const Promise& SparseEncoder::inner_promise() const {
  std::call_once(asked_, [&] { inner_promise_ = inner_->promise(); });
  return inner_promise_;
}

Promise SparseEncoder::promise() const {
  const Promise own = own_promise();
  if (!inner_) return own;
  const Promise& below = inner_promise();
  Promise both = chain(own, below);
  if (!own.projection) return both;
  if (below.target != nullptr) {
    both.target = &limited_;
    return both;
  }
  if (own.max_error && below.max_error) both.max_error = std::max(*own.max_error, *below.max_error);
  // An exception that is asked for is 0 to the scheme below, whose error there is then replaced.
  const bool replaced = kept_->given && below_.any_exceptions();
  if (below.variance && !replaced) both.variance = *own.variance + *below.variance;
  return both;
}

// Of what is drawn: what the scheme below is unbiased for, in the places that were drawn.
void SparseEncoder::targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const {
  decoder_.targets(code, range, x, out);
  const Tensor* const below = inner_ ? inner_promise().target : nullptr;
  if (below == nullptr) return;
  Room<uint32_t> places;
  Room<float> room;
  below_.list_places(range, x, places.vector());
  const Range part = kept_->of_chunk(range);
  scatter(below->read(part, room.first(part.count)), places.vector(), out);
}

std::span<const float> SparseEncoder::Limited::read(Range range, std::span<float> scratch) const {
  const SparseEncoder& encoder = encoder_;
  Room<uint32_t> places;
  Room<float> room;
  const std::span<const float> x = encoder.tensor_.read(range, scratch);
  const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
  if (x.data() != out.data()) std::copy(x.begin(), x.end(), out.begin());
  encoder.below_.list_places(range, out, places.vector());
  const Range part = encoder.kept_->of_chunk(range);
  const std::span<const float> limited = encoder.inner_promise().target->read(part, room.first(part.count));
  for (size_t i = 0; i < limited.size(); ++i) {
    float& value = out[places.vector()[i]];
    if (!encoder.kept_->is_exception(std::bit_cast<uint32_t>(value))) value = limited[i];
  }
  return out;
}

void count_given(Kept& kept, const Inputs& inputs) {
  if (kept.set != nullptr && kept.set->size() != inputs.size) {
    throw Error(Exit::bad_input, "the index set is of a tensor of " + std::to_string(kept.set->size()) +
                                     " elements, not of " + std::to_string(inputs.size));
  }
  const Chunks chunks(inputs.size, inputs);
  Room<uint32_t> places;
  uint64_t end = 0;
  for (uint64_t i = 0; i < chunks.count(); ++i) {
    kept.list_given(chunks[i], places.vector());
    kept.ends.push_back(end += places.vector().size());
  }
}

Selection select_nonzero(const Tensor& tensor, const Inputs& inputs) {
  Selection selection;
  const auto look = [](Range, std::span<const float> x) {
    return static_cast<uint64_t>(
        std::count_if(x.begin(), x.end(), [](float value) { return magnitude_key(value) != kZeroKey; }));
  };
  scan_chunks(tensor, inputs, look, [&](uint64_t count) { selection.kept.push_back(count); });
  return selection;
}

std::shared_ptr<const Kept> given_of(const Tensor& tensor, const Inputs& inputs) {
  auto kept = std::make_shared<Kept>();
  kept->size = tensor.size();
  kept->chunk_len = inputs.chunk_len;
  kept->cuts.assign(inputs.ends.begin(), inputs.ends.end());
  kept->given = true;
  kept->set = inputs.side;
  Inputs sized = inputs;
  sized.size = tensor.size();
  count_given(*kept, sized);
  return kept;
}

std::shared_ptr<const Kept> kept_of(const Tensor& tensor, const Selection& selection, Kept known,
                                    const Inputs& inputs) {
  auto kept = std::make_shared<Kept>(std::move(known));
  kept->size = tensor.size();
  kept->chunk_len = inputs.chunk_len;
  kept->cuts.assign(inputs.ends.begin(), inputs.ends.end());
  kept->last = selection.last;
  uint64_t end = 0;
  for (const uint64_t count : selection.kept) kept->ends.push_back(end += count);
  return kept;
}

}  // namespace gradcodec
