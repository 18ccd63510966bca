// Qsparse-local-SGD (Basu, Data, Karakus and Diggavi, arXiv 1906.02367, algorithm 1): H steps of each worker on a model
// of its own, then what they changed is sent. The learning rate is in what is sent, and momentum stays at the worker.
// SPDX-License-Identifier: Apache-2.0
#include "tools/train/protocol.h"
#include "tools/train/server.h"

namespace gradcodec::train {
namespace {

class Local final : public Protocol {
 public:
  Local(const Method& method, Workers& workers)
      : workers_(workers),
        every_(static_cast<uint64_t>(integer_of(method.params, "h"))),
        up_(workers.settings(), method.scheme_text, workers.network().tensors(), workers.count()),
        server_(workers, 0),
        own_(workers.count(), server_.parameters()) {
    for (size_t i = 0; i < workers.count(); ++i) {
      optimizers_.emplace_back(workers.network().tensors(), workers.settings().momentum.value_or(0.9));
    }
  }

  double step(uint64_t step) override {
    const Settings& settings = workers_.settings();
    double loss = 0;
    for (size_t i = 0; i < workers_.count(); ++i) {
      loss += workers_.gradient(i, own_[i], gradient_);
      optimizers_[i].apply(gradient_, settings.rate(step), own_[i]);
    }
    loss /= static_cast<double>(workers_.count());
    since_ += loss;
    if ((step + 1) % every_ == 0 || step + 1 == settings.steps) synchronize();
    return loss;
  }

  TensorValues model() const override { return server_.parameters(); }
  Traffic traffic() const override {
    Traffic traffic;
    traffic.up = up_.bits / static_cast<double>(workers_.count());
    traffic.down = server_.bits();
    traffic.packed_first = up_.packed_first();
    traffic.packed_last = up_.packed_last();
    return traffic;
  }

 private:
  void synchronize() {
    if (round_ > 0) up_.take_loss(last_loss_);
    for (size_t i = 0; i < workers_.count(); ++i) {
      for (size_t t = 0; t < gradient_.size(); ++t) {
        const std::vector<float>& common = server_.parameters()[t];
        for (size_t j = 0; j < common.size(); ++j) gradient_[t][j] = common[j] - own_[i][t][j];
      }
      server_.mean().add(up_.send(i, round_, gradient_));
    }
    server_.update(round_++, 1);
    own_.assign(workers_.count(), server_.parameters());
    last_loss_ = since_ / static_cast<double>(every_);
    since_ = 0;
  }

  Workers& workers_;
  uint64_t every_, round_ = 0;
  Uplink up_;
  Server server_;
  std::vector<TensorValues> own_;
  std::vector<Optimizer> optimizers_;
  TensorValues gradient_;
  double since_ = 0, last_loss_ = 0;
};

}  // namespace

std::unique_ptr<Protocol> make_local_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Local>(method, workers);
}

}  // namespace gradcodec::train
