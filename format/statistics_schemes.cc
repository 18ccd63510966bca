// What schemes make of a dump: one message each, really encoded.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "codec/checks/entropy.h"
#include "codec/planes.h"
#include "format/forms.h"
#include "format/statistics_parts.h"

namespace gradcodec {
namespace {

// One chunk: its code, and what it adds to the tensor's.
struct EncodedChunk {
  Range range;
  Code code;
  Bytes elements, payload;
  std::vector<float> values, decoded;
  std::vector<SymbolCounts> counts;  // of each stream
  uint64_t side_bytes = 0;
  double error = 0, norm = 0;
};

void count_symbols(EncodedChunk& chunk) {
  const StreamList streams(chunk.code);
  chunk.counts.resize(std::max(chunk.counts.size(), streams.size()));
  for (SymbolCounts& counts : chunk.counts) counts.clear();
  for (size_t i = 0; i < streams.size(); ++i) chunk.counts[i].add(streams[i]);
}

// All that the chunk's frame has in it.
void write_payload(EncodedChunk& chunk, const Coder& coder, bool forms) {
  chunk.payload.clear();
  write_exceptions(chunk.code.exceptions, chunk.payload);
  write_params(chunk.code, chunk.payload);
  chunk.side_bytes = chunk.payload.size();
  write_streams(chunk.code, coder, forms, chunk.payload);
}

void measure_error(EncodedChunk& chunk) {
  Sum error, norm;
  for (size_t i = 0; i < chunk.values.size(); ++i) {
    const auto x = static_cast<double>(chunk.values[i]);
    if (!std::isfinite(x)) continue;
    const double difference = static_cast<double>(chunk.decoded[i]) - x;
    error.add(difference * difference);
    norm.add(x * x);
  }
  chunk.error = error.value();
  chunk.norm = norm.value();
}

class SchemePass {
 public:
  SchemePass(Source& source, const StatisticsOptions& options, Progress& progress, const SchemeChoice& choice)
      : source_(source), options_(options), progress_(progress), choice_(choice) {}

  SchemeSummary run(const TensorSummary& tensor) {
    tensor_ = &tensor;
    return in_tensor(tensor.info, [&] { return choice_.carries_bytes() ? carry() : encode(); });
  }

 private:
  // The bytes of the elements, by planes, are the symbols; nothing is lost.
  SchemeSummary carry() {
    const std::unique_ptr<TensorData> data = source_.open(tensor_->ordinal);
    SchemeSummary out = over_chunks([&](EncodedChunk& chunk) {
      chunk.elements.resize(static_cast<size_t>(chunk.range.count * tensor_->info.dtype.item_size()));
      data->read(chunk.range, chunk.elements);
      chunk.code.streams.resize(1);
      Bytes& planes = chunk.code.streams[0].bytes;
      planes.resize(chunk.elements.size());
      split_planes(chunk.elements, tensor_->info.dtype.word_size(), planes);
      count_symbols(chunk);
      write_payload(chunk, coder_, true);
    });
    const double norm = tensor_->summary.moments.norm2();
    out.norm = norm * norm;
    return out;
  }

  SchemeSummary encode() {
    const DumpTensor tensor(tensor_->info, source_.open(tensor_->ordinal));
    const Random random({options_.seed, {}, {}}, static_cast<uint32_t>(tensor_->ordinal));
    Inputs inputs{random, kFirstStage, kStatisticsChunk, Nonfinite::keep};
    const std::shared_ptr<const Tensor> side =
        choice_.takes_side() && options_.side_of ? options_.side_of(tensor_->info) : nullptr;
    inputs.side = side.get();
    inputs.scales = coder_.uses_scales();
    const std::unique_ptr<Encoder> encoder = choice_.prepare(tensor, inputs);
    SchemeSummary out = over_chunks([&](EncodedChunk& chunk) {
      chunk.decoded.resize(static_cast<size_t>(chunk.range.count));
      const Decoder& decoder = encoder->decoder();
      fit_code(decoder, chunk.code);
      encoder->encode(chunk.range, chunk.code, chunk.decoded);
      if (side) decode(decoder, chunk);
      count_symbols(chunk);
      set_contexts(decoder, coder_, chunk.range, chunk.code);
      write_payload(chunk, coder_, !choice_.is_private());
      read_values(tensor, chunk.range, chunk.values);
      measure_error(chunk);
    });
    const uint64_t stored = encoder->decoder().stored().size();
    out.side_bytes += stored;
    out.coded_bytes += stored;
    if (tensor.is_lost()) out.error = kAbsent;  // float32 holds none of its values
    return out;
  }

  // What the encoder does not know.
  static void decode(const Decoder& decoder, EncodedChunk& chunk) {
    try {
      decoder.decode(chunk.code, chunk.range, chunk.decoded);
    } catch (const Overload&) {  // its error counts
    }
  }

  template <typename Work>
  SchemeSummary over_chunks(Work work) {
    SchemeSummary out;
    out.values = tensor_->info.size();
    std::vector<SymbolCounts> counts;
    Sum error, norm;
    const auto take = [&](EncodedChunk& chunk) {
      counts.resize(std::max(counts.size(), chunk.counts.size()));
      for (size_t i = 0; i < chunk.counts.size(); ++i) counts[i].merge(chunk.counts[i]);
      out.side_bytes += chunk.side_bytes;
      out.coded_bytes += chunk.payload.size();
      error.add(chunk.error);
      norm.add(chunk.norm);
      progress_.done += chunk.range.count * tensor_->info.dtype.item_size();
    };
    const auto guarded = [&](EncodedChunk& chunk) { in_tensor(tensor_->info, [&] { work(chunk); }); };
    if (out.values == 0) {  // one frame all the same
      EncodedChunk empty;
      guarded(empty);
      take(empty);
    }
    for_chunks<EncodedChunk>(options_, out.values, kStatisticsChunk, 1, guarded, take);
    out.coded_bytes += kFrameOverhead * frame_count(chunk_count(out.values, kStatisticsChunk));
    for (const SymbolCounts& stream : counts) {
      out.symbols += stream.symbols();
      out.symbol_bits += stream.bits();
    }
    out.error = error.value();
    out.norm = norm.value();
    return out;
  }

  Source& source_;
  const StatisticsOptions& options_;
  Progress& progress_;
  const SchemeChoice& choice_;
  const Coder& coder_ = coder_of(*choice_.scheme, coders_for_level(kDefaultLevel));  // as compress has it
  const TensorSummary* tensor_ = nullptr;
};

}  // namespace

void summarize_schemes(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out) {
  for (const SchemeChoice& choice : options.schemes) {
    SchemePass pass(source, options, progress, choice);
    SchemeSummary whole;
    for (TensorSummary& tensor : out.tensors) {
      tensor.schemes.push_back(pass.run(tensor));
      whole.add(tensor.schemes.back());
    }
    out.schemes.push_back(whole);
  }
}

}  // namespace gradcodec
