// SPDX-License-Identifier: Apache-2.0
#include "cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "codec/error.h"

extern char** environ;

namespace gradcodec {
namespace {

constexpr size_t kMaxSaid = 300;  // bytes of what a program says that are shown

std::atomic<int> kept_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void keep_signal(int signal) { kept_signal = signal; }

std::string reason(int error) { return std::generic_category().message(error); }

// How a program is started: with the signals of a new one, as the leader of a process group.
class Start {
 public:
  explicit Start(const std::string& log) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  pid_t run(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t pid = 0;
    const int failed = posix_spawnp(&pid, arguments[0], &files_, &attributes_, arguments.data(), environ);
    if (failed == 0) return pid;
    const bool of_name = failed == ENOENT || failed == EACCES || failed == ENOEXEC || failed == ENOTDIR;
    throw Error(of_name ? Exit::usage : Exit::io, "the program cannot be run: " + reason(failed)).in_file(words[0]);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// The beginning of the last line that is not empty. Only the end of the log is read, as a program may say very much.
std::string last_line(const std::string& log) {
  constexpr std::streamoff kRead = 1 << 16;
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (file.tellg() > kRead) {
    file.seekg(-kRead, std::ios::end);
  } else {
    file.seekg(0);
  }
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line.substr(0, kMaxSaid);
  }
  return last;
}

}  // namespace

KeptSignals::KeptSignals() {
  kept_signal = 0;
  struct sigaction keep = {};
  keep.sa_handler = keep_signal;
  sigemptyset(&keep.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler == SIG_DFL) sigaction(kSignals[i], &keep, nullptr);  // one that is ignored stays so
  }
}

KeptSignals::~KeptSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
  if (kept_signal != 0) raise(kept_signal);
}

PrivateFolder::PrivateFolder() {
  const char* dir = std::getenv("TMPDIR");
  const std::string base = dir != nullptr && *dir != '\0' ? dir : "/tmp";
  path_ = base + "/gradcodec-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    throw Error(Exit::io, "no folder can be made in it: " + reason(errno) + " (set TMPDIR)").in_file(base);
  }
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Ending run_process(const std::vector<std::string>& words, const std::string& log, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const pid_t pid = Start(log).run(words);
  int status = 0;
  bool timed_out = false;
  for (std::chrono::microseconds pause(200); waitpid(pid, &status, WNOHANG) == 0;) {
    timed_out = std::chrono::steady_clock::now() >= end;
    if (timed_out || kept_signal != 0) {
      kill(pid, SIGKILL);  // it may have left its group
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  kill(-pid, SIGKILL);  // what it started and left behind
  if (kept_signal != 0) throw Error(Exit::io, "interrupted");
  if (timed_out) return {Ending::How::timed_out, 0, last_line(log)};
  if (WIFSIGNALED(status)) return {Ending::How::signalled, WTERMSIG(status), last_line(log)};
  return {Ending::How::exited, WEXITSTATUS(status), last_line(log)};
}

}  // namespace gradcodec
