// SPDX-License-Identifier: Apache-2.0
#include "format/verify_bench.h"

#include <algorithm>
#include <cstring>

namespace gradcodec {
namespace {

std::string compare(ByteView before, ByteView after, Range range, uint64_t item_size) {
  if (before.size() != after.size())
    return "the number of bytes from element " + std::to_string(range.first) + " differs";
  const auto differ = std::mismatch(before.begin(), before.end(), after.begin());
  if (differ.first == before.end()) return "";
  return "element " + std::to_string(range.first + static_cast<uint64_t>(differ.first - before.begin()) / item_size) +
         " is not the one that was encoded";
}

// A tensor of raw bytes through the whole path.
class EncodedBytes final : public ByteCheck {
 public:
  // The encoder owns `data`; it is read here too.
  EncodedBytes(const TensorPlan& plan, std::unique_ptr<TensorData> data) : plan_(plan), data_(data.get()) {
    encoder_ = make_tensor_encoder(plan, std::move(data), Nonfinite::keep);
    ByteReader stored(ByteView{}, "the stored parameters");
    decoder_ = make_tensor_decoder(plan, stored, plan.info.dtype);
  }

  std::string compare(Range range) const override {
    Workspace work;
    Frame frame;
    encoder_->encode(range, true, work, frame);
    decoder_->decode(ByteReader(frame.payload, "the frame"), frame.form, {}, range, work);
    Bytes room, before(static_cast<size_t>(range.count * plan_.info.dtype.item_size()));
    const ByteView after = decoder_->convert(range, work, room);
    data_->read(range, before);
    return gradcodec::compare(before, after, range, plan_.info.dtype.item_size());
  }

 private:
  TensorPlan plan_;
  const TensorData* data_;
  std::unique_ptr<TensorEncoder> encoder_;
  std::unique_ptr<TensorDecoder> decoder_;
};

class StoredBytes final : public ByteCheck {
 public:
  StoredBytes(const StoredMessage& message, size_t tensor, std::unique_ptr<TensorData> data)
      : message_(message), tensor_(tensor), data_(std::move(data)) {}

  std::string compare(Range range) const override {
    const uint64_t item = message_.info(tensor_).dtype.item_size();
    const uint64_t len = message_.schema().chunk_len(message_.schema().tensors[tensor_]);
    Piece piece;
    message_.load(tensor_, range.first / len, piece);
    message_.convert(piece);
    Bytes before(static_cast<size_t>(range.count * item));
    data_->read(range, before);
    return gradcodec::compare(before, piece.elements, range, item);
  }

 private:
  const StoredMessage& message_;
  size_t tensor_;
  std::unique_ptr<TensorData> data_;
};

// What the scheme behind a memory codes, as a tensor of float32.
class ShiftedData final : public TensorData {
 public:
  // `remembered` outlives it, and is left as it is.
  ShiftedData(TensorPlan plan, const Memory& remembered, std::unique_ptr<TensorData> data, Nonfinite nonfinite)
      : memory_(remembered) {
    memory_.updates = false;
    plan.memory = &memory_;
    encoder_ = make_tensor_encoder(plan, std::move(data), nonfinite);
  }

  void read(Range range, std::span<std::byte> out) const override {
    std::vector<float> room(static_cast<size_t>(range.count));
    const std::span<const float> values = encoder_->scheme()->shifted()->read(range, room);
    store_little(values, out.data());
  }

 private:
  Memory memory_;
  std::unique_ptr<TensorEncoder> encoder_;
};

CompressOptions rehearsed(CompressOptions options) {
  options.scheme = options.scheme.rehearsed();
  return options;
}

}  // namespace

EncodingBench::EncodingBench(Source& source, const CompressOptions& options, uint64_t trials)
    : source_(source), options_(rehearsed(options)), trials_(trials), schema_(plan_schema(source, options_)) {
  const std::string chosen = options_.scheme.stored_text();
  for (const SchemaTensor& tensor : schema_.tensors) {
    const auto own = options_.own_schemes.find(tensor.info.name);
    if (own != options_.own_schemes.end()) {
      choices_.push_back(own->second);
    } else {
      choices_.push_back(schema_.schemes[tensor.scheme].text == chosen ? options_.scheme : parse_scheme("raw"));
    }
  }
}

TensorPlan EncodingBench::plan(size_t tensor) const {
  const SchemaTensor& entry = schema_.tensors[tensor];
  return {entry.info,
          choices_[tensor],
          &options_.coder_of(*choices_[tensor].scheme),
          options_.id,
          static_cast<uint32_t>(tensor),
          schema_.chunk_len(entry),
          {},
          options_.shared_scale,
          options_.side_of && choices_[tensor].takes_side() ? options_.side_of(entry.info) : nullptr};
}

std::unique_ptr<ValueTrials> EncodingBench::open_values(size_t tensor) {
  TensorPlan plan = this->plan(tensor);
  std::unique_ptr<TensorData> data = source_.open(tensor);
  const Memory* const memory = options_.memory_of && plan.scheme.remembers() ? options_.memory_of(plan.info) : nullptr;
  if (memory != nullptr) {
    data = std::make_unique<ShiftedData>(plan, *memory, std::move(data), options_.nonfinite);
    plan.scheme = SchemeChoice(*plan.scheme.inner);
    plan.info.dtype = {DType::f4, ""};
  }
  return std::make_unique<EncodedTrials>(plan, std::move(data), trials_, options_.nonfinite);
}

std::unique_ptr<ByteCheck> EncodingBench::open_bytes(size_t tensor) {
  return std::make_unique<EncodedBytes>(plan(tensor), source_.open(tensor));
}

StoredBench::StoredBench(const StoredMessage& message, Source& dump, const SchemeChoice* choice,
                         std::optional<float> shared_scale)
    : message_(message),
      dump_(dump),
      choice_(choice),
      shared_scale_(shared_scale),
      id_(id_of(message.schema(), message.message())),
      partners_(match_tensors(message.schema(), dump)) {
  const bool any = std::any_of(partners_.in_dump.begin(), partners_.in_dump.end(), [](const auto& p) { return p; });
  if (!any && !partners_.in_dump.empty()) {
    throw Error(
        Exit::bad_input,
        "no tensor of the file is in the dump, which has other names: not the dump that the file was made from");
  }
  if (choice == nullptr) return;
  chosen_ = choice->stored_text();
  const std::vector<StoredScheme>& schemes = message.schema().schemes;
  if (std::none_of(schemes.begin(), schemes.end(), [&](const StoredScheme& s) { return s.text == chosen_; })) {
    std::string texts;
    for (const StoredScheme& scheme : schemes) texts += (texts.empty() ? "" : ", ") + scheme.text;
    throw Error(Exit::usage, "the file was not made with --scheme " + chosen_ + ", but with " + texts);
  }
}

std::string StoredBench::outside() const {
  return choice_ != nullptr ? "" : "clipped on purpose, or a wrong scale; --scheme, as compress was given it, tells";
}

std::string StoredBench::why_not(size_t tensor) const {
  const std::optional<size_t> partner = partners_.in_dump[tensor];
  if (!partner) return "the dump has no such tensor";
  const Message& message = message_.message();
  if (message_.choice(tensor).remembers() && message.previous.value_or(0) != 0) {
    return "coded with what was remembered of the steps before: verify DUMP --scheme S --state FILE, with the state "
           "from "
           "before it, tests that";
  }
  const DType& type = message_.info(tensor).dtype;
  if (dump_.tensors()[*partner].dtype != type) return "the dump's elements are of another type";
  return "";
}

std::unique_ptr<ValueTrials> StoredBench::open_values(size_t tensor) {
  const size_t partner = *partners_.in_dump[tensor];
  auto values = std::make_unique<DumpTensor>(dump_.tensors()[partner], dump_.open(partner));
  const Schema& schema = message_.schema();
  const bool chosen = choice_ != nullptr && schema.schemes[schema.tensors[tensor].scheme].text == chosen_;
  return std::make_unique<StoredTrials>(message_, tensor, std::move(values), id_, chosen ? choice_ : nullptr,
                                        shared_scale_);
}

std::unique_ptr<ByteCheck> StoredBench::open_bytes(size_t tensor) {
  return std::make_unique<StoredBytes>(message_, tensor, dump_.open(*partners_.in_dump[tensor]));
}

}  // namespace gradcodec
