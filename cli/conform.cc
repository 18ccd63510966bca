// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/command_template.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/process.h"
#include "cli/table.h"
#include "cli/vectors.h"
#include "format/crew.h"
#include "format/dump_difference.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOwnDecoder =
    "/proc/self/exe decompress {in} -q -T1 -o {out} [--schema {schema}] [--side-info {side}] [--at {at}] "
    "[--state {state}] [--top {top}] [--dtype {dtype}]";
constexpr int kSignalOfShell = 128;  // what a shell adds to the signal that ended its command

struct ConformArguments {
  std::string folder, decoder, only, jobs = "0", timeout = "10";
  bool json = false, any_code = false, partial = false, quiet = false;
};

enum class Verdict { passed, failed, skipped };
constexpr std::array<const char*, 3> kVerdicts = {"pass", "FAIL", "skipped"};

struct Result {
  Verdict verdict = Verdict::passed;
  std::string why;
};

Result failed(const std::string& why) { return {Verdict::failed, why}; }

std::string ending_text(const Ending& ending) {
  switch (ending.how) {
    case Ending::How::timed_out:
      return "it had not ended in time";
    case Ending::How::signalled:
      return "signal " + std::to_string(ending.number) + " (" + strsignal(ending.number) + ")";
    case Ending::How::exited:
      break;
  }
  return "exit code " + std::to_string(ending.number);
}

std::string with_said(const std::string& why, const Ending& ending) {
  return ending.said.empty() ? why : why + "; it said: " + escaped(ending.said);
}

bool failed_cleanly(const Ending& ending) {
  return ending.how == Ending::How::exited && ending.number > 0 && ending.number <= kSignalOfShell;
}

Result judge_refusal(const Vector& vector, const Ending& ending, bool output, bool any_code) {
  const bool right = ending.how == Ending::How::exited && ending.number == vector.exit;
  if (!right && !(any_code && failed_cleanly(ending))) {
    const std::string wanted = any_code ? "a failure" : "exit code " + std::to_string(vector.exit);
    return failed(with_said(ending_text(ending) + ", expected " + wanted, ending));
  }
  if (output) return failed(ending_text(ending) + ", but an output was written");
  return {};
}

Result judge_output(const Vector& vector, const Ending& ending, const std::string& output) {
  if (ending.how != Ending::How::exited || ending.number != 0) {
    return failed(with_said(ending_text(ending) + ", expected exit code 0", ending));
  }
  if (std::filesystem::exists(output) && !std::filesystem::is_regular_file(output)) {
    return failed("the output is no file");  // reading a pipe or a device may never end
  }
  const std::unique_ptr<Source> expected = open_source(vector.expected, {}, nullptr);
  try {
    const std::string differs = first_difference(*expected, *open_source(output, {}, nullptr));
    return differs.empty() ? Result{} : failed(differs);
  } catch (const Error& error) {
    return failed("the output cannot be read: " + error.text());
  }
}

class Conformance {
 public:
  explicit Conformance(const ConformArguments& args)
      : any_code_(args.any_code),
        partial_(args.partial),
        timeout_(1000 * parse_count(args.timeout, "--timeout", 1, 86400)),
        decoder_(args.decoder.empty() ? kOwnDecoder : args.decoder, names()) {
    for (const char* name : {"in", "out"}) {
      if (decoder_.has_outside(name)) continue;
      throw Error(Exit::usage, std::string("the command of --decoder has no {") + name + "}");
    }
  }

  // `number`: of the vector among all, for its files.
  Result test(const Vector& vector, size_t number) const {
    const std::filesystem::path folder = std::filesystem::path(scratch_.path()) / std::to_string(number);
    CommandTemplate::Values values = {vector.inputs.begin(), vector.inputs.end()};
    values["out"] = folder / "out.npz";
    if (const std::optional<std::string> lacking = decoder_.lacks(values)) {
      const bool needed = vector.inputs.contains(*lacking);
      return {Verdict::skipped, needed ? "needs {" + *lacking + "}, which the command has not"
                                       : "has no {" + *lacking + "}, which the command needs"};
    }
    std::filesystem::create_directory(folder);
    if (const auto state = values.find("state"); state != values.end()) {  // decoders replace it
      std::filesystem::copy_file(state->second, folder / "state");
      state->second = folder / "state";
    }
    const Ending ending = run_process(decoder_.fill(values), folder / "stderr", timeout_);
    const Result result = judge(vector, ending, values["out"]);
    std::filesystem::remove_all(folder);
    return result;
  }

 private:
  Result judge(const Vector& vector, const Ending& ending, const std::string& output) const {
    const bool decoded = ending.how == Ending::How::exited && ending.number == 0;
    const bool unsupported = ending.how == Ending::How::exited && ending.number == static_cast<int>(Exit::unsupported);
    if (partial_ && unsupported && vector.exit != ending.number && !std::filesystem::exists(output)) {
      return {Verdict::skipped, with_said("the decoder does not support it", ending)};
    }
    const bool expects_dump = vector.exit == 0 || (decoded && !vector.expected.empty());
    if (expects_dump) return judge_output(vector, ending, output);
    return judge_refusal(vector, ending, std::filesystem::exists(output), any_code_);
  }

  static std::vector<std::string> names() {
    std::vector<std::string> out = vector_inputs();
    out.insert(out.begin() + 1, "out");
    return out;
  }

  bool any_code_, partial_;
  std::chrono::milliseconds timeout_;
  CommandTemplate decoder_;
  PrivateFolder scratch_;
};

struct Totals {
  std::array<uint64_t, kVerdicts.size()> counts = {};

  explicit Totals(const std::vector<Result>& results) {
    for (const Result& result : results) ++counts[static_cast<size_t>(result.verdict)];
  }
  uint64_t of(Verdict verdict) const { return counts[static_cast<size_t>(verdict)]; }
};

const char* word_of(const Result& result) { return kVerdicts[static_cast<size_t>(result.verdict)]; }

void print_results(const std::vector<Vector>& vectors, const std::vector<Result>& results, bool failures_only) {
  std::vector<std::vector<std::string>> rows = {{"vector", "result", "why"}};
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (failures_only && results[i].verdict != Verdict::failed) continue;
    const std::string shows = vectors[i].shows.empty() ? "" : " (" + escaped(vectors[i].shows) + ")";
    rows.push_back({escaped(vectors[i].name), word_of(results[i]),
                    results[i].verdict == Verdict::failed ? results[i].why + shows : results[i].why});
  }
  if (rows.size() > 1) print_table(rows, 3);
  const Totals totals(results);
  std::printf("%s passed, %s failed, %s skipped\n", with_commas(totals.of(Verdict::passed)).c_str(),
              with_commas(totals.of(Verdict::failed)).c_str(), with_commas(totals.of(Verdict::skipped)).c_str());
}

void print_json(const std::vector<Vector>& vectors, const std::vector<Result>& results) {
  Json rows = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    Json row = {{"name", vectors[i].name}, {"shows", vectors[i].shows}, {"result", word_of(results[i])}};
    if (!results[i].why.empty()) row["why"] = results[i].why;
    rows.push_back(std::move(row));
  }
  const Totals totals(results);
  const Json out = {{"kind", "conform"},
                    {"passed", totals.of(Verdict::passed)},
                    {"failed", totals.of(Verdict::failed)},
                    {"skipped", totals.of(Verdict::skipped)},
                    {"vectors", std::move(rows)}};
  std::printf("%s\n", out.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int run_vectors(const ConformArguments& args) {
  CommonOptions common;
  common.threads = args.jobs;
  const std::vector<Vector> vectors = read_vectors(args.folder, args.only);
  std::vector<Result> results(vectors.size());
  {
    const KeptSignals kept;
    const Conformance conformance(args);
    size_t next = 0;
    const auto make = [&](size_t& item) {
      item = next++;
      return item < vectors.size();
    };
    const auto work = [&](const size_t& item) {
      in_file(args.folder + "/" + vectors[item].name, [&] { results[item] = conformance.test(vectors[item], item); });
    };
    const unsigned jobs = common.thread_count();
    run_ordered<size_t>(jobs, jobs, make, work, [](size_t&) {});
  }
  if (args.json) {
    print_json(vectors, results);
  } else {
    print_results(vectors, results, args.quiet);
  }
  return static_cast<int>(Totals(results).of(Verdict::failed) > 0 ? Exit::check_failed : Exit::ok);
}

// A file of a vector is missing, or a decoder did more than write its output.
int run_conform(const ConformArguments& args) {
  try {
    return run_vectors(args);
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(Exit::io, "cannot be used: " + error.code().message()).in_file(error.path1().string());
  }
}

}  // namespace

Command add_conform(CLI::App& root) {
  auto args = std::make_shared<ConformArguments>();
  CLI::App& app = *root.add_subcommand("conform", "whether a decoder gives what the conformance vectors say");
  app.add_option("folder", args->folder, "the vectors: spec/vectors")->type_name("FOLDER")->required();
  app.add_option("--decoder", args->decoder, "its command [gradcodec decompress]")->type_name("COMMAND");
  app.add_option("--only", args->only, "only vectors named like this GLOB")->type_name("GLOB");
  app.add_option("-j,--jobs", args->jobs, "decoders at a time; 0: one a core [0]")->type_name("N");
  app.add_option("--timeout", args->timeout, "seconds that a decoder may take for a vector [10]")->type_name("SECONDS");
  app.add_flag("--any-code", args->any_code, "of a file to be refused, take any exit code that is a failure");
  app.add_flag("--partial", args->partial, "skip what the decoder refuses as unsupported, by exit code 6");
  app.add_flag("--json", args->json, "for programs");
  app.add_flag("-q,--quiet", args->quiet, "list only what failed");
  app.footer(
      "The command is split into words as a shell does it, and no shell is run. In its words {in} is the file, {out} "
      "the\n"
      ".npz to be written, and what else a vector may need {schema}, {side} (side information), {at} (an index set),\n"
      "{state} (a copy of it), {top} (a number) and {dtype}. Words in [ ] are left out where a vector has not what "
      "they\n"
      "name. A vector that needs what the command does not name is skipped.\n"
      "A decoder of some schemes and coders ends with exit code 6 for the other files: --partial skips these vectors.\n"
      "Exit code 1 if a vector failed. A file to be refused needs its exit code, and no output.\n"
      "Examples:\n"
      "  gradcodec conform spec/vectors\n"
      "  gradcodec conform spec/vectors --only '*-dqsg-*' --any-code --decoder 'mydecoder {in} -o {out} [--schema "
      "{schema}]'");
  return {&app, [args] { return run_conform(*args); }};
}

}  // namespace gradcodec
