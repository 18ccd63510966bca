// verify, run on tensors in memory or on the real gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "codec/registry.h"
#include "format/dumps/open.h"
#include "format/made_messages.h"
#include "format/verifier.h"

namespace gradcodec {

// At how many seeds a mutant has to be caught at each: a few, and where GRADCODEC_LONG is set many.
inline uint64_t usual_seeds() { return std::getenv("GRADCODEC_LONG") != nullptr ? 20 : 3; }

// The first `count` values (all, if it is 0) of a tensor of tests/data/fc.h5.
inline std::vector<float> gradient(const std::string& name, size_t count = 0) {
  const auto source = open_source(GRADCODEC_SOURCE_DIR "/tests/data/fc.h5", {}, nullptr);
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    if (source->tensors()[i].name != name) continue;
    std::vector<float> values(count == 0 ? source->tensors()[i].size() : count);
    source->open(i)->read({0, values.size()}, std::as_writable_bytes(std::span(values)));
    return values;
  }
  FAIL("no tensor " << name);
  return {};
}

inline VerifyOptions verify_options(const Scheme& scheme, const Params& params, uint64_t seed) {
  VerifyOptions options;
  options.compress.scheme = {&scheme, params};
  options.compress.coders = coders_for_level(1);
  options.compress.id.seed = seed;
  return options;
}

struct MemoryTensor {
  std::string name;
  std::vector<float> values;
};

inline std::vector<TensorFindings> verify(Source& source, const VerifyOptions& options) {
  Progress progress;
  std::vector<TensorFindings> out;
  verify_scheme(source, options, progress, [&](TensorFindings&& findings) { out.push_back(std::move(findings)); });
  return out;
}

inline std::vector<TensorFindings> verify(const std::vector<MemoryTensor>& tensors, const VerifyOptions& options) {
  MemorySource source;
  for (const MemoryTensor& tensor : tensors)
    source.add_values(tensor.name, "f4", {tensor.values.size()}, tensor.values);
  return verify(source, options);
}

inline std::vector<std::string> broken(const TensorFindings& tensor) {
  std::vector<std::string> names;
  for (const Finding& finding : tensor.findings) {
    if (finding.verdict == Verdict::broken) names.push_back(finding.name);
  }
  return names;
}

inline const Finding& finding(const TensorFindings& tensor, const std::string& name) {
  const auto found = std::find_if(tensor.findings.begin(), tensor.findings.end(),
                                  [&](const Finding& candidate) { return candidate.name == name; });
  if (found == tensor.findings.end()) FAIL("no finding " << name);
  return *found;
}

// "linear x, lag 1"
inline std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace gradcodec
