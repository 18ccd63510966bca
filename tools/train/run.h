// A run from its first step to its last, and what it measured on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/protocol.h"

namespace gradcodec::train {

// After so many steps.
struct Record {
  uint64_t step = 0;
  double batch_loss = 0;  // of the workers, the mean over the steps since the last record; 0 before the first step
  double test_loss = 0, test_accuracy = 0;
  Traffic traffic;
  std::optional<double> train_loss, gradient_norm;  // of all images; only of softmax regression
  std::optional<double> consensus;
};

// Calls `seen` before the first step, after each settings.every steps and after the last. The last record of a run that
// diverged is of the step where it did. Throws Error.
std::vector<Record> run(const Settings& settings, const Data& data, const std::function<void(const Record&)>& seen);

std::string csv(const std::vector<Record>& records);

// Of a file of csv(). Throws Error naming the file.
std::vector<Record> read_csv(const std::string& path);

}  // namespace gradcodec::train
