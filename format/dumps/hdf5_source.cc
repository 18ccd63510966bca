// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "codec/utf8.h"
#include "format/dumps/hdf5.h"
#include "format/dumps/hdf5_process.h"
#include "format/dumps/swap_bytes.h"
#include "format/dumps/tree.h"

namespace gradcodec {
namespace {

using namespace hdf5;

// What a sound file needs by far: to be listed, and for the elements of one request.
constexpr double kListSeconds = 4, kListBytesPerSecond = 1 << 20, kReadBytesPerSecond = 4 << 20;
constexpr double kRequestSeconds = 0.01;

// The names of tensors, and the lines about what is dropped, are held in memory: refused beyond so many bytes.
constexpr uint64_t kMaxNames = uint64_t{1} << 30, kMaxDropped = uint64_t{256} << 20;
// A dataset takes at least so many bytes of a file.
constexpr uint64_t kLeastDataset = 32;

// One process serves one file, and all of its tensors, a request at a time.
struct Server {
  explicit Server(int file) : process(file, false) {}
  std::mutex mutex;
  Process process;
};

struct Place {
  uint64_t offset;    // in the file; kNoPlace
  uint8_t word_size;  // of the words to be swapped there; 0 if none
};

// Elements that stand in the file as they are, but for the byte order. The process is not needed.
class PlacedData : public TensorData {
 public:
  PlacedData(const RandomFile& file, const TensorInfo& info, Place place)
      : file_(file), item_size_(info.dtype.item_size()), place_(place) {}

  void read(Range range, std::span<std::byte> out) const override {
    file_.read_at(place_.offset + range.first * item_size_, out);
    if (place_.word_size > 0) swap_bytes(out, place_.word_size);
  }

 private:
  const RandomFile& file_;
  uint64_t item_size_;
  Place place_;
};

// Elements that the library has to unpack or to make up.
class ServedData : public TensorData {
 public:
  ServedData(Server& server, const TensorInfo& info, size_t ordinal) : server_(server), info_(info) {
    const std::lock_guard lock(server_.mutex);
    Bytes request;
    put<uint64_t>(request, ordinal);
    server_.process.ask(Message::open, kRequestSeconds, request);
    const Header header = server_.process.next(8);
    if (header.kind != Message::opened || header.size != 8) server_.process.nonsense("no tensor was opened");
    server_.process.body(header, std::as_writable_bytes(std::span(&number_, 1)));
    server_.process.expect_done();
  }
  ServedData(const ServedData&) = delete;
  ServedData& operator=(const ServedData&) = delete;

  ~ServedData() override {
    const std::lock_guard lock(server_.mutex);
    try {
      server_.process.tell(Message::close, std::as_bytes(std::span(&number_, 1)));
    } catch (const Error&) {  // the process has ended
    }
  }

  void read(Range range, std::span<std::byte> out) const override {
    const std::lock_guard lock(server_.mutex);
    try {
      Process& process = server_.process;
      Bytes request;
      put(request, number_);
      put(request, range.first);
      put(request, range.count);
      process.ask(Message::read, kRequestSeconds + static_cast<double>(out.size()) / kReadBytesPerSecond, request);
      while (!out.empty()) {
        const Header header = process.next(out.size());
        if (header.kind != Message::data || header.size == 0) process.nonsense("elements are missing");
        process.body(header, out);
        out = out.subspan(header.size);
      }
      process.expect_done();
    } catch (Error& error) {
      throw error.in_tensor(info_.name);
    }
  }

 private:
  Server& server_;
  const TensorInfo& info_;
  uint64_t number_ = 0;
};

// The file once more, for reading only: one that was spooled could be written to.
Fd read_only(const RandomFile& file) {
  Fd fd(open(("/proc/self/fd/" + std::to_string(file.fd())).c_str(), O_RDONLY | O_CLOEXEC));
  return fd.get() >= 0 ? std::move(fd) : Fd(fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
}

class Hdf5Source : public Source {
 public:
  Hdf5Source(std::shared_ptr<RandomFile> file, const SourceOptions& options, std::vector<std::string>* dropped)
      : file_(std::move(file)), server_(read_only(*file_).get()) {
    Bytes request;
    put(request, file_->size());
    put<uint8_t>(request, options.drop_unsupported ? 1 : 0);
    const double seconds = kListSeconds + static_cast<double>(file_->size()) / kListBytesPerSecond;
    server_.process.ask(Message::list, seconds, request);
    while (take_listing(dropped)) {
    }
    // Nothing is passed on that the sink would refuse later, when the dump may be gone.
    parse_tree(tree_);
    check_names();
  }

  DumpKind kind() const override { return DumpKind::hdf5; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  Bytes tree() const override { return tree_; }

  std::unique_ptr<TensorData> open(size_t ordinal) override {
    const TensorInfo& info = tensors_.at(ordinal);
    const Place place = places_[ordinal];
    if (place.offset != kNoPlace) return std::make_unique<PlacedData>(*file_, info, place);
    try {
      return std::make_unique<ServedData>(server_, info, ordinal);
    } catch (Error& error) {
      throw error.in_tensor(info.name);
    }
  }

 private:
  // One message of the answer; false at its end.
  bool take_listing(std::vector<std::string>* dropped) {
    Process& process = server_.process;
    const Header header = process.next();
    if (header.kind == Message::done && header.size == 0) return false;
    uint64_t& taken = header.kind == Message::dropped ? dropped_size_ : names_size_;
    taken += sizeof(Header) + header.size;
    if (names_size_ > kMaxNames || dropped_size_ > kMaxDropped) {
      throw Error(Exit::limit, "has too many objects: their names take more than " + std::to_string(kMaxNames) +
                                   " bytes, or what would be said of those left out more than " +
                                   std::to_string(kMaxDropped));
    }
    if (header.kind == Message::dropped && header.size > kMaxText) process.nonsense("a line without end");
    const Bytes body = process.body(header);
    if (header.kind == Message::tensors) {
      take_tensors(body);
    } else if (header.kind == Message::tree && body.size() <= kMaxTreeSize - tree_.size()) {
      put_bytes(tree_, body);
    } else if (header.kind == Message::dropped) {
      if (dropped != nullptr) dropped->push_back(printable(ByteReader(body, "").get_text(body.size())));
    } else {
      process.nonsense("no part of a listing");
    }
    return true;
  }

  void take_tensors(ByteView body) {
    ByteReader in(body, "its list of tensors");
    while (in.left() > 0) {
      TensorInfo info;
      Place place{};
      try {
        info = get_tensor(in);
        check_tensor_info(info);
        place = {in.get<uint64_t>(), in.get<uint8_t>()};
      } catch (const Error& error) {
        server_.process.nonsense(error.what());
      }
      check_storage(info, place);
      tensors_.push_back(std::move(info));
      places_.push_back(place);
    }
  }

  // Are the bytes there that the shape claims?
  void check_storage(const TensorInfo& info, const Place& place) {
    const uint64_t size = info.byte_size(), file_size = file_->size();
    const auto claim = [&] {
      return "dataset '" + escaped(info.name) + "' has " + std::to_string(size) + " bytes by its shape";
    };
    if (tensors_.size() >= file_size / kLeastDataset)
      server_.process.nonsense("more tensors than the file has room for");
    if (place.offset != kNoPlace) {
      if (place.offset > file_size || size > file_size - place.offset) {
        throw Error(Exit::bad_input, claim() + ", but the file of " + std::to_string(file_size) +
                                         " bytes ends before: it is damaged or was cut");
      }
      if (place.word_size > 0 && info.dtype.item_size() % place.word_size != 0) {
        server_.process.nonsense("words that do not fit the elements");
      }
      return;
    }
    // Storage that was never written reads as the fill value, and compressed chunks may be small. Past this proportion
    // it is a trap or a mistake, and would take hours.
    constexpr uint64_t kUnsuspicious = uint64_t{1} << 30, kProportion = 1 << 16;
    if (size > kUnsuspicious && size / kProportion > file_size) {
      throw Error(Exit::limit, claim() + ", in a file of only " + std::to_string(file_size) + ": more than " +
                                   std::to_string(kProportion) + " times as many");
    }
  }

  void check_names() const {
    std::vector<std::string_view> names;
    names.reserve(tensors_.size());
    for (const TensorInfo& info : tensors_) names.push_back(info.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) throw Error(Exit::bad_input, "two datasets are named '" + escaped(*twice) + "'");
  }

  std::shared_ptr<RandomFile> file_;
  Server server_;
  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;
  Bytes tree_;
  uint64_t names_size_ = 0, dropped_size_ = 0;  // bytes of messages
};

}  // namespace

std::unique_ptr<Source> open_hdf5(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                  std::vector<std::string>* dropped) {
  const std::string name = file->name();
  try {
    return std::make_unique<Hdf5Source>(std::move(file), options, dropped);
  } catch (Error& error) {
    throw error.in_file(name);
  }
}

}  // namespace gradcodec
