// What verify tells: tables as tensors are done, a summary, or JSON.
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
  bool one_message = false;      // a file
  bool exact = false;            // the scheme promises every byte
};

enum class Telling : uint8_t { brief, normal, full, json };

class VerifyReport {
 public:
  // `tensors`: how many are to come. Few get a table each; many a line each, printed at the end, and a table if
  // something is broken. `brief`: only what is broken, and the summary; `full`: a table each, whatever their number.
  VerifyReport(VerifySubject subject, size_t tensors, Telling telling);

  // A .gradz file whose checks are all right, and where it is not written as this program writes it. `decoded`: all of
  // it was.
  void add_file(uint64_t bytes, size_t tensors, bool digests, bool decoded, const std::vector<Departure>& departures);

  void add(const TensorFindings& findings);
  void finish();       // the rest, and the summary
  void interrupted();  // the lines so far, if an error ends it all

  bool broken() const { return broken_count_ > 0; }
  bool decided() const;  // nothing is undecided, left out or unusual

 private:
  void count(const TensorFindings& findings);
  void print_lines();
  std::string verdict() const;
  std::vector<std::string> summary() const;
  std::string open_text() const;
  std::string found_text() const;

  VerifySubject subject_;
  Telling telling_;
  bool many_, first_ = true, is_file_ = false;
  std::string json_;  // kept back: an error must not leave half a document
  std::vector<std::vector<std::string>> lines_;
  std::vector<std::string> broken_, open_, left_out_;  // titles, the first few
  uint64_t broken_count_ = 0, undecided_ = 0, approximate_ = 0, left_out_count_ = 0, lines_left_out_ = 0;
  uint64_t tested_ = 0, by_raw_ = 0, values_ = 0, needed_ = 0, departures_ = 0;
  bool none_decides_ = false;
  double largest_slope_ = 0, largest_variance_ = 0;  // that could have been missed where that is decided
  double clipped_energy_ = 0, clipped_along_ = 0;    // the most that clipping moves
};

}  // namespace gradcodec
