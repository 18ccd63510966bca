// SPDX-License-Identifier: Apache-2.0
#include "format/replay_way.h"

#include <cmath>

#include "codec/code_sum.h"
#include "format/aggregator.h"

namespace gradcodec {
namespace {

// One message a worker, by a link of its own: schemes with or without memory.
class PlainWay final : public Way {
 public:
  PlainWay(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace) : Way(scheme, options, trace) {
    for (size_t i = 0; i < trace.workers().size(); ++i) {
      links_.push_back(std::make_unique<WorkerLink>(link_options(scheme.choice, i), tensors()));
    }
    shares_scale_ = scheme.choice.scheme->takes_shared_scale();
    adds_up_ = sum_text(scheme.choice).has_value();
    for (size_t i = 0; i < tensors().size(); ++i) adds_up_ = adds_up_ && is_coded(i);
  }

  Sent send(const ReplayStep& step) override {
    Sent sent;
    const auto scales = shares_scale_ ? agreed_scales(step) : Scales();
    const uint64_t agreed = scales.size() * sizeof(float);
    std::vector<WorkerLink::Delivery> deliveries(step.size());
    each(step, [&](size_t i) {
      WorkerLink& link = *links_[step.workers[i]];
      link.share_scales(scales);
      std::optional<SchemeChoice> own;
      if (scheme_.of_message) own = scheme_.of_message(*step.origins[i]);
      deliveries[i] = link.send(step.number, step.values[i], own ? &*own : nullptr);
    });
    std::vector<std::shared_ptr<const RandomFile>> messages;
    for (WorkerLink::Delivery& delivery : deliveries) {
      sent.up_bytes += delivery.bytes;
      sent.up_extra += agreed;
      sent.decoded.push_back(std::move(delivery.decoded));
      sent.notes.insert(sent.notes.end(), delivery.warnings.begin(), delivery.warnings.end());
      messages.push_back(std::move(delivery.message));
    }
    sent.down_extra = agreed;
    if (adds_up_ && !options_.gossip) sent.down_bytes = sum_size(messages);
    if (sent.down_bytes) sent.down = Downlink::sum;
    return sent;
  }

  double memory_norm() const override {
    if (!scheme_.choice.remembers()) return kAbsent;
    double sum = 0;
    for (const auto& link : links_) sum += link->sender().norm();
    return sum / static_cast<double>(links_.size());
  }

 private:
  using Scales = std::map<std::string, float, std::less<>>;

  // Of each tensor that the scheme codes the largest magnitude among the workers.
  Scales agreed_scales(const ReplayStep& step) const {
    Scales out;
    for (size_t tensor = 0; tensor < tensors().size(); ++tensor) {
      if (!is_coded(tensor)) continue;
      float largest = 0;
      for (const TensorValues& values : step.values) {
        for (const float x : values[tensor]) {
          if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
        }
      }
      out.emplace(tensors()[tensor].name, largest);
    }
    return out;
  }

  // Of the file that aggregate makes of them; nothing if they do not add up after all (one has exceptions, or the sum
  // would pass what a file holds).
  std::optional<uint64_t> sum_size(const std::vector<std::shared_ptr<const RandomFile>>& messages) const {
    AggregateOptions options;
    options.exact = true;
    options.threads = options_.threads;
    options.memory = options_.memory;
    const auto file = RandomFile::in_memory("sum");
    OutputFile output(file);
    try {
      Aggregator all(messages, options);
      ContainerWriter writer(output);
      writer.begin(all.sum_schema(options_.coders), {}, {}, all.sum_message(), FileKind::sum);
      Progress progress;
      all.run(writer, options_.coders, progress);
    } catch (const Error& error) {
      if (error.code() == Exit::io || error.code() == Exit::bug) throw;
      return std::nullopt;
    }
    return output.position();
  }

  std::vector<std::unique_ptr<WorkerLink>> links_;
  bool shares_scale_ = false, adds_up_ = false;
};

const SchemeChoice& innermost(const SchemeChoice& choice) { return choice.inner ? innermost(*choice.inner) : choice; }

}  // namespace

WorkerLink::Options Way::link_options(const SchemeChoice& scheme, size_t worker) const {
  WorkerLink::Options options;
  options.scheme = scheme;
  options.coders = options_.coders;
  options.seed = options_.seed;
  options.worker = trace_.workers()[worker];
  options.min_elements = options_.min_elements;
  options.chunk_log2 = options_.chunk_log2;
  options.memory = options_.memory;
  // Workers are coded side by side; what threads are left over share the chunks of each.
  options.threads =
      std::max(1U, options_.threads / static_cast<unsigned>(std::min<size_t>(trace_.workers().size(), 1U << 16)));
  return options;
}

std::vector<size_t> ReplayStep::neighbours(size_t i) const {
  const size_t before = (i + size() - 1) % size(), behind = (i + 1) % size();
  if (before == i) return {};
  if (before == behind) return {before};
  return {before, behind};
}

std::unique_ptr<Way> way_of(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace) {
  const SchemeChoice& last = innermost(scheme.choice);
  if (options.gossip && (last.scheme->name() == "countsketch" || last.scheme->name() == "ndqsg")) {
    throw Error(Exit::usage, "scheme '" + scheme.text + "' needs a server: not with --gossip");
  }
  if (last.scheme->name() == "countsketch" && (&last == &scheme.choice || scheme.choice.inner.get() == &last)) {
    return sketch_way(scheme, options, trace);
  }
  if (scheme.choice.scheme->name() == "ndqsg") return nested_way(scheme, options, trace);
  if (scheme.choice.scheme->name() == "at") {
    throw Error(Exit::usage, "scheme '" + scheme.text +
                                 "' cannot be replayed: its index sets follow from sketches "
                                 "(countsketch, momentum/countsketch with --top)");
  }
  return std::make_unique<PlainWay>(scheme, options, trace);
}

}  // namespace gradcodec
