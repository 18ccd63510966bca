// What a message is, planned before it is written and understood before it is read; compressor.cc and decompressor.cc
// do the work.
//
// SPDX-License-Identifier: Apache-2.0
#include "format/pipeline.h"

#include <algorithm>

#include "codec/summable.h"

namespace gradcodec {
namespace {

constexpr const char* kLikelySide =
    "; most likely the side information is another one than it was coded for, or too far from the values";

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

// Whether a scheme takes side information, or is not known to this version.
bool may_take_side(const Schema& schema) {
  const std::vector<KnownScheme> schemes = parse_schemes(schema);
  return std::any_of(schemes.begin(), schemes.end(), [](const KnownScheme& scheme) {
    return scheme.choice.scheme == nullptr || scheme.choice.takes_side();
  });
}

void check_masks(const Schema& schema) {
  for (const SchemaTensor& tensor : schema.tensors) {
    const std::string& text = schema.schemes[tensor.scheme].text;
    if (text == "mask") continue;
    throw Error(Exit::bad_input, "an index set's tensors go by 'mask', not by '" + text + "'")
        .in_tensor(tensor.info.name);
  }
}

}  // namespace

bool has_sum(std::string_view text) {
  while (true) {
    const size_t end = text.find('/');
    if (text.substr(0, std::min(end, text.find(':'))) == kSumScheme) return true;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
}

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

const Scheme* memory_of(const std::vector<KnownScheme>& schemes) {
  const Scheme* memory = nullptr;
  for (const KnownScheme& known : schemes) {
    if (known.choice.scheme == nullptr || !known.choice.remembers()) continue;
    if (memory != nullptr && memory != known.choice.scheme) {
      throw Error(Exit::bad_input, "has two kinds of memory, " + std::string(memory->name()) + " and " +
                                       std::string(known.choice.scheme->name()));
    }
    memory = known.choice.scheme;
  }
  return memory;
}

bool needs_memory(const Message& message, const SchemeChoice& scheme) {
  return scheme.scheme != nullptr && scheme.scheme->decoder_remembers() && message.previous.value_or(0) != 0;
}

Message plan_message(const Schema& schema, const MessageId& id, uint64_t previous) {
  Message message;
  if (memory_of(parse_schemes(schema)) != nullptr) message.previous = previous;
  if (draws(schema).value()) message.seed = id.seed;
  message.worker = id.worker;
  message.step = id.step;
  message.digests = true;
  return message;
}

MessageId id_of(const Schema& schema, const Message& message, FileKind kind) {
  if (kind == FileKind::state) return {};
  const std::vector<KnownScheme> schemes = parse_schemes(schema);
  const bool known =
      std::all_of(schemes.begin(), schemes.end(), [](const KnownScheme& s) { return s.choice.scheme != nullptr; });
  const bool remembers = memory_of(schemes) != nullptr;
  if ((known || remembers) && remembers != message.previous.has_value()) {
    throw Error(Exit::bad_input, remembers
                                     ? "does not say which message came before, which a scheme that remembers needs"
                                     : "says which message came before, though no scheme of it remembers");
  }
  if (draws(schema).value_or(message.seed.has_value()) != message.seed.has_value()) {
    throw Error(Exit::bad_input, message.seed ? "has a seed though no scheme of it draws random numbers"
                                              : "has no seed though a scheme of it draws random numbers");
  }
  if (message.side && !may_take_side(schema) && !asks_for_set(schema)) {
    throw Error(Exit::bad_input, "has a digest of side information though no scheme of it takes some");
  }
  return {message.seed.value_or(0), message.worker, message.step};
}

void check_holds_tensors(FileKind kind, const Schema& schema) {
  if (kind == FileKind::schema) {
    throw Error(Exit::usage, "is a schema file, which holds no tensors: a message was expected");
  }
  if (kind == FileKind::state) return;  // vectors are tensors, too
  if (kind == FileKind::indices) return check_masks(schema);
  for (const SchemaTensor& tensor : schema.tensors) {
    const std::string& text = schema.schemes[tensor.scheme].text;
    const bool sums = has_sum(text);
    const bool fits = kind == FileKind::sum ? sums || (text == "raw" && !tensor.info.dtype.is_float()) : !sums;
    if (fits) continue;
    throw Error(Exit::bad_input,
                "has the scheme '" + text + "' in a file that is " + (kind == FileKind::sum ? "a sum" : "no sum"))
        .in_tensor(tensor.info.name);
  }
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

bool Unsettled::has(size_t tensor) const {
  const auto before = [](const Chunk& chunk, size_t number) { return chunk.tensor < number; };
  const auto found = std::lower_bound(overloads.begin(), overloads.end(), tensor, before);
  return (found != overloads.end() && found->tensor == tensor) ||
         std::binary_search(without_side.begin(), without_side.end(), tensor);
}

void require_side(const DecompressOptions& options, const TensorInfo& info, const SchemeChoice& scheme, bool given) {
  if (given || options.may_lack_side || !scheme.takes_side() || !options.wanted(info)) return;
  throw Error(Exit::usage, "is coded by '" + scheme.stored_text() +
                               "', which is decoded with side information: --side-info FILE, a dump or a message")
      .in_tensor(info.name);
}

void complete_plan(TensorPlan& plan, const DecompressOptions& options) {
  if (options.memory_of) plan.memory = options.memory_of(plan.info);
  if (options.places_of) plan.side = options.places_of(plan.info);
  if (!plan.scheme.takes_side() || !options.wanted(plan.info)) return;
  plan.on_overload = options.any_side ? OnOverload::keep : options.on_overload;
  if (options.side_of) plan.side = options.side_of(plan.info);
  require_side(options, plan.info, plan.scheme, plan.side != nullptr);
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
    if (!options.wanted(schema.tensors[i].info) || stored[i] == decoded[i]) continue;
    if (options.unsettled != nullptr && options.unsettled->has(i)) continue;
    std::string text = "the decoded values are not those that were encoded: their digests differ";
    if (parse_stored_scheme(schema.schemes[schema.tensors[i].scheme].text).takes_side()) {
      if (options.any_side) continue;
      text += kLikelySide;
    }
    throw Error(Exit::bad_input, text).in_tensor(schema.tensors[i].info.name);
  }
}

}  // namespace gradcodec
