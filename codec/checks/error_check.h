// The errors of R messages of one tensor against their declared laws: the sums of every test of `verify`.
//
// A chunk is the unit of work: its R trials are coded in turn, sums over chunks are added in order, and nothing of R
// times the tensor's size is ever held. Chunks may be worked on by several threads, each with a room of its own.
//
//   survey(chunk) for all chunks, take(survey) in order;  then  measure(chunk), take(sums) in order;  then findings().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codec/checks/error_view.h"
#include "codec/checks/finding.h"
#include "codec/checks/overall_bias.h"
#include "codec/checks/tails.h"
#include "codec/promise.h"

namespace gradcodec {

inline constexpr unsigned kTestsPerTensor = 19;
inline constexpr unsigned kWeights = 5;  // of the linear tests
inline constexpr unsigned kLags = 8;     // of the dependence between elements
inline constexpr unsigned kLambdas = 3;  // of the e-process of the bias overall
inline constexpr size_t kUniformityBins = 4096;
// Edges lie at (k - this) / 4096, off every grid that a dither may have by mistake.
inline constexpr double kBinOffset = 0.381966;

struct CheckOptions {
  double level = 0;           // of one test of one tensor, in (0, 1): alpha / (19 T) for T tensors and stages
  double margin = 0.01;       // bias along x, as a part of it, that does not matter
  uint64_t messages = 100;    // whose mean is to gain from more of them
  bool knows_encoder = true;  // whether Sample::decoder_fault would be set
  std::string no_promise;     // why there is none, if set_promise is not called
  std::string outside;        // what elements outside the law mean, if not that a promise is broken
};

// Of one linear test, with weights w: t = sum of w e.
struct LinearSums {
  double t = 0, variance = 0, largest = 0, slack = 0;  // sum w^2 sigma^2; max |w| s; sum |w| eta, over trials
};

// Of squared errors, with weights w >= 0: Q = sum of w e^2, its expectation and variance, the largest a term may be
// above its mean, and what eta may add.
struct SquareSums {
  double q = 0, expected = 0, variance = 0, largest = 0, slack = 0;
};

// Of products of a z and the z a lag later: D, P, the expected P, what eta may add, the largest term, and how many.
struct LagSums {
  double d = 0, p = 0, expected_p = 0, slack = 0, largest = 0;
  uint64_t pairs = 0;
};

// An error that the law does not allow. Of a lattice vector: its length, and how long it may be.
struct SupportFault {
  uint64_t trial = 0, index = 0;
  double error = 0, step = 0;
  bool vector = false;
};

// Of an element whose error is as likely e as -e: how often it was above and below 0, which is odd.
struct Balance {
  double excess = 0;  // of one side over the other
  double bound = 0;   // what it may reach
  uint64_t index = 0;
  double share = 0;  // excess of how many
};

// What one message gives, where no law says how messages spread, or where each of them is promised something.
struct MessageSums {
  double e2 = 0, along = 0;             // ||e||^2 and <e, x>, e the whole of decoded - target, x the target
  double norm2 = 0;                     // ||x||^2
  double opposed = 0;                   // <S, e>, S the sum of the messages before it
  std::array<double, kWeights> t = {};  // sum of w e
  double variance = 0, bias2 = 0;       // of the laws that it has
  uint64_t drawn = 0;                   // elements of law `subset` that are in it
};

// What a chunk gives; adds up.
struct ErrorSums {
  std::array<double, 2 * kOverallMultiples.size()> log_w = {};  // for each lambda, and its negative
  double overall_slack = 0, overall_largest = 0;                // what eta may add to all D; the largest |S| s
  double norm2 = 0;                                             // of the targets, over trials
  double s2 = 0, e2 = 0;  // ||S||^2, S the sum of all trials' errors, and the sum of ||e||^2
  std::array<LinearSums, kWeights> linear;
  SquareSums square, square_by_size;
  std::array<LagSums, kLags + 1> pairs;  // the last: between tensors
  std::vector<uint64_t> histogram;       // of e / s + 1/2, in kUniformityBins + 1
  double resolution = 0;                 // max eta / s
  double coordinate = -1;                // how far the worst element is beyond its limit; at most 0 if none is
  uint64_t coordinate_index = 0;
  double coordinate_limit = 0, coordinate_spread = 0;  // largest limit of |S| / R, and largest sigma, in steps
  bool laws_vary = false;                              // from trial to trial
  std::optional<Balance> balance;                      // of the worst element
  std::optional<SupportFault> fault;                   // the first
  std::optional<uint64_t> first_outside;               // of any trial
  uint64_t outside = 0;                                // elements of all trials
  std::vector<MessageSums> messages;                   // empty, or one a trial
  std::string parameters_fault, decoder_fault, transform_fault;

  void add(const ErrorSums& other);
};

class ErrorCheck {
 public:
  // Buffers of one thread.
  struct Room {
    ErrorView current, other;
    std::vector<ErrorView> earlier;
    std::vector<double> sum, weighted;           // S, and what of it is in the linear sums
    std::array<std::vector<uint32_t>, 4> sides;  // how often an error was far above, above, below, far below 0
    std::vector<double> x, sharp, size;  // weights: x, x / max(sigma^2, s^2 / 16), |x|; 0 where there is no chance
  };

  // `trials` and `previous` (another tensor of the same messages, or null) outlive this.
  ErrorCheck(const Trials& trials, const ErrorCheck* previous, const CheckOptions& options);

  // What is promised beside the laws; the bounds that hold for the tensor are checked against it. Not called: the laws
  // alone are known.
  void set_promise(const Promise& promise) { promise_ = promise; }

  LawSums survey(uint64_t chunk, Room& room) const;
  void take(const LawSums& chunk);

  // `after_trial` is called after each.
  ErrorSums measure(uint64_t chunk, Room& room, const std::function<void()>& after_trial) const;
  void take(const ErrorSums& chunk) { sums_.add(chunk); }

  TensorFindings findings() const;

  const Trials& trials() const { return trials_; }
  const std::vector<uint64_t>& lags() const { return lags_; }  // up to 8, each below the size

 private:
  bool dither() const { return laws_.uniform(); }
  void choose_lags();
  bool keeps_messages() const;
  void begin(uint64_t chunk, Room& room) const;
  std::vector<uint64_t> earlier_chunks(uint64_t chunk) const;
  static void set_weights(Room& room);
  ErrorSums law_sums(const ErrorView& view, const Room& room) const;
  struct Overall;
  static void add_block(Block block, Room& room, Overall& overall, ErrorSums& out);
  void move_e_processes(const Overall& trial, ErrorSums& out) const;
  static void add_histogram(const ErrorView& view, Block block, ErrorSums& out);
  void add_lags(Block block, bool first_trial, const Room& room, ErrorSums& out) const;
  void add_trial(Range range, uint64_t trial, Room& room, ErrorSums& out) const;
  MessageSums message_sums(const Room& room, double opposed) const;
  void add_elsewhere(uint64_t chunk, uint64_t trial, Room& room, ErrorSums& out) const;
  static void add_linear(Room& room, ErrorSums& out);
  void judge_coordinates(Range range, const Room& room, ErrorSums& out) const;
  bool is_balanced() const { return promise_ && promise_->symmetric && laws_.unknown > 0; }
  static void count_sides(Room& room);
  void judge_balance(Range range, const Room& room, ErrorSums& out) const;
  const BinomialLimits& limits() const;

  const Trials& trials_;
  const ErrorCheck* previous_;
  CheckOptions options_;
  std::optional<Promise> promise_;
  std::vector<uint64_t> lags_;
  LawSums laws_;
  ErrorSums sums_;
  mutable std::once_flag limits_made_;
  mutable std::optional<BinomialLimits> limits_;
};

}  // namespace gradcodec
