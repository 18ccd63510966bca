// The kernels as everybody calls them: the instruction set in use, and the scalar kernels for what is left over.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "codec/kernels/kernels.h"
#include "codec/kernels/simd.h"

namespace gradcodec::kernels {
namespace {

// Best first; last the scalar kernels, which have no table.
const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> found = simd_targets();
    found.push_back({"scalar", nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr});
    return found;
  }();
  return all;
}

std::atomic<const Target*>& chosen() {
  static std::atomic<const Target*> target = targets().data();
  return target;
}

const Table* table() { return chosen().load(std::memory_order_acquire)->table; }
const ByteTable* bytes() { return chosen().load(std::memory_order_acquire)->bytes; }
const HalfTable* half() { return chosen().load(std::memory_order_acquire)->half; }

// As the tables want bytes.
const uint8_t* raw(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }
uint8_t* raw(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }

PlainDraws plain(const Draws& draws) { return {draws.key[0], draws.key[1], draws.ordinal, draws.tag}; }

}  // namespace

const RansKernels* rans_kernels() { return chosen().load(std::memory_order_acquire)->rans; }

const HadamardTable* hadamard_table() { return chosen().load(std::memory_order_acquire)->hadamard; }

const NestedTable* nested_table() { return chosen().load(std::memory_order_acquire)->nested; }
const SketchTable* sketch_table() { return chosen().load(std::memory_order_acquire)->sketch; }

void philox_words(const Draws& draws, uint64_t first, size_t n, uint32_t* words) {
  const Table* simd = table();
  if (simd == nullptr) return scalar::philox_words(draws, first, n, words);
  simd->philox_words(plain(draws), first, n, words);
}

MaxAbs max_abs(const float* x, size_t n) {
  MaxAbs whole;
  const Table* simd = table();
  const size_t done = simd == nullptr ? 0 : simd->max_abs(x, n, &whole.max_bits, &whole.irregular);
  const MaxAbs rest = scalar::max_abs(x + done, n - done);
  return {std::max(whole.max_bits, rest.max_bits), whole.irregular + rest.irregular};
}

void add_sum(const float* x, size_t n, Sums& sums) {
  const Table* simd = table();
  const size_t done = simd == nullptr ? 0 : simd->add_sum(x, n, sums.partial.data());
  scalar::add_sum(x + done, n - done, sums);
}

void add_magnitudes(const float* x, size_t n, Sums& sums) {
  const Table* simd = table();
  const size_t done = simd == nullptr ? 0 : simd->add_magnitudes(x, n, sums.partial.data());
  scalar::add_magnitudes(x + done, n - done, sums);
}

void add_squares(const float* x, size_t n, double mean, Sums& sums) {
  const Table* simd = table();
  const size_t done = simd == nullptr ? 0 : simd->add_squares(x, n, mean, sums.partial.data());
  scalar::add_squares(x + done, n - done, mean, sums);
}

void dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded) {
  const Table* simd = table();
  if (simd == nullptr || lattice.step == 0) {
    return scalar::dither_encode(x, n, draws, first, lattice, symbols, decoded);
  }
  simd->dither_encode(x, n, plain(draws), first, lattice, symbols, decoded);
}

void dither_decode(const uint16_t* symbols, size_t n, const Draws& draws, uint64_t first, Lattice lattice, float* out) {
  const Table* simd = table();
  if (simd == nullptr || lattice.step == 0) return scalar::dither_decode(symbols, n, draws, first, lattice, out);
  simd->dither_decode(symbols, n, plain(draws), first, lattice, out);
}

void dither_encode_steps(const float* x, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, uint16_t* symbols, float* decoded) {
  const Table* simd = table();
  if (simd == nullptr) return scalar::dither_encode_steps(x, steps, n, draws, first, max_level, symbols, decoded);
  simd->dither_encode_steps(x, steps, n, plain(draws), first, max_level, symbols, decoded);
}

void dither_decode_steps(const uint16_t* symbols, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, float* out) {
  const Table* simd = table();
  if (simd == nullptr) return scalar::dither_decode_steps(symbols, steps, n, draws, first, max_level, out);
  simd->dither_decode_steps(symbols, steps, n, plain(draws), first, max_level, out);
}

void dither_contexts(const Draws& draws, uint64_t first, size_t n, uint16_t* contexts) {
  const Table* simd = table();
  if (simd == nullptr) return scalar::dither_contexts(draws, first, n, contexts);
  simd->dither_contexts(plain(draws), first, n, contexts);
}

void half_dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice,
                        uint16_t* symbols, float* decoded) {
  const Table* simd = table();
  if (simd == nullptr || lattice.step == 0) {
    return scalar::half_dither_encode(x, n, draws, first, lattice, symbols, decoded);
  }
  simd->half_dither_encode(x, n, plain(draws), first, lattice, symbols, decoded);
}

void half_dither_decode(const uint16_t* symbols, size_t n, Lattice lattice, float* out) {
  const Table* simd = table();
  const size_t done = simd == nullptr || lattice.step == 0 ? 0 : simd->half_dither_decode(symbols, n, lattice, out);
  scalar::half_dither_decode(symbols + done, n - done, lattice, out + done);
}

void levels_encode(const float* x, size_t n, const Draws& draws, uint64_t first, const float* levels, uint32_t count,
                   uint16_t* symbols, float* decoded) {
  const LevelTable* simd = chosen().load(std::memory_order_acquire)->levels;
  if (simd == nullptr) return scalar::levels_encode(x, n, draws, first, levels, count, symbols, decoded);
  simd->levels_encode(x, n, plain(draws), first, levels, count, symbols, decoded);
}

void levels_decode(const uint16_t* symbols, size_t n, const float* levels, float* out) {
  const LevelTable* simd = chosen().load(std::memory_order_acquire)->levels;
  const size_t done = simd == nullptr ? 0 : simd->levels_decode(symbols, n, levels, out);
  scalar::levels_decode(symbols + done, n - done, levels, out + done);
}

void split_pairs(const std::byte* in, size_t n, uint32_t alphabet, uint16_t* symbols) {
  const ByteTable* simd = bytes();
  const size_t done = simd == nullptr ? 0 : simd->split_pairs(raw(in), n, alphabet, symbols);
  scalar::split_pairs(in + done, n - done, alphabet, symbols + 2 * done);
}

void join_quads(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads) {
  const ByteTable* simd = bytes();
  const size_t done = simd == nullptr ? 0 : simd->join_quads(symbols, n, alphabet, quads);
  scalar::join_quads(symbols + 4 * done, n - done, alphabet, quads + done);
}

void split_planes(const std::byte* in, size_t words, uint32_t word, std::byte* out) {
  const ByteTable* simd = bytes();
  const size_t done = simd == nullptr ? 0 : simd->split_planes(raw(in), words, word, raw(out));
  scalar::split_planes(in, done, words, word, out);
}

void join_planes(const std::byte* in, size_t words, uint32_t word, std::byte* out) {
  const ByteTable* simd = bytes();
  const size_t done = simd == nullptr ? 0 : simd->join_planes(raw(in), words, word, raw(out));
  scalar::join_planes(in, done, words, word, out);
}

void widen_half(Half type, const std::byte* in, size_t n, float* out) {
  const HalfTable* simd = half();
  const size_t done = simd == nullptr ? 0 : simd->widen_half(type, raw(in), n, out);
  scalar::widen_half(type, in + 2 * done, n - done, out + done);
}

bool narrow_half(Half type, const float* x, size_t n, std::byte* out) {
  const HalfTable* simd = half();
  bool fits = true;
  const size_t done = simd == nullptr ? 0 : simd->narrow_half(type, x, n, raw(out), &fits);
  return scalar::narrow_half(type, x + done, n - done, out + 2 * done) && fits;
}

bool narrow_half_by(Half type, const float* x, const uint32_t* words, size_t n, std::byte* out) {
  const HalfTable* simd = half();
  bool fits = true;
  const size_t done = simd == nullptr ? 0 : simd->narrow_half_by(type, x, words, n, raw(out), &fits);
  return scalar::narrow_half_by(type, x + done, words + done, n - done, out + 2 * done) && fits;
}

std::vector<std::string> available_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.push_back(target.name);
  return names;
}

std::string current_target() { return chosen().load()->name; }

bool use_target(const std::string& name) {
  for (const Target& target : targets()) {
    if (name.empty() || target.name == name) {
      chosen().store(&target);
      return true;
    }
  }
  return false;
}

}  // namespace gradcodec::kernels
