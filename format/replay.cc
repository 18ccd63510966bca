// SPDX-License-Identifier: Apache-2.0
#include "format/replay.h"

#include <cmath>
#include <utility>

#include "format/crew.h"
#include "format/index_set.h"
#include "format/replay_way.h"

namespace gradcodec {
namespace {

using Doubles = std::vector<std::vector<double>>;  // by tensor

Doubles zeros_of(const std::vector<TensorInfo>& tensors) {
  Doubles out;
  for (const TensorInfo& info : tensors) out.emplace_back(static_cast<size_t>(info.size()));
  return out;
}

// Eight partial sums, added in pairs: sum of f(i).
template <typename F>
double sum_of(size_t count, F f) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += f(i + j);
  }
  for (; i < count; ++i) sums[i % 8] += f(i);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// 0 of nothing is 0; an error of what has no length is not defined.
double ratio(double error, double square) {
  if (square > 0) return error / square;
  return error == 0 ? 0 : kAbsent;
}

// Mean of what is defined.
struct Average {
  double sum = 0;
  uint64_t count = 0;
  void add(double x) {
    if (!std::isfinite(x)) return;
    sum += x;
    ++count;
  }
  double value() const { return count == 0 ? kAbsent : sum / static_cast<double>(count); }
};

// The mean over workers, in their order.
Doubles mean_of(const std::vector<TensorInfo>& tensors, const std::vector<TensorValues>& values, unsigned threads) {
  Doubles out = zeros_of(tensors);
  const auto count = static_cast<double>(values.size());
  for_each_index(threads, tensors.size(), [&](size_t t) {
    std::vector<double>& mean = out[t];
    for (const TensorValues& worker : values) {
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(worker[t][i]);
    }
    for (double& x : mean) x /= count;
  });
  return out;
}

// The mean by its values: all of them, or the places that are not 0 as an index set and the values there.
uint64_t by_values(const std::vector<TensorInfo>& tensors, const Doubles& mean, uint64_t step,
                   const ReplayOptions& options, Downlink& down) {
  IndexSet set;
  set.chunk_log2 = options.chunk_log2;
  set.step = step;
  uint64_t values = 0, kept = 0;
  for (const std::vector<double>& x : mean) {
    values += x.size();
    kept += static_cast<uint64_t>(std::count_if(x.begin(), x.end(), [](double value) { return value != 0; }));
  }
  const uint64_t dense = values * sizeof(float);
  down = Downlink::dense;
  // A list of places takes at least a bit for each, or for each that is missing.
  if (kept * sizeof(float) + std::min(kept, values - kept) / 8 >= dense) return dense;
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<uint64_t> places;
    for (size_t i = 0; i < mean[t].size(); ++i) {
      if (mean[t][i] != 0) places.push_back(i);
    }
    set.add(tensors[t], std::move(places));
  }
  OutputFile output(RandomFile::in_memory("index set"));
  write_index_set(set, output, options.threads, options.memory);
  const uint64_t sparse = output.position() + kept * sizeof(float);
  if (sparse >= dense) return dense;
  down = Downlink::sparse;
  return sparse;
}

// What each worker has once it has taken the mean of its own model and of its neighbours', in the order of workers.
std::vector<TensorValues> mixed(const ReplayStep& step, const std::vector<TensorValues>& own,
                                const std::vector<TensorValues>& sent, unsigned threads) {
  std::vector<TensorValues> out(step.size());
  for_each_index(threads, step.size(), [&](size_t worker) {
    const std::vector<size_t> neighbours = step.neighbours(worker);
    const double count = 1 + static_cast<double>(neighbours.size());
    out[worker] = own[worker];
    for (size_t t = 0; t < out[worker].size(); ++t) {
      for (size_t i = 0; i < out[worker][t].size(); ++i) {
        auto sum = static_cast<double>(own[worker][t][i]);
        for (const size_t other : neighbours) sum += static_cast<double>(sent[other][t][i]);
        out[worker][t][i] = static_cast<float>(sum / count);
      }
    }
  });
  return out;
}

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? ~uint64_t{0} : out;
}

uint64_t plus(uint64_t a, uint64_t b) { return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b; }

}  // namespace

std::string_view downlink_text(Downlink downlink) {
  switch (downlink) {
    case Downlink::dense:
      return "dense";
    case Downlink::sparse:
      return "sparse";
    case Downlink::sum:
      return "sum";
    case Downlink::rounds:
      return "rounds";
    case Downlink::gossip:
      return "gossip";
  }
  return "";
}

double ReplayTotal::up_bits() const {
  return values == 0 ? kAbsent : 8 * static_cast<double>(up_bytes) / static_cast<double>(values);
}

double ReplayTotal::down_bits() const {
  return values == 0 ? kAbsent : 8 * static_cast<double>(down_bytes) / static_cast<double>(values);
}

// Of a scheme, over the steps so far.
struct Replay::Sums {
  ReplayTotal total;
  Average worker_nmse, mean_nmse, cosine, memory_norm;
  Doubles error;  // of the sum of the decoded means
};

// Of the true values of a step.
struct Replay::Means {
  Doubles mean;
  double square = 0, run_square = 0;   // of the mean; of the sum of the means up to here
  std::vector<double> worker_squares;  // of each worker's values
  std::vector<TensorValues> values;    // of gossip: the true means that workers take; else those of the step
};

Replay::Replay(Trace& trace, ReplayOptions options) : trace_(trace), options_(std::move(options)) {
  check_memory();
  if (options_.models && !options_.gossip && trace_.steps() < 2) {
    throw Error(Exit::usage, "--models needs two steps at least: the first is where the second one starts from");
  }
  for (const ReplayScheme& scheme : options_.schemes) {
    ways_.push_back(way_of(scheme, options_, trace_));
    Sums& sums = sums_.emplace_back();
    sums.error = zeros_of(trace_.tensors());
  }
  if (options_.top && std::none_of(ways_.begin(), ways_.end(), [](const auto& way) { return way->takes_top(); })) {
    throw Error(Exit::usage, "--top is for sketches: --scheme countsketch:... or momentum/countsketch:...");
  }
  run_ = zeros_of(trace_.tensors());
}

Replay::~Replay() = default;

// What is held at once, about.
void Replay::check_memory() const {
  const uint64_t values = trace_.values(), workers = trace_.workers().size();
  uint64_t a_value = times(workers, (options_.gossip ? 4 : 2) * sizeof(float));  // read and decoded
  a_value = plus(a_value, (options_.models ? 6 : 5) * sizeof(double));
  for (const ReplayScheme& scheme : options_.schemes) {
    const Scheme& memory = *scheme.choice.scheme;
    const uint64_t vectors = memory.vectors().size() * (memory.decoder_remembers() ? 2 : 1);
    a_value = plus(a_value, plus(sizeof(double), times(workers, vectors * sizeof(double))));
  }
  const uint64_t need = times(a_value, values);
  if (need <= options_.memory) return;
  throw Error(Exit::limit, "a step of " + std::to_string(workers) + " workers and what " +
                               std::to_string(options_.schemes.size()) + " schemes remember take " +
                               (need == ~uint64_t{0} ? "too many" : std::to_string(need)) +
                               " bytes, more than --memory allows: fewer schemes at a time");
}

// The values of a step, as they are sent, and what is to be compared with. False if nothing is sent at this step.
bool Replay::read(size_t at, ReplayStep& step, Means& means) {
  const std::vector<TensorInfo>& tensors = trace_.tensors();
  step.number = trace_.step(at);
  step.workers = trace_.workers_at(at);
  for (const size_t worker : step.workers) {
    step.values.push_back(trace_.read(at, worker));
    step.origins.push_back(&trace_.first_tensor(at, worker));
  }
  if (options_.models && !options_.gossip) {
    const Doubles models = std::exchange(last_models_, mean_of(tensors, step.values, options_.threads));
    if (models.empty()) return false;  // where all start
    for (TensorValues& worker : step.values) {
      for (size_t t = 0; t < tensors.size(); ++t) {
        for (size_t i = 0; i < worker[t].size(); ++i) {
          worker[t][i] = static_cast<float>(models[t][i] - static_cast<double>(worker[t][i]));
        }
      }
    }
  }
  if (options_.gossip) means.values = mixed(step, step.values, step.values, options_.threads);
  const std::vector<TensorValues>& values = options_.gossip ? means.values : step.values;
  means.mean = mean_of(tensors, values, options_.threads);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<double>& mean = means.mean[t];
    std::vector<double>& run = run_[t];
    for (size_t i = 0; i < run.size(); ++i) run[i] += mean[i];
    means.square += sum_of(mean.size(), [&](size_t i) { return mean[i] * mean[i]; });
    means.run_square += sum_of(run.size(), [&](size_t i) { return run[i] * run[i]; });
  }
  means.worker_squares.resize(step.size());
  for_each_index(options_.threads, step.size(), [&](size_t worker) {
    for (const std::vector<float>& x : values[worker]) {
      means.worker_squares[worker] +=
          sum_of(x.size(), [&](size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
    }
  });
  return true;
}

void Replay::send(size_t scheme, const ReplayStep& step, const Means& means,
                  const std::function<void(const ReplayRow&)>& take) {
  Sent sent = ways_[scheme]->send(step);
  if (options_.gossip) {
    const auto neighbours = static_cast<uint64_t>(step.neighbours(0).size());
    sent.up_bytes *= neighbours;
    sent.down_bytes = 0;
    sent.down = Downlink::gossip;
    sent.decoded = mixed(step, step.values, sent.decoded, options_.threads);
  }
  for (const std::string& note : sent.notes) notes_.emplace(scheme, note);
  take(figures(scheme, step, sent, means));
}

void Replay::run(const std::function<void(const ReplayRow&)>& take, Progress& progress) {
  for (size_t at = 0; at < trace_.steps(); ++at) {
    ReplayStep step;
    Means means;
    if (!read(at, step, means)) continue;
    for (size_t scheme = 0; scheme < ways_.size(); ++scheme) {
      try {
        send(scheme, step, means, take);
      } catch (const Error& error) {
        throw Error(error.code(), "scheme '" + options_.schemes[scheme].text + "', step " +
                                      std::to_string(step.number) + ", " + error.what());
      }
      progress.done += times(times(trace_.values(), sizeof(float)), step.size());
    }
  }
}

ReplayRow Replay::figures(size_t scheme, const ReplayStep& step, const Sent& sent, const Means& means) {
  const std::vector<TensorInfo>& tensors = trace_.tensors();
  const Doubles decoded = mean_of(tensors, sent.decoded, options_.threads);
  Sums& sums = sums_[scheme];
  ReplayRow row;
  row.scheme = scheme;
  row.step = step.number;
  row.messages = step.size();
  row.up_bytes = sent.up_bytes + sent.up_extra;
  row.down = sent.down;
  row.down_bytes = sent.down_extra;
  row.down_bytes += sent.down_bytes ? *sent.down_bytes : by_values(tensors, decoded, step.number, options_, row.down);
  row.checked = sent.checked;
  row.failures = sent.failures;
  row.wrong = sent.wrong;
  row.memory_norm = ways_[scheme]->memory_norm();

  const std::vector<TensorValues>& values = options_.gossip ? means.values : step.values;
  std::vector<double> errors(step.size());
  for_each_index(options_.threads, step.size(), [&](size_t worker) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const std::vector<float>&x = values[worker][t], &y = sent.decoded[worker][t];
      errors[worker] += sum_of(x.size(), [&](size_t i) {
        const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
        return error * error;
      });
    }
  });
  Average workers;
  for (size_t i = 0; i < errors.size(); ++i) workers.add(ratio(errors[i], means.worker_squares[i]));
  row.worker_nmse = workers.value();

  double error = 0, product = 0, square = 0, run_error = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<double>&x = means.mean[t], &y = decoded[t];
    std::vector<double>& run = sums.error[t];
    for (size_t i = 0; i < run.size(); ++i) run[i] += y[i] - x[i];
    error += sum_of(x.size(), [&](size_t i) { return (y[i] - x[i]) * (y[i] - x[i]); });
    product += sum_of(x.size(), [&](size_t i) { return y[i] * x[i]; });
    square += sum_of(x.size(), [&](size_t i) { return y[i] * y[i]; });
    run_error += sum_of(x.size(), [&](size_t i) { return run[i] * run[i]; });
  }
  row.mean_nmse = ratio(error, means.square);
  row.run_nmse = ratio(run_error, means.run_square);
  const double lengths = std::sqrt(means.square) * std::sqrt(square);
  row.cosine = lengths > 0 ? product / lengths : kAbsent;

  ReplayTotal& total = sums.total;
  ++total.steps;
  total.messages += row.messages;
  total.values += row.messages * trace_.values();
  total.up_bytes += row.up_bytes;
  total.down_bytes += row.down_bytes * row.messages;
  total.checked += row.checked;
  total.failures += row.failures;
  total.wrong += row.wrong;
  total.run_nmse = row.run_nmse;
  total.downs.insert(row.down);
  sums.worker_nmse.add(row.worker_nmse);
  sums.mean_nmse.add(row.mean_nmse);
  sums.cosine.add(row.cosine);
  sums.memory_norm.add(row.memory_norm);
  return row;
}

std::vector<ReplayTotal> Replay::totals() const {
  std::vector<ReplayTotal> out;
  for (const Sums& sums : sums_) {
    ReplayTotal& total = out.emplace_back(sums.total);
    total.worker_nmse = sums.worker_nmse.value();
    total.mean_nmse = sums.mean_nmse.value();
    total.cosine = sums.cosine.value();
    total.memory_norm = sums.memory_norm.value();
  }
  return out;
}

}  // namespace gradcodec
