// Damaged files: nothing wrong is ever decoded, and --salvage finds all that spec/salvage.md says is to be found.
// SPDX-License-Identifier: Apache-2.0
#include "format/salvage.h"

#include <algorithm>
#include <map>
#include <set>

#include "format/made_messages.h"
#include "format/metadata.h"
#include "format/stored_message.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

DecompressOptions all_of_it() {
  DecompressOptions options;
  options.wanted = [](const TensorInfo&) { return true; };
  options.memory = kMemory;
  return options;
}

struct Extent {
  uint64_t offset = 0, size = 0;
  uint64_t end() const { return offset + size; }
};

// A right file, where its parts are, and what it decodes to.
struct Sound {
  Sound(MemorySource source, const CompressOptions& options, ByteView metadata) {
    const TemporaryFile file;
    compress_to(file.path(), source, options, {}, metadata);
    bytes = file.bytes();
    Progress progress;
    StoredMessage message(file.path(), 1, kMemory, progress);
    for (const ContainerReader::BlockPlace& block : message.blocks()) {
      if (block.tag == static_cast<uint8_t>(Tag::end)) {
        end = {block.offset, block.size};
      } else {
        headers.push_back({block.offset, block.size});
      }
    }
    for (uint64_t at = headers.back().end(); at < end.offset; at = frames.back().end()) {
      uint32_t head = 0;
      std::memcpy(&head, bytes.data() + at, sizeof(head));
      frames.push_back({at, (head & kMaxBody) + kFrameOverhead});
    }
    MemorySink sink;
    Salvager(DamagedFile(RandomFile::open(file.path()), kMemory), all_of_it(), progress).write(false, sink, progress);
    elements = sink.elements;
    schema = message.schema();
  }

  Bytes bytes;
  Schema schema;
  std::vector<Extent> headers, frames;  // SCHEMA to MESSAGE
  Extent end;
  std::map<std::string, Bytes> elements;
};

class Numbers {
 public:
  explicit Numbers(uint32_t key) : words_(kWords) {
    kernels::scalar::philox_words({{key, 77}, 0, 0}, 0, words_.size(), words_.data());
  }
  uint64_t below(uint64_t n) { return n == 0 ? 0 : words_[at_++ % kWords] % n; }

 private:
  static constexpr size_t kWords = 512;
  std::vector<uint32_t> words_;
  size_t at_ = 0;
};

// [a, b) of the bytes: short, or up to a third of them, often where the header or the end is.
Extent some_range(const Bytes& bytes, Numbers& random) {
  const uint64_t most = random.below(2) == 0 ? 40 : bytes.size() / 3 + 1;
  const uint64_t size = std::min<uint64_t>(1 + random.below(most), bytes.size());
  const uint64_t room = bytes.size() - size + 1;
  const uint64_t place = random.below(4);
  const uint64_t near = std::min<uint64_t>(room, 400);
  return {place == 0 ? random.below(near) : place == 1 ? room - 1 - random.below(near) : random.below(room), size};
}

void damage(Bytes& bytes, Numbers& random) {
  if (bytes.empty()) return;
  const Extent range = some_range(bytes, random);
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(range.offset);
  const auto last = first + static_cast<std::ptrdiff_t>(range.size);
  switch (random.below(6)) {
    case 0:
      for (uint64_t n = 1 + random.below(100); n > 0; --n) {
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1U << random.below(8));
      }
      break;
    case 1:
      for (uint64_t n = 1 + random.below(8); n > 0; --n) {
        bytes[range.offset + random.below(range.size)] ^= static_cast<std::byte>(1U << random.below(8));
      }
      break;
    case 2:
      bytes.erase(first, random.below(2) == 0 ? bytes.end() : last);
      break;
    case 3: {
      const Bytes copy(first, last);
      bytes.insert(last, copy.begin(), copy.end());
      break;
    }
    case 4:
      std::fill(first, last, std::byte{0});
      break;
    default: {
      const uint64_t other = random.below(bytes.size() - range.size + 1);
      std::swap_ranges(first, last, bytes.begin() + static_cast<std::ptrdiff_t>(other));
    }
  }
}

// What of the sound file is to be found in the damaged one, by the words of spec/salvage.md and by comparing bytes.
class Oracle {
 public:
  Oracle(const Sound& sound, const Bytes& damaged) : sound_(sound), damaged_(damaged) {
    const uint64_t begin = sound.headers.back().end();
    const Extent& tail_end = sound.end;
    end_is_last_ = damaged.size() >= tail_end.size + kTailSize &&
                   same(damaged.size() - tail_end.size - kTailSize, {tail_end.offset, tail_end.size + kTailSize});
    if (!in_place(sound.headers[0])) return;
    if (follows_from_front()) {
      frames_at_ = begin;
    } else if (end_is_last_) {
      const uint64_t at = damaged.size() - kTailSize - (tail_end.end() - begin);
      const Extent& message = sound.headers.back();
      if (tail_end.end() - begin + message.size + 8 + kTailSize > damaged.size()) return;
      if (!same(at - message.size - 8, {message.offset - 8, message.size + 8})) return;
      frames_at_ = at;
    } else {
      return;
    }
    has_header_ = true;
    find_end();
    find_frames();
  }

  bool has_header() const { return has_header_; }
  bool has_frame(size_t k) const { return has_header_ && found_[k]; }

 private:
  bool same(uint64_t at, const Extent& part) const {
    return at <= damaged_.size() && part.size <= damaged_.size() - at &&
           std::equal(sound_.bytes.begin() + static_cast<std::ptrdiff_t>(part.offset),
                      sound_.bytes.begin() + static_cast<std::ptrdiff_t>(part.end()),
                      damaged_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  bool in_place(const Extent& part) const { return same(part.offset, part); }

  bool follows_from_front() const {
    for (const Extent& block : sound_.headers) {
      if (&block == &sound_.headers.back()) return in_place(block);
      const uint64_t length_size = block.size - 9 < 129 ? 1 : block.size - 9 < (1 << 14) + 2 ? 2 : 3;
      const bool has_length = in_place({block.offset + 1, length_size});
      const bool has_rest = in_place({block.offset, block.size - 8}) || in_place({block.end() - 8, 8});
      if (!has_length || !has_rest) return false;
    }
    return false;
  }

  void find_end() {
    if (end_is_last_ && damaged_.size() - kTailSize - sound_.end.size >= frames_at_) {
      end_at_ = damaged_.size() - kTailSize - sound_.end.size;
      return;
    }
    for (uint64_t at = frames_at_; at + sound_.end.size <= damaged_.size(); ++at) {
      if (!same(at, sound_.end)) continue;
      end_at_ = at;
      return;
    }
  }

  void find_frames() {
    bool heads_known = true;
    for (const Extent& frame : sound_.frames) {
      const uint64_t front = frames_at_ + (frame.offset - sound_.frames[0].offset);
      bool found = (end_at_ || heads_known) && same(front, frame);
      if (end_at_ && *end_at_ >= sound_.end.offset - frame.offset) {
        found = found || same(*end_at_ - (sound_.end.offset - frame.offset), frame);
      }
      found_.push_back(found);
      heads_known = heads_known && same(front, {frame.offset, 4});
    }
  }

  const Sound& sound_;
  const Bytes& damaged_;
  bool end_is_last_ = false, has_header_ = false;
  uint64_t frames_at_ = 0;
  std::optional<uint64_t> end_at_;
  std::vector<bool> found_;
};

// Decoded by the strict reader: nothing if it refused.
std::optional<std::map<std::string, Bytes>> strictly(const TemporaryFile& file) {
  try {
    InputStream input(file.path());
    ContainerReader reader(input, kMemory);
    if (!reader.begin() || reader.kind() == FileKind::schema) return std::nullopt;
    check_holds_tensors(reader.kind(), reader.schema());
    check_claims(input, reader.schema());
    const DecompressOptions options = all_of_it();
    MemorySink sink;
    Progress progress;
    const auto decoded = decompress(reader, reader.schema(), id_of(reader.schema(), reader.message(), reader.kind()),
                                    options, &sink, progress);
    compare_digests(reader.schema(), options, reader.finish(), decoded);
    reader.expect_end_of_input();
    return sink.elements;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Counts of what the test met, so that it cannot pass by meeting nothing.
struct Met {
  int refused = 0, unharmed = 0, headless = 0, chunks_lost = 0, chunks_found = 0, found_where_others_are_lost = 0;
};

void check_salvage(const Sound& sound, const Bytes& bytes, const TemporaryFile& file, Met& met) {
  const Oracle oracle(sound, bytes);
  const DecompressOptions options = all_of_it();
  try {
    const DamagedFile damaged(RandomFile::open(file.path()), kMemory);
    Progress progress;
    Salvager salvager(damaged, options, progress);
    MemorySink sink;
    salvager.write(false, sink, progress);
    std::set<std::pair<size_t, uint64_t>> lost;
    for (const Loss& loss : salvager.losses()) {
      for (uint64_t chunk = loss.first; chunk <= loss.last; ++chunk) lost.insert({loss.tensor, chunk});
    }
    met.chunks_lost += static_cast<int>(lost.size());
    FrameWalk walk(sound.schema);
    FramePlace place;
    bool has_params = true;
    for (size_t k = 0; walk.next(place); ++k) {
      if (place.has_params()) has_params = oracle.has_frame(k);
      if (place.params_only) continue;
      const TensorInfo& info = sound.schema.tensors[place.tensor].info;
      const bool is_lost = lost.contains({place.tensor, place.chunk});
      if (has_params && oracle.has_frame(k)) {
        INFO("tensor '" << info.name << "', " << place.text() << " is there");
        REQUIRE(!is_lost);
        ++met.chunks_found;
        if (!lost.empty()) ++met.found_where_others_are_lost;
      }
      const size_t item = info.dtype.item_size(), first = place.range.first * item, size = place.range.count * item;
      const Bytes& right = sound.elements.at(info.name);
      const Bytes& got = sink.elements.at(info.name);
      REQUIRE(got.size() == right.size());
      const ByteView chunk = ByteView(got).subspan(first, size);
      if (is_lost) {
        REQUIRE(std::all_of(chunk.begin(), chunk.end(), [](std::byte b) { return b == std::byte{0}; }));
      } else {
        REQUIRE(std::equal(chunk.begin(), chunk.end(), ByteView(right).subspan(first, size).begin()));
      }
    }
  } catch (const Error& error) {
    INFO(error.what());
    ++met.headless;
    REQUIRE((!oracle.has_header() || bytes.size() < sound.frames.size()));
  }
}

std::vector<Sound> sound_files() {
  const Bytes metadata =
      metadata_block("gradcodec 0", R"({"run": "a name of some length, as one would give", "epoch": 3})");
  std::vector<Sound> out;
  out.emplace_back(edges(), options_for("dqsg:levels=5"), ByteView());
  out.emplace_back(edges(), options_for("dither:nmse=0.1", "rans-dither"), metadata);
  MemorySource one;
  one.add_values("w", "f4", {50, 1000}, made_values(50000));
  out.emplace_back(std::move(one), options_for("qsgd:s=1", "rans"), metadata);
  MemorySource rotated;
  rotated.add_values("w", "f4", {9000}, made_values(9000)).add_values("b", "f4", {40}, made_values(40));
  out.emplace_back(std::move(rotated), options_for("topk:k=10%/qsgd:s=4"), ByteView());
  return out;
}

}  // namespace

TEST_CASE("ten thousand damaged files: detected or right, and all is salvaged that can be found") {
  const std::vector<Sound> sounds = sound_files();
  const TemporaryFile file;
  Met met;
  for (uint32_t n = 0; n < 10'000; ++n) {
    const Sound& sound = sounds[n % sounds.size()];
    Numbers random(n);
    Bytes bytes = sound.bytes;
    for (uint64_t times = 1 + random.below(5) / 4; times > 0; --times) damage(bytes, random);
    file.write(bytes);
    INFO("damage " << n);
    const auto decoded = strictly(file);
    if (decoded) {
      ++met.unharmed;
      REQUIRE(*decoded == sound.elements);
    } else {
      ++met.refused;
    }
    check_salvage(sound, bytes, file, met);
  }
  CHECK(met.refused > 9'000);
  CHECK(met.unharmed > 0);
  CHECK(met.headless > 500);
  CHECK(met.chunks_lost > 5'000);
  CHECK(met.chunks_found > 50'000);
  CHECK(met.found_where_others_are_lost > 20'000);
}
