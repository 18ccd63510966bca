// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/rans.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "codec/kernels/kernels.h"
#include "codec/rans/code_length.h"
#include "codec/rans/model.h"
#include "codec/rans/tokens.h"

using namespace gradcodec;

namespace {

std::vector<uint32_t> random_words(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{what, 4}, 0, 0}, 0, n, words.data());
  return words;
}

Bytes shrink(const Coder& coder, const Stream& stream) {
  Bytes out;
  coder.shrink(stream, out);
  return out;
}

// The symbols that the coder gives back, with the contexts of `like`.
std::vector<uint16_t> expand(const Coder& coder, ByteView in, const Stream& like) {
  Stream out;
  out.alphabet = like.alphabet;
  out.classes = like.classes;
  out.contexts = like.contexts;
  coder.expand(in, like.count(), out);
  return out.symbols;
}

double entropy_bits(const Stream& stream) {
  std::map<uint16_t, double> counts;
  for (const uint16_t symbol : stream.symbols) ++counts[symbol];
  const auto n = static_cast<double>(stream.symbols.size());
  double bits = 0;
  for (const auto& [symbol, count] : counts) bits += count * std::log2(n / count);
  return bits;
}

double distinct(const Stream& stream) {
  std::map<uint16_t, int> seen;
  for (const uint16_t symbol : stream.symbols) seen[symbol] = 1;
  return static_cast<double>(seen.size());
}

// Laplace or normal values of deviation `sigma` steps, dithered: symbols with their contexts.
Stream dithered(size_t n, double sigma, uint32_t max_level, bool laplace, uint32_t what) {
  constexpr double kPi = 3.14159265358979323846;
  const auto words = random_words(2 * n, what);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const double a = (words[i] + 0.5) / 4294967296.0, b = (words[n + i] + 0.5) / 4294967296.0;
    const double value = laplace ? -std::log(a) / std::sqrt(2.0) * (b < 0.5 ? 1 : -1)
                                 : std::sqrt(-2 * std::log(a)) * std::cos(2 * kPi * b);
    x[i] = static_cast<float>(std::clamp(value * sigma, -1.0 * max_level, 1.0 * max_level));
  }
  const kernels::Draws draws = {{what, 77}, 1, 0x10000};
  Stream stream;
  stream.alphabet = 2 * max_level + 1;
  stream.symbols.resize(n);
  stream.contexts.resize(n);
  stream.classes = kernels::kDitherClasses;
  kernels::dither_encode(x.data(), n, draws, 0, {1.0f, max_level}, stream.symbols.data(), nullptr);
  kernels::dither_contexts(draws, 0, n, stream.contexts.data());
  return stream;
}

std::string error_of(const Coder& coder, const Bytes& in, const Stream& like) {
  try {
    expand(coder, in, like);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    return error.text();
  }
  return "";
}

}  // namespace

TEST_CASE("fixed_log2 is log2 to within 2^-14") {
  for (uint64_t v = 1; v < uint64_t{1} << 32; v += v / 97 + 1) {
    const double error = fixed_log2(static_cast<uint32_t>(v)) / 65536.0 - std::log2(static_cast<double>(v));
    REQUIRE(std::fabs(error) < 0x1p-14);
  }
}

TEST_CASE("rans tokens: every distance comes back, near ones without raw bits, tokens never too large") {
  for (int32_t q = -65535; q <= 65535; ++q) {
    const Token token = token_of(q);
    REQUIRE(token.token <= kMaxToken);
    REQUIRE(token.raw_count == raw_count_of(token.token));
    REQUIRE(token.raw < 1u << token.raw_count);
    REQUIRE(distance_of(token.token, token.raw) == q);
    REQUIRE(token_of(-q).token == (q == 0 ? 0 : token.token % 2 == 1 ? token.token + 1 : token.token - 1));
    if (std::abs(q) < 16) REQUIRE(token.raw_count == 0);
  }
}

TEST_CASE("rans frequencies: indices count the numbers that have a short form, and the nearest is found") {
  for (uint32_t mantissa = 0; mantissa <= 7; ++mantissa) {
    uint32_t before = 0;
    for (uint32_t index = 1; before < 1u << 15; ++index) {
      const uint32_t frequency = frequency_of_index(index, mantissa);
      REQUIRE(frequency > before);
      REQUIRE(nearest_index(frequency, mantissa) == index);
      for (uint32_t between = before + 1; between < frequency; ++between) {
        const uint32_t nearest = frequency_of_index(nearest_index(between, mantissa), mantissa);
        REQUIRE(
            (between - before < frequency - between ? nearest == before : nearest >= before && nearest <= frequency));
      }
      before = frequency;
    }
  }
}

TEST_CASE("rans: one symbol repeated takes two bytes") {
  Stream stream;
  stream.alphabet = 5;
  stream.symbols.assign(1000, 2);
  CHECK(shrink(rans_coder(), stream) == Bytes{std::byte{0}, std::byte{2}});
  CHECK(expand(rans_coder(), shrink(rans_coder(), stream), stream) == stream.symbols);
  stream.symbols.clear();
  CHECK(shrink(rans_coder(), stream).empty());
}

TEST_CASE("rans takes at most half a per cent over the order-0 entropy, 64 bytes and 4 a lane") {
  struct Data {
    uint32_t max_level;
    double sigma;
    bool laplace;
  };
  for (const Data data :
       {Data{1, 0.02, true}, Data{1, 0.3, false}, Data{2, 0.4, true}, Data{7, 1.0, false}, Data{7, 0.9, true},
        Data{15, 3.0, true}, Data{127, 4.0, true}, Data{127, 30.0, false}, Data{127, 0.5, true}}) {
    for (const size_t n : {100'000, 1 << 18}) {
      const Stream stream = dithered(n, data.sigma, data.max_level, data.laplace, data.max_level);
      const auto bytes = static_cast<double>(shrink(rans_coder(), stream).size());
      const double entropy = entropy_bits(stream) / 8;
      INFO(data.max_level << " levels, deviation " << data.sigma << ", " << n << " symbols: " << bytes << " bytes, "
                          << entropy << " by the entropy");
      CHECK(bytes <= 1.005 * entropy + 64 + 4 * 32);
    }
  }
  // Of large alphabets the entropy of the sample leaves out what its table of counts would take, at the very least half
  // log2 e bits a symbol in use (Miller and Madow).
  for (const Data data : {Data{500, 60.0, false}, Data{32767, 50.0, true}, Data{32767, 3000.0, true}}) {
    const Stream stream = dithered(1 << 18, data.sigma, data.max_level, data.laplace, data.max_level);
    const auto bytes = static_cast<double>(shrink(rans_coder(), stream).size());
    const double entropy = (entropy_bits(stream) + distinct(stream) * 0.7213) / 8;
    INFO(data.max_level << " levels, deviation " << data.sigma << ": " << bytes << " bytes, " << entropy);
    CHECK(bytes <= 1.005 * entropy + 64 + 4 * 32);
  }
}

TEST_CASE("rans-dither comes near the entropy given the dither, far below that of the symbols") {
  // Laplace values of deviation 0.02 steps: 0.1211 bits by the symbols, 0.0521 given the dither (numerical
  // integration).
  constexpr size_t kLen = 1 << 20;
  double bytes = 0, entropy = 0, plain = 0;
  for (uint32_t chunk = 0; chunk < kLen >> 18; ++chunk) {
    const Stream stream = dithered(1 << 18, 0.02, 1, true, 40 + chunk);
    const Bytes packed = shrink(rans_dither_coder(), stream);
    REQUIRE(expand(rans_dither_coder(), packed, stream) == stream.symbols);
    bytes += static_cast<double>(packed.size());
    plain += static_cast<double>(shrink(rans_coder(), stream).size());
    entropy += entropy_bits(stream) / 8;
  }
  INFO("bits a symbol: " << 8 * bytes / kLen << ", without contexts " << 8 * plain / kLen << ", entropy "
                         << 8 * entropy / kLen);
  CHECK(8 * bytes / kLen < 0.057);
  CHECK(8 * bytes / kLen > 0.050);  // less would be a mistake of the test
  CHECK(8 * entropy / kLen > 0.118);
}

TEST_CASE("rans-dither is never more than a few bytes above rans") {
  for (const uint32_t max_level : {1, 2, 7, 127, 500}) {
    for (const double sigma : {0.05, 0.5, 3.0, 40.0}) {
      for (const size_t n : {2, 10, 100, 1000, 5000, 40000, 200000}) {
        Stream stream = dithered(n, sigma, max_level, true, static_cast<uint32_t>(n));
        // Once as it is, once with all the signs alike, where mirrored symbols are no help.
        for (const bool one_sided : {false, true}) {
          if (one_sided) {
            for (uint16_t& symbol : stream.symbols)
              symbol = static_cast<uint16_t>(std::max<uint32_t>(symbol, 2 * max_level - symbol));
          }
          const Bytes with = shrink(rans_dither_coder(), stream), without = shrink(rans_coder(), stream);
          INFO(max_level << " levels, deviation " << sigma << ", n " << n << (one_sided ? ", one-sided" : ""));
          CHECK(with.size() <= without.size() + 16);
          CHECK(expand(rans_dither_coder(), with, stream) == stream.symbols);
          CHECK(expand(rans_coder(), without, stream) == stream.symbols);
        }
      }
    }
  }
}

TEST_CASE("rans: rows of zeros among others cost little") {
  Stream stream = dithered(1 << 17, 1.0, 7, false, 3);
  const size_t dense = shrink(rans_coder(), stream).size();
  const auto words = random_words(1 << 17, 8);
  for (size_t i = 0; i < stream.symbols.size(); ++i) {
    if (words[i / 1024] % 2 == 0) stream.symbols[i] = 7;
  }
  const Bytes packed = shrink(rans_coder(), stream);
  CHECK(packed.size() < dense * 54 / 100);  // one code for all symbols would take 1.5 bits for 1.0
  CHECK(expand(rans_coder(), packed, stream) == stream.symbols);
}

TEST_CASE("rans: the bytes are the same on every instruction set") {
  for (const uint32_t max_level : {1, 7, 127, 1000}) {
    const Stream stream = dithered(70'001, 0.3 * max_level, max_level, true, max_level);
    const Bytes expected = shrink(rans_dither_coder(), stream), plain = shrink(rans_coder(), stream);
    for (const auto& target : kernels::available_targets()) {
      REQUIRE(kernels::use_target(target));
      CHECK(shrink(rans_dither_coder(), stream) == expected);
      CHECK(shrink(rans_coder(), stream) == plain);
      CHECK(expand(rans_dither_coder(), expected, stream) == stream.symbols);
      kernels::use_target("");
    }
  }
}

// Whatever is done to the bytes: an error, or symbols of the alphabet.
TEST_CASE("rans: damaged payloads give errors or symbols, nothing else") {
  size_t errors = 0, changed = 0;
  for (const uint32_t max_level : {1, 7, 300}) {
    const Stream stream = dithered(3000, 0.4 * max_level, max_level, true, 5);
    for (const Coder* coder : {&rans_coder(), &rans_dither_coder()}) {
      const Bytes good = shrink(*coder, stream);
      const auto words = random_words(6000, max_level);
      for (size_t i = 0; i + 3 <= words.size(); i += 3) {
        Bytes bad = good;
        const size_t at = i % 2 == 0 ? words[i] % bad.size() : words[i] % std::min<size_t>(bad.size(), 40);
        bad[at] ^= static_cast<std::byte>(1 + words[i + 1] % 255);
        if (words[i + 2] % 4 == 0) bad.resize(words[i + 2] / 4 % bad.size());
        Stream out = stream;
        try {
          coder->expand(bad, stream.count(), out);
          ++changed;
          REQUIRE(out.symbols.size() == stream.symbols.size());
          for (const uint16_t symbol : out.symbols) REQUIRE(symbol < stream.alphabet);
        } catch (const Error& error) {
          REQUIRE(error.code() == Exit::bad_input);
          ++errors;
        }
      }
    }
  }
  CHECK(errors >
        20 * changed);  // states that must end where they began find most damage; the frame has a check of its own
}

TEST_CASE("rans: what is refused is said") {
  Stream stream;
  stream.alphabet = 3;
  stream.symbols = {0, 1, 2, 1, 1, 1, 0};
  const Bytes good = shrink(rans_coder(), stream);
  const auto with = [&](size_t at, int value) {
    Bytes bad = good;
    bad.at(at) = static_cast<std::byte>(value);
    return error_of(rans_coder(), bad, stream);
  };
  CHECK(error_of(rans_coder(), {}, stream).find("ends too early") != std::string::npos);
  CHECK(error_of(rans_coder(), Bytes{std::byte{4}, std::byte{1}}, stream).find("must be zero") != std::string::npos);
  CHECK(error_of(rans_coder(), Bytes{std::byte{0}, std::byte{3}}, stream).find("outside its alphabet") !=
        std::string::npos);
  CHECK(with(0, std::to_integer<int>(good[0]) | 4).find("contexts that there are not") != std::string::npos);
  CHECK(with(3, 7).find("tokens that there are not") != std::string::npos);
  Bytes longer = good;
  longer.push_back(std::byte{0});
  CHECK(error_of(rans_coder(), longer, stream).find("half a word") != std::string::npos);
  longer.push_back(std::byte{0});
  CHECK(error_of(rans_coder(), longer, stream).find("damaged") != std::string::npos);
}

TEST_CASE("rans: states and centres out of range are refused") {
  // A large alphabet, one lane: model, centre, state, words; the centre is the middle, which is found by its bytes.
  Stream stream = dithered(40, 20.0, 500, false, 9);
  stream.classes = 0;
  stream.contexts.clear();
  const Bytes good = shrink(rans_coder(), stream);
  const std::array<std::byte, 2> middle = {std::byte{500 & 0xFF}, std::byte{500 >> 8}};
  const auto found = std::search(good.begin() + 5, good.end(), middle.begin(), middle.end());
  REQUIRE(found != good.end());
  const auto at = static_cast<size_t>(found - good.begin());
  const auto with = [&](size_t first, std::initializer_list<int> values) {
    Bytes bad = good;
    for (const int value : values) bad.at(first++) = static_cast<std::byte>(value);
    return error_of(rans_coder(), bad, stream);
  };
  CHECK(with(at, {0xE9, 0x03}).find("centre outside") != std::string::npos);  // 1001 of 1001
  CHECK(with(at, {0xE8, 0x03}).find("centre outside") == std::string::npos);
  CHECK(with(at + 2, {0xFF, 0x7F, 0, 0}).find("state that is out of range") != std::string::npos);
  CHECK(with(at + 2, {0, 0, 0, 0x80}).find("state that is out of range") != std::string::npos);
  CHECK(with(at + 2, {0, 0x80, 0, 0}).find("out of range") == std::string::npos);
}

TEST_CASE("rans-dither: contexts and a centre that is not the middle are refused together") {
  Stream stream = dithered(3000, 1.0, 500, false, 9);
  const Bytes good = shrink(rans_dither_coder(), stream);
  REQUIRE((std::to_integer<int>(good[0]) >> 2 & 7) != 0);
  const std::array<std::byte, 2> middle = {std::byte{500 & 0xFF}, std::byte{500 >> 8}};
  const auto found = std::search(good.begin() + 5, good.end(), middle.begin(), middle.end());
  REQUIRE(found != good.end());
  Bytes bad = good;
  bad[static_cast<size_t>(found - good.begin())] = std::byte{0xF3};
  CHECK(error_of(rans_dither_coder(), bad, stream).find("not the middle") != std::string::npos);
}

TEST_CASE("rans: a coder does not remember what it coded before") {
  const Stream first = dithered(70'000, 0.4, 1, true, 21), second = dithered(3000, 30.0, 500, false, 22);
  const Bytes of_first = shrink(rans_dither_coder(), first), of_second = shrink(rans_dither_coder(), second);
  Bytes cut = of_first;
  cut.resize(cut.size() / 2);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(error_of(rans_dither_coder(), cut, first).empty());
    CHECK(shrink(rans_dither_coder(), second) == of_second);
    CHECK(shrink(rans_dither_coder(), first) == of_first);
  }
}

TEST_CASE("rans: contexts that are missing, or those of another stream, are a bug that is told") {
  Stream stream = dithered(100, 0.4, 1, true, 21);
  stream.contexts.pop_back();
  CHECK_THROWS_AS(shrink(rans_dither_coder(), stream), Error);
  CHECK_THROWS_AS(expand(rans_dither_coder(), Bytes{std::byte{0}, std::byte{1}}, stream), Error);
}
