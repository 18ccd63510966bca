// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/error_check.h"

#include <algorithm>
#include <cmath>

namespace gradcodec {
namespace {

// Weights that make the linear tests sharper where a step is large; never below a sixteenth of its square.
double sharp_weight(double x, double variance, double step) { return x / std::max(variance, step * step / 16); }

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

void add(SquareSums& to, const SquareSums& from) {
  to.q += from.q;
  to.expected += from.expected;
  to.variance += from.variance;
  to.largest = std::max(to.largest, from.largest);
  to.slack += from.slack;
}

// Pairs (a[i], b[j]) for i from `first_a`, j from `first_b`, `count` of them. `first_trial`: the expected P, which
// depends on no error, is counted for all `trials`.
void add_pairs(const ErrorView& a, size_t first_a, const ErrorView& b, size_t first_b, size_t count, bool first_trial,
               uint64_t trials, LagSums& out) {
  const double* za = a.z.data() + first_a;
  const double* zb = b.z.data() + first_b;
  const double* variance_b = b.z_variance.data() + first_b;
  const double* slack_b = b.z_slack.data() + first_b;
  double d = 0, p = 0, slack = 0;
#pragma omp simd reduction(+ : d, p, slack)
  for (size_t i = 0; i < count; ++i) {
    d += za[i] * zb[i];
    p += za[i] * za[i] * variance_b[i];
    slack += std::fabs(za[i]) * slack_b[i];
  }
  out.d += d;
  out.p += p;
  out.slack += slack;
  out.pairs += count;
  if (b.is_bounded_only()) {
    const double* step_b = b.step.data() + first_b;
    double largest = 0;
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(za[i]) * step_b[i]);
    out.largest = std::max(out.largest, largest);
  }
  if (first_trial) {
    const double* variance_a = a.z_variance.data() + first_a;
    double expected = 0;
    for (size_t i = 0; i < count; ++i) expected += variance_a[i] * variance_b[i];
    out.expected_p += expected * static_cast<double>(trials);
  }
}

}  // namespace

void ErrorSums::add(const ErrorSums& other) {
  for (size_t j = 0; j < log_w.size(); ++j) log_w[j] += other.log_w[j];
  overall_slack += other.overall_slack;
  overall_largest = std::max(overall_largest, other.overall_largest);
  norm2 += other.norm2;
  s2 += other.s2;
  e2 += other.e2;
  for (unsigned w = 0; w < kWeights; ++w) {
    linear[w].t += other.linear[w].t;
    linear[w].variance += other.linear[w].variance;
    linear[w].largest = std::max(linear[w].largest, other.linear[w].largest);
    linear[w].slack += other.linear[w].slack;
  }
  gradcodec::add(square, other.square);
  gradcodec::add(square_by_size, other.square_by_size);
  for (unsigned l = 0; l <= kLags; ++l) {
    LagSums& to = pairs[l];
    const LagSums& from = other.pairs[l];
    to.d += from.d;
    to.p += from.p;
    to.expected_p += from.expected_p;
    to.slack += from.slack;
    to.largest = std::max(to.largest, from.largest);
    to.pairs += from.pairs;
  }
  if (histogram.empty()) histogram.assign(other.histogram.size(), 0);
  for (size_t bin = 0; bin < other.histogram.size(); ++bin) histogram[bin] += other.histogram[bin];
  resolution = std::max(resolution, other.resolution);
  if (other.coordinate > coordinate) {
    coordinate = other.coordinate;
    coordinate_index = other.coordinate_index;
  }
  laws_vary |= other.laws_vary;
  if (!fault) fault = other.fault;
  if (parameters_fault.empty()) parameters_fault = other.parameters_fault;
  if (decoder_fault.empty()) decoder_fault = other.decoder_fault;
}

ErrorCheck::ErrorCheck(const Trials& trials, const ErrorCheck* previous, const CheckOptions& options)
    : trials_(trials), previous_(previous), options_(options) {
  std::vector<uint64_t> wanted = {1, 4, 16, 1024, trials.chunk_len(), trials.chunk_len() / 2};
  for (const uint64_t period : trials.periods()) wanted.push_back(period);
  for (const uint64_t lag : wanted) {
    const bool known = std::find(lags_.begin(), lags_.end(), lag) != lags_.end();
    if (lag > 0 && lag < trials.size() && !known && lags_.size() < kLags) lags_.push_back(lag);
  }
}

LawSums ErrorCheck::survey(uint64_t chunk, Room& room) const {
  room.current.begin(false);
  room.current.load(trials_, 0, trials_.chunk(chunk), false);
  return room.current.sums();
}

void ErrorCheck::take(const LawSums& chunk) {
  laws_.points += chunk.points;
  laws_.twos += chunk.twos;
  laws_.uniforms += chunk.uniforms;
  laws_.cells += chunk.cells;
  laws_.outside += chunk.outside;
  laws_.unknown += chunk.unknown;
  if (!laws_.first_outside) laws_.first_outside = chunk.first_outside;
  laws_.norm2 += chunk.norm2;
  laws_.outside_norm2 += chunk.outside_norm2;
  laws_.variance += chunk.variance;
  laws_.quartic += chunk.quartic;
  laws_.bias2 += chunk.bias2;
  laws_.eta2 += chunk.eta2;
  laws_.largest_variance = std::max(laws_.largest_variance, chunk.largest_variance);
  laws_.largest_step = std::max(laws_.largest_step, chunk.largest_step);
}

const BinomialLimits& ErrorCheck::limits() const {
  std::call_once(limits_made_, [this] {
    const auto elements = static_cast<double>(laws_.with_chance());
    limits_.emplace(trials_.count(), options_.level / (2 * elements));
  });
  return *limits_;
}

// Of one trial of one chunk: what test 1 needs before it can move.
struct ErrorCheck::Overall {
  double d = 0, p = 0, slack = 0, largest = 0;
};

// Test 1 (each trial's error against the sum of those before it) and the squares of tests 4 and 5.
void ErrorCheck::add_block(Block block, Room& room, Overall& overall, ErrorSums& out) {
  const ErrorView& view = room.current;
  const double *error = view.error.data(), *variance = view.variance.data(), *eta = view.eta.data(),
               *step = view.step.data(), *size = room.size.data();
  double* sum = room.sum.data();
  double d = 0, p = 0, slack = 0, largest = overall.largest, q = 0, q_by_size = 0;
#pragma omp simd reduction(+ : d, p, slack, q, q_by_size) reduction(max : largest)
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const double before = sum[i], magnitude = std::fabs(before), e = error[i];
    d += before * e;
    p += before * before * variance[i];
    slack += magnitude * eta[i];
    largest = std::max(largest, magnitude * step[i]);
    q += e * e;
    q_by_size += e * e * size[i];
    sum[i] = before + e;
  }
  overall.d += d;
  overall.p += p;
  overall.slack += slack;
  overall.largest = largest;
  out.e2 += q;
  out.square.q += q;
  out.square_by_size.q += q_by_size;
}

void ErrorCheck::move_e_processes(const Overall& trial, ErrorSums& out) const {
  out.overall_slack += trial.slack;
  out.overall_largest = std::max(out.overall_largest, trial.largest);
  if (trials_.count() < 2 || !(laws_.quartic > 0)) return;
  for (size_t j = 0; j < kOverallMultiples.size(); ++j) {
    const double lambda = overall_lambda(j, static_cast<double>(trials_.count()), laws_.quartic, options_.level);
    out.log_w[2 * j] += e_increment(lambda, trial.d, trial.slack, trial.p, trial.largest, dither());
    out.log_w[2 * j + 1] += e_increment(lambda, -trial.d, trial.slack, trial.p, trial.largest, dither());
  }
}

void ErrorCheck::add_histogram(const ErrorView& view, Block block, ErrorSums& out) {
  constexpr auto kBins = static_cast<double>(kUniformityBins);
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    if (view.step[i] == 0) continue;
    const double place = (view.error[i] * view.inverse_step[i] + 0.5) * kBins + kBinOffset;
    ++out.histogram[place > 0 ? static_cast<size_t>(std::min(place, kBins)) : 0];
  }
}

void ErrorCheck::set_weights(Room& room) const {
  const ErrorView& view = room.current;
  const size_t n = view.size();
  for (std::vector<double>* weights : {&room.x, &room.sharp, &room.size}) weights->assign(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    if (view.step[i] == 0) continue;
    const auto x = static_cast<double>(view.sample().target[i]);
    room.x[i] = x;
    room.sharp[i] = sharp_weight(x, view.variance[i], view.step[i]);
    room.size[i] = std::fabs(x);
  }
}

// What one message with these laws adds to the expectations, variances and allowances of tests 2, 4, 5, 6.
ErrorSums ErrorCheck::law_sums(const ErrorView& view, const Room& room) const {
  ErrorSums out;
  out.norm2 = view.sums().norm2;
  for (size_t i = 0; i < view.size(); ++i) {
    const double s = view.step[i];
    if (s == 0) continue;
    const double sigma2 = view.variance[i], eta = view.eta[i];
    const std::array<double, kWeights> weights = {room.x[i], room.sharp[i], 1, sign(room.x[i]), room.size[i]};
    for (unsigned w = 0; w < kWeights; ++w) {
      const double size = std::fabs(weights[w]);
      LinearSums& linear = out.linear[w];
      linear.variance += size * size * sigma2;
      linear.largest = std::max(linear.largest, size * s);
      linear.slack += size * eta;
    }
    const bool uniform = view.kind(i) == Law::uniform;
    // Var e^2: of two points s^2 sigma^2 (1 - 2f)^2 = sigma^2 (s^2 - 4 sigma^2).
    double variance = uniform ? s * s * s * s / 180 : sigma2 * (s * s - 4 * sigma2);
    double largest = uniform ? s * s / 6 : s * s;
    if (view.kind(i) == Law::cell) {
      // Coordinates are flatter than normal ones, and squares of a vector's do not rise together: so for a vector's
      // sum of weighted squares, too. No vector is longer than the radius.
      const double radius = view.sample().laws[i].hi;
      variance = 2 * sigma2 * sigma2;
      largest = radius * radius;
    }
    const double slack = eta * (2 * std::sqrt(sigma2) + eta + s);
    const double size = room.size[i];
    add(out.square, {0, sigma2, variance, largest, slack});
    add(out.square_by_size, {0, size * sigma2, size * size * variance, size * largest, size * slack});
    out.resolution = std::max(out.resolution, eta * view.inverse_step[i]);
  }
  return out;
}

// Chunks before `chunk` that hold an element a lag before one of its own.
std::vector<uint64_t> ErrorCheck::earlier_chunks(uint64_t chunk) const {
  const Range range = trials_.chunk(chunk);
  std::vector<uint64_t> out;
  for (const uint64_t lag : lags_) {
    if (lag >= range.first + range.count) continue;
    const uint64_t begin = range.first > lag ? range.first - lag : 0;
    const uint64_t end = std::min(range.first, range.first + range.count - lag);
    for (uint64_t c = begin / trials_.chunk_len(); c * trials_.chunk_len() < end; ++c) {
      if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
    }
  }
  return out;
}

// Test 7, of pairs whose second is in the block; what lies a lag before it in this chunk was computed before.
void ErrorCheck::add_lags(Block block, bool first_trial, const Room& room, ErrorSums& out) const {
  const size_t end = block.first + block.count;
  for (size_t l = 0; l < lags_.size(); ++l) {
    if (lags_[l] >= end) continue;
    const auto lag = static_cast<size_t>(lags_[l]);
    const size_t begin = std::max(block.first, lag);
    add_pairs(room.current, begin - lag, room.current, begin, end - begin, first_trial, trials_.count(), out.pairs[l]);
  }
}

// Tests 7 and 8, of pairs whose first lies in another chunk or in the previous tensor: it is coded again.
void ErrorCheck::add_elsewhere(uint64_t chunk, uint64_t trial, Room& room, ErrorSums& out) const {
  const Range range = trials_.chunk(chunk);
  const std::vector<uint64_t> earlier = earlier_chunks(chunk);
  for (size_t e = 0; e < earlier.size(); ++e) {
    const Range from = trials_.chunk(earlier[e]);
    ErrorView& view = room.earlier[e];
    view.load(trials_, trial, from, false);
    for_each_block(view.size(), [&](Block block) {
      view.compute(block);
      for (size_t l = 0; l < lags_.size(); ++l) {
        const uint64_t lag = lags_[l], first = from.first + block.first;
        const uint64_t begin = std::max(first, range.first > lag ? range.first - lag : 0);
        const uint64_t past = range.first + range.count > lag ? range.first + range.count - lag : 0;
        const uint64_t end = std::min(first + block.count, past);
        if (begin >= end) continue;
        add_pairs(view, static_cast<size_t>(begin - from.first), room.current,
                  static_cast<size_t>(begin + lag - range.first), static_cast<size_t>(end - begin), trial == 0,
                  trials_.count(), out.pairs[l]);
      }
    });
  }
  if (previous_ == nullptr || chunk >= previous_->trials_.chunks()) return;
  const Range beside = previous_->trials_.chunk(chunk);
  if (beside.first != range.first) return;
  room.other.load(previous_->trials_, trial, beside, false);
  for_each_block(std::min(room.other.size(), room.current.size()), [&](Block block) {
    room.other.compute(block);
    add_pairs(room.other, block.first, room.current, block.first, block.count, trial == 0, trials_.count(),
              out.pairs[kLags]);
  });
}

// Test 2: what trials since the last call add under the weights that they had.
void ErrorCheck::add_linear(Room& room, ErrorSums& out) {
  std::array<double, kWeights> t = {};
  for (size_t i = 0; i < room.sum.size(); ++i) {
    const double s = room.sum[i] - room.weighted[i];
    const std::array<double, kWeights> weights = {room.x[i], room.sharp[i], 1, sign(room.x[i]), room.size[i]};
    for (unsigned w = 0; w < kWeights; ++w) t[w] += weights[w] * s;
  }
  for (unsigned w = 0; w < kWeights; ++w) out.linear[w].t += t[w];
  room.weighted = room.sum;
}

// Test 3. A two-point error's sum says how often it went up: f must be within eta / s of the exact limits of that
// count. A uniform one's sum has a sub-Gaussian tail.
void ErrorCheck::judge_coordinates(Range range, const Room& room, ErrorSums& out) const {
  const ErrorView& view = room.current;
  const auto r = static_cast<double>(trials_.count());
  const auto elements = static_cast<double>(laws_.with_chance());
  const double uniform_limit = std::sqrt(r * std::log(2 * elements / options_.level) / 6);
  for (size_t i = 0; i < view.size(); ++i) {
    const double s = view.step[i];
    if (s == 0) continue;
    double beyond;
    if (view.kind(i) == Law::uniform) {
      beyond = (std::fabs(room.sum[i]) - r * view.eta[i]) / s / uniform_limit - 1;
    } else if (view.kind(i) == Law::cell) {
      const double radius = view.sample().laws[i].hi;
      const double limit = bennett_threshold(r * view.variance[i], radius, std::log(2 * elements / options_.level));
      beyond = (std::fabs(room.sum[i]) - r * view.eta[i]) / limit - 1;
    } else {
      const double f = view.sample().laws[i].f, near = view.eta[i] / s;
      const double ups = std::clamp(std::nearbyint(room.sum[i] / s + r * f), 0.0, r);
      const auto k = static_cast<uint64_t>(ups);
      beyond = std::max(limits().lower(k) - (f + near), limits().lower(trials_.count() - k) - (1 - f + near));
    }
    if (beyond > out.coordinate) {
      out.coordinate = beyond;
      out.coordinate_index = range.first + i;
    }
  }
}

void ErrorCheck::begin(uint64_t chunk, Room& room) const {
  room.current.begin(dither());
  room.earlier.resize(earlier_chunks(chunk).size());
  for (ErrorView& view : room.earlier) view.begin(dither());
  if (previous_ != nullptr) room.other.begin(previous_->dither());
}

// One trial of a chunk, whose laws are those of `room.current`.
void ErrorCheck::add_trial(Range range, uint64_t trial, Room& room, ErrorSums& out) const {
  ErrorView& view = room.current;
  Overall overall;
  for_each_block(view.size(), [&](Block block) {
    view.compute(block);
    if (!out.fault) {
      if (const std::optional<size_t> i = view.first_beyond_support(block)) {
        out.fault = SupportFault{trial, range.first + *i, view.error[*i], view.step[*i]};
      }
    }
    add_block(block, room, overall, out);
    if (dither()) add_histogram(view, block, out);
    add_lags(block, trial == 0, room, out);
  });
  move_e_processes(overall, out);
}

ErrorSums ErrorCheck::measure(uint64_t chunk, Room& room, const std::function<void()>& after_trial) const {
  const Range range = trials_.chunk(chunk);
  ErrorSums out, once;
  if (dither()) out.histogram.assign(kUniformityBins + 1, 0);
  begin(chunk, room);
  for (uint64_t trial = 0; trial < trials_.count(); ++trial) {
    const ErrorView& view = room.current;
    room.current.load(trials_, trial, range, true);
    if (trial == 0) {
      room.sum.assign(view.size(), 0.0);
      room.weighted = room.sum;
    }
    if (view.new_laws()) {
      if (trial > 0) add_linear(room, out);
      out.laws_vary |= trial > 0;
      set_weights(room);
      once = law_sums(view, room);
    }
    if (out.parameters_fault.empty()) out.parameters_fault = view.sample().parameters_fault;
    if (out.decoder_fault.empty()) out.decoder_fault = view.sample().decoder_fault;
    add_trial(range, trial, room, out);
    add_elsewhere(chunk, trial, room, out);
    out.add(once);
    after_trial();
  }
  add_linear(room, out);
  for (const double sum : room.sum) out.s2 += sum * sum;
  if (!out.laws_vary && trials_.count() > 1) judge_coordinates(range, room, out);
  return out;
}

}  // namespace gradcodec
