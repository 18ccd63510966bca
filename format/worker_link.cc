// SPDX-License-Identifier: Apache-2.0
#include "format/worker_link.h"

#include <cstring>
#include <utility>

#include "format/message_writer.h"

namespace gradcodec {
namespace {

class ValueSource final : public Source {
 public:
  ValueSource(const std::vector<TensorInfo>& tensors, const TensorValues& values)
      : tensors_(tensors), values_(values) {}
  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override { return std::make_unique<Data>(values_[ordinal]); }

 private:
  class Data final : public TensorData {
   public:
    explicit Data(const std::vector<float>& values) : values_(values) {}
    void read(Range range, std::span<std::byte> out) const override { store_little(of(range), out.data()); }
    ByteView view(Range range) const override { return kSwapsBytes ? ByteView() : std::as_bytes(of(range)); }

   private:
    std::span<const float> of(Range range) const {
      return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
    }

    const std::vector<float>& values_;
  };

  const std::vector<TensorInfo>& tensors_;
  const TensorValues& values_;
};

class ValueSink final : public Sink {
 public:
  explicit ValueSink(TensorValues& values) : values_(values) {}
  void begin(const TensorInfo& info) override {
    values_.emplace_back(static_cast<size_t>(info.size()));
    at_ = 0;
  }
  void write(ByteView elements) override {
    const size_t count = elements.size() / sizeof(float);
    load_little(elements.data(), std::span(values_.back()).subspan(at_, count));
    at_ += count;
  }
  void end() override {}
  void finish() override {}

 private:
  TensorValues& values_;
  size_t at_ = 0;
};

std::vector<std::string> vectors_of(const SchemeChoice& scheme) {
  std::vector<std::string> out;
  for (const std::string_view name : scheme.scheme->vectors()) out.emplace_back(name);
  return out;
}

}  // namespace

std::unique_ptr<Source> source_of(const std::vector<TensorInfo>& tensors, const TensorValues& values) {
  return std::make_unique<ValueSource>(tensors, values);
}

std::shared_ptr<const RandomFile> encode_values(const std::vector<TensorInfo>& tensors, const TensorValues& values,
                                                const CompressOptions& options, const Message& message,
                                                uint64_t* end_check, std::vector<std::string>* warnings) {
  ValueSource source(tensors, values);
  auto file = RandomFile::in_memory("message");
  OutputFile output(file);
  Progress progress;
  const uint64_t check = write_message(source, options, message, output, progress);
  output.commit();
  if (end_check != nullptr) *end_check = check;
  if (warnings != nullptr) {
    for (const auto& [tensor, text] : progress.warnings) warnings->push_back(tensor + ": " + text);
  }
  return file;
}

TensorValues decode_values(const std::shared_ptr<const RandomFile>& message, const DecompressOptions& given) {
  DecompressOptions options = given;
  if (!options.wanted) options.wanted = [](const TensorInfo&) { return true; };
  options.dtype = DType{};
  InputStream input(message);
  ContainerReader reader(input, options.memory);
  if (!reader.begin()) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
  const Schema& schema = reader.schema();
  check_claims(input, schema);
  TensorValues out;
  ValueSink sink(out);
  Progress progress;
  const MessageId id = id_of(schema, reader.message(), reader.kind());
  const std::vector<uint32_t> decoded = decompress(reader, schema, id, options, &sink, progress);
  const std::vector<uint32_t> stored = reader.finish();
  reader.expect_end_of_input();
  compare_digests(schema, options, stored, decoded);
  return out;
}

WorkerLink::WorkerLink(Options options, std::vector<TensorInfo> tensors)
    : options_(std::move(options)), tensors_(std::move(tensors)) {
  if (!options_.scheme.remembers()) return;
  std::vector<TensorInfo> remembered;
  for (const TensorInfo& info : tensors_) {
    if (info.size() >= options_.min_elements) remembered.push_back(info);
  }
  sender_ = Remembered(vectors_of(options_.scheme), remembered, options_.memory);
  if (!options_.scheme.scheme->decoder_remembers()) return;
  receiver_ = Remembered(vectors_of(options_.scheme), remembered, options_.memory);
}

WorkerLink::Delivery WorkerLink::encode(uint64_t step, const TensorValues& values, const SchemeChoice* own_scheme) {
  CompressOptions options;
  options.scheme = own_scheme == nullptr ? options_.scheme : *own_scheme;
  options.coders = options_.coders;
  options.id = {options_.seed, options_.worker, step};
  options.min_elements = options_.min_elements;
  options.shared_scale = options_.shared_scale;
  options.shared_scales = shared_scales_;
  options.chunk_log2 = options_.chunk_log2;
  options.memory = options_.memory;
  options.threads = options_.threads;
  options.warns = previous_ == 0;
  options.memory_of = [this](const TensorInfo& info) { return sender_.of(info.name); };
  Message message;
  message.previous = previous_;
  Delivery delivery;
  delivery.message = encode_values(tensors_, values, options, message, &previous_, &delivery.warnings);
  delivery.bytes = delivery.message->size();
  return delivery;
}

TensorValues WorkerLink::decode(const std::shared_ptr<const RandomFile>& message,
                                const std::function<std::shared_ptr<const Tensor>(const TensorInfo&)>& side) {
  DecompressOptions options;
  options.memory = options_.memory;
  options.threads = options_.threads;
  options.side_of = side;
  if (receiver_.tensors() > 0) options.memory_of = [this](const TensorInfo& info) { return receiver_.of(info.name); };
  return decode_values(message, options);
}

WorkerLink::Delivery WorkerLink::send(uint64_t step, const TensorValues& values, const SchemeChoice* own_scheme,
                                      const std::function<std::shared_ptr<const Tensor>(const TensorInfo&)>& side) {
  Delivery delivery = encode(step, values, own_scheme);
  delivery.decoded = decode(delivery.message, side);
  return delivery;
}

}  // namespace gradcodec
