// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/edges.h"
#include "codec/kernels/nested.h"
#include "codec/schemes/grid_quantizer.h"
#include "codec/side.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;
const MessageId kId = {11, 2, 3};

// A message by ndqsg, decoded with other side information than its encoder may have had.
struct Nested {
  Bytes stored;
  std::vector<Code> chunks;
  std::vector<Range> ranges;
  std::vector<float> promised, decoded;
  std::vector<bool> overloaded;  // by chunk
  SideNeed need;
};

Nested nested(const std::vector<float>& x, const std::vector<float>& y, const std::string& text,
              const Tensor* encoder_side = nullptr) {
  const VectorTensor tensor(x), side(y);
  const SchemeChoice choice = parse_scheme(text), restoring = parse_stored_scheme(choice.stored_text());
  Inputs inputs{Random(kId, 0), kFirstStage, kChunk, Nonfinite::keep};
  inputs.size = x.size();
  inputs.side = encoder_side;
  const auto encoder = choice.prepare(tensor, inputs);
  Nested out;
  out.stored = encoder->decoder().stored();
  ByteReader stored(out.stored, "stored");
  inputs.side = &side;
  const auto decoder = restoring.restore(stored, inputs);
  stored.expect_end();
  out.need = decoder->side_need().value();
  out.ranges = chunks_of(x.size(), kChunk);
  for (const Range range : out.ranges) {
    std::vector<float> promised(range.count), decoded(range.count);
    Code code;
    encoder->encode(range, code, promised);
    out.overloaded.push_back(false);
    try {
      decoder->decode(code, range, decoded);
    } catch (const Overload&) {
      out.overloaded.back() = true;
    }
    out.chunks.push_back(std::move(code));
    out.promised.insert(out.promised.end(), promised.begin(), promised.end());
    out.decoded.insert(out.decoded.end(), decoded.begin(), decoded.end());
  }
  return out;
}

std::string text_of(uint32_t fine, uint32_t coarse, const std::string& more = "") {
  return "ndqsg:fine=" + std::to_string(fine) + ",coarse=" + std::to_string(coarse) + more;
}

// Uniform on (-1, 1), of another stream than anything else.
std::vector<double> noise(size_t n, uint32_t seed) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{seed, 77}, 0, 0}, 0, n, words.data());
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = (static_cast<double>(words[i]) + 0.5) * 0x1p-31 - 1;
  return out;
}

std::vector<float> moved(const std::vector<float>& x, double distance, uint32_t seed) {
  const std::vector<double> part = noise(x.size(), seed);
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) + distance * part[i]);
  return y;
}

std::vector<double> draws_u(size_t n) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words(Random(kId, 0).draws(Purpose::rounding, kFirstStage), 0, n, words.data());
  std::vector<double> u(n);
  for (size_t i = 0; i < n; ++i) u[i] = (static_cast<double>(words[i] >> 9) + 0.5) * 0x1p-23 - 0.5;
  return u;
}

float step_in(const Bytes& stored) {
  float step;
  std::memcpy(&step, stored.data(), sizeof(step));
  return step;
}

}  // namespace

TEST_CASE("ndqsg: an example worked by hand") {
  // The draws of spec/random.md, section 6, with step 0.5 and rho 3. x / step + u of elements 2 to 6 rounds to 1, 0, 0,
  // 2 and -1; modulo 3 these are 1, 0, 0, -1, -1, and the symbols one more.
  const std::vector<float> x = {1.5F, 0, 0.3F, -0.3F, 0, 1, -0.75F};
  const std::vector<uint32_t> expected = {0x3EA43187, 0xBDC21274, 0xBCA626F0, 0x3F8B807C, 0xBF103114};
  const VectorTensor tensor(x);
  const MessageId id = {1, 2, 3};
  Inputs inputs{Random(id, 0), kFirstStage, kChunk};
  // Beside each the nearest of 1 + 3 m, 3 m, 3 m, 2 + 3 m, -1 + 3 m to y / step + u: the same, but for the last of y.
  const VectorTensor side({1.2F, 0.1F, 0.1F, -0.6F, 0.5F, 0.8F, 0.5F});
  inputs.side = &side;
  const auto encoder = parse_scheme("ndqsg:fine=3,coarse=1").prepare(tensor, inputs);
  Code code;
  std::vector<float> promised(x.size()), decoded(x.size());
  encoder->encode({0, x.size()}, code, promised);
  const std::vector<uint16_t>& symbols = code.streams[0].symbols;
  CHECK(std::vector<uint16_t>(symbols.begin() + 2, symbols.end()) == std::vector<uint16_t>{2, 1, 1, 0, 0});
  encoder->decoder().decode(code, {0, x.size()}, decoded);
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(std::bit_cast<uint32_t>(promised[2 + i]) == expected[i]);
    if (i < 4) CHECK(std::bit_cast<uint32_t>(decoded[2 + i]) == expected[i]);
  }
  // The last: y / step + u = 1.13 is nearer to 2 than to -1. Off by the coarse step.
  CHECK(decoded[6] == Approx(-0.5632489 + 1.5));
}

TEST_CASE("ndqsg: equal to dqsg of the same step bit for bit while side information is near") {
  const std::vector<float> x = varied(10001);
  for (const auto& [fine, coarse] : std::vector<std::pair<uint32_t, uint32_t>>{{3, 1},
                                                                               {2, 1},
                                                                               {4, 1},
                                                                               {4, 2},
                                                                               {5, 1},
                                                                               {9, 3},
                                                                               {16, 1},
                                                                               {127, 1},
                                                                               {128, 64},
                                                                               {300, 4},
                                                                               {32767, 1},
                                                                               {32766, 16383},
                                                                               {32767, 4681}}) {
    const std::string text = text_of(fine, coarse);
    INFO(text);
    const RoundTrip plain =
        round_trip(VectorTensor(x), "dqsg:levels=" + std::to_string(2 * fine + 1), kId, kChunk, Nonfinite::keep);
    const SideNeed need = nested(x, x, text).need;
    CHECK(need.rho == fine / coarse);
    CHECK(need.step == static_cast<double>(step_in(plain.stored)));
    CHECK(need.limit() == Approx((need.rho - 1) * need.step / 2).epsilon(2e-5));
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const Nested message = nested(x, moved(x, need.limit(), seed), text + ",check=yes");
      CHECK(same_bits(message.decoded, plain.decoded));
      CHECK(same_bits(message.promised, plain.decoded));
      CHECK(std::count(message.overloaded.begin(), message.overloaded.end(), true) == 0);
      for (const Code& code : message.chunks) {
        CHECK(code.streams[0].alphabet == need.rho);
        for (const uint16_t symbol : code.streams[0].symbols) REQUIRE(symbol < need.rho);
      }
    }
    const Nested wide = nested(x, moved(x, 2.5 * need.limit(), 1), text + ",check=yes");
    CHECK_FALSE(same_bits(wide.decoded, plain.decoded));
  }
}

TEST_CASE("ndqsg: the range scales both lattices") {
  const std::vector<float> x = varied(5000);
  const float max = extent_of(x).max;
  for (const double range : {0.5, 0.25, 1.0, 2.0, 16.0}) {
    INFO(range);
    const Nested message = nested(x, x, "ndqsg:fine=6,coarse=2,range=" + std::to_string(range));
    const double step = message.need.step;
    CHECK(6 * step >= range * static_cast<double>(max));
    CHECK(step == Approx(range * static_cast<double>(max) / 6).epsilon(1e-6));
    if (range > 1) continue;
    const std::string same = "dqsg:levels=" + std::to_string(1 + static_cast<int>(12 / range));
    CHECK(same_bits(message.decoded, round_trip(VectorTensor(x), same, kId).decoded));
  }
  // Beyond 32,767 steps values are kept as they are.
  const Nested few = nested(x, std::vector<float>(x.size(), 0.0F), "ndqsg:fine=3000,coarse=1,range=0.001");
  size_t kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::fabs(static_cast<double>(x[i])) <= 32767 * few.need.step) continue;
    CHECK(std::bit_cast<uint32_t>(few.decoded[i]) == std::bit_cast<uint32_t>(x[i]));
    ++kept;
  }
  CHECK(kept > 100);
  CHECK(kept == few.chunks[0].exceptions.size() + few.chunks[1].exceptions.size());
}

TEST_CASE(
    "ndqsg: an overload is off by a multiple of alpha times the coarse step, and seen in each chunk that has one") {
  std::vector<float> x = varied(6 * kChunk - 100);
  x[7] = std::numeric_limits<float>::infinity();  // no value of any lattice
  const std::vector<double> u = draws_u(x.size());
  for (const std::string alpha : {"1", "0.75", "0.5"}) {
    for (const uint32_t rho : {2U, 3U, 4U, 7U}) {
      INFO("alpha " << alpha << ", rho " << rho);
      const std::string text = text_of(rho * 2, 2, ",check=yes,alpha=" + alpha);
      const SideNeed need = nested(x, x, text).need;
      // Chunks with one wrong value, with none, and with many.
      std::vector<float> y = moved(x, 0.9 * need.limit(), rho);
      const double coarse = need.rho * need.step;
      y[1234] = static_cast<float>(static_cast<double>(x[1234]) + 1.2 * coarse / need.alpha);
      for (size_t i = 2 * kChunk; i < 3 * kChunk; ++i) y[i] += static_cast<float>(i % 3 == 0 ? 3 * coarse : 0);
      y[5 * kChunk] = 1e38F;  // not regular: counts as 0
      y[5 * kChunk + 1] = std::numeric_limits<float>::quiet_NaN();
      const Nested message = nested(x, y, text);
      std::vector<bool> expected(message.ranges.size(), false);
      uint64_t wrong = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (i == 7) continue;
        const auto value = static_cast<double>(x[i]), near = static_cast<double>(side_value(y[i]));
        // What was rounded: t = alpha x / step + u, to within float32.
        const double scaled = static_cast<double>(static_cast<float>(need.alpha * value));
        const double q1 = std::nearbyint(scaled / need.step + u[i]);
        const double q = q1 + rho * std::floor((need.alpha * near / need.step + u[i] - q1) / rho + 0.5);
        const double right = need.alpha * need.step * (q1 - u[i]) + (1 - need.alpha * need.alpha) * near;
        const double off = (static_cast<double>(message.decoded[i]) - right) / (need.alpha * coarse);
        const double slack = 1e-3 + 1e-6 * std::fabs(near) / coarse;
        CHECK(std::fabs(off - std::nearbyint(off)) < slack);
        CHECK(std::nearbyint(off) == Approx((q - q1) / rho).margin(1e-9));
        CHECK(need.is_right(value, near, static_cast<double>(message.decoded[i])) == (q == q1));
        if (q != q1) expected[i / kChunk] = true;
        wrong += q != q1 ? 1 : 0;
      }
      CHECK(message.overloaded == expected);
      CHECK(expected[0]);
      CHECK_FALSE(expected[1]);
      CHECK(expected[2]);
      CHECK(wrong > 1000);
      CHECK(std::isinf(message.decoded[7]));
      // Without the check nothing is seen, and the same is decoded.
      const Nested unseen = nested(x, y, text_of(rho * 2, 2, ",alpha=" + alpha));
      CHECK(std::count(unseen.overloaded.begin(), unseen.overloaded.end(), true) == 0);
      CHECK(same_bits(unseen.decoded, message.decoded));
    }
  }
}

TEST_CASE("ndqsg: with alpha below 1 the error is biased towards side information, and less") {
  const std::vector<float> x = varied(20000);
  const VectorTensor tensor(x);
  const double step = nested(x, x, "ndqsg:fine=8,coarse=1").need.step;
  // sigma^2 of uniform noise of this half width, and the alpha that is best for it.
  const double width = step / 2, sigma2 = width * width / 3, best = std::sqrt(1 - step * step / (24 * sigma2));
  const std::vector<float> y = moved(x, width, 5);
  const auto square = [&](const Nested& message) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(message.decoded[i]) - static_cast<double>(x[i]);
      sum += e * e;
    }
    return sum / static_cast<double>(x.size());
  };
  const VectorTensor side(y);
  const Nested plain = nested(x, y, "ndqsg:fine=8,coarse=1");
  const Nested shrunk = nested(x, y, "ndqsg:fine=8,coarse=1,alpha=" + std::to_string(best), &side);
  CHECK(square(plain) == Approx(step * step / 12).epsilon(0.03));
  CHECK(square(shrunk) == Approx(step * step / 12 * (1 - step * step / (48 * sigma2))).epsilon(0.03));
  CHECK(same_bits(shrunk.promised, shrunk.decoded));  // which an encoder knows that has the side information
  double slope = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    slope += (static_cast<double>(shrunk.decoded[i]) - static_cast<double>(x[i])) * d;
    norm += d * d;
  }
  CHECK(slope / norm == Approx(best * best - 1).epsilon(0.05));
}

TEST_CASE("ndqsg: promises only what side information is near enough for") {
  const std::vector<float> x = varied(9000);
  const VectorTensor tensor(x);
  const auto promise = [&](const std::string& text, const std::vector<float>* y) {
    Inputs inputs{Random(kId, 0), kFirstStage, kChunk};
    std::optional<VectorTensor> side;
    if (y != nullptr) inputs.side = &side.emplace(*y);
    return parse_scheme(text).prepare(tensor, inputs)->promise();
  };
  const SideNeed need = nested(x, x, "ndqsg:fine=6,coarse=2").need;
  const std::vector<float> near = moved(x, need.limit(), 1);
  std::vector<float> one = near;
  one[8888] = static_cast<float>(static_cast<double>(x[8888]) + 1.01 * need.limit());
  const Promise good = promise("ndqsg:fine=6,coarse=2", &near);
  CHECK(good.unbiased);
  CHECK(good.variance.value() == Approx(9000 * need.step * need.step / 12));
  for (const Promise& none : {promise("ndqsg:fine=6,coarse=2", &one), promise("ndqsg:fine=6,coarse=2", nullptr)}) {
    CHECK_FALSE(none.unbiased);
    CHECK_FALSE(none.variance);
    CHECK_FALSE(none.max_error);
  }
  const Promise biased = promise("ndqsg:fine=6,coarse=2,alpha=0.5", &near);
  CHECK_FALSE(biased.unbiased);
  double moved2 = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    moved2 += std::pow(static_cast<double>(x[i]) - static_cast<double>(near[i]), 2);
  }
  CHECK(biased.variance.value() == Approx(9000 * need.step * need.step / 48 + 0.5625 * moved2));
}

TEST_CASE("ndqsg: laws are of side information, and reach as far as its limit") {
  const std::vector<float> x = {1.0F, -0.5F, 0.25F, 0.125F};
  const std::vector<float> y = {1.0F, -0.25F, 0.25F, 5.0F};
  const VectorTensor tensor(x), side(y);
  Inputs inputs{Random(kId, 0), kFirstStage, kChunk};
  inputs.side = &side;
  const OneChunk chunk = one_chunk(tensor, "ndqsg:fine=4,coarse=1,alpha=0.5", inputs);
  CHECK(chunk.laws[0] == Law(Law::uniform, -0.0625, 0.0625, 0));
  CHECK(chunk.laws[1] == Law(Law::uniform, 0.75 * 0.25 - 0.0625, 0.75 * 0.25 + 0.0625, 0));
  CHECK(chunk.laws[3].kind == Law::outside);
}

TEST_CASE("ndqsg: hostile side information is finite, bounded work, and the same everywhere") {
  const std::vector<float> x = varied(3000);
  const std::vector<float> nothing(x.size(), 0.0F);
  for (const std::string text :
       {"ndqsg:fine=3,coarse=1", "ndqsg:fine=32767,coarse=1,alpha=0.3", "ndqsg:fine=4,coarse=2"}) {
    const Nested zeros = nested(x, nothing, text);
    for (const float hostile : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(), 0x1.000002p126F, -3e38F}) {
      CHECK(same_bits(nested(x, std::vector<float>(x.size(), hostile), text).decoded, zeros.decoded));
    }
    const Nested far = nested(x, std::vector<float>(x.size(), 0x1p126F), text);
    for (const float value : far.decoded) CHECK_FALSE(std::isnan(value));
    CHECK_FALSE(same_bits(far.decoded, zeros.decoded));
  }
  // The integer is limited: |q| < 32,767 + 2 rho.
  std::vector<uint16_t> symbols = {0, 1, 2};
  const std::vector<float> sides = {0x1p126F, -0x1p126F, 1.0F};
  std::vector<int32_t> fine(3);
  std::vector<float> out(3);
  const kernels::Nesting nesting = {.step = 0x1p-126F,
                                    .rho = 3,
                                    .alpha = 1,
                                    .per_side = 1 / (3 * 0x1p-126),
                                    .per_fine = 1.0 / 3,
                                    .keep = 0,
                                    .cell = 0x1p-126,
                                    .most = 10923};
  kernels::scalar::nested_decode(symbols.data(), sides.data(), 3, {{1, 2}, 0, 0}, 0, nesting, fine.data(), out.data());
  CHECK(fine == std::vector<int32_t>{3 * 10923 - 1, -3 * 10923, 3 * 10923 + 1});
}

TEST_CASE("ndqsg: what no encoder writes is refused") {
  const std::vector<float> x = varied(100);
  const VectorTensor tensor(x), zeros(std::vector<float>(100, 0.0F));
  const Bytes good = nested(x, x, "ndqsg:fine=6,coarse=2,alpha=0.5").stored;
  REQUIRE(good.size() == 4 + 1 + 8 + 8 + 8);
  Inputs inputs{Random(kId, 0), kFirstStage, kChunk, Nonfinite::keep};
  inputs.side = &tensor;
  const SchemeChoice choice = parse_stored_scheme("ndqsg");
  const auto refused = [&](size_t at, const auto& value) {
    Bytes bad = good;
    std::memcpy(bad.data() + at, &value, sizeof(value));
    ByteReader stored(bad, "stored");
    CHECK_THROWS_AS(choice.restore(stored, inputs), Error);
  };
  for (const float step : {-1.0F, -0.0F, 1e-45F, 0x1p127F, std::numeric_limits<float>::quiet_NaN(), 0.0F, 1.0F}) {
    refused(0, step);
  }
  for (const uint8_t rho : {uint8_t{0}, uint8_t{1}, uint8_t{2}, uint8_t{4}}) refused(4, rho);
  for (const double alpha : {0.0, -0.5, 1e-4, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) refused(5, alpha);
  for (const double factor : {0.0, 1.0, std::numeric_limits<double>::infinity()}) {
    refused(13, factor);
    refused(21, factor);
  }
  // Codes.
  const auto decoder = [&](const Tensor& of) { return parse_scheme("ndqsg:fine=6,coarse=2").prepare(of, inputs); };
  const auto decode = [&](const Encoder& encoder, const std::function<void(Code&)>& change) {
    for (const bool blind : {false, true}) {
      Inputs own = inputs;
      if (blind) own.side = nullptr;
      const Bytes bytes = encoder.decoder().stored();
      ByteReader stored(bytes, "stored");
      const auto restored = choice.restore(stored, own);
      Code code;
      std::vector<float> out(100);
      encoder.encode({0, 100}, code, out);
      change(code);
      CHECK_THROWS_AS(restored->decode(code, {0, 100}, out), Error);
    }
  };
  decode(*decoder(zeros), [](Code& code) { code.streams[0].symbols[3] = 0; });
  decode(*decoder(tensor), [](Code& code) {
    code.exceptions = {{0, std::bit_cast<uint32_t>(0.5F)}};
    code.streams[0].symbols[0] = 1;
  });
  decode(*decoder(tensor), [](Code& code) {
    code.exceptions = {{0, 0x7F800000}};
    code.streams[0].symbols[0] = 0;
  });
}

TEST_CASE("ndqsg: texts that mean nothing, and where it cannot stand") {
  const auto refused = [](const std::string& text, const std::string& says) {
    INFO(text);
    CHECK_THROWS_WITH(parse_scheme(text), Catch::Contains(says));
  };
  refused("ndqsg:fine=5,coarse=2", "multiple of 'coarse'");
  refused("ndqsg:fine=3,coarse=3", "twice it");
  refused("ndqsg:fine=2,coarse=4", "not 2 of 4");
  refused("ndqsg:fine=3", "needs 'coarse");
  refused("ndqsg:fine=3,coarse=1,alpha=0", "alpha");
  refused("topk:k=1%/ndqsg:fine=3,coarse=1", "stands alone");
  refused("rotate/ndqsg:fine=3,coarse=1", "stands alone");
  refused("ndqsg:fine=3,coarse=1/qsgd:s=4", "takes none behind it");
  CHECK(parse_scheme("ndqsg:fine=3,coarse=1,alpha=0.5,range=2").stored_text() == "ndqsg");
  CHECK(parse_scheme("ndqsg:fine=3,coarse=1,check=yes").stored_text() == "ndqsg:check=yes");
}

TEST_CASE("ndqsg: contexts tell the sign by class where the alphabet has no middle") {
  const std::vector<float> x = varied(500);
  const VectorTensor tensor(x);
  Inputs inputs{Random(kId, 0), kFirstStage, kChunk};
  std::vector<uint16_t> odd(500), even(500), dither(500);
  parse_scheme("dqsg:levels=3").prepare(tensor, inputs)->decoder().contexts({}, 0, {0, 500}, dither);
  const auto of = [&](const char* text, uint32_t classes, std::vector<uint16_t>& out) {
    const auto encoder = parse_scheme(text).prepare(tensor, inputs);
    CHECK(encoder->decoder().streams({}, {0, 500})[0].classes == classes);
    encoder->decoder().contexts({}, 0, {0, 500}, out);
  };
  of("ndqsg:fine=3,coarse=1", 32, odd);
  of("ndqsg:fine=4,coarse=1", 64, even);
  CHECK(odd == dither);
  for (size_t i = 0; i < 500; ++i) {
    CHECK(even[i] % 2 == 0);
    CHECK(even[i] / 2 == dither[i] / 2 + 32 * (dither[i] % 2));
  }
}

TEST_CASE("nested_decode: the same bits by every instruction set, at any place") {
  const size_t n = 3000;
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{5, 6}, 0, 0}, 0, n, words.data());
  for (const auto& [rho, alpha] :
       std::vector<std::pair<uint32_t, double>>{{2, 1}, {3, 1}, {3, 0.7}, {8, 0.2}, {32767, 1}, {32766, 0.9}}) {
    std::vector<uint16_t> symbols(n);
    std::vector<float> sides(n);
    for (size_t i = 0; i < n; ++i) {
      symbols[i] = static_cast<uint16_t>(words[i] % rho);
      sides[i] =
          i % 5 == 0 ? std::bit_cast<float>(words[i]) : static_cast<float>(static_cast<int32_t>(words[i])) * 0x1p-24F;
    }
    for (const float step : {0.013F, 0x1p-126F, 0x1p126F}) {
      const double wide = step;
      const kernels::Nesting nesting = {.step = step,
                                        .rho = rho,
                                        .alpha = alpha,
                                        .per_side = alpha / (rho * wide),
                                        .per_fine = 1.0 / rho,
                                        .keep = 1 - alpha * alpha,
                                        .cell = alpha * wide,
                                        .most = static_cast<int32_t>(32767 / rho) + 1};
      for (const auto& [first, len] : std::vector<std::pair<uint64_t, size_t>>{
               {0, n}, {1, 37}, {3, 1}, {(uint64_t{1} << 34) - 5, 100}, {4, 0}, {2, 1500}}) {
        const kernels::Draws draws = {{9, 8}, 2, 1 << 16};
        std::vector<float> expected(n, 7.0F), out(n, 7.0F);
        std::vector<int32_t> fine(n, 7), found(n, 7);
        kernels::scalar::nested_decode(symbols.data(), sides.data(), len, draws, first, nesting, fine.data(),
                                       expected.data());
        for (const std::string& target : kernels::available_targets()) {
          INFO(target << ", rho " << rho << ", alpha " << alpha << ", step " << step << ", from " << first);
          REQUIRE(kernels::use_target(target));
          for (int32_t* indices : {found.data(), static_cast<int32_t*>(nullptr)}) {
            std::fill(out.begin(), out.end(), 7.0F);
            kernels::nested_decode(symbols.data(), sides.data(), len, draws, first, nesting, indices, out.data());
            CHECK(same_bits(out, expected));
          }
          CHECK(found == fine);
        }
        kernels::use_target("");
      }
    }
  }
}
