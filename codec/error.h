// The one exception of the project, and how names are made safe to print.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace gradcodec {

// Exit codes of the command line. `bug` is for what should never happen.
enum class Exit : int {
  ok = 0,
  check_failed = 1,
  usage = 2,
  bad_input = 3,
  io = 4,
  limit = 5,
  unsupported = 6,
  bug = 70,
};

// `name` with control bytes, backslashes and bytes that are not UTF-8 written as \xNN, so that a hostile name cannot
// steer a terminal. At most 200 bytes are shown.
std::string escaped(std::string_view name);

// Thrown at the spot, caught in main. The text says what was found, what was expected and what to do; the file and the
// tensor are added on the way up by whoever knows them. Names given here are printed escaped.
class Error : public std::exception {
 public:
  Error(Exit code, std::string text) : code_(code), text_(std::move(text)) { compose(); }

  // Each sets its part only if nobody nearer to the fault has set it.
  Error& in_file(std::string_view file);
  Error& in_tensor(std::string_view tensor);

  Exit code() const { return code_; }
  const std::string& text() const { return text_; }
  const char* what() const noexcept override { return whole_.c_str(); }  // "FILE: tensor 'NAME': TEXT"

 private:
  void compose();

  Exit code_;
  std::string text_, file_, tensor_, whole_;
};

}  // namespace gradcodec
