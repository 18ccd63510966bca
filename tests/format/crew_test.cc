// What --memory buys: threads and chunks, and nothing where a single chunk is too much.
// SPDX-License-Identifier: Apache-2.0
#include "format/crew.h"

#include <catch2/catch.hpp>

using namespace gradcodec;

namespace {

// One tensor of 16 chunks of 2^18 float32.
Schema schema_of(const std::string& scheme) {
  Schema schema;
  schema.schemes = {{scheme, 0}};
  schema.tensors = {{{"x", DType::parse("f4"), {uint64_t{1} << 22}}, 0}};
  return schema;
}

// Whether a chunk fits into this many bytes an element.
bool fits(const std::string& scheme, uint64_t bytes) {
  try {
    crew_for(schema_of(scheme), 1, bytes << 18, false);
    return true;
  } catch (const Error& error) {
    CHECK(error.code() == Exit::limit);
    return false;
  }
}

}  // namespace

TEST_CASE("no more threads than memory has chunks for") {
  const Schema schema = schema_of("dither");
  CHECK(crew_for(schema, 8, uint64_t{1} << 32, false).threads == 8);
  CHECK(crew_for(schema, 100, uint64_t{1} << 32, false).threads == 17);  // frames
  CHECK(crew_for(schema, 8, uint64_t{50} << 18, false).threads == 2);
}

TEST_CASE("stages that work in rooms of their own are counted, each") {
  CHECK(fits("dither", 24));
  CHECK_FALSE(fits("topk/dither", 24));
  CHECK(fits("topk/dither", 48));
  CHECK_FALSE(fits("randk/topk/dither", 48));
  CHECK(fits("randk/topk/dither", 72));
}
