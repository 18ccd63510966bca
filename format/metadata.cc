// SPDX-License-Identifier: Apache-2.0
#include "format/metadata.h"

#include <algorithm>

#include "format/cbor.h"

namespace gradcodec {
namespace {

constexpr CborLimits kLimits{.size = size_t{16} << 20, .depth = 16};
constexpr unsigned kMaxUserDepth = 14;

// Brackets outside strings, so that the parser never sees a tower of them.
unsigned json_depth(std::string_view json) {
  unsigned depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Bytes metadata_block(std::string_view program, std::string_view json) {
  if (json.empty()) return {};
  const auto fail = [](const char* what) { throw Error(Exit::usage, std::string("--metadata ") + what); };
  if (json.size() > kLimits.size) fail("is larger than 16 MiB");
  if (json_depth(json) > kMaxUserDepth) fail("is nested too deep (14 levels are possible)");
  Cbor user = Cbor::parse(json, nullptr, false);
  if (user.is_discarded()) fail("is not JSON");
  Bytes block = write_cbor({{"program", std::string(program)}, {"user", std::move(user)}});
  if (block.size() > kLimits.size) fail("is larger than 16 MiB, as CBOR");
  return block;
}

std::string metadata_json(ByteView block) {
  const Cbor value = parse_cbor(block, "the METADATA block", kLimits);
  if (!value.is_object() || !value.contains("user") || !value.contains("program") || value.size() != 2 ||
      !value["program"].is_string()) {
    throw Error(Exit::bad_input, "the METADATA block is not {program, user}");
  }
  return value.dump(-1, ' ', true, Cbor::error_handler_t::replace);
}

}  // namespace gradcodec
