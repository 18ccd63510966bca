// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/model.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/coders/rans.h"
#include "codec/kernels/kernels.h"
#include "codec/model/rows.h"

using namespace gradcodec;

namespace {

std::vector<uint32_t> random_words(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{what, 5}, 0, 0}, 0, n, words.data());
  return words;
}

// Normal values of the scales, dithered: symbols with contexts and scales. `scale_of(i)`: a class of element i.
template <typename ScaleOf>
Stream dithered(size_t n, uint32_t max_level, uint32_t what, const ScaleOf& scale_of) {
  constexpr double kPi = 3.14159265358979323846;
  const auto words = random_words(2 * n, what);
  Stream stream;
  stream.alphabet = 2 * max_level + 1;
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const auto scale = static_cast<uint32_t>(scale_of(i));
    stream.scales.push_back(static_cast<uint8_t>(scale));
    const double a = (words[i] + 0.5) / 4294967296.0, b = (words[n + i] + 0.5) / 4294967296.0;
    const double value = std::sqrt(-2 * std::log(a)) * std::cos(2 * kPi * b) * std::exp2(scale / 4.0 - 8);
    x[i] = scale == kZeroScale ? 0 : static_cast<float>(std::clamp(value, -1.0 * max_level, 1.0 * max_level));
  }
  const kernels::Draws draws = {{what, 77}, 1, 0x10000};
  stream.symbols.resize(n);
  stream.contexts.resize(n);
  stream.classes = kernels::kDitherClasses;
  kernels::dither_encode(x.data(), n, draws, 0, {1.0f, max_level}, stream.symbols.data(), nullptr);
  kernels::dither_contexts(draws, 0, n, stream.contexts.data());
  return stream;
}

Bytes shrink(const Stream& stream) {
  Bytes out;
  model_coder().shrink(stream, out);
  return out;
}

std::vector<uint16_t> expand(ByteView in, const Stream& like) {
  Stream out;
  out.alphabet = like.alphabet;
  out.classes = like.classes;
  out.contexts = like.contexts;
  out.scales = like.scales;
  model_coder().expand(in, like.count(), out);
  return out.symbols;
}

std::string error_of(const Bytes& in, const Stream& like) {
  try {
    expand(in, like);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    return error.text();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Stream two_scales(size_t n) {
  return dithered(n, 3, 4, [](size_t i) { return i % 2 == 0 ? 16u : 26u; });
}

}  // namespace

TEST_CASE("model: symbols of every scale and any length come back, on every target by the same bytes") {
  for (const size_t n : {1, 2, 31, 700, 5000, 40000}) {
    for (const uint32_t max_level : {1u, 127u, 32767u}) {
      for (const uint32_t most : {20u, 38u, 76u}) {
        // Scales that are wrong by up to four octaves now and then, so that there are escapes.
        Stream stream =
            dithered(n, max_level, 1, [&](size_t i) { return i % 7 == 3 ? kZeroScale : i * 31 % (most + 1); });
        for (size_t i = 5; i < n; i += 50) {
          if (stream.scales[i] != kZeroScale) stream.scales[i] = static_cast<uint8_t>(stream.scales[i] / 2);
        }
        INFO(n << " symbols, M " << max_level << ", scales to " << most);
        const Bytes bytes = shrink(stream);
        for (const std::string& target : kernels::available_targets()) {
          REQUIRE(kernels::use_target(target));
          CHECK(shrink(stream) == bytes);
          CHECK(expand(bytes, stream) == stream.symbols);
        }
        kernels::use_target("");
      }
    }
  }
}

TEST_CASE("model: normal values take what their law says, however scales are mixed") {
  constexpr size_t kCount = 200000;
  const Stream stream = dithered(kCount, 1000, 2, [](size_t i) { return 10 + i % 41; });
  double expected = 0;
  for (const uint8_t scale : stream.scales) expected += model_bits(scale) / 65536.0;
  const double bits = 8.0 * static_cast<double>(shrink(stream).size());
  CHECK(bits == Approx(expected).epsilon(0.01));
}

TEST_CASE("model: where the scale is zero nothing is sent") {
  const Stream some = dithered(3000, 3, 3, [](size_t i) { return i % 3 == 0 ? kZeroScale : 20u + i % 2; });
  Stream without = some;
  without.symbols.clear();
  without.contexts.clear();
  without.scales.clear();
  for (size_t i = 0; i < some.symbols.size(); ++i) {
    if (some.scales[i] == kZeroScale) continue;
    without.symbols.push_back(some.symbols[i]);
    without.contexts.push_back(some.contexts[i]);
    without.scales.push_back(some.scales[i]);
  }
  CHECK(std::abs(static_cast<double>(shrink(some).size()) - static_cast<double>(shrink(without).size())) <= 4);
}

TEST_CASE("model: scales that are all too large or too small by an octave cost little") {
  const auto size_with = [](int offset) {
    Stream stream = dithered(50000, 100, 5, [](size_t i) { return 20u + i % 20; });
    for (uint8_t& scale : stream.scales) scale = static_cast<uint8_t>(scale + offset);
    return shrink(stream).size();
  };
  CHECK(static_cast<double>(size_with(-4)) == Approx(size_with(0)).epsilon(0.005));
  CHECK(static_cast<double>(size_with(4)) == Approx(size_with(0)).epsilon(0.005));
}

TEST_CASE("model: a stream without scales is one of rans-dither behind a byte 0") {
  Stream stream = two_scales(500);
  stream.scales.clear();
  Bytes expected = {std::byte{0}};
  rans_dither_coder().shrink(stream, expected);
  CHECK(shrink(stream) == expected);
  CHECK(expand(expected, stream) == stream.symbols);
}

TEST_CASE("model: plain bytes go likewise") {
  Stream stream;
  for (const uint32_t word : random_words(1000, 9)) stream.bytes.push_back(static_cast<std::byte>(word % 5));
  Bytes expected = {std::byte{0}};
  rans_dither_coder().shrink(stream, expected);
  CHECK(shrink(stream) == expected);
  Stream out;
  model_coder().expand(expected, 1000, out);
  CHECK(out.bytes == stream.bytes);
}

TEST_CASE("model: payloads that no encoder writes are refused") {
  const Stream stream = two_scales(300);
  const Bytes right = shrink(stream);
  REQUIRE(expand(right, stream) == stream.symbols);
  for (size_t size = 0; size < right.size(); ++size) {
    CHECK_FALSE(error_of(Bytes(right.begin(), right.begin() + static_cast<ptrdiff_t>(size)), stream).empty());
  }
  Bytes longer = right;
  longer.resize(right.size() + 2);
  CHECK(says(error_of(longer, stream), "does not end where its symbols end"));
  Bytes odd = right;
  odd.resize(right.size() + 1);
  CHECK(says(error_of(odd, stream), "half a word"));
  Bytes moved = right;
  moved[0] = (moved[0] & std::byte{15}) | std::byte{9 << 4};
  CHECK(says(error_of(moved, stream), "more than an octave"));
  CHECK(says(error_of({std::byte{4}}, stream), "bits set"));
  Stream without = stream;
  without.scales.clear();
  CHECK(says(error_of(right, without), "scales that its scheme does not say"));
  Bytes more;
  put(more, std::to_integer<uint8_t>(right[0]));
  put_varint(more, 301);
  CHECK(says(error_of(more, stream), "more escapes than symbols"));
  Bytes beyond;
  put(beyond, std::to_integer<uint8_t>(right[0]));
  put_varint(beyond, 1);
  put_varint(beyond, 7);
  CHECK(says(error_of(beyond, stream), "outside its alphabet"));
  REQUIRE(right[1] == std::byte{0});  // no escapes
  Bytes idle = {right[0], std::byte{1}, std::byte{2}};
  idle.insert(idle.end(), right.begin() + 2, right.end());
  CHECK(says(error_of(idle, stream), "more escapes than its symbols want"));
}
