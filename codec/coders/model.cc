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
constexpr size_t kSampleRuns = 64, kSampleRun = 32;
constexpr uint64_t kEscapeLength = uint64_t{14} << kLengthBits;  // about, beside the token

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "model payload " + text); }

uint64_t zigzag(int32_t q) { return q < 0 ? 2 * static_cast<uint64_t>(-(q + 1)) + 1 : 2 * static_cast<uint64_t>(q); }
int32_t from_zigzag(uint64_t z) {
  const auto half = static_cast<int32_t>(z / 2);
  return z % 2 == 0 ? half : -half - 1;
}

struct Sampled {
  uint8_t scale, dither;
  int32_t q;
};

// Buffers of a thread, used again and again.
struct Work {
  std::vector<Sampled> sample;
  Bytes other;  // the payload of form 0
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

// What becomes of each class of scale when all are moved: where its rows begin, times two and 32 contexts; raw bits.
struct Moved {
  Moved(const std::vector<uint8_t>& scales, int32_t offset) {
    uint8_t largest = 0;
    for (const uint8_t scale : scales) largest = std::max(largest, scale == kZeroScale ? uint8_t{0} : scale);
    any_raw = model_raw_count(moved_scale(largest, offset)) > 0;
    for (uint32_t scale = 0; scale <= kZeroScale; ++scale) {
      raw_of_class[scale] = static_cast<uint8_t>(model_raw_count(scale));
      context[scale] = static_cast<uint16_t>(moved_scale(scale, offset) * 2 * kernels::kDitherClasses);
    }
  }
  uint32_t raw_count(uint32_t of) const { return raw_of_class[of / (2 * kernels::kDitherClasses)]; }

  bool any_raw = false;
  std::array<uint8_t, kZeroScale + 4> raw_of_class = {};  // of a class that is moved already; and three more bytes
  std::array<uint16_t, kZeroScale + 1> context = {};
};

int32_t mirrored(int32_t q, uint32_t context) { return context % 2 == 0 ? q : -q; }

class Shrinker {
 public:
  explicit Shrinker(const Stream& in)
      : in_(in), work_(work_of_thread()), zero_(static_cast<int32_t>(in.alphabet / 2)), n_(in.symbols.size()) {}

  void run(Bytes& out) {
    take_sample();
    const Model model = choose();
    const Moved moved(in_.scales, model.offset);
    work_.escapes.clear();
    work_.infos.resize(n_);
    moved.any_raw ? find_infos_and_raw(model, moved) : find_infos(model, moved);
    const uint64_t bytes = (model.cost >> kLengthBits) * n_ / std::max<size_t>(1, work_.sample.size()) / 8;
    uint32_t form = 1;
    while (form + 1 < kWorth.size() && bytes >= kWorth[form + 1]) ++form;
    put(out, static_cast<uint8_t>(form | model.law << 2 | static_cast<uint32_t>(model.offset + kMostOffset) << 4));
    put_varint(out, work_.escapes.size());
    for (const int32_t q : work_.escapes) put_varint(out, zigzag(q));
    encode(moved.any_raw, kLanes[form], out);
  }

 private:
  int32_t q_of(size_t i) const { return mirrored(static_cast<int32_t>(in_.symbols[i]) - zero_, in_.contexts[i]); }

  // Some runs of symbols, evenly spread; all if there are few.
  void take_sample() {
    const bool all = n_ <= kSampleRuns * kSampleRun;
    const size_t runs = all ? 1 : kSampleRuns, len = all ? n_ : kSampleRun;
    work_.sample.clear();
    for (size_t run = 0; run < runs; ++run) {
      const size_t first = all ? 0 : (n_ - len) / (runs - 1) * run;
      for (size_t i = first; i < first + len; ++i) {
        work_.sample.push_back({in_.scales[i], static_cast<uint8_t>(in_.contexts[i] / 2), q_of(i)});
      }
    }
  }

  uint64_t cost(uint32_t law, int32_t offset) const {
    const uint32_t* infos = model_infos(law).data();
    uint64_t bits = 0;
    for (const Sampled& symbol : work_.sample) {
      const uint32_t scale = moved_scale(symbol.scale, offset), raw_count = model_raw_count(scale);
      const uint32_t* row = infos + (size_t{scale} * kernels::kDitherClasses + symbol.dither) * kModelTokens;
      uint32_t token = model_token(symbol.q, raw_count);
      if (row[token] >> 16 == 0) token = kModelEscape;
      bits += (uint64_t{kModelPrecision} << kLengthBits) - fixed_log2(std::max(1u, row[token] >> 16));
      bits += token == kModelEscape ? kEscapeLength : uint64_t{raw_count} << kLengthBits;
    }
    return bits;
  }

  // From offset 0 downhill, for law 0; then the other laws there and beside it.
  Model choose() const {
    Model best = {0, 0, cost(0, 0)};
    const auto improves = [&](uint32_t law, int32_t offset) {
      if (offset < -kMostOffset || offset > kMostOffset) return false;
      const uint64_t bits = cost(law, offset);
      if (bits >= best.cost) return false;
      best = {law, offset, bits};
      return true;
    };
    for (const int32_t way : {1, -1}) {
      bool moves = false;
      while (improves(0, best.offset + way)) moves = true;
      if (moves) break;
    }
    const int32_t near = best.offset;
    for (uint32_t law = 1; law < kLaws; ++law) {
      for (int32_t offset = near - 1; offset <= near + 1; ++offset) improves(law, offset);
    }
    return best;
  }

  // The token of q, the escape where that has no frequency, and then q is one of the escapes.
  uint32_t info_of(const uint32_t* row, int32_t q, uint32_t& token) {
    uint32_t info = row[token];
    if (token == kModelEscape || info >> 16 == 0) {
      token = kModelEscape;
      info = row[token];
      work_.escapes.push_back(q);
      if (info >> 16 == 0) throw Error(Exit::bug, "a symbol that is not 0 where its scale is");
    }
    return info;
  }

  void find_infos(const Model& model, const Moved& moved) {
    const uint32_t* infos = model_infos(model.law).data();
    const uint16_t *symbols = in_.symbols.data(), *contexts = in_.contexts.data();
    const uint8_t* scales = in_.scales.data();
    uint32_t* to = work_.infos.data();
    for (size_t i = 0; i < n_; ++i) {
      const uint32_t context = moved.context[scales[i]] + contexts[i];
      const int32_t q = mirrored(static_cast<int32_t>(symbols[i]) - zero_, context);
      uint32_t token = model_token(q, 0);
      to[i] = info_of(infos + size_t{context} / 2 * kModelTokens, q, token);
    }
  }

  void find_infos_and_raw(const Model& model, const Moved& moved) {
    const uint32_t* infos = model_infos(model.law).data();
    work_.raw.resize(n_);
    work_.raw_counts.resize(n_);
    for (size_t i = 0; i < n_; ++i) {
      const uint32_t context = moved.context[in_.scales[i]] + in_.contexts[i], raw_count = moved.raw_count(context);
      const int32_t q = q_of(i);
      uint32_t token = model_token(q, raw_count);
      work_.infos[i] = info_of(infos + size_t{context} / 2 * kModelTokens, q, token);
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
    put_bytes(out, LittleBytes<uint16_t>(std::span(work_.words).first(count)));
  }

  const Stream& in_;
  Work& work_;
  int32_t zero_;
  size_t n_;
};

// Tokens, raw bits and escapes as symbols.
void restore_symbols(const Work& work, const Moved& moved, Stream& out) {
  const auto zero = static_cast<int32_t>(out.alphabet / 2);
  std::array<int32_t, 2 * kModelTokens> values;  // of token and mirrored, without raw bits
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = mirrored(model_value(i / 2, 0, 0), i);
  auto escape = work.escapes.begin();
  const size_t count = work.tokens.size();
  out.symbols.resize(count);
  const uint8_t* tokens = work.tokens.data();
  const uint16_t* contexts = work.contexts.data();
  uint16_t* symbols = out.symbols.data();
  uint32_t beyond = 0;
  for (size_t i = 0; i < count; ++i) {
    int32_t q = values[2 * tokens[i] + contexts[i] % 2];
    if (tokens[i] == kModelEscape) {
      if (escape == work.escapes.end()) fail("has fewer escapes than its symbols want");
      q = mirrored(*escape++, contexts[i]);
    } else if (moved.any_raw && moved.raw_count(contexts[i]) > 0) {
      q = mirrored(model_value(tokens[i], moved.raw_count(contexts[i]), work.raw[i]), contexts[i]);
    }
    const auto symbol = static_cast<uint32_t>(q + zero);
    beyond |= symbol >= out.alphabet ? 1 : 0;
    symbols[i] = static_cast<uint16_t>(symbol);
  }
  if (beyond != 0) fail("holds a symbol outside its alphabet");
  if (escape != work.escapes.end()) fail("has more escapes than its symbols want");
}

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
  const Moved moved(out.scales, offset);
  work.contexts.resize(count);
  for (size_t i = 0; i < count; ++i) {
    work.contexts[i] = static_cast<uint16_t>(moved.context[out.scales[i]] + out.contexts[i]);
  }
  work.tokens.resize(count);
  work.raw.resize(moved.any_raw ? count : 0);
  const kernels::RansRows rows = {model_starts(law).data(), work.contexts.data(),
                                  moved.any_raw ? moved.raw_of_class.data() : nullptr};
  const size_t used = kernels::rans_decode_rows(rows, count, lanes, states.data(), work.words.data(), available,
                                                work.tokens.data(), work.raw.data());
  const bool ended = std::all_of(states.begin(), states.begin() + static_cast<ptrdiff_t>(lanes),
                                 [](uint32_t state) { return state == kernels::kRansLow; });
  if (used != available || !ended) fail("does not end where its symbols end: it is damaged");
  restore_symbols(work, moved, out);
}

class ModelCoder final : public Coder {
 public:
  std::string_view name() const override { return "model"; }
  uint16_t id() const override { return 5; }
  std::string_view summary() const override {
    return "rANS by fixed tables of dither and of scales of lines; rans-dither if smaller";
  }

  void shrink(const Stream& in, Bytes& out) const override {
    check(in, in.symbols.size());
    if (in.alphabet == 1 || in.count() == 0) return rans_dither_coder().shrink(in, out);
    const size_t start = out.size();
    if (!in.scales.empty()) Shrinker(in).run(out);
    // A payload that learns its model, and where scales are, may be the smaller one: where values are sparse, or large
    // in blocks that are no rows and columns.
    Bytes& other = work_of_thread().other;
    other.clear();
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
