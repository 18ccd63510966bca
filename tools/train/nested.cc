// NDQSG (Abdi and Fekri, arXiv 1904.01197): the first half of the workers send DQSG, the others only the rest of the
// same integers; the server finds these by the mean of what it has decoded so far, in the workers' order.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "codec/side.h"
#include "tools/train/protocol.h"
#include "tools/train/server.h"

namespace gradcodec::train {
namespace {

class ValuesTensor final : public Tensor {
 public:
  ValuesTensor(const TensorInfo& info, const std::vector<float>& values) : shape_(info.shape), values_(values) {}
  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }

 private:
  std::vector<uint64_t> shape_;
  const std::vector<float>& values_;
};

// What the nested scheme says of a tensor: the fine step, and what is a wrong value.
struct Nesting {
  double fine = 0, coarse = 0, range = 0, alpha = 0;

  explicit Nesting(const Params& params)
      : fine(static_cast<double>(integer_of(params, "fine"))),
        coarse(static_cast<double>(integer_of(params, "coarse"))),
        range(real_of(params, "range")),
        alpha(real_of(params, "alpha")) {}

  // The whole number of fine steps in the largest value, which makes DQSG's step the same.
  int64_t steps_in_largest() const {
    const double steps = fine / range;
    if (std::fabs(steps - std::round(steps)) > 1e-6 * steps || steps < 0.5) {
      throw Error(Exit::usage, "ndqsg: fine / range must be a whole number, so that dqsg has the same step");
    }
    return static_cast<int64_t>(std::round(steps));
  }
  SideNeed need(const std::vector<float>& values) const {
    float largest = 0;
    for (const float x : values) largest = std::max(largest, std::fabs(x));
    const double step = range * static_cast<double>(largest) / fine;
    return {step, static_cast<uint32_t>(fine / coarse), alpha, alpha == 1};
  }
};

class Nested final : public Protocol {
 public:
  Nested(const Method& method, Workers& workers)
      : workers_(workers),
        tensors_(workers.network().tensors()),
        nesting_(parse_scheme(method.scheme_text).params),
        plain_(workers.settings(), "dqsg:levels=" + std::to_string(2 * nesting_.steps_in_largest() + 1), tensors_,
               (workers.count() + 1) / 2),
        nested_(workers.settings(), method.scheme_text, tensors_, std::max<size_t>(workers.count() / 2, 1),
                (workers.count() + 1) / 2),
        server_(workers, workers.settings().momentum.value_or(0.9)) {
    if (workers.count() < 2) throw Error(Exit::usage, "ndqsg needs two workers: the first half sends dqsg");
  }

  double step(uint64_t step) override {
    const size_t first = (workers_.count() + 1) / 2;
    double loss = 0;
    for (size_t i = 0; i < workers_.count(); ++i) {
      loss += workers_.gradient(i, server_.parameters(), gradient_);
      server_.mean().add(i < first ? plain_.send(i, step, gradient_) : send_nested(i - first, step));
    }
    server_.update(step, workers_.settings().rate(step));
    return loss / static_cast<double>(workers_.count());
  }

  TensorValues model() const override { return server_.parameters(); }
  Traffic traffic() const override {
    Traffic traffic = counts_;
    traffic.up = (plain_.bits + nested_.bits) / static_cast<double>(workers_.count());
    traffic.down = server_.bits();
    traffic.packed_first = plain_.packed_first();
    traffic.packed_last = nested_.packed_last();
    return traffic;
  }

 private:
  TensorValues send_nested(size_t i, uint64_t step) {
    const TensorValues side = server_.mean().get();
    const WorkerLink::Delivery delivery = nested_.encode(i, step, gradient_);
    DecompressOptions options;
    options.any_side = true;  // it may be too far: that is what is counted
    options.side_of = [&](const TensorInfo& info) {
      size_t t = 0;
      while (tensors_[t].name != info.name) ++t;
      return std::make_shared<const ValuesTensor>(info, side[t]);
    };
    TensorValues decoded = decode_values(delivery.message, options);
    for (size_t t = 0; t < decoded.size(); ++t) {
      const SideNeed need = nesting_.need(gradient_[t]);
      counts_.nested += decoded[t].size();
      for (size_t j = 0; j < decoded[t].size(); ++j) {
        const bool right = need.is_right(static_cast<double>(gradient_[t][j]), static_cast<double>(side[t][j]),
                                         static_cast<double>(decoded[t][j]));
        counts_.overloads += right ? 0 : 1;
      }
    }
    return decoded;
  }

  Workers& workers_;
  std::vector<TensorInfo> tensors_;
  Nesting nesting_;
  Uplink plain_, nested_;
  Server server_;
  Traffic counts_;
  TensorValues gradient_;
};

}  // namespace

std::unique_ptr<Protocol> make_nested_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Nested>(method, workers);
}

}  // namespace gradcodec::train
