// gradcodec-hdf5: the HDF5 library in a process of its own, which gradcodec starts and asks. What they say to each
// other is in format/dumps/hdf5_protocol.h.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dumps/hdf5_protocol.h"
#include "format/hdf5/confine.h"
#include "format/hdf5/reader.h"
#include "format/hdf5/writer.h"

namespace gradcodec::hdf5 {
namespace {

// So much is read, or said, at a time.
constexpr size_t kPiece = size_t{4} << 20, kListingPiece = size_t{1} << 20;

// False at the end of the conversation.
bool receive(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = read(kSocket, out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

// Ends the process if nobody listens any more.
void say(Message kind, ByteView body = {}) {
  const Header header{kind, body.size()};
  for (ByteView part : {std::as_bytes(std::span(&header, 1)), body}) {
    while (!part.empty()) {
      const ssize_t n = write(kSocket, part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) _exit(0);
      part = part.subspan(static_cast<size_t>(n));
    }
  }
}

void say_in_pieces(Message kind, ByteView body) {
  for (; !body.empty(); body = body.subspan(std::min(body.size(), kListingPiece))) {
    say(kind, body.first(std::min(body.size(), kListingPiece)));
  }
}

void fail(Exit code, std::string_view text) {
  const bool known = code >= Exit::bad_input && code <= Exit::unsupported;
  Bytes body;
  put(body, static_cast<uint8_t>(known ? code : Exit::bad_input));
  put_bytes(body, as_bytes(text.substr(0, kMaxText - 1)));
  say(Message::failed, body);
}

class Server {
 public:
  // Answers one request.
  void answer(Message kind, ByteView body) {
    ByteReader in(body, "a request");
    switch (kind) {
      case Message::list:
        return list(in);
      case Message::open:
        return open(in);
      case Message::read:
        return read(in);
      case Message::close:
        open_.erase(in.get<uint64_t>());
        return;
      case Message::create:
        return create(in);
      case Message::write:
        return write(in);
      case Message::finish:
        writer_.value().finish();
        return say(Message::done);
      default:
        throw Error(Exit::bad_input, "the HDF5 process was asked for what it does not know");
    }
  }

 private:
  void list(ByteReader& in) {
    const auto size = in.get<uint64_t>();
    const bool drop = in.get<uint8_t>() != 0;
    std::vector<std::string> dropped;
    reader_.emplace(kDump, size, drop ? &dropped : nullptr);
    Bytes piece;
    for (const Found& found : reader_->tensors()) {
      put_tensor(piece, found.info);
      put(piece, found.offset);
      put(piece, static_cast<uint8_t>(found.word_size));
      if (piece.size() < kListingPiece) continue;
      say(Message::tensors, piece);
      piece.clear();
    }
    if (!piece.empty()) say(Message::tensors, piece);
    for (const std::string& line : dropped) say(Message::dropped, as_bytes(line.substr(0, kMaxText)));
    say_in_pieces(Message::tree, write_tree(reader_->tree()));
    say(Message::done);
  }

  void open(ByteReader& in) {
    const auto ordinal = in.get<uint64_t>();
    auto tensor = reader_.value().open(ordinal);
    const uint64_t item_size = reader_->tensors()[ordinal].info.dtype.item_size();
    open_.emplace(next_, Opened{std::move(tensor), item_size});
    Bytes number;
    put(number, next_++);
    say(Message::opened, number);
    say(Message::done);
  }

  void read(ByteReader& in) {
    const auto& [tensor, item_size] = open_.at(in.get<uint64_t>());
    auto first = in.get<uint64_t>(), count = in.get<uint64_t>();
    const uint64_t at_once = std::max<uint64_t>(1, kPiece / item_size);
    Bytes piece;
    while (count > 0) {
      const Range range{first, std::min(count, at_once)};
      piece.resize(range.count * item_size);
      tensor->read(range, piece);
      say(Message::data, piece);
      first += range.count;
      count -= range.count;
    }
    say(Message::done);
  }

  void create(ByteReader& in) {
    std::vector<TensorInfo> tensors;
    for (auto left = in.get<uint64_t>(); left > 0; --left) tensors.push_back(get_tensor(in));
    writer_.emplace(kDump, std::move(tensors), in.rest());
    Bytes places;
    for (const uint64_t place : writer_->places()) put(places, place);
    say_in_pieces(Message::places, places);
    say(Message::done);
  }

  void write(ByteReader& in) {
    const auto ordinal = in.get<uint64_t>(), first = in.get<uint64_t>();
    writer_.value().write(ordinal, first, in.rest());
    say(Message::done);
  }

  struct Opened {
    std::unique_ptr<OpenTensor> tensor;
    uint64_t item_size;
  };

  std::optional<Reader> reader_;
  std::map<uint64_t, Opened> open_;
  uint64_t next_ = 0;  // the number of the tensor that is opened next
  std::optional<Writer> writer_;
};

void serve() {
  Server server;
  for (;;) {
    Header header{};
    if (!receive(std::as_writable_bytes(std::span(&header, 1)))) return;
    try {
      Bytes body(header.size);
      if (!receive(body)) return;
      server.answer(header.kind, body);
    } catch (const Error& error) {
      fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
      fail(Exit::limit, "the HDF5 library needs more memory than it is given");
    } catch (const std::exception& error) {
      fail(Exit::bad_input, std::string("the HDF5 process fails: ") + error.what());
    }
  }
}

}  // namespace
}  // namespace gradcodec::hdf5

int main(int argc, char** argv) {
  using namespace gradcodec::hdf5;
  const std::string_view mode = argc == 3 ? argv[2] : "";
  if (std::string_view(argc > 1 ? argv[1] : "") != kProtocol || (mode != kReads && mode != kWrites)) {
    std::fprintf(stderr, "gradcodec-hdf5: this program is started by gradcodec, to read and write HDF5\n");
    return kOtherProtocol;
  }
  // What ends gradcodec ends the conversation; a file that may not grow is an error.
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGTERM, SIGXFSZ}) std::signal(signal, SIG_IGN);
  set_up_library();
  confine(mode == kWrites);
  serve();
  // Without the library's closing of what is open: it may crash where a file is damaged.
  _exit(0);
}
