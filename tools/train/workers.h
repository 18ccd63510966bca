// The workers of a run: each with its part of the images, from which it draws batches, and its way to the server.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/registry.h"
#include "format/worker_link.h"
#include "tools/train/data.h"
#include "tools/train/network.h"
#include "tools/train/random.h"

namespace gradcodec::train {

struct Settings {
  std::string method, model = "mlp", data = kFashionMnist;
  size_t workers = 8, batch = 25;  // samples a worker a step
  uint64_t steps = 1500, every = 100;
  double lr = 0.1, final_lr = 0.05;  // the last step's is that part of the first's; between them a line
  std::optional<double> momentum;    // the method's own if it is not given
  double l2 = 0;
  Init init = Init::he;
  uint64_t seed = 1;
  unsigned level = kDefaultLevel;  // of the coders

  double rate(uint64_t step) const {
    return lr * (1 - (1 - final_lr) * static_cast<double>(step) / static_cast<double>(steps));
  }
};

// What went over the wire so far. Bits are a worker's, the mean over all workers.
struct Traffic {
  double up = 0, down = 0;
  // By coder `pack`, of fixed length, of one message each: the first worker's and the last one's.
  double packed_first = 0, packed_last = 0;
  uint64_t nested = 0, overloads = 0;  // values by nested dither, and how many of them were decoded wrongly
};

// The loss of a worker is no number, or beyond all use: the run ends there, and says so.
struct Diverged {};

// A shuffled part of the images, the same whatever the method; shuffled again each time it has been gone through.
class Shard {
 public:
  Shard(std::vector<uint32_t> images, uint64_t seed, uint64_t worker)
      : images_(std::move(images)), numbers_(seed, 1000 + worker), at_(images_.size()) {}

  size_t size() const { return images_.size(); }
  std::span<const uint32_t> all() const { return images_; }
  std::span<const uint32_t> next(size_t count);  // valid until the next call

 private:
  std::vector<uint32_t> images_, batch_;
  Numbers numbers_;
  size_t at_;
};

class Workers {
 public:
  // Throws Error(usage) if there are fewer images than workers.
  Workers(const Settings& settings, const Network& network, const Dataset& images);

  size_t count() const { return shards_.size(); }
  const Network& network() const { return network_; }
  const Settings& settings() const { return settings_; }
  size_t images(size_t worker) const { return shards_[worker].size(); }

  // Of the worker's next batch, of `samples` or settings().batch: its mean loss. Throws Diverged.
  double gradient(size_t worker, const TensorValues& parameters, TensorValues& out, size_t samples = 0);

  // Of the same batch again, at other parameters.
  double again(const TensorValues& parameters, TensorValues& out);

  // Of all the worker's images; sums in float64.
  double full_gradient(size_t worker, const TensorValues& parameters, TensorValues& out);

 private:
  const Settings& settings_;
  const Network& network_;
  const Dataset& data_;
  std::vector<Shard> shards_;
  std::vector<float> rows_;
  std::vector<uint8_t> classes_;
};

// Messages of all workers to the server, or of one sender to all.
class Uplink {
 public:
  // Worker i's messages have number `first` + i. Losses of adaquant may be left out of the text. `measures`: whether
  // to know sizes by `pack` too; not where others change what the links remember.
  Uplink(const Settings& settings, const std::string& scheme, std::vector<TensorInfo> tensors, size_t count,
         uint64_t first = 0, bool measures = true);

  const SchemeChoice& scheme() const { return scheme_; }
  WorkerLink& link(size_t i) { return links_[i]; }

  // The message that sender i makes of the values, counted in `bits`.
  WorkerLink::Delivery encode(size_t i, uint64_t step, const TensorValues& values);
  TensorValues send(size_t i, uint64_t step, const TensorValues& values);

  double bits = 0;                                                                    // of all messages so far
  double packed_first() const { return packed_.empty() ? 0 : packed_.front().bits; }  // of the last message
  double packed_last() const { return packed_.empty() ? 0 : packed_.back().bits; }

  void take_loss(double loss);  // of the step before: adaquant's

 private:
  // A worker's messages once more, by coder `pack`, to know how long they would be.
  struct Packed {
    size_t worker;
    WorkerLink link;
    double bits = 0;
  };
  const SchemeChoice* own() const { return own_ ? &*own_ : nullptr; }

  std::string text_;
  SchemeChoice scheme_;
  std::vector<WorkerLink> links_;
  std::vector<Packed> packed_;
  uint64_t every_;
  double first_loss_ = 0;
  std::optional<SchemeChoice> own_;  // adaquant's of this step
};

// Sums of what workers sent, in float64 in the order of the calls.
class Mean {
 public:
  explicit Mean(const std::vector<TensorInfo>& tensors);
  void clear();
  void add(const TensorValues& values);
  TensorValues get() const;  // float32; zeros if nothing was added

 private:
  std::vector<std::vector<double>> sums_;
  uint64_t count_ = 0;
};

// v = m v + g, w = w - lr v.
class Optimizer {
 public:
  Optimizer(const std::vector<TensorInfo>& tensors, double momentum);
  void apply(const TensorValues& gradient, double lr, TensorValues& parameters);

 private:
  float momentum_;
  TensorValues velocity_;
};

TensorValues zeros(const std::vector<TensorInfo>& tensors);

}  // namespace gradcodec::train
