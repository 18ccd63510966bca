// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/confine.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <vector>

#include "format/dumps/hdf5_protocol.h"
#include "format/files.h"

using namespace gradcodec;
using namespace gradcodec::hdf5;

namespace {

// What becomes of a process that does this once it is confined: -n if signal n ends it, else its exit code.
int end_of(bool writes, const std::function<int()>& action) {
  const pid_t pid = fork();
  if (pid == 0) {
    const auto file = RandomFile::temporary();
    file->write_at(0, as_bytes("12345678"));
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) _exit(100);
    const int socket = fcntl(pair[0], F_DUPFD, 10), dump = fcntl(file->fd(), F_DUPFD, 10);
    const int null = open("/dev/null", O_RDWR);
    if (dup2(socket, kSocket) < 0 || dup2(dump, kDump) < 0 || dup2(null, STDERR_FILENO) < 0) _exit(101);
    for (const int signal : {SIGSYS, SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
    confine(writes);
    _exit(action());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// The kernel's part, tried without ours.
bool kernel_has_seccomp() {
  const pid_t pid = fork();
  if (pid == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0) syscall(SYS_exit, 7);
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

bool is_filtered() { return kFiltersCalls && kernel_has_seccomp(); }

}  // namespace

TEST_CASE("a confined process cannot but read its file, talk and compute") {
  if (!is_filtered()) return;
  const std::vector<std::function<int()>> forbidden = {
      [] { return open("/etc/passwd", O_RDONLY); },
      [] { return socket(AF_INET, SOCK_STREAM, 0); },
      [] { return fork() < 0 ? 1 : 0; },
      [] { return execl("/bin/true", "true", nullptr); },
      [] { return kill(getppid(), 0); },
      [] { return unlink("/tmp/gradcodec-nothing"); },
      [] { return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED; },
      [] { return static_cast<int>(write(kDump, "x", 1)); },
      [] { return static_cast<int>(pwrite(kDump, "x", 1, 0)); },
      [] { return ftruncate(kDump, 0); },
      [] { return static_cast<int>(write(STDOUT_FILENO, "x", 1)); },
      [] {
        char byte = 0;
        return static_cast<int>(read(kDump, &byte, 1));
      },
  };
  for (size_t i = 0; i < forbidden.size(); ++i) {
    INFO(i);
    CHECK(end_of(false, forbidden[i]) == -SIGSYS);
  }
}

TEST_CASE("a confined process can do its work") {
  CHECK(end_of(false, [] {
          std::array<char, 8> bytes{};
          return pread(kDump, bytes.data(), 8, 0) == 8 && write(kSocket, bytes.data(), 8) == 8 ? 7 : 0;
        }) == 7);
  CHECK(end_of(true, [] { return pwrite(kDump, "x", 1, 100) == 1 && ftruncate(kDump, 50) == 0 ? 7 : 0; }) == 7);
  CHECK(end_of(false, [] {
          const std::vector<char> large(size_t{100} << 20, 'x');
          return large.back() == 'x' ? 7 : 0;
        }) == 7);
}

TEST_CASE("a confined process that aborts says so by its signal, and its memory ends") {
  if (!is_filtered()) return;
  CHECK(end_of(false, [] {
          std::abort();
          return 0;
        }) == -SIGABRT);
  CHECK(end_of(false, [] {
          return mmap(nullptr, size_t{3} << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 7 : 0;
        }) == 7);
}
