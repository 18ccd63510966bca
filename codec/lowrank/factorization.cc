// SPDX-License-Identifier: Apache-2.0
#include "codec/lowrank/factorization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace gradcodec {
namespace {

constexpr uint64_t kMoreColumns = 4;   // than the rank, which makes the last components right
constexpr uint64_t kBlocks = 8;        // of rows; their partial sums are added in order, whoever makes them
constexpr uint64_t kAtOnce = 1 << 16;  // elements read
constexpr int kMostSweeps = 24;
constexpr double kLost = 1e-9;  // what is left of a vector's length when nothing of it is left

using Vector = std::vector<double>;

// Component by component, each `size` long.
struct Components {
  uint64_t size = 0;
  Vector values;

  uint64_t count() const { return size == 0 ? 0 : values.size() / size; }
  double* operator[](uint64_t k) { return values.data() + k * size; }
  const double* operator[](uint64_t k) const { return values.data() + k * size; }
};

double dot(const double* a, const double* b, uint64_t n) {
  std::array<double, 16> partial = {};
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (uint64_t lane = 0; lane < 16; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  }
  for (uint64_t lane = 0; i < n; ++i, ++lane) partial[lane] += a[i] * b[i];
  for (uint64_t half = 8; half > 0; half /= 2) {
    for (uint64_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  }
  return partial[0];
}

void add_multiple(double factor, const double* x, uint64_t n, double* to) {
  for (uint64_t i = 0; i < n; ++i) to[i] += factor * x[i];
}

// Gram-Schmidt, each vector twice. What depends on those before it becomes 0.
void orthonormalize(Components& q) {
  for (uint64_t k = 0; k < q.count(); ++k) {
    const double before = std::sqrt(dot(q[k], q[k], q.size));
    for (int round = 0; round < 2; ++round) {
      for (uint64_t j = 0; j < k; ++j) add_multiple(-dot(q[j], q[k], q.size), q[j], q.size, q[k]);
    }
    const double length = std::sqrt(dot(q[k], q[k], q.size));
    const bool is_lost = !(length > kLost * before);
    for (uint64_t i = 0; i < q.size; ++i) q[k][i] = is_lost ? 0 : q[k][i] / length;
  }
}

// From component by component to element by element, and back.
Vector interleaved(const Components& in) {
  const uint64_t r = in.count();
  Vector out(in.values.size());
  for (uint64_t k = 0; k < r; ++k) {
    for (uint64_t i = 0; i < in.size; ++i) out[i * r + k] = in[k][i];
  }
  return out;
}

Components separated(const Vector& in, uint64_t r) {
  Components out{in.size() / r, Vector(in.size())};
  for (uint64_t k = 0; k < r; ++k) {
    for (uint64_t i = 0; i < out.size; ++i) out[k][i] = in[i * r + k];
  }
  return out;
}

class Products {
 public:
  Products(const Tensor& tensor, const MatrixView& view, uint64_t columns, const Loop& loop)
      : tensor_(tensor), view_(view), r_(columns), loop_(loop) {}

  // A p.
  Components times(const Components& p) const {
    const Vector of_col = interleaved(p);
    Vector out(view_.rows * r_);
    for_blocks([&](uint64_t, uint64_t outer, std::span<const float> x) {
      const float* at = x.data();
      for (uint64_t col = 0; col < view_.cols; ++col) {
        for (uint64_t t = 0; t < view_.fold; ++t) {
          add_multiple(static_cast<double>(*at++), &of_col[col * r_], r_, &out[(outer * view_.fold + t) * r_]);
        }
      }
    });
    return separated(out, r_);
  }

  // A^T q.
  Components transposed_times(const Components& q) const {
    const Vector of_row = interleaved(q);
    std::vector<Vector> parts(kBlocks, Vector(view_.cols * r_));
    for_blocks([&](uint64_t block, uint64_t outer, std::span<const float> x) {
      const float* at = x.data();
      for (uint64_t col = 0; col < view_.cols; ++col) {
        for (uint64_t t = 0; t < view_.fold; ++t) {
          add_multiple(static_cast<double>(*at++), &of_row[(outer * view_.fold + t) * r_], r_, &parts[block][col * r_]);
        }
      }
    });
    for (uint64_t block = 1; block < kBlocks; ++block) {
      add_multiple(1, parts[block].data(), parts[block].size(), parts[0].data());
    }
    return separated(parts[0], r_);
  }

 private:
  // visit(block, outer index, its values); blocks perhaps at once.
  template <typename Visit>
  void for_blocks(const Visit& visit) const {
    const uint64_t outer = view_.outer(), len = view_.cols * view_.fold;
    const Job job = [&](uint64_t block) {
      const uint64_t step = std::max<uint64_t>(1, kAtOnce / len);
      std::vector<float> scratch(static_cast<size_t>(step * len));
      const uint64_t end = outer * (block + 1) / kBlocks;
      for (uint64_t first = outer * block / kBlocks; first < end; first += step) {
        const uint64_t count = std::min(step, end - first);
        const std::span<const float> x = tensor_.read({first * len, count * len}, scratch);
        for (uint64_t i = 0; i < count; ++i) visit(block, first + i, x.subspan(i * len, len));
      }
    };
    if (loop_) {
      loop_(kBlocks, job);
    } else {
      for (uint64_t block = 0; block < kBlocks; ++block) job(block);
    }
  }

  const Tensor& tensor_;
  const MatrixView& view_;
  uint64_t r_;
  const Loop& loop_;
};

Components signs(const kernels::Draws& draws, uint64_t count, uint64_t size) {
  Components out{size, Vector(count * size)};
  std::vector<uint32_t> words(out.values.size());
  kernels::philox_words(draws, 0, words.size(), words.data());
  for (size_t i = 0; i < words.size(); ++i) out.values[i] = words[i] >> 31 != 0 ? -1 : 1;
  return out;
}

// Jacobi's rotations in the order of rows: `g`, r x r and symmetric, becomes diagonal, and column k of the result is
// its eigenvector number k.
Vector eigenvectors(Vector& g, uint64_t r) {
  Vector w(r * r);
  for (uint64_t i = 0; i < r; ++i) w[i * r + i] = 1;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool turned = false;
    for (uint64_t p = 0; p < r; ++p) {
      for (uint64_t q = p + 1; q < r; ++q) {
        const double off = g[p * r + q], a = g[p * r + p], b = g[q * r + q];
        if (std::fabs(off) <= 0x1p-50 * std::sqrt(std::fabs(a) * std::fabs(b)) || off == 0) continue;
        turned = true;
        const double theta = (b - a) / (2 * off);
        const double root = std::fabs(theta) + std::sqrt(theta * theta + 1);
        const double t = theta < 0 ? -1 / root : 1 / root;
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (uint64_t i = 0; i < r; ++i) {
          const double x = g[i * r + p], y = g[i * r + q];
          g[i * r + p] = c * x - s * y;
          g[i * r + q] = s * x + c * y;
          const double v = w[i * r + p], z = w[i * r + q];
          w[i * r + p] = c * v - s * z;
          w[i * r + q] = s * v + c * z;
        }
        for (uint64_t i = 0; i < r; ++i) {
          const double x = g[p * r + i], y = g[q * r + i];
          g[p * r + i] = c * x - s * y;
          g[q * r + i] = s * x + c * y;
        }
      }
    }
    if (!turned) break;
  }
  return w;
}

// Component m: the sum over k of w[k][m] times component k.
Components turned(const Components& in, const Vector& w) {
  const uint64_t r = in.count();
  Components out{in.size, Vector(in.values.size())};
  for (uint64_t m = 0; m < r; ++m) {
    for (uint64_t k = 0; k < r; ++k) add_multiple(w[k * r + m], in[k], in.size, out[m]);
  }
  return out;
}

void append(Vector& to, const Components& from, uint64_t k) { to.insert(to.end(), from[k], from[k] + from.size); }

}  // namespace

Factorization factorize(const Tensor& tensor, const MatrixView& view, uint64_t rank, const kernels::Draws& start,
                        const Loop& loop) {
  const uint64_t r = std::min({rank + kMoreColumns, view.rows, view.cols});
  const Products a(tensor, view, r, loop);
  Components q = a.times(signs(start, r, view.cols));
  orthonormalize(q);
  Components p = a.transposed_times(q);
  orthonormalize(p);
  q = a.times(p);
  orthonormalize(q);
  const Components b = a.transposed_times(q);
  Vector gram(r * r);
  for (uint64_t i = 0; i < r; ++i) {
    for (uint64_t j = 0; j <= i; ++j) gram[i * r + j] = gram[j * r + i] = dot(b[i], b[j], b.size);
  }
  const Vector w = eigenvectors(gram, r);
  const Components u = turned(q, w), v = turned(b, w);
  Vector strength(r);
  for (uint64_t k = 0; k < r; ++k) strength[k] = std::sqrt(dot(v[k], v[k], v.size));
  std::vector<uint64_t> order(r);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint64_t i, uint64_t j) { return strength[i] > strength[j]; });
  Factorization out;
  for (uint64_t i = 0; i < std::min(r, rank) && strength[order[i]] > 0; ++i) {
    out.strength.push_back(strength[order[i]]);
    append(out.u, u, order[i]);
    append(out.v, v, order[i]);
  }
  return out;
}

}  // namespace gradcodec
