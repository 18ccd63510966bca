// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/library.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace gradcodec::hdf5 {
namespace {

// The library passes the operating system's failures on as text.
constexpr const char* kSystemFailures[] = {"Input/output error", "No space left", "File too large", "quota exceeded"};

struct Reason {
  std::string text;
  bool memory = false;
};

herr_t take_first(unsigned depth, const H5E_error2_t* error, void* out) {
  auto& reason = *static_cast<Reason*>(out);
  if (depth > 0) return 0;
  if (error->desc != nullptr) reason.text = error->desc;
  reason.memory = error->maj_num == H5E_RESOURCE && (error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC);
  return 0;
}

Reason innermost() {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  return reason;
}

}  // namespace

void set_up_library() {
  static const bool ready = [] {
    // Files are closed by us. Closing what is left at exit crashes the library after a disk was full.
    H5dont_atexit();
    H5open();
    H5PLset_loading_state(0);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)ready;
}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
  }
  return *this;
}

void Handle::reset() {
  if (id_ < 0) return;
  close_(std::exchange(id_, -1));
}

std::string innermost_reason() { return innermost().text; }

void throw_failure(const char* action, const Place& place) {
  const Reason reason = innermost();
  const std::string object = place.object.empty() ? "the file" : "'" + escaped(place.object) + "'";
  const bool io = std::any_of(std::begin(kSystemFailures), std::end(kSystemFailures),
                              [&](const char* text) { return reason.text.find(text) != std::string::npos; });
  throw Error(io              ? Exit::io
              : reason.memory ? Exit::limit
                              : place.code,
              std::string("the HDF5 library cannot ") + action + " " + object + ": " +
                  (reason.text.empty() ? "it gives no reason" : escaped(reason.text)));
}

Handle own(hid_t id, Handle::Close close, const char* action, const Place& place) {
  if (id < 0) throw_failure(action, place);
  return Handle(id, close);
}

ObjectInfo object_info(hid_t object, const Place& place) {
  ObjectInfo out{};
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  must(H5Oget_info3(object, &info, H5O_INFO_BASIC), "look at", place);
  static_assert(sizeof(info.token) <= sizeof(out.id));
  std::memcpy(out.id.data(), &info.token, sizeof(info.token));
#else
  H5O_info_t info;
  must(H5Oget_info2(object, &info, H5O_INFO_BASIC), "look at", place);
  std::memcpy(out.id.data(), &info.addr, sizeof(info.addr));
#endif
  out.type = info.type;
  return out;
}

}  // namespace gradcodec::hdf5
