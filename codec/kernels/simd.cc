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

#include "codec/kernels/philox.h"
#include "codec/kernels/simd.h"

#ifdef __FAST_MATH__
#error "results are defined by IEEE arithmetic: build without -ffast-math"
#endif

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // Highway's one-lane fallback has no shuffles; our scalar kernels are better anyway

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using DoubleTag = hn::Repartition<double, FloatTag>;
constexpr FloatTag kFloats;
constexpr DoubleTag kDoubles;
constexpr hn::RebindToSigned<FloatTag> kInts;
constexpr hn::RebindToUnsigned<FloatTag> kWords;
constexpr hn::Repartition<uint64_t, FloatTag> kQuads;
constexpr hn::Rebind<float, DoubleTag> kHalfFloats;
constexpr hn::Rebind<uint16_t, FloatTag> kSymbols;          // as many as floats
constexpr hn::Repartition<uint16_t, FloatTag> kAllSymbols;  // of a block
using Floats = hn::Vec<FloatTag>;
using Doubles = hn::Vec<DoubleTag>;
using Words = hn::Vec<decltype(kWords)>;
using Quads = hn::Vec<decltype(kQuads)>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());
constexpr size_t kBlock = 2 * kLanes;  // words that one evaluation of Philox gives

// Asks for the memory that is read (or written) 2 KiB from here on. The machine's own prefetching is late in loops with
// this much work: encoding from memory is a third faster so. Any address may be asked for.
template <int kWrite = 0>
HWY_INLINE void fetch_ahead(const void* here) {
  // Not by pointer arithmetic, which may not leave the array. NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(here) + 2048), kWrite);
}

// Philox for the counters of one block. A 64-bit lane holds a counter: the lower half of p1 (p0) is word 1 (3) of the
// state, its upper half goes into word 0 (2). A 32x32->64 multiplication ignores the upper halves of its operands, so
// that they may hold anything, and words that are neighbours in the output end in one lane.
class Philox {
 public:
  // `high` is counter word 1, the same for all. What follows from it and the constants is the same in every block: the
  // first round's p1 and the second's p0.
  HWY_INLINE Philox(PlainDraws draws, uint32_t high) {
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      key0_[round] = draws.key0 + round * kPhiloxBump0;
      key1_[round] = draws.key1 + round * kPhiloxBump1;
    }
    const uint64_t p1 = uint64_t{kPhiloxMultiplier1} * draws.ordinal;
    const uint64_t p0 = uint64_t{kPhiloxMultiplier0} * (static_cast<uint32_t>(p1 >> 32) ^ high ^ key0_[0]);
    first_c2_ = draws.tag ^ key1_[0];
    second_c0_ = static_cast<uint32_t>(p1) ^ key0_[1];
    second_c2_ = static_cast<uint32_t>(p0 >> 32) ^ key1_[1];
    second_c3_ = static_cast<uint32_t>(p0);
    // Lane 2 i counts i and lane 2 i + 1 counts i + half the lanes, so that interleaving the even and the odd lanes of
    // word pairs, which is what each 128-bit block can do alone, gives all words in order.
    HWY_ALIGN uint64_t offsets[kLanes / 2];
    for (size_t lane = 0; lane < kLanes / 2; ++lane) offsets[lane] = lane / 2 + lane % 2 * (kLanes / 4);
    offsets_ = hn::Load(kQuads, offsets);
  }

  // Words first .. first + kBlock - 1 of the stream, in order. `first` is a multiple of 4.
  HWY_INLINE void block(uint64_t first, Words& low, Words& high) const {
    const Quads p0 = multiply(hn::Add(hn::Set(kQuads, first / 4), offsets_), kPhiloxMultiplier0);
    const Quads p1 = multiply(hn::Xor(swap_halves(p0), hn::Set(kQuads, first_c2_)), kPhiloxMultiplier1);
    State state = {hn::Xor(swap_halves(p1), hn::Set(kQuads, second_c0_)), p1, hn::Xor(p0, hn::Set(kQuads, second_c2_)),
                   hn::Set(kQuads, second_c3_)};
    rounds<2>(state);
    low = hn::BitCast(kWords, hn::InterleaveLower(kQuads, state.c0, state.c2));
    high = hn::BitCast(kWords, hn::InterleaveUpper(kQuads, state.c0, state.c2));
  }

 private:
  struct State {
    Quads c0, c1, c2, c3;
  };

  // Rounds kRound to the last, unrolled. After the last, c0 holds words 0 and 1 and c2 holds words 2 and 3.
  template <int kRound>
  HWY_INLINE void rounds(State& state) const {
    const Quads p0 = multiply(state.c0, kPhiloxMultiplier0), p1 = multiply(state.c2, kPhiloxMultiplier1);
    if constexpr (kRound == kPhiloxRounds - 1) {
      state.c1 = hn::And(state.c1, hn::Set(kQuads, 0xFFFFFFFF));
      state.c3 = hn::And(state.c3, hn::Set(kQuads, 0xFFFFFFFF));
    }
    state = {hn::Xor3(swap_halves(p1), state.c1, hn::Set(kQuads, key0_[kRound])), p1,
             hn::Xor3(swap_halves(p0), state.c3, hn::Set(kQuads, key1_[kRound])), p0};
    if constexpr (kRound < kPhiloxRounds - 1) rounds<kRound + 1>(state);
  }

  static HWY_INLINE Quads multiply(Quads a, uint32_t b) {
    return hn::MulEven(hn::BitCast(kWords, a), hn::BitCast(kWords, hn::Set(kQuads, b)));
  }
  static HWY_INLINE Quads swap_halves(Quads a) { return hn::BitCast(kQuads, hn::Shuffle2301(hn::BitCast(kWords, a))); }

  uint32_t key0_[kPhiloxRounds], key1_[kPhiloxRounds];
  uint32_t first_c2_, second_c0_, second_c2_, second_c3_;
  Quads offsets_;
};

// Gives `body` the elements of a stretch block by block: whole(at, low, high) for blocks that lie inside it, and
// part(at, lead, len, low, high) at the ends, where elements at .. at + len - 1 take words lead .. of the block. Starts
// anew where counter word 1 changes, every 2^34 words.
template <typename Body>
HWY_INLINE void for_blocks(PlainDraws draws, uint64_t first, size_t n, const Body& body) {
  constexpr uint64_t kRun = uint64_t{1} << 34;
  Words low, high;
  for (size_t at = 0; at < n;) {
    const Philox philox(draws, static_cast<uint32_t>((first + at) / kRun));
    const uint64_t room = kRun - (first + at) % kRun;
    const size_t end = n - at < room ? n : at + static_cast<size_t>(room);
    while (at < end) {
      const size_t lead = (first + at) % 4, len = HWY_MIN(end - at, kBlock - lead);
      philox.block(first + at - lead, low, high);
      if (HWY_LIKELY(len == kBlock)) {
        body.whole(at, low, high);
      } else {
        body.part(at, lead, len, low, high);
      }
      at += len;
    }
  }
}

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

// u of 32-bit words. Both subtractions are exact.
HWY_INLINE Floats draw_u(Words words) {
  const Words one_to_two = hn::Or(hn::ShiftRight<9>(words), hn::Set(kWords, 0x3F800000));
  const Floats v = hn::Sub(hn::BitCast(kFloats, one_to_two), hn::Set(kFloats, 1.0f - 0x1p-24f));
  return hn::Sub(v, hn::Set(kFloats, 0.5f));
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
  const Doubles wide_step = hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, step));
  const auto half = [&](auto pick) HWY_ATTR {
    return hn::DemoteTo(kHalfFloats, round_half(pick(magnitude), pick(k), pick(threshold), wide_step));
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

template <typename Form, bool kFewLevels, bool kDecode>
struct EncodeBody {
  const float* x;
  Lattice lattice;
  uint16_t* symbols;
  float* decoded;

  // Returns q + M in the lower 16 bits of each lane: what float32 leaves there in a number between 2^23 and 2^24.
  HWY_INLINE Words lanes(size_t at, Words words) const {
    fetch_ahead(x + at);
    if (kDecode) fetch_ahead<1>(decoded + at);
    const Floats step = hn::Set(kFloats, lattice.step);
    const Floats max_level = hn::Set(kFloats, static_cast<float>(lattice.max_level));
    const Floats shift = hn::Set(kFloats, 0x1p23f + static_cast<float>(lattice.max_level));
    const Floats value = hn::LoadU(kFloats, x + at), u = draw_u(words);
    const Floats sign = hn::And(value, hn::Set(kFloats, -0.0f));
    // 1 - v = 0.5 - u, or v = 0.5 + u under a minus; at -0.0 any threshold does.
    const Floats threshold = hn::Sub(hn::Set(kFloats, 0.5f), hn::Xor(u, sign));
    const Floats magnitude = round_up_or_down<kFewLevels>(hn::Abs(value), threshold, step, max_level);
    const Floats q = hn::Or(magnitude, sign);
    if (kDecode) hn::StoreU(Form::restore(q, u, step), kFloats, decoded + at);
    return hn::BitCast(kWords, hn::Add(q, shift));
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    fetch_ahead<1>(symbols + at);
    const auto low_symbols = hn::BitCast(kAllSymbols, lanes(at, low));
    const auto high_symbols = hn::BitCast(kAllSymbols, lanes(at + kLanes, high));
    hn::StoreU(hn::ConcatEven(kAllSymbols, high_symbols, low_symbols), kAllSymbols, symbols + at);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    float x_buffer[kBlock] = {}, decoded_buffer[kBlock];
    uint16_t symbols_buffer[kBlock];
    __builtin_memcpy(x_buffer + lead, x + at, len * sizeof(float));
    EncodeBody{x_buffer, lattice, symbols_buffer, decoded_buffer}.whole(0, low, high);
    __builtin_memcpy(symbols + at, symbols_buffer + lead, len * sizeof(uint16_t));
    if (kDecode) __builtin_memcpy(decoded + at, decoded_buffer + lead, len * sizeof(float));
  }
};

template <typename Form, bool kFewLevels>
HWY_INLINE void encode_levels(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice,
                              uint16_t* symbols, float* decoded) {
  if (decoded == nullptr) {
    for_blocks(draws, first, n, EncodeBody<Form, kFewLevels, false>{x, lattice, symbols, decoded});
  } else {
    for_blocks(draws, first, n, EncodeBody<Form, kFewLevels, true>{x, lattice, symbols, decoded});
  }
}

template <typename Form>
HWY_INLINE void encode(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                       float* decoded) {
  if (2 * lattice.max_level + 1 <= 255) {
    encode_levels<Form, true>(x, n, draws, first, lattice, symbols, decoded);
  } else {
    encode_levels<Form, false>(x, n, draws, first, lattice, symbols, decoded);
  }
}

void dither_encode(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded) {
  encode<Subtractive>(x, n, draws, first, lattice, symbols, decoded);
}

void half_dither_encode(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                        float* decoded) {
  encode<HalfDithered>(x, n, draws, first, lattice, symbols, decoded);
}

// q of the symbols of one vector.
HWY_INLINE Floats load_levels(const uint16_t* symbols, uint32_t max_level) {
  const auto all = hn::PromoteTo(kInts, hn::LoadU(kSymbols, symbols));
  return hn::ConvertTo(kFloats, hn::Sub(all, hn::Set(kInts, static_cast<int32_t>(max_level))));
}

struct DecodeBody {
  const uint16_t* symbols;
  Lattice lattice;
  float* out;

  HWY_INLINE void lanes(size_t at, Words words) const {
    fetch_ahead<1>(out + at);
    const Floats q = load_levels(symbols + at, lattice.max_level), step = hn::Set(kFloats, lattice.step);
    hn::StoreU(Subtractive::restore(q, draw_u(words), step), kFloats, out + at);
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    fetch_ahead(symbols + at);
    lanes(at, low);
    lanes(at + kLanes, high);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    uint16_t symbols_buffer[kBlock] = {};
    float buffer[kBlock];
    __builtin_memcpy(symbols_buffer + lead, symbols + at, len * sizeof(uint16_t));
    DecodeBody{symbols_buffer, lattice, buffer}.whole(0, low, high);
    __builtin_memcpy(out + at, buffer + lead, len * sizeof(float));
  }
};

void dither_decode(const uint16_t* symbols, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, float* out) {
  for_blocks(draws, first, n, DecodeBody{symbols, lattice, out});
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

constexpr Table kTable = {philox_words,      max_abs,       add_sum,       add_magnitudes,
                          add_squares,       dither_encode, dither_decode, half_dither_encode,
                          half_dither_decode};
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
    if (table != nullptr) found.push_back({hwy::TargetName(target), table, chosen_byte_table(), chosen_half_table()});
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return found;
}

}  // namespace gradcodec::kernels
#endif
