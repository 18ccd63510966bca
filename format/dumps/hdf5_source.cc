// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "format/dumps/hdf5.h"
#include "format/dumps/hdf5_walk.h"

namespace gradcodec {
namespace {

using namespace hdf5;

class Hdf5Data : public TensorData {
 public:
  Hdf5Data(Elements elements, FileType type, const TensorInfo& info, bool zero_first)
      : elements_(std::move(elements)), type_(std::move(type)), info_(info), zero_first_(zero_first) {}

  void read(Range range, std::span<std::byte> out) const override {
    const uint64_t item_size = info_.dtype.item_size();
    try {
      // Where nothing was stored, and there is no fill value, the library leaves memory as it is.
      if (zero_first_) std::fill(out.begin(), out.end(), std::byte{0});
      {
        const Lock lock;
        elements_.read(range, type_.id.get(), item_size, out.data());
      }
      swap_words(out, item_size, type_.swapped);
    } catch (Error& error) {
      throw error.in_tensor(info_.name);
    }
  }

 private:
  Elements elements_;
  FileType type_;
  const TensorInfo& info_;
  bool zero_first_;
};

Handle open_file(const RandomFile& file) {
  // By its descriptor: a file that was a pipe has no name.
  const bool linux = access("/proc/self/fd", F_OK) == 0;
  const std::string path = (linux ? "/proc/self/fd/" : "/dev/fd/") + std::to_string(file.fd());
  const Place place{""};
  const Handle access_list = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "open", place);
  // The usual driver asks for the real path of the file, which an unlinked one does not have.
  struct stat status {};
  const bool unlinked = fstat(file.fd(), &status) == 0 && status.st_nlink == 0;
  must(unlinked ? H5Pset_fapl_stdio(access_list.get()) : H5Pset_fapl_sec2(access_list.get()), "open", place);
#if H5_VERSION_GE(1, 10, 7)
  must(H5Pset_file_locking(access_list.get(), false, true), "open", place);
#endif
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_list.get());
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
  throw_failure("open", place);
}

class Hdf5Source : public Source {
 public:
  Hdf5Source(std::shared_ptr<RandomFile> file, const SourceOptions& options, std::vector<std::string>* dropped)
      : random_(std::move(file)) {
    const Lock lock;
    file_ = open_file(*random_);
    std::vector<std::string> unwanted;
    if (dropped == nullptr) dropped = &unwanted;
    Walker walker(file_.get(), random_->size(), options.drop_unsupported ? dropped : nullptr);
    walker.walk();
    tree_ = write_tree(walker.tree);
    // Nothing is passed on that the sink would refuse later, when the dump may be gone.
    parse_tree(tree_);
    std::set<std::string_view> names;
    for (Found& found : walker.tensors) {
      tensors_.push_back(std::move(found.info));
      paths_.push_back(std::move(found.path));
    }
    for (const TensorInfo& info : tensors_) {
      if (!names.insert(info.name).second) {
        throw Error(Exit::bad_input, "two datasets are named '" + escaped(info.name) + "'");
      }
    }
  }

  DumpKind kind() const override { return DumpKind::hdf5; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  Bytes tree() const override { return tree_; }

  std::unique_ptr<TensorData> open(size_t ordinal) override {
    const TensorInfo& info = tensors_.at(ordinal);
    const std::string& path = paths_[ordinal];
    try {
      const Lock lock;
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
      return std::make_unique<Hdf5Data>(Elements(std::move(dataset), info.shape, path), std::move(type), info,
                                        zero_first);
    } catch (Error& error) {
      throw error.in_tensor(info.name);
    }
  }

 private:
  std::shared_ptr<RandomFile> random_;  // before file_: the library closes first
  Handle file_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> paths_;
  Bytes tree_;
};

}  // namespace

std::unique_ptr<Source> open_hdf5(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                  std::vector<std::string>* dropped) {
  const std::string name = file->name();
  try {
    return std::make_unique<Hdf5Source>(std::move(file), options, dropped);
  } catch (Error& error) {
    throw error.in_file(name);
  }
}

}  // namespace gradcodec
