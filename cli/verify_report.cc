// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/numbers.h"
#include "cli/table.h"
#include "cli/verify_tables.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFewTensors = 8;
constexpr size_t kMaxLines = 100000;           // of one line a tensor
constexpr size_t kMaxNames = 5;                // that the summary gives
constexpr size_t kMaxJson = size_t{64} << 20;  // kept back

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const Finding& finding) {
  return {{"check", finding.name},
          {"promise", finding.promise},
          {"verdict", std::string(verdict_name(finding.verdict))},
          {"measured", number(finding.measured)},
          {"bound", number(finding.bound)},
          {"low", number(finding.low)},
          {"high", number(finding.high)},
          {"smallest", number(finding.smallest)},
          {"margin", number(finding.margin)},
          {"z", number(finding.z)},
          {"trials_needed", finding.trials_needed == 0 ? Json(nullptr) : Json(finding.trials_needed)},
          {"note", finding.note}};
}

Json json_of(const TensorFindings& f, bool one_message) {
  Json out = {{"tensor", f.tensor},
              {"stage", f.stage.empty() ? Json(nullptr) : Json(f.stage)},
              {"values", f.size},
              {"trials", f.trials},
              {"effective_values", number(f.effective)},
              {"norm", number(f.norm)},
              {"variance", number(f.variance)},
              {"resolution", number(f.resolution)},
              {"moved_by_clipping", number(f.moved)},
              {"bias_of_clipping", number(f.moved_along)}};
  const Finding* reason = f.reason();
  out["reason"] = reason == nullptr ? Json(nullptr) : Json(reason->name);
  out["cause"] = reason == nullptr ? Json(nullptr) : Json(cause_of(reason->name, one_message));
  out["checks"] = Json::array();
  for (const Finding& finding : f.findings) out["checks"].push_back(json_of(finding));
  return out;
}

// Bytes that are not UTF-8 cannot be in a name; control characters are escaped by the library.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void note(std::vector<std::string>& names, const std::string& name) {
  if (names.size() < kMaxNames) names.push_back(name);
}

std::string list_of(const std::vector<std::string>& names, uint64_t count) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text + (count > names.size() ? ", ..." : "");
}

std::string counted(uint64_t count, const std::string& noun) {
  return with_commas(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string percent(double part) { return short_number(100 * part, 2) + " %"; }

}  // namespace

VerifyReport::VerifyReport(VerifySubject subject, size_t tensors, Telling telling)
    : subject_(std::move(subject)), telling_(telling), many_(tensors > kFewTensors) {
  lines_.push_back(finding_heading());
  json_ = "{";
}

void VerifyReport::add_file(uint64_t bytes, size_t tensors, bool digests, bool decoded,
                            const std::vector<Departure>& departures) {
  is_file_ = true;
  departures_ = departures.size();
  Json list = Json::array();
  for (const Departure& d : departures) list.push_back({{"tensor", d.tensor}, {"place", d.place}, {"text", d.text}});
  json_ += R"("integrity": "proved", "digests": )" +
           std::string(!digests  ? "null"
                       : decoded ? R"("proved")"
                                 : R"("not covered")") +
           R"(, "departures": )" + dump(list) + ", ";
  if (telling_ == Telling::json) return;
  std::printf("%s: %s bytes, %s: every check is right%s; %s\n", escaped(subject_.input).c_str(),
              with_commas(bytes).c_str(), counted(tensors, "tensor").c_str(),
              !digests  ? ", it holds no digests"
              : decoded ? ", every digest too"
                        : ", and the digests of what was decoded",
              departures.empty() ? "in canonical form" : "not in canonical form, though every reader reads it:");
  for (const Departure& departure : departures) {
    std::printf("  %s%s: %s\n", departure.tensor.empty() ? "" : (escaped(departure.tensor) + ", ").c_str(),
                departure.place.c_str(), escaped(departure.text).c_str());
  }
  std::printf("\n");
}

void VerifyReport::add(const TensorFindings& findings) {
  count(findings);
  const bool broken = findings.reason() != nullptr;
  const bool raw = find_check(findings, "exact") != nullptr;
  if (telling_ == Telling::json) {
    json_ += std::string(first_ ? R"("tensors": [)" : ",") + "\n" + dump(json_of(findings, subject_.one_message));
    first_ = false;
    if (json_.size() > kMaxJson) {
      std::fwrite(json_.data(), 1, json_.size(), stdout);
      json_.clear();
    }
  } else if (broken || telling_ == Telling::full || (telling_ == Telling::normal && !many_ && !raw)) {
    print_findings(findings, telling_ == Telling::full, subject_.one_message);
  } else if (telling_ == Telling::normal && many_ && !raw) {
    if (lines_.size() <= kMaxLines) {
      lines_.push_back(finding_line(findings, subject_.one_message));
    } else {
      ++lines_left_out_;
    }
  }
}

void VerifyReport::count(const TensorFindings& findings) {
  const std::string title = finding_title(findings);
  if (const Finding* exact = find_check(findings, "exact")) {
    if (exact->verdict == Verdict::not_covered) {
      ++left_out_count_;
      note(left_out_, title);
    } else {
      ++by_raw_;
    }
  } else if (findings.stage.empty()) {
    ++tested_;
    values_ += findings.size;
  }
  if (const Finding* reason = findings.reason()) {
    ++broken_count_;
    note(broken_, title + " (" + reason->name + ")");
  }
  if (!std::isnan(findings.moved)) {
    clipped_energy_ = std::max(clipped_energy_, findings.moved);
    clipped_along_ = std::min(clipped_along_, findings.moved_along);
  }
  bool open = false;
  approximate_ += std::any_of(findings.findings.begin(), findings.findings.end(),
                              [](const Finding& finding) { return finding.verdict == Verdict::approximate; });
  for (const Finding& finding : findings.findings) {
    double* largest = finding.name == "linear x"   ? &largest_slope_
                      : finding.name == "variance" ? &largest_variance_
                                                   : nullptr;
    if (finding.verdict == Verdict::kept && largest != nullptr && findings.stage.empty()) {
      *largest = std::max(*largest, finding.smallest);
    }
    if (finding.verdict != Verdict::undecided) continue;
    open = true;
    none_decides_ |= finding.trials_needed == 0;
    needed_ = std::max(needed_, finding.trials_needed);
  }
  if (!open) return;
  ++undecided_;
  note(open_, title);
}

bool VerifyReport::decided() const { return verdict() == "kept" || (verdict() == "intact" && departures_ == 0); }

std::string VerifyReport::verdict() const {
  if (broken()) return "broken";
  if (is_file_ && tested_ + by_raw_ + left_out_count_ == 0) return "intact";
  if (tested_ == 0 && !(by_raw_ > 0 && (subject_.exact || is_file_))) return "nothing tested";
  return undecided_ > 0 || approximate_ > 0 || left_out_count_ > 0 || departures_ > 0 ? "undecided" : "kept";
}

std::string VerifyReport::open_text() const {
  if (undecided_ == 0) return "";
  std::string text = "undecided: " + counted(undecided_, "tensor") + " (" + list_of(open_, undecided_) + "); ";
  if (subject_.one_message) return text + "a file is one message: verify the dump, with --scheme and --trials";
  if (needed_ == 0) return text + "no practical number of trials decides";
  return text + "--trials " + std::to_string(needed_) + " would decide" + (none_decides_ ? " some" : "");
}

std::string VerifyReport::found_text() const {
  if (largest_slope_ == 0 && largest_variance_ == 0) return "";
  std::string text = "where decided, nine times in ten would have been found: ";
  if (largest_slope_ > 0) text += "a bias of " + percent(largest_slope_) + " along x";
  if (largest_variance_ > 0) {
    text += std::string(largest_slope_ > 0 ? ", " : "") + "a variance off by " + percent(largest_variance_);
  }
  return text;
}

// One to quote, and what belongs to it.
std::vector<std::string> VerifyReport::summary() const {
  std::string line = subject_.scheme;
  if (tested_ > 0) {
    line += " on " + counted(tested_, "tensor") + " (" + with_commas(values_) +
            " values), R = " + with_commas(subject_.trials) + ", alpha = " + short_number(subject_.alpha, 3);
  }
  if (subject_.seed) line += ", seed " + std::to_string(*subject_.seed);
  line += ": ";
  if (is_file_) line += departures_ == 0 ? "intact, canonical; " : "intact, not canonical; ";
  if (broken()) {
    line += "BROKEN in " + with_commas(broken_count_) + ": " + list_of(broken_, broken_count_);
  } else if (verdict() == "intact") {
    line += "--against DUMP tests its promises";
  } else if (verdict() == "nothing tested") {
    line += left_out_count_ > 0 ? "NOTHING COMPARED: the dump has no tensor of a name and type of the file's"
                                : "nothing to test: no tensor is coded by it";
  } else {
    line += verdict() == "kept" ? "kept" : "nothing broken, not all decided";
  }
  std::vector<std::string> out = {line};
  if (clipped_energy_ > 0) {
    out.push_back("this is of the clipped values: clipping moves up to " + percent(clipped_energy_) +
                  " of the energy, a bias of up to " + percent(clipped_along_) + " along x");
  }
  for (const std::string& text : {open_text(), broken() ? std::string() : found_text()}) {
    if (!text.empty()) out.push_back(text);
  }
  if (approximate_ > 0) {
    out.push_back("without a declared law: " + counted(approximate_, "tensor") +
                  ", of which numbers are approximate and decide nothing");
  }
  if (left_out_count_ > 0) {
    out.push_back("not compared: " + counted(left_out_count_, "tensor") + " (" + list_of(left_out_, left_out_count_) +
                  ")");
  }
  if (by_raw_ > 0) {
    out.push_back("by raw, byte for byte: " + counted(by_raw_, "tensor") +
                  (tested_ == 0 && !subject_.exact ? " (bfloat16 in two-byte integers? --as-bf16)" : ""));
  }
  return out;
}

void VerifyReport::print_lines() {
  if (lines_.size() == 1) return;
  print_table(lines_, 2);
  if (lines_left_out_ > 0) std::printf("and %s more\n", with_commas(lines_left_out_).c_str());
  std::printf("\n");
  lines_.resize(1);
}

void VerifyReport::interrupted() {
  if (telling_ != Telling::json) print_lines();
}

void VerifyReport::finish() {
  const std::vector<std::string> lines = summary();
  if (telling_ != Telling::json) {
    print_lines();
    for (size_t i = 0; i < lines.size(); ++i) std::printf("%s%s\n", i == 0 ? "" : "  ", lines[i].c_str());
    return;
  }
  std::string whole;
  for (const std::string& line : lines) whole += (whole.empty() ? "" : "; ") + line;
  if (first_) json_ += R"("tensors": [)";
  const Json rest = {{"input", subject_.input},
                     {"scheme", subject_.scheme},
                     {"trials", subject_.trials},
                     {"alpha", subject_.alpha},
                     {"seed", subject_.seed ? Json(*subject_.seed) : Json(nullptr)},
                     {"tensors_tested", tested_},
                     {"tensors_by_raw", by_raw_},
                     {"tensors_not_compared", left_out_count_},
                     {"verdict", verdict()},
                     {"summary", whole}};
  std::printf("%s\n], %s\n", json_.c_str(), dump(rest).substr(1).c_str());
}

}  // namespace gradcodec
