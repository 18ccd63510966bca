// SPDX-License-Identifier: Apache-2.0
#include "format/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace gradcodec {
namespace {

constexpr size_t kCopySize = size_t{1} << 20;
constexpr size_t kMaxCall = size_t{1} << 30;  // Linux moves at most 2^31 - 4096 bytes a call

std::string reason() { return std::strerror(errno); }

struct stat status_of(int fd, const std::string& name) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) throw Error(Exit::io, "cannot be examined: " + reason()).in_file(name);
  if (S_ISDIR(status.st_mode)) throw Error(Exit::usage, "is a directory").in_file(name);
  return status;
}

Origin origin_of(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return {};
  return {status.st_mode & 0777, true, status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

Fd open_for_reading(const std::string& path) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Exit::io, "cannot be opened: " + reason()).in_file(path == "-" ? "standard input" : path);
  return Fd(fd);
}

std::string name_of(const std::string& path) { return path == "-" ? "standard input" : path; }

size_t read_some(int fd, std::span<std::byte> out, const std::string& name) {
  for (;;) {
    const ssize_t n = ::read(fd, out.data(), std::min(out.size(), kMaxCall));
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) throw Error(Exit::io, "cannot be read: " + reason()).in_file(name);
  }
}

Fd unlinked_file() {
  const char* dir = std::getenv("TMPDIR");
  const std::string base = dir != nullptr && *dir != '\0' ? dir : "/tmp";
  std::string path = base + "/gradcodec-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) throw Error(Exit::io, "no temporary file can be made in it: " + reason() + " (set TMPDIR)").in_file(base);
  unlink(path.c_str());
  return Fd(fd);
}

// The hidden file that a signal must remove. Written before the handlers are set, read in them; one output at a time.
std::atomic<const char*> pending_file = nullptr;

void remove_and_die(int signal) {
  if (const char* path = pending_file.load()) unlink(path);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void handle_signals(bool on) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU}) {
    struct sigaction old = {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;  // as nohup asks
    std::signal(signal, on ? remove_and_die : SIG_DFL);
  }
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

int Fd::release() { return std::exchange(fd_, -1); }

RandomFile::RandomFile(Fd fd, std::string name, uint64_t size, const Origin& origin)
    : fd_(std::move(fd)), name_(std::move(name)), size_(size), origin_(origin) {}

std::shared_ptr<RandomFile> RandomFile::open(const std::string& path) {
  const std::string name = name_of(path);
  Fd fd = open_for_reading(path);
  const struct stat status = status_of(fd.get(), name);
  // A redirected file is read in place only from its start: an earlier reader may have taken part of it.
  if (S_ISREG(status.st_mode) && (path != "-" || lseek(fd.get(), 0, SEEK_CUR) == 0)) {
    return std::shared_ptr<RandomFile>(
        new RandomFile(std::move(fd), name, static_cast<uint64_t>(status.st_size), origin_of(status)));
  }
  std::shared_ptr<RandomFile> spool(new RandomFile(unlinked_file(), name, 0, Origin{}));
  std::vector<std::byte> buffer(kCopySize);
  while (const size_t n = read_some(fd.get(), buffer, name)) {
    spool->write_at(spool->size(), std::span(buffer).first(n));
  }
  return spool;
}

std::shared_ptr<RandomFile> RandomFile::temporary() {
  return std::shared_ptr<RandomFile>(new RandomFile(unlinked_file(), "temporary file", 0, Origin{}));
}

std::shared_ptr<RandomFile> RandomFile::in_memory(const std::string& name) {
  Fd fd(memfd_create("gradcodec", MFD_CLOEXEC));
  if (fd.get() < 0) throw Error(Exit::io, "no file can be made in memory: " + reason()).in_file(name);
  return std::shared_ptr<RandomFile>(new RandomFile(std::move(fd), name, 0, Origin{}));
}

void RandomFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd_.get(), out.data(), std::min(out.size(), kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Exit::io, "cannot be read: " + reason()).in_file(name_);
    if (n == 0) {
      throw Error(Exit::bad_input, "ends at byte " + std::to_string(offset) + ", where " + std::to_string(out.size()) +
                                       " bytes more were expected")
          .in_file(name_);
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void RandomFile::check_unchanged() const {
  if (!origin_.is_file) return;
  const Origin now = origin_of(status_of(fd_.get(), name_));
  if (now.size != origin_.size || now.changed_s != origin_.changed_s || now.changed_ns != origin_.changed_ns) {
    throw Error(Exit::io, "was changed while it was read: try again when nobody writes to it").in_file(name_);
  }
}

void RandomFile::write_at(uint64_t offset, ByteView bytes) {
  size_ = std::max(size_, offset + bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_.get(), bytes.data(), std::min(bytes.size(), kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Exit::io, "temporary copy cannot be written: " + reason() + " (set TMPDIR)").in_file(name_);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

InputStream::InputStream(const std::string& path) : fd_(open_for_reading(path)), name_(name_of(path)) {
  const struct stat status = status_of(fd_.get(), name_);
  const bool regular = S_ISREG(status.st_mode);
  origin_ = origin_of(status);
  const off_t at = regular ? lseek(fd_.get(), 0, SEEK_CUR) : 0;
  end_ = regular ? static_cast<uint64_t>(std::max<off_t>(0, status.st_size - at)) : kUnknownSize;
}

InputStream::InputStream(std::shared_ptr<const RandomFile> file, uint64_t offset)
    : file_(std::move(file)),
      name_(file_->name()),
      position_(std::min(offset, file_->size())),
      end_(file_->size()),
      origin_(file_->origin()) {}

size_t InputStream::read(std::span<std::byte> out) {
  size_t done = 0;
  if (file_) {
    done = static_cast<size_t>(std::min<uint64_t>(out.size(), left()));
    file_->read_at(position_, out.first(done));
    position_ += done;
    return done;
  }
  while (done < out.size()) {
    const size_t n = read_some(fd_.get(), out.subspan(done), name_);
    if (n == 0) break;
    done += n;
  }
  position_ += done;
  return done;
}

bool InputStream::skip(uint64_t n) {
  if (seekable()) {
    if (n > left()) return false;
    if (!file_ && lseek(fd_.get(), static_cast<off_t>(n), SEEK_CUR) < 0) {
      throw Error(Exit::io, "cannot be read: " + reason()).in_file(name_);
    }
    position_ += n;
    return true;
  }
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(n, kCopySize)));
  while (n > 0) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(n, buffer.size()));
    if (read(std::span(buffer).first(piece)) < piece) return false;
    n -= piece;
  }
  return true;
}

OutputFile::OutputFile(const std::string& path, bool force, const Origin& origin, std::span<const Origin> others)
    : name_(path == "-" ? "standard output" : path), destination_(path), force_(force) {
  std::vector<Origin> inputs(others.begin(), others.end());
  inputs.push_back(origin);
  open(inputs, origin.mode);
}

OutputFile::OutputFile(const std::string& path, std::span<const Origin> inputs, bool force)
    : name_(path == "-" ? "standard output" : path), destination_(path), force_(force) {
  mode_t mode = 0666;
  for (const Origin& input : inputs) mode &= input.mode;
  open(inputs, mode);
}

void OutputFile::open(std::span<const Origin> inputs, mode_t mode) {
  const std::string path = destination_;
  struct stat status = {};
  const bool exists = (path == "-" ? fstat(STDOUT_FILENO, &status) : stat(path.c_str(), &status)) == 0;
  for (const Origin& input : inputs) {
    if (exists && input.is_file && status.st_dev == input.device && status.st_ino == input.inode) {
      throw Error(Exit::usage, "is one of the files that are read: name another output").in_file(name_);
    }
  }
  if (exists && S_ISDIR(status.st_mode)) throw Error(Exit::usage, "is a directory").in_file(name_);
  if (path == "-" || (exists && !S_ISREG(status.st_mode))) {
    open_in_place();
  } else {
    if (exists && !force_) throw Error(Exit::usage, "exists already: -f replaces it").in_file(name_);
    create_beside(exists, mode);
  }
}

OutputFile::OutputFile(const std::shared_ptr<RandomFile>& memory)
    : fd_(dup(memory->fd())), memory_(memory), name_(memory->name()), force_(true) {
  if (fd_.get() < 0) throw Error(Exit::io, "cannot be opened: " + reason()).in_file(name_);
}

// Written through: standard output, a device, a pipe.
void OutputFile::open_in_place() {
  fd_ = Fd(destination_ == "-" ? dup(STDOUT_FILENO) : ::open(destination_.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd_.get() < 0) throw Error(Exit::io, "cannot be opened: " + reason()).in_file(name_);
  if (isatty(fd_.get()) != 0) {
    throw Error(Exit::usage, "binary output is not written to a terminal: give -o FILE or redirect").in_file(name_);
  }
}

void OutputFile::create_beside(bool exists, mode_t mode) {
  replaces_ = exists;
  if (exists) {  // a link keeps pointing where it did: its target is replaced
    char* real = realpath(destination_.c_str(), nullptr);
    if (real != nullptr) destination_ = real;
    std::free(real);
  } else if (struct stat link = {}; lstat(destination_.c_str(), &link) == 0) {
    throw Error(Exit::usage, "is a link that leads nowhere").in_file(name_);
  }
  const size_t slash = destination_.rfind('/');
  const std::string dir = slash == std::string::npos ? "" : destination_.substr(0, slash + 1);
  temporary_ = dir + ".gradcodec-XXXXXX";
  create_temporary();
  renames_ = true;
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd_.get(), mode & ~mask & 0777);
}

// Makes the file that temporary_ is a pattern for. From its first moment on, a signal that ends the program removes it.
void OutputFile::create_temporary() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  fd_ = Fd(mkostemp(temporary_.data(), O_CLOEXEC));
  const int error = errno;
  if (fd_.get() >= 0) {
    pending_file = temporary_.c_str();
    handle_signals(true);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (fd_.get() < 0) {
    temporary_.clear();
    throw Error(Exit::io, "cannot be created: " + std::string(std::strerror(error))).in_file(name_);
  }
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  if (pending_file == temporary_.c_str()) {
    pending_file = nullptr;
    handle_signals(false);
  }
}

void OutputFile::write_all(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kMaxCall));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) throw ClosedPipe{};
    if (n < 0) throw Error(Exit::io, "cannot be written: " + reason()).in_file(name_);
    bytes = bytes.subspan(static_cast<size_t>(n));
    position_ += static_cast<uint64_t>(n);
  }
}

// Writing to blocks that the file has already costs a third less than asking for each. Not for small files, and no more
// than so far ahead, as what will come is only a claim. Where it cannot be done, writing does without.
void OutputFile::reserve_ahead(size_t bytes) {
  constexpr uint64_t kFrom = uint64_t{4} << 20, kAhead = uint64_t{16} << 20;
  const uint64_t end = position_ + bytes;
  if (!renames_ || position_ < kFrom || end <= reserved_) return;
  const uint64_t first = std::max(position_, reserved_);
  const uint64_t last = end + kAhead;
  // The size stays that of what is written: after a crash no zeros stand where values should be.
  const bool done =
      fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first), static_cast<off_t>(last - first)) == 0;
  reserved_ = done ? last : ~uint64_t{0};
}

void OutputFile::write(ByteView bytes) {
  reserve_ahead(bytes.size());
  write_all(bytes);
}

const std::string& OutputFile::path_for_library() {
  library_ = true;
  if (temporary_.empty()) {
    const char* dir = std::getenv("TMPDIR");
    temporary_ = std::string(dir != nullptr && *dir != '\0' ? dir : "/tmp") + "/gradcodec-XXXXXX";
    Fd output = std::move(fd_);
    create_temporary();
    fd_ = std::move(output);
  }
  return temporary_;
}

void OutputFile::commit() {
  if (library_ && !renames_) {  // what the library wrote goes where it belongs
    const Fd file(::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw Error(Exit::io, "cannot be read: " + reason()).in_file(temporary_);
    std::vector<std::byte> buffer(kCopySize);
    while (const size_t n = read_some(file.get(), buffer, temporary_)) write_all(std::span(buffer).first(n));
  }
  if (reserved_ > position_) {  // the rest goes back; if not, the file is right all the same
    [[maybe_unused]] const int result = ftruncate(fd_.get(), static_cast<off_t>(position_));
  }
  // What replaces a file must be on the disk first: a crash must not lose both.
  if ((replaces_ || (durable_ && renames_)) && fsync(fd_.get()) != 0)
    throw Error(Exit::io, "cannot be written: " + reason()).in_file(name_);
  if (close(fd_.release()) != 0) throw Error(Exit::io, "cannot be written: " + reason()).in_file(name_);
  if (memory_) memory_->size_ = position_;
  if (!renames_) return;
  // Without -f a file that has appeared meanwhile is not replaced either.
  const bool moved = force_ ? rename(temporary_.c_str(), destination_.c_str()) == 0
                            : link(temporary_.c_str(), destination_.c_str()) == 0;
  if (!moved && !force_ && errno == EEXIST) throw Error(Exit::usage, "exists already: -f replaces it").in_file(name_);
  if (!moved && !force_ && errno != EEXIST) {  // a file system without hard links
    if (rename(temporary_.c_str(), destination_.c_str()) != 0) {
      throw Error(Exit::io, "cannot be created: " + reason()).in_file(name_);
    }
  } else if (!moved) {
    throw Error(Exit::io, "cannot be replaced: " + reason()).in_file(name_);
  }
  if (durable_) sync_directory();
}

// The entry of the directory: until it is on the disk, a loss of power may bring the file before back.
void OutputFile::sync_directory() const {
  const size_t slash = destination_.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : destination_.substr(0, slash + 1);
  const Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || (fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw Error(Exit::io, "its directory cannot be written: " + reason()).in_file(name_);
  }
}

}  // namespace gradcodec
