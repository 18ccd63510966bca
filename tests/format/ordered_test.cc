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

TEST_CASE("what make shares out is done once each, by whoever waits") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    for (const uint64_t count : {0U, 1U, 5U, 300U}) {
      int made = 0;
      uint64_t sum = 0;
      bool once = true;
      run_ordered<Item>(
          threads, 2 * threads,
          [&](Item& item, const Loop& loop) {
            std::vector<uint64_t> found(count);
            const Job job = [&](uint64_t i) { found[i] += i + 1; };
            if (loop) {
              loop(count, job);
            } else {
              for (uint64_t i = 0; i < count; ++i) job(i);
            }
            for (uint64_t i = 0; i < count; ++i) once = once && found[i] == i + 1;
            item.number = made;
            return made++ < 30;
          },
          [](Item& item) { item.square = item.number * item.number; },
          [&](Item& item) { sum += static_cast<uint64_t>(item.square); });
      CHECK(once);
      CHECK(sum == 8555);
    }
  }
}

TEST_CASE("the smallest job that fails is thrown in make, and ends the loop") {
  for (const unsigned threads : {2U, 7U}) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      std::atomic<int> done = 0;
      const auto run = [&] {
        run_ordered<Item>(
            threads, threads,
            [&](Item&, const Loop& loop) {
              loop(1000, [&](uint64_t i) {
                if (i >= 20) throw std::runtime_error(std::to_string(i));
                ++done;
              });
              return false;
            },
            [](Item&) {}, [](Item&) {});
      };
      CHECK_THROWS_WITH(run(), "20");
      CHECK(done == 20);
    }
  }
}
