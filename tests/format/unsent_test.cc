// What momentum keeps over a sketch until it is taken.
// SPDX-License-Identifier: Apache-2.0
#include "format/unsent.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = 1 << 20;

std::vector<TensorInfo> two_tensors() { return {{"w", {}, {2, 3}}, {"b", {}, {4}}}; }

StateFacts facts_of(uint64_t step) {
  StateFacts facts;
  facts.memory = "momentum";
  facts.step = step;
  return facts;
}

// v is 1, 2, ... and u 101, 102, ... in all tensors together.
Remembered some() {
  Remembered out({"v", "u"}, two_tensors(), kMemory);
  double next = 1;
  for (size_t tensor = 0; tensor < out.tensors(); ++tensor) {
    for (size_t i = 0; i < out.values(tensor, 0).size(); ++i, ++next) {
      out.values(tensor, 0)[i] = next;
      out.values(tensor, 1)[i] = 100 + next;
    }
  }
  return out;
}

IndexSet set_of(std::vector<uint64_t> of_w, std::vector<uint64_t> of_b, std::optional<uint64_t> step = 6) {
  IndexSet set;
  set.step = step;
  set.file = "taken";
  const std::vector<TensorInfo> infos = two_tensors();
  // In another order than the state's: names decide.
  set.add(infos[1], std::move(of_b));
  set.add(infos[0], std::move(of_w));
  return set;
}

std::string refusal(const StateFacts& facts, const IndexSet& set, Exit code = Exit::bad_input) {
  try {
    check_round(facts, some(), set);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("unsent: what is taken is forgotten in both vectors, by name, and nothing else is") {
  Remembered remembered = some();
  const IndexSet taken = set_of({0, 5}, {2});
  forget_taken(remembered, taken);
  const std::vector<double> v = {0, 2, 3, 4, 5, 0}, u = {0, 102, 103, 104, 105, 0};
  CHECK(remembered.values(0, 0) == v);
  CHECK(remembered.values(0, 1) == u);
  CHECK(remembered.values(1, 0) == std::vector<double>{7, 8, 0, 10});
  CHECK(remembered.values(1, 1) == std::vector<double>{107, 108, 0, 110});
  forget_taken(remembered, taken);
  CHECK(remembered.values(0, 0) == v);
  forget_taken(remembered, set_of({}, {}));
  CHECK(remembered.values(0, 1) == u);
}

TEST_CASE("unsent: v is given as float32, to nearest") {
  Remembered remembered = some();
  remembered.values(1, 0)[1] = 1 + 0x1p-24;  // a tie: to even
  remembered.values(1, 0)[2] = 1 + 0x1.8p-24;
  const auto source = unsent(remembered);
  REQUIRE(source->tensors().size() == 2);
  CHECK(source->tensors()[0].name == "w");
  CHECK(source->tensors()[1].dtype == DType{DType::f4, ""});
  CHECK(source->tensors()[0].shape == std::vector<uint64_t>{2, 3});
  std::vector<float> out(3);
  source->open(1)->read({1, 3}, std::as_writable_bytes(std::span(out)));
  CHECK(out == std::vector<float>{1, 1 + 0x1p-23F, 10});
}

TEST_CASE("unsent: a set is of the last step and of the state's tensors, or is refused") {
  CHECK(refusal(facts_of(7), set_of({1}, {})).empty());
  CHECK_THAT(refusal(facts_of(8), set_of({1}, {})), Catch::Contains("'taken' is of step 6, not of step 7"));
  CHECK_THAT(refusal(facts_of(6), set_of({1}, {})), Catch::Contains("expects step 6 next"));
  CHECK_THAT(refusal(facts_of(0), set_of({1}, {}, ~uint64_t{0})), Catch::Contains("nothing was sent yet"));
  CHECK_THAT(refusal(facts_of(7), set_of({1}, {}, {})), Catch::Contains("of no step"));

  IndexSet set = set_of({1}, {});
  set.tensors[0].info.shape = {2, 2};
  CHECK_THAT(refusal(facts_of(7), set), Catch::Contains("tensor 'b': is of shape 4 in the state, and of 2x2"));
  IndexSet fewer;
  fewer.step = 6;
  fewer.add(set.tensors[1].info, {1});
  CHECK_THAT(refusal(facts_of(7), fewer), Catch::Contains("tensor 'b': is remembered"));
  set = set_of({1}, {});
  TensorInfo unknown = set.tensors[0].info;
  unknown.name = "c";
  set.add(unknown, {});
  CHECK_THAT(refusal(facts_of(7), set), Catch::Contains("tensor 'c': is in the index set"));

  StateFacts facts = facts_of(7);
  facts.memory = "ef";
  CHECK_THAT(refusal(facts, set_of({1}, {}), Exit::usage), Catch::Contains("'ef' remembers where it encodes"));
  facts = facts_of(7);
  facts.role = StateRole::decoder;
  CHECK_THAT(refusal(facts, set_of({1}, {}), Exit::usage), Catch::Contains("where it decodes"));
}
