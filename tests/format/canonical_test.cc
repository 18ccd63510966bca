// Messages whose checks and values are right, written in another way than this program's: which of those the reader
// refuses by itself, and which check_canonical finds.
// SPDX-License-Identifier: Apache-2.0
#include "format/canonical.h"

#include <limits>

#include "codec/checksum.h"
#include "format/dumps/tree.h"
#include "format/forms.h"
#include "format/made_messages.h"
#include "format/metadata.h"
#include "format/wrapped.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

// A message taken apart, to be written again in another way, with the checks that it then should have.
struct Parts {
  struct Block {
    uint8_t tag;
    Bytes body;
  };
  uint8_t minor = kMinor;
  Schema schema;
  std::vector<Block> blocks;  // between SCHEMA and MESSAGE
  Message message;
  std::vector<Frame> frames;
  std::vector<uint32_t> digests;
  std::vector<Block> blocks_after;  // the frames

  explicit Parts(const std::string& path) {
    InputStream input(path);
    ContainerReader reader(input, kMemory);
    REQUIRE(reader.begin());
    schema = reader.schema();
    message = reader.message();
    FrameWalk walk(schema);
    for (FramePlace place; walk.next(place);) {
      FrameBytes bytes;
      reader.next(bytes, place);
      Frame frame;
      frame.form = bytes.form;
      if (bytes.exceptions) {
        frame.exceptions.assign(bytes.payload.begin(), bytes.payload.end());
      } else {
        frame.payload.assign(bytes.payload.begin(), bytes.payload.end());
      }
      frames.push_back(frame);
    }
    digests = reader.finish();
  }

  Bytes written() const {
    Bytes out = write_prologue(FileKind::message);
    out[9] = std::byte{minor};
    const auto head = static_cast<uint32_t>(checksum(ByteView(out).first(12), 0));
    std::memcpy(out.data() + 12, &head, sizeof(head));
    uint64_t seed = 0, k = 0;
    const auto add = [&](const Bytes& block) {
      put_bytes(out, block);
      seed = ByteReader(ByteView(block).last(8), "a block").get<uint64_t>();
      ++k;
    };
    add(write_block(Tag::schema, write_schema(schema), seed));
    for (const Block& block : blocks) add(write_block(Tag{block.tag}, block.body, seed));
    add(write_block(Tag::message, write_message(message), seed));
    Bytes end;
    if (message.digests) {
      for (const uint32_t digest : digests) put(end, digest);
    }
    for (Frame frame : frames) {
      seal_frame(frame, seed + k++);
      put_bytes(out, frame.sealed);
      put_varint(end, frame.size());
    }
    uint64_t skipped = 0;
    for (const Block& block : blocks_after) {
      const Bytes bytes = write_block(Tag{block.tag}, block.body, seed + k + 1);
      skipped += bytes.size();
      put_bytes(out, bytes);
    }
    if (skipped > 0) put_varint(end, skipped);
    const Bytes last = write_block(Tag::end, end, seed + k);
    put_bytes(out, last);
    put(out, static_cast<uint32_t>(last.size()));
    put_bytes(out, std::as_bytes(std::span(kTailMagic)));
    return out;
  }
};

std::vector<Departure> departures(const std::string& path, unsigned threads = 1, size_t most = 100) {
  Progress progress;
  const StoredMessage message(path, threads, kMemory, progress);
  return check_canonical(message, threads, kMemory, progress, most);
}

std::vector<Departure> departures(const Parts& parts) { return departures(TemporaryFile(parts.written()).path()); }

// The one departure there is.
Departure departure(const Parts& parts) {
  const std::vector<Departure> all = departures(parts);
  REQUIRE(all.size() == 1);
  return all[0];
}

std::string refusal(const Parts& parts) {
  try {
    departures(parts);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    return error.what();
  }
  return "";
}

Parts parts_of(MemorySource& source, const std::string& scheme, const std::string& coder = "pack") {
  const TemporaryFile file;
  compress_to(file.path(), source, options_for(scheme, coder));
  const Parts parts(file.path());
  CHECK(parts.written() == file.bytes());
  return parts;
}

Bytes zeros(size_t n) { return Bytes(n); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Bytes zstd_of(const Bytes& content, unsigned level = 3) {
  Bytes out;
  coders_for_level(level).bytes->shrink({0, {}, content}, out);
  return out;
}

}  // namespace

TEST_CASE("what compress writes has no departures, whatever the scheme, the coder and its effort") {
  MemorySource source;
  std::vector<float> special = made_values(5000, 3);
  special[7] = std::numeric_limits<float>::quiet_NaN();
  special[4096] = -std::numeric_limits<float>::infinity();
  source.add_values("long", "f4", {9000}, made_values(9000)).add_values("special", "f4", {5000}, special);
  source.add_values("one", "f4", {1}, {0.5F}).add_values("none", "f4", {0}, {});
  source.add_values("zeros", "f4", {100}, std::vector<float>(100, 0.0F));
  source.add_values("half", "f2", {50}, made_values(50, 4)).add("text", "S3", {2}, Bytes(6, std::byte{'a'}));
  for (const char* scheme : {"dqsg:levels=5", "dqsg:levels=257,bucket=100", "dither:nmse=0.1", "raw"}) {
    for (unsigned level = 1; level <= 9; level += 2) {
      CompressOptions options = options_for(scheme);
      options.coders = coders_for_level(level);
      const TemporaryFile file;
      compress_to(file.path(), source, options, {}, metadata_block("test", "\"" + std::string(500, 'x') + "\""));
      INFO(scheme << ", level " << level);
      CHECK(departures(file.path()).empty());
      CHECK(departures(file.path(), 4).empty());
    }
  }
}

TEST_CASE("a form that is not the smallest is found") {
  MemorySource source;
  source.add_values("zeros", "f4", {100}, std::vector<float>(100, 0.0F)).add_values("one", "f4", {1}, {0.5F});
  source.add("bytes", "u1", {40}, zeros(40));
  const Parts canonical = parts_of(source, "dqsg:levels=3");
  REQUIRE(canonical.frames[0].form == Form::constant);
  REQUIRE(canonical.frames[1].form == Form::coder);
  REQUIRE(canonical.frames[2].form == Form::constant);
  CHECK(departures(canonical).empty());

  Parts plain = canonical;
  plain.frames[2].form = Form::coder;
  plain.frames[2].payload = zeros(40);
  const Departure bytes = departure(plain);
  CHECK(bytes.tensor == "bytes");
  CHECK(bytes.place.find("chunk 1 of 1, at byte ") == 0);
  CHECK(bytes.text == "its symbols are in form coder (40 bytes) where form constant (1 bytes) is written");

  Parts constant = canonical;  // one byte either way
  constant.frames[1].form = Form::constant;
  constant.frames[1].payload.back() = std::byte{2};
  CHECK(has(departure(constant).text, "in form constant (1 bytes) where form coder (1 bytes) is written"));

  plain.frames[0].form = Form::coder;  // zero is symbol 1 of 3; five digits make a byte
  plain.frames[0].payload = zeros(4);
  plain.frames[0].payload.insert(plain.frames[0].payload.end(), 20, std::byte{1 + 3 + 9 + 27 + 81});
  const std::vector<Departure> both = departures(plain);
  REQUIRE(both.size() == 2);
  CHECK(both[0].tensor == "zeros");
  CHECK(both[1].tensor == "bytes");
  CHECK(departures(TemporaryFile(plain.written()).path(), 4).size() == 2);
  CHECK(departures(TemporaryFile(plain.written()).path(), 1, 1).size() == 1);
}

// After a longer chunk, whose contexts must not be taken for its own.
TEST_CASE("a chunk in a form that is not written is told with every coder") {
  for (const Coder* coder : all_coders()) {
    MemorySource source;
    source.add_values("many", "f4", {100}, made_values(100)).add_values("one", "f4", {1}, {1.0F});
    Parts parts = parts_of(source, "dqsg:levels=3", std::string(coder->name()));
    REQUIRE(parts.frames[1].form != Form::constant);
    parts.frames[1].form = Form::constant;
    const size_t stored = coder->uses_scales() ? 5 : 4;  // the step, for some the base of scales; then the symbol
    parts.frames[1].payload.resize(stored + 1);
    parts.frames[1].payload[stored] = std::byte{2};
    INFO(coder->name());
    const Departure told = departure(parts);
    CHECK(told.tensor == "one");
    CHECK(has(told.text, "in form constant"));
  }
}

TEST_CASE("of zstd's bytes only the form is compared") {
  MemorySource source;
  Bytes noise;
  for (const float value : made_values(400)) put(noise, std::bit_cast<uint32_t>(value) >> 3);
  noise.resize(300);
  Bytes text = zeros(4000);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>("gradient"[i % 8] + (i % 97 == 0 ? 1 : 0));
  source.add("noise", "u1", {300}, noise).add("text", "u1", {4000}, text).add("zeros", "u1", {90}, zeros(90));
  const Parts canonical = parts_of(source, "raw", "zstd");
  REQUIRE(canonical.frames[0].form == Form::stored);
  REQUIRE(canonical.frames[1].form == Form::coder);
  REQUIRE(canonical.frames[2].form == Form::constant);

  Parts other = canonical;
  other.frames[1].payload = zstd_of(text, 9);  // by another effort
  REQUIRE(other.frames[1].payload != canonical.frames[1].payload);
  CHECK(departures(other).empty());

  Parts larger = canonical;
  larger.frames[0].form = Form::coder;
  larger.frames[0].payload = zstd_of(noise);
  REQUIRE(larger.frames[0].payload.size() > noise.size());
  CHECK(has(departure(larger).text, "bytes in form coder, and 300 in form stored, which is written then"));

  Parts stored = canonical;  // zstd might not have made it smaller: nothing can be said
  stored.frames[1].form = Form::stored;
  stored.frames[1].payload = text;
  CHECK(departures(stored).empty());

  Parts zero = canonical;
  zero.frames[2].form = Form::coder;
  zero.frames[2].payload = zstd_of(zeros(90));
  CHECK(has(departure(zero).text, "in form coder"));
  CHECK(has(departure(zero).text, "where form constant (1 bytes) is written"));
  zero.frames[2].form = Form::stored;
  zero.frames[2].payload = zeros(90);
  CHECK(has(departure(zero).text, "in form stored (90 bytes) where form constant (1 bytes) is written"));

  Parts two = canonical;  // two frames: the reader's
  put_bytes(two.frames[1].payload, zstd_of({}));
  CHECK(has(refusal(two), "goes on after its frame"));
}

TEST_CASE("blocks in another order, packed for nothing or unknown, another minor version, no digests") {
  MemorySource source;
  source.add_values("a", "f4", {9}, made_values(9));
  Parts canonical = parts_of(source, "dqsg:levels=3");
  canonical.schema.origin = DumpKind::hdf5;
  Tree tree;
  tree.groups["g"] = {};
  const Bytes tree_bytes = write_tree(tree), metadata = metadata_block("p", "1");
  const Parts::Block tree_block{static_cast<uint8_t>(Tag::tree), wrap_body(tree_bytes)};
  const Parts::Block metadata_block{static_cast<uint8_t>(Tag::metadata), wrap_body(metadata)};
  canonical.blocks = {tree_block, metadata_block};
  CHECK(departures(canonical).empty());

  Parts swapped = canonical;
  swapped.blocks = {metadata_block, tree_block};
  CHECK(departure(swapped).text == "TREE stands behind METADATA");
  CHECK(departure(swapped).place.find("block 2, at byte ") == 0);

  Parts packed = canonical;
  Bytes body = {std::byte{1}};
  put_varint(body, metadata.size());
  put_bytes(body, zstd_of(metadata));
  packed.blocks[1].body = body;
  CHECK(departure(packed).text == "METADATA is packed, and no smaller for it");

  Parts unknown = canonical;
  unknown.blocks.push_back({0x90, zeros(3)});
  CHECK(departure(unknown).text == "is of type 144, which this program does not write");
  Parts after = canonical;
  after.blocks_after.push_back({0x91, zeros(3)});
  CHECK(departure(after).text == "is of type 145, which this program does not write");

  Parts minor = canonical;
  minor.minor = 7;
  CHECK(departure(minor).place == "the prologue");

  Parts no_digests = canonical;
  no_digests.message.digests = false;
  CHECK(departure(no_digests).text == "says that the file has no digests of its tensors");
}

TEST_CASE("what the reader refuses by itself needs no search for departures") {
  MemorySource source;
  std::vector<float> special(9, 1.0F);
  special[3] = std::numeric_limits<float>::infinity();
  source.add_values("a", "f4", {9}, made_values(9)).add_values("special", "f4", {9}, special);
  const Parts canonical = parts_of(source, "dqsg:levels=3");
  REQUIRE(refusal(canonical).empty());

  Parts stored = canonical;
  stored.frames[0].form = Form::stored;
  CHECK(has(refusal(stored), "in stored form though its coder is pack"));

  Parts longer = canonical;  // the exceptions' count in two bytes
  Bytes& list = longer.frames[1].exceptions;
  REQUIRE(list.at(4) == std::byte{1});
  list[4] = std::byte{0x81};
  list.insert(list.begin() + 5, std::byte{0});
  CHECK(has(refusal(longer), "not in its shortest form"));

  Parts none = canonical;  // a list of no exceptions
  none.frames[0].exceptions = none.frames[0].payload;
  none.frames[0].exceptions.insert(none.frames[0].exceptions.begin() + 4, std::byte{0});
  none.frames[0].payload.clear();
  CHECK(has(refusal(none), "lists 0 exceptions"));

  Parts more = canonical;
  more.frames[0].payload.push_back(std::byte{0});
  CHECK_FALSE(refusal(more).empty());

  Parts minus_zero = canonical;  // the step -0
  minus_zero.frames[0].payload[3] = std::byte{0x80};
  for (size_t i = 0; i < 3; ++i) minus_zero.frames[0].payload[i] = std::byte{0};
  CHECK(has(refusal(minus_zero), "a step that is not 0 or from 2^-126"));

  Parts unused = canonical;
  unused.schema.schemes.push_back({"raw", 0});
  CHECK(has(refusal(unused), "a scheme that no tensor uses"));
}
