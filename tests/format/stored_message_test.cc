// A stored message read at any chunk, against decompress; damage at opening and after it.
// SPDX-License-Identifier: Apache-2.0
#include "format/stored_message.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "format/made_messages.h"
#include "format/metadata.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

StoredMessage opened(const std::string& path, unsigned threads = 1) {
  Progress progress;
  return StoredMessage(path, threads, kMemory, progress);
}

std::map<std::string, Bytes> decompressed(const std::string& path) {
  InputStream input(path);
  ContainerReader reader(input, kMemory);
  REQUIRE(reader.begin());
  DecompressOptions options;
  options.wanted = [](const TensorInfo&) { return true; };
  MemorySink sink;
  Progress progress;
  decompress(reader, reader.schema(), id_of(reader.schema(), reader.message()), options, &sink, progress);
  reader.finish();
  return sink.elements;
}

Bytes elements_of(const StoredMessage& message, size_t tensor) {
  Bytes out;
  Piece piece;
  for (uint64_t chunk = 0; chunk < message.chunks(tensor); ++chunk) {
    message.load(tensor, chunk, piece);
    message.convert(piece);
    put_bytes(out, piece.elements);
  }
  return out;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.code() != Exit::bug);
    return error.what();
  }
  return "";
}

const std::vector<std::string> kSchemes = {"dqsg:levels=5", "dqsg:levels=257,bucket=100", "dither:nmse=0.1",
                                           "dither:nmse=0.01,bucket=512", "raw"};

}  // namespace

TEST_CASE("any chunk of a message is what decompress gives") {
  MemorySource source = edges();
  for (const std::string& scheme : kSchemes) {
    for (const char* coder : {"pack", "zstd"}) {
      INFO(scheme << " " << coder);
      const TemporaryFile file;
      compress_to(file.path(), source, options_for(scheme, coder));
      const StoredMessage message = opened(file.path(), 3);
      const auto expected = decompressed(file.path());
      REQUIRE(message.tensors() == source.tensors().size());
      for (size_t i = message.tensors(); i-- > 0;) {  // in another order than the file's
        INFO(message.info(i).name);
        CHECK(elements_of(message, i) == expected.at(message.info(i).name));
        CHECK((message.decoder(i) == nullptr) == (scheme == "raw" || !message.info(i).dtype.is_float()));
      }
      CHECK(message.accounts().total() == file.bytes().size());
      uint64_t frames = 0;
      for (const TensorTally& tally : message.tallies()) frames += tally.bytes();
      CHECK(frames == message.accounts().frames + message.accounts().payloads);
    }
  }
}

TEST_CASE("a piece has the code that its decoder reads, and the laws that it declares") {
  MemorySource source = edges();
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dither:nmse=0.1"));
  const StoredMessage message = opened(file.path());
  Piece piece;
  message.load(4, 1, piece);
  REQUIRE(piece.work.code.exceptions.size() == 1);
  CHECK(piece.work.code.exceptions[0].index == 0);
  CHECK(piece.place.range.first == 4096);
  CHECK(piece.work.values.size() == 904);
  CHECK(std::isinf(piece.work.values[0]));
  std::vector<float> again(904);
  message.decoder(4)->decode(piece.work.code, piece.place.range, again);
  CHECK(std::memcmp(again.data(), piece.work.values.data(), again.size() * sizeof(float)) == 0);
  std::vector<Law> laws(904);
  message.decoder(4)->laws(piece.work.code, piece.place.range, again, laws);
  CHECK(laws[0].kind == Law::point);
  CHECK(laws[1].kind == Law::uniform);
  CHECK(message.stored_params(4) == message.decoder(4)->stored());
  CHECK(message.stored_params(1) == message.decoder(1)->stored());
  message.load(9, 0, piece);  // raw, after a scheme's
  CHECK(piece.work.code.exceptions.empty());
  CHECK(ByteView(piece.work.bytes).size() == 4096 * 4);
}

TEST_CASE("pieces are loaded by several threads at once") {
  MemorySource source = edges();
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=9", "zstd"));
  const StoredMessage message = opened(file.path());
  const auto expected = decompressed(file.path());
  std::vector<std::map<std::string, Bytes>> seen(4);
  {
    std::vector<std::jthread> pool;
    for (auto& mine : seen) {
      pool.emplace_back([&] {
        for (size_t i = 0; i < message.tensors(); ++i) mine[message.info(i).name] = elements_of(message, i);
      });
    }
  }
  for (const auto& mine : seen) CHECK(mine == expected);
}

TEST_CASE("a pipe is read once and its chunks as often as they are wanted") {
  MemorySource source = edges();
  const TemporaryFile file, name;
  compress_to(file.path(), source, options_for("dqsg:levels=5"));
  const std::string pipe = name.path() + ".pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const Bytes bytes = file.bytes();
  {
    const std::jthread writer([&] {
      std::ofstream(pipe, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
    const StoredMessage message = opened(pipe);
    const auto expected = decompressed(file.path());
    for (int time = 0; time < 2; ++time) CHECK(elements_of(message, 0) == expected.at("long"));
    CHECK(message.accounts().total() == bytes.size());
  }
  std::remove(pipe.c_str());
}

TEST_CASE("the metadata of a message are looked into") {
  MemorySource source = edges();
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=3"), {}, metadata_block("test", "{\"a\": [1, 2]}"));
  CHECK(opened(file.path()).accounts().metadata > 0);
  compress_to(file.path(), source, options_for("dqsg:levels=3"), {}, as_bytes("\x64text"));
  CHECK_FALSE(refusal([&] { opened(file.path()); }).empty());
}

TEST_CASE("every flipped bit and every cut of a message is refused, and so is what follows it") {
  MemorySource source;
  source.add_values("a", "f4", {4100}, std::vector<float>(4100, 0.0F)).add_values("b", "f2", {3}, {1, 2, 3});
  source.add("c", "i2", {2}, Bytes(4, std::byte{3}));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=3"));
  const Bytes bytes = file.bytes();
  REQUIRE(bytes.size() < 400);
  const TemporaryFile damaged;
  for (size_t at = 0; at < 8 * bytes.size(); ++at) {
    Bytes flipped = bytes;
    flipped[at / 8] ^= static_cast<std::byte>(1U << at % 8);
    damaged.write(flipped);
    INFO("bit " << at);
    CHECK(refusal([&] { opened(damaged.path()); }).find(damaged.path()) == 0);
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    damaged.write(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)));
    INFO("cut to " << size);
    CHECK(refusal([&] { opened(damaged.path()); }).find(damaged.path()) == 0);
  }
  Bytes twice = bytes;
  put_bytes(twice, bytes);
  damaged.write(twice);
  CHECK(refusal([&] { opened(damaged.path()); }).find("a second file begins") != std::string::npos);
}

TEST_CASE("a file that changes or is cut after it was opened is an error with its place, never other values") {
  MemorySource source;
  source.add_values("a", "f4", {9000}, made_values(9000));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=3"));
  const Bytes bytes = file.bytes();
  const StoredMessage message = opened(file.path());
  const Bytes expected = elements_of(message, 0);
  for (size_t at = 0; at < bytes.size(); ++at) {
    Bytes flipped = bytes;
    flipped[at] ^= std::byte{0x10};
    file.write(flipped);
    INFO("byte " << at);
    Bytes seen;
    const std::string text = refusal([&] { seen = elements_of(message, 0); });
    if (text.empty()) {
      CHECK(seen == expected);
    } else {
      CHECK(text.find(file.path() + ": tensor 'a': is damaged at byte ") == 0);
      CHECK(text.find("chunk ") != std::string::npos);
    }
  }
  for (const size_t size : {size_t{0}, size_t{100}, bytes.size() / 2}) {
    REQUIRE(truncate(file.path().c_str(), static_cast<off_t>(size)) == 0);
    INFO("cut to " << size);
    Piece piece;
    const std::string text = refusal([&] { message.load(0, 2, piece); });
    CHECK(text.find(file.path() + ": tensor 'a': ") == 0);
    file.write(bytes);
  }
  CHECK(elements_of(message, 0) == expected);
}

TEST_CASE("a table of frames larger than the memory allowed is refused") {
  MemorySource source;
  for (int i = 0; i < 100; ++i) source.add_values("t" + std::to_string(i), "f4", {1}, {1.0F});
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=3"));
  Progress progress;
  CHECK(refusal([&] { StoredMessage(file.path(), 1, 64 << 10, progress); }).find("--memory") != std::string::npos);
}

TEST_CASE("values are had where the tensor's type cannot hold them") {
  MemorySource source;
  source.add_values("a", "f2", {200}, std::vector<float>(200, 65504.0F));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dither:nmse=0.1"));
  const StoredMessage message = opened(file.path());
  Piece piece;
  message.load(0, 0, piece);
  CHECK(*std::max_element(piece.work.values.begin(), piece.work.values.end()) > 65504.0F);
  const std::string text = refusal([&] { message.convert(piece); });
  CHECK(text.find(file.path() + ": tensor 'a': chunk 1 of 1, at byte ") == 0);
  CHECK(text.find("--dtype f4") != std::string::npos);
}
