// SPDX-License-Identifier: Apache-2.0
// One thread, and blocks of a stated size: the order of the sums is the program's, not the machine's.
#define EIGEN_DONT_PARALLELIZE
#include "tools/train/network.h"

#include <Eigen/Core>
#include <cmath>
#include <numeric>

#include "codec/error.h"
#include "tools/train/random.h"

namespace gradcodec::train {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using View = Eigen::Map<const Matrix<T>>;
template <typename T>
using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;

constexpr size_t kRowsAtOnce = 500;  // in score

[[maybe_unused]] const bool fixed_blocks = [] {
  Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 2 << 20);
  return true;
}();

Eigen::Index index(size_t n) { return static_cast<Eigen::Index>(n); }

// inputs * W + b of layer `layer`.
template <typename T>
Matrix<T> affine(const std::vector<size_t>& widths, const Parameters<T>& parameters, size_t layer,
                 const Eigen::Ref<const Matrix<T>>& inputs) {
  const View<T> weight(parameters[2 * layer].data(), index(widths[layer]), index(widths[layer + 1]));
  const Eigen::Map<const Row<T>> bias(parameters[2 * layer + 1].data(), index(widths[layer + 1]));
  Matrix<T> out = inputs * weight;
  out.rowwise() += bias;
  return out;
}

// Turns the outputs into the gradient of the sum of losses, p - 1 of the class; returns that sum.
template <typename T>
double softmax(Matrix<T>& outputs, std::span<const uint8_t> classes) {
  double loss = 0;
  for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
    auto row = outputs.row(i);
    const T highest = row.maxCoeff();
    double sum = 0;
    const double own = static_cast<double>(row[classes[static_cast<size_t>(i)]] - highest);
    for (Eigen::Index j = 0; j < row.size(); ++j) {
      row[j] = std::exp(row[j] - highest);
      sum += static_cast<double>(row[j]);
    }
    loss += std::log(sum) - own;
    for (Eigen::Index j = 0; j < row.size(); ++j) row[j] = static_cast<T>(static_cast<double>(row[j]) / sum);
    row[classes[static_cast<size_t>(i)]] -= 1;
  }
  return loss;
}

std::vector<size_t> widths_of(const std::string& name) {
  if (name == "mlp") return {kPixels, 300, 100, kClasses};
  if (name == "softmax") return {kPixels, kClasses};
  throw Error(Exit::usage, "--model is mlp (784-300-100-10) or softmax (784-10), not '" + escaped(name) + "'");
}

}  // namespace

Network::Network(const std::string& name, double l2) : Network(widths_of(name), l2) {}

std::vector<TensorInfo> Network::tensors() const {
  std::vector<TensorInfo> out;
  for (size_t i = 0; i + 1 < widths_.size(); ++i) {
    const std::string layer = "layer" + std::to_string(i + 1);
    out.push_back({layer + "/weight", {}, {widths_[i], widths_[i + 1]}});
    out.push_back({layer + "/bias", {}, {widths_[i + 1]}});
  }
  return out;
}

uint64_t Network::parameters() const {
  uint64_t total = 0;
  for (const TensorInfo& info : tensors()) total += info.size();
  return total;
}

TensorValues Network::first_values(Init init, uint64_t seed) const {
  Numbers numbers(seed, 3);
  TensorValues out;
  for (size_t i = 0; i + 1 < widths_.size(); ++i) {
    std::vector<float>& weight = out.emplace_back(widths_[i] * widths_[i + 1]);
    const double deviation = init == Init::he ? std::sqrt(2 / static_cast<double>(widths_[i])) : 0.1;
    for (float& x : weight) {
      double normal = numbers.normal();
      while (init == Init::truncated && std::fabs(normal) > 2) normal = numbers.normal();
      x = static_cast<float>(deviation * normal);
    }
    out.emplace_back(widths_[i + 1], init == Init::he ? 0.0F : 0.1F);
  }
  return out;
}

template <typename T>
double Network::penalty(const Parameters<T>& parameters) const {
  double squares = 0;
  for (size_t i = 0; i < parameters.size() && l2_ > 0; i += 2) {
    for (const T x : parameters[i]) squares += static_cast<double>(x) * static_cast<double>(x);
  }
  return l2_ / 2 * squares;
}

template <typename T>
double Network::gradient(const Parameters<T>& parameters, std::span<const T> rows, std::span<const uint8_t> classes,
                         Parameters<T>& gradient) const {
  const size_t layers = widths_.size() - 1, count = classes.size();
  gradient.resize(2 * layers);
  const View<T> inputs(rows.data(), index(count), index(widths_[0]));
  std::vector<Matrix<T>> outputs;  // of each layer, after ReLU
  for (size_t i = 0; i < layers; ++i) {
    outputs.push_back(i == 0 ? affine<T>(widths_, parameters, i, inputs)
                             : affine<T>(widths_, parameters, i, outputs[i - 1]));
    if (i + 1 < layers) outputs[i] = outputs[i].cwiseMax(T(0));
  }
  const double loss = softmax(outputs.back(), classes) / static_cast<double>(count);
  Matrix<T> back = outputs.back() / static_cast<T>(count);
  for (size_t i = layers; i-- > 0;) {
    gradient[2 * i].resize(widths_[i] * widths_[i + 1]);
    gradient[2 * i + 1].resize(widths_[i + 1]);
    Eigen::Map<Matrix<T>> weight(gradient[2 * i].data(), index(widths_[i]), index(widths_[i + 1]));
    if (i == 0) {
      weight.noalias() = inputs.transpose() * back;
    } else {
      weight.noalias() = outputs[i - 1].transpose() * back;
    }
    Eigen::Map<Row<T>>(gradient[2 * i + 1].data(), index(widths_[i + 1])) = back.colwise().sum();
    const View<T> own(parameters[2 * i].data(), index(widths_[i]), index(widths_[i + 1]));
    if (l2_ > 0) weight += static_cast<T>(l2_) * own;
    if (i == 0) break;
    back = (back * own.transpose()).eval();
    back = (outputs[i - 1].array() > T(0)).select(back, T(0));
  }
  return loss + penalty(parameters);
}

Network::Score Network::score(const TensorValues& parameters, const Dataset& data) const {
  Score score;
  std::vector<float> rows;
  std::vector<uint8_t> classes;
  std::vector<uint32_t> images;
  size_t right = 0;
  for (size_t first = 0; first < data.size(); first += kRowsAtOnce) {
    images.resize(std::min(kRowsAtOnce, data.size() - first));
    std::iota(images.begin(), images.end(), static_cast<uint32_t>(first));
    data.gather(images, rows, classes);
    Matrix<float> values = View<float>(rows.data(), index(images.size()), index(widths_[0]));
    for (size_t i = 0; i + 1 < widths_.size(); ++i) {
      values = affine<float>(widths_, parameters, i, values);
      if (i + 2 < widths_.size()) values = values.cwiseMax(0.0F).eval();
    }
    for (size_t i = 0; i < images.size(); ++i) {
      Eigen::Index best = 0;
      values.row(index(i)).maxCoeff(&best);
      right += best == classes[i] ? 1 : 0;
    }
    score.loss += softmax(values, classes);
  }
  score.loss = score.loss / static_cast<double>(data.size()) + penalty(parameters);
  score.accuracy = static_cast<double>(right) / static_cast<double>(data.size());
  return score;
}

template double Network::gradient<float>(const Parameters<float>&, std::span<const float>, std::span<const uint8_t>,
                                         Parameters<float>&) const;
template double Network::gradient<double>(const Parameters<double>&, std::span<const double>, std::span<const uint8_t>,
                                          Parameters<double>&) const;

}  // namespace gradcodec::train
