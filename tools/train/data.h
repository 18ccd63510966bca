// Images with labels: Fashion-MNIST as Debian's package dataset-fashion-mnist has it, or made ones of the same shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradcodec::train {

inline constexpr size_t kPixels = 784;  // 28 x 28
inline constexpr size_t kClasses = 10;

struct Dataset {
  std::vector<uint8_t> pixels;  // kPixels an image
  std::vector<uint8_t> labels;  // below kClasses

  size_t size() const { return labels.size(); }

  // The images of these numbers as rows of values from 0 to 1, and their labels.
  void gather(std::span<const uint32_t> images, std::vector<float>& rows, std::vector<uint8_t>& classes) const;
};

struct Data {
  Dataset train, test;
};

// From the four .gz files of that folder; "synthetic" makes 4,000 and 1,000 images instead: a blurred patch for each
// class, shifted and noisy. Throws Error naming the file: io, bad_input.
Data load_data(const std::string& folder);

inline constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

}  // namespace gradcodec::train
