// SPDX-License-Identifier: Apache-2.0
#include "format/heaviest.h"

#include <algorithm>
#include <limits>

#include "codec/registry.h"
#include "codec/room.h"
#include "codec/sketch.h"
#include "codec/summable.h"
#include "format/crew.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

constexpr uint64_t kSpare = uint64_t{1} << 16;  // that may be held beyond twice the count before they are cut

// By countsketch, with a memory before it or without; or a sum of such.
bool is_sketched(const StoredScheme& scheme) {
  std::string_view text = scheme.text;
  const auto name = [&] { return text.substr(0, text.find_first_of(":/")); };
  const Scheme* const first = find_scheme(name());
  if (text.starts_with(kTableSums) || (first != nullptr && !first->vectors().empty())) {
    text.remove_prefix(text.find('/') + 1);
  }
  return name() == kSketchScheme;
}

uint64_t elements_among(const Schema& schema, const std::vector<bool>& among) {
  uint64_t total = 0;
  for (size_t i = 0; i < among.size(); ++i) {
    if (among[i] && __builtin_add_overflow(total, schema.tensors[i].info.size(), &total)) return ~uint64_t{0};
  }
  return total;
}

// look(tensor, range, values) for each chunk of the tensors, by several threads.
template <typename Look>
void for_chunks(const StoredMessage& message, const std::vector<bool>& among, unsigned threads, uint64_t memory,
                Progress& progress, Look look) {
  struct Item {
    size_t tensor = 0;
    uint64_t chunk = 0;
    Piece piece;
  };
  size_t tensor = 0;
  uint64_t chunk = 0;
  const Crew crew = crew_for(message.schema(), threads, memory, false);
  run_ordered<Item>(
      crew.threads, crew.slots,
      [&](Item& item) {
        while (tensor < among.size() && (!among[tensor] || chunk == message.chunks(tensor))) {
          ++tensor;
          chunk = 0;
        }
        if (tensor == among.size()) return false;
        item.tensor = tensor;
        item.chunk = chunk++;
        return true;
      },
      [&](Item& item) {
        message.load(item.tensor, item.chunk, item.piece);
        const Range range = item.piece.place.range;
        look(static_cast<uint32_t>(item.tensor), range, item.piece.work.decoded(range.count));
      },
      [&](Item& item) { progress.done += item.piece.place.range.count * message.info(item.tensor).dtype.item_size(); });
}

// Every element whose square is at least a k-th of the whole's, as the tables tell both, but the k largest at most;
// then others, drawn (Ivkin et al., arXiv 1903.04488, algorithm 1, where squares are meant on both sides).
void mix(const StoredMessage& message, uint64_t count, const DecompressOptions& options, Progress& progress,
         Heaviest& out) {
  double squares = 0;
  for (size_t i = 0; i < out.among.size(); ++i) {
    if (!out.among[i]) continue;
    const Decoder& decoder = *message.decoder(i);
    const double factor = decoder.summable()->summands().factor;  // of a mean: what it decodes to is that much smaller
    squares += table_of(decoder)->squares() * factor * factor;
  }
  const double least = squares / static_cast<double>(count);
  const MessageId id = id_of(message.schema(), message.message());
  Foremost heavy(count, options.memory), others(count, options.memory);
  for_chunks(message, out.among, options.threads, options.memory, progress,
             [&](uint32_t tensor, Range range, std::span<const float> values) {
               const auto is_heavy = [&](size_t i) {
                 const auto x = static_cast<double>(values[i]);
                 return !(x * x < least);  // so is what is not a number
               };
               Room<uint32_t> room;
               const std::span<uint32_t> words = room.first(range.count);
               kernels::philox_words(Random(id, tensor).shared_draws(Purpose::fill, kFirstStage), range.first,
                                     words.size(), words.data());
               heavy.add(tensor, range, values,
                         [&](size_t i) { return is_heavy(i) ? heavy_key(values[i]) : Foremost::kNoKey; });
               others.add(tensor, range, values,
                          [&](size_t i) { return is_heavy(i) ? Foremost::kNoKey : uint64_t{words[i]}; });
             });
  out.taken = heavy.all();
  out.heavy = out.taken.size();
  std::vector<Standing> rest = others.all();
  std::sort(rest.begin(), rest.end());
  rest.resize(std::min<size_t>(rest.size(), static_cast<size_t>(count - out.heavy)));
  out.taken.insert(out.taken.end(), rest.begin(), rest.end());
}

void sort_by_place(std::vector<Standing>& list) {
  std::sort(list.begin(), list.end(), [](const Standing& a, const Standing& b) {
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.place < b.place;
  });
}

}  // namespace

Foremost::Foremost(uint64_t count, uint64_t memory) : count_(count) {
  worst_ = {std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint32_t>::max(), ~uint64_t{0}, 0};
  if (count > memory / (2 * sizeof(Standing))) {
    throw Error(Exit::limit,
                "so many elements (" + std::to_string(count) + ") to choose need more memory than --memory allows");
  }
}

Standing Foremost::worst() const {
  const std::lock_guard lock(mutex_);
  return worst_;
}

void Foremost::take(const std::vector<Standing>& found) {
  if (found.empty()) return;
  const std::lock_guard lock(mutex_);
  standing_.insert(standing_.end(), found.begin(), found.end());
  if (standing_.size() > 2 * count_ + kSpare) cut();
}

void Foremost::cut() {
  if (count_ == 0) standing_.clear();
  if (standing_.size() <= count_) return;
  const auto last = standing_.begin() + static_cast<ptrdiff_t>(count_ - 1);
  std::nth_element(standing_.begin(), last, standing_.end());
  worst_ = *last;
  standing_.resize(static_cast<size_t>(count_));
}

std::vector<Standing> Foremost::all() {
  const std::lock_guard lock(mutex_);
  cut();
  sort_by_place(standing_);
  return std::move(standing_);
}

IndexSet Heaviest::set(const Schema& schema, const Message& message) const {
  IndexSet out;
  out.origin = schema.origin;
  out.chunk_log2 = schema.chunk_log2;
  out.step = message.step;
  auto at = taken.begin();
  for (size_t i = 0; i < among.size(); ++i) {
    std::vector<uint64_t> places;
    for (; at != taken.end() && at->tensor == i; ++at) places.push_back(at->place);
    if (!among[i]) continue;
    out.add(schema.tensors[i].info, std::move(places));
  }
  return out;
}

std::vector<bool> tensors_among(const Schema& schema) {
  std::vector<bool> sketched, lossy;
  bool any_sketched = false, any = false;
  for (const SchemaTensor& tensor : schema.tensors) {
    const StoredScheme& scheme = schema.schemes[tensor.scheme];
    sketched.push_back(is_sketched(scheme));
    lossy.push_back(scheme.text != "raw");
    any_sketched |= sketched.back();
    any |= lossy.back();
  }
  if (!any) throw Error(Exit::usage, "has no tensor of a lossy scheme to take the heaviest elements of");
  return any_sketched ? sketched : lossy;
}

Heaviest find_heaviest(std::shared_ptr<const RandomFile> file, const Schema& schema, const HeaviestOptions& wanted,
                       const DecompressOptions& options, Progress& progress, std::unique_ptr<StoredMessage>& message) {
  Heaviest out;
  out.among = tensors_among(schema);
  const uint64_t count = wanted.most.of(elements_among(schema, out.among));
  if (wanted.mix) {
    for (size_t i = 0; i < out.among.size(); ++i) {
      if (out.among[i] && !is_sketched(schema.schemes[schema.tensors[i].scheme])) {
        throw Error(Exit::usage, "has no sketch, which says how large the whole is: --heavymix is for sketches");
      }
    }
    message = std::make_unique<StoredMessage>(std::move(file), options, progress);
    progress.total += total_bytes(schema);
    if (count > 0) in_file(message->file().name(), [&] { mix(*message, count, options, progress, out); });
  } else {
    Foremost heavy(count, options.memory);
    DecompressOptions looking = options;
    looking.seen = [&](const FramePlace& place, std::span<const float> values) {
      if (!out.among[place.tensor]) return;
      heavy.add(static_cast<uint32_t>(place.tensor), place.range, values,
                [&](size_t i) { return uint64_t{heavy_key(values[i])}; });
    };
    message = std::make_unique<StoredMessage>(std::move(file), looking, progress);
    out.taken = heavy.all();
  }
  sort_by_place(out.taken);
  return out;
}

void write_heaviest(const StoredMessage& message, const Heaviest& heaviest, const std::optional<DType>& dtype,
                    Sink& sink, Progress& progress) {
  Piece piece;
  auto at = heaviest.taken.begin();
  for (size_t i = 0; i < message.tensors(); ++i) {
    const TensorInfo& info = message.info(i);
    sink.begin(output_info(info, dtype));
    for (uint64_t chunk = 0; chunk < message.chunks(i); ++chunk) {
      if (!heaviest.among[i]) {
        message.load(i, chunk, piece);
      } else {
        piece.place = message.place(i, chunk);
        const Range range = piece.place.range;
        const std::span<float> values = piece.work.decoded(range.count);
        std::fill(values.begin(), values.end(), 0.0F);
        for (; at != heaviest.taken.end() && at->tensor == i && at->place < range.first + range.count; ++at) {
          values[static_cast<size_t>(at->place - range.first)] = at->value + 0.0F;  // -0 is 0
        }
      }
      message.convert(piece);
      if (piece.place.range.count > 0) sink.write(piece.elements);
      progress.done += piece.place.range.count * info.dtype.item_size();
    }
    sink.end();
  }
}

}  // namespace gradcodec
