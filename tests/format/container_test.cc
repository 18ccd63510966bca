// The container by itself: what is written comes back, and damage is found before anything is used.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "codec/checksum.h"
#include "format/made_messages.h"
#include "format/pipeline.h"
#include "format/reader.h"
#include "format/writer.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

Schema small_schema() {
  Schema schema;
  schema.origin = DumpKind::hdf5;
  schema.schemes = {{"dqsg:levels=3", 0}, {"raw", 1}};
  schema.tensors = {{{"a", DType::parse("f4"), {3, 5}}, 0},
                    {{"b/c", DType::parse("U2"), {}}, 1},
                    {{"empty", DType::parse("bf16"), {0}}, 0}};
  return schema;
}

Message small_message() { return {42, 3, uint64_t{1} << 40, true}; }

std::vector<Frame> small_frames() {
  std::vector<Frame> frames(3);
  frames[0].payload = Bytes(7, std::byte{1});
  frames[0].params = Bytes(4, std::byte{2});
  frames[0].exceptions = Bytes(6, std::byte{3});
  frames[1].form = Form::constant;
  frames[1].payload = Bytes(1, std::byte{4});
  return frames;
}

Bytes written(const Schema& schema, const Message& message, const std::vector<Frame>& frames, ByteView tree = {},
              ByteView metadata = {}) {
  const TemporaryFile file;
  OutputFile output(file.path(), true, {});
  ContainerWriter writer(output);
  writer.begin(schema, tree, metadata, message);
  for (size_t i = 0; i < frames.size(); ++i) {
    Frame frame = frames[i];
    writer.seal(i, frame);
    writer.append(frame);
  }
  const std::vector<uint32_t> digests = {10, 11, 12};
  writer.finish(digests);
  output.commit();
  return file.bytes();
}

// Reads everything; throws what the reader throws.
std::vector<FrameBytes> read_whole(const Bytes& bytes, size_t frames, Schema* schema = nullptr,
                                   Message* message = nullptr) {
  const TemporaryFile file;
  file.write(bytes);
  InputStream input(file.path());
  ContainerReader reader(input, kMemory);
  if (!reader.begin()) throw Error(Exit::bad_input, "empty");
  std::vector<FrameBytes> out(frames);
  for (FrameBytes& frame : out) reader.next(frame, {});
  const std::vector<uint32_t> digests = reader.finish();
  CHECK(digests == std::vector<uint32_t>{10, 11, 12});
  reader.expect_end_of_input();
  CHECK(reader.accounts().total() == bytes.size());
  if (schema != nullptr) *schema = reader.schema();
  if (message != nullptr) *message = reader.message();
  return out;
}

Exit refusal(const Bytes& bytes, size_t frames = 3) {
  try {
    read_whole(bytes, frames);
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

Schema reparsed(const Schema& schema) { return parse_schema(write_schema(schema), kMemory); }

}  // namespace

TEST_CASE("a container comes back as it was written") {
  Schema schema;
  Message message;
  const std::string tree = "\x79\x13\x88" + std::string(5000, 't'), metadata = "\x65short";  // CBOR texts
  const Bytes bytes = written(small_schema(), small_message(), small_frames(), as_bytes(tree), as_bytes(metadata));
  const std::vector<FrameBytes> frames = read_whole(bytes, 3, &schema, &message);
  CHECK(write_schema(schema) == write_schema(small_schema()));
  CHECK(write_message(message) == write_message(small_message()));
  CHECK(frames[0].payload.size() == 17);
  CHECK(frames[0].exceptions);
  CHECK(frames[0].form == Form::coder);
  CHECK_FALSE(frames[1].exceptions);
  CHECK(frames[1].form == Form::constant);
  CHECK(frames[2].payload.empty());
  CHECK(bytes.size() < 1000);  // the tree was packed
}

TEST_CASE("every flipped bit, every cut and every longer file is refused") {
  const Bytes bytes =
      written(small_schema(), small_message(), small_frames(), as_bytes("\x64tree"), as_bytes("\x64meta"));
  REQUIRE(refusal(bytes) == Exit::ok);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[at] ^= static_cast<std::byte>(1U << bit);
      INFO("bit " << bit << " of byte " << at);
      CHECK(refusal(damaged) == Exit::bad_input);
    }
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    INFO("cut to " << size);
    CHECK(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))) == Exit::bad_input);
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(refusal(longer) == Exit::bad_input);
  Bytes twice = bytes;
  put_bytes(twice, bytes);
  CHECK(refusal(twice) == Exit::bad_input);
}

TEST_CASE("blocks and frames of another file are refused") {
  Schema other = small_schema();
  other.tensors[0].info.name = "z";  // of the same length
  const Bytes ours = written(small_schema(), small_message(), small_frames());
  const Bytes theirs = written(other, small_message(), small_frames());
  REQUIRE(ours.size() == theirs.size());
  const size_t schema_end = kPrologueSize + write_block(Tag::schema, write_schema(other), 0).size();
  Bytes spliced = theirs;
  std::copy(ours.begin() + static_cast<ptrdiff_t>(schema_end), ours.end(),
            spliced.begin() + static_cast<ptrdiff_t>(schema_end));
  CHECK(refusal(spliced) == Exit::bad_input);

  // The same frame in the same place of a message that differs in its seed only.
  Message message = small_message();
  message.seed = 43;
  const Bytes second = written(small_schema(), message, small_frames());
  const size_t message_end = ours.size() - 8 - (1 + 1 + 12 + 3 + 8) - (3 * 12 + 18);
  Bytes foreign = ours;
  std::copy(second.begin() + static_cast<ptrdiff_t>(message_end), second.end(),
            foreign.begin() + static_cast<ptrdiff_t>(message_end));
  CHECK(refusal(foreign) == Exit::bad_input);
}

TEST_CASE("what a later version may mean is told from damage") {
  const Bytes bytes = written(small_schema(), small_message(), small_frames());
  const auto with_prologue = [&](size_t at, uint8_t value) {
    Bytes changed = bytes;
    changed[at] = std::byte{value};
    const auto check = static_cast<uint32_t>(checksum(ByteView(changed).first(12), 0));
    std::memcpy(changed.data() + 12, &check, sizeof(check));
    return refusal(changed);
  };
  CHECK(with_prologue(9, 200) == Exit::ok);  // minor
  CHECK(with_prologue(8, 2) == Exit::unsupported);
  CHECK(with_prologue(10, 9) == Exit::unsupported);
  CHECK(with_prologue(11, 1) == Exit::unsupported);
  CHECK(with_prologue(0, 0) == Exit::bad_input);
}

TEST_CASE("a schema's bytes have one form") {
  const Schema schema = small_schema();
  const Bytes body = write_schema(schema);
  CHECK(write_schema(reparsed(schema)) == body);
  const auto refused = [](Bytes bytes) {
    try {
      parse_schema(bytes, kMemory);
    } catch (const Error& error) {
      return error.code();
    }
    return Exit::ok;
  };
  for (size_t size = 0; size < body.size(); ++size) {
    CHECK(refused(Bytes(body.begin(), body.begin() + static_cast<ptrdiff_t>(size))) == Exit::bad_input);
  }
  const auto changed = [&](auto change) {
    Schema other = schema;
    change(other);
    return refused(write_schema(other));
  };
  CHECK(changed([](Schema& s) { s.tensors[1].info.name = "a"; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.tensors[1].info.name = ""; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.tensors[1].info.name = "\xFF"; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.tensors[1].scheme = 2; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) {
          s.tensors[0].info.shape = {uint64_t{1} << 40, uint64_t{1} << 40};
        }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.schemes.push_back(s.schemes[0]); }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.schemes[0].text = "a b"; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.schemes[0].text = std::string(1025, 'a'); }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.chunk_log2 = 11; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.chunk_log2 = 23; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.origin = DumpKind::npy; }) == Exit::bad_input);
  CHECK(changed([](Schema& s) { s.origin = static_cast<DumpKind>(4); }) == Exit::unsupported);
  CHECK(changed([](Schema& s) { s.tensors[0].info.dtype.code = static_cast<DType::Code>(16); }) == Exit::unsupported);
  Bytes aligned = body;
  aligned[1] = std::byte{1};
  CHECK(refused(aligned) == Exit::unsupported);
}

TEST_CASE("a scheme's text that no reader takes is not written") {
  MemorySource source;
  source.add_values("a", "f4", {2}, {1, 2});
  CompressOptions options;
  options.coders = coders_for_level(1);
  options.scheme = parse_scheme("sign");
  const auto put_over = [&](int times) {  // the parser would refuse so many
    for (int i = 0; i < times; ++i) {
      SchemeChoice over = parse_scheme("topk:k=50%");
      over.inner = std::make_shared<const SchemeChoice>(options.scheme);
      options.scheme = over;
    }
  };
  put_over(204);
  CHECK(options.scheme.stored_text().size() == kMaxSchemeText);
  CHECK_NOTHROW(plan_schema(source, options));
  put_over(1);
  CHECK_THROWS_WITH(plan_schema(source, options), Catch::Contains("1029 bytes"));
}

TEST_CASE("chunks of large elements stay below the largest frame") {
  Schema schema;
  schema.chunk_log2 = kMaxChunkLog2;
  for (const char* type : {"f4", "c32", "S33", "S1000", "V1048576"}) {
    const SchemaTensor tensor{{"t", DType::parse(type), {uint64_t{1} << 30}}, 0};
    INFO(type);
    CHECK(schema.chunk_len(tensor) >= 1);
    CHECK(schema.chunk_len(tensor) * tensor.info.dtype.item_size() <= uint64_t{1} << 27);
  }
  CHECK(chunk_count(0, 10) == 1);
  CHECK(chunk_count(10, 10) == 1);
  CHECK(chunk_count(11, 10) == 2);
  CHECK(frame_count(1) == 1);
  CHECK(frame_count(2) == 3);
}
