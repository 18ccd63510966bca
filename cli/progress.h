// A progress line on a terminal, for work that takes more than a second; nothing elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "format/pipeline.h"

namespace gradcodec {

// Shows `progress` from now until it is destroyed, then clears the line, so that whatever is printed next starts on its
// own.
class ProgressLine {
 public:
  ProgressLine(const Progress& progress, bool quiet);
  ~ProgressLine();

 private:
  void loop();

  const Progress& progress_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace gradcodec
