// Work on a sequence of items by several threads: made in order, worked on in parallel, taken in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace gradcodec {

// For each item: make(item) in order, by one thread at a time, until it returns false; work(item) by any thread;
// take(item) in order, by one thread at a time. Items are `Item` objects, `slots` of them (at least one), used again
// and again: make must reset what it finds. With one thread everything runs in the caller's.
//
// If a call throws, nothing further is made or taken, and the exception of the earliest item among those that failed is
// thrown to the caller once all threads have ended.
template <typename Item, typename Make, typename Work, typename Take>
class Ordered {
 public:
  Ordered(unsigned threads, size_t slots, Make make, Work work, Take take)
      : threads_(threads), slots_(slots), make_(std::move(make)), work_(std::move(work)), take_(std::move(take)) {}

  void run() {
    if (threads_ <= 1) {
      Item item;
      while (make_(item)) {
        work_(item);
        take_(item);
      }
      return;
    }
    for (size_t i = 0; i < slots_; ++i) free_.push_back(std::make_unique<Slot>());
    std::vector<std::jthread> pool;
    try {
      for (unsigned i = 1; i < threads_; ++i) pool.emplace_back([this] { loop(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that there are do it all.
    }
    loop();
    pool.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Slot {
    Item item;
    uint64_t number = 0;
    bool done = false;
  };

  void loop() {
    while (Slot* slot = next()) {
      const bool ok = guarded(slot->number, [&] { work_(slot->item); });
      const std::lock_guard lock(mutex_);
      slot->done = ok;
      changed_.notify_all();
    }
  }

  // An item made and to be worked on; null at the end. While there is none, takes what is done.
  Slot* next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!taking_ && !failed_ && !queue_.empty() && queue_.front()->done) {
        take_front(lock);
      } else if (!making_ && !ended_ && !failed_ && !free_.empty()) {
        if (Slot* slot = make_one(lock)) return slot;
      } else if (failed_ || (ended_ && queue_.empty())) {
        changed_.notify_all();
        return nullptr;
      } else {
        changed_.wait(lock);
      }
    }
  }

  void take_front(std::unique_lock<std::mutex>& lock) {
    taking_ = true;
    Slot* slot = queue_.front().get();
    lock.unlock();
    guarded(slot->number, [&] { take_(slot->item); });
    lock.lock();
    taking_ = false;
    free_.push_back(std::move(queue_.front()));
    queue_.pop_front();
    changed_.notify_all();
  }

  Slot* make_one(std::unique_lock<std::mutex>& lock) {
    making_ = true;
    std::unique_ptr<Slot> slot = std::move(free_.back());
    free_.pop_back();
    slot->done = false;
    slot->number = made_++;
    lock.unlock();
    bool more = false;
    const bool ok = guarded(slot->number, [&] { more = make_(slot->item); });
    lock.lock();
    making_ = false;
    ended_ = ended_ || !more;
    changed_.notify_all();
    if (!ok || !more) return nullptr;
    queue_.push_back(std::move(slot));
    return queue_.back().get();
  }

  // Runs f for item `number`; keeps its exception if it is the earliest item's.
  template <typename F>
  bool guarded(uint64_t number, F f) {
    try {
      f();
      return true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_ || number < error_number_) {
        error_ = std::current_exception();
        error_number_ = number;
      }
      failed_ = true;
      changed_.notify_all();
      return false;
    }
  }

  const unsigned threads_;
  const size_t slots_;
  Make make_;
  Work work_;
  Take take_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Slot>> queue_;  // made and not yet taken, in order
  std::vector<std::unique_ptr<Slot>> free_;
  bool making_ = false, taking_ = false, ended_ = false, failed_ = false;
  std::exception_ptr error_;
  uint64_t made_ = 0, error_number_ = 0;
};

template <typename Item, typename Make, typename Work, typename Take>
void run_ordered(unsigned threads, size_t slots, Make make, Work work, Take take) {
  Ordered<Item, Make, Work, Take>(threads, slots, std::move(make), std::move(work), std::move(take)).run();
}

}  // namespace gradcodec
