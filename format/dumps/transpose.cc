// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/transpose.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/bytes.h"

namespace gradcodec {
namespace {

using Dims = std::vector<uint64_t>;  // one number a dimension

Dims reversed(const Dims& dims) { return Dims(dims.rbegin(), dims.rend()); }

// Distance in elements between neighbours along each dimension, the first dimension being contiguous.
Dims strides_of(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  return strides;
}

// The tile that is moved at once: at most `budget` elements (1 or more), with long runs in both orders. The leading
// dimensions make the runs that are read, the trailing ones those that are written; each gets the square root.
Dims choose_tile(const Dims& shape, uint64_t budget) {
  const auto side = std::max<uint64_t>(1, static_cast<uint64_t>(std::sqrt(static_cast<double>(budget))));
  const auto grow = [](const Dims& dims, uint64_t elements) {
    Dims tile(dims.size(), 1);
    for (size_t i = 0; i < dims.size() && elements > 1; elements /= tile[i], ++i) tile[i] = std::min(dims[i], elements);
    return tile;
  };
  Dims tile = grow(shape, side);
  const Dims trailing = reversed(grow(reversed(shape), side));
  uint64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    tile[i] = std::max(tile[i], trailing[i]);
    elements *= tile[i];
  }
  // A short dimension, or one that is both leading and trailing, leaves room.
  for (size_t i = 0; i < shape.size() && elements < budget; ++i) {
    const uint64_t larger = std::min(shape[i], tile[i] * (budget / elements));
    elements = elements / tile[i] * larger;
    tile[i] = larger;
  }
  return tile;
}

// Calls visit(element offset, elements) for each contiguous run of the box at `origin` in an array whose first
// dimension is contiguous, in the order of the array.
template <typename Visit>
void for_each_run(const Dims& shape, const Dims& origin, const Dims& extent, const Visit& visit) {
  const Dims strides = strides_of(shape);
  uint64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i) offset += origin[i] * strides[i];
  size_t first_outer = 1;
  uint64_t run = extent[0];
  for (; first_outer < shape.size() && extent[first_outer - 1] == shape[first_outer - 1]; ++first_outer) {
    run *= extent[first_outer];
  }
  Dims index(shape.size(), 0);
  for (;;) {
    visit(offset, run);
    size_t i = first_outer;
    for (; i < shape.size() && ++index[i] == extent[i]; ++i) {
      offset -= (extent[i] - 1) * strides[i];
      index[i] = 0;
    }
    if (i >= shape.size()) return;
    offset += strides[i];
  }
}

// One plane of a tile: to[row * to_stride + column] = from[row + column * from_stride], in elements. Goes by squares
// that stay in the first-level cache. kItem is the element's size, or 0 for any.
template <size_t kItem>
void transpose_plane(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride, uint64_t rows,
                     uint64_t columns, uint64_t any_item) {
  constexpr uint64_t kSquare = 32;
  const uint64_t item = kItem == 0 ? any_item : kItem;
  for (uint64_t row0 = 0; row0 < rows; row0 += kSquare) {
    for (uint64_t column0 = 0; column0 < columns; column0 += kSquare) {
      const uint64_t row_end = std::min(rows, row0 + kSquare), column_end = std::min(columns, column0 + kSquare);
      for (uint64_t row = row0; row < row_end; ++row) {
        for (uint64_t column = column0; column < column_end; ++column) {
          std::memcpy(to + (row * to_stride + column) * item, from + (row + column * from_stride) * item, item);
        }
      }
    }
  }
}

using PlaneFunction = void (*)(const std::byte*, uint64_t, std::byte*, uint64_t, uint64_t, uint64_t, uint64_t);

PlaneFunction plane_function(uint64_t item_size) {
  switch (item_size) {
    case 1:
      return transpose_plane<1>;
    case 2:
      return transpose_plane<2>;
    case 4:
      return transpose_plane<4>;
    case 8:
      return transpose_plane<8>;
    case 16:
      return transpose_plane<16>;
    default:
      return transpose_plane<0>;
  }
}

// A tile in memory, Fortran order to C order. Dimensions other than the first and the last choose the plane.
void transpose_tile(const Dims& extent, uint64_t item_size, const Bytes& from, Bytes& to) {
  const size_t last = extent.size() - 1;
  const Dims from_strides = strides_of(extent), to_strides = reversed(strides_of(reversed(extent)));
  const PlaneFunction plane = plane_function(item_size);
  Dims index(extent.size(), 0);
  uint64_t from_offset = 0, to_offset = 0;
  for (;;) {
    plane(from.data() + from_offset * item_size, from_strides[last], to.data() + to_offset * item_size, to_strides[0],
          extent[0], extent[last], item_size);
    size_t i = 1;
    for (; i < last && ++index[i] == extent[i]; ++i) {
      from_offset -= (extent[i] - 1) * from_strides[i];
      to_offset -= (extent[i] - 1) * to_strides[i];
      index[i] = 0;
    }
    if (i >= last) return;
    from_offset += from_strides[i];
    to_offset += to_strides[i];
  }
}

}  // namespace

bool order_matters(std::span<const uint64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return false;
  return std::count_if(shape.begin(), shape.end(), [](uint64_t dim) { return dim > 1; }) >= 2;
}

std::shared_ptr<RandomFile> to_c_order(const RandomFile& file, uint64_t offset, std::span<const uint64_t> shape,
                                       uint64_t item_size) {
  std::shared_ptr<RandomFile> out = RandomFile::temporary();
  if (item_size == 0) return out;
  Dims dims;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(dims), [](uint64_t dim) { return dim > 1; });
  const Dims tile = choose_tile(dims, kTransposeBuffer / item_size);
  uint64_t tile_size = item_size;
  for (const uint64_t dim : tile) tile_size *= dim;
  Bytes from(tile_size), to(tile_size);
  Dims origin(dims.size(), 0), extent(dims.size());
  for (;;) {
    for (size_t i = 0; i < dims.size(); ++i) extent[i] = std::min(tile[i], dims[i] - origin[i]);
    uint64_t at = 0;
    for_each_run(dims, origin, extent, [&](uint64_t first, uint64_t count) {
      file.read_at(offset + first * item_size, std::span(from).subspan(at, count * item_size));
      at += count * item_size;
    });
    transpose_tile(extent, item_size, from, to);
    at = 0;
    for_each_run(reversed(dims), reversed(origin), reversed(extent), [&](uint64_t first, uint64_t count) {
      out->write_at(first * item_size, std::span(to).subspan(at, count * item_size));
      at += count * item_size;
    });
    size_t i = 0;
    for (; i < dims.size() && (origin[i] += tile[i]) >= dims[i]; ++i) origin[i] = 0;
    if (i == dims.size()) return out;
  }
}

}  // namespace gradcodec
