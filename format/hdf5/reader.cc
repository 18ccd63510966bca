// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/reader.h"

#include <algorithm>

#include "format/hdf5/driver.h"

namespace gradcodec::hdf5 {
namespace {

Handle open_file(int fd, uint64_t size) {
  const Handle access = access_by_descriptor(fd, size, false);
  const hid_t id = H5Fopen(kFileName, H5F_ACC_RDONLY, access.get());
  if (id >= 0) return Handle(id, H5Fclose);
  const std::string reason = innermost_reason();
  if (reason.find("signature") != std::string::npos) {
    throw Error(Exit::bad_input, "is no HDF5 file: the signature is missing");
  }
  if (reason.find("truncated") != std::string::npos || reason.find("addr overflow") != std::string::npos) {
    throw Error(Exit::bad_input, "the HDF5 file was cut (" + escaped(reason) +
                                     "): copy it again; if its writer crashed, h5clear --increment may mend it");
  }
  if (reason.find("h5clear") != std::string::npos || reason.find("already open") != std::string::npos) {
    throw Error(Exit::bad_input, "the HDF5 file was not closed by its writer, which still runs or has crashed (" +
                                     escaped(reason) + "): once nobody writes to it, h5clear -s may mend it");
  }
  throw_failure("open", {""});
}

}  // namespace

void OpenTensor::read(Range range, std::span<std::byte> out) const {
  if (range.count == 0) return;
  const uint64_t item_size = out.size() / range.count;
  // Where nothing was stored, and there is no fill value, the library leaves memory as it is.
  if (zero_first_) std::fill(out.begin(), out.end(), std::byte{0});
  elements_.read(range, type_.id.get(), item_size, out.data());
  swap_words(out, item_size, type_.swapped);
}

Reader::Reader(int fd, uint64_t size, std::vector<std::string>* dropped) : file_(open_file(fd, size)) {
  Walker walker(file_.get(), dropped);
  walker.walk();
  tensors_ = std::move(walker.tensors);
  tree_ = std::move(walker.tree);
}

std::unique_ptr<OpenTensor> Reader::open(size_t ordinal) const {
  const auto& [info, path, offset, word_size] = tensors_.at(ordinal);
  const Place place{path};
  Handle dataset = own(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose, "open", place);
  const Handle creation = own(H5Dget_create_plist(dataset.get()), H5Pclose, "open", place);
  const Handle how = access_in_order(creation.get(), info.shape, info.dtype.item_size(), place);
  // Closed first: an open dataset keeps the cache it was opened with.
  dataset.reset();
  dataset = own(H5Dopen2(file_.get(), path.c_str(), how.get()), H5Dclose, "open", place);
  FileType type = read_type(own(H5Dget_type(dataset.get()), H5Tclose, "look at the type of", place), place);
  H5D_fill_time_t fill_time = H5D_FILL_TIME_IFSET;
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  must(H5Pget_fill_time(creation.get(), &fill_time), "open", place);
  must(H5Pfill_value_defined(creation.get(), &defined), "open", place);
  const bool zero_first = fill_time == H5D_FILL_TIME_NEVER || defined == H5D_FILL_VALUE_UNDEFINED;
  return std::make_unique<OpenTensor>(Elements(std::move(dataset), info.shape, path), std::move(type), zero_first);
}

}  // namespace gradcodec::hdf5
