// SPDX-License-Identifier: Apache-2.0
#include "codec/selection.h"

#include <algorithm>
#include <array>

#include "codec/room.h"

namespace gradcodec {
namespace {

// The last key is found digit by digit, by counting: 11, 11 and 10 bits, the highest first. Counts of a chunk then fit
// the first cache, and those of the chunks that are looked at together some megabytes.
constexpr std::array<uint32_t, 3> kShifts = {21, 10, 0};
constexpr uint32_t kDigits = 2048;
using Counts = std::array<uint32_t, kDigits>;

uint32_t digits_of(uint32_t level) { return level == 2 ? 1024 : kDigits; }

// Of all keys. Neighbours are often equal, and an addition waits for the one before to the same number: hence two.
Counts count_first_digits(std::span<const uint32_t> keys) {
  Counts counts = {}, more = {};
  size_t i = 0;
  for (; i + 1 < keys.size(); i += 2) {
    ++counts[keys[i] >> kShifts[0]];
    ++more[keys[i + 1] >> kShifts[0]];
  }
  if (i < keys.size()) ++counts[keys[i] >> kShifts[0]];
  for (size_t digit = 0; digit < kDigits; ++digit) counts[digit] += more[digit];
  return counts;
}

// Of keys whose higher digits are those of `prefix`. These are first brought together, block by block, without a
// branch: there are often as many of them as make it one of chance.
Counts count_digits(std::span<const uint32_t> keys, uint32_t level, uint32_t prefix) {
  if (level == 0) return count_first_digits(keys);
  constexpr size_t kBlock = 1024;
  const uint32_t above = kShifts[level - 1], shift = kShifts[level], mask = digits_of(level) - 1;
  Counts counts = {};
  std::array<uint32_t, kBlock> digits;
  for (size_t at = 0; at < keys.size(); at += kBlock) {
    uint32_t* to = digits.data();
    for (const uint32_t key : keys.subspan(at, std::min(kBlock, keys.size() - at))) {
      *to = key >> shift & mask;
      to += key >> above == prefix >> above ? 1 : 0;
    }
    for (const uint32_t* digit = digits.data(); digit != to; ++digit) ++counts[*digit];
  }
  return counts;
}

struct Parts {
  uint64_t below = 0, equal = 0;
};

Parts count_about(std::span<const uint32_t> keys, uint32_t last) {
  uint32_t below = 0, equal = 0;  // a chunk has fewer than 2^32; narrow sums are fast
  for (const uint32_t key : keys) {
    below += key < last ? 1 : 0;
    equal += key == last ? 1 : 0;
  }
  return {below, equal};
}

// look(keys of the chunk) for each chunk, by inputs.loop, and add(what it found) in the order of the chunks.
template <typename Look, typename Add>
void for_keys(uint64_t size, const KeyReader& keys, const Inputs& inputs, Look look, Add add) {
  constexpr uint64_t kAtOnce = 256;  // found and not yet added: bounds the memory
  const Chunks chunks(size, inputs);
  std::vector<std::invoke_result_t<Look, std::span<const uint32_t>>> found;
  for (uint64_t first = 0; first < chunks.count(); first += kAtOnce) {
    found.resize(static_cast<size_t>(std::min(kAtOnce, chunks.count() - first)));
    const Job job = [&](uint64_t i) {
      const Range chunk = chunks[first + i];
      Room<uint32_t> room;
      found[static_cast<size_t>(i)] = look(keys(chunk, room.first(chunk.count)));
    };
    if (inputs.loop) {
      inputs.loop(found.size(), job);
    } else {
      for (uint64_t i = 0; i < found.size(); ++i) job(i);
    }
    for (const auto& part : found) add(part);
  }
}

// The key of which `count` or more are at most as large and fewer are smaller; and how many of its equals are taken.
struct Last {
  uint32_t key = 0;
  uint64_t taken = 0;
};

Last find_last(uint64_t size, uint64_t count, const KeyReader& keys, const Inputs& inputs) {
  Last last{0, count};
  for (uint32_t level = 0; level < kShifts.size(); ++level) {
    std::array<uint64_t, kDigits> counts = {};
    const auto look = [&](std::span<const uint32_t> found) { return count_digits(found, level, last.key); };
    for_keys(size, keys, inputs, look, [&](const Counts& part) {
      for (size_t digit = 0; digit < kDigits; ++digit) counts[digit] += part[digit];
    });
    uint32_t digit = 0;
    for (; counts[digit] < last.taken; ++digit) last.taken -= counts[digit];
    last.key |= digit << kShifts[level];
  }
  return last;
}

}  // namespace

Selection select_smallest(uint64_t size, uint64_t count, const KeyReader& keys, const Inputs& inputs) {
  if (count > size) throw Error(Exit::bug, "more elements to select than there are");
  Last last;
  if (count > 0) last = find_last(size, count, keys, inputs);
  Selection selection{last.key, {}};
  const auto look = [&](std::span<const uint32_t> found) { return count_about(found, last.key); };
  for_keys(size, keys, inputs, look, [&](const Parts& part) {
    const uint64_t taken = std::min(part.equal, last.taken);
    last.taken -= taken;
    selection.kept.push_back(part.below + taken);
  });
  return selection;
}

uint64_t count_up_to(std::span<const uint32_t> keys, uint32_t last) {
  const Parts parts = count_about(keys, last);
  return parts.below + parts.equal;
}

bool list_selected(std::span<const uint32_t> keys, uint32_t last, uint64_t kept, std::vector<uint32_t>& places) {
  const auto [below, equal] = count_about(keys, last);
  if (kept < below || kept > below + equal) return false;
  const uint64_t ties = kept - below;
  const auto list = [&](auto is_taken) {
    places.resize(keys.size());  // each is written before it is known to be one
    uint32_t* to = places.data();
    for (size_t i = 0; i < keys.size(); ++i) {
      *to = static_cast<uint32_t>(i);
      to += is_taken(keys[i]) ? 1 : 0;
    }
    places.resize(static_cast<size_t>(kept));
  };
  if (ties == equal) {
    list([last = last](uint32_t key) { return key <= last; });
  } else {
    uint64_t left = ties;
    list([last = last, &left](uint32_t key) {
      const bool tie = key == last && left > 0;
      left -= tie ? 1 : 0;
      return key < last || tie;
    });
  }
  return true;
}

void magnitude_keys(std::span<const float> x, std::span<uint32_t> keys) {
  for (size_t i = 0; i < x.size(); ++i) keys[i] = magnitude_key(x[i]);
}

KeyReader magnitude_keys_of(const Tensor& tensor) {
  return [&tensor](Range chunk, std::span<uint32_t> room) {
    Room<float> scratch;
    magnitude_keys(tensor.read(chunk, scratch.first(chunk.count)), room);
    return std::span<const uint32_t>(room);
  };
}

}  // namespace gradcodec
