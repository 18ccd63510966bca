// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/driver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

namespace gradcodec::hdf5 {
namespace {

constexpr size_t kMaxCall = size_t{1} << 30;  // Linux moves at most 2^31 - 4096 bytes a call

// What the property list carries. The library copies it byte by byte.
struct Access {
  int fd;
  bool writes;
  uint64_t size;
};

struct File {
  H5FD_t base{};  // first: the library sees only this
  Access access{};
  haddr_t end_of_addresses = 0;
};

bool is_open = false;

File& file_of(H5FD_t* file) { return *reinterpret_cast<File*>(file); }
const File& file_of(const H5FD_t* file) { return *reinterpret_cast<const File*>(file); }

// The text goes on to the user, and says what kind of failure it is.
void push_error(const char* function, const char* text) {
  H5Epush2(H5E_DEFAULT, "driver.cc", function, 0, H5E_ERR_CLS, H5E_IO, H5E_READERROR, "%s", text);
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t properties, haddr_t) {
  const auto* access = static_cast<const Access*>(H5Pget_driver_info(properties));
  if (access == nullptr || is_open || std::string_view(name) != kFileName ||
      ((flags & H5F_ACC_RDWR) != 0 && !access->writes)) {
    push_error("open_file", "other files are never opened");
    return nullptr;
  }
  auto file = std::make_unique<File>();
  file->access = *access;
  is_open = true;
  return &file.release()->base;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<File> owned(&file_of(file));
  is_open = false;
  return 0;
}

// As the library's own driver of plain files says of itself.
herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  }
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end_of_addresses; }

herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  file_of(file).end_of_addresses = end;
  return 0;
}

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return file_of(file).access.size; }

constexpr haddr_t kLargest = (haddr_t{1} << 63) - 1;

bool is_place(haddr_t offset, size_t size) { return offset <= kLargest && size <= kLargest - offset; }

herr_t read(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t offset, size_t size, void* buffer) {
  const File& file = file_of(base);
  if (!is_place(offset, size)) {
    push_error("read", "an address beyond all files");
    return -1;
  }
  auto* out = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t n = pread(file.access.fd, out, std::min(size, kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      push_error("read", std::strerror(errno));
      return -1;
    }
    if (n == 0 && !file.access.writes && offset < file.access.size) {
      push_error("read", "it has become shorter while it was read");
      return -1;
    }
    if (n == 0) {  // what was allocated and not yet written
      std::memset(out, 0, size);
      break;
    }
    out += n;
    offset += static_cast<haddr_t>(n);
    size -= static_cast<size_t>(n);
  }
  return 0;
}

herr_t write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t offset, size_t size, const void* buffer) {
  File& file = file_of(base);
  if (!file.access.writes || !is_place(offset, size)) {
    push_error("write", "an address beyond all files");
    return -1;
  }
  const auto* in = static_cast<const char*>(buffer);
  while (size > 0) {
    const ssize_t n = pwrite(file.access.fd, in, std::min(size, kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      push_error("write", std::strerror(errno));
      return -1;
    }
    in += n;
    offset += static_cast<haddr_t>(n);
    size -= static_cast<size_t>(n);
  }
  file.access.size = std::max<uint64_t>(file.access.size, offset);
  return 0;
}

herr_t truncate(H5FD_t* base, hid_t, hbool_t) {
  File& file = file_of(base);
  if (!file.access.writes || file.access.size == file.end_of_addresses) return 0;
  if (ftruncate(file.access.fd, static_cast<off_t>(file.end_of_addresses)) != 0) {
    push_error("truncate", std::strerror(errno));
    return -1;
  }
  file.access.size = file.end_of_addresses;
  return 0;
}

// Nothing is locked; but only of drivers that can does the library refuse what a writer has left open.
herr_t lock(H5FD_t*, hbool_t) { return 0; }
herr_t unlock(H5FD_t*) { return 0; }

// By name: the fields of the class, and their order, differ between versions of the library.
hid_t make_driver() {
  static constexpr H5FD_mem_t kFreeLists[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 14, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);  // of those that are free for whoever has a driver
#endif
  driver.name = "gradcodec";
  driver.maxaddr = kLargest;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Access);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  driver.lock = lock;
  driver.unlock = unlock;
  std::copy(std::begin(kFreeLists), std::end(kFreeLists), std::begin(driver.fl_map));
  return H5FDregister(&driver);
}

}  // namespace

Handle access_by_descriptor(int fd, uint64_t size, bool writes) {
  set_up_library();
  static const hid_t driver = make_driver();
  const Access access{fd, writes, size};
  Handle list = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "open", {""});
  must(H5Pset_driver(list.get(), driver, &access), "open", {""});
  return list;
}

}  // namespace gradcodec::hdf5
