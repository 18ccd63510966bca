// Work on a sequence of items by several threads: made in order, worked on in parallel, taken in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "codec/loop.h"

namespace gradcodec {

// For each item: make(item) in order, by one thread at a time, until it returns false; work(item) by any thread;
// take(item) in order, by one thread at a time. Items are `Item` objects, `slots` of them (at least one), used again
// and again: make must reset what it finds. With one thread everything runs in the caller's.
//
// A make that takes much time may be make(item, loop): the jobs of the Loop are done by the caller and by the threads
// that wait for an item. The loop is for the time of the call.
//
// If a call throws, nothing further is made or taken, and the exception of the earliest item among those that failed is
// thrown to the caller once all threads have ended.
template <typename Item, typename Make, typename Work, typename Take>
class Ordered {
 public:
  Ordered(unsigned threads, size_t slots, Make make, Work work, Take take)
      : threads_(threads),
        make_(std::move(make)),
        work_(std::move(work)),
        take_(std::move(take)),
        all_(threads <= 1 ? 0 : slots),
        queue_(all_.size()) {
    free_.reserve(all_.size());
  }

  void run() {
    if (threads_ <= 1) {
      Item item;
      while (call_make(item, {})) {
        work_(item);
        take_(item);
      }
      return;
    }
    for (Slot& slot : all_) free_.push_back(&slot);
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

  // Jobs of a loop within make.
  struct Shared {
    const Job* job = nullptr;
    uint64_t next = 0, count = 0, running = 0;
    std::exception_ptr error;
    uint64_t error_number = 0;

    bool waits() const { return next < count; }
  };

  bool call_make(Item& item, const Loop& loop) {
    if constexpr (std::is_invocable_v<Make&, Item&, const Loop&>) {
      return make_(item, loop);
    } else {
      return make_(item);
    }
  }

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
      if (!taking_ && !failed_ && taken_ < queued_ && front()->done) {
        take_front(lock);
      } else if (shared_.waits()) {
        do_job(lock);
      } else if (!making_ && !ended_ && !failed_ && !free_.empty()) {
        if (Slot* slot = make_one(lock)) return slot;
      } else if (failed_ || (ended_ && taken_ == queued_)) {
        changed_.notify_all();
        return nullptr;
      } else {
        changed_.wait(lock);
      }
    }
  }

  void take_front(std::unique_lock<std::mutex>& lock) {
    taking_ = true;
    Slot* slot = front();
    lock.unlock();
    guarded(slot->number, [&] { take_(slot->item); });
    lock.lock();
    taking_ = false;
    free_.push_back(slot);
    ++taken_;
    changed_.notify_all();
  }

  Slot* make_one(std::unique_lock<std::mutex>& lock) {
    making_ = true;
    Slot* slot = free_.back();
    free_.pop_back();
    slot->done = false;
    slot->number = made_++;
    lock.unlock();
    bool more = false;
    const bool ok = guarded(slot->number, [&] { more = call_make(slot->item, share_); });
    lock.lock();
    making_ = false;
    ended_ = ended_ || !more;
    changed_.notify_all();
    if (!ok || !more) return nullptr;
    queue_[queued_++ % queue_.size()] = slot;
    return slot;
  }

  Slot* front() const { return queue_[taken_ % queue_.size()]; }

  // The Loop that make is given.
  void share(uint64_t count, const Job& job) {
    std::unique_lock lock(mutex_);
    shared_ = {&job, 0, count, 0, nullptr, 0};
    changed_.notify_all();
    while (shared_.waits()) do_job(lock);
    changed_.wait(lock, [this] { return shared_.running == 0; });
    const std::exception_ptr error = std::exchange(shared_, {}).error;
    lock.unlock();
    if (error) std::rethrow_exception(error);
  }

  // Jobs begin in order: all before one that failed have begun, and the smallest that fails is always the same.
  void do_job(std::unique_lock<std::mutex>& lock) {
    const Job& job = *shared_.job;
    const uint64_t number = shared_.next++;
    ++shared_.running;
    lock.unlock();
    std::exception_ptr error;
    try {
      job(number);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (!shared_.error || number < shared_.error_number)) {
      shared_.error = error;
      shared_.error_number = number;
    }
    if (error) shared_.next = shared_.count;
    if (--shared_.running == 0) changed_.notify_all();
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
  Make make_;
  Work work_;
  Take take_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> all_;
  std::vector<Slot*> free_;   // the last used is the next: what it holds may still be in the cache
  std::vector<Slot*> queue_;  // made and not yet taken, in order: a ring from taken_ to queued_
  uint64_t taken_ = 0, queued_ = 0;
  Shared shared_;
  const Loop share_ = [this](uint64_t count, const Job& job) { share(count, job); };
  bool making_ = false, taking_ = false, ended_ = false, failed_ = false;
  std::exception_ptr error_;
  uint64_t made_ = 0, error_number_ = 0;
};

template <typename Item, typename Make, typename Work, typename Take>
void run_ordered(unsigned threads, size_t slots, Make make, Work work, Take take) {
  Ordered<Item, Make, Work, Take>(threads, slots, std::move(make), std::move(work), std::move(take)).run();
}

}  // namespace gradcodec
