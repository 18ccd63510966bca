// How the findings of verify are told: tables and a summary for people, JSON for programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codec/checks/finding.h"
#include "format/canonical.h"

namespace gradcodec {

// What was asked, as the summary quotes it.
struct VerifySubject {
  std::string input, scheme;
  uint64_t trials = 1;
  double alpha = 0;
  std::optional<uint64_t> seed;  // none: nothing draws
};

class VerifyReport {
 public:
  // `tensors`: how many are to come. Few get a table each, many a line each and a table if something is broken; all get
  // one if `verbose`.
  VerifyReport(VerifySubject subject, size_t tensors, bool json, bool verbose);

  // A .gradz file whose checks are all right, and where it is not written as this program writes it.
  void add_file(uint64_t bytes, size_t tensors, bool digests, const std::vector<Departure>& departures);

  void add(const TensorFindings& findings);
  void finish();  // the summary

  bool broken() const { return broken_count_ > 0; }
  bool undecided() const { return undecided_ > 0; }
  bool canonical() const { return departures_ == 0; }

 private:
  void add_line(const TensorFindings& findings);
  void note_worst(const TensorFindings& findings);
  std::string summary() const;

  VerifySubject subject_;
  bool many_, json_, verbose_, first_ = true, is_file_ = false;
  std::vector<std::vector<std::string>> lines_;
  std::vector<std::string> broken_;  // "fc1.weight: linear x", the first few
  uint64_t broken_count_ = 0, undecided_ = 0, below_ = 0, tensors_ = 0, values_ = 0, needed_ = 0;
  uint64_t departures_ = 0;
  bool none_decides_ = false;
  std::string undecided_first_;
  double largest_slope_ = 0, largest_variance_ = 0;  // that could have been missed where nothing is undecided
};

}  // namespace gradcodec
