// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/io.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <new>

namespace gradcodec::hdf5 {
namespace {

// Adds the strings that the library has read.
void append(std::vector<std::string>& texts, const std::vector<char*>& pointers, Budget& budget) {
  for (const char* text : pointers) {
    texts.emplace_back(text == nullptr ? "" : text);
    budget.take(texts.back().size());
  }
}

// Memory for the strings of one call. The library is refused more than the budget allows, as many elements of a damaged
// file may claim one long string; and what it loses when it fails is freed here.
class TextMemory {
 public:
  explicit TextMemory(uint64_t allowed) : left_(allowed) {}
  TextMemory(const TextMemory&) = delete;
  TextMemory& operator=(const TextMemory&) = delete;
  bool passed() const { return passed_; }

  // Exceptions must not pass through the library.
  static void* allocate(size_t size, void* memory) noexcept {
    auto& self = *static_cast<TextMemory*>(memory);
    self.passed_ = self.passed_ || size > self.left_;
    if (self.passed_) return nullptr;
    try {
      auto block = std::make_unique<std::byte[]>(size);
      void* address = block.get();
      self.blocks_.emplace(address, std::move(block));
      self.left_ -= size;
      return address;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static void give_back(void* address, void* memory) noexcept {
    static_cast<TextMemory*>(memory)->blocks_.erase(address);
  }

 private:
  uint64_t left_;
  bool passed_ = false;
  std::map<void*, std::unique_ptr<std::byte[]>> blocks_;
};

// Strings are read so many at a time.
constexpr uint64_t kTextsAtOnce = 4096;

}  // namespace

std::vector<Slab> slabs_of(const std::vector<uint64_t>& shape, Range range) {
  const size_t rank = shape.size();
  std::vector<uint64_t> strides(rank, 1);  // elements from one index to the next
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  std::vector<Slab> slabs;
  while (range.count > 0) {
    Slab slab{std::vector<hsize_t>(rank), std::vector<hsize_t>(rank, 1), 1};
    for (size_t d = 0; d < rank; ++d) slab.start[d] = range.first / strides[d] % shape[d];
    // The outermost dimension along which whole steps can be taken from here.
    size_t axis = 0;
    while (axis < rank && (range.first % strides[axis] != 0 || range.count < strides[axis])) ++axis;
    if (axis < rank) {
      slab.count[axis] = std::min<uint64_t>(range.count / strides[axis], shape[axis] - slab.start[axis]);
      for (size_t d = axis + 1; d < rank; ++d) slab.count[d] = shape[d];
      slab.size = slab.count[axis] * strides[axis];
    }
    range.first += slab.size;
    range.count -= slab.size;
    slabs.push_back(std::move(slab));
  }
  return slabs;
}

Elements::Elements(Handle dataset, std::vector<uint64_t> shape, std::string name)
    : dataset_(std::move(dataset)), shape_(std::move(shape)), name_(std::move(name)) {
  space_ = own(H5Dget_space(dataset_.get()), H5Sclose, "look at the shape of", {name_});
}

template <typename Call>
void Elements::for_each_slab(Range range, Call call) const {
  if (shape_.empty()) {
    if (range.count > 0) call(H5S_ALL, H5S_ALL, 1);
    return;
  }
  for (const Slab& slab : slabs_of(shape_, range)) {
    must(H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, slab.start.data(), nullptr, slab.count.data(), nullptr),
         "select elements of", {name_});
    // The memory has the shape of the box, not one dimension: the library is much faster between equal shapes.
    const Handle memory = own(H5Screate_simple(static_cast<int>(shape_.size()), slab.count.data(), nullptr), H5Sclose,
                              "select elements of", {name_});
    call(memory.get(), space_.get(), slab.size);
  }
}

void Elements::read(Range range, hid_t type, uint64_t item_size, std::byte* out, hid_t transfer) const {
  for_each_slab(range, [&](hid_t memory, hid_t file, uint64_t size) {
    must(H5Dread(dataset_.get(), type, memory, file, transfer, out), "read", {name_});
    out += size * item_size;
  });
}

void Elements::write(Range range, hid_t type, uint64_t item_size, const std::byte* in) const {
  for_each_slab(range, [&](hid_t memory, hid_t file, uint64_t size) {
    must(H5Dwrite(dataset_.get(), type, memory, file, H5P_DEFAULT, in), "write", {name_, Exit::io});
    in += size * item_size;
  });
}

void Elements::flush() const { must(H5Dflush(dataset_.get()), "write", {name_, Exit::io}); }

Handle access_in_order(hid_t creation, const std::vector<uint64_t>& shape, uint64_t item_size, const Place& place) {
  Handle access = own(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, "open", place);
  if (H5Pget_layout(creation) != H5D_CHUNKED || shape.empty() || shape[0] == 0) return access;
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = must(H5Pget_chunk(creation, H5S_MAX_RANK, chunk.data()), "look at the chunks of", place);
  double row = static_cast<double>(item_size), slots = 1;
  for (size_t d = 0; d < static_cast<size_t>(rank) && d < shape.size(); ++d) {
    const uint64_t across = d == 0 || shape[d] == 0 ? 1 : (shape[d] - 1) / chunk[d] + 1;
    row *= static_cast<double>(across) * static_cast<double>(chunk[d]);
    slots *= static_cast<double>(std::bit_ceil(across));
  }
  if (row > static_cast<double>(kMaxChunkSize) && H5Pget_nfilters(creation) > 0) {
    throw Error(Exit::limit,
                "its chunks are so tall that reading it in order would unpack each of them again and again: repack it, "
                "as with h5repack -l CHUNK=... or contiguous");
  }
  // Several threads do not ask in order, so several rows are kept where they are small.
  constexpr double kEnough = 64 << 20;
  const uint64_t rows_there = (shape[0] - 1) / chunk[0] + 1;
  const double rows = std::clamp(kEnough / row, 2.0, std::max(2.0, static_cast<double>(rows_there)));
  // The library drops a chunk when another one has its slot. Within so many rows, slots differ as long as there is one
  // for each of the (rounded) numbers of chunks across.
  const auto cache_slots = static_cast<size_t>(std::min(std::ceil(rows) * slots + 1, 1'000'003.0));
  const auto cache_size = static_cast<size_t>(std::clamp(rows * row, double{1 << 20}, double{kMaxChunkSize}));
  must(H5Pset_chunk_cache(access.get(), cache_slots, cache_size, 0.75), "open", place);
  return access;
}

void Budget::take(uint64_t bytes) {
  if (bytes > left_) {
    throw Error(Exit::limit, "attributes, links and variable-length strings take more than the " +
                                 std::to_string(kMaxTreeSize) + " bytes that can be kept beside the tensors");
  }
  left_ -= bytes;
}

std::optional<std::vector<uint64_t>> shape_of(hid_t space, const Place& place) {
  if (H5Sget_simple_extent_type(space) == H5S_NULL) return std::nullopt;
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = must(H5Sget_simple_extent_dims(space, dims.data(), nullptr), "look at the shape of", place);
  return std::vector<uint64_t>(dims.begin(), dims.begin() + rank);
}

Values read_attribute(hid_t attribute, Budget& budget, const Place& place) {
  const FileType type = read_type(own(H5Aget_type(attribute), H5Tclose, "look at an attribute of", place), place);
  const Handle space = own(H5Aget_space(attribute), H5Sclose, "look at an attribute of", place);
  Values out{.type = type.spec, .shape = shape_of(space.get(), place)};
  if (!out.shape) return out;
  const bool variable = type.spec.kind == TypeSpec::Kind::variable_text;
  check_tensor_info({"value", variable ? DType{DType::u8, ""} : type.spec.dtype(), *out.shape});
  const uint64_t count = out.size();
  if (variable) {
    budget.take(count * sizeof(char*));
    if (count == 0) return out;
    std::vector<char*> pointers(count, nullptr);
    must(H5Aread(attribute, type.id.get(), pointers.data()), "read an attribute of", place);
    append(out.texts, pointers, budget);
    must(H5Dvlen_reclaim(type.id.get(), space.get(), H5P_DEFAULT, pointers.data()), "read an attribute of", place);
    return out;
  }
  const uint64_t item_size = type.spec.dtype().item_size();
  budget.take(count * item_size);
  out.bytes.resize(count * item_size);
  if (count > 0) must(H5Aread(attribute, type.id.get(), out.bytes.data()), "read an attribute of", place);
  swap_words(out.bytes, item_size, type.swapped);
  return out;
}

Values read_values(Handle dataset, const FileType& type, std::optional<std::vector<uint64_t>> shape, Budget& budget,
                   const Place& place) {
  Values out{.type = type.spec, .shape = std::move(shape)};
  if (!out.shape) return out;
  check_tensor_info({"value", {DType::u8, ""}, *out.shape});
  const uint64_t count = out.size();
  budget.take(count);
  const Elements elements(std::move(dataset), *out.shape, std::string(place.object));
  const Handle transfer = own(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "read", place);
  for (uint64_t first = 0; first < count; first += kTextsAtOnce) {
    const Range range{first, std::min(kTextsAtOnce, count - first)};
    std::vector<char*> pointers(range.count, nullptr);
    TextMemory memory(budget.left() + 8 * kTextsAtOnce);
    must(H5Pset_vlen_mem_manager(transfer.get(), TextMemory::allocate, &memory, TextMemory::give_back, &memory), "read",
         place);
    try {
      elements.read(range, type.id.get(), sizeof(char*), reinterpret_cast<std::byte*>(pointers.data()), transfer.get());
    } catch (const Error&) {
      if (memory.passed()) budget.take(budget.left() + 1);
      throw;
    }
    append(out.texts, pointers, budget);
  }
  return out;
}

Handle make_space(const std::optional<std::vector<uint64_t>>& shape, const std::vector<uint64_t>* max_shape,
                  const Place& place) {
  const char* action = "make the shape of";
  if (!shape) return own(H5Screate(H5S_NULL), H5Sclose, action, place);
  if (shape->empty()) return own(H5Screate(H5S_SCALAR), H5Sclose, action, place);
  const std::vector<hsize_t> dims(shape->begin(), shape->end());
  std::vector<hsize_t> largest;
  if (max_shape != nullptr) {
    for (const uint64_t dim : *max_shape) largest.push_back(dim == kUnlimited ? H5S_UNLIMITED : dim);
  }
  return own(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), largest.empty() ? nullptr : largest.data()),
             H5Sclose, action, place);
}

void write_attribute(hid_t object, const Attribute& attribute, const Place& place) {
  const char* action = "write an attribute of";
  const Handle type = make_type(attribute.values.type, place);
  const Handle space = make_space(attribute.values.shape, nullptr, place);
  const Handle names = own(H5Pcreate(H5P_ATTRIBUTE_CREATE), H5Pclose, action, place);
  must(H5Pset_char_encoding(names.get(), H5T_CSET_UTF8), action, place);
  const Handle id = own(H5Acreate2(object, attribute.name.c_str(), type.get(), space.get(), names.get(), H5P_DEFAULT),
                        H5Aclose, action, place);
  if (attribute.values.size() == 0) return;
  if (attribute.values.type.kind != TypeSpec::Kind::variable_text) {
    must(H5Awrite(id.get(), type.get(), attribute.values.bytes.data()), action, place);
    return;
  }
  std::vector<const char*> texts;
  for (const std::string& text : attribute.values.texts) texts.push_back(text.c_str());
  must(H5Awrite(id.get(), type.get(), texts.data()), action, place);
}

void write_values(const Elements& elements, hid_t type, const Values& values) {
  if (values.size() == 0) return;
  const Range all{0, values.size()};
  if (values.type.kind != TypeSpec::Kind::variable_text) {
    elements.write(all, type, values.type.dtype().item_size(), values.bytes.data());
  } else {
    std::vector<const char*> texts;
    for (const std::string& text : values.texts) texts.push_back(text.c_str());
    elements.write(all, type, sizeof(char*), reinterpret_cast<const std::byte*>(texts.data()));
  }
  elements.flush();
}

}  // namespace gradcodec::hdf5
