// Numbers to and from little-endian bytes, which files have and most machines. Elsewhere their bytes are swapped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace gradcodec {

inline constexpr bool kSwapsBytes = std::endian::native == std::endian::big;
static_assert(kSwapsBytes || std::endian::native == std::endian::little, "gradcodec knows no mixed byte orders");

// The number whose bytes in memory are the little-endian ones of the integer `value`, and back.
template <typename T>
constexpr T little(T value) {
  static_assert(std::is_integral_v<T>);
  if constexpr (!kSwapsBytes || sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
}

// `values`, as they were read from a file, to this machine's order, and back; any arithmetic type.
template <typename T>
void swap_if_big(std::span<T> values) {
  static_assert(std::is_arithmetic_v<T>);
  if constexpr (kSwapsBytes && sizeof(T) > 1) {
    using Word = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    static_assert(sizeof(Word) == sizeof(T));
    for (T& value : values) {
      Word word;
      std::memcpy(&word, &value, sizeof word);
      word = little(word);
      std::memcpy(&value, &word, sizeof word);
    }
  }
}

// `out` of the sizeof(T) * out.size() bytes at `from`, at any alignment; they may be where `out` is.
template <typename T>
void load_little(const std::byte* from, std::span<T> out) {
  if (out.empty()) return;
  if (from != std::as_bytes(out).data()) std::memmove(out.data(), from, out.size_bytes());
  swap_if_big(out);
}

template <typename T>
T load_little(const std::byte* from) {
  T value;
  load_little(from, std::span(&value, 1));
  return value;
}

// To the sizeof(T) bytes at `to`.
template <typename T>
void store_little(T value, std::byte* to) {
  swap_if_big(std::span(&value, 1));
  std::memcpy(to, &value, sizeof value);
}

// To the sizeof(T) * values.size() bytes at `to`.
template <typename T>
void store_little(std::span<const T> values, std::byte* to) {
  if (values.empty()) return;
  if constexpr (!kSwapsBytes || sizeof(T) == 1) {
    std::memcpy(to, values.data(), values.size_bytes());
  } else {
    for (size_t i = 0; i < values.size(); ++i) store_little(values[i], to + i * sizeof(T));
  }
}

// The bytes of `values`: where they are, or a swapped copy. For the expression that it is made in.
template <typename T>
class LittleBytes {
 public:
  explicit LittleBytes(std::span<const T> values) : view_(std::as_bytes(values)) {
    if constexpr (kSwapsBytes && sizeof(T) > 1) {
      swapped_.resize(view_.size());
      store_little(values, swapped_.data());
      view_ = swapped_;
    }
  }
  LittleBytes(const LittleBytes&) = delete;
  LittleBytes& operator=(const LittleBytes&) = delete;

  operator std::span<const std::byte>() const { return view_; }

 private:
  std::span<const std::byte> view_;
  std::vector<std::byte> swapped_;
};

}  // namespace gradcodec
