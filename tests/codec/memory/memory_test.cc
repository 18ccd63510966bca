// Memories: the identities that they are for, over steps, and the examples that were worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "codec/edges.h"
#include "codec/memory/scripted.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

using Values = std::vector<float>;
using Doubles = std::vector<double>;

// What one side remembers of one tensor.
struct Kept {
  std::vector<Doubles> vectors;
  Memory memory;

  Kept(const Scheme& scheme, size_t size) : vectors(scheme.vectors().size(), Doubles(size)) {
    for (size_t i = 0; i < vectors.size(); ++i) memory.vectors[i] = vectors[i];
  }
};

Inputs inputs_at(uint64_t step, uint64_t size, uint64_t chunk_len, const Memory& memory) {
  Inputs inputs{Random({9, 4, step}, 0), kFirstStage, chunk_len};
  inputs.size = size;
  inputs.memory = &memory;
  return inputs;
}

// A step through bytes: `sender` and `receiver` go on by one.
struct Step {
  Values promised, decoded;
};

Step take_step(const SchemeChoice& choice, const Values& x, uint64_t step, uint64_t chunk_len, Kept& sender,
               Kept& receiver) {
  const VectorTensor tensor(x);
  const auto encoder = choice.prepare(tensor, inputs_at(step, x.size(), chunk_len, sender.memory));
  const Bytes bytes = encoder->decoder().stored();
  ByteReader stored(bytes, "stored");
  const auto decoder = choice.restore(stored, inputs_at(step, x.size(), chunk_len, receiver.memory));
  stored.expect_end();
  Step out;
  for (const Range range : chunks_of(x.size(), chunk_len)) {
    Values promised(range.count), decoded(range.count);
    Code code;
    encoder->encode(range, code, promised);
    decoder->decode(code, range, decoded);
    out.promised.insert(out.promised.end(), promised.begin(), promised.end());
    out.decoded.insert(out.decoded.end(), decoded.begin(), decoded.end());
  }
  return out;
}

// Values that differ from step to step.
Values step_values(size_t n, uint64_t step) {
  Values x = varied(n + 1000);
  return {x.begin() + static_cast<ptrdiff_t>(step * 37), x.begin() + static_cast<ptrdiff_t>(step * 37 + n)};
}

SchemeChoice over(const char* memory, const Scheme& scripted) {
  SchemeChoice choice = parse_scheme(memory);
  choice.inner = std::make_shared<const SchemeChoice>(SchemeChoice{.scheme = &scripted});
  return choice;
}

// One step of a memory whose inner scheme is scripted; returns what it decodes to.
Values scripted_step(const SchemeChoice& choice, const Values& x, Kept& kept) {
  const VectorTensor tensor(x);
  const auto encoder = choice.prepare(tensor, inputs_at(0, x.size(), 4096, kept.memory));
  Values out(x.size());
  Code code;
  encoder->encode({0, x.size()}, code, out);
  return out;
}

// QSGD of s levels with the norm N, x/N s = l + p up where u < p, for the uniform numbers `u` in order.
Values qsgd_of(std::span<const float> x, double norm, int s, const Doubles& u) {
  Values out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double r = std::fabs(static_cast<double>(x[i])) / norm * s;
    double level = std::floor(r);
    if (level < s && u[i] < r - level) level += 1;
    out[i] = static_cast<float>(std::copysign(level / s * norm, static_cast<double>(x[i])));
  }
  return out;
}

double max_of(std::span<const float> x) {
  double most = 0;
  for (const float value : x) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

double distance2(const Values& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

}  // namespace

TEST_CASE("what was sent and what is remembered are all that was to be sent") {
  constexpr size_t kSize = 9000;
  for (const char* text : {"ef/topk:k=2%", "ef/sign:axis=row", "ef/onebit", "ef/topk:k=10%/shrink/qsgd:s=2,bucket=0",
                           "ef/topk:k=10%/qsgd:s=4,bucket=0", "ef/dither:nmse=0.5", "ef/rotate:block=64/dqsg:levels=15",
                           "ef/threshold:t=0.1", "ec:alpha=1,beta=1/dqsg:levels=9", "momentum:m=0/topk:k=1%"}) {
    INFO(text);
    const SchemeChoice choice = parse_scheme(text);
    Kept sender(*choice.scheme, kSize), receiver(*choice.scheme, kSize);
    Doubles total(kSize), sent(kSize);
    for (uint64_t step = 0; step < 8; ++step) {
      const Values x = step_values(kSize, step);
      const Step done = take_step(choice, x, step, 4096, sender, receiver);
      CHECK(same_bits(done.decoded, done.promised));
      for (size_t i = 0; i < kSize; ++i) {
        total[i] += static_cast<double>(x[i]);
        sent[i] += static_cast<double>(done.decoded[i]);
      }
    }
    double worst = 0;
    for (size_t i = 0; i < kSize; ++i) worst = std::max(worst, std::fabs(total[i] - sent[i] - sender.vectors[0][i]));
    CHECK(worst <= 1e-12);
  }
}

TEST_CASE("ec remembers the decaying sum of what each step lost") {
  constexpr size_t kSize = 500;
  constexpr double kBeta = 0.9;
  const SchemeChoice choice = parse_scheme("ec:alpha=0.5,beta=0.9/qsgd:s=2,bucket=100");
  Kept sender(*choice.scheme, kSize), receiver(*choice.scheme, kSize);
  Doubles expected(kSize);
  for (uint64_t step = 0; step < 10; ++step) {
    const Values x = step_values(kSize, step);
    const Step done = take_step(choice, x, step, 4096, sender, receiver);
    for (size_t i = 0; i < kSize; ++i) {
      expected[i] = kBeta * expected[i] + static_cast<double>(x[i]) - static_cast<double>(done.decoded[i]);
      CHECK(sender.vectors[0][i] == Approx(expected[i]).margin(1e-12));
    }
  }
}

TEST_CASE("momentum: all that was sent and v are the sum of all u, and what was sent has no momentum") {
  constexpr size_t kSize = 5000;
  const SchemeChoice choice = parse_scheme("momentum:m=0.9/topk:k=5%");
  Kept sender(*choice.scheme, kSize), receiver(*choice.scheme, kSize);
  Doubles u(kSize), all(kSize), sent(kSize);
  for (uint64_t step = 0; step < 6; ++step) {
    const Values x = step_values(kSize, step);
    const Step done = take_step(choice, x, step, 4096, sender, receiver);
    for (size_t i = 0; i < kSize; ++i) {
      u[i] = 0.9 * u[i] + static_cast<double>(x[i]);
      all[i] += u[i];
      sent[i] += static_cast<double>(done.decoded[i]);
      if (done.decoded[i] != 0) u[i] = 0;
      CHECK(sender.vectors[1][i] == u[i]);
      CHECK(all[i] - sent[i] == Approx(sender.vectors[0][i]).margin(1e-12));
    }
  }
}

TEST_CASE("DIANA: both sides remember the same, bit for bit, and decode to it") {
  constexpr size_t kSize = 9000;
  for (const char* text : {"diana/randk:k=10%", "diana/qsgd:s=4", "diana:alpha=0.25/dither:nmse=0.5", "diana/natural",
                           "diana:alpha=0.5/rotate:block=64/dqsg:levels=5", "diana/randk:k=20%/dqsg:levels=9"}) {
    INFO(text);
    const SchemeChoice choice = parse_scheme(text);
    Kept sender(*choice.scheme, kSize), receiver(*choice.scheme, kSize);
    const Values x = step_values(kSize, 0);
    double first = 0, last = 0;
    for (uint64_t step = 0; step < 60; ++step) {
      const Step done = take_step(choice, x, step, 4096, sender, receiver);
      CHECK(same_bits(done.decoded, done.promised));
      CHECK(sender.vectors == receiver.vectors);
      last = distance2(done.decoded, Doubles(x.begin(), x.end()));
      if (step == 0) first = last;
    }
    CHECK(last < 0.2 * first);  // a gradient that stays is learned: the error goes away
  }
}

TEST_CASE("DIANA with alpha that does not move, h at 0, is the scheme behind it") {
  const Values x = step_values(5000, 0);
  const VectorTensor tensor(x);
  const RoundTrip plain = round_trip(tensor, "qsgd:s=4", {5, {}, {}}),
                  with = round_trip(tensor, "diana/qsgd:s=4", {5, {}, {}});
  CHECK(same_bits(plain.decoded, with.decoded));
}

TEST_CASE("the mean of the workers' h is what a server that keeps the mean has") {
  constexpr size_t kSize = 300, kWorkers = 5;
  const SchemeChoice choice = parse_scheme("diana:alpha=0.25/qsgd:s=2");
  std::vector<Kept> senders(kWorkers, Kept(*choice.scheme, kSize));
  for (Kept& kept : senders) kept.memory.vectors[0] = kept.vectors[0];
  Doubles server(kSize);
  for (uint64_t step = 0; step < 20; ++step) {
    Doubles mean_of_messages(kSize), mean_of_decoded(kSize);
    for (size_t w = 0; w < kWorkers; ++w) {
      const Values x = step_values(kSize, step + w);
      const Doubles before = senders[w].vectors[0];
      Kept receiver = senders[w];
      receiver.memory.vectors[0] = receiver.vectors[0];
      const Step done = take_step(choice, x, step * kWorkers + w, 4096, senders[w], receiver);
      for (size_t i = 0; i < kSize; ++i) {
        mean_of_messages[i] += (senders[w].vectors[0][i] - before[i]) / 0.25 / kWorkers;  // alpha m
        mean_of_decoded[i] += static_cast<double>(done.decoded[i]) / kWorkers;
      }
    }
    for (size_t i = 0; i < kSize; ++i) {
      CHECK(mean_of_decoded[i] == Approx(server[i] + mean_of_messages[i]).margin(1e-6));  // g = h + mean m, the old h
      server[i] += 0.25 * mean_of_messages[i];
      double mean = 0;
      for (const Kept& kept : senders) mean += kept.vectors[0][i] / kWorkers;
      CHECK(server[i] == Approx(mean).margin(1e-9));
    }
  }
}

TEST_CASE("values that are not finite go as they are, and leave what is remembered") {
  for (const char* text : {"ef/topk:k=50%", "ec/qsgd:s=4", "momentum/topk:k=50%", "diana/qsgd:s=100"}) {
    INFO(text);
    const SchemeChoice choice = parse_scheme(text);
    Kept kept(*choice.scheme, 4);
    kept.vectors[0] = {0.5, 0.25, -3, 1};
    const Doubles before = kept.vectors[0];
    const VectorTensor tensor({1, std::numeric_limits<float>::infinity(), 2, -std::numeric_limits<float>::quiet_NaN()});
    Inputs inputs = inputs_at(0, 4, 4096, kept.memory);
    inputs.nonfinite = Nonfinite::keep;
    const auto encoder = choice.prepare(tensor, inputs);
    Values out(4);
    Code code;
    encoder->encode({0, 4}, code, out);
    CHECK(out[1] == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(out[3]));
    CHECK(kept.vectors[0][1] == before[1]);
    CHECK(kept.vectors[0][3] == before[3]);
    CHECK(kept.vectors[0][0] != before[0]);
  }
}

TEST_CASE("a memory that has grown beyond float32 is an error that names the element") {
  const SchemeChoice choice = parse_scheme("ef/qsgd:s=4");
  Kept kept(*choice.scheme, 3);
  kept.vectors[0] = {0, 0, 1e300};
  const VectorTensor tensor({1, 2, 3});
  CHECK_THROWS_WITH(choice.prepare(tensor, inputs_at(0, 3, 4096, kept.memory)), Catch::Contains("element 2"));
}

TEST_CASE("nothing is remembered where nobody asks for it") {
  const SchemeChoice choice = parse_scheme("ef/topk:k=1");
  Kept kept(*choice.scheme, 3);
  kept.vectors[0] = {0, 5, 0};
  kept.memory.updates = false;
  CHECK(scripted_step(choice, {1, 2, 3}, kept) == Values{0, 7, 0});
  CHECK(kept.vectors[0] == Doubles{0, 5, 0});
}

TEST_CASE("a memory warns where nothing keeps it bounded") {
  const auto warning = [](const char* text) {
    const VectorTensor tensor(varied(4096));
    const SchemeChoice choice = parse_scheme(text);
    const Kept kept(*choice.scheme, 4096);
    return choice.prepare(tensor, inputs_at(0, 4096, 4096, kept.memory))->warning();
  };
  CHECK(warning("ef/qsgd:s=1,bucket=0").find("lambda") != std::string::npos);
  CHECK(warning("ec:alpha=1/qsgd:s=1,bucket=0").find("lambda") != std::string::npos);
  CHECK(warning("ef/topk:k=1%/qsgd:s=1,bucket=0").find("nothing") != std::string::npos);
  CHECK(warning("diana:alpha=1/randk:k=1%").find("alpha") != std::string::npos);
  for (const char* text : {"ec/qsgd:s=1,bucket=0", "ef/shrink/qsgd:s=1,bucket=0", "ef/topk:k=1%", "ef/sign",
                           "ef/dither:nmse=0.5", "diana/randk:k=1%", "ef/topk:k=1%/shrink/qsgd:s=1,bucket=0"}) {
    INFO(text);
    CHECK(warning(text).empty());
  }
}

TEST_CASE("lambda tells what grows: ef over a coarse QSGD does, ec with its own alpha does not") {
  const auto norm_after = [](const char* text) {
    constexpr size_t kSize = 4096;
    const SchemeChoice choice = parse_scheme(text);
    Kept sender(*choice.scheme, kSize), receiver(*choice.scheme, kSize);
    for (uint64_t step = 0; step < 12; ++step)
      take_step(choice, step_values(kSize, step), step, 4096, sender, receiver);
    return std::sqrt(
        std::inner_product(sender.vectors[0].begin(), sender.vectors[0].end(), sender.vectors[0].begin(), 0.0));
  };
  CHECK(norm_after("ef/qsgd:s=1,bucket=0") > 1e4);
  CHECK(norm_after("ec/qsgd:s=1,bucket=0") < 1e3);
  CHECK(norm_after("ef/shrink/qsgd:s=1,bucket=0") < 1e3);
}

// alpha = .5, beta = .9, s = 1, max-norm; all uniform numbers .5.
TEST_CASE("ECQ-SGD by hand") {
  const ScriptedScheme quantizer([](std::span<const float> u) { return qsgd_of(u, max_of(u), 1, {0.5, 0.5}); });
  const SchemeChoice choice = over("ec:alpha=0.5,beta=0.9/qsgd:s=1", quantizer);
  Kept kept(*choice.scheme, 2);
  CHECK(scripted_step(choice, {3, -4}, kept) == Values{4, -4});
  CHECK(kept.vectors[0] == Doubles{-1, 0});
  CHECK(scripted_step(choice, {1, 1}, kept) == Values{0, 1});
  CHECK(kept.vectors[0][0] == Approx(0.1).epsilon(1e-12));
  CHECK(kept.vectors[0][1] == 0);
}

// rand-1 of two (omega 1, alpha 1/2), the gradient (4, 2) stays; coordinate 0 is kept first, then 1.
TEST_CASE("DIANA by hand") {
  size_t step = 0;
  const ScriptedScheme sparse(
      [&step](std::span<const float> x) {
        Values out(2);
        out[step % 2] = 2 * x[step % 2];
        ++step;
        return out;
      },
      1);
  const SchemeChoice choice = over("diana/qsgd:s=1", sparse);
  Kept kept(*choice.scheme, 2);
  CHECK(scripted_step(choice, {4, 2}, kept) == Values{8, 0});
  CHECK(kept.vectors[0] == Doubles{4, 0});
  CHECK(scripted_step(choice, {4, 2}, kept) == Values{4, 4});
  CHECK(kept.vectors[0] == Doubles{4, 2});
  CHECK(scripted_step(choice, {4, 2}, kept) == Values{4, 2});
}

// E ||h' - g||^2 from h = 0, both outcomes enumerated: 10 = (1 - alpha) 20, the bound.
TEST_CASE("one step of DIANA in expectation") {
  double mean = 0;
  for (const size_t kept_one : {0, 1}) {
    const ScriptedScheme sparse(
        [kept_one](std::span<const float> x) {
          Values out(2);
          out[kept_one] = 2 * x[kept_one];
          return out;
        },
        1);
    const SchemeChoice choice = over("diana/qsgd:s=1", sparse);
    Kept kept(*choice.scheme, 2);
    scripted_step(choice, {4, 2}, kept);
    mean += distance2({4, 2}, kept.vectors[0]) / 2;
  }
  CHECK(mean == 10);
}

// x = (4, -3, 1, 0), k = 2, s = 2: y = (4, -3), N = 5, uniform numbers .5.
TEST_CASE("Qsparse by hand") {
  const ScriptedScheme quantizer([](std::span<const float> y) { return qsgd_of(y, 5, 2, {0.5, 0.5}); }, 0.5);
  const auto composed = [&](const char* text, bool shrinks) {
    SchemeChoice choice = parse_scheme(text);
    SchemeChoice top = *choice.inner;
    SchemeChoice below{.scheme = &quantizer};
    if (shrinks) {
      SchemeChoice shrink = *top.inner;
      shrink.inner = std::make_shared<const SchemeChoice>(below);
      below = shrink;
    }
    top.inner = std::make_shared<const SchemeChoice>(below);
    choice.inner = std::make_shared<const SchemeChoice>(top);
    return choice;
  };
  const Values x = {4, -3, 1, 0};
  const SchemeChoice plain = composed("qsparse:k=2,s=2,variant=plain", false);
  Kept kept(*plain.scheme, 4);
  CHECK(scripted_step(plain, x, kept) == Values{5, -2.5, 0, 0});
  CHECK(kept.vectors[0] == Doubles{-1, -0.5, 1, 0});

  const SchemeChoice scaled = composed("qsparse:k=2,s=2", true);
  Kept kept_too(*scaled.scheme, 4);
  const Values sent = scripted_step(scaled, x, kept_too);
  CHECK(sent[0] == Approx(10.0 / 3));
  CHECK(sent[1] == Approx(-5.0 / 3));
  CHECK(distance2({0, 0, 0, 0}, kept_too.vectors[0]) == Approx(3.2222).epsilon(1e-4));  // the error is the memory

  // The paper's beta is min(2/4, sqrt(2)/2) = .5; qsgd's own bound for two values, d / (4 s^2), is a quarter of it, and
  // the divisor follows from that one.
  const VectorTensor two({4, -3});
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const auto encoder = parse_scheme("qsgd:s=2,norm=l2,bucket=0").prepare(two, inputs);
  CHECK(encoder->promise().omega.value() == Approx(0.125).epsilon(1e-5));
}

TEST_CASE("signs of the two largest, with their mean magnitude, by hand") {
  const SchemeChoice choice = parse_scheme("qsparse:k=2,variant=sign");
  Kept kept(*choice.scheme, 4);
  const Values x = {4, -3, 1, 0};
  CHECK(scripted_step(choice, x, kept) == Values{3.5F, -3.5F, 0, 0});
  CHECK(distance2({0, 0, 0, 0}, kept.vectors[0]) == 1.5);  // 26 - 49/2
}

TEST_CASE("names of compositions stand for them") {
  const auto stored = [](const char* text) { return parse_scheme(text).stored_text(); };
  CHECK(stored("qsparse:k=1%") == "ef/topk/shrink/qsgd:s=4,bucket=0");
  CHECK(stored("qsparse:k=1%,s=2,variant=plain") == "ef/topk/qsgd:s=2,bucket=0");
  CHECK(stored("ec-qsgd:s=2,norm=max") == "ec/qsgd:s=2,bucket=0");
  CHECK(stored("onebit-ef") == "ef/onebit");
  CHECK(stored("sign-ef:axis=row") == "ef/sign:axis=row");
  CHECK(stored("dgc:k=0.1%") == "momentum/topk");
  for (const char* wrong :
       {"qsparse", "qsparse:k=1%/qsgd:s=4", "ef/qsparse:k=1%", "qsparse:k=1%,x=2", "ef/ef/topk:k=1", "topk:k=1/ef/sign",
        "ef", "ef/raw", "qsparse:k=1%,k=2%", "qsparse:s", "ef/at", "topk:k=1/mask"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_scheme(wrong), Error);
  }
}
