// That verify finds what is broken, by the test that should find it, and finds nothing where nothing is.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <map>

#include "format/verify_support.h"
#include "mutants/half_dither.h"
#include "mutants/mutants.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kSeeds = 20;

VerifyOptions small_chunks(const Scheme& scheme, uint64_t seed) {
  VerifyOptions options = verify_options(scheme, quantizer_params(5), seed);
  options.compress.chunk_log2 = 12;
  return options;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Each finding's share of the seeds in which it was broken, and was the reason given.
struct Tally {
  std::map<std::string, int> broken, reasons;
  int caught = 0;  // seeds in which one of `allowed` was broken
  void add(const TensorFindings& tensor, const std::vector<std::string>& allowed) {
    bool any = false;
    for (const std::string& name : gradcodec::broken(tensor)) {
      ++broken[name];
      any |= holds(allowed, name);
    }
    caught += any;
    if (tensor.reason() != nullptr) ++reasons[tensor.reason()->name];
  }
  std::string text() const {
    std::string out = "reasons:";
    for (const auto& [name, count] : reasons) out += " " + name + " " + std::to_string(count);
    out += "; broken:";
    for (const auto& [name, count] : broken) out += " " + name + " " + std::to_string(count);
    return out;
  }
};

std::vector<float> random_signs_and_zeros(size_t n) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{17, 0}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = (words[i] & 1) == 0 ? 0.0F : (words[i] & 2) == 0 ? 0.5F : -0.5F;
  x[0] = 1;
  return x;
}

}  // namespace

TEST_CASE("every mutant is caught at every seed, by a test that should") {
  const std::vector<MemoryTensor> tensors = {{"w", gradient("fc1.weight", 100000)}};
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const size_t count = mutants(0).size();
    for (size_t number = 0; number < count; ++number) {
      const Mutant named = mutants(0)[number];
      if (!(dither == Dither::half ? named.half : named.subtractive)) continue;
      Tally tally;
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const Mutant mutant = mutants(seed)[number];
        const Quantizer scheme(mutant.name, dither, mutant.mutation);
        tally.add(verify(tensors, small_chunks(scheme, seed)).at(0), mutant.caught_by);
      }
      INFO(named.name << (dither == Dither::half ? ", half: " : ", subtractive: ") << tally.text());
      CHECK(tally.caught == kSeeds);
      WARN(named.name << (dither == Dither::half ? ", half: " : ", subtractive: ") << tally.text());
    }
  }
}

TEST_CASE("at the same seeds nothing is broken of the honest schemes") {
  const std::vector<MemoryTensor> tensors = {{"w", gradient("fc1.weight", 100000)}};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Scheme* scheme : {&half_dither_scheme(), find_scheme("dqsg")}) {
      const TensorFindings findings = verify(tensors, small_chunks(*scheme, seed)).at(0);
      INFO(scheme->name() << ", seed " << seed << ": " << joined(broken(findings)));
      CHECK(findings.reason() == nullptr);
      CHECK(finding(findings, "linear x").verdict == Verdict::kept);
    }
  }
}
