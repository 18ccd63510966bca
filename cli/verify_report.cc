// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/numbers.h"
#include "cli/table.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFewTensors = 8;
constexpr size_t kMaxLines = 100000;  // of one line a tensor
constexpr size_t kMaxBroken = 5;      // that the summary names

// How the most likely cause of a broken finding is put. A biased scheme trips other tests too: the first in this order
// of findings is the one that explains the rest.
std::string cause_of(const std::string& name) {
  if (name == "exact") return "the bytes are not carried as they are";
  if (name == "parameters") return "the encoder stores parameters that no encoder should";
  if (name == "decoder") return "encoder and decoder disagree";
  if (name == "overload") return "the stored scale is too small for the values";
  if (name == "support") return "the decoder works with another scale, or other random numbers, than the encoder";
  if (name == "variance bound" || name == "contraction") return "the scheme promises more than its parameters can keep";
  if (name == "bias overall" || name == "coordinate" || name.rfind("linear", 0) == 0) {
    return "rounding is biased, or messages or stages share random numbers";
  }
  if (name == "variance") return "the dither is not of the size that the law says";
  if (name.rfind("lag", 0) == 0) return "random numbers repeat, or depend on each other, at this distance";
  if (name == "between tensors") return "tensors share random numbers";
  if (name == "uniformity") return "the dither is not uniform";
  return "the size of the error depends on the value";
}

const Finding* find(const TensorFindings& findings, std::string_view name) {
  for (const Finding& finding : findings.findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

bool is_linear(const Finding& finding) { return finding.name.rfind("linear", 0) == 0 && finding.name != "linear x"; }
bool is_lag(const Finding& finding) { return finding.name.rfind("lag", 0) == 0; }

// Of the findings that `belongs` picks, the one to show for all: a broken one, else the one nearest to its bound.
template <typename Belongs>
const Finding* worst_of(const TensorFindings& findings, Belongs belongs) {
  const Finding* worst = nullptr;
  const auto nearness = [](const Finding& f) {
    if (f.verdict == Verdict::broken) return std::numeric_limits<double>::infinity();
    return std::isnan(f.measured) ? -1.0 : std::fabs(f.measured) / f.bound;
  };
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::not_covered || !belongs(finding)) continue;
    if (worst == nullptr || nearness(finding) > nearness(*worst)) worst = &finding;
  }
  return worst;
}

std::string verdict_text(const Finding& finding) {
  if (finding.verdict != Verdict::undecided) return std::string(verdict_name(finding.verdict));
  if (finding.trials_needed == 0) return "undecided: no practical R decides";
  return "undecided: R = " + with_commas(finding.trials_needed) + " would decide";
}

std::string interval_text(const Finding& finding) {
  if (std::isnan(finding.low)) return "";
  return "[" + short_number(finding.low, 4) + ", " + short_number(finding.high, 4) + "]";
}

std::string cell(double value) { return std::isnan(value) ? "" : short_number(value, 4); }

std::vector<std::string> row_of(const Finding& finding, const std::string& promise) {
  return {promise,
          verdict_text(finding),
          cell(finding.measured),
          cell(finding.bound),
          interval_text(finding),
          cell(finding.smallest),
          cell(finding.margin)};
}

std::string title_of(const TensorFindings& findings) {
  return escaped(findings.tensor) + (findings.stage.empty() ? "" : ", " + findings.stage);
}

std::string head_of(const TensorFindings& f) {
  std::string text = title_of(f) + ": " + with_commas(f.size) + " values, R = " + with_commas(f.trials);
  if (!std::isnan(f.variance) && f.norm > 0)
    text += ", variance / ||x||^2 " + short_number(f.variance / f.norm / f.norm, 4);
  if (!std::isnan(f.effective)) text += ", carried by " + with_commas(static_cast<uint64_t>(std::llround(f.effective)));
  if (!std::isnan(f.resolution)) text += ", resolution " + short_number(f.resolution, 2);
  if (!std::isnan(f.moved)) text += ", clipping moves " + short_number(f.moved, 3) + " of the energy";
  return text;
}

// What the tables leave out, by reason, and why what is broken is.
void print_notes(const TensorFindings& findings) {
  std::vector<std::pair<std::string, std::string>> reasons;  // and what they are reasons of
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::broken && !finding.note.empty()) {
      std::printf("broken: %s: %s\n", finding.promise.c_str(), escaped(finding.note).c_str());
    }
    if (finding.verdict != Verdict::not_covered) continue;
    const auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) { return reason.first == finding.note; });
    if (same == reasons.end()) {
      reasons.emplace_back(finding.note, finding.name);
    } else {
      same->second += ", " + finding.name;
    }
  }
  for (const auto& [reason, names] : reasons) {
    std::printf("not covered: %s (%s)\n", names.c_str(), escaped(reason).c_str());
  }
}

void print_findings(const TensorFindings& findings, bool all) {
  std::printf("%s\n", head_of(findings).c_str());
  std::vector<std::vector<std::string>> rows = {
      {"promise", "verdict", "measured", "bound", "interval", "smallest found", "margin"}};
  const Finding* linear = worst_of(findings, is_linear);
  const Finding* lag = worst_of(findings, is_lag);
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::not_covered) continue;
    const bool grouped = is_linear(finding) || is_lag(finding);
    if (all || !grouped) {
      rows.push_back(row_of(finding, finding.promise));
    } else if (&finding == linear || &finding == lag) {
      rows.push_back(row_of(finding, finding.promise + (&finding == lag ? ", worst" : ", worst of 4")));
    }
  }
  if (rows.size() > 1) print_table(rows, 2);
  print_notes(findings);
  std::printf("\n");
}

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

Json json_of(const TensorFindings& f) {
  Json out = {{"tensor", f.tensor},
              {"stage", f.stage.empty() ? Json(nullptr) : Json(f.stage)},
              {"values", f.size},
              {"trials", f.trials},
              {"effective_values", number(f.effective)},
              {"norm", number(f.norm)},
              {"variance", number(f.variance)},
              {"resolution", number(f.resolution)},
              {"moved_by_clipping", number(f.moved)}};
  const Finding* reason = f.reason();
  out["reason"] = reason == nullptr ? Json(nullptr) : Json(reason->name);
  out["cause"] = reason == nullptr ? Json(nullptr) : Json(cause_of(reason->name));
  out["checks"] = Json::array();
  for (const Finding& finding : f.findings) out["checks"].push_back(json_of(finding));
  return out;
}

// Bytes that are not UTF-8 cannot be in a name; control characters are escaped by the library.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

VerifyReport::VerifyReport(VerifySubject subject, size_t tensors, bool json, bool verbose)
    : subject_(std::move(subject)), many_(tensors > kFewTensors), json_(json), verbose_(verbose) {
  lines_.push_back({"tensor", "values", "variance", "bias along x", "variance ratio", "verdict"});
  if (json_) std::printf("{");
}

void VerifyReport::add_file(uint64_t bytes, size_t tensors, bool digests, const std::vector<Departure>& departures) {
  is_file_ = true;
  departures_ = departures.size();
  if (json_) {
    Json list = Json::array();
    for (const Departure& d : departures) list.push_back({{"tensor", d.tensor}, {"place", d.place}, {"text", d.text}});
    std::printf("\"integrity\": \"proved\", \"digests\": %s, \"departures\": %s, ", digests ? "\"proved\"" : "null",
                dump(list).c_str());
    return;
  }
  std::printf("%s: %s bytes, %s tensors: every check is right%s; %s\n", escaped(subject_.input).c_str(),
              with_commas(bytes).c_str(), with_commas(tensors).c_str(),
              digests ? ", every digest too" : "; it holds no digests",
              departures.empty() ? "in canonical form" : "not in canonical form, though every reader reads it:");
  for (const Departure& departure : departures) {
    std::printf("  %s%s: %s\n", departure.tensor.empty() ? "" : (escaped(departure.tensor) + ", ").c_str(),
                departure.place.c_str(), escaped(departure.text).c_str());
  }
  std::printf("\n");
}

void VerifyReport::add(const TensorFindings& findings) {
  note_worst(findings);
  if (json_) {
    std::printf("%s\n%s", first_ ? "\"tensors\": [" : ",", dump(json_of(findings)).c_str());
    first_ = false;
  } else if (verbose_ || !many_ || findings.reason() != nullptr) {
    print_findings(findings, verbose_);
    if (const Finding* reason = findings.reason()) {
      std::printf("%s is broken, by '%s': most likely %s.\n\n", title_of(findings).c_str(), reason->name.c_str(),
                  cause_of(reason->name).c_str());
    }
  } else if (lines_.size() < kMaxLines) {
    add_line(findings);
  }
}

void VerifyReport::add_line(const TensorFindings& f) {
  const Finding* slope = find(f, "linear x");
  const Finding* variance = find(f, "variance");
  const Finding* open = worst_of(f, [](const Finding& finding) { return finding.verdict == Verdict::undecided; });
  lines_.push_back({title_of(f), with_commas(f.size), f.norm > 0 ? cell(f.variance / f.norm / f.norm) : "",
                    slope == nullptr ? "" : cell(slope->measured), variance == nullptr ? "" : cell(variance->measured),
                    open == nullptr ? "kept" : verdict_text(*open)});
}

void VerifyReport::note_worst(const TensorFindings& findings) {
  if (findings.stage.empty()) {
    ++tensors_;
    values_ += findings.size;
  }
  if (const Finding* reason = findings.reason()) {
    if (++broken_count_ <= kMaxBroken) broken_.push_back(title_of(findings) + " (" + reason->name + ")");
  }
  bool open = false;
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::below_resolution) ++below_;
    if (finding.verdict == Verdict::kept && finding.name == "linear x") {
      largest_slope_ = std::max(largest_slope_, finding.smallest);
    }
    if (finding.verdict == Verdict::kept && finding.name == "variance") {
      largest_variance_ = std::max(largest_variance_, finding.smallest);
    }
    if (finding.verdict != Verdict::undecided) continue;
    open = true;
    none_decides_ |= finding.trials_needed == 0;
    needed_ = std::max(needed_, finding.trials_needed);
  }
  if (!open) return;
  if (undecided_++ == 0) undecided_first_ = title_of(findings);
}

std::string VerifyReport::summary() const {
  std::string text = subject_.scheme;
  if (tensors_ > 0) {
    text += " on " + with_commas(tensors_) + (tensors_ == 1 ? " tensor" : " tensors") + " (" + with_commas(values_) +
            " values), R = " + with_commas(subject_.trials) + ", alpha = " + short_number(subject_.alpha, 3);
  }
  if (subject_.seed) text += ", seed " + std::to_string(*subject_.seed);
  text += ": ";
  if (broken()) {
    text += "BROKEN in " + with_commas(broken_count_) + ": ";
    for (size_t i = 0; i < broken_.size(); ++i) text += (i == 0 ? "" : ", ") + broken_[i];
    return text + (broken_count_ > broken_.size() ? ", ..." : "");
  }
  if (is_file_) text += departures_ == 0 ? "intact, canonical; " : "intact, not canonical; ";
  if (is_file_ && tensors_ == 0) return text + "--against DUMP tests its promises";
  if (undecided()) {
    text += "nothing broken, " + with_commas(undecided_) + " undecided (" + undecided_first_ +
            (undecided_ > 1 ? ", ..." : "") + "); ";
    if (is_file_) return text + "it is one message: verify the dump with --scheme and --trials";
    if (needed_ > 0) text += "--trials " + std::to_string(needed_) + " would decide" + (none_decides_ ? " some" : "");
    if (needed_ == 0) text += "no practical number of trials decides";
  } else {
    text += "kept";
  }
  if (largest_slope_ > 0) {
    text += std::string(undecided() ? "; elsewhere" : ";") + " a bias of " + fixed(100 * largest_slope_, 2) +
            " % along x or more would have been found";
  }
  if (largest_variance_ > 0) text += ", a variance off by " + fixed(100 * largest_variance_, 2) + " %";
  return text;
}

void VerifyReport::finish() {
  const std::string line = summary();
  if (json_) {
    const Json verdict = broken() ? "broken" : undecided() ? "undecided" : "kept";
    const Json seed = subject_.seed ? Json(*subject_.seed) : Json(nullptr);
    if (first_) std::printf("\"tensors\": [");
    std::printf(
        "\n], \"input\": %s, \"scheme\": %s, \"trials\": %llu, \"alpha\": %s, \"seed\": %s, \"verdict\": %s, "
        "\"summary\": %s}\n",
        dump(subject_.input).c_str(), dump(subject_.scheme).c_str(), static_cast<unsigned long long>(subject_.trials),
        dump(subject_.alpha).c_str(), dump(seed).c_str(), dump(verdict).c_str(), dump(line).c_str());
    return;
  }
  if (lines_.size() > 1) {
    print_table(lines_, 1);
    std::printf("\n");
  }
  std::printf("%s\n", line.c_str());
}

}  // namespace gradcodec
