// Room for the values of a chunk, or as many other numbers, which a thread keeps from use to use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gradcodec {

// Vectors of the calling thread, each for one user at a time: who has one may call others that take theirs. What was in
// it before is there still.
template <typename T>
class Room {
 public:
  Room() {
    if (pool().empty()) return;
    values_ = std::move(pool().back());
    pool().pop_back();
  }
  ~Room() {
    if (pool().size() < pool().capacity()) pool().push_back(std::move(values_));
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  std::vector<T>& vector() { return values_; }

  // The first `count`.
  std::span<T> first(uint64_t count) {
    values_.resize(std::max(values_.size(), static_cast<size_t>(count)));
    return std::span(values_).first(static_cast<size_t>(count));
  }

 private:
  static std::vector<std::vector<T>>& pool() {
    constexpr size_t kKept = 16;
    thread_local std::vector<std::vector<T>> vectors = [] {
      std::vector<std::vector<T>> none;
      none.reserve(kKept);
      return none;
    }();
    return vectors;
  }

  std::vector<T> values_;
};

}  // namespace gradcodec
