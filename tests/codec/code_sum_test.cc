// SPDX-License-Identifier: Apache-2.0
#include "codec/code_sum.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "codec/sketch.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

struct Encoded {
  SchemeChoice choice;
  Inputs inputs;
  std::unique_ptr<Encoder> encoder;
  Code code;
  std::vector<float> decoded;
};

Encoded encoded(const VectorTensor& tensor, std::string_view text, uint64_t worker, std::optional<float> scale = {}) {
  Encoded out{parse_scheme(text), {Random({9, worker, 4}, 0), kFirstStage, kChunk}, nullptr, {}, {}};
  out.inputs.shared_scale = scale;
  out.inputs.size = tensor.size();
  out.inputs.nonfinite = Nonfinite::keep;
  out.encoder = out.choice.prepare(tensor, out.inputs);
  out.decoded.resize(tensor.size());
  out.encoder->encode({0, tensor.size()}, out.code, out.decoded);
  return out;
}

std::vector<float> some_values(size_t n, float scale) {
  std::vector<float> x;
  for (size_t i = 0; i < n; ++i) x.push_back(scale * std::sin(static_cast<float>(i * i + 1)));
  return x;
}

std::string misfit_of(const CodeSum& before, const Decoder& decoder, uint64_t weight) {
  CodeSum sum = before;
  try {
    sum.join(decoder, weight);
    sum.stored();
  } catch (const Misfit& misfit) {
    return misfit.text;
  }
  return "";
}

}  // namespace

TEST_CASE("code sums: which texts add up, and to what") {
  const std::map<std::string, std::string> sums = {
      {"maxnorm:bits=2", "sum"},
      {"multiscale", "sum"},
      {"grid:step=1", "sum"},
      {"countsketch:rows=3,cols=9", "sum:of=tables/countsketch:rows=3"},
      {"countsketch:rows=1,cols=9%,value=i64,exp=8,scope=run",
       "sum:of=tables/countsketch:rows=1,value=i64,exp=8,scope=run"},
      {"momentum:m=0.5/countsketch:rows=3,cols=9", "sum:of=tables/countsketch:rows=3"},
      {"randk:k=1,shared=yes", "randk:shared=yes/sum:of=values"},
      {"randk:k=1,shared=yes/grid:step=1", "randk:shared=yes/sum"},
      {"rotate:block=8,shared=yes/randk:k=1,shared=yes/maxnorm", "rotate:block=8,shared=yes/randk:shared=yes/sum"}};
  for (const auto& [text, sum] : sums) {
    INFO(text);
    REQUIRE(sum_text(parse_scheme(text)) == sum);
    CHECK(sum_text(parse_stored_scheme(sum)) == sum);
  }
  for (const char* text : {"raw", "dqsg:levels=3", "qsgd:s=4,norm=max,bucket=0", "topk:k=1", "randk:k=1", "sign",
                           "randk:k=1/maxnorm", "rotate/maxnorm", "randk:k=1,shared=yes/dqsg:levels=3",
                           "rotate:shared=yes/countsketch:rows=1,cols=1", "momentum/topk:k=1"}) {
    INFO(text);
    CHECK(!sum_text(parse_scheme(text)));
  }
}

TEST_CASE("code sums: what they decode to is the sum of what messages decode to") {
  for (const char* text : {"maxnorm:bits=5", "multiscale:bits=2-4-6", "grid:step=0.25", "randk:k=20%,shared=yes",
                           "randk:k=20%,shared=yes/maxnorm", "rotate:block=16,shared=yes/maxnorm:bits=6"}) {
    INFO(text);
    const size_t n = 500;
    const std::array<uint64_t, 3> weights = {1, 3, 2};
    std::vector<VectorTensor> tensors;
    std::vector<Encoded> parts;
    for (size_t i = 0; i < 3; ++i) tensors.emplace_back(some_values(n, 1 + static_cast<float>(i)));
    for (size_t i = 0; i < 3; ++i) parts.push_back(encoded(tensors[i], text, i, 64));
    CodeSum sum(false);
    ChunkSum chunk;
    CodeSum::begin(chunk);
    for (size_t i = 0; i < 3; ++i) {
      sum.join(parts[i].encoder->decoder(), weights[i]);
      sum.add(parts[i].encoder->decoder(), weights[i], parts[i].code, {0, n}, chunk);
    }
    Code code;
    sum.finish(chunk, code);
    const Bytes bytes = sum.stored();
    ByteReader stored(bytes, "stored");
    const SchemeChoice choice = parse_stored_scheme(sum_text(parts[0].choice).value());
    const auto decoder = choice.restore(stored, parts[0].inputs);
    std::vector<float> out(n);
    decoder->decode(code, {0, n}, out);
    for (size_t i = 0; i < n; ++i) {
      double expected = 0, size = 0;
      for (size_t part = 0; part < 3; ++part) {
        const double term = static_cast<double>(weights[part]) * static_cast<double>(parts[part].decoded[i]);
        expected += term;
        size += std::fabs(term);
      }
      const double allowed = std::string_view(text).substr(0, 6) == "rotate" ? 1e-4 : 1e-6 * size;
      REQUIRE(std::fabs(static_cast<double>(out[i]) - expected) <= allowed);
    }
  }
}

TEST_CASE("code sums: which draws messages must share") {
  CHECK(sum_is_of_step(parse_stored_scheme("sum:of=tables/countsketch:rows=3")));
  CHECK(!sum_is_of_step(parse_stored_scheme("sum:of=tables/countsketch:rows=3,scope=run")));
  CHECK(sum_is_of_step(parse_stored_scheme("randk:shared=yes/sum:of=values")));
}

TEST_CASE("code sums: tables add up to the table of the sum, in any order and grouping") {
  constexpr size_t kSize = 300;
  const std::string text = "countsketch:rows=3,cols=20,value=i64,exp=20";
  std::vector<float> total(kSize);
  std::vector<VectorTensor> tensors;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<float> x = some_values(kSize, 1 + static_cast<float>(i));
    for (size_t j = 0; j < kSize; ++j) total[j] += x[j] = std::floor(x[j] * 0x1p10F) * 0x1p-10F;
    tensors.emplace_back(std::move(x));
  }
  std::vector<Encoded> parts;
  for (size_t i = 0; i < 4; ++i) parts.push_back(encoded(tensors[i], text, i));
  const VectorTensor all(total);
  const Encoded whole = encoded(all, text, 9);

  const auto sum_of = [&](std::initializer_list<const Decoder*> decoders, bool mean) {
    CodeSum sum(mean);
    for (const Decoder* decoder : decoders) sum.join(*decoder, 1);
    const Bytes bytes = sum.stored();
    ByteReader stored(bytes, "stored");
    Inputs inputs = parts[0].inputs;
    auto decoder = parse_stored_scheme(sum_text(parts[0].choice).value()).restore(stored, inputs);
    stored.expect_end();
    CHECK(decoder->stored() == bytes);
    return decoder;
  };
  const auto decoder_of = [&](size_t i) { return &parts[i].encoder->decoder(); };
  const auto sum = sum_of({decoder_of(0), decoder_of(1), decoder_of(2), decoder_of(3)}, false);
  CHECK(table_of(*sum)->integers().size() == 60);
  Bytes ours, theirs;
  table_of(*sum)->store(ours);
  table_of(whole.encoder->decoder())->store(theirs);
  CHECK(ours == theirs);
  const auto a = sum_of({decoder_of(3), decoder_of(1)}, true), b = sum_of({decoder_of(0)}, false);
  const auto c = sum_of({b.get(), decoder_of(2), a.get()}, false);
  CHECK(c->stored() == sum->stored());
  const auto mean = sum_of({a.get(), decoder_of(2), b.get()}, true);

  std::vector<float> of_sum(kSize), of_mean(kSize), of_whole(kSize), bare(kSize, 1);
  const Code none;
  sum->decode(none, {0, kSize}, of_sum);
  mean->decode(none, {0, kSize}, of_mean);
  whole.encoder->decoder().decode(none, {0, kSize}, of_whole);
  CHECK(same_bits(of_sum, of_whole));
  for (size_t i = 0; i < kSize; ++i) CHECK(of_mean[i] == of_sum[i] / 4);
  // Without its table a decoder checks chunks, and says nothing of values.
  const auto light = mean->summable()->without_table();
  CHECK(table_of(*light) == nullptr);
  light->decode(none, {0, kSize}, bare);
  CHECK(same_bits(bare, std::vector<float>(kSize)));
  Code odd;
  odd.exceptions.push_back({3, 0x7FC00000});
  CHECK_THROWS_WITH(light->decode(odd, {0, kSize}, bare), Catch::Contains("exceptions"));
  const auto of_message = parts[0].encoder->decoder().summable()->without_table();
  of_message->decode(odd, {0, kSize}, bare);
  CHECK(std::isnan(bare[3]));
  odd.exceptions[0].bits = 0x3F800000;
  CHECK_THROWS_AS(of_message->decode(odd, {0, kSize}, bare), Error);

  const auto misfit = [&](const Encoded& other) {
    CodeSum first(true);
    first.join(*decoder_of(0), 1);
    return misfit_of(first, other.encoder->decoder(), 1);
  };
  CHECK(misfit(parts[1]).empty());
  CHECK_THAT(misfit(encoded(all, "countsketch:rows=3,cols=21,value=i64,exp=20", 1)), Catch::Contains("21 columns"));
}

TEST_CASE("code sums: what does not go together says why") {
  const VectorTensor x(some_values(100, 1)), zeros(std::vector<float>(100));
  const auto decoder_of = [](const Encoded& part) -> const Decoder& { return part.encoder->decoder(); };
  const Encoded first = encoded(x, "maxnorm:bits=4", 1, 2);
  CodeSum sum(true);
  sum.join(decoder_of(first), 1);
  CHECK(misfit_of(sum, decoder_of(encoded(x, "maxnorm:bits=4", 2, 2)), 1).empty());
  CHECK(misfit_of(sum, decoder_of(encoded(zeros, "maxnorm:bits=4", 2)), 1).empty());
  CHECK_THAT(misfit_of(sum, decoder_of(encoded(x, "maxnorm:bits=4", 2, 3)), 1), Catch::Contains("--shared-scale"));
  CHECK_THAT(misfit_of(sum, decoder_of(encoded(x, "multiscale:bits=4-5", 2, 2)), 1), Catch::Contains("scales"));
  CHECK_THAT(misfit_of(sum, decoder_of(encoded(x, "dqsg:levels=3", 2)), 1), Catch::Contains("do not add up"));
  CHECK(misfit_of(sum, decoder_of(encoded(x, "maxnorm:bits=4", 2, 2)), (32767 - 15) / 15).empty());
  CHECK_THAT(misfit_of(sum, decoder_of(encoded(x, "maxnorm:bits=4", 2, 2)), (32767 - 15) / 15 + 1),
             Catch::Contains("65535"));
  CHECK_THAT(misfit_of(sum, decoder_of(encoded(zeros, "grid:step=1", 2)), (uint64_t{1} << 53) + 1),
             Catch::Contains("2^53"));

  const VectorTensor huge(std::vector<float>{0x1p126F});
  CodeSum large(false);
  large.join(decoder_of(encoded(huge, "maxnorm:bits=1", 1)), 1);
  CHECK(misfit_of(large, decoder_of(encoded(huge, "maxnorm:bits=1", 2)), 1).empty());
  CHECK_THAT(misfit_of(large, decoder_of(encoded(huge, "maxnorm:bits=1", 2)), 2), Catch::Contains("float32 holds"));

  const VectorTensor odd(std::vector<float>{1, std::numeric_limits<float>::infinity()});
  const Encoded kept = encoded(odd, "maxnorm:bits=4", 3, 2);
  ChunkSum chunk;
  CodeSum::begin(chunk);
  try {
    sum.add(kept.encoder->decoder(), 1, kept.code, {0, 2}, chunk);
    FAIL("an exception was added");
  } catch (const Misfit& misfit) {
    CHECK_THAT(misfit.text, Catch::Contains("value 1 of the chunk"));
  }
}
