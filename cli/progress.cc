// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/numbers.h"

namespace gradcodec {

ProgressLine::ProgressLine(const Progress& progress, bool quiet) : progress_(progress) {
  if (!quiet && isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { loop(); });
}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressLine::loop() {
  using namespace std::chrono_literals;
  constexpr int kWidth = 30;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool shown = false;
  if (ended_changed_.wait_for(lock, 1s, [this] { return ended_; })) return;
  do {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto total = static_cast<double>(progress_.total.load());
    const auto done = static_cast<double>(progress_.done.load());
    const double part = total > 0 ? std::min(1.0, done / total) : 0;
    const double rate = done / seconds;
    const auto filled = static_cast<size_t>(part * kWidth);
    std::string line = "\r[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] " +
                       fixed(100 * part, 0) + " %  " + size_text(static_cast<uint64_t>(rate)) + "/s";
    if (rate > 0) line += "  " + fixed((total - done) / rate, 0) + " s left";
    line += "\x1b[K";
    std::fputs(line.c_str(), stderr);
    shown = true;
  } while (!ended_changed_.wait_for(lock, 200ms, [this] { return ended_; }));
  if (shown) std::fputs("\r\x1b[K", stderr);
}

}  // namespace gradcodec
