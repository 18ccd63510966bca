// SPDX-License-Identifier: Apache-2.0
#include "tools/train/workers.h"

#include <algorithm>
#include <numeric>

#include "codec/error.h"
#include "codec/number_text.h"

namespace gradcodec::train {
namespace {

constexpr size_t kAtOnce = 500;        // images of a full gradient
constexpr double kBeyondAllUse = 1e6;  // a loss: that of chance is log 10

void shuffle(std::vector<uint32_t>& images, Numbers& numbers) {
  for (size_t i = images.size(); i > 1; --i) std::swap(images[i - 1], images[static_cast<size_t>(numbers.below(i))]);
}

// "adaquant:s0=2" gets the losses of its step.
std::string with_losses(const std::string& text, double first, double now) {
  if (!text.starts_with("adaquant") || text.find("loss=") != std::string::npos) return text;
  const auto number = [](double value) {
    std::string out = number_text(value);
    std::erase(out, '+');  // it would stand for a sum
    return out;
  };
  return text + (text.find(':') == std::string::npos ? ":" : ",") + "loss0=" + number(first) + ",loss=" + number(now);
}

}  // namespace

std::span<const uint32_t> Shard::next(size_t count) {
  batch_.clear();
  while (batch_.size() < count) {
    if (at_ == images_.size()) {
      shuffle(images_, numbers_);
      at_ = 0;
    }
    batch_.push_back(images_[at_++]);
  }
  return batch_;
}

Workers::Workers(const Settings& settings, const Network& network, const Dataset& images)
    : settings_(settings), network_(network), data_(images) {
  if (images.size() < settings.workers) throw Error(Exit::usage, "there are more workers than images");
  std::vector<uint32_t> all(images.size());
  std::iota(all.begin(), all.end(), 0);
  Numbers numbers(settings.seed, 4);
  shuffle(all, numbers);
  for (size_t i = 0; i < settings.workers; ++i) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(i * all.size() / settings.workers);
    const auto to = all.begin() + static_cast<ptrdiff_t>((i + 1) * all.size() / settings.workers);
    shards_.emplace_back(std::vector<uint32_t>(from, to), settings.seed, i);
  }
}

double Workers::gradient(size_t worker, const TensorValues& parameters, TensorValues& out, size_t samples) {
  data_.gather(shards_[worker].next(samples == 0 ? settings_.batch : samples), rows_, classes_);
  const double loss = again(parameters, out);
  if (!(loss < kBeyondAllUse)) throw Diverged();
  return loss;
}

double Workers::again(const TensorValues& parameters, TensorValues& out) {
  return network_.gradient<float>(parameters, rows_, classes_, out);
}

double Workers::full_gradient(size_t worker, const TensorValues& parameters, TensorValues& out) {
  const std::span<const uint32_t> all = shards_[worker].all();
  std::vector<std::vector<double>> sums;
  for (const TensorInfo& info : network_.tensors()) sums.emplace_back(static_cast<size_t>(info.size()));
  double loss = 0;
  std::vector<float> rows;
  std::vector<uint8_t> classes;
  for (size_t first = 0; first < all.size(); first += kAtOnce) {
    data_.gather(all.subspan(first, std::min(kAtOnce, all.size() - first)), rows, classes);
    const auto weight = static_cast<double>(classes.size()) / static_cast<double>(all.size());
    loss += weight * network_.gradient<float>(parameters, rows, classes, out);
    for (size_t t = 0; t < sums.size(); ++t) {
      for (size_t i = 0; i < sums[t].size(); ++i) sums[t][i] += weight * static_cast<double>(out[t][i]);
    }
  }
  for (size_t t = 0; t < sums.size(); ++t) {
    for (size_t i = 0; i < sums[t].size(); ++i) out[t][i] = static_cast<float>(sums[t][i]);
  }
  return loss;
}

Uplink::Uplink(const Settings& settings, const std::string& scheme, std::vector<TensorInfo> tensors, size_t count,
               uint64_t first, bool measures)
    : text_(scheme), scheme_(parse_scheme(with_losses(scheme, 1, 1))), every_(settings.every) {
  const auto link_of = [&](size_t worker, const CoderPair& coders) {
    WorkerLink::Options options;
    options.scheme = scheme_;
    options.coders = coders;
    options.seed = settings.seed;
    options.worker = first + worker;
    return WorkerLink(std::move(options), tensors);
  };
  for (size_t i = 0; i < count; ++i) links_.push_back(link_of(i, coders_for_level(settings.level)));
  for (const size_t i : {size_t{0}, count - 1}) {
    if (!measures) break;
    if (packed_.empty() || i != packed_.back().worker) packed_.push_back({i, link_of(i, coders_for_level(1))});
  }
}

void Uplink::take_loss(double loss) {
  if (first_loss_ == 0) first_loss_ = loss;
  const std::string text = with_losses(text_, first_loss_, loss);
  if (text != text_) own_ = parse_scheme(text);
}

WorkerLink::Delivery Uplink::encode(size_t i, uint64_t step, const TensorValues& values) {
  WorkerLink::Delivery delivery = links_[i].encode(step, values, own());
  bits += 8 * static_cast<double>(delivery.bytes);
  for (Packed& packed : packed_) {
    // A few tell enough; and of a scheme that remembers the first, before there is anything to remember.
    if (packed.worker != i || step % (scheme_.remembers() ? ~uint64_t{0} : every_) != 0) continue;
    packed.bits = 8 * static_cast<double>(packed.link.encode(step, values, own()).bytes);
  }
  return delivery;
}

TensorValues Uplink::send(size_t i, uint64_t step, const TensorValues& values) {
  return links_[i].decode(encode(i, step, values).message);
}

Mean::Mean(const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& info : tensors) sums_.emplace_back(static_cast<size_t>(info.size()));
}

void Mean::clear() {
  for (std::vector<double>& sum : sums_) std::fill(sum.begin(), sum.end(), 0);
  count_ = 0;
}

void Mean::add(const TensorValues& values) {
  for (size_t t = 0; t < sums_.size(); ++t) {
    for (size_t i = 0; i < sums_[t].size(); ++i) sums_[t][i] += static_cast<double>(values[t][i]);
  }
  ++count_;
}

TensorValues Mean::get() const {
  TensorValues out;
  const double share = count_ == 0 ? 0 : 1 / static_cast<double>(count_);
  for (const std::vector<double>& sum : sums_) {
    std::vector<float>& mean = out.emplace_back(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] * share);
  }
  return out;
}

Optimizer::Optimizer(const std::vector<TensorInfo>& tensors, double momentum)
    : momentum_(static_cast<float>(momentum)) {
  if (momentum > 0) velocity_ = zeros(tensors);
}

void Optimizer::apply(const TensorValues& gradient, double lr, TensorValues& parameters) {
  const auto rate = static_cast<float>(lr);
  for (size_t t = 0; t < parameters.size(); ++t) {
    if (velocity_.empty()) {
      for (size_t i = 0; i < parameters[t].size(); ++i) parameters[t][i] -= rate * gradient[t][i];
      continue;
    }
    for (size_t i = 0; i < parameters[t].size(); ++i) {
      velocity_[t][i] = momentum_ * velocity_[t][i] + gradient[t][i];
      parameters[t][i] -= rate * velocity_[t][i];
    }
  }
}

TensorValues zeros(const std::vector<TensorInfo>& tensors) {
  TensorValues out;
  for (const TensorInfo& info : tensors) out.emplace_back(static_cast<size_t>(info.size()));
  return out;
}

}  // namespace gradcodec::train
