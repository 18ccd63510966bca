// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "format/dumps/hdf5.h"
#include "format/dumps/hdf5_process.h"
#include "format/dumps/sink_order.h"
#include "format/dumps/tree.h"

namespace gradcodec {
namespace {

using namespace hdf5;

// What the process needs by far: to make a file of so many bytes of description, and for the elements that it writes.
// Where a tensor has a fill value, the library fills its place first.
constexpr double kStartSeconds = 4, kDescribedBytesPerSecond = 32 << 10, kWrittenBytesPerSecond = 4 << 20,
                 kFilledBytesPerSecond = 64 << 20;

std::string reason() { return std::strerror(errno); }

class Hdf5Sink : public Sink {
 public:
  Hdf5Sink(OutputFile& output, const std::vector<TensorInfo>& tensors, ByteView tree)
      : output_(output), tensors_(tensors), sink_order_(tensors) {
    Bytes description;
    put<uint64_t>(description, tensors_.size());
    double elements = 0;  // bytes
    for (const TensorInfo& info : tensors_) {
      elements += static_cast<double>(info.byte_size());
      try {
        TypeSpec::of(info.dtype);
      } catch (Error& error) {
        throw error.in_tensor(info.name);
      }
      put_tensor(description, info);
    }
    file_ = Fd(open(output_.path_for_library().c_str(), O_RDWR | O_CLOEXEC));
    if (file_.get() < 0) throw Error(Exit::io, "cannot be opened: " + reason());
    process_.emplace(file_.get(), true);
    seconds_ = kStartSeconds + static_cast<double>(description.size() + tree.size()) / kDescribedBytesPerSecond;
    if (!tree.empty()) seconds_ += elements / kFilledBytesPerSecond;
    process_->ask(Message::create, seconds_, description, tree);
    take_places();
  }

  void begin(const TensorInfo& info) override {
    sink_order_.begin(info);
    item_size_ = info.dtype.item_size();
    position_ = 0;
  }

  void write(ByteView bytes) override {
    sink_order_.write(bytes.size());
    if (bytes.empty()) return;
    try {
      if (places_[next_] == kNoPlace) {
        write_by_process(bytes);
      } else {
        write_at(places_[next_] + position_, bytes);
      }
    } catch (Error& error) {
      throw error.in_file(output_.name());
    }
    position_ += bytes.size();
  }

  void end() override {
    sink_order_.end();
    ++next_;
  }

  void finish() override {
    sink_order_.finish();
    try {
      process_->ask(Message::finish, seconds_, {});
      process_->expect_done();
    } catch (Error& error) {
      throw error.in_file(output_.name());
    }
    process_.reset();
    if (close(file_.release()) != 0) throw Error(Exit::io, "cannot be written: " + reason()).in_file(output_.name());
    output_.commit();
  }

 private:
  void take_places() {
    for (Header header = process_->next(); header.kind != Message::done; header = process_->next()) {
      const Bytes body = process_->body(header);
      ByteReader in(body, "its list of places");
      if (header.kind != Message::places || body.empty() || body.size() % sizeof(uint64_t) != 0 ||
          body.size() / sizeof(uint64_t) > tensors_.size() - places_.size()) {
        process_->nonsense("no places of tensors");
      }
      while (in.left() > 0) {
        const auto place = in.get<uint64_t>();
        constexpr uint64_t kEnd = uint64_t{1} << 62;
        if (place != kNoPlace && (place > kEnd || tensors_[places_.size()].byte_size() > kEnd)) {
          process_->nonsense("a tensor beyond all files");
        }
        places_.push_back(place);
      }
    }
    if (places_.size() != tensors_.size()) process_->nonsense("places of tensors are missing");
  }

  void write_by_process(ByteView bytes) {
    Bytes request;
    put<uint64_t>(request, next_);
    put(request, position_ / std::max<uint64_t>(1, item_size_));
    process_->ask(Message::write, 0.01 + static_cast<double>(bytes.size()) / kWrittenBytesPerSecond, request, bytes);
    process_->expect_done();
  }

  void write_at(uint64_t offset, ByteView bytes) const {
    constexpr size_t kMaxCall = size_t{1} << 30;
    while (!bytes.empty()) {
      const ssize_t n = pwrite(file_.get(), bytes.data(), std::min(bytes.size(), kMaxCall), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Exit::io, "cannot be written: " + reason());
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
  }

  OutputFile& output_;
  std::vector<TensorInfo> tensors_;
  SinkOrder sink_order_;
  Fd file_;
  std::optional<Process> process_;
  std::vector<uint64_t> places_;  // in the file, of each tensor; kNoPlace
  double seconds_ = 0;            // of processor time, to make the file
  size_t next_ = 0;               // the tensor being written
  uint64_t item_size_ = 0, position_ = 0;
};

}  // namespace

std::unique_ptr<Sink> make_hdf5_sink(OutputFile& output, const std::vector<TensorInfo>& tensors, ByteView tree) {
  try {
    return std::make_unique<Hdf5Sink>(output, tensors, tree);
  } catch (Error& error) {
    throw error.in_file(output.name());
  }
}

}  // namespace gradcodec
