// SPDX-License-Identifier: Apache-2.0
#include "format/remembered.h"

#include <cmath>
#include <utility>

#include "codec/error.h"

namespace gradcodec {

Remembered::Remembered(std::vector<std::string> vectors, const std::vector<TensorInfo>& tensors, uint64_t memory)
    : names_(std::move(vectors)) {
  uint64_t left = names_.empty() ? 0 : memory / sizeof(double) / names_.size();
  for (const TensorInfo& info : tensors) {
    for (const std::string& vector : names_) {
      if (vector.size() + 1 + info.name.size() <= kMaxNameSize) continue;
      throw Error(Exit::limit, "has a name so long that what is remembered of it has none: rename it")
          .in_tensor(info.name);
    }
    if (info.size() > left) {
      throw Error(Exit::limit, "what is remembered takes more memory than --memory allows").in_tensor(info.name);
    }
    left -= info.size();
  }
  for (const TensorInfo& info : tensors) {
    by_name_.emplace(info.name, entries_.size());
    Entry& entry = entries_.emplace_back();
    entry.info = info;
    entry.vectors.assign(names_.size(), std::vector<double>(static_cast<size_t>(info.size())));
    for (size_t i = 0; i < entry.vectors.size(); ++i) entry.memory.vectors[i] = entry.vectors[i];
  }
}

const Memory* Remembered::of(std::string_view tensor) const {
  const auto found = by_name_.find(tensor);
  return found == by_name_.end() ? nullptr : &entries_[found->second].memory;
}

double Remembered::norm() const {
  double sum = 0;
  for (const Entry& entry : entries_) {
    for (const double value : entry.vectors[0]) sum += value * value;
  }
  return std::sqrt(sum);
}

}  // namespace gradcodec
