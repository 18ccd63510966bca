// SPDX-License-Identifier: Apache-2.0
#include "format/canonical.h"

#include <algorithm>
#include <array>

#include "codec/registry.h"
#include "format/crew.h"
#include "format/forms.h"
#include "format/ordered.h"
#include "format/wrapped.h"

namespace gradcodec {
namespace {

using BlockPlace = ContainerReader::BlockPlace;

bool equal(ByteView a, ByteView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string form_name(Form form) {
  constexpr std::array<const char*, 3> kNames = {"coder", "constant", "stored"};
  return kNames[static_cast<size_t>(form)];
}

std::string at_byte(uint64_t offset) { return ", at byte " + std::to_string(offset) + " of the file"; }

// What of a chunk's streams is written in another way; empty if nothing is. `bytes`: the streams in the file.
std::string departure_of_streams(const StreamList& streams, const Coder& coder, bool forms, Form form, ByteView bytes) {
  // Without knowing the coder's bytes: what they are compared with, which is either the constant or pack's.
  const Coder& sure = coder.is_canonical() ? coder : coder_named("pack");
  Bytes expected;
  Form expected_form = write_streams(streams, sure, forms, expected);
  if (!coder.is_canonical() && expected_form == Form::coder) {
    if (form == Form::coder) {
      if (bytes.size() < expected.size()) return "";
      return "its symbols take " + std::to_string(bytes.size()) + " bytes in form coder, and " +
             std::to_string(expected.size()) + " in form stored, which is written then";
    }
    expected_form = Form::stored;
  }
  if (form != expected_form) {
    return "its symbols are in form " + form_name(form) + " (" + std::to_string(bytes.size()) + " bytes) where form " +
           form_name(expected_form) + " (" + std::to_string(expected.size()) + " bytes) is written";
  }
  return equal(bytes, expected) ? "" : "its symbols are in other bytes than their coder writes";
}

// One chunk on its way.
struct ChunkCheck {
  size_t tensor = 0;
  uint64_t chunk = 0;
  Piece piece;
  std::vector<std::string> texts;
};

class CanonicalCheck {
 public:
  CanonicalCheck(const StoredMessage& message, Progress& progress, size_t most)
      : message_(message), progress_(progress), most_(most) {}

  std::vector<Departure> run(unsigned threads, uint64_t memory) {
    progress_.total += total_bytes(message_.schema());
    in_file(message_.file().name(), [&] { check_blocks(); });
    const Crew crew = crew_for(message_.schema(), threads, memory, false);
    run_ordered<ChunkCheck>(
        crew.threads, crew.slots, [this](ChunkCheck& item) { return make(item); },
        [this](ChunkCheck& item) { work(item); }, [this](ChunkCheck& item) { take(item); });
    return std::move(out_);
  }

 private:
  void add(std::string tensor, std::string place, std::string text) {
    if (out_.size() < most_) out_.push_back({std::move(tensor), std::move(place), std::move(text)});
  }

  void check_blocks() {
    if (!equal(message_.bytes(0, kPrologueSize), write_prologue(message_.kind()))) {
      add("", "the prologue", "says another minor version than " + std::to_string(kMinor));
    }
    if (!message_.message().digests) add("", "MESSAGE", "says that the file has no digests of its tensors");
    uint64_t seed = 0;  // of the block's check, up to MESSAGE
    uint8_t last = 0;
    const std::vector<BlockPlace>& blocks = message_.blocks();
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Bytes bytes = message_.bytes(blocks[i].offset, blocks[i].size);
      const std::string text = departure_of_block(blocks[i].tag, bytes, seed, last);
      if (!text.empty()) add("", "block " + std::to_string(i) + at_byte(blocks[i].offset), text);
      seed = ByteReader(ByteView(bytes).last(8), "a block").get<uint64_t>();
      last = blocks[i].tag;
    }
  }

  std::string departure_of_block(uint8_t tag, ByteView bytes, uint64_t seed, uint8_t last) const {
    const auto rewritten = [&](const Bytes& body) { return equal(bytes, write_block(Tag{tag}, body, seed)); };
    switch (Tag{tag}) {
      case Tag::schema:
        return rewritten(write_schema(message_.schema())) ? "" : "SCHEMA is in other bytes than are written for it";
      case Tag::message:
        return rewritten(write_message(message_.message())) ? "" : "MESSAGE is in other bytes than are written for it";
      case Tag::tree:
        if (last == static_cast<uint8_t>(Tag::metadata)) return "TREE stands behind METADATA";
        return departure_of_wrapped("TREE", bytes);
      case Tag::metadata:
        return departure_of_wrapped("METADATA", bytes);
      case Tag::state:
      case Tag::end:
        return "";  // follows from the frames
    }
    return "is of type " + std::to_string(tag) + ", which this program does not write";
  }

  std::string departure_of_wrapped(const std::string& name, ByteView block) const {
    ByteReader in(block, name);
    in.get<uint8_t>();
    const uint64_t size = in.get_varint();
    const ByteView body = in.get_bytes(size);
    const Bytes content = unwrap_body(body, name, message_.memory());
    const bool packed = body[0] == std::byte{1};
    // What stands in front of the packed content: the flag and the size.
    Bytes head(1);
    put_varint(head, content.size());
    return packed && body.size() - head.size() >= content.size() ? name + " is packed, and no smaller for it" : "";
  }

  bool make(ChunkCheck& item) {
    if (next_tensor_ == message_.tensors()) return false;
    item.tensor = next_tensor_;
    item.chunk = next_chunk_;
    if (++next_chunk_ == message_.chunks(next_tensor_)) {
      ++next_tensor_;
      next_chunk_ = 0;
    }
    return true;
  }

  void work(ChunkCheck& item) const {
    item.texts.clear();
    message_.load(item.tensor, item.chunk, item.piece);
    const Decoder* decoder = message_.decoder(item.tensor);
    if (item.chunk == 0 && decoder != nullptr && message_.stored_params(item.tensor) != decoder->stored()) {
      item.texts.push_back("the tensor's parameters are in other bytes than are written for them");
    }
    const Code& code = item.piece.work.code;
    const ByteView payload = item.piece.frame.payload.subspan(message_.params_of(item.piece).size());
    Bytes side;
    write_exceptions(code.exceptions, side);
    write_params(code, side);
    if (side.size() > payload.size() || !equal(payload.first(side.size()), side)) {
      item.texts.push_back("its exceptions or parameters are in other bytes than are written for them");
      return;
    }
    const std::string text =
        departure_of_streams(code, message_.coder(item.tensor), !message_.choice(item.tensor).is_private(),
                             item.piece.frame.form, payload.subspan(side.size()));
    if (!text.empty()) item.texts.push_back(text);
  }

  void take(ChunkCheck& item) {
    const TensorInfo& info = message_.info(item.tensor);
    const std::string place = item.piece.place.text() + at_byte(item.piece.frame.offset);
    for (std::string& text : item.texts) add(info.name, place, std::move(text));
    progress_.done += item.piece.place.range.count * info.dtype.item_size();
  }

  const StoredMessage& message_;
  Progress& progress_;
  const size_t most_;
  size_t next_tensor_ = 0;
  uint64_t next_chunk_ = 0;
  std::vector<Departure> out_;
};

}  // namespace

std::vector<Departure> check_canonical(const StoredMessage& message, unsigned threads, uint64_t memory,
                                       Progress& progress, size_t most) {
  return CanonicalCheck(message, progress, most).run(threads, memory);
}

}  // namespace gradcodec
