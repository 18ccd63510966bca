// SPDX-License-Identifier: Apache-2.0
#include "format/ordered.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

using namespace gradcodec;

namespace {

struct Item {
  int number = 0;
  int square = 0;
};

}  // namespace

TEST_CASE("items are taken in order, whatever the number of threads") {
  for (const unsigned threads : {1U, 2U, 7U, 64U}) {
    for (const int count : {0, 1, 3, 1000}) {
      int made = 0;
      std::vector<int> taken;
      run_ordered<Item>(
          threads, 1 + threads / 2,
          [&](Item& item) {
            item.number = made;
            return made++ < count;
          },
          [](Item& item) { item.square = item.number * item.number; },
          [&](Item& item) { taken.push_back(item.square); });
      REQUIRE(taken.size() == static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) REQUIRE(taken[static_cast<size_t>(i)] == i * i);
    }
  }
}

TEST_CASE("the earliest failure is thrown, and nothing after it is taken") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    for (const int stage : {0, 1, 2}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        int made = 0;
        std::atomic<int> last_taken = -1;
        const auto fail_at = [&](int here, int number) {
          if (here == stage && number >= 20) throw std::runtime_error(std::to_string(number));
        };
        const auto run = [&] {
          run_ordered<Item>(
              threads, 3 * threads,
              [&](Item& item) {
                item.number = made++;
                fail_at(0, item.number);
                return item.number < 100;
              },
              [&](Item& item) { fail_at(1, item.number); },
              [&](Item& item) {
                fail_at(2, item.number);
                last_taken = item.number;
              });
        };
        CHECK_THROWS_WITH(run(), "20");
        CHECK(last_taken < 20);
      }
    }
  }
}
