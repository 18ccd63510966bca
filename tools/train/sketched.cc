// Sketched-SGD (Ivkin et al., arXiv 1903.04488, algorithm 3): momentum and error at the workers, a sketch up, the P k
// heaviest candidates down, their exact values up, the k heaviest of the mean down. All parameters are one tensor, the
// biases too. The mean and not the sum is taken, so that the learning rate does not depend on the number of workers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codec/number_text.h"
#include "format/unsent.h"
#include "tools/train/protocol.h"
#include "tools/train/rounds.h"

namespace gradcodec::train {
namespace {

std::string sketch_text(const Method& method) {
  return "momentum:m=" + number_text(real_of(method.params, "m")) +
         "/countsketch:rows=" + value_text(method.params.at("rows")) + ",cols=" + value_text(method.params.at("cols"));
}

class Sketched final : public Protocol {
 public:
  Sketched(const Method& method, Workers& workers)
      : workers_(workers),
        tensors_(one_tensor(workers.network())),
        taken_(amount_of(method.params, "k").of(tensors_[0].size())),
        candidates_(std::min(static_cast<uint64_t>(integer_of(method.params, "p")) * taken_, tensors_[0].size())),
        up_(workers.settings(), sketch_text(method), tensors_, workers.count(), 0, false),
        parameters_(workers.network().first_values(workers.settings().init, workers.settings().seed)) {
    if (workers.settings().momentum) throw Error(Exit::usage, "sketched-sgd has its momentum in the method: m=...");
  }

  double step(uint64_t step) override {
    double loss = 0;
    std::optional<TableSum> sum;
    std::vector<float> values(static_cast<size_t>(tensors_[0].size()));
    for (size_t i = 0; i < workers_.count(); ++i) {
      loss += workers_.gradient(i, parameters_, gradient_);
      flatten(gradient_, values);
      const Table table = read_table(up_.encode(i, step, {values}).message);
      if (!sum) sum.emplace(table.layout());
      sum->add(table);
    }
    sum->total().estimate(0, values);
    const SetMessage asked = send_set(tensors_[0], heaviest(values, candidates_), step);
    const std::vector<float> mean = exact_mean(asked, step);
    const std::vector<uint64_t> best = heaviest(mean, taken_);  // among the candidates
    std::vector<uint64_t> places;
    std::vector<float> update(values.size());
    for (const uint64_t at : best) {
      places.push_back(asked.places()[static_cast<size_t>(at)]);
      update[static_cast<size_t>(places.back())] = mean[static_cast<size_t>(at)];
    }
    const SetMessage taken = send_set(tensors_[0], std::move(places), step);
    const Answer change = send_answer(tensors_[0], update, taken.set, {0, {}, step});
    down_ += asked.bits + taken.bits + change.bits;
    apply(taken, change, step);
    return loss / static_cast<double>(workers_.count());
  }

  TensorValues model() const override { return parameters_; }
  Traffic traffic() const override {
    Traffic traffic;
    traffic.up = (up_.bits + answers_) / static_cast<double>(workers_.count());
    traffic.down = down_;
    return traffic;
  }

 private:
  // The second round: of what each worker remembers, v, at the candidates.
  std::vector<float> exact_mean(const SetMessage& asked, uint64_t step) {
    std::vector<double> sums(asked.places().size());
    std::vector<float> values;
    for (size_t i = 0; i < workers_.count(); ++i) {
      const std::vector<double>& remembered = up_.link(i).sender().values(0, 0);
      values.resize(remembered.size());
      for (const uint64_t place : asked.places()) {
        values[static_cast<size_t>(place)] = static_cast<float>(remembered[static_cast<size_t>(place)]);
      }
      const Answer answer = send_answer(tensors_[0], values, asked.set, {0, i, step});
      answers_ += answer.bits;
      for (size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(answer.values[j]);
    }
    std::vector<float> mean;
    for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(workers_.count())));
    return mean;
  }

  // What is taken changes the model, and is forgotten with its momentum.
  void apply(const SetMessage& taken, const Answer& change, uint64_t step) {
    const auto rate = static_cast<float>(workers_.settings().rate(step));
    std::vector<float> parameters;
    flatten(parameters_, parameters);
    for (size_t j = 0; j < change.values.size(); ++j) {
      const auto place = static_cast<size_t>(taken.places()[j]);
      parameters[place] -= rate * change.values[j];
    }
    for (size_t i = 0; i < workers_.count(); ++i) forget_taken(up_.link(i).sender(), taken.set);
    parameters_ = unflatten(parameters, workers_.network().tensors());
  }

  Workers& workers_;
  std::vector<TensorInfo> tensors_;
  uint64_t taken_, candidates_;
  Uplink up_;
  TensorValues parameters_, gradient_;
  double answers_ = 0, down_ = 0;
};

}  // namespace

std::unique_ptr<Protocol> make_sketched_protocol(const Method& method, Workers& workers) {
  return std::make_unique<Sketched>(method, workers);
}

}  // namespace gradcodec::train
