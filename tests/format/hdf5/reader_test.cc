// The library's side, without a process between.
// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/reader.h"

#include <hdf5.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "format/files.h"
#include "format/hdf5/driver.h"

using namespace gradcodec;
using namespace gradcodec::hdf5;
namespace fs = std::filesystem;

namespace {

// A file that goes with the test.
struct Scratch {
  std::string path = (fs::temp_directory_path() / "gradcodec-reader-XXXXXX").string();
  Scratch() { Fd(mkstemp(path.data())); }
  ~Scratch() { fs::remove(path); }
};

}  // namespace

TEST_CASE("no handles stay open") {
  const Scratch scratch;
  constexpr hsize_t kDims[] = {4, 2}, kChunk[] = {2, 2};
  {
    const hid_t file = H5Fcreate(scratch.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, kDims, nullptr);
    H5Pset_chunk(creation, 2, kChunk);
    for (const char* name : {"a", "b", "c"}) {
      H5Dclose(H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    }
    H5Sclose(space), H5Pclose(creation), H5Fclose(file);
  }
  REQUIRE(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0);
  {
    const auto file = RandomFile::open(scratch.path);
    const Reader reader(file->fd(), file->size(), nullptr);
    REQUIRE(reader.tensors().size() == 3);
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 1);
    for (size_t i = 0; i < 3; ++i) {
      Bytes out(32, std::byte{1});
      reader.open(i)->read({0, 8}, out);
      CHECK(out == Bytes(32));
    }
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 1);
  }
  CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0);
}

namespace {

size_t unpacked = 0;

// A filter that changes nothing and counts how often a chunk is unpacked.
size_t count_unpacking(unsigned flags, size_t, const unsigned*, size_t size, size_t*, void**) {
  if ((flags & H5Z_FLAG_REVERSE) != 0) ++unpacked;
  return size;
}

}  // namespace

TEST_CASE("going through a dataset unpacks each chunk once") {
  constexpr H5Z_filter_t kFilter = 300;  // of those that are free for tests
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kFilter, 1, 1, "count", nullptr, nullptr, count_unpacking};
  REQUIRE(H5Zregister(&filter) >= 0);
  const Scratch scratch;
  const std::string& path = scratch.path;
  constexpr hsize_t kDims[] = {256, 4096}, kChunk[] = {64, 64};
  {
    const std::vector<float> values(kDims[0] * kDims[1], 1.5F);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, kDims, nullptr);
    H5Pset_chunk(creation, 2, kChunk);
    H5Pset_filter(creation, kFilter, H5Z_FLAG_MANDATORY, 0, nullptr);
    const hid_t set = H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Dwrite(set, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(set), H5Sclose(space), H5Pclose(creation), H5Fclose(file);
  }
  const auto file = RandomFile::open(path);
  const Reader reader(file->fd(), file->size(), nullptr);
  const auto data = reader.open(0);
  Bytes out(4 * 1000);  // runs that end within rows
  unpacked = 0;
  // Every other run after the one behind it, as two threads may ask.
  for (uint64_t first = 0; first + 2000 <= kDims[0] * kDims[1]; first += 2000) {
    data->read({first + 1000, 1000}, out);
    data->read({first, 1000}, out);
  }
  CHECK(unpacked == 4 * 64);
}

TEST_CASE("the library gets at no other file") {
  const Scratch scratch, other;
  const hsize_t dims[] = {4};
  {
    const std::vector<float> values(4, 7.5F);
    const hid_t file = H5Fcreate(other.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, dims, nullptr);
    const hid_t set = H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(set), H5Fclose(file);
    const hid_t linking = H5Fcreate(scratch.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(creation, space, other.path.c_str(), "w", space);
    H5Dclose(H5Dcreate2(linking, "virtual", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Lcreate_external(other.path.c_str(), "/w", linking, "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Pclose(creation), H5Sclose(space), H5Fclose(linking);
  }
  // Asked for the very things that a Reader refuses.
  const auto read = [](hid_t file, const char* name) {
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set < 0) return -1.0F;
    std::vector<float> out(4, -1.0F);
    H5Dread(set, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data());
    H5Dclose(set);
    return out[0];
  };
  const hid_t usual = H5Fopen(scratch.path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  CHECK(read(usual, "external") == 7.5F);
  CHECK(read(usual, "virtual") == 7.5F);
  H5Fclose(usual);
  const auto file = RandomFile::open(scratch.path);
  const Handle access = access_by_descriptor(file->fd(), file->size(), false);
  const Handle ours(H5Fopen(kFileName, H5F_ACC_RDONLY, access.get()), H5Fclose);
  REQUIRE(ours.get() >= 0);
  CHECK(read(ours.get(), "external") == -1.0F);
  CHECK(read(ours.get(), "virtual") == 0.0F);
  CHECK(H5Fopen(scratch.path.c_str(), H5F_ACC_RDONLY, access.get()) < 0);
  CHECK(H5Fopen(kFileName, H5F_ACC_RDWR, access.get()) < 0);
}
