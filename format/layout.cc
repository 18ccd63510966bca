// SPDX-License-Identifier: Apache-2.0
#include "format/layout.h"

#include <algorithm>
#include <unordered_set>

#include "codec/checksum.h"

namespace gradcodec {
namespace {

constexpr uint64_t kSeedFlag = 1, kWorkerFlag = 2, kStepFlag = 4, kDigestFlag = 8, kPreviousFlag = 16, kSideFlag = 32;
constexpr uint64_t kSmallItem = 32;
constexpr uint64_t kLeastTensor = 5;  // bytes of a tensor's entry
constexpr uint64_t kMaxSchemes = 4096;
constexpr uint64_t kTensorMemory = 256;  // of a tensor's entry, once parsed

void put_text(Bytes& out, std::string_view text) {
  put_varint(out, text.size());
  put_bytes(out, as_bytes(text));
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

StoredScheme parse_scheme_entry(ByteReader& in) {
  const uint64_t size = in.get_varint();
  if (size == 0 || size > kMaxSchemeText) in.fail("holds a scheme text of " + std::to_string(size) + " bytes");
  StoredScheme scheme;
  scheme.text = in.get_text(size);
  if (!is_printable(scheme.text)) in.fail("holds a scheme text that is not printable ASCII");
  scheme.coder = in.get<uint16_t>();
  return scheme;
}

DType parse_dtype(ByteReader& in) {
  const auto code = in.get<uint8_t>();
  if (code > DType::c16) throw Error(Exit::unsupported, "element type code " + std::to_string(code) + " is not known");
  if (code != DType::other) return {static_cast<DType::Code>(code), ""};
  const uint64_t size = in.get_varint();
  const DType dtype = DType::parse(in.get_text(size));
  if (dtype.code != DType::other) in.fail("spells out the element type " + dtype.name());
  return dtype;
}

SchemaTensor parse_tensor_entry(ByteReader& in, size_t schemes) {
  SchemaTensor tensor;
  const uint64_t name_size = in.get_varint();
  if (name_size > kMaxNameSize) in.fail("holds a name longer than 65535 bytes");
  tensor.info.name = in.get_text(name_size);
  tensor.info.dtype = parse_dtype(in);
  const auto rank = in.get<uint8_t>();
  if (rank > kMaxRank) in.fail("says rank " + std::to_string(rank) + ", more than 32");
  for (unsigned i = 0; i < rank; ++i) tensor.info.shape.push_back(in.get_varint());
  check_tensor_info(tensor.info);
  const uint64_t scheme = in.get_varint();
  if (scheme >= schemes) in.fail("refers to scheme " + std::to_string(scheme) + " of " + std::to_string(schemes));
  tensor.scheme = static_cast<uint32_t>(scheme);
  return tensor;
}

void check_names(const std::vector<SchemaTensor>& tensors, const ByteReader& in) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const SchemaTensor& tensor : tensors) {
    if (!names.insert(tensor.info.name).second) in.fail("has two tensors named '" + escaped(tensor.info.name) + "'");
  }
}

}  // namespace

uint64_t Schema::chunk_len(const SchemaTensor& tensor) const {
  const uint64_t item = tensor.info.dtype.item_size();
  if (item == 0) return std::max<uint64_t>(1, tensor.info.size());  // however many, they take no bytes
  if (item <= kSmallItem) return uint64_t{1} << chunk_log2;
  return std::max<uint64_t>(1, (kSmallItem << chunk_log2) / item);
}

uint64_t chunk_count(uint64_t elements, uint64_t chunk_len) {
  return elements == 0 ? 1 : (elements - 1) / chunk_len + 1;
}

std::string_view kind_text(FileKind kind) {
  switch (kind) {
    case FileKind::message:
      return "a message";
    case FileKind::schema:
      return "a schema file, which holds no tensors";
    case FileKind::state:
      return "a state";
    case FileKind::indices:
      return "an index set";
    case FileKind::sum:
      return "a sum";
  }
  return "";
}

Bytes write_prologue(FileKind kind) {
  Bytes out;
  put_bytes(out, std::as_bytes(std::span(kMagic)));
  put(out, kMajor);
  put(out, kMinor);
  put(out, static_cast<uint8_t>(kind));
  put(out, uint8_t{0});
  put(out, static_cast<uint32_t>(checksum(out, 0)));
  return out;
}

FileKind parse_prologue(ByteView prologue) {
  ByteReader in(prologue, "the prologue");
  const ByteView magic = in.get_bytes(kMagic.size());
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kMagic)).begin())) {
    if (std::equal(kBareMagic.begin(), kBareMagic.end(), reinterpret_cast<const uint8_t*>(magic.data()))) {
      throw Error(Exit::usage, "is a bare message: gradcodec decompress --schema FILE reads it");
    }
    const auto begins = [&](std::string_view text) {
      return std::equal(text.begin(), text.end(), reinterpret_cast<const char*>(magic.data()));
    };
    if (begins("\x93NUMPY") || begins("PK\3\4") || begins("\x89HDF")) {
      throw Error(Exit::bad_input, "is a dump, not a .gradz file: gradcodec compress makes one of it");
    }
    throw Error(Exit::bad_input, "is not a .gradz file: it does not begin with the format's magic bytes");
  }
  const auto major = in.get<uint8_t>();
  in.get<uint8_t>();  // minor: information
  const auto kind = in.get<uint8_t>();
  const auto flags = in.get<uint8_t>();
  if (in.get<uint32_t>() != static_cast<uint32_t>(checksum(prologue.first(12), 0))) {
    throw Error(Exit::bad_input, "is damaged: the prologue (bytes 0 to 15) does not match its check");
  }
  if (major != kMajor) {
    throw Error(Exit::unsupported, "is in format version " + std::to_string(major) + "; this program reads version 1");
  }
  if (kind < 1 || kind > 5) {
    throw Error(Exit::unsupported, "is a .gradz file of kind " + std::to_string(kind) + ", not known to this version");
  }
  if (flags != 0) {
    throw Error(Exit::unsupported, "needs what this version does not have: critical flags " + std::to_string(flags));
  }
  return static_cast<FileKind>(kind);
}

Bytes write_schema(const Schema& schema) {
  Bytes out;
  put(out, schema.chunk_log2);
  put(out, uint8_t{0});  // alignment
  put(out, static_cast<uint8_t>(schema.origin));
  put_varint(out, schema.schemes.size());
  for (const StoredScheme& scheme : schema.schemes) {
    put_text(out, scheme.text);
    put(out, scheme.coder);
  }
  put_varint(out, schema.tensors.size());
  for (const SchemaTensor& tensor : schema.tensors) {
    put_text(out, tensor.info.name);
    put(out, static_cast<uint8_t>(tensor.info.dtype.code));
    if (tensor.info.dtype.code == DType::other) put_text(out, tensor.info.dtype.descriptor);
    put(out, static_cast<uint8_t>(tensor.info.shape.size()));
    for (const uint64_t dim : tensor.info.shape) put_varint(out, dim);
    put_varint(out, tensor.scheme);
  }
  if (out.size() > kMaxBody) throw Error(Exit::limit, "the names and shapes take more than 2^28 bytes");
  return out;
}

Schema parse_schema(ByteView body, uint64_t memory) {
  ByteReader in(body, "the SCHEMA block");
  Schema schema;
  schema.chunk_log2 = in.get<uint8_t>();
  if (schema.chunk_log2 < kMinChunkLog2 || schema.chunk_log2 > kMaxChunkLog2) in.fail("says a chunk size out of range");
  if (in.get<uint8_t>() != 0) throw Error(Exit::unsupported, "uses aligned frames, not known to this version");
  const auto origin = in.get<uint8_t>();
  if (origin < 1 || origin > 3) throw Error(Exit::unsupported, "comes from a kind of dump not known to this version");
  schema.origin = static_cast<DumpKind>(origin);
  const uint64_t schemes = in.get_varint();
  if (schemes > kMaxSchemes) throw Error(Exit::limit, "lists " + std::to_string(schemes) + " schemes, more than 4096");
  for (uint64_t left = schemes; left > 0; --left) {
    schema.schemes.push_back(parse_scheme_entry(in));
    if (std::count(schema.schemes.begin(), schema.schemes.end(), schema.schemes.back()) > 1) {
      in.fail("lists a scheme twice");
    }
  }
  const uint64_t tensors = in.get_varint();
  if (schema.origin == DumpKind::npy && tensors != 1) in.fail("says .npy but has not one tensor");
  if (tensors > in.left() / kLeastTensor) in.fail("claims " + std::to_string(tensors) + " tensors");
  if (tensors > memory / kTensorMemory) {
    throw Error(Exit::limit,
                "has " + std::to_string(tensors) + " tensors, which need more memory than --memory allows");
  }
  uint32_t used = 0;
  for (uint64_t left = tensors; left > 0; --left) {
    schema.tensors.push_back(parse_tensor_entry(in, schema.schemes.size()));
    const uint32_t scheme = schema.tensors.back().scheme;
    if (scheme > used) in.fail("lists its schemes in another order than that of their first use");
    used = std::max(used, scheme + 1);
  }
  if (used != schema.schemes.size()) in.fail("lists a scheme that no tensor uses");
  in.expect_end();
  check_names(schema.tensors, in);
  return schema;
}

Bytes write_message(const Message& message) {
  Bytes out;
  put_varint(out, (message.seed ? kSeedFlag : 0) | (message.worker ? kWorkerFlag : 0) | (message.step ? kStepFlag : 0) |
                      (message.digests ? kDigestFlag : 0) | (message.previous ? kPreviousFlag : 0) |
                      (message.side ? kSideFlag : 0));
  if (message.seed) put(out, *message.seed);
  if (message.worker) put_varint(out, *message.worker);
  if (message.step) put_varint(out, *message.step);
  if (message.previous) put(out, *message.previous);
  if (message.side) put(out, *message.side);
  return out;
}

Message parse_message(ByteView body) {
  ByteReader in(body, "the MESSAGE block");
  const uint64_t flags = in.get_varint();
  if ((flags & ~(kSeedFlag | kWorkerFlag | kStepFlag | kDigestFlag | kPreviousFlag | kSideFlag)) != 0) {
    throw Error(Exit::unsupported, "needs what this version does not have: message flags " + std::to_string(flags));
  }
  Message message;
  message.digests = (flags & kDigestFlag) != 0;
  if ((flags & kSeedFlag) != 0) message.seed = in.get<uint64_t>();
  if ((flags & kWorkerFlag) != 0) message.worker = in.get_varint();
  if ((flags & kStepFlag) != 0) message.step = in.get_varint();
  if ((flags & kPreviousFlag) != 0) message.previous = in.get<uint64_t>();
  if ((flags & kSideFlag) != 0) message.side = in.get<uint64_t>();
  if (message.worker.value_or(0) > 0xFFFFFFFF) in.fail("says a worker of 2^32 or more");
  in.expect_end();
  return message;
}

Bytes write_state_block(const StateBlock& block) {
  Bytes out;
  put(out, block.role);
  put_varint(out, block.memory.size());
  put_bytes(out, as_bytes(block.memory));
  return out;
}

StateBlock parse_state_block(ByteView body) {
  ByteReader in(body, "the STATE block");
  StateBlock out;
  out.role = in.get<uint8_t>();
  if (out.role != 1 && out.role != 2) in.fail("says neither an encoder nor a decoder");
  const uint64_t size = in.get_varint();
  if (size == 0 || size > kMaxSchemeText) in.fail("has a name of " + std::to_string(size) + " bytes");
  out.memory = in.get_text(size);
  in.expect_end();
  return out;
}

void check_message_of(FileKind kind, const Message& message) {
  if (kind == FileKind::state && !(message.seed && message.step && message.previous)) {
    throw Error(Exit::bad_input, "is a state without a seed, a step or the check of a message");
  }
  if ((kind == FileKind::sum || kind == FileKind::indices) && message.worker) {
    throw Error(Exit::bad_input, "is " + std::string(kind_text(kind)) + " of one worker, which none is");
  }
}

Bytes write_block(Tag tag, ByteView body, uint64_t seed) {
  if (body.size() > kMaxBody) throw Error(Exit::limit, "a block of the file would pass 2^28 bytes");
  Bytes out;
  put(out, static_cast<uint8_t>(tag));
  put_varint(out, body.size());
  put_bytes(out, body);
  put(out, checksum(out, seed));
  return out;
}

uint64_t schema_digest(const Schema& schema) {
  const Bytes block = write_block(Tag::schema, write_schema(schema), 0);
  return ByteReader(ByteView(block).last(8), "the schema").get<uint64_t>();
}

}  // namespace gradcodec
