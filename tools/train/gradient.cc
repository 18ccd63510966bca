// Every worker sends a gradient in every step: of its batch, or of L-SVRG (Kovalev et al., arXiv 1901.08689), which
// over diana is VR-DIANA (Horvath et al., arXiv 1904.05115).
// SPDX-License-Identifier: Apache-2.0
#include "tools/train/protocol.h"
#include "tools/train/server.h"

namespace gradcodec::train {
namespace {

// g = grad f_B(x) - grad f_B(w) + mu, mu the full gradient of the worker's images at the reference w. With probability
// batch / images, drawn once for all workers, w becomes x after the step's gradients.
class References {
 public:
  explicit References(Workers& workers)
      : workers_(workers),
        numbers_(workers.settings().seed, 5),
        probability_(static_cast<double>(workers.settings().batch) / static_cast<double>(workers.images(0))),
        full_(workers.count()) {}

  double gradient(size_t worker, const TensorValues& parameters, TensorValues& out) {
    const double loss = workers_.gradient(worker, parameters, out);
    workers_.again(reference_, at_reference_);
    for (size_t t = 0; t < out.size(); ++t) {
      for (size_t i = 0; i < out[t].size(); ++i) out[t][i] += full_[worker][t][i] - at_reference_[t][i];
    }
    return loss;
  }

  // `parameters`: those that the next step starts from, or this one started from.
  void move(const TensorValues& parameters) {
    reference_ = parameters;
    for (size_t i = 0; i < full_.size(); ++i) workers_.full_gradient(i, reference_, full_[i]);
  }
  bool draw() { return numbers_.uniform() < probability_; }

 private:
  Workers& workers_;
  Numbers numbers_;
  double probability_;
  TensorValues reference_, at_reference_;
  std::vector<TensorValues> full_;
};

class Gradients final : public Protocol {
 public:
  Gradients(const Method& method, Workers& workers)
      : workers_(workers),
        up_(workers.settings(), method.scheme_text, workers.network().tensors(), workers.count()),
        server_(workers, workers.settings().momentum.value_or(own_momentum(method))) {
    if (method.kind == Method::svrg) references_ = std::make_unique<References>(workers);
  }

  double step(uint64_t step) override {
    if (references_ && step == 0) references_->move(server_.parameters());
    double loss = 0;
    // As AdaQuantFL's program has it, the losses of a step are known in the next one.
    if (step > 0) up_.take_loss(last_loss_);
    for (size_t i = 0; i < workers_.count(); ++i) {
      loss += references_ ? references_->gradient(i, server_.parameters(), gradient_)
                          : workers_.gradient(i, server_.parameters(), gradient_);
      server_.mean().add(up_.send(i, step, gradient_));
    }
    if (references_ && references_->draw()) references_->move(server_.parameters());
    server_.update(step, workers_.settings().rate(step));
    return last_loss_ = loss / static_cast<double>(workers_.count());
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
  // A scheme with momentum has it before the compression; VR-DIANA has none.
  double own_momentum(const Method& method) const {
    return method.kind == Method::svrg || up_.scheme().scheme->name() == "momentum" ? 0 : 0.9;
  }

  Workers& workers_;
  Uplink up_;
  Server server_;
  std::unique_ptr<References> references_;
  TensorValues gradient_;
  double last_loss_ = 0;
};

}  // namespace

std::unique_ptr<Protocol> make_gradient_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Gradients>(method, workers);
}

}  // namespace gradcodec::train
