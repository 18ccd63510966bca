// The kernels for every instruction set, written once with Highway.
//
// foreach_target.h includes this very file once for each instruction set, with HWY_NAMESPACE and the compiler's target
// attribute set for it; what stands under HWY_ONCE is compiled in the last pass only. Each pass makes a table of its
// kernels. Every kernel gives the bits of scalar.cc: only correctly rounded operations, no MulAdd, no ReduceSum of
// floats, nothing approximate. No inline function (of the standard library's either) is shared between passes, since
// the linker keeps one copy of it, perhaps one that this machine cannot run: hence the plain pointers and structs.
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/simd-inl.h"
#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

struct WordsBody {
  uint32_t* words;

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    hn::StoreU(low, kWords, words + at);
    hn::StoreU(high, kWords, words + at + kLanes);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    uint32_t buffer[kBlock];
    WordsBody{buffer}.whole(0, low, high);
    __builtin_memcpy(words + at, buffer + lead, len * sizeof(uint32_t));
  }
};

void philox_words(PlainDraws draws, uint64_t first, size_t n, uint32_t* words) {
  for_blocks(draws, first, n, WordsBody{words});
}

size_t max_abs(const float* x, size_t n, uint32_t* max_bits, uint64_t* irregular) {
  const auto magnitude_bits = hn::Set(kInts, 0x7FFFFFFF), max_regular = hn::Set(kInts, int32_t{kMaxRegularBits});
  const size_t end = n - n % kLanes;
  auto max = hn::Zero(kInts);
  for (size_t at = 0; at < end;) {
    const size_t stop = at + HWY_MIN(end - at, kLanes << 30);  // a lane counts to less than 2^31
    auto count = hn::Zero(kInts);
    for (; at < stop; at += kLanes) {
      fetch_ahead(x + at);
      const auto bits = hn::And(hn::BitCast(kInts, hn::LoadU(kFloats, x + at)), magnitude_bits);
      const auto is_irregular = hn::Gt(bits, max_regular);
      max = hn::Max(max, hn::IfThenZeroElse(is_irregular, bits));
      count = hn::Sub(count, hn::VecFromMask(kInts, is_irregular));
    }
    int32_t counts[kLanes];
    hn::StoreU(count, kInts, counts);
    for (size_t lane = 0; lane < kLanes; ++lane) *irregular += static_cast<uint64_t>(counts[lane]);
  }
  *max_bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(kInts, max)));
  return end;
}

// Adds term(x) of regular elements, as float64, to the 16 partial sums, which stay in registers.
template <typename Term>
HWY_INLINE size_t add_terms(const float* x, size_t n, double* partial, const Term& term) {
  constexpr size_t kWidth = kLanes / 2, kParts = 16 / kWidth;
  const Doubles limit = hn::Set(kDoubles, 0x1p126);
  const size_t end = n - n % 16;
  Doubles part[kParts];
  for (size_t j = 0; j < kParts; ++j) part[j] = hn::LoadU(kDoubles, partial + j * kWidth);
  for (size_t at = 0; at < end; at += 16) {
    fetch_ahead(x + at);
    for (size_t j = 0; j < kParts; ++j) {
      const Doubles wide = hn::PromoteTo(kDoubles, hn::LoadU(kHalfFloats, x + at + j * kWidth));
      const auto is_regular = hn::Le(hn::Abs(wide), limit);  // false for what is not a number
      part[j] = hn::Add(part[j], hn::IfThenElseZero(is_regular, term.of(wide)));
    }
  }
  for (size_t j = 0; j < kParts; ++j) hn::StoreU(part[j], kDoubles, partial + j * kWidth);
  return end;
}

struct ValueTerm {
  HWY_INLINE Doubles of(Doubles x) const { return x; }
};

struct MagnitudeTerm {
  HWY_INLINE Doubles of(Doubles x) const { return hn::Abs(x); }
};

struct SquareTerm {
  Doubles mean;
  HWY_INLINE Doubles of(Doubles x) const {
    const Doubles distance = hn::Sub(x, mean);
    return hn::Mul(distance, distance);
  }
};

size_t add_sum(const float* x, size_t n, double* partial) { return add_terms(x, n, partial, ValueTerm()); }

size_t add_magnitudes(const float* x, size_t n, double* partial) { return add_terms(x, n, partial, MagnitudeTerm()); }

size_t add_squares(const float* x, size_t n, double mean, double* partial) {
  return add_terms(x, n, partial, SquareTerm{hn::Set(kDoubles, mean)});
}

// k + 1 where rest > threshold step in float64, both exact, for one half of the lanes.
HWY_INLINE Doubles round_half(Doubles a, Doubles k, Doubles threshold, Doubles step) {
  const Doubles one = hn::Set(kDoubles, 1.0), zero = hn::Zero(kDoubles);
  const Doubles rest = hn::Sub(a, hn::Mul(k, step));
  // The float32 quotient may have been rounded up to an integer: then one less, and as much more is left.
  const auto is_over = hn::Lt(rest, zero);
  const Doubles true_k = hn::Sub(k, hn::IfThenElseZero(is_over, one));
  const Doubles true_rest = hn::Add(rest, hn::IfThenElseZero(is_over, step));
  return hn::Add(true_k, hn::IfThenElseZero(hn::Gt(true_rest, hn::Mul(threshold, step)), one));
}

// The rounding primitive: |q| before the sign is put back. Magnitudes and thresholds are float32 and exact; a float32
// quotient has a floor that is right or one too large, which round_half mends by exact remainders.
template <bool kFewLevels>
HWY_INLINE Floats round_up_or_down(Floats magnitude, Floats threshold, Floats step, Floats max_level) {
  const Floats a = hn::Min(hn::Div(magnitude, step), max_level);
  const Floats k = hn::Floor(a);
  if (kFewLevels) return hn::Add(k, hn::IfThenElseZero(hn::Gt(hn::Sub(a, k), threshold), hn::Set(kFloats, 1.0f)));
  const auto half = [&](auto pick) HWY_ATTR {
    return hn::DemoteTo(kHalfFloats, round_half(pick(magnitude), pick(k), pick(threshold), pick(step)));
  };
  const auto lower = half([](Floats f) HWY_ATTR { return hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, f)); });
  const auto upper = half([](Floats f) HWY_ATTR { return hn::PromoteTo(kDoubles, hn::UpperHalf(kHalfFloats, f)); });
  return hn::Min(hn::Combine(kFloats, upper, lower), max_level);
}

// Of q, which may be -0, the decoded value.
struct Subtractive {
  static HWY_INLINE Floats restore(Floats q, Floats u, Floats step) { return hn::Mul(hn::Sub(q, u), step); }
};
struct HalfDithered {
  static HWY_INLINE Floats restore(Floats q, Floats, Floats step) {
    return hn::Mul(hn::Add(q, hn::Zero(kFloats)), step);  // +0 + -0 is +0
  }
};

// Steps of the elements of a stretch: one for all, or one each, 0 where all is to be 0.
struct OneStep {
  float step;
  HWY_INLINE Floats at(size_t) const { return hn::Set(kFloats, step); }
  static HWY_INLINE Floats divisor(Floats steps) { return steps; }
  static HWY_INLINE Floats keep(Floats, Floats value) { return value; }
  HWY_INLINE OneStep part(size_t, size_t, size_t, float*) const { return *this; }
};
struct EachStep {
  const float* steps;
  HWY_INLINE Floats at(size_t at) const { return hn::LoadU(kFloats, steps + at); }
  static HWY_INLINE Floats divisor(Floats steps) { return hn::Max(steps, hn::Set(kFloats, 0x1p-126f)); }
  static HWY_INLINE Floats keep(Floats steps, Floats value) {
    return hn::IfThenElseZero(hn::Gt(steps, hn::Zero(kFloats)), value);
  }
  HWY_INLINE EachStep part(size_t at, size_t lead, size_t len, float* buffer) const {
    for (size_t i = 0; i < kBlock; ++i) buffer[i] = 0;
    __builtin_memcpy(buffer + lead, steps + at, len * sizeof(float));
    return {buffer};
  }
};

template <typename Form, typename Steps, bool kFewLevels, bool kDecode>
struct EncodeBody {
  const float* x;
  Steps steps;
  uint32_t level;  // M
  uint16_t* symbols;
  float* decoded;

  // Returns q + M in the lower 16 bits of each lane: what float32 leaves there in a number between 2^23 and 2^24.
  HWY_INLINE Words lanes(size_t at, Words words) const {
    fetch_ahead(x + at);
    if (kDecode) fetch_ahead<1>(decoded + at);
    const Floats step = steps.at(at);
    const Floats max_level = hn::Set(kFloats, static_cast<float>(level));
    const Floats shift = hn::Set(kFloats, 0x1p23f + static_cast<float>(level));
    const Floats value = hn::LoadU(kFloats, x + at), u = draw_u(words);
    const Floats sign = hn::And(value, hn::Set(kFloats, -0.0f));
    // 1 - v = 0.5 - u, or v = 0.5 + u under a minus; at -0.0 any threshold does.
    const Floats threshold = hn::Sub(hn::Set(kFloats, 0.5f), hn::Xor(u, sign));
    const Floats magnitude = round_up_or_down<kFewLevels>(hn::Abs(value), threshold, Steps::divisor(step), max_level);
    const Floats q = hn::Or(magnitude, sign);
    if (kDecode) hn::StoreU(Steps::keep(step, Form::restore(q, u, step)), kFloats, decoded + at);
    return hn::BitCast(kWords, hn::Add(q, shift));
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    fetch_ahead<1>(symbols + at);
    const auto low_symbols = hn::BitCast(kAllSymbols, lanes(at, low));
    const auto high_symbols = hn::BitCast(kAllSymbols, lanes(at + kLanes, high));
    hn::StoreU(hn::ConcatEven(kAllSymbols, high_symbols, low_symbols), kAllSymbols, symbols + at);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    float x_buffer[kBlock] = {}, decoded_buffer[kBlock], steps_buffer[kBlock];
    uint16_t symbols_buffer[kBlock];
    __builtin_memcpy(x_buffer + lead, x + at, len * sizeof(float));
    const Steps part_steps = steps.part(at, lead, len, steps_buffer);
    EncodeBody{x_buffer, part_steps, level, symbols_buffer, decoded_buffer}.whole(0, low, high);
    __builtin_memcpy(symbols + at, symbols_buffer + lead, len * sizeof(uint16_t));
    if (kDecode) __builtin_memcpy(decoded + at, decoded_buffer + lead, len * sizeof(float));
  }
};

template <typename Form, bool kFewLevels, typename Steps>
HWY_INLINE void encode_levels(const float* x, Steps steps, size_t n, PlainDraws draws, uint64_t first, uint32_t level,
                              uint16_t* symbols, float* decoded) {
  if (decoded == nullptr) {
    for_blocks(draws, first, n, EncodeBody<Form, Steps, kFewLevels, false>{x, steps, level, symbols, decoded});
  } else {
    for_blocks(draws, first, n, EncodeBody<Form, Steps, kFewLevels, true>{x, steps, level, symbols, decoded});
  }
}

template <typename Form, typename Steps>
HWY_INLINE void encode(const float* x, Steps steps, size_t n, PlainDraws draws, uint64_t first, uint32_t level,
                       uint16_t* symbols, float* decoded) {
  if (2 * level + 1 <= 255) {
    encode_levels<Form, true>(x, steps, n, draws, first, level, symbols, decoded);
  } else {
    encode_levels<Form, false>(x, steps, n, draws, first, level, symbols, decoded);
  }
}

void dither_encode(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded) {
  encode<Subtractive>(x, OneStep{lattice.step}, n, draws, first, lattice.max_level, symbols, decoded);
}

void dither_encode_steps(const float* x, const float* steps, size_t n, PlainDraws draws, uint64_t first,
                         uint32_t max_level, uint16_t* symbols, float* decoded) {
  encode<Subtractive>(x, EachStep{steps}, n, draws, first, max_level, symbols, decoded);
}

void half_dither_encode(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                        float* decoded) {
  encode<HalfDithered>(x, OneStep{lattice.step}, n, draws, first, lattice.max_level, symbols, decoded);
}

// q of the symbols of one vector.
HWY_INLINE Floats load_levels(const uint16_t* symbols, uint32_t max_level) {
  const auto all = hn::PromoteTo(kInts, hn::LoadU(kSymbols, symbols));
  return hn::ConvertTo(kFloats, hn::Sub(all, hn::Set(kInts, static_cast<int32_t>(max_level))));
}

template <typename Steps>
struct DecodeBody {
  const uint16_t* symbols;
  Steps steps;
  uint32_t max_level;
  float* out;

  HWY_INLINE void lanes(size_t at, Words words) const {
    fetch_ahead<1>(out + at);
    const Floats q = load_levels(symbols + at, max_level), step = steps.at(at);
    hn::StoreU(Steps::keep(step, Subtractive::restore(q, draw_u(words), step)), kFloats, out + at);
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    fetch_ahead(symbols + at);
    lanes(at, low);
    lanes(at + kLanes, high);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    uint16_t symbols_buffer[kBlock] = {};
    float buffer[kBlock], steps_buffer[kBlock];
    __builtin_memcpy(symbols_buffer + lead, symbols + at, len * sizeof(uint16_t));
    DecodeBody{symbols_buffer, steps.part(at, lead, len, steps_buffer), max_level, buffer}.whole(0, low, high);
    __builtin_memcpy(out + at, buffer + lead, len * sizeof(float));
  }
};

void dither_decode(const uint16_t* symbols, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, float* out) {
  for_blocks(draws, first, n, DecodeBody<OneStep>{symbols, {lattice.step}, lattice.max_level, out});
}

void dither_decode_steps(const uint16_t* symbols, const float* steps, size_t n, PlainDraws draws, uint64_t first,
                         uint32_t max_level, float* out) {
  for_blocks(draws, first, n, DecodeBody<EachStep>{symbols, {steps}, max_level, out});
}

struct ContextsBody {
  uint16_t* contexts;

  HWY_INLINE Words lanes(Words words) const {
    const Words upper = hn::ShiftRight<31>(words), one = hn::Set(kWords, 1);
    const Words t = hn::ShiftRight<9>(words);
    // All ones in 23 bits where the word's top bit is set: t ^ that is 2^23 - 1 - t.
    const Words m = hn::Xor(t, hn::ShiftRight<9>(hn::Sub(hn::Zero(kWords), upper)));
    const auto odd = hn::BitCast(kInts, hn::Or(hn::Add(m, m), one));
    const auto quarter = hn::ShiftRight<21>(hn::BitCast(kInts, hn::ConvertTo(kFloats, odd)));
    constexpr int32_t kBelow = ((127 + 22) << 2) + 3 - static_cast<int32_t>(kDitherClasses - 1);
    const auto rank = hn::Max(hn::Sub(quarter, hn::Set(kInts, kBelow)), hn::Zero(kInts));
    return hn::Or(hn::BitCast(kWords, hn::Add(rank, rank)), hn::Xor(upper, one));
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    const auto low_half = hn::BitCast(kAllSymbols, lanes(low)), high_half = hn::BitCast(kAllSymbols, lanes(high));
    hn::StoreU(hn::ConcatEven(kAllSymbols, high_half, low_half), kAllSymbols, contexts + at);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    uint16_t buffer[kBlock];
    ContextsBody{buffer}.whole(0, low, high);
    __builtin_memcpy(contexts + at, buffer + lead, len * sizeof(uint16_t));
  }
};

void dither_contexts(PlainDraws draws, uint64_t first, size_t n, uint16_t* contexts) {
  for_blocks(draws, first, n, ContextsBody{contexts});
}

size_t half_dither_decode(const uint16_t* symbols, size_t n, Lattice lattice, float* out) {
  const size_t end = n - n % kLanes;
  const Floats step = hn::Set(kFloats, lattice.step);
  for (size_t at = 0; at < end; at += kLanes) {
    fetch_ahead(symbols + at);
    hn::StoreU(hn::Mul(load_levels(symbols + at, lattice.max_level), step), kFloats, out + at);
  }
  return end;
}

constexpr Table kTable = {philox_words,
                          max_abs,
                          add_sum,
                          add_magnitudes,
                          add_squares,
                          dither_encode,
                          dither_decode,
                          half_dither_encode,
                          half_dither_decode,
                          dither_contexts,
                          dither_encode_steps,
                          dither_decode_steps};
#endif

const Table* get_table() {
#if HWY_TARGET == HWY_SCALAR
  return nullptr;
#else
  return &kTable;
#endif
}

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradcodec::kernels {

HWY_EXPORT(get_table);

// Highway keeps its choice in one place for all its users; this is the only one, and leaves it as it was.
std::vector<Target> simd_targets() {
  std::vector<Target> found;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::GetChosenTarget().Update(target);
    const Table* table = HWY_DYNAMIC_DISPATCH(get_table)();
    if (table == nullptr) continue;
    found.push_back({hwy::TargetName(target), table, chosen_byte_table(), chosen_half_table(), chosen_level_table(),
                     chosen_rans_kernels(), chosen_hadamard_table(), chosen_nested_table(), chosen_sketch_table()});
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return found;
}

}  // namespace gradcodec::kernels
#endif
