// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npz.h"

#include <archive.h>
#include <archive_entry.h>
#include <clocale>
#include <cstdint>
#include <exception>
#include <utility>

#include "codec/error.h"
#include "format/dumps/npy.h"
#include "format/dumps/sink_order.h"
#include "format/dumps/zip_directory.h"

namespace gradcodec {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct FreeReader {
  void operator()(archive* a) const { archive_read_free(a); }
};
struct FreeWriter {
  void operator()(archive* a) const { archive_write_free(a); }
};
struct FreeEntry {
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};

std::string reason_of(archive* a) {
  const char* text = archive_error_string(a);
  return text == nullptr ? "unknown error" : escaped(text);
}

// The content of one member, from front to back. libarchive is given the member alone, as a zip file whose one local
// header is made from the checked directory: it never looks at the rest of the archive, and opening a member takes the
// same time however many there are.
class MemberReader {
 public:
  MemberReader(const RandomFile& file, const ZipMember& member) : file_(file), member_(member) {
    at_ = member.data_offset;
    end_ = member.data_offset + member.compressed_size;
    require(archive_ != nullptr);
    require(archive_read_support_format_zip_streamable(archive_.get()) == ARCHIVE_OK);
    require(archive_read_open(archive_.get(), this, nullptr, give_bytes, nullptr) == ARCHIVE_OK);
    archive_entry* entry = nullptr;
    require(archive_read_next_header(archive_.get(), &entry) == ARCHIVE_OK);
  }
  MemberReader(const MemberReader&) = delete;
  MemberReader& operator=(const MemberReader&) = delete;

  // The next bytes, valid until the next call. Empty at the end, once length and checksum have been found right.
  ByteView next() {
    for (;;) {
      const void* bytes = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int result = archive_read_data_block(archive_.get(), &bytes, &size, &offset);
      if (result == ARCHIVE_EOF) size = 0;
      require(result == ARCHIVE_OK || result == ARCHIVE_EOF);
      // libarchive compares only the low 32 bits, and only at the end.
      if (size > member_.size - given_ || (result == ARCHIVE_EOF && given_ != member_.size)) {
        throw Error(Exit::bad_input, "damaged: its content is not the " + std::to_string(member_.size) +
                                         " bytes that the zip directory says");
      }
      given_ += size;
      if (size > 0 || result == ARCHIVE_EOF) return {static_cast<const std::byte*>(bytes), size};
    }
  }

 private:
  static la_ssize_t give_bytes(archive*, void* self, const void** bytes) {
    return static_cast<MemberReader*>(self)->give(bytes);
  }

  // Exceptions must not pass through libarchive: they wait in failure_.
  la_ssize_t give(const void** bytes) noexcept {
    try {
      if (!header_given_) {
        buffer_ = make_header();
        header_given_ = true;
      } else {
        constexpr uint64_t kPiece = uint64_t{256} << 10;
        buffer_.resize(std::min(kPiece, end_ - at_));
        file_.read_at(at_, buffer_);
        at_ += buffer_.size();
      }
      *bytes = buffer_.data();
      return static_cast<la_ssize_t>(buffer_.size());
    } catch (...) {
      failure_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  Bytes make_header() const {
    Bytes out;
    put<uint32_t>(out, 0x04034B50);
    put<uint16_t>(out, 45);  // version needed: zip64
    put<uint16_t>(out, 0);   // flags
    put<uint16_t>(out, member_.method);
    put<uint32_t>(out, 0x00210000);  // 1980-01-01
    put<uint32_t>(out, member_.crc);
    put<uint32_t>(out, 0xFFFFFFFF);  // sizes: in the zip64 field
    put<uint32_t>(out, 0xFFFFFFFF);
    put<uint16_t>(out, 1);   // length of the name
    put<uint16_t>(out, 20);  // length of the extra fields
    put_bytes(out, as_bytes("m"));
    put<uint16_t>(out, 1);
    put<uint16_t>(out, 16);
    put<uint64_t>(out, member_.size);
    put<uint64_t>(out, member_.compressed_size);
    return out;
  }

  void require(bool held) {
    if (held) return;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    if (archive_ == nullptr) throw std::bad_alloc();
    throw Error(Exit::bad_input, "damaged: " + reason_of(archive_.get()) + "; fetch or write the archive again");
  }

  const RandomFile& file_;
  const ZipMember& member_;
  uint64_t at_ = 0, end_ = 0;  // of the compressed bytes not yet given to libarchive
  uint64_t given_ = 0;         // bytes of content
  bool header_given_ = false;
  Bytes buffer_;
  std::exception_ptr failure_;
  std::unique_ptr<archive, FreeReader> archive_{archive_read_new()};
};

NpyHeader read_member_header(const RandomFile& file, const ZipMember& member, bool as_bf16) {
  if (member.method == 0) {
    uint64_t at = member.data_offset;
    const auto read_next = [&](std::span<std::byte> out) {
      file.read_at(at, out);
      at += out.size();
    };
    return read_npy_header(member.size, read_next, as_bf16);
  }
  MemberReader reader(file, member);
  ByteView left;
  const auto read_next = [&](std::span<std::byte> out) {
    while (!out.empty()) {
      if (left.empty()) left = reader.next();
      if (left.empty()) throw Error(Exit::bad_input, "damaged: ends too early");
      const size_t n = std::min(left.size(), out.size());
      std::copy_n(left.begin(), n, out.begin());
      left = left.subspan(n);
      out = out.subspan(n);
    }
  };
  return read_npy_header(member.size, read_next, as_bf16);
}

class NpzSource : public Source {
 public:
  NpzSource(std::shared_ptr<RandomFile> file, const SourceOptions& options, std::vector<std::string>* dropped)
      : file_(std::move(file)) {
    for (ZipMember& member : read_zip_directory(*file_)) {
      const std::string shown = "member '" + escaped(member.name) + "'";
      const auto drop = [&](const std::string& why) {
        if (dropped != nullptr) dropped->push_back(shown + ": " + why);
      };
      try {
        if (is_nothing(member)) {
          drop(member.is_directory() ? "a directory, left out" : "empty and no array, left out");
        } else {
          add(std::move(member), options);
        }
      } catch (const Error& error) {
        if (error.code() != Exit::unsupported || !options.drop_unsupported) {
          throw Error(error.code(), shown + ": " + error.text());
        }
        drop(error.text());
      }
    }
  }

  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  std::unique_ptr<TensorData> open(size_t ordinal) override {
    const TensorInfo& info = tensors_.at(ordinal);
    Member& member = members_.at(ordinal);
    try {
      NpyElements elements = member.elements;
      std::shared_ptr<RandomFile> file = file_;
      if (member.zip.method == 0) {
        if (!member.verified) read_all(member.zip, nullptr);
        member.verified = true;
        elements.offset += member.zip.data_offset;
      } else {
        file = RandomFile::temporary();
        read_all(member.zip, file.get());
      }
      return open_npy_elements(std::move(file), info, elements);
    } catch (Error& error) {
      throw error.in_file(file_->name()).in_tensor(info.name);
    }
  }

 private:
  struct Member {
    ZipMember zip;
    NpyElements elements;   // its offset is from the member's first byte
    bool verified = false;  // the checksum of a stored member
  };

  static bool is_array(const ZipMember& member) { return std::string_view(member.name).ends_with(kSuffix); }
  static bool is_nothing(const ZipMember& member) { return !is_array(member) && member.size == 0; }

  // Throws Error(unsupported) for what drop_unsupported may leave out.
  void add(ZipMember member, const SourceOptions& options) {
    if (std::string_view(member.name).ends_with("/data.pkl")) {
      throw Error(Exit::unsupported,
                  "a PyTorch file; numpy.savez(FILE, **{name: t.numpy() for ...}) makes a dump of it");
    }
    if (!is_array(member)) throw Error(Exit::unsupported, "not an .npy array; --drop-unsupported leaves it out");
    if (member.is_encrypted()) throw Error(Exit::unsupported, "encrypted; decrypt it first");
    if (member.method != 0 && member.method != 8) {
      throw Error(Exit::unsupported, "compressed by zip method " + std::to_string(member.method) +
                                         "; only 0 (stored) and 8 (deflate) are read");
    }
    const NpyHeader header = read_member_header(*file_, member, options.as_bf16);
    std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    tensors_.push_back(npy_tensor_info(std::move(name), header, member.size));
    member.name.clear();  // known from here on as the tensor's
    members_.push_back({std::move(member), {header.size, header.big_endian, header.fortran_order}});
  }

  // Reads a whole member, so that its checksum is compared, into `copy` if there is one.
  void read_all(const ZipMember& member, RandomFile* copy) const {
    MemberReader reader(*file_, member);
    uint64_t at = 0;
    for (ByteView bytes = reader.next(); !bytes.empty(); bytes = reader.next()) {
      if (copy != nullptr) copy->write_at(at, bytes);
      at += bytes.size();
    }
  }

  std::shared_ptr<RandomFile> file_;
  std::vector<TensorInfo> tensors_;
  std::vector<Member> members_;  // as tensors_
};

// While it lives, this thread's character set is UTF-8: libarchive marks names as UTF-8 only then, and readers take
// unmarked ones for code page 437.
class Utf8Locale {
 public:
  Utf8Locale() {
    for (const char* name : {"C.UTF-8", "C.utf8", "en_US.UTF-8"}) {
      if (locale_ == locale_t{}) locale_ = newlocale(LC_CTYPE_MASK, name, locale_t{});
    }
    if (locale_ == locale_t{}) {
      throw Error(Exit::unsupported,
                  "the system lacks a UTF-8 locale (C.UTF-8), needed for names beyond ASCII in .npz");
    }
    before_ = uselocale(locale_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;
  ~Utf8Locale() {
    uselocale(before_);
    freelocale(locale_);
  }

 private:
  locale_t locale_{}, before_{};
};

class NpzSink : public Sink {
 public:
  NpzSink(OutputFile& output, const std::vector<TensorInfo>& tensors) : output_(output), order_(tensors) {
    archive* a = archive_.get();
    require(a != nullptr);
    require(archive_write_set_format_zip(a) == ARCHIVE_OK);
    require(archive_write_zip_set_compression_store(a) == ARCHIVE_OK);
    require(archive_write_set_bytes_per_block(a, 1 << 20) == ARCHIVE_OK);
    require(archive_write_set_bytes_in_last_block(a, 1) == ARCHIVE_OK);  // no padding
    require(archive_write_open(a, this, nullptr, take_bytes, nullptr) == ARCHIVE_OK);
  }

  // Not finished: what libarchive writes when it is freed, as if the archive were whole, goes nowhere.
  ~NpzSink() override { discards_ = true; }

  void begin(const TensorInfo& info) override {
    order_.begin(info);
    const Bytes header = make_npy_header(info);
    const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
    if (entry == nullptr) throw std::bad_alloc();
    archive_entry_set_pathname(entry.get(), (info.name + std::string(kSuffix)).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(header.size() + info.byte_size()));
    const Utf8Locale utf8;
    // No time is set: a zip file's first day, 1980-01-01, is written.
    require(archive_write_header(archive_.get(), entry.get()) == ARCHIVE_OK);
    write_content(header);
  }

  void write(ByteView elements) override {
    order_.write(elements.size());
    write_content(elements);
  }

  void end() override {
    order_.end();
    require(archive_write_finish_entry(archive_.get()) == ARCHIVE_OK);
  }

  void finish() override {
    order_.finish();
    require(archive_write_close(archive_.get()) == ARCHIVE_OK);
    output_.commit();
  }

 private:
  void write_content(ByteView bytes) {
    constexpr size_t kMaxCall = size_t{1} << 30;  // libarchive's checksum takes 32-bit lengths
    while (!bytes.empty()) {
      const la_ssize_t n = archive_write_data(archive_.get(), bytes.data(), std::min(bytes.size(), kMaxCall));
      require(n > 0);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  static la_ssize_t take_bytes(archive*, void* self, const void* bytes, size_t size) {
    return static_cast<NpzSink*>(self)->take({static_cast<const std::byte*>(bytes), size});
  }

  // Exceptions (a full disk, a closed pipe) must not pass through libarchive: they wait in failure_, for require()
  // right after the call. libarchive is told that all is well, since it leaks its buffer if writing fails.
  la_ssize_t take(ByteView bytes) noexcept {
    try {
      if (!failure_ && !discards_) output_.write(bytes);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return static_cast<la_ssize_t>(bytes.size());
  }

  void require(bool held) {
    if (failure_) std::rethrow_exception(failure_);
    if (held) return;
    if (archive_ == nullptr) throw std::bad_alloc();
    throw Error(Exit::io, "the zip file cannot be written: " + reason_of(archive_.get())).in_file(output_.name());
  }

  OutputFile& output_;
  SinkOrder order_;
  bool discards_ = false;
  std::exception_ptr failure_;
  std::unique_ptr<archive, FreeWriter> archive_{archive_write_new()};
};

}  // namespace

std::unique_ptr<Source> open_npz(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                 std::vector<std::string>* dropped) {
  return std::make_unique<NpzSource>(std::move(file), options, dropped);
}

std::unique_ptr<Sink> make_npz_sink(OutputFile& output, const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& info : tensors) {
    if (info.name.size() > kMaxNameSize - kSuffix.size()) {
      throw Error(Exit::unsupported, "the name is too long for a member of a zip file: write .h5").in_tensor(info.name);
    }
  }
  return std::make_unique<NpzSink>(output, tensors);
}

}  // namespace gradcodec
