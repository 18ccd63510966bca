// Bytes and symbols for every instruction set: compiled, and bound to the bits of scalar.cc, as simd.cc says.
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_bytes.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace {

namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint32_t>;
constexpr WordTag kWords;
constexpr hn::Repartition<uint64_t, WordTag> kQuads;
constexpr hn::Repartition<uint16_t, WordTag> kShorts;
constexpr hn::Rebind<uint8_t, WordTag> kFewBytes;                              // as many as words
constexpr hn::Rebind<uint32_t, hn::Repartition<uint64_t, WordTag>> kFewWords;  // as many as quads
constexpr hn::Repartition<uint8_t, WordTag> kBytes;
using Words = hn::Vec<WordTag>;
using Quads = hn::Vec<decltype(kQuads)>;
constexpr size_t kLanes = hn::MaxLanes(WordTag());

// floor(2^(bits + shift) / d) + 1 with 2^shift < d <= 2^(shift + 1): the high half of its product with n < 2^(bits -
// 1), shifted, is n / d. The proof is that of Divisor in divisor.h.
struct Reciprocal {
  HWY_INLINE Reciprocal(uint32_t d, int bits) : shift(0) {
    while ((uint64_t{2} << shift) < d) ++shift;
    multiplier = static_cast<uint32_t>((uint64_t{1} << (bits + shift)) / d + 1);
  }
  uint32_t multiplier;
  int shift;
};

// The two digits of a number below L^2, at most 2^15, in each word: the lower one in the lower half.
class PairSplitter {
 public:
  explicit HWY_INLINE PairSplitter(uint32_t alphabet) : alphabet_(alphabet), reciprocal_(alphabet, 16) {}

  HWY_INLINE Words digits(Words pairs) const {
    const auto shorts = hn::BitCast(kShorts, pairs);
    const auto multiplier = hn::Set(kShorts, static_cast<uint16_t>(reciprocal_.multiplier));
    const auto quotient = hn::ShiftRightSame(hn::MulHigh(shorts, multiplier), reciprocal_.shift);
    const auto product = hn::Mul(quotient, hn::Set(kShorts, static_cast<uint16_t>(alphabet_)));
    return hn::Or(hn::BitCast(kWords, hn::Sub(shorts, product)), hn::ShiftLeft<16>(hn::BitCast(kWords, quotient)));
  }

 private:
  uint32_t alphabet_;
  Reciprocal reciprocal_;
};

size_t split_pairs(const uint8_t* in, size_t n, uint32_t alphabet, uint16_t* symbols) {
  const PairSplitter splitter(alphabet);
  const size_t end = n - n % kLanes;
  for (size_t at = 0; at < end; at += kLanes) {
    const Words pairs = hn::PromoteTo(kWords, hn::LoadU(kFewBytes, in + at));
    hn::StoreU(hn::BitCast(kShorts, splitter.digits(pairs)), kShorts, symbols + 2 * at);
  }
  return end;
}

size_t join_quads(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads) {
  const auto by_one = hn::Set(kShorts, static_cast<uint16_t>(alphabet));
  const Words by_two = hn::Set(kWords, alphabet * alphabet);
  const size_t end = n - n % (kLanes / 2);
  for (size_t at = 0; at < end; at += kLanes / 2) {
    const auto all = hn::LoadU(kShorts, symbols + 4 * at);
    const Words odd = hn::ShiftRight<16>(hn::BitCast(kWords, all));
    const auto sums = hn::Add(all, hn::Mul(hn::BitCast(kShorts, odd), by_one));
    const Words pairs = hn::And(hn::BitCast(kWords, sums), hn::Set(kWords, 0xFFFF));
    const Quads upper = hn::ShiftRight<32>(hn::BitCast(kQuads, pairs));
    const Quads product = hn::MulEven(hn::BitCast(kWords, upper), by_two);
    const Quads quad = hn::Add(hn::BitCast(kQuads, pairs), product);  // what the pairs' upper half adds is cut off
    hn::StoreU(hn::TruncateTo(kFewWords, quad), kFewWords, quads + at);
  }
  return end;
}

// Planes of words of two and four bytes are what interleaved loads and stores do. Eight bytes go by twice four: byte j
// and byte j + 4 of each word come together, and are parted, or joined, in blocks of 16 bytes.
constexpr size_t kSide = hn::MaxLanes(kBytes);
constexpr hn::CappedTag<uint8_t, 16> kBlock;
constexpr size_t kBlockLen = 16;
using Bytes = hn::Vec<decltype(kBytes)>;
using Block = hn::Vec<decltype(kBlock)>;

HWY_INLINE size_t split_planes2(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kSide;
  Bytes a, b;
  for (size_t at = 0; at < end; at += kSide) {
    hn::LoadInterleaved2(kBytes, in + 2 * at, a, b);
    hn::StoreU(a, kBytes, out + at);
    hn::StoreU(b, kBytes, out + words + at);
  }
  return end;
}

HWY_INLINE size_t split_planes4(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kSide;
  Bytes plane[4];
  for (size_t at = 0; at < end; at += kSide) {
    hn::LoadInterleaved4(kBytes, in + 4 * at, plane[0], plane[1], plane[2], plane[3]);
    for (size_t j = 0; j < 4; ++j) hn::StoreU(plane[j], kBytes, out + j * words + at);
  }
  return end;
}

HWY_INLINE size_t split_planes8(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kBlockLen;
  Block low[4], high[4];
  for (size_t at = 0; at < end; at += kBlockLen) {
    hn::LoadInterleaved4(kBlock, in + 8 * at, low[0], low[1], low[2], low[3]);
    hn::LoadInterleaved4(kBlock, in + 8 * at + 4 * kBlockLen, high[0], high[1], high[2], high[3]);
    for (size_t j = 0; j < 4; ++j) {
      hn::StoreU(hn::ConcatEven(kBlock, high[j], low[j]), kBlock, out + j * words + at);
      hn::StoreU(hn::ConcatOdd(kBlock, high[j], low[j]), kBlock, out + (j + 4) * words + at);
    }
  }
  return end;
}

HWY_INLINE size_t join_planes2(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kSide;
  for (size_t at = 0; at < end; at += kSide) {
    hn::StoreInterleaved2(hn::LoadU(kBytes, in + at), hn::LoadU(kBytes, in + words + at), kBytes, out + 2 * at);
  }
  return end;
}

HWY_INLINE size_t join_planes4(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kSide;
  Bytes plane[4];
  for (size_t at = 0; at < end; at += kSide) {
    for (size_t j = 0; j < 4; ++j) plane[j] = hn::LoadU(kBytes, in + j * words + at);
    hn::StoreInterleaved4(plane[0], plane[1], plane[2], plane[3], kBytes, out + 4 * at);
  }
  return end;
}

HWY_INLINE size_t join_planes8(const uint8_t* in, size_t words, uint8_t* out) {
  const size_t end = words - words % kBlockLen;
  Block low[4], high[4];
  for (size_t at = 0; at < end; at += kBlockLen) {
    for (size_t j = 0; j < 4; ++j) {
      const Block a = hn::LoadU(kBlock, in + j * words + at), b = hn::LoadU(kBlock, in + (j + 4) * words + at);
      low[j] = hn::InterleaveLower(kBlock, a, b);
      high[j] = hn::InterleaveUpper(kBlock, a, b);
    }
    hn::StoreInterleaved4(low[0], low[1], low[2], low[3], kBlock, out + 8 * at);
    hn::StoreInterleaved4(high[0], high[1], high[2], high[3], kBlock, out + 8 * at + 4 * kBlockLen);
  }
  return end;
}

size_t split_planes(const uint8_t* in, size_t words, uint32_t word, uint8_t* out) {
  if (word == 2) return split_planes2(in, words, out);
  if (word == 4) return split_planes4(in, words, out);
  return word == 8 ? split_planes8(in, words, out) : 0;
}

size_t join_planes(const uint8_t* in, size_t words, uint32_t word, uint8_t* out) {
  if (word == 2) return join_planes2(in, words, out);
  if (word == 4) return join_planes4(in, words, out);
  return word == 8 ? join_planes8(in, words, out) : 0;
}

constexpr ByteTable kTable = {split_pairs, join_quads, split_planes, join_planes};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE ByteTable
#define GRADCODEC_SIMD_CHOSEN chosen_byte_table
#include "codec/kernels/simd_table-inl.h"
