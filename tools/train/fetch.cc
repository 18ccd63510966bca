// FetchSGD (Rothchild et al., arXiv 2007.07682): workers send the sketch of a gradient and remember nothing; momentum
// and error are in the server's tables. The learning rate is inside the error, as the paper has it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/train/protocol.h"
#include "tools/train/rounds.h"

namespace gradcodec::train {
namespace {

std::string sketch_text(const Method& method) {
  return "countsketch:rows=" + value_text(method.params.at("rows")) + ",cols=" + value_text(method.params.at("cols")) +
         ",scope=run";
}

class Fetch final : public Protocol {
 public:
  Fetch(const Method& method, Workers& workers)
      : workers_(workers),
        tensors_(one_tensor(workers.network())),
        taken_(amount_of(method.params, "k").of(tensors_[0].size())),
        momentum_(real_of(method.params, "m")),
        clears_(choice_of(method.params, "sent") == "clear"),
        up_(workers.settings(), sketch_text(method), tensors_, workers.count()),
        parameters_(workers.network().first_values(workers.settings().init, workers.settings().seed)) {
    if (workers.settings().momentum) throw Error(Exit::usage, "fetch-sgd has its momentum in the method: m=...");
  }

  double step(uint64_t step) override {
    double loss = 0;
    std::optional<TableSum> sum;
    std::vector<float> values;
    for (size_t i = 0; i < workers_.count(); ++i) {
      loss += workers_.gradient(i, parameters_, gradient_);
      flatten(gradient_, values);
      const Table table = read_table(up_.encode(i, step, {values}).message);
      if (!sum) sum.emplace(table.layout());
      sum->add(table);
    }
    const Table mean = sum->total(1 / static_cast<double>(workers_.count()));
    if (!velocity_) {
      velocity_.emplace(mean.layout());
      error_.emplace(mean.layout());
    }
    velocity_->scale(momentum_);
    velocity_->add(mean);
    Table moved = *velocity_;
    moved.scale(workers_.settings().rate(step));
    error_->add(moved);
    error_->estimate(0, values);
    const SetMessage taken = send_set(tensors_[0], heaviest(values, taken_), step);
    const Answer change = send_answer(tensors_[0], values, taken.set, {0, {}, step});
    down_ += taken.bits + change.bits;
    forget(taken, change);
    flatten(parameters_, values);
    for (size_t j = 0; j < change.values.size(); ++j) {
      values[static_cast<size_t>(taken.places()[j])] -= change.values[j];
    }
    parameters_ = unflatten(values, workers_.network().tensors());
    return loss / static_cast<double>(workers_.count());
  }

  TensorValues model() const override { return parameters_; }
  Traffic traffic() const override {
    Traffic traffic;
    traffic.up = up_.bits / static_cast<double>(workers_.count());
    traffic.down = down_;
    traffic.packed_first = up_.packed_first();
    traffic.packed_last = up_.packed_last();
    return traffic;
  }

 private:
  void forget(const SetMessage& taken, const Answer& change) {
    const Table sent = Table::of(error_->layout(), taken.places(), change.values);
    if (clears_) {
      error_->clear_where(sent);
      velocity_->clear_where(sent);
    } else {
      error_->subtract(sent);
    }
  }

  Workers& workers_;
  std::vector<TensorInfo> tensors_;
  uint64_t taken_;
  double momentum_;
  bool clears_;
  Uplink up_;
  TensorValues parameters_, gradient_;
  std::optional<Table> velocity_, error_;
  double down_ = 0;
};

}  // namespace

std::unique_ptr<Protocol> make_fetch_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Fetch>(method, workers);
}

}  // namespace gradcodec::train
