// Sketches: the server adds the workers' tables, asks for exact values where the sum is heaviest, and takes the
// heaviest of these (spec/rounds.md).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "codec/sketch.h"
#include "format/heaviest.h"
#include "format/replay_way.h"
#include "format/unsent.h"

namespace gradcodec {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 16;  // estimates at a time

class SketchWay final : public Way {
 public:
  SketchWay(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace)
      : Way(scheme, options, trace), answer_(parse_scheme("at")) {
    if (!options.top) {
      throw Error(Exit::usage,
                  "scheme '" + scheme.text + "' needs --top K: how many elements the server takes in a step");
    }
    if (scheme.choice.remembers() && scheme.choice.scheme->name() != "momentum") {
      throw Error(Exit::usage, "scheme '" + scheme.text +
                                   "' cannot be replayed: a sketch's memory is momentum, with m=0 "
                                   "error feedback alone");
    }
    for (size_t i = 0; i < trace.workers().size(); ++i) {
      links_.push_back(std::make_unique<WorkerLink>(link_options(scheme.choice, i), tensors()));
    }
    uint64_t elements = 0;
    for (size_t t = 0; t < tensors().size(); ++t) {
      among_.push_back(is_coded(t));
      if (is_coded(t)) elements += tensors()[t].size();
      if (!is_coded(t)) raw_ += tensors()[t].size();
    }
    taken_ = options.top->of(elements);
    asked_ = taken_ > elements / options.candidates ? elements : taken_ * options.candidates;
  }

  Sent send(const ReplayStep& step) override {
    Sent sent;
    sent.down = Downlink::rounds;
    std::vector<std::shared_ptr<const RandomFile>> messages(step.size());
    each(step, [&](size_t i) { messages[i] = links_[step.workers[i]]->encode(step.number, step.values[i]).message; });
    for (const auto& message : messages) sent.up_bytes += message->size();
    sent.decoded = step.values;  // by raw, exactly; what is sketched is written over
    sent.down_bytes = raw_ * sizeof(float);
    if (!std::any_of(among_.begin(), among_.end(), [](bool sketched) { return sketched; })) return sent;

    const IndexSet asked = broadcast(candidates(messages, step), sent);
    std::vector<TensorValues> answers(step.size());
    std::vector<uint64_t> sizes(step.size());
    each(step, [&](size_t i) { answers[i] = answer(step, i, asked, sizes[i]); });
    for (const uint64_t size : sizes) sent.up_bytes += size;
    const IndexSet taken = broadcast(heaviest_of(answers, asked, step), sent);
    *sent.down_bytes += taken.count() * sizeof(float);
    each(step, [&](size_t i) { settle(step.workers[i], taken, answers[i], sent.decoded[i]); });
    return sent;
  }

  bool takes_top() const override { return true; }

  double memory_norm() const override {
    if (!scheme_.choice.remembers()) return kAbsent;
    double sum = 0;
    for (const auto& link : links_) sum += link->sender().norm();
    return sum / static_cast<double>(links_.size());
  }

 private:
  // What Heaviest::set needs of the message that it is of.
  Schema schema() const {
    Schema out;
    out.chunk_log2 = options_.chunk_log2;
    for (const TensorInfo& info : tensors()) out.tensors.push_back({info, 0});
    return out;
  }

  IndexSet set_of(std::vector<Standing> standing, const ReplayStep& step) const {
    Heaviest heaviest;
    heaviest.among = among_;
    heaviest.taken = std::move(standing);
    Message message;
    message.step = step.number;
    return heaviest.set(schema(), message);
  }

  // As its file has it, whose bytes are counted.
  IndexSet broadcast(const IndexSet& set, Sent& sent) const {
    const auto file = RandomFile::in_memory("index set");
    OutputFile output(file);
    write_index_set(set, output, options_.threads, options_.memory);
    *sent.down_bytes += output.position();
    output.commit();
    return read_index_set(file, options_.threads, options_.memory);
  }

  IndexSet candidates(const std::vector<std::shared_ptr<const RandomFile>>& messages, const ReplayStep& step) const {
    std::vector<std::unique_ptr<TableSum>> sums(tensors().size());
    for (const auto& file : messages) {
      Progress progress;
      const StoredMessage message(file, options_.threads, options_.memory, progress);
      for (size_t t = 0; t < tensors().size(); ++t) {
        if (!among_[t]) continue;
        const Table& table = *table_of(*message.decoder(t));
        if (!sums[t]) sums[t] = std::make_unique<TableSum>(table.layout());
        sums[t]->add(table);
      }
    }
    Foremost heavy(asked_, options_.memory);
    for (size_t t = 0; t < tensors().size(); ++t) {
      if (!sums[t] || tensors()[t].size() == 0) continue;
      const Table table = sums[t]->total();
      const uint64_t size = tensors()[t].size();
      for_each_index(options_.threads, static_cast<size_t>((size + kPiece - 1) / kPiece), [&](size_t piece) {
        const uint64_t first = piece * kPiece;
        std::vector<float> estimates(static_cast<size_t>(std::min(kPiece, size - first)));
        table.estimate(first, estimates);
        heavy.add(static_cast<uint32_t>(t), {first, estimates.size()}, estimates,
                  [&](size_t i) { return uint64_t{heavy_key(estimates[i])}; });
      });
    }
    return set_of(heavy.all(), step);
  }

  // Of worker i, at the places that were asked for; 0 elsewhere. What it answers of is what it sketched.
  TensorValues answer(const ReplayStep& step, size_t i, const IndexSet& asked, uint64_t& size) const {
    const WorkerLink& link = *links_[step.workers[i]];
    std::vector<TensorInfo> infos;
    TensorValues values;
    for (size_t t = 0, kept = 0; t < tensors().size(); ++t) {
      if (!among_[t]) continue;
      infos.push_back(tensors()[t]);
      if (!scheme_.choice.remembers()) {
        values.push_back(step.values[i][t]);
        continue;
      }
      values.push_back(unsent_values(link.sender().values(kept++, 0)));
    }
    const auto places_of = [&](const TensorInfo& info) { return asked.mask_of(info); };
    CompressOptions options;
    options.scheme = answer_;
    options.coders = options_.coders;
    options.id = {options_.seed, trace_.workers()[step.workers[i]], step.number};
    options.chunk_log2 = options_.chunk_log2;
    options.memory = options_.memory;
    options.places_of = places_of;
    Message message;
    message.side = asked.check;
    const auto file = encode_values(infos, values, options, message);
    size = file->size();
    DecompressOptions back;
    back.memory = options_.memory;
    back.places_of = places_of;
    return decode_values(file, back);
  }

  // Of the mean of the answers, float64 in the order of the workers, as float32.
  IndexSet heaviest_of(const std::vector<TensorValues>& answers, const IndexSet& asked, const ReplayStep& step) const {
    Foremost heavy(taken_, options_.memory);
    size_t entry = 0;
    for (size_t t = 0; t < tensors().size(); ++t) {
      if (!among_[t]) continue;
      for (const uint64_t place : *asked.tensors[entry].places) {
        double sum = 0;
        for (const TensorValues& answer : answers)
          sum += static_cast<double>(answer[entry][static_cast<size_t>(place)]);
        const auto mean = static_cast<float>(sum / static_cast<double>(answers.size()));
        heavy.add(static_cast<uint32_t>(t), {place, 1}, std::span(&mean, 1),
                  [&](size_t) { return uint64_t{heavy_key(mean)}; });
      }
      ++entry;
    }
    return set_of(heavy.all(), step);
  }

  // What was taken of a worker is its part of the update, and forgotten.
  void settle(size_t worker, const IndexSet& taken, const TensorValues& answer, TensorValues& decoded) {
    forget_taken(links_[worker]->sender(), taken);
    size_t entry = 0;
    for (size_t t = 0; t < tensors().size(); ++t) {
      if (!among_[t]) continue;
      std::fill(decoded[t].begin(), decoded[t].end(), 0.0F);
      for (const uint64_t at : *taken.tensors[entry].places) {
        const auto place = static_cast<size_t>(at);
        decoded[t][place] = answer[entry][place];
      }
      ++entry;
    }
  }

  SchemeChoice answer_;
  std::vector<std::unique_ptr<WorkerLink>> links_;
  std::vector<bool> among_;
  uint64_t taken_ = 0, asked_ = 0, raw_ = 0;
};

}  // namespace

std::unique_ptr<Way> sketch_way(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace) {
  return std::make_unique<SketchWay>(scheme, options, trace);
}

}  // namespace gradcodec
