// The heaviest elements of a message, over all its tensors together: what the server of Sketched-SGD takes from a
// sketch, or from the answers to an index set. spec/rounds.md, "The heaviest
// elements".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "codec/params.h"
#include "format/index_set.h"
#include "format/stored_message.h"

namespace gradcodec {

// An element, and how it stands among others: those of smaller key first, then by tensor and place.
struct Standing {
  uint32_t key = 0;
  uint32_t tensor = 0;
  uint64_t place = 0;
  float value = 0;

  bool operator<(const Standing& other) const {
    if (key != other.key) return key < other.key;
    return tensor != other.tensor ? tensor < other.tensor : place < other.place;
  }
};

// The first `count` of all that are added, in whatever order and by whatever threads. Holds about twice as many.
class Foremost {
 public:
  // Throws Error(limit) if they take more than `memory`.
  Foremost(uint64_t count, uint64_t memory);

  // key_of(i) of value i of those of `range`; kNoKey: it is none of them.
  static constexpr uint64_t kNoKey = ~uint64_t{0};
  template <typename KeyOf>
  void add(uint32_t tensor, Range range, std::span<const float> values, KeyOf key_of) {
    thread_local std::vector<Standing> found;
    found.clear();
    const Standing last = worst();
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t key = key_of(i);
      if (key > last.key) continue;
      const Standing one{static_cast<uint32_t>(key), tensor, range.first + i, values[i]};
      if (one < last) found.push_back(one);
    }
    take(found);
  }

  std::vector<Standing> all();  // sorted by tensor and place; nothing is left here

  uint64_t count() const { return count_; }

 private:
  Standing worst() const;
  void take(const std::vector<Standing>& found);
  void cut();

  const uint64_t count_;
  mutable std::mutex mutex_;
  Standing worst_;  // nothing that stands behind it is among them
  std::vector<Standing> standing_;
};

// By magnitude, the largest first, as bits without sign: what is not a number or infinite stands before all others.
inline uint32_t heavy_key(float x) { return 0x7FFFFFFF - (std::bit_cast<uint32_t>(x) & 0x7FFFFFFF); }

// What is taken of a message.
struct Heaviest {
  std::vector<bool> among;      // of each tensor, whether its elements were looked at
  std::vector<Standing> taken;  // sorted by tensor and place
  uint64_t heavy = 0;           // of HEAVYMIX: how many of them are heavy
  IndexSet set(const Schema& schema, const Message& message) const;
};

// Which tensors are looked at: those that are sketched; if none is, those of lossy schemes. Throws Error(usage) if
// there are none.
std::vector<bool> tensors_among(const Schema& schema);

// The `most` heaviest, or so many in a hundred of their elements. Reads the file once, and gives it for what is to be
// done with it.
struct HeaviestOptions {
  Amount most;
  bool mix = false;  // HEAVYMIX
};
Heaviest find_heaviest(std::shared_ptr<const RandomFile> file, const Schema& schema, const HeaviestOptions& wanted,
                       const DecompressOptions& options, Progress& progress, std::unique_ptr<StoredMessage>& message);

// The message's tensors with 0 for all that was not taken; those that were not looked at as they are.
void write_heaviest(const StoredMessage& message, const Heaviest& heaviest, const std::optional<DType>& dtype,
                    Sink& sink, Progress& progress);

}  // namespace gradcodec
