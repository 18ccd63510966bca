// SPDX-License-Identifier: Apache-2.0
#include "format/side_info.h"

#include <algorithm>
#include <vector>

#include "codec/checksum.h"
#include "format/crew.h"
#include "format/dump_tensor.h"

namespace gradcodec {
namespace {

// float32 elements one after another in a temporary file.
class SpooledData final : public TensorData {
 public:
  SpooledData(std::shared_ptr<const RandomFile> file, uint64_t offset) : file_(std::move(file)), offset_(offset) {}
  void read(Range range, std::span<std::byte> out) const override {
    file_->read_at(offset_ + range.first * sizeof(float), out);
  }

 private:
  std::shared_ptr<const RandomFile> file_;
  uint64_t offset_;
};

// What was spooled, as a dump; and what spools it.
class Spool final : public Source, public Sink {
 public:
  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override {
    return std::make_unique<SpooledData>(file_, offsets_[ordinal]);
  }

  void begin(const TensorInfo& info) override {
    tensors_.push_back(info);
    offsets_.push_back(size_);
  }
  void write(ByteView elements) override {
    file_->write_at(size_, elements);
    size_ += elements.size();
  }
  void end() override {}
  void finish() override {}

 private:
  std::shared_ptr<RandomFile> file_ = RandomFile::temporary();
  uint64_t size_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> offsets_;
};

// A tensor that keeps alive what it reads from.
class HeldTensor final : public Tensor {
 public:
  HeldTensor(std::shared_ptr<const Source> source, const TensorInfo& info, std::unique_ptr<TensorData> data)
      : source_(std::move(source)), tensor_(info, std::move(data)) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }
  std::span<const float> read(Range range, std::span<float> scratch) const override {
    return tensor_.read(range, scratch);
  }

 private:
  std::shared_ptr<const Source> source_;
  DumpTensor tensor_;
};

// Of all values for one tensor: as its digest would be if they were its own, but all of it.
uint64_t digest_of(const Tensor& values, uint64_t chunk_len) {
  const uint64_t size = values.size();
  std::vector<uint64_t> chunks;
  std::vector<float> room(static_cast<size_t>(std::min(size, chunk_len)));
  for (uint64_t i = 0; i < chunk_count(size, chunk_len); ++i) {
    const Range range{i * chunk_len, std::min(chunk_len, size - i * chunk_len)};
    chunks.push_back(checksum(LittleBytes<float>(values.read(range, room)), 0));
  }
  return checksum(LittleBytes<uint64_t>(chunks), 0);
}

}  // namespace

std::shared_ptr<SideInfo> SideInfo::from_dump(const std::shared_ptr<RandomFile>& file, std::unique_ptr<Source> source) {
  std::shared_ptr<SideInfo> side(new SideInfo(file));
  side->source_ = std::move(source);
  const std::vector<TensorInfo>& tensors = side->source_->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) side->names_.emplace(tensors[i].name, i);
  return side;
}

std::shared_ptr<SideInfo> SideInfo::from_message(const std::shared_ptr<RandomFile>& file, unsigned threads,
                                                 uint64_t memory) {
  return in_file(file->name(), [&] {
    InputStream input(file);
    ContainerReader reader(input, memory);
    if (!reader.begin() || (reader.kind() != FileKind::message && reader.kind() != FileKind::sum)) {
      throw Error(Exit::usage, "holds no tensors: a dump, a message or a sum was expected as side information");
    }
    const Schema& schema = reader.schema();
    check_holds_tensors(reader.kind(), schema);
    check_claims(input, schema);
    for (const KnownScheme& scheme : parse_schemes(schema)) {
      if (scheme.choice.scheme == nullptr) continue;
      if (!scheme.choice.takes_side() && !needs_memory(reader.message(), scheme.choice) && !asks_for_set(schema))
        continue;
      throw Error(Exit::usage, "needs more than itself to be decoded: decompress it first, and give the dump");
    }
    DecompressOptions options;
    options.wanted = [](const TensorInfo& info) { return info.dtype.is_float(); };
    options.dtype = DType{};
    options.threads = threads;
    options.memory = memory;
    auto spool = std::make_unique<Spool>();
    Progress progress;
    const std::vector<uint32_t> decoded =
        decompress(reader, schema, id_of(schema, reader.message(), reader.kind()), options, spool.get(), progress);
    const std::vector<uint32_t> stored = reader.finish();
    reader.expect_end_of_input();
    compare_digests(schema, options, stored, decoded);
    std::shared_ptr<SideInfo> side = from_dump(file, std::move(spool));
    side->message_check_ = reader.end_check();
    return side;
  });
}

std::shared_ptr<const Tensor> SideInfo::of(const TensorInfo& info) const {
  const auto fail = [&](const std::string& text) {
    throw Error(Exit::bad_input, text).in_tensor(info.name).in_file(file_->name());
  };
  const auto found = names_.find(info.name);
  if (found == names_.end()) fail("is not in this file, which is to be the side information for it");
  const TensorInfo& theirs = source_->tensors()[found->second];
  if (theirs.shape != info.shape) {
    fail("has the shape " + shape_text(theirs.shape) + " in the side information, not " + shape_text(info.shape));
  }
  if (!theirs.dtype.is_float()) fail("is of type " + theirs.dtype.name() + " in the side information, not of floats");
  const std::lock_guard lock(mutex_);
  return std::make_shared<HeldTensor>(source_, theirs, source_->open(found->second));
}

uint64_t SideInfo::digest(const Schema& schema) const {
  if (message_check_) return *message_check_;
  const std::vector<KnownScheme> schemes = parse_schemes(schema);
  std::vector<uint64_t> digests;
  for (const SchemaTensor& tensor : schema.tensors) {
    const Scheme* scheme = schemes[tensor.scheme].choice.scheme;
    if (scheme == nullptr || !scheme->takes_side()) continue;
    const std::shared_ptr<const Tensor> values = of(tensor.info);
    digests.push_back(in_file(file_->name(), [&] {
      return in_tensor(tensor.info, [&] { return digest_of(*values, schema.chunk_len(tensor)); });
    }));
  }
  return checksum(LittleBytes<uint64_t>(digests), 0);
}

void SideInfo::check(const Schema& schema, const Message& message) const {
  if (!message.side || *message.side == digest(schema)) return;
  throw Error(Exit::bad_input,
              "is not the side information that compress was given: the digest that the message holds is another")
      .in_file(file_->name());
}

std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> side_of(std::shared_ptr<const SideInfo> side) {
  if (!side) return {};
  return [side = std::move(side)](const TensorInfo& info) { return side->of(info); };
}

}  // namespace gradcodec
