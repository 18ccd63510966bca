// SPDX-License-Identifier: Apache-2.0
#include "format/tensor_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codec/checksum.h"
#include "codec/planes.h"
#include "codec/scan.h"
#include "codec/values.h"
#include "format/forms.h"

namespace gradcodec {
namespace {

// (No other type is narrower than what decoded values reach.)
uint64_t count_beyond_float16(std::span<const float> values) {
  constexpr float kLargest = 65504;
  return static_cast<uint64_t>(std::count_if(
      values.begin(), values.end(), [](float value) { return std::isfinite(value) && std::fabs(value) > kLargest; }));
}

Inputs inputs_of(const TensorPlan& plan, const Random& random, Nonfinite nonfinite, const Loop& loop = {}) {
  return {.random = random,
          .stage = kFirstStage,
          .chunk_len = plan.chunk_len,
          .nonfinite = nonfinite,
          .loop = loop,
          .shared_scale = plan.shared_scale,
          .kept_levels = plan.kept_levels,
          .size = plan.info.size(),
          .rows = rows_of(plan.info.shape),
          .scales = plan.coder->uses_scales(),
          .side = plan.side.get(),
          .memory = plan.memory};
}

// Other coders, and other forms, take fewer bytes for some values than for others, which are to be private.
void check_coder(const TensorPlan& plan, Exit code) {
  if (plan.scheme.is_private() && &coder_of(*plan.scheme.scheme, {plan.coder, plan.coder}) != plan.coder) {
    throw Error(code, "scheme '" + plan.scheme.stored_text() + "' goes by the coder pack, not by " +
                          std::string(plan.coder->name()) + ", whose sizes tell of the values");
  }
}

// A chunk's digest, of values that the encoder knew.
uint64_t digest_of(const Decoder& decoder, std::span<const float> values) {
  return checksum(LittleBytes<float>(decoder.is_digested() ? values : std::span<const float>()), 0);
}

// Whether the sizes of what it writes follow from alphabet and count, always.
bool is_fixed_rate(const Coder& coder) { return coder.fixed_size(2, 1).has_value(); }

// Of a chunk's parameters and streams, where it is the same whatever the values are.
std::optional<uint64_t> fixed_payload_size(const Decoder& decoder, const Coder& coder, Range range) {
  const std::optional<uint64_t> params = decoder.params_size(range);
  if (!params || decoder.inner() != nullptr || !is_fixed_rate(coder)) return std::nullopt;
  const StreamShapes shapes = decoder.streams({}, range);
  if (shapes.size() != 1) return std::nullopt;
  const std::optional<uint64_t> size = coder.fixed_size(shapes[0].alphabet, shapes[0].count);
  if (!size) return std::nullopt;
  return *params + *size;
}

class ValueEncoder final : public TensorEncoder {
 public:
  ValueEncoder(const TensorPlan& plan, std::shared_ptr<const DumpTensor> tensor, Nonfinite nonfinite, const Loop& loop)
      : coder_(*plan.coder),
        type_(plan.info.dtype),
        is_private_(plan.scheme.is_private()),
        tensor_(std::move(tensor)),
        measured_(plan.measures_side ? plan.side : nullptr),
        side_(plan.side) {
    check_coder(plan, Exit::usage);
    const Random random(plan.message, plan.ordinal);
    encoder_ = plan.scheme.prepare(*tensor_, inputs_of(plan, random, nonfinite, loop));
    if (tensor_->is_lost()) {
      throw Error(
          Exit::unsupported,
          "all values are below 2^-126, where float32 loses them: scale them, or use --scheme raw for this tensor");
    }
  }

  const Encoder* scheme() const override { return encoder_.get(); }

  Bytes stored() const override { return encoder_->decoder().stored(); }

  uint64_t encode(Range range, bool forms, Workspace& work, Frame& frame) const override {
    const Decoder& decoder = encoder_->decoder();
    work.values.resize(decoder.is_digested() ? static_cast<size_t>(range.count) : 0);
    fit_code(decoder, work.code);
    encoder_->encode(range, work.code, work.values);
    work.beyond_type = type_.code == DType::f2 ? count_beyond_float16(work.values) : 0;
    write_params(work.code, frame.payload);
    set_contexts(decoder, coder_, range, work.code);
    frame.form = write_streams(work.code, coder_, forms && !is_private_, frame.payload);
    frame.sized = fixed_payload_size(decoder, coder_, range).has_value();
    frame.exceptions.clear();
    write_exceptions(work.code.exceptions, frame.exceptions);
    if (measured_ && decoder.side_need()) measure(range, work);
    return digest_of(decoder, work.values);
  }

 private:
  // Decodes the chunk as whoever has this side information will.
  void measure(Range range, Workspace& work) const {
    const Decoder& decoder = encoder_->decoder();
    for (std::vector<float>* room : {&work.original, &work.side, &work.again})
      room->resize(static_cast<size_t>(range.count));
    try {
      decoder.decode(work.code, range, work.again);
    } catch (const Overload&) {  // which is what is measured
    }
    work.fit = {};
    work.fit.add(*decoder.side_need(), tensor_->read(range, work.original), measured_->read(range, work.side),
                 work.again, work.code.exceptions);
  }

  const Coder& coder_;
  DType type_;
  bool is_private_;
  std::shared_ptr<const DumpTensor> tensor_;
  std::shared_ptr<const Tensor> measured_, side_;
  std::unique_ptr<Encoder> encoder_;
};

class ValueDecoder final : public TensorDecoder {
 public:
  ValueDecoder(const TensorPlan& plan, std::unique_ptr<Decoder> scheme, const DType& output)
      : coder_(*plan.coder),
        output_(output),
        is_private_(plan.scheme.is_private()),
        takes_side_(plan.scheme.takes_side()),
        on_overload_(plan.on_overload),
        side_(plan.side),
        decoder_(std::move(scheme)),
        narrowing_(Random(plan.message, plan.ordinal).draws(Purpose::narrowing, kNarrowingStage)) {}

  std::string describe() const override { return decoder_->describe(); }

  std::optional<uint64_t> payload_size(Range range) const override {
    return fixed_payload_size(*decoder_, coder_, range);
  }

  const Decoder* scheme() const override { return decoder_.get(); }

  uint64_t decode(ByteReader payload, Form form, std::span<const Exception> exceptions, Range range,
                  Workspace& work) const override {
    if (is_private_ && form != Form::coder) payload.fail("is not in the form of its coder, whose sizes tell nothing");
    work.code.exceptions.assign(exceptions.begin(), exceptions.end());
    read_code(payload, form, *decoder_, coder_, range, work.code);
    const std::span<float> values = work.decoded(range.count);
    work.overloaded = false;
    if (takes_side_ && !side_) {
      decoder_->decode(work.code, range, values);
      std::fill(values.begin(), values.end(), 0.0F);
      return checksum({}, 0);
    }
    try {
      decoder_->decode(work.code, range, values);
    } catch (const Overload& overload) {
      replace(overload, work.code, range, values);
      work.overloaded = true;
    }
    return digest_of(*decoder_, values);
  }

  ByteView convert(Range range, Workspace& work, Bytes& room) const override {
    const std::span<const float> values = work.decoded(range.count);
    if (output_.code == DType::f4 && !kSwapsBytes) return std::as_bytes(values);
    room.resize(values.size() * output_.item_size());
    narrow(values, output_, narrowing_, range.first, room);
    return room;
  }

 private:
  // What is decoded of a chunk that did not become what was encoded.
  void replace(const Overload& overload, const Code& code, Range range, std::span<float> values) const {
    if (on_overload_ == OnOverload::refuse) {
      throw Error(overload.code(), overload.text() +
                                       ": give what it was coded for, or let decompress go on with --on-overload keep, "
                                       "zero or side");
    }
    if (on_overload_ == OnOverload::keep) return;
    if (on_overload_ == OnOverload::zero) {
      std::fill(values.begin(), values.end(), 0.0F);
    } else {
      const std::span<const float> side = side_->read(range, values);
      if (side.data() != values.data()) std::copy(side.begin(), side.end(), values.begin());
    }
    put_back(code.exceptions, values);
  }

  const Coder& coder_;
  DType output_;
  bool is_private_, takes_side_;
  OnOverload on_overload_;
  std::shared_ptr<const Tensor> side_;
  std::unique_ptr<Decoder> decoder_;
  kernels::Draws narrowing_;
};

// Codes are used again from tensor to tensor; bytes have no contexts, and nothing below them.
void forget_contexts(Code& code) {
  code.inner.reset();
  code.rest.reset();
  for (Stream& stream : code.streams) {
    stream.classes = 0;
    stream.contexts.clear();
    stream.scales.clear();
  }
}

class ByteEncoder final : public TensorEncoder {
 public:
  ByteEncoder(const TensorPlan& plan, std::unique_ptr<TensorData> data)
      : coder_(*plan.coder), dtype_(plan.info.dtype), data_(std::move(data)) {}

  Bytes stored() const override { return {}; }

  uint64_t encode(Range range, bool forms, Workspace& work, Frame& frame) const override {
    work.bytes.resize(static_cast<size_t>(range.count * dtype_.item_size()));
    data_->read(range, work.bytes);
    work.code.streams.resize(1);
    forget_contexts(work.code);
    Stream& stream = work.code.streams[0];
    stream.alphabet = 0;
    stream.symbols.clear();
    stream.bytes.resize(work.bytes.size());
    split_planes(work.bytes, dtype_.word_size(), stream.bytes);
    frame.form = write_streams(work.code.streams, coder_, forms, frame.payload);
    frame.sized = is_fixed_rate(coder_);
    frame.exceptions.clear();
    return checksum(work.bytes, 0);
  }

 private:
  const Coder& coder_;
  DType dtype_;
  std::unique_ptr<TensorData> data_;
};

class ByteDecoder final : public TensorDecoder {
 public:
  ByteDecoder(const TensorPlan& plan, const DType& output)
      : coder_(*plan.coder), dtype_(plan.info.dtype), output_(output) {}

  std::string describe() const override { return ""; }

  std::optional<uint64_t> payload_size(Range range) const override {
    return is_fixed_rate(coder_) ? coder_.fixed_size(0, bytes_of(range)) : std::nullopt;
  }

  const Decoder* scheme() const override { return nullptr; }

  uint64_t decode(ByteReader payload, Form form, std::span<const Exception> exceptions, Range range,
                  Workspace& work) const override {
    if (!exceptions.empty()) payload.fail("lists exceptions, which raw has none of");
    work.overloaded = false;
    work.code.params.clear();
    work.code.exceptions.clear();
    forget_contexts(work.code);
    const StreamShape shape{0, bytes_of(range)};
    read_streams(payload, form, {&shape, 1}, coder_, work.code.streams);
    work.bytes.resize(static_cast<size_t>(shape.count));
    join_planes(work.code.streams[0].bytes, dtype_.word_size(), work.bytes);
    return checksum(work.bytes, 0);
  }

  ByteView convert(Range range, Workspace& work, Bytes& room) const override {
    if (output_ == dtype_) return work.bytes;
    work.values.resize(static_cast<size_t>(range.count));
    if (dtype_.code != DType::f8) {
      widen(dtype_, work.bytes, work.values);
    } else if (output_.code == DType::f4) {
      round_doubles(work.bytes, range.first, work.values);
    } else {
      widen_to_odd(work.bytes, work.values);
    }
    room.resize(work.values.size() * output_.item_size());
    round_to(work.values, output_, range.first, room);
    return room;
  }

 private:
  uint64_t bytes_of(Range range) const { return range.count * dtype_.item_size(); }

  const Coder& coder_;
  DType dtype_, output_;
};

}  // namespace

std::unique_ptr<TensorEncoder> make_tensor_encoder(const TensorPlan& plan, std::unique_ptr<TensorData> data,
                                                   Nonfinite nonfinite, const Loop& loop) {
  if (plan.scheme.carries_bytes()) return std::make_unique<ByteEncoder>(plan, std::move(data));
  return make_value_encoder(plan, std::make_shared<DumpTensor>(plan.info, std::move(data)), nonfinite, loop);
}

std::unique_ptr<TensorEncoder> make_value_encoder(const TensorPlan& plan, std::shared_ptr<const DumpTensor> tensor,
                                                  Nonfinite nonfinite, const Loop& loop) {
  return std::make_unique<ValueEncoder>(plan, std::move(tensor), nonfinite, loop);
}

std::unique_ptr<TensorDecoder> make_tensor_decoder(const TensorPlan& plan, ByteReader& stored, const DType& output) {
  if (plan.scheme.carries_bytes()) return std::make_unique<ByteDecoder>(plan, output);
  if (!plan.info.dtype.is_float())
    throw Error(Exit::bad_input, "has a scheme for floats but is of type " + plan.info.dtype.name());
  check_coder(plan, Exit::bad_input);
  const Random random(plan.message, plan.ordinal);
  return make_value_decoder(plan, plan.scheme.restore(stored, inputs_of(plan, random, Nonfinite::keep)), output);
}

std::unique_ptr<TensorDecoder> make_value_decoder(const TensorPlan& plan, std::unique_ptr<Decoder> scheme,
                                                  const DType& output) {
  return std::make_unique<ValueDecoder>(plan, std::move(scheme), output);
}

uint32_t tensor_digest(std::span<const uint64_t> chunks) {
  return static_cast<uint32_t>(checksum(LittleBytes<uint64_t>(chunks), 0));
}

}  // namespace gradcodec
