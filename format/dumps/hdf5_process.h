// The process gradcodec-hdf5: started, asked, and not believed. The HDF5 library crashes on some damaged files and can
// be taken over by made ones, so it runs where it can do no more than read, or write, one open file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "codec/bytes.h"
#include "format/dumps/hdf5_protocol.h"
#include "format/files.h"

namespace gradcodec::hdf5 {

// `text` of the process, which may come from whoever has taken it over: what could steer a terminal is escaped. What
// the process itself has escaped stays as it is.
std::string printable(std::string_view text);

// For one thread at a time. What ends the process (and it is ended by an answer that makes no sense) is thrown as an
// Error, again at each later call: bad_input if the library crashed, limit for time and memory.
class Process {
 public:
  // Starts the process on a descriptor of the file. Throws Error(unsupported) if the program is not installed,
  // Error(io) if it does not start.
  Process(int file, bool writes);
  ~Process();  // ends it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Asks. The process may use up `seconds` of processor time more from here on, beside what it has not used yet.
  void ask(Message kind, double seconds, ByteView head, ByteView body = {});
  // The same for what has no answer.
  void tell(Message kind, ByteView head, ByteView body = {});

  // The next message of the answer, of at most `most` bytes (which the message `failed` may pass). `failed` is thrown,
  // as the Error that it says.
  Header next(uint64_t most = kMaxAnswer);
  // The `size` bytes of that message.
  Bytes body(const Header& header);
  void body(const Header& header, std::span<std::byte> out);
  // Nothing but `done` may come next.
  void expect_done();

  // The answer makes no sense: the process has been taken over.
  [[noreturn]] void nonsense(const std::string& what);

 private:
  void wait_for(short events);
  void receive(std::span<std::byte> out);
  void limit_time(double seconds);
  void stop();
  [[noreturn]] void end_with(Error error);
  [[noreturn]] void died();
  std::string when() const { return writes_ ? "while it wrote this file" : "on this file"; }

  bool writes_;
  Fd socket_;
  pid_t pid_ = -1;
  double allowed_ = 0, latest_ = 0;  // seconds of processor time: in all, by the latest request
  uint64_t limit_ = 0;               // what has been set
  std::optional<Error> end_;
};

}  // namespace gradcodec::hdf5
