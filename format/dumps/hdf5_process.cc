// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/hdf5_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "codec/utf8.h"

namespace gradcodec::hdf5 {
namespace {

constexpr const char* kProgram = "gradcodec-hdf5";

std::string find_program() {
  std::error_code failed;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  if (failed) {  // never one of the current folder
    throw Error(Exit::unsupported, "the program " + std::string(kProgram) +
                                       " cannot be found without /proc: mount it, or use .npz instead of HDF5");
  }
  const std::filesystem::path places[] = {here / kProgram, here.parent_path() / "libexec" / "gradcodec" / kProgram};
  for (const auto& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  throw Error(Exit::unsupported, "HDF5 is read and written by the program " + std::string(kProgram) +
                                     ", which is neither " + escaped(places[0].string()) + " nor " +
                                     escaped(places[1].string()) + ": install it there, or use .npz instead");
}

// Nothing of ours but where libraries are, and what sanitizers are told. No filters are loaded from files.
std::vector<std::string> environment() {
  std::vector<std::string> out = {"HDF5_PLUGIN_PRELOAD=::"};
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// A copy that is out of the way of the descriptors that the process inherits.
Fd high_copy(int fd) { return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 10)); }

// Returns what posix_spawn does.
int start(const std::string& program, bool writes, int socket, int file, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 1);
  posix_spawn_file_actions_adddup2(&files, 0, 2);
  posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  posix_spawn_file_actions_adddup2(&files, file, kDump);
  posix_spawn_file_actions_addclosefrom_np(&files, kDump + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = {kProgram, kProtocol, writes ? kWrites : kReads}, variables = environment();
  const int result =
      posix_spawn(pid, program.c_str(), &files, &attributes, pointers(arguments).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, std::max<size_t>(utf8_length(text), 1));
    out += character == "\\" ? std::string(character) : escaped(character);
    text.remove_prefix(character.size());
  }
  return out;
}

Process::Process(int file, bool writes) : writes_(writes) {
  const std::string program = find_program();
  std::array<int, 2> pair{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    throw Error(Exit::io, "no socket can be made: " + std::string(std::strerror(errno)));
  }
  socket_ = Fd(pair[0]);
  const Fd other(pair[1]);
  const Fd theirs = high_copy(pair[1]), dump = high_copy(file);
  int error = errno;
  if (theirs.get() >= 0 && dump.get() >= 0) error = start(program, writes, theirs.get(), dump.get(), &pid_);
  if (pid_ < 0) throw Error(Exit::io, escaped(program) + " cannot be started: " + std::strerror(error));
}

Process::~Process() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Process::end_with(Error error) {
  if (pid_ >= 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  end_ = error;
  throw error;
}

void Process::nonsense(const std::string& what) {
  end_with(Error(Exit::bad_input, "the HDF5 library gave an answer that makes no sense (" + what +
                                      "): this file is damaged, or made to take the library over"));
}

// The process has closed its end: what has become of it?
void Process::died() {
  int status = 0;
  pid_t reaped = 0;
  for (int tries = 0; tries < 200 && reaped == 0; ++tries) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == 0) usleep(5000);
  }
  if (reaped != 0) pid_ = -1;
  const std::string made = "; it is damaged, or made to ";
  if (reaped <= 0) nonsense("it fell silent");
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU) {
      end_with(Error(Exit::limit, "the HDF5 library took more than " + std::to_string(limit_) +
                                      " s of processor time " + when() + made + "keep it busy"));
    }
    if (signal == SIGSYS) {
      end_with(Error(Exit::bad_input, "the HDF5 library tried what it must not " + when() + made + "take it over"));
    }
    if (signal == SIGKILL) {
      end_with(Error(Exit::limit, "the HDF5 library was killed " + when() + ", as when memory runs out"));
    }
    end_with(Error(Exit::bad_input, "the HDF5 library crashed " + when() + " (signal " + std::to_string(signal) + ")" +
                                        made + "crash it"));
  }
  const int code = WEXITSTATUS(status);
  if (code == kOtherProtocol) {
    end_with(Error(Exit::unsupported,
                   escaped(find_program()) + " is of another version than gradcodec: install both from one build"));
  }
  if (code == 127) {
    end_with(Error(Exit::unsupported, escaped(find_program()) + " does not start: run it by hand to see why"));
  }
  end_with(Error(Exit::bad_input,
                 "the HDF5 library ended " + when() + " (code " + std::to_string(code) + ")" + made + "crash it"));
}

// Its processor time is what bounds the process; that it sleeps for ever is only a precaution. Counted in pieces, since
// both may have been stopped meanwhile.
void Process::wait_for(short events) {
  const double patience = 60 + 4 * latest_;
  for (double waited = 0; waited < patience; ++waited) {
    pollfd entry{socket_.get(), events, 0};
    const int ready = poll(&entry, 1, 1000);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) end_with(Error(Exit::io, "poll fails: " + std::string(std::strerror(errno))));
  }
  end_with(Error(Exit::limit,
                 "the HDF5 library has not answered for " + std::to_string(static_cast<int64_t>(patience)) + " s"));
}

void Process::limit_time(double seconds) {
  allowed_ += seconds;
  latest_ = seconds;
  const auto limit = static_cast<uint64_t>(std::ceil(allowed_));
  if (limit == limit_) return;
  limit_ = limit;
  rlimit now{};
  if (prlimit(pid_, RLIMIT_CPU, nullptr, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(limit, now.rlim_max);
  prlimit(pid_, RLIMIT_CPU, &now, nullptr);
}

void Process::ask(Message kind, double seconds, ByteView head, ByteView body) {
  if (end_) throw Error(*end_);
  limit_time(seconds);
  tell(kind, head, body);
}

void Process::tell(Message kind, ByteView head, ByteView body) {
  if (end_) throw Error(*end_);
  const Header header{kind, head.size() + body.size()};
  for (ByteView part : {std::as_bytes(std::span(&header, 1)), head, body}) {
    while (!part.empty()) {
      const ssize_t n = send(socket_.get(), part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        part = part.subspan(static_cast<size_t>(n));
      } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        wait_for(POLLOUT);
      } else if (n < 0 && errno != EINTR) {
        died();
      }
    }
  }
}

void Process::receive(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = recv(socket_.get(), out.data(), out.size(), MSG_DONTWAIT);
    if (n > 0) {
      out = out.subspan(static_cast<size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_for(POLLIN);
    } else if (n == 0 || errno != EINTR) {
      died();
    }
  }
}

Header Process::next(uint64_t most) {
  if (end_) throw Error(*end_);
  Header header{};
  receive(std::as_writable_bytes(std::span(&header, 1)));
  if (header.kind != Message::failed) {
    if (header.size > most) nonsense("a message of " + std::to_string(header.size) + " bytes");
    return header;
  }
  if (header.size < 2 || header.size > kMaxText) nonsense("an error of " + std::to_string(header.size) + " bytes");
  const Bytes bytes = body(header);
  ByteReader in(bytes, "an error");
  const auto code = static_cast<Exit>(in.get<uint8_t>());
  if (code < Exit::bad_input || code > Exit::unsupported) nonsense("an error of an unknown kind");
  throw Error(code, printable(in.get_text(in.left())));
}

Bytes Process::body(const Header& header) {
  Bytes out(header.size);
  receive(out);
  return out;
}

void Process::body(const Header& header, std::span<std::byte> out) { receive(out.first(header.size)); }

void Process::expect_done() {
  const Header header = next(0);
  if (header.kind != Message::done) nonsense("another message than was due");
}

}  // namespace gradcodec::hdf5
