// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/rans.h"

#include <algorithm>
#include <array>

#include "codec/kernels/rans.h"
#include "codec/rans/blocks.h"
#include "codec/rans/model.h"
#include "codec/rans/tokens.h"

namespace gradcodec {
namespace {

constexpr uint32_t kMaxAlphabet = 65536;
constexpr uint32_t kMaxClasses = 64;                            // of a stream's contexts
constexpr std::array<size_t, 4> kLanes = {0, 1, 8, 32};         // of the forms 0 (one symbol repeated) to 3
constexpr std::array<uint64_t, 4> kWorth = {0, 0, 1024, 4096};  // bytes of words from which a form is taken
constexpr size_t kMaxPlaces = 8192;                             // of counts: what stays in the fastest cache
constexpr size_t kMinForBlocks = 512;                           // symbols: for fewer, classes of blocks do not pay

// Buffers of a thread, used again and again.
struct Work {
  TokenCounts counts;
  std::vector<uint32_t> more_counts;  // every other symbol's, so that equal neighbours do not wait for each other
  std::vector<uint32_t> histogram;    // of symbols
  RansBlocks blocks;
  RansModel model;
  std::vector<uint32_t> info;   // of the model, for each place of counts
  std::vector<uint16_t> cells;  // places in counts
  std::vector<uint8_t> tokens;  // of a decoder
  std::vector<uint16_t> raw;    // low bits that stand beside the tokens
  std::vector<uint8_t> raw_counts;
  std::vector<uint16_t> words;
  std::vector<uint8_t> slots, block_rows;
};

Work& work_of_thread() {
  static thread_local Work work;
  return work;
}

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "rans payload " + text); }

uint16_t mirror(uint32_t symbol, uint32_t context, uint32_t alphabet) {
  return static_cast<uint16_t>(context % 2 == 0 ? symbol : alphabet - 1 - symbol);
}

// The place that distances are measured from, if the alphabet is a large one: its middle, or the median where that
// leaves fewer raw bits.
uint32_t find_centre(const std::vector<uint16_t>& symbols, uint32_t alphabet, Work& work) {
  work.histogram.assign(alphabet, 0);
  for (const uint16_t symbol : symbols) ++work.histogram[symbol];
  uint32_t median = 0;
  for (uint64_t below = work.histogram[0]; 2 * below < symbols.size(); below += work.histogram[median]) ++median;
  const auto raw_bits = [&](uint32_t centre) {
    uint64_t bits = 0;
    for (uint32_t symbol = 0; symbol < alphabet; ++symbol) {
      const int32_t q = static_cast<int32_t>(symbol) - static_cast<int32_t>(centre);
      bits += uint64_t{work.histogram[symbol]} * token_of(q).raw_count;
    }
    return bits;
  };
  const uint32_t middle = (alphabet - 1) / 2;
  return raw_bits(median) < raw_bits(middle) ? median : middle;
}

// Contexts of more classes are told apart only as far as `kMaxContextClasses`: class >> this.
uint32_t shift_of_classes(uint32_t classes) {
  uint32_t shift = 0;
  while (classes > 0 && (classes - 1) >> shift >= kMaxContextClasses) ++shift;
  return shift;
}

uint32_t reduced(uint32_t classes) { return classes == 0 ? 0 : ((classes - 1) >> shift_of_classes(classes)) + 1; }

// The work of one payload; `symbols` stand for themselves if the alphabet has at most 256, else by tokens.
class Shrinker {
 public:
  Shrinker(const Stream& in, const std::vector<uint16_t>& symbols, uint32_t alphabet, bool with_contexts)
      : work_(work_of_thread()), symbols_(symbols), alphabet_(alphabet) {
    if (by_distance()) centre_ = find_centre(symbols, alphabet, work_);
    // The mirror of a distance is a distance only if the centre is the middle.
    const bool symmetric = !by_distance() || 2 * centre_ == alphabet - 1;
    if (with_contexts && symmetric) contexts_ = in.contexts.data();
    class_shift_ = shift_of_classes(in.classes);
    TokenCounts& counts = work_.counts;
    counts.tokens = by_distance() ? kMaxToken + 1 : alphabet;
    counts.by_distance = by_distance();
    counts.classes = contexts_ == nullptr ? 0 : reduced(in.classes);
    counts.block_classes = 1;
    counts.total = symbols.size();
    if (symbols.size() >= kMinForBlocks) {
      work_.blocks.choose(symbols, by_distance() ? centre_ : (alphabet - 1) / 2);
      counts.block_classes = std::max(1u, work_.blocks.classes());
      counts.block_cost = work_.blocks.cost();
    }
    merge_classes();
  }

  void run(Bytes& out) {
    work_.counts.clear();
    work_.cells.resize(symbols_.size());
    if (by_distance()) {
      work_.raw.resize(symbols_.size());
      work_.raw_counts.resize(symbols_.size());
    }
    for_blocks([&](size_t first, size_t end, uint32_t place) {
      if (by_distance()) return find_tokens(first, end, place);
      contexts_ == nullptr ? find_plain_cells(first, end, place) : find_cells(first, end, place);
    });
    count_cells();
    RansModel& model = work_.model;
    model.choose(work_.counts);
    const uint32_t form = choose_form();
    model.write(form, work_.blocks.len_log2(), out);
    if (by_distance()) put(out, static_cast<uint16_t>(centre_));
    if (model.has_blocks()) work_.blocks.write(out);
    encode(kLanes[form], out);
  }

 private:
  bool by_distance() const { return alphabet_ > kMaxTokens; }
  uint32_t bits() const { return token_bits(work_.counts.tokens); }

  // Where there are many tokens, the dither tells little, and many classes only take time.
  void merge_classes() {
    TokenCounts& counts = work_.counts;
    counts.merged = 0;
    while (counts.classes > 1 && size_t{counts.block_classes} * counts.contexts() << bits() > kMaxPlaces) {
      ++counts.merged;
      counts.classes = (counts.classes + 1) / 2;
    }
  }

  // f(first, end, place) for each block, or for all symbols at once: `place` is where the counts of its class begin.
  template <typename F>
  void for_blocks(const F& f) {
    if (work_.counts.block_classes == 1) return f(0, symbols_.size(), 0);
    const size_t len = size_t{1} << work_.blocks.len_log2();
    for (size_t first = 0; first < symbols_.size(); first += len) {
      const uint32_t block = work_.blocks.of_block()[first / len];
      f(first, std::min(symbols_.size(), first + len), block * work_.counts.contexts() << bits());
    }
  }

  // The context of a symbol with what the model does not tell apart taken out.
  uint32_t context(size_t i) const {
    const uint32_t context = contexts_[i];
    return (context >> 1 >> (class_shift_ + work_.counts.merged)) << 1 | (context & 1);
  }

  void find_plain_cells(size_t first, size_t end, uint32_t place) {
    for (size_t i = first; i < end; ++i) work_.cells[i] = static_cast<uint16_t>(place + symbols_[i]);
  }

  void find_cells(size_t first, size_t end, uint32_t place) {
    const uint16_t* symbols = symbols_.data();
    uint16_t* cells = work_.cells.data();
    const uint32_t shift = bits();
    for (size_t i = first; i < end; ++i) {
      cells[i] = static_cast<uint16_t>(place + (context(i) << shift) + mirror(symbols[i], contexts_[i], alphabet_));
    }
  }

  void find_tokens(size_t first, size_t end, uint32_t place) {
    for (size_t i = first; i < end; ++i) {
      const uint32_t symbol = contexts_ == nullptr ? symbols_[i] : mirror(symbols_[i], contexts_[i], alphabet_);
      const Token token = token_of(static_cast<int32_t>(symbol) - static_cast<int32_t>(centre_));
      const uint32_t row = contexts_ == nullptr ? 0 : context(i) << bits();
      work_.cells[i] = static_cast<uint16_t>(place + row + token.token);
      work_.raw[i] = token.raw;
      work_.raw_counts[i] = token.raw_count;
      raw_bits_ += token.raw_count;
    }
  }

  void count_cells() {
    uint32_t* even = work_.counts.counts.data();
    const size_t places = work_.counts.counts.size();
    work_.more_counts.assign(places, 0);
    uint32_t* odd = work_.more_counts.data();
    const uint16_t* cells = work_.cells.data();
    const size_t n = work_.cells.size(), pairs = n - n % 2;
    for (size_t i = 0; i < pairs; i += 2) {
      ++even[cells[i]];
      ++odd[cells[i + 1]];
    }
    if (n % 2 != 0) ++even[cells[n - 1]];
    for (size_t i = 0; i < places; ++i) even[i] += odd[i];
  }

  uint32_t choose_form() const {
    const uint64_t bytes = (work_.model.coded_bits() + raw_bits_) / 8;
    uint32_t form = 1;
    while (form + 1 < kWorth.size() && bytes >= kWorth[form + 1]) ++form;
    return form;
  }

  // The model's frequencies at each place of the counts: without contexts, tokens of mirrored symbols are turned back.
  void spread_info() {
    const RansModel& model = work_.model;
    const TokenCounts& counts = work_.counts;
    work_.info.resize(counts.counts.size());
    uint32_t* to = work_.info.data();
    for (uint32_t block = 0; block < counts.block_classes; ++block) {
      for (uint32_t context = 0; context < counts.contexts(); ++context, to += size_t{1} << bits()) {
        const uint32_t group = model.has_contexts() ? context >> 1 >> (model.class_shift() - counts.merged) : 0;
        const bool back = !model.has_contexts() && context % 2 != 0;
        const uint32_t row = (model.has_blocks() ? block * model.groups() : 0) + group;
        for (uint32_t token = 0; token < counts.tokens; ++token) {
          to[token] = model.info()[size_t{row} << bits() | (back ? counts.mirrored(token) : token)];
        }
      }
    }
  }

  void encode(size_t lanes, Bytes& out) {
    spread_info();
    const size_t n = symbols_.size();
    work_.words.resize((by_distance() ? 2 : 1) * n + kernels::kRansMaxLanes);
    std::array<uint32_t, kernels::kRansMaxLanes> states;
    states.fill(kernels::kRansLow);
    const kernels::RansRaw raw = {work_.raw.data(), work_.raw_counts.data()};
    const size_t count = kernels::rans_encode(work_.cells.data(), by_distance() ? &raw : nullptr, n,
                                              {work_.info.data(), work_.model.precision(), bits()}, lanes,
                                              states.data(), work_.words.data());
    for (size_t lane = 0; lane < lanes; ++lane) put(out, states[lane]);
    std::reverse(work_.words.begin(), work_.words.begin() + static_cast<ptrdiff_t>(count));
    put_bytes(out, LittleBytes<uint16_t>(std::span(work_.words).first(count)));
  }

  Work& work_;
  const std::vector<uint16_t>& symbols_;
  uint32_t alphabet_, centre_ = 0;
  const uint16_t* contexts_ = nullptr;
  uint32_t class_shift_ = 0;
  uint64_t raw_bits_ = 0;
};

class Expander {
 public:
  Expander(ByteReader& in, uint64_t count, uint32_t alphabet, const Stream& contexts)
      : work_(work_of_thread()), n_(static_cast<size_t>(count)), alphabet_(alphabet), contexts_(contexts) {
    const uint32_t form = std::to_integer<uint32_t>(in.peek()) & 3;
    const RansModel& model = work_.model;
    work_.model.read(in, count, tokens(), reduced(contexts.classes));
    if (by_distance()) centre_ = in.get<uint16_t>();
    if (centre_ >= alphabet) in.fail("has its centre outside the alphabet");
    if (by_distance() && model.has_contexts() && 2 * centre_ != alphabet - 1) {
      in.fail("has contexts though its centre is not the middle");
    }
    if (model.has_blocks()) work_.blocks.read(in, count, model.block_log2(), model.block_classes());
    decode(in, kLanes[form]);
  }

  void symbols(std::vector<uint16_t>& out) {
    out.resize(n_);
    if (by_distance()) return restore_distances(out);
    const uint8_t* tokens = work_.tokens.data();
    if (!work_.model.has_contexts()) {
      std::copy_n(tokens, n_, out.begin());
      return;
    }
    const uint16_t* contexts = contexts_.contexts.data();
    uint16_t* symbols = out.data();
    for (size_t i = 0; i < n_; ++i) symbols[i] = mirror(tokens[i], contexts[i], alphabet_);
  }

 private:
  bool by_distance() const { return alphabet_ > kMaxTokens; }
  uint32_t tokens() const { return by_distance() ? kMaxToken + 1 : alphabet_; }

  // The first row of each block's class, in place of the class.
  const uint8_t* rows_of_blocks() {
    if (!work_.model.has_blocks()) return nullptr;
    const std::vector<uint8_t>& classes = work_.blocks.of_block();
    work_.block_rows.resize(classes.size());
    std::transform(classes.begin(), classes.end(), work_.block_rows.begin(),
                   [groups = work_.model.groups()](uint8_t block) { return static_cast<uint8_t>(block * groups); });
    return work_.block_rows.data();
  }

  void decode(ByteReader& in, size_t lanes) {
    std::array<uint32_t, kernels::kRansMaxLanes> states;
    for (size_t lane = 0; lane < lanes; ++lane) {
      states[lane] = in.get<uint32_t>();
      check_state(in, states[lane]);
    }
    if (in.left() % 2 != 0) fail("ends with half a word");
    const size_t available = in.left() / 2;
    take_words(in, available, work_.words);
    const RansModel& model = work_.model;
    fill_slots(model, tokens(), work_.slots);
    for (uint32_t token = 0; token < kMaxTokens; ++token) token_raw_counts_[token] = raw_count_of(token);
    work_.tokens.resize(n_);
    work_.raw.resize(by_distance() ? n_ : 0);
    const kernels::RansSlots slots = {work_.slots.data(), rows_of_blocks(), model.block_log2(),
                                      model.has_contexts() ? contexts_.contexts.data() : nullptr,
                                      model.class_shift() + shift_of_classes(contexts_.classes) + 1};
    const kernels::RansTable table = {model.info().data(), model.precision(), token_bits(tokens())};
    const size_t used =
        kernels::rans_decode(slots, n_, table, by_distance() ? token_raw_counts_.data() : nullptr, lanes, states.data(),
                             work_.words.data(), available, work_.tokens.data(), work_.raw.data());
    const bool ended = std::all_of(states.begin(), states.begin() + static_cast<ptrdiff_t>(lanes),
                                   [](uint32_t state) { return state == kernels::kRansLow; });
    if (used != available || !ended) fail("does not end where its symbols end: it is damaged");
  }

  void restore_distances(std::vector<uint16_t>& out) const {
    for (size_t i = 0; i < n_; ++i) {
      const int32_t symbol = static_cast<int32_t>(centre_) + distance_of(work_.tokens[i], work_.raw[i]);
      if (symbol < 0 || symbol >= static_cast<int32_t>(alphabet_)) fail("holds a symbol outside its alphabet");
      const uint32_t context = work_.model.has_contexts() ? contexts_.contexts[i] : 0;
      out[i] = mirror(static_cast<uint32_t>(symbol), context, alphabet_);
    }
  }

  Work& work_;
  size_t n_;
  uint32_t alphabet_, centre_ = 0;
  const Stream& contexts_;
  std::array<uint8_t, kMaxTokens> token_raw_counts_;
};

bool all_equal(const std::vector<uint16_t>& symbols) {
  return std::adjacent_find(symbols.begin(), symbols.end(), std::not_equal_to<>()) == symbols.end();
}

class RansCoder final : public Coder {
 public:
  explicit RansCoder(bool contexts) : contexts_(contexts) {}

  std::string_view name() const override { return contexts_ ? "rans-dither" : "rans"; }
  uint16_t id() const override { return contexts_ ? 3 : 2; }
  std::string_view summary() const override {
    return contexts_ ? "rans with the dither as context: fewer bits than the symbols' entropy"
                     : "range ANS with a static model a chunk: about the symbols' entropy";
  }

  void shrink(const Stream& in, Bytes& out) const override {
    if (in.alphabet > kMaxAlphabet)
      throw Error(Exit::bug, "an alphabet of " + std::to_string(in.alphabet) + " symbols");
    check_contexts(in, in.count());
    if (in.alphabet == 1 || in.count() == 0) return;
    static thread_local std::vector<uint16_t> as_symbols;
    if (in.alphabet == 0) {
      as_symbols.resize(in.bytes.size());
      std::transform(in.bytes.begin(), in.bytes.end(), as_symbols.begin(),
                     [](std::byte byte) { return std::to_integer<uint16_t>(byte); });
    }
    const std::vector<uint16_t>& symbols = in.alphabet == 0 ? as_symbols : in.symbols;
    if (all_equal(symbols)) {
      put(out, uint8_t{0});
      return put_varint(out, symbols[0]);
    }
    Shrinker(in, symbols, alphabet_of(in), contexts_ && in.classes > 0).run(out);
  }

  void expand(ByteView in, uint64_t count, Stream& out) const override {
    ByteReader reader(in, "rans payload");
    check_contexts(out, count);
    out.bytes.clear();
    if (out.alphabet == 1 || count == 0) {
      reader.expect_end();
      return out.symbols.assign(static_cast<size_t>(count), 0);
    }
    if ((std::to_integer<uint32_t>(reader.peek()) & 3) == 0) {
      if (reader.get<uint8_t>() != 0) reader.fail("has bits set in its first byte that must be zero");
      const uint64_t symbol = reader.get_varint();
      reader.expect_end();
      if (symbol >= alphabet_of(out)) reader.fail("repeats a symbol outside its alphabet");
      out.symbols.assign(static_cast<size_t>(count), static_cast<uint16_t>(symbol));
    } else {
      Expander(reader, count, alphabet_of(out), contexts_ ? out : kNoContexts).symbols(out.symbols);
    }
    if (out.alphabet != 0) return;
    out.bytes.resize(out.symbols.size());
    std::transform(out.symbols.begin(), out.symbols.end(), out.bytes.begin(),
                   [](uint16_t symbol) { return static_cast<std::byte>(symbol); });
    out.symbols.clear();
  }

  std::optional<uint64_t> fixed_size(uint32_t, uint64_t) const override { return std::nullopt; }
  bool is_canonical() const override { return true; }
  bool uses_contexts() const override { return contexts_; }
  unsigned work_per_symbol() const override { return contexts_ ? 13 : 11; }  // cells, raw bits, words; contexts

 private:
  static const Stream kNoContexts;

  static void check_contexts(const Stream& stream, uint64_t count) {
    if (stream.contexts.size() != (stream.classes == 0 ? 0 : count) || stream.classes > kMaxClasses) {
      throw Error(Exit::bug, std::to_string(stream.contexts.size()) + " contexts of " + std::to_string(stream.classes) +
                                 " classes for " + std::to_string(count) + " symbols");
    }
  }

  static uint32_t alphabet_of(const Stream& stream) { return stream.alphabet == 0 ? 256 : stream.alphabet; }

  bool contexts_;
};

const Stream RansCoder::kNoContexts;

}  // namespace

const Coder& rans_coder() {
  static const RansCoder coder(false);
  return coder;
}

const Coder& rans_dither_coder() {
  static const RansCoder coder(true);
  return coder;
}

}  // namespace gradcodec
