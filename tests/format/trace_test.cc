// Layouts take names apart in one way, or refuse them.
// SPDX-License-Identifier: Apache-2.0
#include "format/trace.h"

#include <catch2/catch.hpp>

using namespace gradcodec;

namespace {

using Parts = std::tuple<uint64_t, uint64_t, std::string>;

std::optional<Parts> taken(const char* layout, const std::string& name) {
  const std::optional<TraceLayout::Name> found = TraceLayout::parse(layout).match(name);
  if (!found) return std::nullopt;
  return Parts{found->step, found->worker, found->param};
}

std::string guessed(const std::string& name) {
  const std::optional<TraceLayout> layout = TraceLayout::guess({{"other", {}, {1}}, {name, {}, {1}}});
  return layout ? layout->text() : "";
}

}  // namespace

TEST_CASE("layouts find step, worker and parameter in any order") {
  CHECK(taken("step_{step}/worker_{worker}/{param}", "step_000010/worker_3/fc1.weight") == Parts{10, 3, "fc1.weight"});
  CHECK(taken("{worker}-{step}-{param}", "7-8-9-10") == Parts{8, 7, "9-10"});
  CHECK(taken("{param}@{step}:{worker}", "a@1:2@3:4") == Parts{3, 4, "a@1:2"});
  CHECK(taken("s{step}/{param}/grad", "s5/a/b/grad") == Parts{5, 0, "a/b"});
  CHECK(taken("w{worker}", "w999999999999999999") == Parts{0, 999999999999999999, "array"});
  CHECK(taken("{param}/{step}", std::string("\0\xff/3", 4)) == Parts{3, 0, std::string("\0\xff", 2)});
  CHECK(taken("{brace}{step}/{param}", "{brace}1/x") == Parts{1, 0, "x"});
}

TEST_CASE("what does not fit is not taken") {
  for (const char* name : {"", "step_", "step_/w", "step_1", "step_1/", "step_x/w", "tep_1/w", " step_1/w", "step_-1/w",
                           "step_1000000000000000000/w", "step_+1/w", "step_1 /w", "STEP_1/w"}) {
    CAPTURE(name);
    CHECK(!taken("step_{step}/{param}", name));
  }
  CHECK(!taken("{param}/{step}", "/1"));
  CHECK(!taken("a{step}a", "a1ab"));
  CHECK(!taken("a{param}a{step}", "a1"));  // what stands before and behind may not overlap
  CHECK(taken("step_{step}/{param}", "step_000000000000000000000000000007/w") == Parts{7, 0, "w"});
}

TEST_CASE("layouts that say too little are refused") {
  for (const char* layout : {"", "x", "{param}", "{step}{param}", "{worker}{step}", "{step}/{step}",
                             "{param}/{param}/{step}", "{step}1/{param}", "2{worker}", "{STEP}"}) {
    CAPTURE(layout);
    CHECK_THROWS_AS(TraceLayout::parse(layout), Error);
  }
}

TEST_CASE("layouts are guessed from names") {
  CHECK(guessed("step_000010/worker_3/fc1.weight") == "step_{step}/worker_{worker}/{param}");
  CHECK(guessed("run/Step-1/net/fc1/w") == "run/Step-{step}/{param}");
  CHECK(guessed("fc1/w/rank0") == "{param}/rank{worker}");
  CHECK(guessed("step1/step2/w") == "step{step}/{param}");
  CHECK(guessed("step_1/worker_2") == "step_{step}/worker_{worker}");
  CHECK(guessed("fc1.weight").empty());
  // A name from which the layout was guessed fits it.
  for (const char* name : {"a/step_1/b/worker_2/c", "step1", "worker_1/worker_2", "rank1/step2/x/y"}) {
    CAPTURE(name);
    CHECK(TraceLayout::guess({{name, {}, {1}}})->match(name));
  }
}
