// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "format/hdf5/walk.h"

namespace gradcodec::hdf5 {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Exit::unsupported, text); }

void check_filters(hid_t creation, const Place& place) {
  const int count = must(H5Pget_nfilters(creation), "look at the filters of", place);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<char, 80> name{};
    size_t values = 0;
    unsigned flags = 0, config = 0;
    const H5Z_filter_t filter =
        must(H5Pget_filter2(creation, i, &flags, &values, nullptr, name.size() - 1, name.data(), &config),
             "look at the filters of", place);
    if (H5Zfilter_avail(filter) <= 0) {
      refuse("is compressed by filter " + std::to_string(filter) + " ('" + escaped(name.data()) +
             "'), which is not built in; unpack it first (h5repack -f NONE)");
    }
  }
}

}  // namespace

std::optional<Link> Walker::visit_dataset(Handle dataset, const std::string& name, const std::string& path) {
  const Place place{path};
  const Handle creation = own(H5Dget_create_plist(dataset.get()), H5Pclose, "look at", place);
  // Before anything else: the library opens other files as soon as it is asked for the shape of a virtual dataset.
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL) refuse("is virtual, made of other datasets, which are never opened");
  if (H5Pget_external_count(creation.get()) > 0) refuse("is stored in other files, which are never opened");
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) refuse("has an unknown layout");
  check_filters(creation.get(), place);
  const FileType type = read_type(own(H5Dget_type(dataset.get()), H5Tclose, "look at the type of", place), place);

  DatasetRecord record;
  read_creation(dataset.get(), creation.get(), type, record, place);
  std::string tensor_name;
  record.attributes = read_attributes(dataset.get(), path, record.attribute_order, &tensor_name);
  const Handle space = own(H5Dget_space(dataset.get()), H5Sclose, "look at the shape of", place);
  auto shape = shape_of(space.get(), place);
  Link link{.kind = Link::Kind::child, .name = name};
  if (shape && type.spec.kind != TypeSpec::Kind::variable_text) {
    if (!tensor_name.empty()) record.path = path;
    add_tensor(dataset.get(), type, std::move(*shape), std::move(record), tensor_name.empty() ? path : tensor_name,
               path);
    return link;
  }
  link.kind = Link::Kind::dataset;
  link.record = std::move(record);
  link.values = read_values(std::move(dataset), type, std::move(shape), budget_, place);
  return link;
}

void Walker::read_creation(hid_t dataset, hid_t creation, const FileType& type, DatasetRecord& record,
                           const Place& place) {
  unsigned flags = 0;
  must(H5Pget_attr_creation_order(creation, &flags), "look at", place);
  record.attribute_order = order_of(flags);

  const Handle space = own(H5Dget_space(dataset), H5Sclose, "look at the shape of", place);
  if (H5Sget_simple_extent_type(space.get()) == H5S_SIMPLE) {
    std::array<hsize_t, H5S_MAX_RANK> dims{}, largest{};
    const int rank = must(H5Sget_simple_extent_dims(space.get(), dims.data(), largest.data()), "look at", place);
    if (!std::equal(dims.begin(), dims.begin() + rank, largest.begin())) {
      record.max_shape.emplace();
      for (int d = 0; d < rank; ++d) {
        const hsize_t dim = largest[static_cast<size_t>(d)];
        record.max_shape->push_back(dim == H5S_UNLIMITED ? kUnlimited : dim);
      }
    }
  }

  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  must(H5Pfill_value_defined(creation, &defined), "look at the fill value of", place);
  if (defined != H5D_FILL_VALUE_USER_DEFINED || type.spec.kind == TypeSpec::Kind::variable_text) return;
  FillValue fill{type.spec.dtype(), {}};
  fill.bytes.resize(fill.dtype.item_size());
  must(H5Pget_fill_value(creation, type.id.get(), fill.bytes.data()), "look at the fill value of", place);
  swap_words(fill.bytes, fill.bytes.size(), type.swapped);
  budget_.take(fill.bytes.size());
  record.fill = std::move(fill);
}

void Walker::add_tensor(hid_t dataset, const FileType& type, std::vector<uint64_t> shape, DatasetRecord record,
                        std::string name, const std::string& path) {
  Found found{.info = {std::move(name), type.spec.dtype(), std::move(shape)}, .path = path};
  check_tensor_info(found.info);
  const Handle creation = own(H5Dget_create_plist(dataset), H5Pclose, "look at", {path});
  look_at_storage(dataset, creation.get(), type, found);
  if (type.spec != TypeSpec::of(found.info.dtype)) record.type = type.spec;
  if (!record.is_default()) {
    budget_.take(found.info.name.size() + 16);
    if (!tree.tensors.emplace(found.info.name, std::move(record)).second) {
      throw Error(Exit::bad_input, "two datasets are named '" + escaped(found.info.name) + "'");
    }
  }
  tensors.push_back(std::move(found));
}

// Where are the bytes, and are they as many as the shape claims? The library does not look.
void Walker::look_at_storage(hid_t dataset, hid_t creation, const FileType& type, Found& found) {
  const TensorInfo& info = found.info;
  const std::string name = "dataset '" + escaped(found.path) + "'";
  const Place place{found.path};
  const H5D_layout_t layout = H5Pget_layout(creation);
  if (layout == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int rank = must(H5Pget_chunk(creation, H5S_MAX_RANK, chunk.data()), "look at the chunks of", place);
    uint64_t chunk_size = info.dtype.item_size();
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      if (chunk[d] == 0 || static_cast<size_t>(rank) != info.shape.size()) {
        throw Error(Exit::bad_input, name + " has chunks that do not fit its shape");
      }
      if (__builtin_mul_overflow(chunk_size, chunk[d], &chunk_size)) chunk_size = ~uint64_t{0};
    }
    if (chunk_size > kMaxChunkSize) {
      throw Error(Exit::limit, name + " has HDF5 chunks of " + std::to_string(chunk_size) + " bytes; at most " +
                                   std::to_string(kMaxChunkSize) + " are read (h5repack -l can store it otherwise)");
    }
    return;
  }
  const haddr_t offset = H5Dget_offset(dataset);
  if (layout == H5D_CONTIGUOUS && offset == HADDR_UNDEF) return;  // never written
  if (H5Dget_storage_size(dataset) < info.byte_size()) {
    throw Error(Exit::bad_input, name + " has " + std::to_string(info.byte_size()) +
                                     " bytes by its shape and fewer in the file: it is damaged");
  }
  if (layout != H5D_CONTIGUOUS) return;
  found.word_size = uniform_word(info.dtype.item_size(), type.swapped);
  if (type.swapped.empty() || found.word_size > 0) found.offset = offset;
}

}  // namespace gradcodec::hdf5
