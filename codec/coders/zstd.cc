// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/zstd.h"

#include <zstd.h>

#include <array>
#include <memory>
#include <new>
#include <utility>

#include "codec/coders/pack.h"

namespace gradcodec {
namespace {

constexpr int kMinLevel = 1, kMaxLevel = 22;
constexpr uint64_t kMaxWindow = uint64_t{1} << 27;

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* context) const {
    kFree(context);
  }
};
using CompressContext = std::unique_ptr<ZSTD_CCtx, Deleter<ZSTD_freeCCtx>>;
using DecompressContext = std::unique_ptr<ZSTD_DCtx, Deleter<ZSTD_freeDCtx>>;

// One of each a thread: making one costs more than coding a small chunk.
ZSTD_CCtx* compress_context() {
  static thread_local const CompressContext context(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

ZSTD_DCtx* decompress_context() {
  static thread_local const DecompressContext context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

// Room for the packed symbols of a chunk, likewise.
Bytes& packed_room() {
  thread_local Bytes room;
  return room;
}

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "zstd payload " + text); }

// What the library does not tell by a stable function: the descriptor's flags and the window (RFC 8878, 3.1.1.1).
void check_flags_and_window(ByteView in) {
  ByteReader reader(in, "zstd payload");
  if (reader.get<uint32_t>() != ZSTD_MAGICNUMBER) fail("does not begin with a Zstandard frame");
  const auto descriptor = reader.get<uint8_t>();
  if ((descriptor & 0x03) != 0) fail("asks for a dictionary");
  if ((descriptor & 0x04) != 0) fail("has a checksum of its own, which is never written");
  if ((descriptor & 0x18) != 0) fail("has bits set in its frame header that must be zero");
  if ((descriptor & 0x20) != 0) return;  // single segment: the window is the content, whose size is checked
  const auto window = reader.get<uint8_t>();
  const uint64_t base = uint64_t{1} << (10 + (window >> 3));
  if (base + base / 8 * (window & 7) > kMaxWindow) fail("asks for a window of more than 128 MiB");
}

// Before a byte is allocated: `in` is one frame that says it holds `expected` bytes.
void check_frame(ByteView in, uint64_t expected) {
  check_flags_and_window(in);
  const unsigned long long content = ZSTD_getFrameContentSize(in.data(), in.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) fail("has a damaged frame header");
  if (content == ZSTD_CONTENTSIZE_UNKNOWN) fail("does not say its content size");
  if (content != expected) {
    fail("holds " + std::to_string(content) + " bytes where " + std::to_string(expected) + " are expected");
  }
  const size_t frame = ZSTD_findFrameCompressedSize(in.data(), in.size());
  if (ZSTD_isError(frame) != 0) fail(std::string("is damaged: ") + ZSTD_getErrorName(frame));
  if (frame != in.size()) fail("goes on after its frame: " + std::to_string(in.size() - frame) + " bytes more");
}

// Replaces `out` by the content.
void decompress(ByteView in, uint64_t expected, Bytes& out) {
  check_frame(in, expected);
  out.resize(static_cast<size_t>(expected));
  const size_t size = ZSTD_decompressDCtx(decompress_context(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(size) != 0) fail(std::string("is damaged: ") + ZSTD_getErrorName(size));
  if (size != expected) fail("is damaged: it ends early");
}

class ZstdCoder : public Coder {
 public:
  explicit ZstdCoder(int level) : level_(level) {}

  std::string_view name() const override { return "zstd"; }
  uint16_t id() const override { return 1; }
  std::string_view summary() const override { return "symbols in bytes, through Zstandard"; }

  void shrink(const Stream& in, Bytes& out) const override {
    if (in.alphabet == 0) return compress(in.bytes, out);
    Bytes& packed = packed_room();
    packed.clear();
    aligned_pack().shrink(in, packed);
    compress(packed, out);
  }

  void expand(ByteView in, uint64_t count, Stream& out) const override {
    const uint64_t expected = *aligned_pack().fixed_size(out.alphabet, count);
    if (out.alphabet == 0) {
      out.symbols.clear();
      return decompress(in, expected, out.bytes);
    }
    Bytes& packed = packed_room();
    decompress(in, expected, packed);
    aligned_pack().expand(packed, count, out);
  }

  std::optional<uint64_t> fixed_size(uint32_t, uint64_t) const override { return std::nullopt; }

  bool is_canonical() const override { return false; }
  bool suits_bytes() const override { return true; }
  unsigned work_per_symbol() const override { return 2; }

 private:
  void compress(ByteView bytes, Bytes& out) const {
    ZSTD_CCtx* context = compress_context();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level_);
    const size_t start = out.size();
    out.resize(start + ZSTD_compressBound(bytes.size()));
    const size_t size = ZSTD_compress2(context, out.data() + start, out.size() - start, bytes.data(), bytes.size());
    if (ZSTD_isError(size) != 0) throw Error(Exit::bug, std::string("Zstandard failed: ") + ZSTD_getErrorName(size));
    out.resize(start + size);
  }

  int level_;
};

template <int... kLevel>
std::array<ZstdCoder, sizeof...(kLevel)> coders_of(std::integer_sequence<int, kLevel...>) {
  return {ZstdCoder(kMinLevel + kLevel)...};
}

}  // namespace

const Coder& zstd_coder(int level) {
  static const auto coders = coders_of(std::make_integer_sequence<int, kMaxLevel - kMinLevel + 1>());
  if (level < kMinLevel || level > kMaxLevel) {
    throw Error(Exit::usage, "no Zstandard level " + std::to_string(level) + "; there are 1 to 22");
  }
  return coders[static_cast<size_t>(level - kMinLevel)];
}

}  // namespace gradcodec
