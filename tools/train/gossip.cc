// QuanTimed-DSGD (Reisizadeh et al., arXiv 1907.10595) on a ring, without a server: in the time of a step each worker
// does as many samples as its speed of that step allows, and sends its quantized model to both neighbours.
//   x_i <- x_i + eps (sum over neighbours j of w (Q(x_j) - x_i) - alpha g_i),   w = 1/3, alpha the learning rate
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tools/train/protocol.h"

namespace gradcodec::train {
namespace {

constexpr double kWeight = 1.0 / 3;

class Gossip final : public Protocol {
 public:
  Gossip(const Method& method, Workers& workers)
      : workers_(workers),
        eps_(real_of(method.params, "eps")),
        spread_(real_of(method.params, "spread")),
        up_(workers.settings(), method.scheme_text, workers.network().tensors(), workers.count()),
        own_(workers.count(), workers.network().first_values(workers.settings().init, workers.settings().seed)),
        gradients_(workers.count(), zeros(workers.network().tensors())),
        numbers_(workers.settings().seed, 6) {
    if (workers.count() < 3) throw Error(Exit::usage, "gossip needs three workers: a ring");
    if (workers.settings().momentum.value_or(0) > 0) throw Error(Exit::usage, "gossip has no momentum");
  }

  double step(uint64_t step) override {
    const double alpha = workers_.settings().rate(step);
    double loss = 0;
    size_t busy = 0;
    std::vector<TensorValues> heard;
    for (size_t i = 0; i < own_.size(); ++i) {
      const double speed = 1 + spread_ * (2 * numbers_.uniform() - 1);
      const auto samples = static_cast<size_t>(speed * static_cast<double>(workers_.settings().batch));
      if (samples > 0) {
        loss += workers_.gradient(i, own_[i], gradients_[i], samples);
        ++busy;
      } else {
        gradients_[i] = zeros(workers_.network().tensors());  // it is too slow for a sample
      }
      heard.push_back(up_.send(i, step, own_[i]));
    }
    for (size_t i = 0; i < own_.size(); ++i) {
      const TensorValues& left = heard[(i + own_.size() - 1) % own_.size()];
      const TensorValues& right = heard[(i + 1) % own_.size()];
      for (size_t t = 0; t < own_[i].size(); ++t) {
        for (size_t j = 0; j < own_[i][t].size(); ++j) {
          const auto x = static_cast<double>(own_[i][t][j]);
          const double pull =
              kWeight * (static_cast<double>(left[t][j]) - x) + kWeight * (static_cast<double>(right[t][j]) - x);
          const double change = eps_ * (pull - alpha * static_cast<double>(gradients_[i][t][j]));
          own_[i][t][j] = static_cast<float>(x + change);
        }
      }
    }
    return busy == 0 ? 0 : loss / static_cast<double>(busy);
  }

  TensorValues model() const override {
    Mean mean(workers_.network().tensors());
    for (const TensorValues& one : own_) mean.add(one);
    return mean.get();
  }

  std::optional<double> consensus() const override {
    const TensorValues mean = model();
    double squares = 0;
    for (const TensorValues& one : own_) {
      for (size_t t = 0; t < mean.size(); ++t) {
        for (size_t j = 0; j < mean[t].size(); ++j) {
          const double off = static_cast<double>(one[t][j]) - static_cast<double>(mean[t][j]);
          squares += off * off;
        }
      }
    }
    return std::sqrt(squares / static_cast<double>(own_.size()));
  }

  Traffic traffic() const override {
    Traffic traffic;  // a message to each neighbour, one from each
    traffic.up = traffic.down = 2 * up_.bits / static_cast<double>(own_.size());
    traffic.packed_first = up_.packed_first();
    traffic.packed_last = up_.packed_last();
    return traffic;
  }

 private:
  Workers& workers_;
  double eps_, spread_;
  Uplink up_;
  std::vector<TensorValues> own_, gradients_;
  Numbers numbers_;
};

}  // namespace

std::unique_ptr<Protocol> make_gossip_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Gossip>(method, workers);
}

}  // namespace gradcodec::train
