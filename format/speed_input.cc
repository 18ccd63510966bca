// SPDX-License-Identifier: Apache-2.0
#include "format/speed_input.h"

#include <algorithm>
#include <array>

#include "codec/kernels/kernels.h"
#include "format/crew.h"
#include "format/dump_tensor.h"

namespace gradcodec {
namespace {

constexpr uint64_t kRun = 4096;  // values of one scale, and read or made at once
constexpr kernels::Draws kBells = {{1, 0}, 0, 0}, kFactors = {{1, 0}, 1, 0}, kScales = {{1, 0}, 2, 0};

float bell_of(uint32_t word) {
  uint32_t sum = 0;
  for (int shift = 0; shift < 32; shift += 8) sum += word >> shift & 0xFF;
  return static_cast<float>(sum) - 510;
}

// The values of one tensor, as many as there is room for. Returns how many.
size_t read_tensor(Source& source, size_t ordinal, std::span<float> room) {
  const TensorInfo& info = source.tensors()[ordinal];
  return in_tensor(info, [&] {
    const DumpTensor tensor(info, source.open(ordinal));
    const size_t count = static_cast<size_t>(std::min<uint64_t>(info.size(), room.size()));
    for (size_t at = 0; at < count; at += kRun) {
      const Range range{at, std::min<uint64_t>(kRun, count - at)};
      tensor.read(range, room.subspan(at, static_cast<size_t>(range.count)));
    }
    return count;
  });
}

}  // namespace

uint64_t float_values(const Source& source) {
  uint64_t total = 0;
  for (const TensorInfo& info : source.tensors()) {
    if (info.dtype.is_float() && __builtin_add_overflow(total, info.size(), &total)) return ~uint64_t{0};
  }
  return total;
}

std::vector<float> made_input(uint64_t size) {
  std::vector<float> out(static_cast<size_t>(size));
  std::array<uint32_t, kRun> bells, factors;
  for (uint64_t first = 0; first < size; first += kRun) {
    const auto count = static_cast<size_t>(std::min(kRun, size - first));
    uint32_t scale = 0;
    kernels::philox_words(kBells, first, count, bells.data());
    kernels::philox_words(kFactors, first, count, factors.data());
    kernels::philox_words(kScales, first / kRun, 1, &scale);
    const float unit = 0x1p-35F * static_cast<float>(8 >> (scale & 3));  // of a word of 24 bits
    for (size_t i = 0; i < count; ++i) {
      out[first + i] = bell_of(bells[i]) * (static_cast<float>(factors[i] >> 8) + 0.5F) * (unit / 8);
    }
  }
  return out;
}

std::vector<float> dump_input(Source& source, uint64_t size) {
  std::vector<float> out(static_cast<size_t>(size));
  size_t at = 0;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    if (source.tensors()[i].dtype.is_float()) at += read_tensor(source, i, std::span(out).subspan(at));
  }
  const size_t period = at;
  for (; at < out.size(); ++at) out[at] = out[at - period];
  return out;
}

}  // namespace gradcodec
