// SPDX-License-Identifier: Apache-2.0
#include "format/bare.h"

#include <algorithm>

#include "codec/checksum.h"
#include "format/crew.h"
#include "format/forms.h"

namespace gradcodec {
namespace {

constexpr uint8_t kWorkerFlag = 1, kStepFlag = 2, kExceptionsFlag = 4;
constexpr size_t kFixedHeader = 22;  // to the seed

bool is_short(const Schema& schema) {
  uint64_t elements = 0, bytes = 0;
  for (const SchemaTensor& tensor : schema.tensors) {
    elements += std::min(tensor.info.size(), kMaxShortBare + 1);
    bytes += std::min(tensor.info.byte_size(), kMaxShortBareBytes + 1);
    if (elements > kMaxShortBare || bytes > kMaxShortBareBytes) return false;
  }
  return true;
}

// Their messages would have to name the one before, or the index set.
void refuse_without_room(const Schema& schema) {
  const auto refuse = [](const std::string& what) {
    throw Error(Exit::unsupported, what + ", for which bare messages have no room: use the container");
  };
  if (const Scheme* memory = memory_of(parse_schemes(schema))) {
    refuse("scheme '" + std::string(memory->name()) + "' remembers from message to message");
  }
  if (asks_for_set(schema)) refuse("scheme 'at' answers an index set");
  check_holds_tensors(FileKind::message, schema);  // no sums
}

uint32_t message_digest(std::span<const uint32_t> tensors) {
  return static_cast<uint32_t>(checksum(LittleBytes<uint32_t>(tensors), 0));
}

}  // namespace

BareWriter::BareWriter(OutputFile& output, const Schema& schema, const MessageId& id)
    : output_(output), schema_(schema), id_(id), short_(is_short(schema)) {
  refuse_without_room(schema);
  if (short_) return;
  const Bytes head = header(0);
  base_ = checksum(head, schema_digest(schema));
  output_.write(head);
}

Bytes BareWriter::header(uint8_t flags) const {
  if (id_.worker) flags |= kWorkerFlag;
  if (id_.step) flags |= kStepFlag;
  Bytes out;
  put_bytes(out, std::as_bytes(std::span(kBareMagic)));
  put(out, kMajor);
  put(out, flags);
  put(out, schema_digest(schema_));
  put(out, id_.seed);
  if (id_.worker) put_varint(out, *id_.worker);
  if (id_.step) put_varint(out, *id_.step);
  return out;
}

void BareWriter::seal(uint64_t number, Frame& frame) const {
  if (!short_) seal_frame(frame, base_ + number);
}

void BareWriter::append(const Frame& frame) {
  if (short_) {
    if (frame.size() > kMaxBody) throw Error(Exit::limit, "a tensor of a bare message would pass 2^28 bytes");
    held_.push_back(frame);
    return;
  }
  output_.write(frame.sealed);
  ++k_;
}

void BareWriter::finish(std::span<const uint32_t> digests) {
  Bytes out;
  if (short_) {
    const bool exceptions =
        std::any_of(held_.begin(), held_.end(), [](const Frame& frame) { return !frame.exceptions.empty(); });
    out = header(exceptions ? kExceptionsFlag : 0);
    for (const Frame& frame : held_) {
      put_bytes(out, frame.params);
      put_bytes(out, frame.exceptions);
      if (exceptions && frame.exceptions.empty()) put_varint(out, 0);
      if (!frame.sized) put(out, static_cast<uint32_t>(frame.payload.size()));
      put_bytes(out, frame.payload);
    }
  }
  put(out, message_digest(digests));
  put(out, checksum(out, short_ ? schema_digest(schema_) : base_ + k_));
  output_.write(out);
}

BareReader::BareReader(InputStream& input, const Schema& schema, uint64_t memory)
    : input_(input), schema_(schema), memory_(memory), short_(is_short(schema)) {
  refuse_without_room(schema);
  read_header();
}

void BareReader::damaged(const std::string& what) const {
  throw Error(Exit::bad_input, "is damaged at byte " + std::to_string(input_.position()) + ": " + what);
}

Bytes BareReader::take(uint64_t n, std::string_view what) {
  Bytes out(static_cast<size_t>(n));
  if (input_.read(out) < n) damaged("the input ends within " + std::string(what));
  return out;
}

void BareReader::read_header() {
  header_ = take(kFixedHeader, "the header");
  ByteReader in(header_, "the header");
  const ByteView magic = in.get_bytes(kBareMagic.size());
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kBareMagic)).begin())) {
    damaged("this is not a bare message");
  }
  const auto major = in.get<uint8_t>();
  const auto flags = in.get<uint8_t>();
  const auto digest = in.get<uint64_t>();
  // The check of the whole comes last: until then a strange value may be damage as well.
  const std::string or_damaged = " (or is damaged at bytes 4 to 13)";
  if (digest != schema_digest(schema_)) {
    throw Error(Exit::unsupported, "was written with another schema" + or_damaged + ": its schema's digest is " +
                                       std::to_string(digest) + ", that of the schema given " +
                                       std::to_string(schema_digest(schema_)));
  }
  if (major != kMajor) {
    throw Error(Exit::unsupported,
                "is in format version " + std::to_string(major) + or_damaged + "; this program reads version 1");
  }
  const uint8_t known = kWorkerFlag | kStepFlag | (short_ ? kExceptionsFlag : 0);
  if ((flags & ~known) != 0) {
    throw Error(Exit::unsupported,
                "needs what this version does not have" + or_damaged + ": flags " + std::to_string(flags));
  }
  id_.seed = in.get<uint64_t>();
  exceptions_ = (flags & kExceptionsFlag) != 0;
  const auto varint = [&] {
    Bytes bytes;
    do {
      if (bytes.size() == 9) damaged("a number of the header is too large");
      put_bytes(bytes, take(1, "the header"));
    } while ((std::to_integer<uint8_t>(bytes.back()) & 0x80) != 0);
    put_bytes(header_, bytes);
    return ByteReader(bytes, "the header").get_varint();
  };
  if ((flags & kWorkerFlag) != 0) id_.worker = varint();
  if ((flags & kStepFlag) != 0) id_.step = varint();
  if (id_.worker.value_or(0) > 0xFFFFFFFF) damaged("the worker is 2^32 or more");
  base_ = checksum(header_, schema_digest(schema_));
}

void BareReader::next(FrameBytes& frame, const FramePlace& place) {
  read_frame(
      input_, base_ + k_, memory_, [&] { return place.text(); }, frame);
  ++k_;
}

void BareReader::decompress_into(const DecompressOptions& options, Sink* sink, Progress& progress) {
  Bytes rest;
  std::vector<uint32_t> digests;
  uint64_t seed = schema_digest(schema_);
  Bytes checked;
  if (short_) {  // check the whole first
    checked = header_;
    read_all(input_, memory_, rest);
    put_bytes(checked, rest);
  } else {
    digests = decompress(*this, schema_, id_, options, sink, progress);
    seed = base_ + k_;
    read_all(input_, memory_, rest);
    checked = rest;
  }
  if (rest.size() < 12 || (!short_ && rest.size() != 12)) damaged("the message does not end where it should");
  ByteReader end(ByteView(checked).last(12), "the message's end");
  const auto digest = end.get<uint32_t>();
  if (end.get<uint64_t>() != checksum(ByteView(checked).first(checked.size() - 8), seed)) {
    damaged("the message does not match its check");
  }
  if (short_) {
    ByteReader in(ByteView(rest).first(rest.size() - 12), "the message");
    digests = decode_short(in, options, sink, progress);
    in.expect_end();
  }
  const bool all = std::all_of(schema_.tensors.begin(), schema_.tensors.end(),
                               [&](const SchemaTensor& tensor) { return options.wanted(tensor.info); });
  if (options.unsettled != nullptr && !options.unsettled->overloads.empty()) return;
  if (all && digest != message_digest(digests)) {
    throw Error(Exit::bad_input, "the decoded values are not those that were encoded: their digests differ" +
                                     std::string(options.side_of ? "; or is the side information another one?" : ""));
  }
}

std::vector<uint32_t> BareReader::decode_short(ByteReader& in, const DecompressOptions& options, Sink* sink,
                                               Progress& progress) const {
  const std::vector<KnownScheme> schemes = parse_schemes(schema_);
  std::vector<uint32_t> digests;
  bool any_exception = false;
  Workspace work;
  Bytes room;
  ByteView elements;
  FrameWalk walk(schema_, true);
  for (FramePlace place; walk.next(place);) {
    const SchemaTensor& entry = schema_.tensors[place.tensor];
    const KnownScheme& scheme = schemes[entry.scheme];
    if (!scheme.problem.empty()) throw Error(Exit::unsupported, scheme.problem).in_tensor(entry.info.name);
    const TensorInfo output = output_info(entry.info, options.dtype);
    TensorPlan plan = plan_of(schema_, schemes, id_, place.tensor, walk.chunk_len(place.tensor));
    complete_plan(plan, options);
    const bool wanted = sink != nullptr && options.wanted(entry.info);
    const uint64_t digest = in_tensor(entry.info, [&] {
      const auto decoder = make_tensor_decoder(plan, in, output.dtype);
      std::vector<Exception> list;
      if (exceptions_) read_exceptions(in, place.range.count, true, list);
      any_exception |= !list.empty();
      const std::optional<uint64_t> fixed = decoder->payload_size(place.range);
      const uint64_t size = fixed ? *fixed : in.get<uint32_t>();
      const ByteReader payload(in.get_bytes(size), "the tensor's payload");
      const uint64_t decoded = decoder->decode(payload, Form::coder, list, place.range, work);
      if (wanted) elements = decoder->convert(place.range, work, room);
      return decoded;
    });
    digests.push_back(tensor_digest({&digest, 1}));
    if (work.overloaded && options.unsettled != nullptr) options.unsettled->overloads.push_back({place.tensor, 0, 1});
    progress.done += entry.info.byte_size();
    if (!wanted) continue;
    sink->begin(output);
    sink->write(elements);
    sink->end();
  }
  if (any_exception != exceptions_) in.fail("is flagged to list exceptions and lists none");
  return digests;
}

void write_schema_file(const Schema& schema, OutputFile& output) {
  output.write(write_prologue(FileKind::schema));
  output.write(write_block(Tag::schema, write_schema(schema), 0));
}

Schema read_schema_file(const std::string& path, uint64_t memory) {
  InputStream input(path);
  try {
    ContainerReader reader(input, memory);
    if (!reader.begin() || reader.kind() != FileKind::schema) {
      throw Error(Exit::bad_input, "is not a schema file (gradcodec info FILE.gradz --schema-out makes one)");
    }
    reader.expect_end_of_input();
    return reader.schema();
  } catch (Error& error) {
    error.in_file(input.name());
    throw;
  }
}

}  // namespace gradcodec
