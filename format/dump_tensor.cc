// SPDX-License-Identifier: Apache-2.0
#include "format/dump_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codec/values.h"

namespace gradcodec {

std::span<const float> DumpTensor::read(Range range, std::span<float> scratch) const {
  if (info_.dtype.code == DType::f4 && !kSwapsBytes) {
    const ByteView there = data_->view(range);
    if (!there.empty() && reinterpret_cast<uintptr_t>(there.data()) % alignof(float) == 0) {
      return {reinterpret_cast<const float*>(there.data()), static_cast<size_t>(range.count)};
    }
  }
  const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
  if (info_.dtype.code == DType::f8) {
    read_doubles(range, out);
  } else {  // the elements go to the end of the room that their values will fill
    const std::span<std::byte> bytes = std::as_writable_bytes(out).last(out.size() * info_.dtype.item_size());
    data_->read(range, bytes);
    widen(info_.dtype, bytes, out);
  }
  return out;
}

void DumpTensor::read_exactly(Range range, std::span<double> out) const {
  if (info_.dtype.code == DType::f8) {
    data_->read(range, std::as_writable_bytes(out));
    swap_if_big(out);
    return;
  }
  std::vector<float> values(out.size());
  read(range, values);
  std::copy(values.begin(), values.end(), out.begin());
}

void DumpTensor::look_for_loss(ByteView bytes, std::span<const float> values) const {
  for (size_t i = 0; i < values.size() && !normal_; ++i) {
    const auto before = load_little<double>(bytes.data() + i * sizeof(double));
    if (std::fabs(values[i]) >= std::numeric_limits<float>::min()) {
      normal_ = true;
    } else if (before != 0) {
      vanishing_ = true;
    }
  }
}

void DumpTensor::read_doubles(Range range, std::span<float> out) const {
  constexpr uint64_t kPiece = 4096;
  std::array<double, kPiece> piece;
  for (uint64_t at = 0; at < range.count; at += kPiece) {
    const size_t count = static_cast<size_t>(std::min(kPiece, range.count - at));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(piece).first(count));
    data_->read({range.first + at, count}, bytes);
    const std::span<float> values = out.subspan(static_cast<size_t>(at), count);
    widen(info_.dtype, bytes, values);
    look_for_loss(bytes, values);
  }
}

}  // namespace gradcodec
