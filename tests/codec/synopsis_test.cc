// SPDX-License-Identifier: Apache-2.0
#include "codec/synopsis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "codec/registry.h"

using namespace gradcodec;

namespace {

const Scheme& named(std::string_view name) { return scheme_named(name); }

}  // namespace

TEST_CASE("parameters in short") {
  CHECK(short_params(named("raw")).empty());
  CHECK(short_params(named("qsgd")) == "s=N[,norm=l2|max][,bucket=N]");
  CHECK(short_params(named("terngrad")) == "[clip=F]");
  CHECK(short_params(named("drive")) == "[scale=unbiased|ls][,block=N][,shared=no|yes]");
  CHECK(short_params(named("topk")) == "k=N|N%[/SCHEME]");
  CHECK(short_params(named("multiscale")) == "[bits=N-N]");
  // One of two that are each optional has to be given.
  CHECK(short_params(named("dither")) == "nmse=F|step=F[,bucket=N][,steps=one|class]");
  CHECK(short_params(named("rotate")) == "[block=N][,shared=no|yes]/SCHEME");
}

TEST_CASE("every scheme has an example, of itself and no longer than need be") {
  for (const Scheme* scheme : all_schemes()) {
    const std::string text = example_of(*scheme);
    INFO(text);
    CHECK(parse_scheme(text).scheme == scheme);
  }
  CHECK(example_of(named("topk")).starts_with("topk:k="));
  CHECK(example_of(named("terngrad")) == "terngrad");
  CHECK(example_of(named("rotate")) == "rotate/qsgd:s=4");
  CHECK(example_of(named("dither")).find("step") == std::string::npos);
}

TEST_CASE("what is promised, in a word") {
  const std::map<std::string_view, std::string_view> known = {{"raw", "exact"},
                                                              {"tqsgd", "unbiased, clipped"},
                                                              {"dither", "unbiased"},
                                                              {"qsgd", "unbiased"},
                                                              {"randk", "unbiased"},
                                                              {"rotq", "unbiased"},
                                                              {"tnqsgd", "unbiased, clipped"},
                                                              {"sign", "contraction"},
                                                              {"bq", "unbiased, clipped"},
                                                              {"ndqsg", "unbiased, if near"},
                                                              {"onebit", "contraction"},
                                                              {"topk", "contraction"},
                                                              {"threshold", "biased, bounded"},
                                                              {"uniform", "biased, bounded"},
                                                              {"drive", "exact along x"},
                                                              {"eden", "exact along x"},
                                                              {"lowrank", "biased"},
                                                              {"rotate", "as below"},
                                                              {"shrink", "contraction"},
                                                              {"ef", "with memory"},
                                                              {"diana", "unbiased, with memory"}};
  for (const auto& [name, word] : known) {
    INFO(name);
    CHECK(promise_word(named(name)) == word);
  }
  // What is said in a word, the text says too.
  for (const Scheme* scheme : all_schemes()) {
    INFO(scheme->name());
    const std::string text(scheme->promises());
    const bool unbiased = promise_word(*scheme).starts_with("unbiased");
    if (unbiased && scheme->name() != "adaquant") CHECK(text.find("unbiased") != std::string::npos);
    if (!unbiased) CHECK(!text.starts_with("unbiased"));
  }
}

TEST_CASE("of two promises the lesser") {
  const std::vector<std::string_view> from_most = {
      "exact", "unbiased", "unbiased, clipped", "exact along x", "contraction", "biased, bounded", "biased"};
  for (size_t i = 0; i < from_most.size(); ++i) {
    for (size_t j = 0; j < from_most.size(); ++j) {
      CHECK(lesser_promise(from_most[i], from_most[j]) == from_most[std::max(i, j)]);
    }
  }
}
