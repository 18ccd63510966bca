// SPDX-License-Identifier: Apache-2.0
#include "format/unsent.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "codec/utf8.h"

namespace gradcodec {
namespace {

constexpr std::string_view kMemory = "momentum";
constexpr size_t kUnsent = 0;  // v, of its vectors

class UnsentSource final : public Source {
 public:
  explicit UnsentSource(const Remembered& remembered) : remembered_(remembered) {
    for (size_t i = 0; i < remembered.tensors(); ++i) {
      infos_.push_back({remembered.info(i).name, {DType::f4, ""}, remembered.info(i).shape});
    }
  }
  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override {
    return std::make_unique<Data>(unsent_values(remembered_.values(ordinal, kUnsent)));
  }

 private:
  class Data final : public TensorData {
   public:
    explicit Data(std::vector<float> values) : values_(std::move(values)) {}
    void read(Range range, std::span<std::byte> out) const override {
      store_little(std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count)),
                   out.data());
    }

   private:
    const std::vector<float> values_;
  };

  const Remembered& remembered_;
  std::vector<TensorInfo> infos_;
};

}  // namespace

void check_round(const StateFacts& facts, const Remembered& remembered, const IndexSet& set) {
  if (facts.role != StateRole::encoder || facts.memory != kMemory) {
    throw Error(Exit::usage, "is what '" + escaped(facts.memory) + "' remembers where it " +
                                 (facts.role == StateRole::encoder ? "encodes" : "decodes") +
                                 ": index sets ask for what momentum/countsketch has not sent");
  }
  const std::string of = "the index set '" + escaped(set.file) + "'";
  if (!set.step) {
    throw Error(Exit::bad_input,
                of + " is of no step, and a state is asked for that of its last: make it of the messages "
                     "that --state made, or with --step");
  }
  if (facts.step == 0 || *set.step != facts.step - 1) {
    throw Error(Exit::bad_input, "expects step " + std::to_string(facts.step) + " next, and " + of + " is of step " +
                                     std::to_string(*set.step) +
                                     (facts.step == 0 ? ": nothing was sent yet"
                                                      : ", not of step " + std::to_string(facts.step - 1) +
                                                            ": another round's, or another run's"));
  }
  for (size_t i = 0; i < remembered.tensors(); ++i) {
    const TensorInfo& info = remembered.info(i);
    const IndexSet::Entry* const entry = set.find(info.name);
    if (entry == nullptr) {
      throw Error(Exit::bad_input, "is remembered, and " + of + " does not know it: another run's?")
          .in_tensor(info.name);
    }
    if (entry->info.shape != info.shape) {
      throw Error(Exit::bad_input, "is of shape " + shape_text(info.shape) + " in the state, and of " +
                                       shape_text(entry->info.shape) + " in " + of + ": another run's?")
          .in_tensor(info.name);
    }
  }
  for (const IndexSet::Entry& entry : set.tensors) {
    if (remembered.of(entry.info.name) != nullptr) continue;
    throw Error(Exit::bad_input, "is in " + of + ", and the state does not remember it: another run's?")
        .in_tensor(entry.info.name);
  }
}

std::vector<float> unsent_values(const std::vector<double>& v) {
  std::vector<float> out(v.size());
  std::transform(v.begin(), v.end(), out.begin(), [](double value) { return static_cast<float>(value); });
  return out;
}

std::unique_ptr<Source> unsent(const Remembered& remembered) { return std::make_unique<UnsentSource>(remembered); }

void forget_taken(Remembered& remembered, const IndexSet& taken) {
  for (size_t i = 0; i < remembered.tensors(); ++i) {
    const IndexSet::Entry* const entry = taken.find(remembered.info(i).name);
    if (entry == nullptr) continue;
    for (size_t vector = 0; vector < remembered.vectors().size(); ++vector) {
      std::vector<double>& values = remembered.values(i, vector);
      for (const uint64_t place : *entry->places) values[static_cast<size_t>(place)] = 0;
    }
  }
}

}  // namespace gradcodec
