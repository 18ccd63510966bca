// choose: what it picks, that it keeps the error or the bits asked for, and that no draw has a part in it.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/functions.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

std::vector<float> uniform(size_t n) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{5, 6}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>((words[i] >> 8) + 0.5) * 0x1p-24F;
  return x;
}

std::vector<float> normal(size_t n) {
  std::vector<float> x = uniform(n);
  for (float& value : x) value = static_cast<float>(functions::normal_quantile(static_cast<double>(value)));
  return x;
}

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

struct Chosen {
  std::string described;
  Bytes stored;
  Promise promise;
  std::unique_ptr<Encoder> encoder;
};

Chosen choose(const Tensor& tensor, std::string_view text, uint64_t seed = 1, uint64_t chunk_len = uint64_t{1} << 18) {
  const Inputs inputs{Random(MessageId{seed, {}, {}}, 0), kFirstStage, chunk_len};
  Chosen out;
  out.encoder = parse_scheme(text).prepare(tensor, inputs);
  out.described = out.encoder->decoder().describe();
  out.stored = out.encoder->decoder().stored();
  out.promise = out.encoder->promise();
  return out;
}

bool says(const Chosen& chosen, std::string_view what) { return chosen.described.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("choose: no draw has a part in the choice, nor has the coder") {
  for (const size_t n : {size_t{50}, size_t{3000}, size_t{200000}}) {
    const VectorTensor tensor(normal(n));
    for (const char* text : {"choose:nmse=0.1", "choose:nmse=2", "choose:bits=1"}) {
      const Bytes first = choose(tensor, text, 1).stored;
      for (uint64_t seed = 2; seed < 6; ++seed) CHECK(choose(tensor, text, seed).stored == first);
    }
  }
}

TEST_CASE("choose: sparse values at a large error are rounded, and dense ones at a small error dithered") {
  std::vector<float> sparse = normal(20000);
  for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = i % 50 == 0 ? sparse[i] : 0;
  CHECK(says(choose(VectorTensor(sparse), "choose:nmse=1"), "not subtracted"));
  CHECK(says(choose(VectorTensor(sparse), "choose:bits=0.1"), "not subtracted"));
  CHECK(says(choose(VectorTensor(normal(20000)), "choose:nmse=0.01"), "subtracted, step"));
  CHECK_FALSE(says(choose(VectorTensor(normal(20000)), "choose:nmse=0.01"), "not"));
}

TEST_CASE("choose: rows of one magnitude each have steps of their own") {
  std::vector<float> x = normal(7 * 600);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::copysign(1 + static_cast<float>(i / 600) / 8, x[i]);
  const Chosen chosen = choose(VectorTensor(x, 600), "choose:nmse=0.01");
  INFO(chosen.described);
  CHECK(says(chosen, "buckets of 600"));
}

TEST_CASE("choose: the error is the one asked for, or less where values are rounded") {
  std::vector<float> sparse = normal(100000), outlier(5000, 1e-3F);
  for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = i % 50 == 0 ? sparse[i] : 0;
  outlier[4000] = 30;
  for (const std::vector<float>& x : {normal(1), normal(1000), normal(100000), sparse, outlier, varied(10001)}) {
    const VectorTensor tensor(x);
    for (const double nmse : {1e-6, 1e-3, 0.1, 1.0, 8.0}) {
      const Chosen chosen = choose(tensor, "choose:nmse=" + std::to_string(nmse));
      INFO(x.size() << " values, nmse " << nmse << ": " << chosen.described);
      const double got = *chosen.promise.variance / squares(x);
      CHECK(got <= nmse * (1 + 1e-6));
      CHECK(got >= (says(chosen, "not") ? 0.9 : 1 - 1e-6) * nmse);
    }
  }
}

TEST_CASE("choose: of normal values at a small error it is dither, with one step") {
  const VectorTensor tensor(normal(50000));
  const Chosen chosen = choose(tensor, "choose:nmse=0.05");
  const OneChunk dithered = one_chunk(tensor, "dither:nmse=0.05");
  CHECK(*chosen.promise.variance == *dithered.promise.variance);  // normal values: that is what is chosen
}

TEST_CASE("choose: more bits, less error, as rate and distortion of normal values say") {
  const VectorTensor tensor(normal(60000));
  double last = 1e9;
  for (const double bits : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    const Chosen chosen = choose(tensor, "choose:bits=" + std::to_string(bits));
    const double nmse = *chosen.promise.variance / squares(tensor.values());
    INFO(bits << " bits: " << chosen.described << ", nmse " << nmse);
    CHECK(nmse < last);
    last = nmse;
    // Ideally 1 / (2^(2 bits) - 1) of an unbiased code. A dithered one of one dimension takes a quarter of a bit more
    // at most, its coder 2 %, and the steps are a 64th of an octave apart.
    const double ideal = 1 / (std::exp2(2 * bits) - 1), quarter = 1 / (std::exp2(1.96 * bits - 0.53) - 1);
    CHECK(nmse > ideal);
    if (quarter > 0) CHECK(nmse < quarter);
  }
}

TEST_CASE("choose: values that a sample does not see are seen by what is promised") {
  std::vector<float> x(1 << 20, 0.0F);
  for (const size_t at : {3000, 500001, 1000003}) x[at] = 1;
  for (const char* text : {"choose:nmse=0.1", "choose:nmse=3", "choose:bits=1"}) {
    const Chosen chosen = choose(VectorTensor(x), text);
    INFO(text << ": " << chosen.described);
    if (std::string_view(text) != "choose:bits=1") CHECK(*chosen.promise.variance <= 3 * 3 * (1 + 1e-6));
    CHECK(std::isfinite(*chosen.promise.variance));
  }
}

TEST_CASE("choose: one target, and one alone") {
  CHECK_THROWS_AS(parse_scheme("choose"), Error);
  CHECK_THROWS_AS(parse_scheme("choose:nmse=0.1,bits=2"), Error);
  CHECK_THROWS_AS(parse_scheme("choose:nmse=0"), Error);
  CHECK_THROWS_AS(parse_scheme("choose:bits=17"), Error);
  CHECK(parse_scheme("choose:bits=2").stored_text() == "choose");
}

TEST_CASE("choose: what no encoder stores is refused") {
  const auto restore = [](const Bytes& stored) {
    ByteReader reader(stored, "stored");
    const Inputs inputs{Random({}, 0), kFirstStage, 4096};
    return parse_stored_scheme("choose").restore(reader, inputs)->describe();
  };
  const auto bytes = [](std::initializer_list<int> list) {
    Bytes out;
    for (const int byte : list) out.push_back(static_cast<std::byte>(byte));
    return out;
  };
  CHECK(restore(bytes({0, 0, 0, 0, 0x80, 0x3F, 3})) == "subtracted, step 1, M 3");
  CHECK(restore(bytes({1, 0, 0, 0, 0x80, 0x3F, 3})) == "not subtracted, step 1, M 3");
  CHECK(restore(bytes({0, 5, 3})) == "subtracted, buckets of 5, a step a bucket, M 3");
  CHECK_THROWS_AS(restore(bytes({2, 0, 0, 0, 0x80, 0x3F, 3})), Error);
  CHECK_THROWS_AS(restore(bytes({1, 5, 3})), Error);
  CHECK_THROWS_AS(restore(bytes({0, 0x81, 0x80, 0x80, 0x02, 3})), Error);  // 4,194,305 elements
}
