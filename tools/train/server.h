// A server that sends every worker the mean, as it is; all of them make the same step with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/train/workers.h"

namespace gradcodec::train {

class Server {
 public:
  Server(const Workers& workers, double momentum)
      : rates_(workers.settings()),
        parameters_(workers.network().first_values(rates_.init, rates_.seed)),
        mean_(workers.network().tensors()),
        optimizer_(workers.network().tensors(), momentum),
        down_(fast(rates_), "raw", workers.network().tensors(), 1, rates_.workers, false) {}

  const TensorValues& parameters() const { return parameters_; }
  Mean& mean() { return mean_; }
  double bits() const { return down_.bits; }  // to each worker

  // Sends the mean, and steps by what arrives.
  void update(uint64_t step, double lr) {
    optimizer_.apply(down_.send(0, step, mean_.get()), lr, parameters_);
    mean_.clear();
  }

 private:
  static Settings fast(Settings settings) {
    settings.level = 1;  // 32 bits a value
    return settings;
  }

  const Settings& rates_;
  TensorValues parameters_;
  Mean mean_;
  Optimizer optimizer_;
  Uplink down_;
};

}  // namespace gradcodec::train
