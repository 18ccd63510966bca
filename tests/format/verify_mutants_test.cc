// That verify finds what is broken, by the test that should find it, and finds nothing where nothing is.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "format/verify_support.h"
#include "mutants/half_dither.h"
#include "mutants/mutants.h"
#include "mutants/shortest_choice.h"

using namespace gradcodec;

namespace {

const uint64_t kSeeds = usual_seeds();

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What verify said of one tensor at each of the seeds.
class Tally {
 public:
  explicit Tally(std::vector<std::string> allowed) : allowed_(std::move(allowed)) {}

  void add(const TensorFindings& tensor) {
    bool caught = false;
    for (const std::string& name : broken(tensor)) {
      ++broken_[name];
      caught |= holds(allowed_, name);
    }
    caught_ += caught;
    if (tensor.reason() == nullptr) return;
    ++reasons_[tensor.reason()->name];
    named_ += holds(allowed_, tensor.reason()->name);
  }

  uint64_t caught() const { return caught_; }  // seeds in which one of `allowed` was broken
  uint64_t named() const { return named_; }    // and was the reason given
  bool only() const {                          // nothing else was ever broken
    return std::all_of(broken_.begin(), broken_.end(), [&](const auto& entry) { return holds(allowed_, entry.first); });
  }

  std::string text() const {
    std::string out = "of " + std::to_string(kSeeds) + " seeds; reason:";
    for (const auto& [name, count] : reasons_) out += " " + name + " " + std::to_string(count);
    out += "; broken:";
    for (const auto& [name, count] : broken_) out += " " + name + " " + std::to_string(count);
    return out;
  }

 private:
  std::vector<std::string> allowed_;
  std::map<std::string, uint64_t> broken_, reasons_;
  uint64_t caught_ = 0, named_ = 0;
};

VerifyOptions options_for(const Scheme& scheme, uint64_t seed, uint8_t chunk_log2 = kDefaultChunkLog2) {
  VerifyOptions options = verify_options(scheme, quantizer_params(5), seed);
  options.compress.chunk_log2 = chunk_log2;
  return options;
}

// The last tensor's findings at each seed.
Tally run(const Quantizer& scheme, const std::vector<MemoryTensor>& tensors, std::vector<std::string> allowed,
          uint64_t trials = 64) {
  Tally tally(std::move(allowed));
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    VerifyOptions options = options_for(scheme, seed);
    options.trials = trials;
    tally.add(verify(tensors, options).back());
  }
  return tally;
}

std::vector<float> scaled(std::vector<float> x, float scale) {
  for (float& value : x) value *= scale;
  return x;
}

void check_mutants(Dither dither) {
  const std::vector<MemoryTensor> tensors = {{"w", gradient("fc1.weight", 100000)}};
  for (size_t number = 0; number < mutants(0).size(); ++number) {
    const Mutant named = mutants(0)[number];
    if (!(dither == Dither::half ? named.half : named.subtractive)) continue;
    const bool reused = named.name == "dither reused";  // with the length of a chunk
    Tally tally(named.caught_by);
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Quantizer scheme(named.name, dither, mutants(seed)[number].mutation);
      tally.add(verify(tensors, options_for(scheme, seed, reused ? 12 : kDefaultChunkLog2)).at(0));
    }
    INFO(named.name << ": " << tally.text());
    CHECK(tally.caught() == kSeeds);
    // Where errors repeat, sums have more variance than any law allows: other tests may come first.
    if (!reused) CHECK(tally.named() == kSeeds);
  }
}

// Of each two values one is 0, the other 1/2 or -1/2, at random; but the first is 2, so that of 5 levels a step is 1.
std::vector<float> halves_and_zeros(size_t n) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{17, 0}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n, 0.0F);
  for (size_t i = 0; i < n; i += 2) x[i + (words[i] & 1)] = (words[i] & 2) == 0 ? 0.5F : -0.5F;
  x[0] = 2;
  return x;
}

}  // namespace

TEST_CASE("every broken half-dithered quantizer is caught at every seed, by a test that should", "[slow]") {
  check_mutants(Dither::half);
}

TEST_CASE("every broken subtractive quantizer is caught at every seed, by a test that should", "[slow]") {
  check_mutants(Dither::subtractive);
}

TEST_CASE("at the same seeds nothing is broken of the honest schemes", "[slow]") {
  const std::vector<float> x = gradient("fc1.weight", 100000);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Scheme* scheme : {&half_dither_scheme(), find_scheme("dqsg")}) {
      // In one tensor, and in two of equal length.
      const std::vector<float> first(x.begin(), x.begin() + 50000), second(x.begin() + 50000, x.end());
      for (const std::vector<MemoryTensor>& tensors :
           {std::vector<MemoryTensor>{{"w", x}}, std::vector<MemoryTensor>{{"a", first}, {"b", second}}}) {
        for (const TensorFindings& findings : verify(tensors, options_for(*scheme, seed))) {
          INFO(scheme->name() << ", seed " << seed << ", tensor " << findings.tensor << ": "
                              << joined(broken(findings)));
          CHECK(findings.reason() == nullptr);
          CHECK(finding(findings, "linear x").verdict == Verdict::kept);
          CHECK(finding(findings, "support").verdict == Verdict::proved);
        }
      }
    }
  }
}

TEST_CASE("tensors that draw the same numbers are caught between tensors", "[slow]") {
  const std::vector<float> x = gradient("fc1.weight", 100000);
  const std::vector<MemoryTensor> tensors = {{"a", {x.begin(), x.begin() + 50000}},
                                             {"b", {x.begin() + 50000, x.end()}}};
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Tally tally = run(Quantizer("ordinal ignored", dither, ordinal_ignored()), tensors, {"between tensors"});
    INFO(tally.text());
    CHECK(tally.named() == kSeeds);
    CHECK(tally.only());
  }
}

TEST_CASE("the shortest of eight encodings is caught along x", "[statistical]") {
  const std::vector<MemoryTensor> tensors = {{"b", gradient("fc2.bias", 98)}};
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Quantizer scheme("shortest of eight", dither, shortest_of(8));
    const Tally tally = run(scheme, tensors, {"linear x"}, 2000);
    INFO(tally.text());
    CHECK(tally.caught() == kSeeds);
  }
}

TEST_CASE("the shortest of several choices is caught along x, and choose is not", "[statistical]") {
  const std::vector<MemoryTensor> tensors = {{"b", gradient("fc2.bias", 98)}};
  uint64_t caught = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Scheme* scheme : {&shortest_choice_scheme(), find_scheme("choose")}) {
      VerifyOptions options = verify_options(*scheme, {{"nmse", 0.5}}, seed);
      options.trials = 2000;
      const TensorFindings findings = verify(tensors, options).at(0);
      INFO(scheme->name() << ", seed " << seed << ": " << joined(broken(findings)));
      if (scheme == &shortest_choice_scheme()) {
        caught += holds(broken(findings), "linear x");
      } else {
        CHECK(findings.reason() == nullptr);
      }
    }
  }
  CHECK(caught == kSeeds);
}

TEST_CASE("rounding to a step that is not the one stored is caught", "[slow]") {
  // Scaled so that bfloat16 rounds the step down by 0.37 %, and up by 0.35 %.
  const std::vector<float> down = scaled(gradient("fc1.weight", 100000), 1.38F);
  const std::vector<float> up = scaled(gradient("fc1.weight", 100000), 1.37F);
  const Quantizer half("bfloat16 step", Dither::half, bfloat16_step());
  const Quantizer subtractive("bfloat16 step", Dither::subtractive, bfloat16_step());
  for (const Quantizer* scheme : {&half, &subtractive}) {
    const Tally tally = run(*scheme, {{"w", down}}, {"overload"});
    INFO(tally.text());
    CHECK(tally.named() == kSeeds);
  }
  const Tally beyond = run(subtractive, {{"w", up}}, {"support"});
  INFO(beyond.text());
  CHECK(beyond.named() == kSeeds);
  // Half-dithered, a few elements at the edge of their cell leave it, and there is a slope of a third of a percent,
  // less than 64 trials find.
  const Tally along = run(half, {{"w", up}}, {"linear x"}, 200);
  INFO(along.text());
  CHECK(along.caught() == kSeeds);
}

// On these values every error's law is symmetric, and the errors of all elements together are uniform: half of them are
// within a quarter of a step, the other half beyond.
TEST_CASE("a dither half as wide is caught by the variance against size alone, where sizes say where errors are",
          "[statistical]") {
  const Tally tally = run(Quantizer("narrow dither", Dither::subtractive, narrow_dither()),
                          {{"w", halves_and_zeros(100000)}}, {"var |x|"});
  INFO(tally.text());
  CHECK(tally.named() == kSeeds);
  CHECK(tally.only());
}

TEST_CASE("a dither of 8 bits is caught by uniformity alone, where values are zeros", "[statistical]") {
  std::vector<float> x(100000, 0.0F);
  x[0] = 1;
  const Tally tally = run(Quantizer("coarse dither", Dither::subtractive, coarse_dither()), {{"w", x}}, {"uniformity"});
  INFO(tally.text());
  CHECK(tally.named() == kSeeds);
  CHECK(tally.only());
}

TEST_CASE("one element of 65,536 that gets no dither is caught by its coordinate alone", "[slow]") {
  std::vector<float> x = gradient("fc1.weight", 100000);
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  x[65535] = 0.22F * largest;  // 0.44 steps
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Tally tally = run(Quantizer("last not dithered", dither, last_not_dithered()), {{"w", x}}, {"coordinate"});
    INFO(tally.text());
    CHECK(tally.named() == kSeeds);
    CHECK(tally.only());
  }
}

TEST_CASE("draws that start again in each bucket are caught at the bucket's distance") {
  const std::vector<MemoryTensor> tensors = {{"w", gradient("fc1.weight", 20000)}};
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Quantizer scheme("bucket restarts", dither, bucket_restarts());
    VerifyOptions options = verify_options(scheme, quantizer_params(5, 100), 1);
    const TensorFindings findings = verify(tensors, options).at(0);
    INFO(joined(broken(findings)));
    CHECK(finding(findings, "lag 100").verdict == Verdict::broken);
  }
}

TEST_CASE("an encoder that reports other values than are decoded is caught") {
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const TensorFindings findings =
        verify({{"w", gradient("fc3.weight")}}, options_for(Quantizer("misreports", dither, misreports()), 1)).at(0);
    CHECK(broken(findings) == std::vector<std::string>{"decoder"});
  }
}

TEST_CASE("an encoder that writes what its decoder refuses is caught, and the dump not blamed") {
  // dqsg, but for a decoder that takes no chunk, or no parameters.
  class Refusing final : public Scheme {
   public:
    explicit Refusing(bool parameters) : parameters_(parameters) {}
    std::string_view name() const override { return "refusing"; }
    std::span<const ParamSpec> params() const override { return dqsg().params(); }
    std::string_view summary() const override { return ""; }
    std::string_view promises() const override { return ""; }
    std::string_view source() const override { return ""; }
    bool draws() const override { return true; }
    void check(const Params&, bool) const override {}
    std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
      return dqsg().prepare(tensor, params, inputs);
    }
    std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
      if (parameters_) throw Error(Exit::bad_input, "takes no parameters");
      class Wrapped final : public Decoder {
       public:
        explicit Wrapped(std::unique_ptr<Decoder> inner) : inner_(std::move(inner)) {}
        Bytes stored() const override { return inner_->stored(); }
        std::optional<uint64_t> params_size(Range range) const override { return inner_->params_size(range); }
        StreamShapes streams(const Code& code, Range range) const override { return inner_->streams(code, range); }
        std::string describe() const override { return ""; }
        void decode(const Code&, Range, std::span<float>) const override {
          throw Error(Exit::bad_input, "takes no chunk");
        }
        void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
          inner_->laws(code, range, target, laws);
        }

       private:
        std::unique_ptr<Decoder> inner_;
      };
      return std::make_unique<Wrapped>(dqsg().restore(params, stored, inputs));
    }

   private:
    static const Scheme& dqsg() { return *find_scheme("dqsg"); }
    bool parameters_;
  };
  for (const bool parameters : {true, false}) {
    const TensorFindings findings = verify({{"w", gradient("fc3.weight")}}, options_for(Refusing(parameters), 1)).at(0);
    const Finding& fault = finding(findings, parameters ? "parameters" : "decoder");
    CHECK(fault.verdict == Verdict::broken);
    CHECK(findings.reason() == &fault);
    CHECK(fault.note.find(parameters ? "takes no parameters" : "takes no chunk") != std::string::npos);
  }
}

TEST_CASE("a bound that the variance passes is caught without chance") {
  const std::vector<MemoryTensor> tensors = {{"b", gradient("fc3.bias")}};
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Quantizer whole("whole", dither);
    const TensorFindings honest = verify(tensors, options_for(whole, 1)).at(0);
    CHECK(honest.reason() == nullptr);
    const double omega = honest.variance / (honest.norm * honest.norm);
    REQUIRE(omega < 1);
    const auto claiming = [&](double claim) {
      return broken(verify(tensors, options_for(Quantizer("claims", dither, overclaims(claim)), 1)).at(0));
    };
    CHECK(claiming(omega * 1.001).empty());
    CHECK(claiming(omega * 0.999) == std::vector<std::string>{"variance bound", "contraction"});
  }
}

TEST_CASE("a reciprocal is within what float32 may add: verify says so, the lattice tells") {
  for (const Dither dither : {Dither::half, Dither::subtractive}) {
    const Quantizer scheme("reciprocal", dither, reciprocal());
    VerifyOptions options = verify_options(scheme, quantizer_params(65535), 1);
    const TensorFindings findings = verify({{"w", gradient("fc1.weight")}}, options).at(0);
    INFO(joined(broken(findings)));
    CHECK(findings.reason() == nullptr);
  }
}

TEST_CASE("what is broken in the last part of a sum is found, and nothing in an honest one") {
  const std::vector<MemoryTensor> tensors = {{"w", gradient("fc1.weight", 100000)}};
  const auto sum_with = [](const Scheme& last) {
    SchemeChoice sum = parse_scheme("sign+terngrad");
    sum.rest = std::make_shared<const SchemeChoice>(SchemeChoice{.scheme = &last, .params = quantizer_params(5)});
    return sum;
  };
  const Mutant mutant = mutants(1).front();
  const Quantizer broken_one(mutant.name, mutant.half ? Dither::half : Dither::subtractive, mutant.mutation);
  VerifyOptions options = options_for(broken_one, 1);
  options.compress.scheme = sum_with(broken_one);
  bool found = false;
  for (const std::string& name : broken(verify(tensors, options).at(0))) found |= holds(mutant.caught_by, name);
  CHECK(found);
  options.compress.scheme = sum_with(half_dither_scheme());
  CHECK(broken(verify(tensors, options).at(0)).empty());
}
