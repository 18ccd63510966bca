// ndqsg: half of the workers send plain dqsg of the same fine step, and what was decoded so far is the side information
// of the others, one after another.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "format/replay_way.h"

namespace gradcodec {
namespace {

// float32 values in memory, which outlive it.
class ValueTensor final : public Tensor {
 public:
  ValueTensor(const TensorInfo& info, std::vector<float> values) : info_(info), values_(std::move(values)) {}
  uint64_t size() const override { return info_.size(); }
  std::span<const uint64_t> shape() const override { return info_.shape; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }

 private:
  const TensorInfo& info_;
  std::vector<float> values_;
};

// The float64 sums of what was decoded, in the order of the workers, and their mean as side information.
class RunningMean {
 public:
  explicit RunningMean(const std::vector<TensorInfo>& tensors) : tensors_(tensors) {
    for (const TensorInfo& info : tensors) sums_.emplace_back(static_cast<size_t>(info.size()));
  }

  void add(const TensorValues& values) {
    ++count_;
    for (size_t t = 0; t < sums_.size(); ++t) {
      for (size_t i = 0; i < sums_[t].size(); ++i) sums_[t][i] += static_cast<double>(values[t][i]);
    }
  }

  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> tensors() const {
    std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> out;
    for (size_t t = 0; t < sums_.size(); ++t) {
      std::vector<float> mean(sums_[t].size());
      for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums_[t][i] / static_cast<double>(count_));
      out.emplace(tensors_[t].name, std::make_shared<ValueTensor>(tensors_[t], std::move(mean)));
    }
    return out;
  }

 private:
  const std::vector<TensorInfo>& tensors_;
  std::vector<std::vector<double>> sums_;
  uint64_t count_ = 0;
};

SchemeChoice checked(SchemeChoice choice) {
  choice.params.insert_or_assign("check", Value(std::string("yes")));
  return choice;
}

// dqsg whose step is the fine one: range max / fine = max / M.
SchemeChoice plain_of(const SchemeChoice& nested) {
  const double levels = static_cast<double>(integer_of(nested.params, "fine")) / real_of(nested.params, "range");
  const auto half = static_cast<int>(std::clamp(std::round(levels), 1.0, 32767.0));
  return parse_scheme("dqsg:levels=" + std::to_string(2 * half + 1));
}

class NestedWay final : public Way {
 public:
  NestedWay(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace)
      : Way(scheme, options, trace), nested_(checked(scheme.choice)), plain_(plain_of(scheme.choice)) {
    for (size_t i = 0; i < trace.workers().size(); ++i) {
      nested_links_.push_back(std::make_unique<WorkerLink>(link_options(nested_, i), tensors()));
      plain_links_.push_back(std::make_unique<WorkerLink>(link_options(plain_, i), tensors()));
    }
  }

  Sent send(const ReplayStep& step) override {
    const size_t plain = (step.size() + 1) / 2;
    Sent sent;
    sent.decoded.resize(step.size());
    std::vector<WorkerLink::Delivery> deliveries(step.size());
    each(step, [&](size_t i) {
      const size_t worker = step.workers[i];
      deliveries[i] = (i < plain ? *plain_links_[worker] : *nested_links_[worker]).encode(step.number, step.values[i]);
      if (i < plain) sent.decoded[i] = plain_links_[worker]->decode(deliveries[i].message);
    });
    RunningMean mean(tensors());
    for (size_t i = 0; i < step.size(); ++i) {
      if (i >= plain) sent.decoded[i] = decode_nested(step, i, deliveries[i], mean, sent);
      if (i + 1 < step.size()) mean.add(sent.decoded[i]);
      sent.up_bytes += deliveries[i].bytes;
    }
    sent.notes.push_back("the first half of the workers, rounded up, sends " + plain_.stored_text() +
                         ", and the mean of what was decoded before is side information of the others" +
                         (step.size() == 1 ? ": one worker is never nested" : ""));
    return sent;
  }

 private:
  TensorValues decode_nested(const ReplayStep& step, size_t i, const WorkerLink::Delivery& delivery,
                             const RunningMean& mean, Sent& sent) const {
    const auto side = mean.tensors();
    Unsettled unsettled;
    DecompressOptions options;
    options.threads = options_.threads;
    options.memory = options_.memory;
    options.on_overload = OnOverload::keep;
    options.unsettled = &unsettled;
    const auto side_of = [&](const TensorInfo& info) { return side.find(info.name)->second; };
    options.side_of = side_of;
    TensorValues values = decode_values(delivery.message, options);
    sent.failures += unsettled.overloads.size();
    if (!unsettled.overloads.empty()) sent.wrong += wrong_values(step, i, side_of);
    for (size_t t = 0; t < tensors().size(); ++t) {
      if (is_coded(t)) sent.checked += chunk_count(tensors()[t].size(), uint64_t{1} << options_.chunk_log2);
    }
    return values;
  }

  // Of worker i's message, what its encoder says of it beside that side information.
  uint64_t wrong_values(const ReplayStep& step, size_t i,
                        const std::function<std::shared_ptr<const Tensor>(const TensorInfo&)>& side_of) const {
    CompressOptions options;
    options.scheme = nested_;
    options.coders = options_.coders;
    options.id = {options_.seed, trace_.workers()[step.workers[i]], step.number};
    options.min_elements = options_.min_elements;
    options.chunk_log2 = options_.chunk_log2;
    options.threads = options_.threads;
    options.memory = options_.memory;
    options.side_of = side_of;
    uint64_t wrong = 0;
    options.take_fit = [&](const TensorInfo&, const SideFit& fit) { wrong += fit.wrong(); };
    encode_values(tensors(), step.values[i], options, {});
    return wrong;
  }

  SchemeChoice nested_, plain_;
  std::vector<std::unique_ptr<WorkerLink>> nested_links_, plain_links_;
};

}  // namespace

std::unique_ptr<Way> nested_way(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace) {
  return std::make_unique<NestedWay>(scheme, options, trace);
}

}  // namespace gradcodec
