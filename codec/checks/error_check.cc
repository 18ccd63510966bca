// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/error_check.h"

#include <algorithm>
#include <cmath>

#include "codec/checks/law_numbers.h"

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

void add(MessageSums& to, const MessageSums& from) {
  to.e2 += from.e2;
  to.along += from.along;
  to.norm2 += from.norm2;
  to.opposed += from.opposed;
  for (unsigned w = 0; w < kWeights; ++w) to.t[w] += from.t[w];
  to.variance += from.variance;
  to.bias2 += from.bias2;
  to.drawn += from.drawn;
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
  if (!b.dither()) {
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

SupportFault fault_at(const ErrorView& view, uint64_t trial, Range range, size_t i) {
  const uint64_t index = range.first + i;
  if (view.kind(i) != Law::cell) return {trial, index, view.error[i], view.step[i]};
  const auto of_it = [i](const Block& vector) { return i < vector.first + vector.count; };
  const auto vector = std::find_if(view.vectors().begin(), view.vectors().end(), of_it);
  return {trial, index, view.length_of(*vector).error, view.sample().laws[i].hi, true};
}

// What one lattice vector adds to tests 4 and 5, with weights w: Q = sum w e^2 is at most max(w) R^2, R the cell's
// radius, and so E Q^2 <= max(w) R^2 E Q.
template <typename Weight>
SquareSums vector_squares(const ErrorView& view, Block vector, Weight weight) {
  SquareSums out;
  double largest = 0, radius = 0;
  for (size_t i = vector.first; i < vector.first + vector.count; ++i) {
    if (view.kind(i) != Law::cell) continue;
    const double w = weight(i), eta = view.eta[i];
    radius = view.sample().laws[i].hi;
    largest = std::max(largest, w);
    out.expected += w * view.variance[i];
    out.slack += w * eta * (2 * radius + eta);
  }
  out.largest = largest * radius * radius;
  out.variance = std::max(0.0, out.expected * (out.largest - out.expected));
  return out;
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
  coordinate_limit = std::max(coordinate_limit, other.coordinate_limit);
  coordinate_spread = std::max(coordinate_spread, other.coordinate_spread);
  laws_vary |= other.laws_vary;
  if (other.balance && (!balance || other.balance->excess * balance->bound > balance->excess * other.balance->bound)) {
    balance = other.balance;
  }
  if (!fault) fault = other.fault;
  if (!first_outside) first_outside = other.first_outside;
  outside += other.outside;
  messages.resize(std::max(messages.size(), other.messages.size()));
  for (size_t r = 0; r < other.messages.size(); ++r) gradcodec::add(messages[r], other.messages[r]);
  if (parameters_fault.empty()) parameters_fault = other.parameters_fault;
  if (decoder_fault.empty()) decoder_fault = other.decoder_fault;
  if (transform_fault.empty()) transform_fault = other.transform_fault;
}

ErrorCheck::ErrorCheck(const Trials& trials, const ErrorCheck* previous, const CheckOptions& options)
    : trials_(trials), previous_(previous), options_(options) {
  choose_lags();
}

// The errors of a lattice vector's own elements depend on each other: near elements are those of near vectors.
void ErrorCheck::choose_lags() {
  const uint64_t near = laws_.longest_vector;
  std::vector<uint64_t> wanted = {near, 4 * near, 16 * near, 1024, trials_.chunk_len(), trials_.chunk_len() / 2};
  for (const uint64_t period : trials_.periods()) wanted.push_back(period);
  lags_.clear();
  for (const uint64_t lag : wanted) {
    const bool known = std::find(lags_.begin(), lags_.end(), lag) != lags_.end();
    if (lag >= near && lag < trials_.size() && !known && lags_.size() < kLags) lags_.push_back(lag);
  }
}

LawSums ErrorCheck::survey(uint64_t chunk, Room& room) const {
  room.current.begin(false);
  room.current.load(trials_, 0, trials_.chunk(chunk), false);
  return room.current.sums();
}

void ErrorCheck::take(const LawSums& chunk) {
  const bool longer = chunk.longest_vector > laws_.longest_vector;
  laws_.add(chunk);
  if (longer) choose_lags();
}

// Where no law is declared, or something is promised of each message, or of each one's laws.
bool ErrorCheck::keeps_messages() const {
  return laws_.unknown > 0 || laws_.subsets > 0 || trials_.targets_vary() ||
         (promise_ && (promise_->projection || promise_->inner_product));
}

const BinomialLimits& ErrorCheck::limits() const {
  std::call_once(limits_made_, [this] {
    const auto elements = static_cast<double>(laws_.chance());
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
  const double *error = view.error.data(), *tail = view.tail.data(), *eta = view.eta.data(), *step = view.step.data(),
               *size = room.size.data();
  double* sum = room.sum.data();
  double d = 0, p = 0, slack = 0, largest = overall.largest, q = 0, q_by_size = 0;
#pragma omp simd reduction(+ : d, p, slack, q, q_by_size) reduction(max : largest)
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const double before = sum[i], magnitude = std::fabs(before), e = error[i];
    d += before * e;
    p += before * before * tail[i];
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
  if (trials_.count() < 2 || !(laws_.penalty > 0)) return;
  for (size_t j = 0; j < kOverallMultiples.size(); ++j) {
    const double lambda = overall_lambda(j, static_cast<double>(trials_.count()), laws_.penalty, options_.level);
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

void ErrorCheck::set_weights(Room& room) {
  const ErrorView& view = room.current;
  const size_t n = view.size();
  for (std::vector<double>* weights : {&room.x, &room.sharp, &room.size}) weights->assign(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    if (view.step[i] == 0 && view.kind(i) != Law::none) continue;
    const auto x = static_cast<double>(view.sample().target[i]);
    if (!std::isfinite(x)) continue;
    room.x[i] = x;
    room.size[i] = std::fabs(x);
    if (view.step[i] != 0) room.sharp[i] = sharp_weight(x, view.variance[i], view.step[i]);
  }
}

// What one message with these laws adds to the expectations, variances and allowances of tests 2, 4, 5, 6.
ErrorSums ErrorCheck::law_sums(const ErrorView& view, const Room& room) const {
  ErrorSums out;
  out.norm2 = view.sums().norm2;
  out.outside = view.sums().outside;
  out.first_outside = view.sums().first_outside;
  for (size_t i = 0; i < view.size(); ++i) {
    const double s = view.step[i];
    if (s == 0) continue;
    const double sigma2 = view.variance[i], eta = view.eta[i];
    const std::array<double, kWeights> weights = {room.x[i], room.sharp[i], 1, sign(room.x[i]), room.size[i]};
    for (unsigned w = 0; w < kWeights; ++w) {
      const double size = std::fabs(weights[w]);
      LinearSums& linear = out.linear[w];
      linear.variance += size * size * view.tail[i];
      linear.largest = std::max(linear.largest, size * s);
      linear.slack += size * eta;
    }
    out.resolution = std::max(out.resolution, eta * view.inverse_step[i]);
    const Law& law = view.sample().laws[i];
    if (law.kind == Law::cell) continue;
    const LawNumbers numbers = numbers_of(law);
    const auto [tail, largest] = square_of(law, numbers);
    const double most = law.kind == Law::sum ? 2 * numbers.reach : s;
    const double slack = eta * (2 * std::sqrt(sigma2) + eta + most);
    const double size = room.size[i];
    add(out.square, {0, sigma2, tail, largest, slack});
    add(out.square_by_size, {0, size * sigma2, size * size * tail, size * largest, size * slack});
  }
  for (const Block& vector : view.vectors()) {
    add(out.square, vector_squares(view, vector, [](size_t) { return 1.0; }));
    add(out.square_by_size, vector_squares(view, vector, [&](size_t i) { return room.size[i]; }));
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

// Test 3. The sum of errors of two values says how often the element went up: f must be within eta / s of the exact
// limits of that count. Others' sums have a sub-Gaussian tail.
void ErrorCheck::judge_coordinates(Range range, const Room& room, ErrorSums& out) const {
  const ErrorView& view = room.current;
  const auto r = static_cast<double>(trials_.count());
  const auto elements = static_cast<double>(laws_.chance());
  const double log_tail = std::log(2 * elements / options_.level);
  for (size_t i = 0; i < view.size(); ++i) {
    const double s = view.step[i];
    if (s == 0) continue;
    const Law& law = view.sample().laws[i];
    double beyond;
    if (law.kind == Law::two || law.kind == Law::subset) {
      const double f = law.f, near = view.eta[i] / s;
      const double ups = std::clamp(std::nearbyint(room.sum[i] / (law.hi - law.lo) + r * f), 0.0, r);
      const auto k = static_cast<uint64_t>(ups);
      beyond = std::max(limits().lower(k) - (f + near), limits().lower(trials_.count() - k) - (1 - f + near));
    } else {
      const double limit = coordinate_limit(law, numbers_of(law), r, log_tail) / s;
      out.coordinate_limit = std::max(out.coordinate_limit, limit / r);
      out.coordinate_spread = std::max(out.coordinate_spread, std::sqrt(view.variance[i]) / s);
      beyond = (std::fabs(room.sum[i]) - r * view.eta[i]) / s / limit - 1;
    }
    if (beyond > out.coordinate) {
      out.coordinate = beyond;
      out.coordinate_index = range.first + i;
    }
  }
}

// What float32 rounds of decoded values, half a unit of |x|, may bring an error over a limit on one side alone. So far
// above is 3/2 units and more, above half a unit and more: the first is no more likely than to be below by half a unit.
void ErrorCheck::count_sides(Room& room) {
  const Sample& sample = room.current.sample();
  for (size_t i = 0; i < room.current.size(); ++i) {
    const auto x = static_cast<double>(sample.target[i]);
    const double e = static_cast<double>(sample.decoded[i]) - x, unit = std::fabs(x) * 0x1p-23;
    if (!std::isfinite(e)) continue;
    room.sides[0][i] += e > 1.5 * unit ? 1 : 0;
    room.sides[1][i] += e > 0.5 * unit ? 1 : 0;
    room.sides[2][i] += e < -0.5 * unit ? 1 : 0;
    room.sides[3][i] += e < -1.5 * unit ? 1 : 0;
  }
}

// Of a sum of n signs, none more likely + than -, P(sum >= t) <= exp(-t^2 / (2 n)) (Hoeffding, JASA 58, 1963).
void ErrorCheck::judge_balance(Range range, const Room& room, ErrorSums& out) const {
  const double l = std::log(2 * static_cast<double>(trials_.size()) / options_.level);
  const auto judge = [&](uint64_t index, uint32_t one, uint32_t other) {
    if (one <= other) return;
    const double count = static_cast<double>(one) + static_cast<double>(other);
    const Balance here{static_cast<double>(one) - static_cast<double>(other), std::sqrt(2 * count * l), index,
                       (static_cast<double>(one) - static_cast<double>(other)) / count};
    if (!out.balance || here.excess * out.balance->bound > out.balance->excess * here.bound) out.balance = here;
  };
  for (size_t i = 0; i < room.current.size(); ++i) {
    judge(range.first + i, room.sides[0][i], room.sides[2][i]);
    judge(range.first + i, room.sides[3][i], room.sides[1][i]);
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
        out.fault = fault_at(view, trial, range, *i);
      }
    }
    add_block(block, room, overall, out);
    if (dither()) add_histogram(view, block, out);
    add_lags(block, trial == 0, room, out);
  });
  move_e_processes(overall, out);
  if (!out.messages.empty()) out.messages[static_cast<size_t>(trial)] = message_sums(room, overall.d);
}

MessageSums ErrorCheck::message_sums(const Room& room, double opposed) const {
  const ErrorView& view = room.current;
  MessageSums out;
  out.opposed = opposed;
  out.norm2 = view.sums().norm2;
  out.variance = view.sums().variance;
  out.bias2 = view.sums().bias2;
  for (size_t i = 0; i < view.size(); ++i) {
    const auto target = static_cast<double>(view.sample().target[i]);
    if (!std::isfinite(target)) continue;
    const double whole = static_cast<double>(view.sample().decoded[i]) - target;
    out.e2 += whole * whole;
    out.along += whole * target;
    if (const Law& law = view.sample().laws[i]; law.kind == Law::subset) {
      out.drawn += std::fabs(whole - law.hi) < std::fabs(whole - law.lo);
    }
    if (laws_.unknown == 0) continue;
    const std::array<double, kWeights> weights = {room.x[i], room.sharp[i], 1, sign(room.x[i]), room.size[i]};
    for (unsigned w = 0; w < kWeights; ++w) out.t[w] += weights[w] * view.error[i];
  }
  return out;
}

ErrorSums ErrorCheck::measure(uint64_t chunk, Room& room, const std::function<void()>& after_trial) const {
  const Range range = trials_.chunk(chunk);
  ErrorSums out, once;
  if (dither()) out.histogram.assign(kUniformityBins + 1, 0);
  if (keeps_messages()) out.messages.resize(static_cast<size_t>(trials_.count()));
  begin(chunk, room);
  for (uint64_t trial = 0; trial < trials_.count(); ++trial) {
    const ErrorView& view = room.current;
    room.current.load(trials_, trial, range, true);
    if (trial == 0) {
      room.sum.assign(view.size(), 0.0);
      room.weighted = room.sum;
      for (auto& side : room.sides) side.assign(is_balanced() ? view.size() : 0, 0);
    }
    if (view.new_laws()) {
      if (trial > 0) add_linear(room, out);
      out.laws_vary |= trial > 0;
      set_weights(room);
      once = law_sums(view, room);
    }
    if (out.parameters_fault.empty()) out.parameters_fault = view.sample().parameters_fault;
    if (out.decoder_fault.empty()) out.decoder_fault = view.sample().decoder_fault;
    if (out.transform_fault.empty()) out.transform_fault = view.sample().transform_fault;
    add_trial(range, trial, room, out);
    if (is_balanced()) count_sides(room);
    add_elsewhere(chunk, trial, room, out);
    out.add(once);
    after_trial();
  }
  add_linear(room, out);
  for (const double sum : room.sum) out.s2 += sum * sum;
  if (!out.laws_vary && trials_.count() > 1) judge_coordinates(range, room, out);
  if (is_balanced()) judge_balance(range, room, out);
  return out;
}

}  // namespace gradcodec
