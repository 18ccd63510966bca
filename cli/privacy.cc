// SPDX-License-Identifier: Apache-2.0
#include "cli/privacy.h"

#include <cmath>

#include "cli/numbers.h"
#include "codec/checks/privacy.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMostClients = 1000000;

struct Question {
  double delta = 1e-6;
  uint64_t clients = 1;
  std::optional<double> distance;  // of neighbours, in the l2 norm; nothing: any change
};

Question question_of(const PrivacyArguments& args) {
  Question out;
  if (!args.delta.empty()) out.delta = parse_real(args.delta, "--delta", 1e-200, 1);
  if (!args.clients.empty()) out.clients = parse_count(args.clients, "--clients", 1, kMostClients);
  if (!args.distance.empty()) out.distance = parse_real(args.distance, "--distance", 0, 1e300);
  return out;
}

std::string one_value_text(uint64_t trials, double shift, double delta) {
  const double epsilon = exact_epsilon(trials, static_cast<uint64_t>(shift), delta);
  if (!std::isinf(epsilon)) return "epsilon " + short_number(epsilon, 4);
  return "none (epsilon infinite): there are sums of more than this delta that one of two neighbours alone can give";
}

std::string theorem_text(uint64_t trials, uint64_t values, const Sensitivity& moved, double delta) {
  const BinomialNoise noise{trials};
  if (const auto epsilon = theorem_epsilon(noise, values, moved, delta)) return "epsilon " + short_number(*epsilon, 4);
  // Its condition is met by a certain number of trials, of an epsilon however large.
  const auto needed = theorem_trials(noise, values, moved, delta, 1e300);
  std::string text = "none: the theorem asks for more noise";
  if (needed) text += ", m times --clients of " + with_commas(*needed) + " or more";
  return text;
}

std::string noise_text(const Release& release, const Question& question) {
  std::string text = "noise of " + with_commas(question.clients) + (question.clients == 1 ? " client" : " clients") +
                     ", Bin(" + with_commas(release.trials * question.clients) + ", 1/2) a value";
  if (question.clients > 1) text += ", if all add theirs and nothing but the sum of their integers is seen";
  return text;
}

std::string neighbours_text(const Release& release, const Question& question) {
  const std::string levels = with_commas(uint64_t{release.intervals} + 1) + " levels a value";
  if (!question.distance) return "one client's whole update against any other, " + levels;
  return "one client's updates at most " + short_number(*question.distance, 6) +
         " apart in the l2 norm, which nothing here enforces, " + levels;
}

struct Coverage {
  uint64_t values = 0, raw = 0;  // elements by the scheme; tensors that are not
};

Coverage coverage_of(const Schema& schema, const std::string& text) {
  Coverage out;
  for (const SchemaTensor& tensor : schema.tensors) {
    if (schema.schemes[tensor.scheme].text == text) {
      out.values += tensor.info.size();
    } else {
      ++out.raw;
    }
  }
  return out;
}

}  // namespace

void PrivacyArguments::declare(CLI::App& app) {
  app.add_option("--delta", delta, "of a private scheme's epsilon, delta that it is said for [1e-6]")->type_name("X");
  app.add_option("--clients", clients, "likewise, how many clients' noise the sum has that is seen [1]")
      ->type_name("N");
  app.add_option("--distance", distance, "likewise, how far apart neighbours are in the l2 norm [anything within clip]")
      ->type_name("X");
}

void PrivacyArguments::check(const SchemeChoice& choice) const {
  question_of(*this);
  if (!choice.is_private() && !(delta.empty() && clients.empty() && distance.empty())) {
    throw Error(Exit::usage, "--delta, --clients and --distance are for a scheme that is private: bq");
  }
}

void say_privacy(const CommonOptions& common, const PrivacyArguments& args, const SchemeChoice& choice,
                 const Schema& schema) {
  if (!choice.is_private()) return;
  const Release release = choice.scheme->release(choice.params);
  const Coverage coverage = coverage_of(schema, choice.stored_text());
  if (!release.secret) {
    common.warn("NOT PRIVATE: the noise is made for tests, and whoever knows the seed can subtract it");
    return;
  }
  if (coverage.raw > 0) {
    common.warn("NOT PRIVATE: " + with_commas(coverage.raw) + " tensors of the file are as they were, by raw or so");
  }
  if (coverage.values == 0) return;
  const Question question = question_of(args);
  const uint64_t trials = release.trials * question.clients;
  const auto moved = [&](uint64_t d) {
    return question.distance ? replaced_within(d, release.intervals, release.step, *question.distance)
                             : replaced_by_any(d, release.intervals);
  };
  common.say("privacy of the " + with_commas(coverage.values) + " values by bq, delta " +
             short_number(question.delta, 6) + ", for this one message (T messages: at most T epsilon, T delta):");
  common.say("  " + noise_text(release, question));
  common.say("  neighbours: " + neighbours_text(release, question));
  common.say("  all values together, by theorem 1 of cpSGD: " +
             theorem_text(trials, coverage.values, moved(coverage.values), question.delta));
  common.say("  one value alone, exactly: " + one_value_text(trials, moved(1).max, question.delta));
}

}  // namespace gradcodec
