// SPDX-License-Identifier: Apache-2.0
#include "cli/common.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>
#include <thread>

#include "cli/numbers.h"
#include "codec/kernels/kernels.h"
#include "codec/registry.h"
#include "format/dumps/tree.h"
#include "format/layout.h"

namespace gradcodec {

void CommonOptions::declare(CLI::App& app) {
  app.add_option("-T,--threads", threads, "threads; 0: one a core (the bytes are the same for any number)")
      ->type_name("N");
  app.add_option("--memory", memory, "most memory that a part of a file may ask for [4G]")->type_name("SIZE");
  app.add_flag("-q,--quiet", quiet, "say nothing but errors, and what is not private");
  app.add_flag("-v,--verbose", verbose, "say what the work is done with");
  app.add_flag("-k,--keep")->group("");  // as in zstd: inputs are always kept
}

unsigned CommonOptions::thread_count() const {
  const uint64_t count = parse_count(threads, "--threads", 0, 1024);
  return count == 0 ? std::max(1U, std::thread::hardware_concurrency()) : static_cast<unsigned>(count);
}

uint64_t CommonOptions::memory_limit() const { return parse_size(memory, "--memory"); }

void CommonOptions::say(std::string_view line) const {
  if (!quiet) warn(line);
}

void CommonOptions::warn(std::string_view line) const {
  std::fprintf(stderr, "gradcodec: %.*s\n", static_cast<int>(line.size()), line.data());
}

void CommonOptions::say_machine() const {
  if (verbose) say("kernels " + kernels::current_target() + ", " + std::to_string(thread_count()) + " threads");
}

bool is_wanted(const std::string& glob, const TensorInfo& info) {
  return glob.empty() || glob_matches(glob, info.name);
}

void require_match(const std::string& glob, const std::vector<TensorInfo>& tensors) {
  if (std::any_of(tensors.begin(), tensors.end(), [&](const TensorInfo& info) { return is_wanted(glob, info); }))
    return;
  if (glob.empty()) return;
  throw Error(Exit::usage, "no tensor is named like '" + escaped(glob) + "' (gradcodec info lists them)");
}

std::optional<DType> float_type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const DType::Code code : {DType::f2, DType::bf16, DType::f4, DType::f8}) {
    if (DType{code, ""}.name() == name) return DType{code, ""};
  }
  throw Error(Exit::usage, "--dtype takes f2, bf16, f4 or f8");
}

void say_what_stays(const CommonOptions& common, ByteView record) {
  if (record.empty()) return;
  const Tree tree = parse_tree(record);
  if (tree == Tree{}) return;
  common.say("left out, as only HDF5 holds them: attributes, empty groups, links, names of enums and of fields");
  for (const auto& [path, group] : tree.groups) {
    for (const Link& link : group.links) {
      if (link.kind != Link::Kind::dataset) continue;
      common.say("left out, as only HDF5 holds it: dataset '" +
                 escaped(path.empty() ? link.name : path + "/" + link.name) + "'");
    }
  }
}

std::unique_ptr<Source> open_dump(const std::shared_ptr<RandomFile>& file, const SourceOptions& options,
                                  const CommonOptions& common) {
  std::vector<std::string> dropped;
  std::unique_ptr<Source> source = open_source(file, options, &dropped);
  for (const std::string& what : dropped) common.say("left out: " + what);
  return source;
}

void require_apart(const std::vector<std::string>& outputs) {
  std::set<std::filesystem::path> seen;
  for (const std::string& output : outputs) {
    std::error_code failed;
    const std::filesystem::path place = std::filesystem::weakly_canonical(output, failed);
    if (output.empty() || seen.insert(failed ? std::filesystem::path(output) : place).second) continue;
    throw Error(Exit::usage,
                std::string(output == "-" ? "two outputs go to standard output" : "is two outputs at once") +
                    ": name another one")
        .in_file(output == "-" ? "standard output" : output);
  }
}

bool is_message(const RandomFile& file) {
  std::array<std::byte, kMagic.size()> head;
  if (file.size() < head.size()) return false;
  file.read_at(0, head);
  return std::equal(head.begin(), head.end(), std::as_bytes(std::span(kMagic)).begin());
}

}  // namespace gradcodec
