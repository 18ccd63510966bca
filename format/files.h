// Files of the operating system: random access, sequential reading, and output that appears whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "codec/bytes.h"

namespace gradcodec {

// The size of what is not a regular file.
inline constexpr uint64_t kUnknownSize = (uint64_t{1} << 63) - 1;

// What an output has to know of the input it is made from.
struct Origin {
  mode_t mode = 0666;  // permission bits; 0666 where there is no file (a pipe)
  bool is_file = false;
  dev_t device = 0;
  ino_t inode = 0;
  int64_t size = 0, changed_s = 0, changed_ns = 0;  // when the file was last changed
};

// An open file descriptor, closed on destruction.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

// A regular file that can be read anywhere, by several threads at once (pread; never mapped, so that a file cut while
// it is read is an error and not a signal, and memory stays bounded).
class RandomFile {
 public:
  // Opens `path`; "-" or anything that is not a regular file (a pipe) is first copied whole to an unlinked temporary
  // file. Throws Error(io) if it cannot be opened, Error(usage) for a directory.
  static std::shared_ptr<RandomFile> open(const std::string& path);

  // An empty unlinked temporary file in $TMPDIR (else /tmp), to write_at and read_at.
  static std::shared_ptr<RandomFile> temporary();

  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }  // for messages
  int fd() const { return fd_.get(); }
  const Origin& origin() const { return origin_; }

  // An empty file in memory, which an OutputFile may fill.
  static std::shared_ptr<RandomFile> in_memory(const std::string& name);

  // All of `out` from `offset`. Throws Error(bad_input) if the file ends before, Error(io) if reading fails.
  void read_at(uint64_t offset, std::span<std::byte> out) const;

  // Throws Error(io) if the file is not as it was when it was opened: what was read is of no one state of it.
  void check_unchanged() const;

  // Only for temporary files. Throws Error(io).
  void write_at(uint64_t offset, ByteView bytes);

 private:
  friend class OutputFile;
  RandomFile(Fd fd, std::string name, uint64_t size, const Origin& origin);
  Fd fd_;
  std::string name_;
  uint64_t size_ = 0;
  Origin origin_;
};

// A file or a pipe, read once from front to back.
class InputStream {
 public:
  // "-" is stdin. Throws Error(io), or Error(usage) for a directory.
  explicit InputStream(const std::string& path);

  // A file that is open for reading anywhere, from `offset` to the end that it had when it was opened. Several streams
  // may read one file at once; Error(bad_input) if it has been cut meanwhile.
  explicit InputStream(std::shared_ptr<const RandomFile> file, uint64_t offset = 0);

  // Reads until `out` is full or the input ends; returns the bytes read. Throws Error(io).
  size_t read(std::span<std::byte> out);

  // Passes over n bytes, at no cost in a regular file. False if there are not so many. Throws Error(io).
  bool skip(uint64_t n);

  uint64_t position() const { return position_; }
  const std::string& name() const { return name_; }
  const Origin& origin() const { return origin_; }
  bool seekable() const { return end_ != kUnknownSize; }
  // Bytes from here to the end, if this is a regular file; else 2^63 - 1.
  uint64_t left() const { return end_ - position_; }

 private:
  std::shared_ptr<const RandomFile> file_;  // null: fd_ is read
  Fd fd_;
  std::string name_;
  uint64_t position_ = 0, end_;
  Origin origin_;
};

// Where a command writes. A regular file is written as a hidden file beside its destination and renamed over it by
// commit(); destroyed before that, it is removed and the destination is as it was. "-" (stdout) and things that are not
// regular files (/dev/null, a pipe) are written through. Signals that end the program remove the hidden file too.
class OutputFile {
 public:
  // `force` allows an existing regular file to be replaced at commit. The result is readable by no more people than the
  // origin (and the umask) allows. Throws Error(usage) if the destination exists and `force` is false, or is the origin
  // itself, or is a terminal; Error(io) if it cannot be created.
  // `others`: more inputs that must not be replaced.
  OutputFile(const std::string& path, bool force, const Origin& origin, std::span<const Origin> others = {});
  // The same for a result of several inputs, at least one, which no more people may read than may read all of them.
  OutputFile(const std::string& path, std::span<const Origin> inputs, bool force);
  // Into a file of RandomFile::in_memory, which has it once it is committed.
  explicit OutputFile(const std::shared_ptr<RandomFile>& memory);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(ByteView bytes);  // appends. Throws Error(io); a closed pipe throws ClosedPipe
  uint64_t position() const { return position_; }

  // For a library that writes by itself: the path to open and fill instead of calling write. For stdout and devices it
  // is a temporary file that commit() copies.
  const std::string& path_for_library();

  // Once committed, what it is and that it is there shall outlive a loss of power.
  void be_durable() { durable_ = true; }

  void commit();  // flushes, renames. Throws Error(io)
  const std::string& name() const { return name_; }

 private:
  void open(std::span<const Origin> inputs, mode_t mode);
  void open_in_place();
  void create_beside(bool exists, mode_t mode);
  void create_temporary();
  void write_all(ByteView bytes);
  void sync_directory() const;
  void reserve_ahead(size_t bytes);

  Fd fd_;
  std::shared_ptr<RandomFile> memory_;
  std::string name_, destination_, temporary_;
  uint64_t position_ = 0;
  uint64_t reserved_ = 0;  // bytes of the file that have their place on the disk
  bool renames_ = false, replaces_ = false, library_ = false, force_, durable_ = false;
};

// The reader at the other end of stdout has gone: the program ends quietly.
struct ClosedPipe {};

}  // namespace gradcodec
