// SPDX-License-Identifier: Apache-2.0
#include "codec/registry.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

using namespace gradcodec;

namespace {

void refused(const char* text, const char* why) {
  INFO(text);
  try {
    parse_scheme(text);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::usage);
    CHECK_THAT(error.what(), Catch::Contains(why));
  }
}

Exit stored_refusal(const char* text) {
  try {
    parse_stored_scheme(text);
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace

TEST_CASE("a scheme's text is strict") {
  CHECK(parse_scheme("dqsg:levels=3").stored_text() == "dqsg:levels=3");
  CHECK(parse_scheme("dqsg:bucket=512,levels=5,clip=2.5").stored_text() == "dqsg:levels=5,bucket=512");
  CHECK(parse_scheme("dqsg:levels=5,bucket=0").stored_text() == "dqsg:levels=5");
  CHECK(parse_scheme("dither:nmse=1e-3").stored_text() == "dither");
  CHECK(std::get<double>(parse_scheme("dither:nmse=0.1").params.at("nmse")) == 0.1);
  refused("", "no scheme");
  refused("dqs", "raw, choose, dither, ");
  refused("dqsg", "needs 'levels=...'");
  refused("dqsg:", "KEY=VALUE");
  refused("dqsg:levels", "KEY=VALUE");
  refused("dqsg:levels=", "whole number from 3 to 65535");
  refused("dqsg:levels=4", "odd");
  refused("dqsg:levels=1", "3 to 65535");
  refused("dqsg:levels=65537", "3 to 65535");
  refused("dqsg:levels=03", "whole number");
  refused("dqsg:levels=3.0", "whole number");
  refused("dqsg:levels=99999999999999999999", "whole number");
  refused("dqsg:levels=3,", "KEY=VALUE");
  refused("dqsg:levels=3,levels=3", "twice");
  refused("dqsg:levels=3,bukket=1", "levels, bucket, clip");
  refused("dqsg:levels=3,clip=0", "'clip'");
  refused("dqsg:levels=3,bucket=-1", "'bucket'");
  refused("dqsg:levels=3,bucket=18446744073709551616", "'bucket'");
  refused(" dqsg:levels=3", "no scheme");
  refused("dither", "'nmse' or 'step'");
  refused("dither:nmse=0.1,step=2", "'nmse' or 'step'");
  refused("dither:nmse=0", "'nmse'");
  refused("dither:nmse=nan", "'nmse'");
  refused("dither:nmse=inf", "'nmse'");
  refused("dither:nmse=0,1", "'nmse'");
  refused("dither:nmse=1,1", "KEY=VALUE");
  refused("dither:nmse=0.1x", "'nmse'");
  refused("dither:step=1,bucket=5", "'bucket'");
  refused("raw:x=1", "no parameters");
  refused("memo/raw", "no scheme 'memo'");
  refused("raw/raw", "takes none behind it");
  refused("dqsg:levels=3/raw", "takes none behind it");
  refused("dqsg:levels=3/", "takes none behind it");
  refused("raw+raw", "stands alone");
}

TEST_CASE("a file's scheme text is canonical") {
  CHECK(stored_refusal("dqsg:levels=3") == Exit::ok);
  CHECK(stored_refusal("dither") == Exit::ok);
  CHECK(stored_refusal("dither:bucket=7") == Exit::ok);
  CHECK(stored_refusal("dqsg:bucket=512,levels=3") == Exit::bad_input);
  CHECK(stored_refusal("dqsg:levels=3,bucket=0") == Exit::bad_input);
  CHECK(stored_refusal("dqsg:levels=4") == Exit::bad_input);
  CHECK(stored_refusal("dither:nmse=0.1") == Exit::bad_input);
  CHECK(stored_refusal("dqsg:levels=3,clip=2") == Exit::bad_input);
  CHECK(stored_refusal("later:x=1") == Exit::unsupported);
  CHECK(stored_refusal("memo/dqsg:levels=3") == Exit::unsupported);
}

TEST_CASE("at most eight schemes stand over one another") {
  const auto stages = [](size_t count, const std::string& over) {
    std::string text;
    for (size_t i = 1; i < count; ++i) text += over + "/";
    return text;
  };
  const std::string eight = stages(8, "topk:k=50%") + "dqsg:levels=3";
  const std::string stored = stages(8, "topk") + "dqsg:levels=3";
  CHECK(parse_scheme(eight).stored_text() == stored);
  CHECK(stored_refusal(stored.c_str()) == Exit::ok);
  refused(("topk:k=50%/" + eight).c_str(), "9 stages");
  refused((stages(300, "topk:k=50%") + "sign").c_str(), "at most 8");
  refused((stages(300, "rotate") + "sign").c_str(), "300 stages");
  CHECK(stored_refusal(("topk/" + stored).c_str()) == Exit::unsupported);
  CHECK(stored_refusal((stages(200, "topk") + "sign").c_str()) == Exit::unsupported);
  CHECK(stored_refusal((stages(200, "topk") + "Sign").c_str()) == Exit::bad_input);
}

TEST_CASE("names and ids are unique, and each has its page and its test") {
  namespace fs = std::filesystem;
  const fs::path root = GRADCODEC_SOURCE_DIR;
  std::set<std::string_view> names;
  for (const Scheme* scheme : all_schemes()) {
    const std::string name(scheme->name());
    INFO(name);
    CHECK(names.insert(scheme->name()).second);
    CHECK(find_scheme(name) == scheme);
    CHECK(fs::exists(root / "codec/schemes" / (name + ".cc")));
    CHECK(fs::exists(root / "spec/schemes" / (name + ".md")));
    CHECK_FALSE(scheme->summary().empty());
    CHECK_FALSE(scheme->promises().empty());
    CHECK_FALSE(scheme->source().empty());
  }
  std::set<uint16_t> ids;
  for (const Coder* coder : all_coders()) {
    const std::string name(coder->name());
    INFO(name);
    CHECK(ids.insert(coder->id()).second);
    CHECK(find_coder(coder->id()) == coder);
    CHECK(find_coder(std::string_view(name)) == coder);
    CHECK(fs::exists(root / "spec/coders" / (name + ".md")));
    CHECK(fs::exists(root / "tests/codec/coders" / (name.substr(0, name.find('-')) + "_test.cc")));
  }
  CHECK(find_scheme("no such scheme") == nullptr);
}

TEST_CASE("globs match as a shell's, but * crosses slashes") {
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("fc?.weight", "fc1.weight"));
  CHECK(glob_matches("*weight", "a/b/c.weight"));
  CHECK(glob_matches("a*b*c", "axxbyybzzc"));
  CHECK_FALSE(glob_matches("a*b", "abc"));
  CHECK_FALSE(glob_matches("", "a"));
  CHECK_FALSE(glob_matches("a", ""));
  CHECK_FALSE(glob_matches("[a]", "a"));
  // No exponential time.
  CHECK_FALSE(glob_matches(std::string(50, '*') + "b", std::string(5000, 'a')));
}
