// What schemes make of a dump, as compare measures it.
// SPDX-License-Identifier: Apache-2.0
#include "format/scheme_trial.h"

#include <catch2/catch.hpp>

#include "format/made_messages.h"

using namespace gradcodec;

namespace {

// One tensor that a limit of values leaves as it is, one that it does not, and integers.
MemorySource dump() {
  MemorySource source;
  std::vector<float> signs(400), heavy = made_values(5000);
  for (size_t i = 0; i < signs.size(); ++i) signs[i] = i % 2 == 0 ? 1.0F : -1.0F;
  heavy[17] = 1000 * heavy[18];
  source.add_values("signs", "f4", {20, 20}, signs);
  source.add_values("heavy", "f2", {5000}, heavy);
  source.add("integers", "i4", {3}, Bytes(12));
  return source;
}

CompressOptions options_of(std::string_view scheme) {
  CompressOptions options;
  options.scheme = parse_scheme(scheme);
  options.id.seed = 3;
  return options;
}

SchemeTrial trial_of(std::string_view scheme) {
  MemorySource source = dump();
  Progress progress;
  const SchemeTrial trial = try_scheme(source, options_of(scheme), progress);
  CHECK(progress.done == progress.total);
  return trial;
}

}  // namespace

TEST_CASE("a trial has the size and the errors of a real message") {
  const SchemeTrial exact = trial_of("raw"), fine = trial_of("dither:nmse=0.001"), coarse = trial_of("dither:nmse=1");
  CHECK(exact.nmse == 0.0);
  CHECK(exact.max_error == 0.0);
  CHECK(exact.element_bytes == 1600 + 10000 + 12);
  CHECK(*fine.nmse < *coarse.nmse);
  CHECK(*fine.nmse == Approx(0.001).epsilon(0.5));
  CHECK(coarse.bytes < fine.bytes);
  CHECK(*fine.bits == 8.0 * static_cast<double>(fine.bytes) / (400 + 5000 + 3));
  CHECK(trial_of("dither:nmse=1").bytes == coarse.bytes);
}

TEST_CASE("an error is kept up to it, and by zeros always") {
  SchemeTrial trial;
  CHECK(trial.keeps(0));  // no values
  trial.nmse = 0.5;
  CHECK(trial.keeps(0.5));
  CHECK_FALSE(trial.keeps(0.4999));
  trial.nmse.reset();
  trial.max_error = 0.25;  // zeros that became something
  CHECK_FALSE(trial.keeps(1e9));
  trial.max_error = 0;
  CHECK(trial.keeps(0));
}

TEST_CASE("a promise is that of the tensor of which least is promised") {
  MemorySource source = dump();
  CHECK(promise_of(source, options_of("raw")) == "exact");
  CHECK(promise_of(source, options_of("dither:nmse=0.1")) == "unbiased");
  CHECK(promise_of(source, options_of("sign")) == "contraction");
  CompressOptions options = options_of("tqsgd:bits=3");
  CHECK(promise_of(source, options) == "unbiased, clipped");
  options.exclude = {"heavy"};
  CHECK(promise_of(source, options) == "unbiased");
  options.min_elements = 401;
  CHECK(promise_of(source, options) == "exact");
}
