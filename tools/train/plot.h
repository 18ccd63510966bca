// Runs as curves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/train/run.h"

namespace gradcodec::train {

struct Curve {
  std::string name;
  std::vector<Record> records;  // at least one
};

// An SVG document: test accuracy and loss, against steps and against the bits that a worker sent and received.
std::string draw(const std::vector<Curve>& curves);

}  // namespace gradcodec::train
