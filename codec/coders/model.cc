// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/model.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/coders/rans.h"
#include "codec/kernels/rans.h"
#include "codec/model/rows.h"
#include "codec/rans/blocks.h"
#include "codec/rans/code_length.h"

namespace gradcodec {
namespace {

constexpr std::array<size_t, 4> kLanes = {0, 1, 8, 32};         // of the forms 1 to 3; form 0 is of `rans-dither`
constexpr std::array<uint64_t, 4> kWorth = {0, 0, 1024, 4096};  // bytes of words from which a form is taken
constexpr int32_t kMostOffset = 4;
constexpr size_t kSampleRuns = 64, kSampleRun = 64;
constexpr uint64_t kEscapeLength = uint64_t{14} << kLengthBits;  // about, beside the token

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "model payload " + text); }

uint64_t zigzag(int32_t q) { return q < 0 ? 2 * static_cast<uint64_t>(-(q + 1)) + 1 : 2 * static_cast<uint64_t>(q); }
int32_t from_zigzag(uint64_t z) {
  const auto half = static_cast<int32_t>(z / 2);
  return z % 2 == 0 ? half : -half - 1;
}

struct Escape {
  size_t place;
  int32_t q;
};

// Buffers of a thread, used again and again.
struct Work {
  std::vector<uint32_t> infos;
  std::vector<uint16_t> contexts;  // row * 2 + mirrored
  std::vector<uint8_t> tokens, raw_counts;
  std::vector<uint16_t> raw, words;
  std::vector<int32_t> escapes;
};

Work& work_of_thread() {
  static thread_local Work work;
  return work;
}

// Which law, and by how many quarter octaves the scales are moved.
struct Model {
  uint32_t law = 0;
  int32_t offset = 0;
  uint64_t cost = 0;  // of the sample, in units of 2^-16 bit
};

// Raw counts of the classes as they are moved; `any`: whether there is one at all that is not 0.
struct RawCounts {
  RawCounts(const std::vector<uint8_t>& scales, int32_t offset) {
    uint8_t largest = 0;
    for (const uint8_t scale : scales) largest = std::max(largest, scale == kZeroScale ? uint8_t{0} : scale);
    any = model_raw_count(moved_scale(largest, offset)) > 0;
    for (uint32_t scale = 0; scale <= kZeroScale; ++scale) {
      of_class[scale] = static_cast<uint8_t>(model_raw_count(scale));
    }
  }
  bool any = false;
  std::array<uint8_t, kZeroScale + 1> of_class = {};
};

int32_t mirrored(int32_t q, uint32_t context) { return context % 2 == 0 ? q : -q; }

class Shrinker {
 public:
  explicit Shrinker(const Stream& in)
      : in_(in), work_(work_of_thread()), zero_(static_cast<int32_t>(in.alphabet / 2)), n_(in.symbols.size()) {}

  void run(Bytes& out) {
    take_sample();
    const Model model = choose();
    const RawCounts raw_counts(in_.scales, model.offset);
    find_infos(model, raw_counts);
    const uint64_t bytes = (model.cost >> kLengthBits) * n_ / std::max<size_t>(1, places_.size()) / 8;
    uint32_t form = 1;
    while (form + 1 < kWorth.size() && bytes >= kWorth[form + 1]) ++form;
    put(out, static_cast<uint8_t>(form | model.law << 2 | static_cast<uint32_t>(model.offset + kMostOffset) << 4));
    put_varint(out, work_.escapes.size());
    for (const int32_t q : work_.escapes) put_varint(out, zigzag(q));
    encode(raw_counts.any, kLanes[form], out);
  }

 private:
  int32_t q_of(size_t i) const { return mirrored(static_cast<int32_t>(in_.symbols[i]) - zero_, in_.contexts[i]); }

  // Some runs of symbols, evenly spread; all if there are few.
  void take_sample() {
    places_.clear();
    if (n_ <= kSampleRuns * kSampleRun) {
      for (size_t i = 0; i < n_; ++i) places_.push_back(i);
      return;
    }
    for (size_t run = 0; run < kSampleRuns; ++run) {
      const size_t first = (n_ - kSampleRun) / (kSampleRuns - 1) * run;
      for (size_t i = 0; i < kSampleRun; ++i) places_.push_back(first + i);
    }
  }

  uint64_t cost(uint32_t law, int32_t offset) const {
    const uint16_t* starts = model_starts(law).data();
    uint64_t bits = 0;
    for (const size_t i : places_) {
      const uint32_t scale = moved_scale(in_.scales[i], offset), raw_count = model_raw_count(scale);
      const uint16_t* row = starts + (scale * kernels::kDitherClasses + in_.contexts[i] / 2) * kModelTokens;
      uint32_t token = model_token(q_of(i), raw_count);
      uint32_t frequency = model_info(row, token) >> 16;
      if (frequency == 0) frequency = model_info(row, token = kModelEscape) >> 16;
      bits += (uint64_t{kModelPrecision} << kLengthBits) - fixed_log2(frequency);
      bits += token == kModelEscape ? kEscapeLength : uint64_t{raw_count} << kLengthBits;
    }
    return bits;
  }

  Model choose() const {
    Model best = {0, 0, cost(0, 0)};
    const auto try_model = [&](uint32_t law, int32_t offset) {
      if (offset < -kMostOffset || offset > kMostOffset) return;
      const uint64_t bits = cost(law, offset);
      if (bits < best.cost) best = {law, offset, bits};
    };
    for (int32_t offset = -kMostOffset; offset <= kMostOffset; ++offset) try_model(0, offset);
    const int32_t near = best.offset;
    for (uint32_t law = 1; law < kLaws; ++law) {
      for (int32_t offset = near - 2; offset <= near + 2; ++offset) try_model(law, offset);
    }
    return best;
  }

  void find_infos(const Model& model, const RawCounts& raw_counts) {
    const uint16_t* starts = model_starts(model.law).data();
    work_.infos.resize(n_);
    work_.escapes.clear();
    work_.raw.resize(raw_counts.any ? n_ : 0);
    work_.raw_counts.resize(raw_counts.any ? n_ : 0);
    for (size_t i = 0; i < n_; ++i) {
      const uint32_t scale = moved_scale(in_.scales[i], model.offset), raw_count = raw_counts.of_class[scale];
      const uint16_t* row = starts + (scale * kernels::kDitherClasses + in_.contexts[i] / 2) * kModelTokens;
      const int32_t q = q_of(i);
      uint32_t token = model_token(q, raw_count);
      uint32_t info = model_info(row, token);
      if (token == kModelEscape || info >> 16 == 0) {
        token = kModelEscape;
        info = model_info(row, token);
        work_.escapes.push_back(q);
      }
      if (info >> 16 == 0) throw Error(Exit::bug, "a symbol that is not 0 where its scale is");
      work_.infos[i] = info;
      if (!raw_counts.any) continue;
      work_.raw_counts[i] = static_cast<uint8_t>(token == kModelEscape ? 0 : raw_count);
      work_.raw[i] = static_cast<uint16_t>(static_cast<uint32_t>(q) & ((1u << work_.raw_counts[i]) - 1));
    }
  }

  void encode(bool raw_bits, size_t lanes, Bytes& out) {
    work_.words.resize((raw_bits ? 2 : 1) * n_ + kernels::kRansMaxLanes);
    std::array<uint32_t, kernels::kRansMaxLanes> states;
    states.fill(kernels::kRansLow);
    const kernels::RansRaw raw = {work_.raw.data(), work_.raw_counts.data()};
    const size_t count = kernels::rans_encode_infos(work_.infos.data(), raw_bits ? &raw : nullptr, n_, kModelPrecision,
                                                    lanes, states.data(), work_.words.data());
    for (size_t lane = 0; lane < lanes; ++lane) put(out, states[lane]);
    std::reverse(work_.words.begin(), work_.words.begin() + static_cast<ptrdiff_t>(count));
    put_bytes(out, std::as_bytes(std::span(work_.words).first(count)));
  }

  const Stream& in_;
  Work& work_;
  int32_t zero_;
  size_t n_;
  std::vector<size_t> places_;
};

void expand_model(ByteReader& in, size_t count, Stream& out) {
  Work& work = work_of_thread();
  const auto head = in.get<uint8_t>();
  const uint32_t form = head & 3, law = head >> 2 & 3;
  const int32_t offset = static_cast<int32_t>(head >> 4) - kMostOffset;
  if (offset > kMostOffset) in.fail("moves scales by more than an octave");
  const uint64_t escapes = in.get_varint();
  if (escapes > count) in.fail("has more escapes than symbols");
  work.escapes.clear();
  for (uint64_t i = 0; i < escapes; ++i) {
    const uint64_t z = in.get_varint();
    if (z >= out.alphabet) in.fail("holds a symbol outside its alphabet");
    work.escapes.push_back(from_zigzag(z));
  }
  const size_t lanes = kLanes[form];
  std::array<uint32_t, kernels::kRansMaxLanes> states;
  for (size_t lane = 0; lane < lanes; ++lane) {
    states[lane] = in.get<uint32_t>();
    check_state(in, states[lane]);
  }
  if (in.left() % 2 != 0) fail("ends with half a word");
  const size_t available = in.left() / 2;
  take_words(in, available, work.words);
  const RawCounts raw_counts(out.scales, offset);
  work.contexts.resize(count);
  for (size_t i = 0; i < count; ++i) {
    work.contexts[i] =
        static_cast<uint16_t>(moved_scale(out.scales[i], offset) * 2 * kernels::kDitherClasses + out.contexts[i]);
  }
  work.tokens.resize(count);
  work.raw.resize(raw_counts.any ? count : 0);
  const kernels::RansRows rows = {model_starts(law).data(), work.contexts.data(),
                                  raw_counts.any ? raw_counts.of_class.data() : nullptr};
  const size_t used = kernels::rans_decode_rows(rows, count, lanes, states.data(), work.words.data(), available,
                                                work.tokens.data(), work.raw.data());
  const bool ended = std::all_of(states.begin(), states.begin() + static_cast<ptrdiff_t>(lanes),
                                 [](uint32_t state) { return state == kernels::kRansLow; });
  if (used != available || !ended) fail("does not end where its symbols end: it is damaged");

  const auto zero = static_cast<int32_t>(out.alphabet / 2);
  auto escape = work.escapes.begin();
  out.symbols.resize(count);
  for (size_t i = 0; i < count; ++i) {
    int32_t q;
    if (work.tokens[i] == kModelEscape) {
      if (escape == work.escapes.end()) fail("has fewer escapes than its symbols want");
      q = *escape++;
    } else {
      const uint32_t raw_count = raw_counts.of_class[work.contexts[i] / (2 * kernels::kDitherClasses)];
      q = model_value(work.tokens[i], raw_count, raw_count == 0 ? 0 : work.raw[i]);
    }
    q = mirrored(q, work.contexts[i]);
    if (q < -zero || q > zero) fail("holds a symbol outside its alphabet");
    out.symbols[i] = static_cast<uint16_t>(q + zero);
  }
  if (escape != work.escapes.end()) fail("has more escapes than its symbols want");
}

class ModelCoder final : public Coder {
 public:
  std::string_view name() const override { return "model"; }
  uint16_t id() const override { return 5; }
  std::string_view summary() const override {
    return "rANS by fixed tables of the dither and the scale of rows and columns; the smallest where these differ";
  }

  void shrink(const Stream& in, Bytes& out) const override {
    check(in, in.symbols.size());
    if (in.alphabet == 1 || in.symbols.empty()) return rans_dither_coder().shrink(in, out);
    const size_t start = out.size();
    if (!in.scales.empty()) Shrinker(in).run(out);
    const bool of_one_scale =
        std::adjacent_find(in.scales.begin(), in.scales.end(), std::not_equal_to<>()) == in.scales.end();
    if (!of_one_scale) return;
    // A payload that learns its model, and where scales are, may be the smaller one.
    Bytes other;
    put(other, uint8_t{0});
    rans_dither_coder().shrink(in, other);
    if (out.size() > start && out.size() - start <= other.size()) return;
    out.resize(start);
    put_bytes(out, other);
  }

  void expand(ByteView in, uint64_t count, Stream& out) const override {
    check(out, count);
    ByteReader reader(in, "model payload");
    if (out.alphabet == 1 || count == 0) return rans_dither_coder().expand(in, count, out);
    if ((std::to_integer<uint32_t>(reader.peek()) & 3) == 0) {
      if (reader.get<uint8_t>() != 0) reader.fail("has bits set in its first byte that must be zero");
      return rans_dither_coder().expand(reader.rest(), count, out);
    }
    if (out.scales.empty()) reader.fail("is made for scales that its scheme does not say");
    expand_model(reader, static_cast<size_t>(count), out);
  }

  std::optional<uint64_t> fixed_size(uint32_t, uint64_t) const override { return std::nullopt; }
  bool is_canonical() const override { return true; }
  bool uses_contexts() const override { return true; }
  bool uses_scales() const override { return true; }
  unsigned work_per_symbol() const override { return 24; }  // infos, contexts, raw bits, words; both payloads

 private:
  static void check(const Stream& stream, uint64_t count) {
    const bool is_right = stream.scales.empty() || (stream.scales.size() == count && stream.contexts.size() == count &&
                                                    stream.classes == kernels::kDitherClasses);
    if (!is_right)
      throw Error(Exit::bug,
                  std::to_string(stream.scales.size()) + " scales for " + std::to_string(count) + " symbols");
  }
};

}  // namespace

const Coder& model_coder() {
  static const ModelCoder coder;
  return coder;
}

}  // namespace gradcodec
