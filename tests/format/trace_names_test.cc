// SPDX-License-Identifier: Apache-2.0
#include "format/trace_names.h"

#include <catch2/catch.hpp>

namespace gradcodec {
namespace {

using Number = std::optional<uint64_t>;

TEST_CASE("steps and workers in names") {
  const struct {
    const char* name;
    Number step, worker;
    const char* rest;
  } cases[] = {{"step_000010/worker_00/fc1.weight", 10, 0, "fc1.weight"},
               {"step-10/rank_3/a/b", 10, 3, "a/b"},
               {"a/Step10/worker12", 10, 12, "a"},
               {"worker_1/x", {}, 1, "x"},
               {"step_0/step_1/x", 0, {}, "step_1/x"},
               {"step_999999999999999999", 999999999999999999, {}, ""},
               {"steps/step/step_/step_1a/step__1/step_1000000000000000000", {}, {}, nullptr},
               {"worker/stepper_1/myworker_1", {}, {}, nullptr},
               {"", {}, {}, ""}};
  for (const auto& [name, step, worker, rest] : cases) {
    CAPTURE(name);
    const TraceName got = parse_trace_name(name);
    CHECK(got.step == step);
    CHECK(got.worker == worker);
    CHECK(got.rest == (rest == nullptr ? name : rest));
    CHECK(got.in_trace() == (step || worker));
  }
}

}  // namespace
}  // namespace gradcodec
