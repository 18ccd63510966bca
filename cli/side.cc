// SPDX-License-Identifier: Apache-2.0
#include "cli/side.h"

#include <algorithm>
#include <cmath>

#include "cli/numbers.h"
#include "codec/number_text.h"
#include "codec/registry.h"

namespace gradcodec {
namespace {

// Four digits, not below `number`.
std::string rounded_up(double number) {
  const double enough = number * 1.001;
  return enough < 1000 ? short_number(enough, 4) : fixed(std::ceil(enough), 0);
}

// rho is at most what `fine` may be.
double most_classes() {
  const std::span<const ParamSpec> params = find_scheme("ndqsg")->params();
  return std::find_if(params.begin(), params.end(), [](const ParamSpec& spec) { return spec.name == "fine"; })->max;
}

std::string ndqsg_text(const SideFit& fit, double rho, double range, bool checked) {
  return "ndqsg:fine=" + fixed(rho, 0) + ",coarse=1,range=" + rounded_up(range) +
         (fit.alpha() == 1 ? "" : ",alpha=" + number_text(fit.alpha())) + (checked ? ",check=yes" : "");
}

}  // namespace

void SideArguments::declare(CLI::App& app, const std::string& help) {
  app.add_option("--side-info", path, help)->type_name("DUMP|GRADZ");
}

std::shared_ptr<SideInfo> SideArguments::open(std::string_view input, bool as_bf16, const CommonOptions& common) const {
  if (path.empty()) return nullptr;
  if (path == "-" && input == "-") throw Error(Exit::usage, "standard input cannot be the side information too");
  const std::shared_ptr<RandomFile> file = RandomFile::open(path);
  if (is_message(*file)) return SideInfo::from_message(file, common.thread_count(), common.memory_limit());
  std::vector<std::string> dropped;  // nobody asks for it
  try {
    return SideInfo::from_dump(file, open_source(file, {as_bf16, true}, &dropped));
  } catch (Error& error) {
    error.in_file(file->name());
    throw;
  }
}

std::shared_ptr<const IndexSet> open_set(const std::string& path, const CommonOptions& common) {
  if (path.empty()) return nullptr;
  return std::make_shared<const IndexSet>(read_index_set(path, common.thread_count(), common.memory_limit()));
}

void require_set(const std::string& scheme, bool given) {
  const bool answers = scheme == "at" || scheme.starts_with("at/");
  if (answers == given) return;
  throw Error(Exit::usage, answers ? "scheme '" + scheme + "' needs the index set that it answers: --at SET"
                                   : "--at is answered by scheme 'at' or 'at/...', not by '" + scheme + "'");
}

void require_side(const SchemeChoice& scheme, const std::string& text, bool given) {
  if (scheme.takes_side() == given) return;
  if (given) throw Error(Exit::usage, "--side-info is for schemes that take some (ndqsg), not for '" + text + "'");
  throw Error(Exit::usage, "scheme '" + text + "' needs side information: --side-info FILE, a dump or a message");
}

void require_side_taken(const Schema& schema) {
  for (const KnownScheme& scheme : parse_schemes(schema)) {
    if (scheme.choice.scheme != nullptr && scheme.choice.takes_side()) return;
  }
  throw Error(Exit::usage, "is decoded without side information: --side-info has no place here");
}

void require_values(const StoredMessage& message) {
  for (size_t i = 0; i < message.tensors(); ++i) {
    if (!message.lacks_side(i)) continue;
    throw Error(Exit::usage, "needs side information, or its values cannot be compared: --side-info FILE")
        .in_tensor(message.info(i).name);
  }
}

std::string share_text(uint64_t part, uint64_t whole) {
  const double percent = whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return with_commas(part) + " of " + with_commas(whole) + " values (" + short_number(percent, 3) + " %)";
}

std::string near_enough(const SideFit& fit, bool checked) {
  if (fit.rho() == 0) return "any";
  const std::string with_range =
      ndqsg_text(fit, fit.rho(), fit.range() * fit.least_range(), checked) + " (the same rho)";
  if (fit.least_rho() > most_classes()) return with_range;
  return ndqsg_text(fit, fit.least_rho(), fit.range() * fit.least_rho() / fit.rho(), checked) +
         " (the same fine step) or " + with_range;
}

bool is_checked(const SchemeChoice& scheme) {
  const auto check = scheme.params.find("check");
  return check != scheme.params.end() && value_text(check->second) == "yes";
}

}  // namespace gradcodec
