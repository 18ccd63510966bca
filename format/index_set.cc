// SPDX-License-Identifier: Apache-2.0
#include "format/index_set.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "codec/registry.h"
#include "format/pipeline.h"
#include "format/stored_message.h"
#include "format/writer.h"

namespace gradcodec {
namespace {

constexpr std::string_view kMask = "mask";

using Places = IndexSet::Places;

// visit(place - range.first) for each place in the range.
template <typename Visit>
void for_places(const Places& places, Range range, Visit visit) {
  const uint64_t end = range.first + range.count;
  for (auto at = std::lower_bound(places.begin(), places.end(), range.first); at != places.end() && *at < end; ++at) {
    visit(static_cast<size_t>(*at - range.first));
  }
}

class MaskTensor final : public Tensor {
 public:
  MaskTensor(std::vector<uint64_t> shape, uint64_t size, std::shared_ptr<const Places> places)
      : shape_(std::move(shape)), size_(size), places_(std::move(places)) {}
  uint64_t size() const override { return size_; }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float> scratch) const override {
    const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
    std::fill(out.begin(), out.end(), 0.0F);
    for_places(*places_, range, [&](size_t i) { out[i] = 1; });
    return out;
  }

 private:
  std::vector<uint64_t> shape_;
  uint64_t size_;
  std::shared_ptr<const Places> places_;
};

// 1 of a float type, as its little-endian bits.
uint64_t one_of(DType::Code code) {
  switch (code) {
    case DType::f2:
      return 0x3C00;
    case DType::bf16:
      return 0x3F80;
    case DType::f4:
      return 0x3F800000;
    default:
      return 0x3FF0000000000000;
  }
}

// The set as the dump that is compressed.
class SetSource final : public Source {
 public:
  explicit SetSource(const IndexSet& set) : set_(set) {
    for (const IndexSet::Entry& entry : set.tensors) infos_.push_back(entry.info);
  }
  DumpKind kind() const override { return set_.origin; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override { return std::make_unique<Data>(set_.tensors[ordinal]); }

 private:
  class Data final : public TensorData {
   public:
    explicit Data(const IndexSet::Entry& entry) : entry_(entry) {}
    void read(Range range, std::span<std::byte> out) const override {
      const uint64_t one = little(one_of(entry_.info.dtype.code));
      const auto item = static_cast<size_t>(entry_.info.dtype.item_size());
      std::fill(out.begin(), out.end(), std::byte{0});
      for_places(*entry_.places, range, [&](size_t i) { std::memcpy(out.data() + i * item, &one, item); });
    }

   private:
    const IndexSet::Entry& entry_;
  };

  const IndexSet& set_;
  std::vector<TensorInfo> infos_;
};

// Some tensors of a dump.
class PartSource final : public Source {
 public:
  PartSource(std::unique_ptr<Source> whole, std::vector<size_t> ordinals)
      : whole_(std::move(whole)), ordinals_(std::move(ordinals)) {
    for (const size_t ordinal : ordinals_) infos_.push_back(whole_->tensors()[ordinal]);
  }
  DumpKind kind() const override { return whole_->kind(); }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override { return whole_->open(ordinals_[ordinal]); }

 private:
  std::unique_ptr<Source> whole_;
  std::vector<size_t> ordinals_;
  std::vector<TensorInfo> infos_;
};

std::string hex(uint64_t check) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(check));
  return text;
}

}  // namespace

void IndexSet::add(const TensorInfo& info, Places places) {
  by_name.emplace(info.name, tensors.size());
  tensors.push_back({info, std::make_shared<const Places>(std::move(places))});
}

uint64_t IndexSet::count() const {
  uint64_t total = 0;
  for (const Entry& entry : tensors) total += entry.places->size();
  return total;
}

const IndexSet::Entry* IndexSet::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &tensors[found->second];
}

std::shared_ptr<const Tensor> IndexSet::mask_of(const TensorInfo& info) const {
  const Entry* const entry = find(info.name);
  if (entry == nullptr) return nullptr;
  if (entry->info.shape != info.shape) {
    throw Error(Exit::bad_input, "is of shape " + shape_text(info.shape) + ", and " + shape_text(entry->info.shape) +
                                     " in the index set")
        .in_tensor(info.name);
  }
  return std::make_shared<MaskTensor>(info.shape, info.size(), entry->places);
}

IndexSet read_index_set(std::shared_ptr<const RandomFile> given, unsigned threads, uint64_t memory) {
  Progress progress;
  DecompressOptions options;
  options.threads = threads;
  options.memory = memory;
  const StoredMessage file(std::move(given), options, progress, FileKind::indices);
  IndexSet set;
  set.origin = file.schema().origin;
  set.chunk_log2 = file.schema().chunk_log2;
  set.step = file.message().step;
  set.check = file.end_check();
  set.file = file.file().name();
  Piece piece;
  uint64_t listed = 0;
  for (size_t i = 0; i < file.tensors(); ++i) {
    const TensorInfo& info = file.info(i);
    Places places;
    for (uint64_t chunk = 0; chunk < file.chunks(i); ++chunk) {
      file.load(i, chunk, piece);
      if (!piece.work.code.exceptions.empty()) {
        throw Error(Exit::bad_input, "an index set has no exceptions").in_tensor(info.name).in_file(file.file().name());
      }
      const std::span<const float> marks = piece.work.decoded(piece.place.range.count);
      for (size_t j = 0; j < marks.size(); ++j) {
        if (marks[j] != 0) places.push_back(piece.place.range.first + j);
      }
      if (listed + places.size() > memory / sizeof(uint64_t)) {
        throw Error(Exit::limit, "lists so many places that they need more memory than --memory allows")
            .in_file(file.file().name());
      }
    }
    listed += places.size();
    set.add(info, std::move(places));
  }
  return set;
}

void write_index_set(const IndexSet& set, OutputFile& output, unsigned threads, uint64_t memory) {
  SetSource source(set);
  CompressOptions options;
  options.scheme = parse_scheme(kMask);
  options.coders = coders_for_level(1);  // there is nothing to code
  options.id.step = set.step;
  options.chunk_log2 = set.chunk_log2;
  options.threads = threads;
  options.memory = memory;
  const Schema schema = plan_schema(source, options);
  ContainerWriter writer(output);
  writer.begin(schema, {}, {}, plan_message(schema, options.id), FileKind::indices);
  Progress progress;
  compress(source, schema, std::vector<SchemeChoice>(schema.schemes.size(), options.scheme), options, writer, progress);
}

std::unique_ptr<Source> asked_for(std::unique_ptr<Source> dump, const IndexSet& set) {
  const std::vector<TensorInfo>& tensors = dump->tensors();
  std::vector<size_t> ordinals;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const IndexSet::Entry* const entry = set.find(tensors[i].name);
    if (entry == nullptr) continue;
    if (!tensors[i].dtype.is_float() || tensors[i].shape != entry->info.shape) {
      throw Error(Exit::usage, "is " + tensors[i].dtype.name() + " of shape " + shape_text(tensors[i].shape) +
                                   ", and the index set asks for floats of shape " + shape_text(entry->info.shape))
          .in_tensor(tensors[i].name);
    }
    ordinals.push_back(i);
  }
  std::set<std::string_view> names;
  for (const TensorInfo& info : tensors) names.insert(info.name);
  for (const IndexSet::Entry& entry : set.tensors) {
    if (names.count(entry.info.name) != 0) continue;
    throw Error(Exit::usage, "the index set asks for it, and the dump has none").in_tensor(entry.info.name);
  }
  return std::make_unique<PartSource>(std::move(dump), std::move(ordinals));
}

void check_answer(const Schema& schema, const Message& message, const IndexSet* set) {
  if (!asks_for_set(schema)) {
    if (set == nullptr) return;
    throw Error(Exit::usage, "answers no index set: --at has no place here");
  }
  if (!message.side) throw Error(Exit::bad_input, "has values at the places of an index set and does not say of which");
  if (set == nullptr) {
    throw Error(Exit::usage, "answers the index set whose check is " + hex(*message.side) + ": --at SET");
  }
  if (*message.side != set->check) {
    throw Error(Exit::bad_input, "answers the index set whose check is " + hex(*message.side) + ", and that of '" +
                                     escaped(set->file) + "' is " + hex(set->check));
  }
  for (const SchemaTensor& tensor : schema.tensors) {
    if (set->find(tensor.info.name) == nullptr) {
      throw Error(Exit::bad_input, "is not in the index set").in_tensor(tensor.info.name);
    }
  }
}

}  // namespace gradcodec
