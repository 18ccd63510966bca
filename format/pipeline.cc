// What a message is, planned before it is written and understood before it is read; compressor.cc and decompressor.cc
// do the work.
//
// SPDX-License-Identifier: Apache-2.0
#include "format/pipeline.h"

#include <algorithm>

namespace gradcodec {
namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return glob_matches(p, name); });
}

bool takes_scheme(const TensorInfo& info, const CompressOptions& options) {
  if (!info.dtype.is_float() || info.size() < options.min_elements) return false;
  if (!options.include.empty() && !matches_any(options.include, info.name)) return false;
  return !matches_any(options.exclude, info.name);
}

// Whether anything in the message depends on its seed; nothing if a scheme is not known to this version.
std::optional<bool> draws(const Schema& schema) {
  bool any = false;
  for (const KnownScheme& scheme : parse_schemes(schema)) {
    if (scheme.choice.scheme == nullptr) return std::nullopt;
    any |= scheme.choice.draws();
  }
  return any;
}

}  // namespace

Schema plan_schema(const Source& source, const CompressOptions& options) {
  Schema schema;
  schema.chunk_log2 = options.chunk_log2;
  schema.origin = source.kind();
  const StoredScheme chosen = {options.scheme.stored_text(), options.coder_of(*options.scheme.scheme).id()};
  if (chosen.text.size() > kMaxSchemeText) {
    throw Error(Exit::usage, "the scheme's text takes " + std::to_string(chosen.text.size()) +
                                 " bytes in the file, which has room for " + std::to_string(kMaxSchemeText));
  }
  const StoredScheme raw = {"raw", options.coders.bytes->id()};
  for (const TensorInfo& info : source.tensors()) {
    const StoredScheme& scheme = takes_scheme(info, options) ? chosen : raw;
    const auto found = std::find(schema.schemes.begin(), schema.schemes.end(), scheme);
    schema.tensors.push_back({info, static_cast<uint32_t>(found - schema.schemes.begin())});
    if (found == schema.schemes.end()) schema.schemes.push_back(scheme);
  }
  return schema;
}

Message plan_message(const Schema& schema, const MessageId& id) {
  Message message;
  if (draws(schema).value()) message.seed = id.seed;
  message.worker = id.worker;
  message.step = id.step;
  message.digests = true;
  return message;
}

MessageId id_of(const Schema& schema, const Message& message) {
  if (draws(schema).value_or(message.seed.has_value()) != message.seed.has_value()) {
    throw Error(Exit::bad_input, message.seed ? "has a seed though no scheme of it draws random numbers"
                                              : "has no seed though a scheme of it draws random numbers");
  }
  return {message.seed.value_or(0), message.worker, message.step};
}

bool asks_for_set(const Schema& schema) {
  return std::any_of(schema.schemes.begin(), schema.schemes.end(), [](const StoredScheme& scheme) {
    return scheme.text == "at" || scheme.text.substr(0, 3) == "at/";
  });
}

uint64_t total_bytes(const Schema& schema) {
  uint64_t total = 0;
  for (const SchemaTensor& tensor : schema.tensors) {
    if (__builtin_add_overflow(total, tensor.info.byte_size(), &total)) return ~uint64_t{0};
  }
  return total;
}

std::vector<KnownScheme> parse_schemes(const Schema& schema) {
  std::vector<KnownScheme> out;
  for (const StoredScheme& scheme : schema.schemes) {
    KnownScheme known;
    known.coder = find_coder(scheme.coder);
    if (known.coder == nullptr) {
      known.problem = "coder " + std::to_string(scheme.coder) + " is not known to this version";
    }
    try {
      known.choice = parse_stored_scheme(scheme.text);
    } catch (const Error& error) {
      if (error.code() != Exit::unsupported) throw;
      known.problem = error.text();
    }
    out.push_back(std::move(known));
  }
  return out;
}

TensorPlan plan_of(const Schema& schema, const std::vector<KnownScheme>& schemes, const MessageId& id, size_t tensor,
                   uint64_t chunk_len) {
  const SchemaTensor& entry = schema.tensors[tensor];
  const KnownScheme& scheme = schemes[entry.scheme];
  return {entry.info, scheme.choice, scheme.coder, id, static_cast<uint32_t>(tensor), chunk_len};
}

TensorInfo output_info(const TensorInfo& info, const std::optional<DType>& dtype) {
  TensorInfo out = info;
  if (dtype && info.dtype.is_float()) out.dtype = *dtype;
  return out;
}

void check_claims(const InputStream& input, const Schema& schema) {
  const uint64_t frames = total_frames(schema);
  if (frames > input.left() / kFrameOverhead) {
    throw Error(Exit::bad_input, "is damaged or cut: its header speaks of " + std::to_string(frames) +
                                     " frames, for which " + std::to_string(input.left()) + " bytes are too few");
  }
}

void compare_digests(const Schema& schema, const DecompressOptions& options, std::span<const uint32_t> stored,
                     std::span<const uint32_t> decoded) {
  for (size_t i = 0; i < stored.size(); ++i) {
    if (options.wanted(schema.tensors[i].info) && stored[i] != decoded[i]) {
      throw Error(Exit::bad_input, "the decoded values are not those that were encoded: their digests differ")
          .in_tensor(schema.tensors[i].info.name);
    }
  }
}

}  // namespace gradcodec
