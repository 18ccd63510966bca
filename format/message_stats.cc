// SPDX-License-Identifier: Apache-2.0
#include "format/message_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/checks/entropy.h"
#include "codec/values.h"
#include "format/crew.h"
#include "format/forms.h"
#include "format/ordered.h"
#include "format/partners.h"

namespace gradcodec {
namespace {

constexpr uint64_t kBlock = 4096;  // elements compared at once

// Exactly, whatever the float type.
std::span<const double> as_doubles(const DType& dtype, ByteView elements, std::array<double, kBlock>& out) {
  const size_t count = elements.size() / static_cast<size_t>(dtype.item_size());
  if (dtype.code == DType::f8) {
    load_little(elements.data(), std::span(out).first(count));
  } else {
    std::array<float, kBlock> values;
    widen(dtype, elements, std::span(values).first(count));
    std::copy_n(values.begin(), count, out.begin());
  }
  return std::span(out).first(count);
}

// One chunk on its way.
struct ChunkWork {
  size_t tensor = 0;
  uint64_t chunk = 0;
  std::shared_ptr<const TensorData> data;  // null: nothing to compare with
  Piece piece;
  Bytes original;
  std::vector<SymbolCounts> counts;  // one a stream
  uint64_t symbol_bytes = 0, unequal = 0;
  bool beyond_type = false;
  ReconstructionSums sums;
  SideFit fit;
  std::vector<float> x, y;
};

class Statistician {
 public:
  Statistician(const StoredMessage& message, Source* dump, Progress& progress)
      : message_(message), dump_(dump), progress_(progress) {
    progress_.total += total_bytes(message.schema());
    out_.parts = message.accounts();
    out_.tensors.resize(message.tensors());
    for (size_t i = 0; i < message.tensors(); ++i) begin_tensor(i);
    if (dump_ == nullptr) return;
    Partners partners = in_file(message.file().name(), [&] { return match_tensors(message.schema(), *dump); });
    partners_ = std::move(partners.in_dump);
    out_.only_in_file = std::move(partners.only_in_file);
    out_.only_in_dump = std::move(partners.only_in_dump);
  }

  MessageStats run(unsigned threads, uint64_t memory) {
    const Crew crew = crew_for(message_.schema(), threads, memory, false);
    run_ordered<ChunkWork>(
        crew.threads, crew.slots, [this](ChunkWork& item) { return make(item); },
        [this](ChunkWork& item) { work(item); }, [this](ChunkWork& item) { take(item); });
    end_message();
    return std::move(out_);
  }

 private:
  void begin_tensor(size_t tensor) {
    TensorStats& stats = out_.tensors[tensor];
    const TensorInfo& info = message_.info(tensor);
    const TensorTally& tally = message_.tallies()[tensor];
    stats.name = info.name;
    stats.values = info.size();
    stats.element_bytes = info.byte_size();
    stats.frames = tally.frames;
    stats.bytes = tally.bytes();
  }

  bool make(ChunkWork& item) {
    if (next_tensor_ == message_.tensors()) return false;
    if (next_chunk_ == 0) open_partner(next_tensor_);
    item.tensor = next_tensor_;
    item.chunk = next_chunk_;
    item.data = data_;
    if (++next_chunk_ == message_.chunks(next_tensor_)) {
      ++next_tensor_;
      next_chunk_ = 0;
    }
    return true;
  }

  void open_partner(size_t tensor) {
    data_.reset();
    if (dump_ == nullptr || !partners_[tensor]) return;
    in_tensor(message_.info(tensor), [&] { data_ = dump_->open(*partners_[tensor]); });
  }

  void work(ChunkWork& item) const {
    message_.load(item.tensor, item.chunk, item.piece);
    count(item);
    item.sums = {};
    item.unequal = 0;
    item.beyond_type = false;
    if (!item.data) return;
    in_tensor(message_.info(item.tensor), [&] {
      if (has_side(item.tensor)) measure_side(item);
      compare(item);
    });
  }

  // Side information whose distance counts, and not the places of an index set.
  bool has_side(size_t tensor) const {
    return message_.side(tensor) != nullptr && message_.choice(tensor).scheme->takes_side();
  }

  void measure_side(ChunkWork& item) const {
    const Range range = item.piece.place.range;
    const DType& theirs = dump_->tensors()[*partners_[item.tensor]].dtype;
    item.original.resize(static_cast<size_t>(range.count * theirs.item_size()));
    item.data->read(range, item.original);
    for (std::vector<float>* room : {&item.x, &item.y}) room->resize(static_cast<size_t>(range.count));
    widen(theirs, item.original, item.x);
    const Workspace& work = item.piece.work;
    item.fit = {};
    item.fit.add(*message_.decoder(item.tensor)->side_need(), item.x, message_.side(item.tensor)->read(range, item.y),
                 work.values, work.code.exceptions);
  }

  void count(ChunkWork& item) const {
    const Code& code = item.piece.work.code;
    const StreamList streams(code);
    item.counts.assign(streams.size(), {});
    for (size_t i = 0; i < streams.size(); ++i) item.counts[i].add(streams[i]);
    Bytes side;
    write_exceptions(code.exceptions, side);
    write_params(code, side);
    item.symbol_bytes = item.piece.frame.payload.size() - message_.params_of(item.piece).size() - side.size();
  }

  // Sets the piece's elements; their type, which is float32 where the tensor's own cannot hold them.
  DType decoded_type(ChunkWork& item) const {
    try {
      message_.convert(item.piece);
      return message_.info(item.tensor).dtype;
    } catch (const Error& error) {
      if (error.code() != Exit::limit) throw;
    }
    item.beyond_type = true;
    const std::span<const float> values = item.piece.work.values;
    item.piece.converted.resize(values.size_bytes());
    store_little(values, item.piece.converted.data());
    item.piece.elements = item.piece.converted;
    return {};
  }

  void compare(ChunkWork& item) const {
    const Range range = item.piece.place.range;
    const DType theirs = dump_->tensors()[*partners_[item.tensor]].dtype, ours = decoded_type(item);
    item.original.resize(static_cast<size_t>(range.count * theirs.item_size()));
    item.data->read(range, item.original);
    if (ours.item_size() == 0) return;  // however many, they are all equal
    for (uint64_t at = 0; at < range.count; at += kBlock) {
      const uint64_t n = std::min(kBlock, range.count - at);
      const auto part = [&](ByteView bytes, const DType& type) {
        const auto size = static_cast<size_t>(type.item_size());
        return bytes.subspan(static_cast<size_t>(at) * size, static_cast<size_t>(n) * size);
      };
      compare_block(item, range.first + at, theirs, part(item.original, theirs), ours, part(item.piece.elements, ours));
    }
  }

  static void compare_block(ChunkWork& item, uint64_t first, const DType& theirs, ByteView original, const DType& ours,
                            ByteView decoded) {
    if (theirs == ours) {
      const auto size = static_cast<size_t>(ours.item_size());
      for (size_t at = 0; at < decoded.size(); at += size) {
        item.unequal += std::memcmp(decoded.data() + at, original.data() + at, size) != 0 ? 1 : 0;
      }
    }
    if (!ours.is_float()) return;
    std::array<double, kBlock> x_room, decoded_room;
    const std::span<const double> x = as_doubles(theirs, original, x_room);
    const std::span<const double> values = as_doubles(ours, decoded, decoded_room);
    if (theirs != ours) {
      for (size_t i = 0; i < x.size(); ++i)
        item.unequal += x[i] == values[i] || (std::isnan(x[i]) && std::isnan(values[i])) ? 0 : 1;
    }
    item.sums.add(x, values, item.tensor, first);
  }

  void take(ChunkWork& item) {
    TensorStats& stats = out_.tensors[item.tensor];
    counts_.resize(std::max(counts_.size(), item.counts.size()));
    for (size_t i = 0; i < item.counts.size(); ++i) counts_[i].merge(item.counts[i]);
    stats.exceptions += item.piece.work.code.exceptions.size();
    stats.symbol_bytes += item.symbol_bytes;
    if (item.data) {
      if (!stats.comparison) stats.comparison.emplace();
      stats.comparison->unequal += item.unequal;
      stats.comparison->beyond_type += item.beyond_type ? 1 : 0;
      sums_.merge(item.sums);
      if (has_side(item.tensor)) {
        if (!stats.fit) stats.fit.emplace();
        stats.fit->merge(item.fit);
      }
    }
    progress_.done += item.piece.place.range.count * message_.info(item.tensor).dtype.item_size();
    item.data.reset();  // the last one closes the tensor
    if (item.piece.place.ends_tensor()) end_tensor(stats, message_.info(item.tensor).dtype.is_float());
  }

  void end_tensor(TensorStats& stats, bool floats) {
    for (const SymbolCounts& counts : counts_) {
      stats.symbols += counts.symbols();
      stats.ideal_bits += counts.bits();
    }
    if (stats.comparison && floats) {
      stats.comparison->values = sums_.result();
      whole_sums_.merge(sums_);
    }
    counts_.clear();
    sums_ = {};
  }

  void end_message() {
    TensorStats& whole = out_.whole;
    bool floats = false;
    for (const TensorStats& stats : out_.tensors) {
      whole.values += stats.values;
      whole.element_bytes += stats.element_bytes;
      whole.frames += stats.frames;
      whole.exceptions += stats.exceptions;
      whole.symbols += stats.symbols;
      whole.symbol_bytes += stats.symbol_bytes;
      whole.ideal_bits += stats.ideal_bits;
      if (!stats.comparison) continue;
      if (stats.fit) {
        if (!whole.fit) whole.fit.emplace();
        whole.fit->merge(*stats.fit);
      }
      if (!whole.comparison) whole.comparison.emplace();
      whole.comparison->unequal += stats.comparison->unequal;
      whole.comparison->beyond_type += stats.comparison->beyond_type;
      floats |= stats.comparison->values.has_value();
    }
    whole.bytes = out_.parts.total();
    if (floats) whole.comparison->values = whole_sums_.result();
  }

  const StoredMessage& message_;
  Source* dump_;
  Progress& progress_;
  std::vector<std::optional<size_t>> partners_;  // in the dump
  MessageStats out_;
  size_t next_tensor_ = 0;
  uint64_t next_chunk_ = 0;
  std::shared_ptr<const TensorData> data_;  // of the next chunk's partner
  std::vector<SymbolCounts> counts_;        // of the tensor whose chunks are taken
  ReconstructionSums sums_, whole_sums_;
};

std::optional<double> quotient(double dividend, double divisor) {
  if (divisor == 0) return std::nullopt;
  return dividend / divisor;
}

}  // namespace

std::optional<double> TensorStats::bits_per_value() const {
  return quotient(8 * static_cast<double>(bytes), static_cast<double>(values));
}

std::optional<double> TensorStats::entropy_per_symbol() const {
  return quotient(ideal_bits, static_cast<double>(symbols));
}

std::optional<double> TensorStats::entropy_per_value() const {
  return quotient(ideal_bits, static_cast<double>(values));
}

double TensorStats::excess_bits() const { return 8 * static_cast<double>(symbol_bytes) - ideal_bits; }

std::optional<double> TensorStats::excess_percent() const { return quotient(100 * excess_bits(), ideal_bits); }

MessageStats message_stats(const StoredMessage& message, Source* dump, unsigned threads, uint64_t memory,
                           Progress& progress) {
  return Statistician(message, dump, progress).run(threads, memory);
}

}  // namespace gradcodec
