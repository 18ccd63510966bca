// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/elias.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/random.h"

using namespace gradcodec;

namespace {

// Bits as text, the first in the highest bit of the first byte; spaces are for the reader.
Bytes bytes_of_bits(std::string_view text) {
  Bytes out;
  size_t count = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    if (count % 8 == 0) out.push_back(std::byte{0});
    if (c == '1') out.back() |= static_cast<std::byte>(0x80 >> count % 8);
    ++count;
  }
  return out;
}

std::string bits_of(OmegaWord word) {
  std::string out;
  for (uint32_t i = word.length; i-- > 0;) out += (word.bits >> i & 1) != 0 ? '1' : '0';
  return out;
}

// As it is defined: out = "0"; while k > 1: out = binary(k) + out, k = length of binary(k) - 1.
std::string omega_by_definition(uint64_t k) {
  std::string out = "0";
  while (k > 1) {
    std::string binary;
    for (uint64_t rest = k; rest > 0; rest /= 2) binary.insert(0, 1, rest % 2 == 1 ? '1' : '0');
    out.insert(0, binary);
    k = binary.size() - 1;
  }
  return out;
}

// Symbols from signed levels.
Stream stream_of(uint32_t alphabet, const std::vector<int>& levels) {
  Stream out;
  out.alphabet = alphabet;
  for (const int q : levels) out.symbols.push_back(static_cast<uint16_t>(q + static_cast<int>(alphabet / 2)));
  return out;
}

Bytes shrink(const Stream& stream) {
  Bytes out;
  elias_coder().shrink(stream, out);
  return out;
}

std::vector<uint16_t> expand(ByteView in, uint32_t alphabet, uint64_t count) {
  Stream out;
  out.alphabet = alphabet;
  elias_coder().expand(in, count, out);
  return out.symbols;
}

bool is_sparse(ByteView in) { return (in[0] & std::byte{0x80}) != std::byte{0}; }

// The bytes of these levels are these bits, and the other way round.
void check_bits(uint32_t alphabet, const std::vector<int>& levels, std::string_view bits) {
  INFO(bits);
  const Stream stream = stream_of(alphabet, levels);
  CHECK(shrink(stream) == bytes_of_bits(bits));
  CHECK(expand(bytes_of_bits(bits), alphabet, levels.size()) == stream.symbols);
}

void refused(uint32_t alphabet, uint64_t count, std::string_view bits, const char* why) {
  INFO(bits);
  try {
    expand(bytes_of_bits(bits), alphabet, count);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    CHECK_THAT(error.what(), Catch::Contains(why));
  }
}

std::vector<int> with_zeros(std::vector<int> levels, size_t count) {
  levels.resize(count, 0);
  return levels;
}

uint32_t word_at(uint32_t i, uint32_t key) { return philox({key, 0}, {i, 0, 0, 0})[0]; }

// The bits of a code without its first bit and its padding, by the two sums of the specification.
uint64_t bits_by_definition(const Stream& stream, bool& sparse) {
  uint64_t positions = 0, levels = 0, nonzeros = 0;
  size_t next = 0;
  for (size_t i = 0; i < stream.count(); ++i) {
    const int q = stream.symbols[i] - static_cast<int>(stream.alphabet / 2);
    if (q == 0) continue;
    positions += omega_by_definition(i + 1 - next).size();
    levels += 1 + omega_by_definition(static_cast<uint64_t>(std::abs(q))).size();
    next = i + 1;
    ++nonzeros;
  }
  positions += omega_by_definition(nonzeros + 1).size();
  sparse = positions < stream.count();
  return levels + (sparse ? positions : stream.count());
}

}  // namespace

TEST_CASE("omega codes are those of the table in the specification") {
  const std::vector<std::pair<uint64_t, std::string>> words = {{1, "0"},
                                                               {2, "100"},
                                                               {3, "110"},
                                                               {4, "101000"},
                                                               {5, "101010"},
                                                               {7, "101110"},
                                                               {8, "1110000"},
                                                               {15, "1111110"},
                                                               {16, "10100100000"},
                                                               {17, "10100100010"},
                                                               {32, "101011000000"},
                                                               {100, "1011011001000"}};
  for (const auto& [number, word] : words) CHECK(bits_of(omega_word(number)) == word);
}

TEST_CASE("omega codes are as defined, and are read back, up to 70,000 and at every width") {
  const auto check = [](uint64_t number) {
    const OmegaWord word = omega_word(number);
    const bool as_defined = bits_of(word) == omega_by_definition(number);
    // Whatever follows: zeros and ones.
    const uint64_t window = word.bits << (64 - word.length), ones = ~uint64_t{0} >> word.length;
    const OmegaNumber a = read_omega(window), b = read_omega(window | ones);
    const bool read = a.value == number && a.length == word.length && b.value == number && b.length == word.length;
    if (!as_defined || !read) FAIL("number " << number);
  };
  for (uint64_t number = 1; number <= 70000; ++number) check(number);
  for (uint32_t width = 17; width <= kMaxOmegaWidth; ++width) {
    for (const uint64_t number : {uint64_t{1} << (width - 1), (uint64_t{1} << width) - 1}) check(number);
  }
  CHECK(omega_word((uint64_t{1} << 40) - 1).length == 52);
}

TEST_CASE("a number of more than 40 bits is refused before anything is shifted out") {
  // Prefixes 1 -> 2 -> 5 -> 40: the next number would have 41 bits.
  CHECK(read_omega(0b10'101'101000'1ULL << 52).length == 0);
  CHECK(read_omega(0b10'101'101000'0ULL << 52).value == 40);
  CHECK(read_omega(~uint64_t{0}).length == 0);
  CHECK(read_omega(0).length == 1);
}

TEST_CASE("QSGD's examples worked by hand") {
  // (3, -4, 0, 0) of s = 5. Four symbols are too few for the sparse form; six are not.
  check_bits(11, {3, -4, 0, 0}, "0  1 0 110  1 1 101000  0 0");
  check_bits(11, {3, -4, 0, 0, 0, 0}, "1 110  0 0 110  0 1 101000");
  // (1, -2) of s = 2.
  check_bits(5, {1, -2}, "0  1 0 0  1 1 100");
  check_bits(5, with_zeros({1, -2}, 6), "1 110  0 0 0  0 1 100");
  // (1, -3, 1, 0) of s = 3.
  check_bits(7, {1, -3, 1, 0}, "0  1 0 0  1 1 110  1 0 0  0");
  check_bits(7, with_zeros({1, -3, 1, 0}, 10), "1 101000  0 0 0  0 1 110  0 0 0");
}

TEST_CASE("gaps count from the last non-zero, the first from the start") {
  check_bits(3, with_zeros({0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0}, 16), "1 110  101010 0 0  100 1 0");
  check_bits(3, with_zeros({}, 3), "1 0");
  check_bits(3, with_zeros({}, 2), "1 0");
  check_bits(3, with_zeros({}, 1), "0 0");  // a tie: dense
  // A tie of positions: 3 + 6 bits for nine symbols, then one more symbol.
  check_bits(3, {0, 0, 0, 0, 1, 0, 0, 0, 0}, "0 0000 1 0 0 0000");
  check_bits(3, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, "1 100 101010 0 0");
}

TEST_CASE("alphabets of no, one and two symbols, and the ends of the others") {
  const Bytes plain = {std::byte{1}, std::byte{255}};
  Stream bytes;
  bytes.bytes = plain;
  CHECK(shrink(bytes) == plain);
  elias_coder().expand(plain, 2, bytes);
  CHECK(bytes.bytes == plain);
  CHECK_THROWS_AS(elias_coder().expand(plain, 3, bytes), Error);
  CHECK(shrink({1, {0, 0, 0}, {}}).empty());
  CHECK(expand({}, 1, 3) == std::vector<uint16_t>(3));
  CHECK_THROWS_AS(expand(plain, 1, 3), Error);
  for (const uint32_t alphabet : {0, 1, 2, 3, 65536}) {
    CHECK(expand({}, alphabet, 0).empty());
    CHECK_THROWS_AS(expand(plain, alphabet, 0), Error);
  }
  check_bits(2, {-1, 0, -1}, "0  1 1 0  0  1 1 0");
  // -2, -1, 0, 1
  refused(4, 1, "0 1 0 100", "outside its alphabet");
  check_bits(4, {-2}, "0 1 1 100");
  refused(5, 1, "0 1 1 110", "outside its alphabet");
  check_bits(65536, {-32768, 32767}, "0  1 1 11 1111 1000000000000000 0  1 0 11 1110 111111111111111 0");
  refused(65536, 1, "0 1 0 11 1111 1000000000000000 0", "outside its alphabet");
  refused(65535, 1, "0 1 1 11 1111 1000000000000000 0", "outside its alphabet");
  CHECK_THROWS_AS(elias_coder().fixed_size(65537, 1), Error);
  CHECK_THROWS_AS(elias_coder().fixed_size(3, uint64_t{1} << 39), Error);
  CHECK_FALSE(elias_coder().fixed_size(3, 1).has_value());
  CHECK(elias_coder().is_canonical());
}

TEST_CASE("the length is the sum of the words', in the shorter form") {
  for (const uint32_t alphabet : {2, 3, 4, 17, 256, 1000, 65536}) {
    for (const uint32_t one_in : {1, 2, 3, 5, 20, 1000, 100000}) {
      Stream stream = stream_of(alphabet, std::vector<int>(20011));
      for (uint32_t i = 0; i < stream.count(); ++i) {
        if (word_at(i, 1) % one_in == 0) stream.symbols[i] = static_cast<uint16_t>(word_at(i, 2) % alphabet);
      }
      bool sparse = false;
      const uint64_t bits = bits_by_definition(stream, sparse);
      const Bytes bytes = shrink(stream);
      INFO("alphabet " << alphabet << ", one in " << one_in);
      CHECK(bytes.size() == (1 + bits + 7) / 8);
      CHECK(is_sparse(bytes) == sparse);
      CHECK(expand(bytes, alphabet, stream.count()) == stream.symbols);
    }
  }
}

TEST_CASE("the longest words come back after runs of zeros of any length, at any bit") {
  for (const int before : {0, 1, 2, 3, 4, 5, 6, 7}) {
    for (size_t run = 0; run < 130; ++run) {
      std::vector<int> levels(static_cast<size_t>(before), 0);
      for (const int level : {-32768, 32767, -21846}) {
        levels.resize(levels.size() + run, 0);
        levels.push_back(level);
      }
      const Stream alone = stream_of(65536, levels);
      REQUIRE(expand(shrink(alone), 65536, alone.count()) == alone.symbols);
      for (int i = 0; i < 1000; ++i) levels.push_back(i % 2);  // a bit dearer, each two, in the sparse form
      const Stream dense = stream_of(65536, levels);
      REQUIRE_FALSE(is_sparse(shrink(dense)));
      REQUIRE(expand(shrink(dense), 65536, dense.count()) == dense.symbols);
    }
  }
}

TEST_CASE("what elias never writes is refused") {
  refused(3, 4, "", "is empty");
  refused(3, 9, "0 0000000", "ends too early");                       // 10 bits
  refused(3, 7, "0 0000011", "ends too early");                       // a level that is cut off
  refused(3, 30, "1 1110000", "ends too early");                      // no bit of seven non-zeros
  refused(3, 3, "1 101010", "more non-zeros than symbols");           // 4 of 3
  refused(3, 3, "1 10 101 101000 1", "more non-zeros than symbols");  // a number of more than 40 bits
  refused(3, 9, "1 100  101010 0 0  0000000", "the dense one is as short");
  refused(3, 10, "1 100  1110110 0 0", "beyond its symbols");               // gap 11
  refused(3, 20, "1 110  1110100 0 0  1110110 0 0", "beyond its symbols");  // gaps 10 and 11
  refused(3, 20, "1 100  10 101 101000 1", "beyond its symbols");
  refused(3, 20, "1 100  0 0 100", "outside its alphabet");
  refused(3, 20, "1 100  0 0 10 101 101000 1", "outside its alphabet");
  refused(3, 10, "0 0000 1 0 0 00000", "the sparse one is shorter");
  refused(3, 2, "0 00", "the sparse one is shorter");
  refused(3, 20, "1 0 000001", "bits after its symbols");
  refused(3, 20, "1 0 000000 00000000", "1 bytes more");
  refused(3, 1, "0 0 000000 00000000", "1 bytes more");
  refused(3, 1, "0 0 000001", "bits after its symbols");
  refused(3, uint64_t{1} << 38, "0 0000000", "ends too early");  // nothing is allocated
}

TEST_CASE("any bytes are refused, or are those that shrink gives for their symbols") {
  uint32_t accepted = 0;
  for (uint32_t trial = 0; trial < 60000; ++trial) {
    const uint32_t alphabet = 2 + word_at(trial, 3) % (trial % 2 == 0 ? 6 : 600);
    const uint32_t count = 1 + word_at(trial, 4) % 40;
    Bytes bytes(1 + word_at(trial, 5) % 12);
    // Zeros and ones are as likely in the first half, ones are rarer in the second.
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint32_t word = philox({6, 0}, {trial, static_cast<uint32_t>(i), 0, 0})[0];
      bytes[i] = static_cast<std::byte>(trial < 30000 ? word : word & word >> 8);
    }
    if (trial % 3 != 0) bytes.back() &= std::byte{0xF0};
    try {
      const Stream stream{alphabet, expand(bytes, alphabet, count), {}};
      REQUIRE(stream.count() == count);
      for (const uint16_t symbol : stream.symbols) REQUIRE(symbol < alphabet);
      REQUIRE(shrink(stream) == bytes);
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code() == Exit::bad_input);
    }
  }
  CHECK(accepted > 300);
}

TEST_CASE("dense and Gaussian: QSGD's 2.8 bits a coordinate at s = sqrt n") {
  const uint32_t n = 1 << 16, s = 1 << 8;
  std::vector<double> values(n);
  double squares = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const double radius = std::sqrt(-2 * std::log((word_at(i, 7) + 0.5) / 4294967296));
    values[i] = radius * std::cos(2 * M_PI * word_at(i, 8) / 4294967296);
    squares += values[i] * values[i];
  }
  std::vector<int> levels(n);
  for (uint32_t i = 0; i < n; ++i) {
    const double scaled = std::abs(values[i]) / std::sqrt(squares) * s;
    const int level = static_cast<int>(std::floor(scaled + word_at(i, 9) / 4294967296.0));
    levels[i] = values[i] < 0 ? -level : level;
  }
  const Bytes bytes = shrink(stream_of(2 * s + 1, levels));
  CHECK_FALSE(is_sparse(bytes));
  const double bits = 8.0 * static_cast<double>(bytes.size());
  CHECK(bits <= 2.8 * n + 32);
  CHECK(bits / n == Approx(2.564).margin(0.02));  // by integration
}
