// Programs that are run to see what they do: where they run, for how long, and how they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace gradcodec {

// While it lives, a signal that would end this program is kept until its end: until then run_process throws, so that
// programs are ended and files are removed. At most one at a time.
class KeptSignals {
 public:
  KeptSignals();
  ~KeptSignals();  // ends this program by the signal, if there was one
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> old_;
};

// A new folder in $TMPDIR (else /tmp) that nobody else may enter; with all that is in it, it is gone in the end.
class PrivateFolder {
 public:
  PrivateFolder();  // throws Error(io)
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Ending {
  enum class How { exited, signalled, timed_out };
  How how = How::exited;
  int number = 0;    // the exit code or the signal
  std::string said;  // the beginning of the last line of stderr that is not empty
};

// Runs a program, with no input, and what it says on stderr in the file `log`. The first word is its name, looked up in
// PATH, or its path. If it has not ended within `limit`, it is killed, with all that it started in its process group.
// Throws Error(usage) if there is no such program, Error(io) if it cannot be run or a signal is kept. Several threads
// may run one each.
Ending run_process(const std::vector<std::string>& words, const std::string& log, std::chrono::milliseconds limit);

}  // namespace gradcodec
