// Networks of full layers: 784-300-100-10 with ReLU between, and 784-10 (softmax regression). Loss: the mean
// cross-entropy of the softmax.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/worker_link.h"
#include "tools/train/data.h"

namespace gradcodec::train {

// Weights (inputs x outputs, row-major), then the bias, of each layer in turn.
template <typename T>
using Parameters = std::vector<std::vector<T>>;

enum class Init : uint8_t { he, truncated };

class Network {
 public:
  // "mlp" (784-300-100-10) or "softmax" (784-10). `l2`: half of it times the squared weights (not biases) is added to
  // the loss. Throws Error(usage).
  explicit Network(const std::string& name, double l2 = 0);

  // Any widths, for tests.
  explicit Network(std::vector<size_t> widths, double l2 = 0) : widths_(std::move(widths)), l2_(l2) {}

  const std::vector<size_t>& widths() const { return widths_; }
  std::vector<TensorInfo> tensors() const;  // layer1/weight, layer1/bias, ...
  uint64_t parameters() const;

  // He's: normal weights of deviation sqrt(2 / inputs), biases 0. Truncated: normal of deviation 0.1, drawn again
  // beyond two deviations, biases 0.1 (as in the program of Abdi and Fekri's).
  TensorValues first_values(Init init, uint64_t seed) const;

  // The mean loss of some rows of widths()[0] values, and its gradient, which has the shapes of `parameters`.
  // Back-propagation. T: float or double.
  template <typename T>
  double gradient(const Parameters<T>& parameters, std::span<const T> rows, std::span<const uint8_t> classes,
                  Parameters<T>& gradient) const;

  struct Score {
    double loss = 0, accuracy = 0;
  };
  Score score(const TensorValues& parameters, const Dataset& data) const;

 private:
  template <typename T>
  double penalty(const Parameters<T>& parameters) const;

  std::vector<size_t> widths_;
  double l2_;
};

}  // namespace gradcodec::train
