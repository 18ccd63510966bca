// What prepare learns from reading a tensor: maxima, sums, and whether every value may be quantized.
//
// A value is *regular* if it is finite and at most 2^126 in magnitude. The others are kept exactly, as exceptions; they
// count in no maximum and no sum. (Above 2^126 a decoded value, up to 1.5 steps from zero, could overflow.)
//
// Sums are defined: 16 interleaved float64 partial sums a chunk, added in the order that kernels::Sums::total states,
// chunks in order. So they are equal on every machine, whoever sums which chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "codec/scheme.h"
#include "codec/tensor.h"

namespace gradcodec {

struct Extent {
  float max = 0;           // largest regular magnitude; 0 if there is none
  uint64_t irregular = 0;  // how many values are not regular
};

// One pass. Throws Error(bad_input) naming the index of the first NaN or infinity if the policy is `error`.
Extent scan_extent(const Tensor& tensor, const Inputs& inputs);

struct Energy {
  Extent extent;
  double squares = 0;  // sum of x^2 over regular values
};

// Both in one pass. Throws likewise.
Energy scan_energy(const Tensor& tensor, const Inputs& inputs);

// One pass: sum of (x - mean)^2 over regular values.
double scan_squares(const Tensor& tensor, const Inputs& inputs, double mean);

// Two passes: standard deviation of the regular values (population, divisor n), float64. 0 if there are none.
double scan_deviation(const Tensor& tensor, const Inputs& inputs, uint64_t irregular);

// Of values in memory, as one chunk.
Extent extent_of(std::span<const float> x);
double squares_of(std::span<const float> x);

// Whether the float32 with these bits is regular and of magnitude at most `limit`.
bool fits(uint32_t bits, double limit);

// Replaces by +0, and lists with index base + i, every value that does not fit.
void set_aside(std::span<float> x, double limit, uint64_t base, std::vector<Exception>& list);

// The inverse: writes the listed values into a chunk.
void put_back(std::span<const Exception> list, std::span<float> chunk);

// The values of a chunk, as they are quantized: where `irregular` says that the tensor has such values they are 0, in a
// copy in code.scratch, and listed in code.exceptions.
std::span<const float> read_regular(const Tensor& tensor, Range range, bool irregular, Code& code);

// Throws Error(bad_input) unless `exception` is of a value that does not fit, and its symbol stands for 0.
void require_needed(const Exception& exception, bool is_zero, double limit = std::numeric_limits<double>::infinity());

// Room for a chunk's values, of the calling thread; as it was left by the last that had it.
std::span<float> chunk_room(uint64_t count);

// add(look(Range, span<const float>)) for each chunk: looks by inputs.loop, and so perhaps several at once, adds in the
// order of the chunks.
// At most kAtOnce are found and not yet added, which bounds the memory.
template <uint64_t kAtOnce = 1024, typename Look, typename Add>
void scan_chunks(const Tensor& tensor, const Inputs& inputs, Look look, Add add) {
  const Chunks chunks(tensor.size(), inputs);
  std::vector<std::invoke_result_t<Look, Range, std::span<const float>>> found;
  for (uint64_t first = 0; first < chunks.count(); first += kAtOnce) {
    found.resize(static_cast<size_t>(std::min(kAtOnce, chunks.count() - first)));
    const Job job = [&](uint64_t i) {
      const Range range = chunks[first + i];
      found[static_cast<size_t>(i)] = look(range, tensor.read(range, chunk_room(range.count)));
    };
    if (inputs.loop) {
      inputs.loop(found.size(), job);
    } else {
      for (uint64_t i = 0; i < found.size(); ++i) job(i);
    }
    for (const auto& part : found) add(part);
  }
}

// Calls visit(Range, span<const float>) for each chunk of the tensor, in order.
template <typename Visit>
void for_each_chunk(const Tensor& tensor, uint64_t chunk_len, Visit visit) {
  std::vector<float> scratch(static_cast<size_t>(std::min(chunk_len, tensor.size())));
  for (uint64_t first = 0; first < tensor.size(); first += chunk_len) {
    const Range range{first, std::min(chunk_len, tensor.size() - first)};
    visit(range, tensor.read(range, scratch));
  }
}

}  // namespace gradcodec
