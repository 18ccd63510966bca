// Every kernel on every instruction set of this machine against its definition, to the bit.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/kernels.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "codec/float16.h"
#include "codec/guarded.h"

using namespace gradcodec;
using kernels::Draws;
using kernels::Half;
using kernels::Lattice;

namespace {

constexpr Draws kDraws = {{0x243F6A88, 0x85A308D3}, 7, 0x00010000};
constexpr uint64_t kCarry = uint64_t{1} << 34;  // here index / 4 passes 2^32
constexpr uint64_t kFirsts[] = {0, 1, 2, 3, 4, 13, kCarry - 50, kCarry - 3, kCarry - 64, kCarry + 1, uint64_t{1} << 62};

struct WithTarget {
  explicit WithTarget(const std::string& name) { REQUIRE(kernels::use_target(name)); }
  ~WithTarget() { kernels::use_target(""); }
};

std::vector<uint32_t> random_words(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{what, 99}, 0, 0}, 0, n, words.data());
  return words;
}

// Any bits at all, with every special value often.
std::vector<float> any_floats(size_t n) {
  constexpr uint32_t kSpecial[] = {0,          0x80000000, 1,          0x807FFFFF, 0x00800000, 0x7E800000, 0xFE800000,
                                   0x7E800001, 0xFE800001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF};
  const auto words = random_words(2 * n, 1);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t which = words[n + i] % 56;
    x[i] = std::bit_cast<float>(which < std::size(kSpecial) ? kSpecial[which] : words[i]);
  }
  return x;
}

// Regular values up to max_level steps: of all sizes, near and on the lattice, subnormal, and both zeros.
std::vector<float> lattice_floats(size_t n, Lattice lattice) {
  const auto words = random_words(2 * n, 2);
  const auto max_level = static_cast<float>(lattice.max_level);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const float part = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    const float level = std::floor(part * (max_level + 1));
    const float choices[] = {part * max_level * lattice.step,
                             level * lattice.step,
                             std::nextafter(level * lattice.step, 0.0f),
                             std::nextafter(level * lattice.step, 1e38f),
                             part * lattice.step,
                             part * 0x1p-126f,
                             max_level * lattice.step,
                             0.0f};
    const float value = std::min(choices[words[n + i] % 8], max_level * lattice.step);
    x[i] = words[n + i] % 16 < 8 ? value : -value;
  }
  return x;
}

template <typename T>
bool same_bits(const T* a, const T* b, size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

std::vector<size_t> lengths() {
  std::vector<size_t> all;
  for (size_t n = 0; n <= 100; ++n) all.push_back(n);
  for (const size_t n : {255, 1001, 4099, 65537}) all.push_back(n);
  return all;
}

bool same_encoding(const float* x, size_t n, uint64_t first, Lattice lattice, size_t offset) {
  std::vector<uint16_t> symbols(n);
  std::vector<float> decoded(n);
  kernels::scalar::dither_encode(x, n, kDraws, first, lattice, symbols.data(), decoded.data());
  Guarded<uint16_t> got(n, offset), got_alone(n, offset);
  Guarded<float> got_decoded(n, offset), got_later(n, offset + 1);
  kernels::dither_encode(x, n, kDraws, first, lattice, got.data(), got_decoded.data());
  kernels::dither_encode(x, n, kDraws, first, lattice, got_alone.data(), nullptr);
  kernels::dither_decode(symbols.data(), n, kDraws, first, lattice, got_later.data());
  std::vector<uint16_t> half_symbols(n);
  std::vector<float> half_decoded(n);
  kernels::scalar::half_dither_encode(x, n, kDraws, first, lattice, half_symbols.data(), half_decoded.data());
  Guarded<uint16_t> got_half(n, offset);
  Guarded<float> got_half_decoded(n, offset), got_half_later(n, offset + 1);
  kernels::half_dither_encode(x, n, kDraws, first, lattice, got_half.data(), got_half_decoded.data());
  kernels::half_dither_decode(symbols.data(), n, lattice, got_half_later.data());
  if (half_symbols != symbols || !same_bits(got_half.data(), symbols.data(), n) || !got_half.intact() ||
      !same_bits(got_half_decoded.data(), half_decoded.data(), n) || !got_half_decoded.intact() ||
      !same_bits(got_half_later.data(), half_decoded.data(), n) || !got_half_later.intact()) {
    return false;
  }
  return same_bits(got.data(), symbols.data(), n) && same_bits(got_alone.data(), symbols.data(), n) &&
         same_bits(got_decoded.data(), decoded.data(), n) && same_bits(got_later.data(), decoded.data(), n) &&
         got.intact() && got_alone.intact() && got_decoded.intact() && got_later.intact();
}

}  // namespace

TEST_CASE("targets are chosen by name, the best by default, scalar always there") {
  const auto targets = kernels::available_targets();
  REQUIRE(!targets.empty());
  CHECK(targets.back() == "scalar");
  CHECK(kernels::current_target() == targets.front());
  for (const auto& name : targets) {
    const WithTarget with(name);
    CHECK(kernels::current_target() == name);
    CHECK_FALSE(kernels::use_target("no such target"));
    CHECK(kernels::current_target() == name);
  }
  CHECK(kernels::current_target() == targets.front());
}

TEST_CASE("philox words are those of the definition on every target") {
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const size_t n : lengths()) {
      for (const uint64_t first : kFirsts) {
        std::vector<uint32_t> expected(n);
        kernels::scalar::philox_words(kDraws, first, n, expected.data());
        Guarded<uint32_t> got(n, n % 16);
        kernels::philox_words(kDraws, first, n, got.data());
        INFO(target << ", " << n << " words from " << first);
        REQUIRE((same_bits(got.data(), expected.data(), n) && got.intact()));
      }
    }
  }
}

TEST_CASE("max_abs and the sums are those of the definition on every target") {
  const auto x = any_floats(70000);
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const size_t n : lengths()) {
      const float* from = x.data() + n % 17;
      INFO(target << ", " << n << " floats");
      const auto max = kernels::max_abs(from, n), expected = kernels::scalar::max_abs(from, n);
      REQUIRE(max.max_bits == expected.max_bits);
      REQUIRE(max.irregular == expected.irregular);
      kernels::Sums sums, squares, magnitudes, expected_sums, expected_squares, expected_magnitudes;
      for (int twice = 0; twice < 2; ++twice) {  // sums go on from what is there
        kernels::add_sum(from, n, sums);
        kernels::add_magnitudes(from, n, magnitudes);
        kernels::add_squares(from, n, -0.37, squares);
        kernels::scalar::add_sum(from, n, expected_sums);
        kernels::scalar::add_magnitudes(from, n, expected_magnitudes);
        kernels::scalar::add_squares(from, n, -0.37, expected_squares);
      }
      REQUIRE(same_bits(sums.partial.data(), expected_sums.partial.data(), 16));
      REQUIRE(same_bits(magnitudes.partial.data(), expected_magnitudes.partial.data(), 16));
      REQUIRE(same_bits(squares.partial.data(), expected_squares.partial.data(), 16));
    }
  }
}

TEST_CASE("max_abs knows which values are regular") {
  const float irregular[] = {std::nextafter(0x1p126f, INFINITY), INFINITY, -INFINITY,
                             std::numeric_limits<float>::quiet_NaN()};
  CHECK(kernels::scalar::max_abs(irregular, 4).irregular == 4);
  CHECK(kernels::scalar::max_abs(irregular, 4).max_bits == 0);
  const float regular[] = {-0.0f, 1.0f, -0x1p126f, 0x1p-149f};
  CHECK(kernels::scalar::max_abs(regular, 4).irregular == 0);
  CHECK(kernels::scalar::max_abs(regular, 4).max_bits == kernels::kMaxRegularBits);
}

TEST_CASE("partial sums are interleaved by sixteen and added up in the written order") {
  std::vector<float> x(37);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  kernels::Sums sums, squares;
  kernels::scalar::add_sum(x.data(), x.size(), sums);
  CHECK(sums.partial[0] == 1 + 17 + 33);
  CHECK(sums.partial[4] == 5 + 21 + 37);
  CHECK(sums.partial[15] == 16 + 32);
  CHECK(sums.total() == 37 * 38 / 2);
  x[1] = -2;
  kernels::Sums magnitudes;
  kernels::scalar::add_magnitudes(x.data(), x.size(), magnitudes);
  CHECK(magnitudes.total() == 37 * 38 / 2);
  x[1] = 2;
  kernels::scalar::add_squares(x.data(), x.size(), 1.0, squares);
  CHECK(squares.total() == 36 * 37 * 73 / 6);
  kernels::Sums order;
  order.partial = {1, 0x1p-53, 0, 0, 0, 0, 0, 0, 0, 0x1p-53};  // 1 + (2^-53 + 2^-53), not (1 + 2^-53) + 2^-53
  CHECK(order.total() == 1 + 0x1p-52);
}

TEST_CASE("dithered rounding is that of the definition on every target") {
  const Lattice lattices[] = {
      {1.0f, 1},      {0.1f, 2},        {0x1.fffffep-3f, 127}, {0.3f, 128},   {0x1.8p-7f, 1000},
      {1e-3f, 32767}, {0x1p-126f, 127}, {0x1p-126f, 32767},    {0x1p100f, 1}, {0x1.2345p110f, 32767}};
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const Lattice lattice : lattices) {
      const auto x = lattice_floats(70000, lattice);
      for (const size_t n : lengths()) {
        for (const uint64_t first : kFirsts) {
          if (n > 100 && first > 13 && first != kCarry - 50) continue;
          INFO(target << ", step " << lattice.step << ", M " << lattice.max_level << ", " << n << " from " << first);
          REQUIRE(same_encoding(x.data() + (first + n) % 13, n, first, lattice, n % 7));
        }
      }
    }
  }
}

TEST_CASE("magnitudes up to 2^126 and far over the last level are clamped alike on every target") {
  const std::vector<float> x = {0x1p126f, -0x1p126f, 0x1p126f, 1.0f, -1.0f, 3.5f, -3.5f, 1e30f, -0.0f, 0x1p-149f};
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const Lattice lattice : {Lattice{0x1p-126f, 3}, {0x1p-126f, 300}, {1.0f, 0}, {1.0f, 3}, {1.0f, 300}}) {
      INFO(target << ", step " << lattice.step << ", M " << lattice.max_level);
      CHECK(same_encoding(x.data(), x.size(), 5, lattice, 3));
      std::vector<uint16_t> symbols(x.size());
      kernels::dither_encode(x.data(), x.size(), kDraws, 5, lattice, symbols.data(), nullptr);
      CHECK(symbols[0] == 2 * lattice.max_level);
      CHECK(symbols[1] == 0);
      CHECK(symbols[8] == lattice.max_level);
    }
  }
}

TEST_CASE("without subtraction the decoded value is the level, and zero has no sign") {
  const std::vector<float> x = {0.0f, -0.0f, -0x1p-149f, 2.0f, -3.0f};
  const std::vector<float> expected = {0.0f, 0.0f, 0.0f, 2.0f, -3.0f};
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    std::vector<uint16_t> symbols(5);
    std::vector<float> decoded(5), later(5);
    kernels::half_dither_encode(x.data(), 5, kDraws, 0, {0.5f, 7}, symbols.data(), decoded.data());
    kernels::half_dither_decode(symbols.data(), 5, {0.5f, 7}, later.data());
    INFO(target);
    CHECK(symbols == std::vector<uint16_t>{7, 7, 7, 11, 1});
    CHECK(same_bits(decoded.data(), expected.data(), 5));
    CHECK(same_bits(later.data(), expected.data(), 5));
  }
}

TEST_CASE("a step of zero gives the middle symbol and +0") {
  const std::vector<float> x(100, -1.0f);
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    std::vector<uint16_t> symbols(100);
    std::vector<float> decoded(100, 5.0f), later(100, 5.0f);
    kernels::dither_encode(x.data(), 100, kDraws, 3, {0.0f, 9}, symbols.data(), decoded.data());
    kernels::dither_decode(symbols.data(), 100, kDraws, 3, {0.0f, 9}, later.data());
    CHECK(symbols == std::vector<uint16_t>(100, 9));
    const std::vector<float> zeros(100);
    CHECK(same_bits(decoded.data(), zeros.data(), 100));
    CHECK(same_bits(later.data(), zeros.data(), 100));
    decoded.assign(100, 5.0f);
    later.assign(100, 5.0f);
    kernels::half_dither_encode(x.data(), 100, kDraws, 3, {0.0f, 9}, symbols.data(), decoded.data());
    kernels::half_dither_decode(symbols.data(), 100, {0.0f, 9}, later.data());
    CHECK(symbols == std::vector<uint16_t>(100, 9));
    CHECK(same_bits(decoded.data(), zeros.data(), 100));
    CHECK(same_bits(later.data(), zeros.data(), 100));
  }
}

TEST_CASE("digits of bytes are those of the definition on every target") {
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (uint32_t alphabet = 2; alphabet <= 16; ++alphabet) {
      for (const size_t n : lengths()) {
        if (n > 5000) continue;
        const auto words = random_words(n, alphabet);
        std::vector<std::byte> in(n + 1);
        for (size_t i = 0; i < n; ++i) in[i + 1] = static_cast<std::byte>(words[i] % (alphabet * alphabet));
        if (n > 0) in[n] = static_cast<std::byte>(alphabet * alphabet - 1);
        std::vector<uint16_t> expected(2 * n);
        kernels::scalar::split_pairs(in.data() + 1, n, alphabet, expected.data());
        Guarded<uint16_t> got(2 * n, n % 7);
        kernels::split_pairs(in.data() + 1, n, alphabet, got.data());
        INFO(target << ", " << n << " bytes, base " << alphabet);
        REQUIRE((same_bits(got.data(), expected.data(), 2 * n) && got.intact()));
      }
    }
  }
}

namespace {

// Numbers below L^digits: of all sizes, the largest, and near multiples of L^4, where a wrong quotient shows.
std::vector<uint64_t> group_numbers(size_t n, uint32_t alphabet, uint64_t max_value) {
  const auto words = random_words(3 * n, alphabet);
  const uint64_t quad = uint64_t{alphabet} * alphabet * alphabet * alphabet;
  std::vector<uint64_t> numbers(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t any = (uint64_t{words[i]} << 32 | words[n + i]) & max_value, near = any - any % quad;
    const uint64_t choices[] = {any, any >> words[n + i] % 64, near, near == 0 ? 0 : near - 1, max_value, near + 1};
    numbers[i] = std::min(choices[words[2 * n + i] % 6], max_value);
  }
  return numbers;
}

}  // namespace

TEST_CASE("digits join to quads on every target") {
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (uint32_t alphabet = 2; alphabet <= 181; ++alphabet) {
      uint64_t max_value = uint64_t{alphabet} * alphabet * alphabet - 1;
      for (uint32_t digits = 4; digits <= 24; ++digits) {
        if (max_value > (~uint64_t{0} - (alphabet - 1)) / alphabet) break;
        max_value = max_value * alphabet + alphabet - 1;
        const size_t n = 5 + (7 * digits + alphabet) % 40;
        const auto numbers = group_numbers(n, alphabet, max_value);
        std::vector<uint16_t> expected;
        for (uint64_t number : numbers) {
          for (uint32_t j = 0; j < digits; ++j, number /= alphabet) {
            expected.push_back(static_cast<uint16_t>(number % alphabet));
          }
        }
        const size_t quads = n * digits / 4;
        std::vector<uint32_t> joined(quads);
        Guarded<uint32_t> got_joined(quads, n % 5);
        kernels::scalar::join_quads(expected.data(), quads, alphabet, joined.data());
        kernels::join_quads(expected.data(), quads, alphabet, got_joined.data());
        REQUIRE((same_bits(got_joined.data(), joined.data(), quads) && got_joined.intact()));
      }
    }
  }
}

namespace {

// Any float32, and often those around the values of a 16-bit type, halfway between two, and beyond all.
std::vector<float> half_floats(size_t n) {
  const auto words = random_words(2 * n, 3);
  std::vector<float> x = any_floats(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t sign = words[i] & 0x80000000, kind = words[n + i] % 8;
    const uint32_t any = 0x30000000 + (words[i] & 0x7FFFFFFF) % 0x18000000;  // 2^-31 to 2^17
    const uint32_t magnitudes[] = {any,
                                   any & ~0x1FFFu,
                                   (any & ~0x1FFFu) | 0x1000,
                                   ((any & ~0x1FFFu) | 0x1000) + words[i] % 3 - 1,
                                   0x477FD000 + words[i] % 0x3000,
                                   0x7F7E8000 + words[i] % 0x20000};
    if (kind < std::size(magnitudes)) x[i] = std::bit_cast<float>(sign | magnitudes[kind]);
  }
  return x;
}

// The number of words that round x away from zero, found with the definition: where a kernel could be off by one.
uint32_t words_up(Half type, float x) {
  const auto narrow = type == Half::float16 ? narrow_to_float16 : narrow_to_bfloat16;
  uint32_t count = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit /= 2) {
    if (narrow(x, count + bit - 1) != narrow(x, ~uint32_t{0})) count += bit;
  }
  return count;
}

}  // namespace

TEST_CASE("16-bit floats widen as in the definition on every target, in place too") {
  std::vector<uint16_t> all(65536 + 100);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const Half type : {Half::float16, Half::bfloat16}) {
      for (const size_t n : lengths()) {
        const size_t from = n > 60000 ? 0 : 0x7BE0;
        std::vector<std::byte> in(2 * n + 1);
        if (n > 0) std::memcpy(in.data() + 1, all.data() + from, 2 * n);
        std::vector<float> expected(n);
        kernels::scalar::widen_half(type, in.data() + 1, n, expected.data());
        Guarded<float> got(n, n % 7), in_place(n, n % 5);
        kernels::widen_half(type, in.data() + 1, n, got.data());
        std::byte* tail = reinterpret_cast<std::byte*>(in_place.data()) + 2 * n;
        if (n > 0) std::memcpy(tail, in.data() + 1, 2 * n);
        kernels::widen_half(type, tail, n, in_place.data());
        INFO(target << ", " << n << " values");
        REQUIRE((same_bits(got.data(), expected.data(), n) && got.intact()));
        REQUIRE((same_bits(in_place.data(), expected.data(), n) && in_place.intact()));
      }
    }
  }
}

TEST_CASE("float32 narrows to 16 bits as in the definition on every target") {
  const auto x = half_floats(66000);
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const Half type : {Half::float16, Half::bfloat16}) {
      for (const size_t n : lengths()) {
        const float* from = x.data() + n % 17;
        const auto words = random_words(n, 5);
        std::vector<std::byte> nearest(2 * n), stochastic(2 * n);
        const bool fits = kernels::scalar::narrow_half(type, from, n, nearest.data());
        const bool fits_by = kernels::scalar::narrow_half_by(type, from, words.data(), n, stochastic.data());
        Guarded<std::byte> got(2 * n, n % 7), got_by(2 * n, n % 7);
        INFO(target << ", " << n << " values");
        REQUIRE(kernels::narrow_half(type, from, n, got.data()) == fits);
        REQUIRE(kernels::narrow_half_by(type, from, words.data(), n, got_by.data()) == fits_by);
        REQUIRE((same_bits(got.data(), nearest.data(), 2 * n) && got.intact()));
        REQUIRE((same_bits(got_by.data(), stochastic.data(), 2 * n) && got_by.intact()));
      }
    }
  }
}

TEST_CASE("a single value that does not fit 16 bits is noticed wherever it stands") {
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const Half type : {Half::float16, Half::bfloat16}) {
      std::vector<float> x(77, type == Half::float16 ? -65504.0f : -0x1.fep127f);
      const std::vector<uint32_t> words(77, 0);
      std::vector<std::byte> out(154);
      x[5] = INFINITY;
      x[60] = -std::numeric_limits<float>::quiet_NaN();
      CHECK(kernels::narrow_half(type, x.data(), 77, out.data()));
      CHECK(kernels::narrow_half_by(type, x.data(), words.data(), 77, out.data()));
      for (const size_t at : {0, 17, 33, 76}) {
        const float fitting = x[at];
        INFO(target << ", element " << at);
        x[at] = std::nextafter(fitting, -INFINITY);
        CHECK(kernels::narrow_half(type, x.data(), 77, out.data()));
        CHECK_FALSE(kernels::narrow_half_by(type, x.data(), words.data(), 77, out.data()));
        x[at] = type == Half::float16 ? 65520.0f : 0x1.ffp127f;
        CHECK_FALSE(kernels::narrow_half(type, x.data(), 77, out.data()));
        x[at] = fitting;
      }
    }
  }
}

TEST_CASE("stochastic narrowing turns at the same word on every target") {
  constexpr size_t kLen = 3000;
  for (const Half type : {Half::float16, Half::bfloat16}) {
    auto x = half_floats(kLen);
    for (size_t i = 0; i < kLen; i += 3) x[i] *= 0x1p-16f;  // more of those that become subnormal
    std::vector<uint32_t> last_up(kLen), first_down(kLen);
    for (size_t i = 0; i < kLen; ++i) {
      first_down[i] = words_up(type, x[i]);
      last_up[i] = first_down[i] - 1;
    }
    std::vector<std::byte> up(2 * kLen), down(2 * kLen), got(2 * kLen);
    kernels::scalar::narrow_half_by(type, x.data(), last_up.data(), kLen, up.data());
    kernels::scalar::narrow_half_by(type, x.data(), first_down.data(), kLen, down.data());
    REQUIRE(up != down);
    for (const auto& target : kernels::available_targets()) {
      const WithTarget with(target);
      INFO(target);
      kernels::narrow_half_by(type, x.data(), last_up.data(), kLen, got.data());
      CHECK(got == up);
      kernels::narrow_half_by(type, x.data(), first_down.data(), kLen, got.data());
      CHECK(got == down);
    }
  }
}

TEST_CASE("byte planes are those of the definition on every target") {
  for (const auto& target : kernels::available_targets()) {
    const WithTarget with(target);
    for (const uint32_t word : {1, 2, 4, 8, 16}) {
      for (const size_t n : lengths()) {
        const auto any = random_words(4 * n + 1, word);
        const std::byte* in = reinterpret_cast<const std::byte*>(any.data()) + n % 4;
        const size_t bytes = n * word;
        std::vector<std::byte> planes(bytes);
        kernels::scalar::split_planes(in, 0, n, word, planes.data());
        Guarded<std::byte> split(bytes, n % 7), joined(bytes, n % 5);
        kernels::split_planes(in, n, word, split.data());
        kernels::join_planes(planes.data(), n, word, joined.data());
        INFO(target << ", " << n << " words of " << word << " bytes");
        REQUIRE((same_bits(split.data(), planes.data(), bytes) && split.intact()));
        REQUIRE((same_bits(joined.data(), in, bytes) && joined.intact()));
        if (n > 2 && word > 1) REQUIRE(split.data()[n + 2] == in[2 * word + 1]);
      }
    }
  }
}

namespace {

// Levels with gaps of many sizes, symmetric or not, zero among them or not.
std::vector<std::vector<float>> level_tables() {
  std::vector<std::vector<float>> tables = {
      {-1.0f, 1.0f},
      {0.0f, 1.0f},
      {-3.0f, -1.0f},
      {-1.0f, -0.5f, 0.0f, 0.5f, 1.0f},
      {-0x1p126f, -1.0f, -0x1p-149f, 0x1p-149f, 1.0f, 0x1p126f},
      {-0.3f, -0.1f, -0.0f, 0.25f, 7.0f},
  };
  for (const uint32_t count : {15, 16, 17, 31, 255, 256, 65536}) {
    const auto words = random_words(count, count);
    std::vector<float> levels(count);
    for (uint32_t i = 0; i < count; ++i) {
      levels[i] = static_cast<float>(static_cast<int32_t>(words[i])) * (i % 3 == 0 ? 0x1p-31f : 0x1p-36f);
    }
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    tables.push_back(levels);
  }
  return tables;
}

// Values between, on, next to and beyond the levels.
std::vector<float> among_levels(size_t n, const std::vector<float>& levels) {
  const auto words = random_words(3 * n, 7);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t j = words[n + i] % (levels.size() - 1);
    const float low = levels[j], high = levels[j + 1], part = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    const float choices[] = {low * (1 - part) + high * part, low,   high, std::nextafter(low, high),
                             std::nextafter(high, low),      -0.0f, 0.0f, part * 2 * levels.back()};
    x[i] = choices[words[2 * n + i] % 8];
  }
  return x;
}

}  // namespace

TEST_CASE("rounding to levels is that of the definition on every target") {
  for (const auto& levels : level_tables()) {
    const auto count = static_cast<uint32_t>(levels.size());
    const auto x = among_levels(5000, levels);
    for (const auto& target : kernels::available_targets()) {
      const WithTarget with(target);
      for (const size_t n : lengths()) {
        if (n > 4500) continue;
        const uint64_t first = kFirsts[n % std::size(kFirsts)];
        const float* from = x.data() + n % 13;
        std::vector<uint16_t> symbols(n);
        std::vector<float> decoded(n);
        kernels::scalar::levels_encode(from, n, kDraws, first, levels.data(), count, symbols.data(), decoded.data());
        Guarded<uint16_t> got(n, n % 7), got_alone(n, n % 5);
        Guarded<float> got_decoded(n, n % 7), got_later(n, n % 3);
        kernels::levels_encode(from, n, kDraws, first, levels.data(), count, got.data(), got_decoded.data());
        kernels::levels_encode(from, n, kDraws, first, levels.data(), count, got_alone.data(), nullptr);
        kernels::levels_decode(symbols.data(), n, levels.data(), got_later.data());
        INFO(target << ", " << count << " levels, " << n << " from " << first);
        REQUIRE((same_bits(got.data(), symbols.data(), n) && got.intact()));
        REQUIRE((same_bits(got_alone.data(), symbols.data(), n) && got_alone.intact()));
        REQUIRE((same_bits(got_decoded.data(), decoded.data(), n) && got_decoded.intact()));
        REQUIRE((same_bits(got_later.data(), decoded.data(), n) && got_later.intact()));
      }
    }
  }
}

TEST_CASE("a value exactly at its threshold among levels stays nearer zero on every target") {
  constexpr size_t kLen = 200;
  std::vector<uint32_t> words(kLen);
  kernels::scalar::philox_words(kDraws, 3, kLen, words.data());
  std::vector<float> x(kLen);
  for (size_t i = 0; i < kLen; ++i) {
    const float v = (static_cast<float>(words[i] >> 9) + 0.5f) * 0x1p-23f;
    x[i] = i % 2 == 0 ? 1.0f - v : -v;
  }
  for (const size_t count : {3, 21}) {  // by both searches
    std::vector<float> levels(count);
    for (size_t i = 0; i < count; ++i) levels[i] = static_cast<float>(i) - 1.0f;
    for (const auto& target : kernels::available_targets()) {
      const WithTarget with(target);
      std::vector<uint16_t> symbols(kLen);
      kernels::levels_encode(x.data(), kLen, kDraws, 3, levels.data(), static_cast<uint32_t>(count), symbols.data(),
                             nullptr);
      INFO(target << ", " << count << " levels");
      CHECK(symbols == std::vector<uint16_t>(kLen, 1));
    }
  }
}

TEST_CASE("dither with a step for each element: as with one step where it is that, and 0 where it is 0") {
  for (const uint32_t max_level : {1u, 127u, 128u, 32767u}) {
    const size_t most = 4099;
    std::vector<float> x = lattice_floats(most, {0.37f, max_level}), steps(most, 0.37f);
    for (size_t i = 0; i < most; ++i) {
      const float scales[] = {1.0f, 0x1p-20f, 3.0f, 0.0f};
      x[i] *= scales[i % 4];
      steps[i] *= scales[i % 4];
    }
    std::vector<uint16_t> symbols(most);
    std::vector<float> decoded(most);
    kernels::scalar::dither_encode_steps(x.data(), steps.data(), most, kDraws, 5, max_level, symbols.data(),
                                         decoded.data());
    for (size_t i = 0; i < most; ++i) {
      uint16_t symbol;
      float value;
      kernels::scalar::dither_encode(&x[i], 1, kDraws, 5 + i, {steps[i], max_level}, &symbol, &value);
      REQUIRE(symbols[i] == symbol);
      REQUIRE(same_bits(&decoded[i], &value, 1));
    }
    for (const auto& target : kernels::available_targets()) {
      const WithTarget with(target);
      for (const size_t n : lengths()) {
        if (n > most) continue;
        INFO(target << ", M " << max_level << ", " << n);
        Guarded<uint16_t> got(n, 1), got_alone(n, 0);
        Guarded<float> got_decoded(n, 1), got_later(n, 0);
        kernels::dither_encode_steps(x.data(), steps.data(), n, kDraws, 5, max_level, got.data(), got_decoded.data());
        kernels::dither_encode_steps(x.data(), steps.data(), n, kDraws, 5, max_level, got_alone.data(), nullptr);
        kernels::dither_decode_steps(symbols.data(), steps.data(), n, kDraws, 5, max_level, got_later.data());
        REQUIRE(same_bits(got.data(), symbols.data(), n));
        REQUIRE(same_bits(got_alone.data(), symbols.data(), n));
        REQUIRE(same_bits(got_decoded.data(), decoded.data(), n));
        REQUIRE(same_bits(got_later.data(), decoded.data(), n));
        REQUIRE((got.intact() && got_alone.intact() && got_decoded.intact() && got_later.intact()));
      }
    }
  }
}
