// The HDF5 library, with handles that close themselves and failures that become Errors. For one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "codec/error.h"

namespace gradcodec::hdf5 {

// Sets the library up, at the first call: it prints nothing, and loads no filters from files.
void set_up_library();

// An identifier of the library, closed on destruction.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept;
  ~Handle() { reset(); }
  hid_t get() const { return id_; }
  void reset();

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// For messages: what the library is working on, and what kind of failure it is if it fails.
struct Place {
  std::string_view object;      // a path; "" is the root or the file as a whole
  Exit code = Exit::bad_input;  // what it means if the library fails
};

// "the HDF5 library cannot ACTION 'OBJECT': REASON", where the reason is the innermost on the library's stack. Where
// the operating system failed it is Error(io), where memory ended Error(limit).
[[noreturn]] void throw_failure(const char* action, const Place& place);

// `id`, unless it says that the library failed.
Handle own(hid_t id, Handle::Close close, const char* action, const Place& place);

// For calls that return a negative number for failure; the number else.
template <typename T>
T must(T result, const char* action, const Place& place) {
  if (result < 0) throw_failure(action, place);
  return result;
}

// The innermost message on the library's stack; empty if there is none.
std::string innermost_reason();

// What tells one object of a file from another, however it is reached.
using ObjectId = std::array<uint8_t, 16>;
struct ObjectInfo {
  ObjectId id;
  H5O_type_t type;
};
ObjectInfo object_info(hid_t object, const Place& place);

}  // namespace gradcodec::hdf5
