// SPDX-License-Identifier: Apache-2.0
#include "format/speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "codec/checks/entropy.h"
#include "codec/checks/reconstruction.h"
#include "format/crew.h"
#include "format/forms.h"
#include "format/frame_decoder.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

constexpr uint64_t kFirstCheck = 1;            // seeds the first frame's check
constexpr uint64_t kCost = 3 * sizeof(float);  // a value: input, output, frames, which seldom take more than the input

class MemoryData final : public TensorData {
 public:
  explicit MemoryData(std::span<const float> values) : values_(values) {}
  void read(Range range, std::span<std::byte> out) const override { store_little(of(range), out.data()); }
  ByteView view(Range range) const override { return kSwapsBytes ? ByteView() : std::as_bytes(of(range)); }

 private:
  std::span<const float> of(Range range) const {
    return values_.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }

  std::span<const float> values_;
};

// The buffers of one chunk at work, in either direction; they outlive the runs, so that none is made by the clock.
struct Buffers {
  Workspace work;
  Frame frame;      // on the way out
  FrameBytes read;  // on the way in
  Bytes elements;   // likewise
  uint64_t digest = 0;
};

struct Item {
  FramePlace place;
  Buffers* buffers = nullptr;
  RestoredTensor tensor;  // on the way in
};

Rate rate_of(std::vector<double> seconds, uint64_t bytes) {
  std::sort(seconds.begin(), seconds.end());
  const size_t half = seconds.size() / 2;
  const double middle = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  const auto amount = static_cast<double>(bytes);
  return {amount / middle, amount / seconds.back(), amount / seconds.front()};
}

template <typename Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Schema schema_of(uint64_t size) {
  Schema schema;
  schema.schemes.resize(1);
  schema.tensors = {{{"input", DType::parse("f4"), {size}}, 0}};
  return schema;
}

// One scheme and coder, with what the rounds gave so far.
struct Combination {
  TensorPlan plan;
  SpeedRow row;
  std::vector<double> prepare, encode, decode;  // seconds
};

class SpeedBench {
 public:
  SpeedBench(std::span<const float> input, const SpeedOptions& options, Progress& progress)
      : input_(input),
        options_(options),
        progress_(progress),
        schema_(schema_of(input.size())),
        crew_(crew_of(input.size(), options)),
        output_(input.size()),
        buffers_(crew_.slots) {
    packed_.reserve(input.size_bytes());
    for (size_t scheme = 0; scheme < options.schemes.size(); ++scheme) {
      for (size_t coder = 0; coder < options.coders.size(); ++coder) {
        const Coder* wanted = options.coders[coder];
        if (&coder_of(*options.schemes[scheme].scheme, {wanted, wanted}) != wanted) continue;  // private ones have one
        Combination& combination = combinations_.emplace_back();
        combination.row.scheme = scheme;
        combination.row.coder = coder;
        combination.plan = {info(),
                            options.schemes[scheme],
                            options.coders[coder],
                            {options.seed, {}, {}},
                            0,
                            schema_.chunk_len(schema_.tensors[0])};
        // As near as can be: what it takes to decode does not depend on how near.
        if (combination.plan.scheme.takes_side()) {
          combination.plan.side = std::make_shared<DumpTensor>(info(), std::make_unique<MemoryData>(input_));
        }
      }
    }
  }

  Speed run() {
    progress_.total = (options_.repeats + 1) * combinations_.size() * input_.size_bytes();
    for (Combination& combination : combinations_) measure_once(combination);
    for (unsigned round = 0; round < options_.repeats; ++round) {
      copies_.push_back(seconds_of([&] { copy(1); }));
      if (options_.threads > 1) copies_by_threads_.push_back(seconds_of([&] { copy(options_.threads); }));
      for (Combination& combination : combinations_) time_once(combination);
    }
    return summary();
  }

 private:
  static Crew crew_of(uint64_t size, const SpeedOptions& options) {
    check_speed_memory(size, options.memory);
    return crew_for(schema_of(size), options.threads, options.memory - kCost * size, false);
  }

  const TensorInfo& info() const { return schema_.tensors[0].info; }

  std::unique_ptr<TensorEncoder> prepare(const Combination& combination) const {
    return make_tensor_encoder(combination.plan, std::make_unique<MemoryData>(input_), Nonfinite::keep);
  }

  // Untimed: what does not change from round to round.
  void measure_once(Combination& combination) {
    const std::unique_ptr<TensorEncoder> encoder = prepare(combination);
    std::vector<SymbolCounts> counts;
    encode(*encoder, [&](const Workspace& work) {
      const StreamList streams(work.code);
      counts.resize(std::max(counts.size(), streams.size()));
      for (size_t i = 0; i < streams.size(); ++i) counts[i].add(streams[i]);
    });
    decode(combination);
    for (const SymbolCounts& stream : counts) combination.row.symbol_bits += stream.bits();
    combination.row.coded_bytes = packed_.size();
    combination.row.nmse = error_of_output();
    progress_.done += input_.size_bytes();
  }

  void time_once(Combination& combination) {
    std::unique_ptr<TensorEncoder> encoder;
    combination.prepare.push_back(seconds_of([&] { encoder = prepare(combination); }));
    combination.encode.push_back(seconds_of([&] { encode(*encoder, [](const Workspace&) {}); }));
    combination.decode.push_back(seconds_of([&] { decode(combination); }));
    progress_.done += input_.size_bytes();
  }

  // In as many parts as threads, each by one memcpy.
  void copy(unsigned threads) {
    const size_t part = (input_.size() + threads - 1) / threads;
    size_t next = 0;
    const auto make = [&](size_t& first) {
      first = next;
      next += part;
      return first < input_.size();
    };
    const auto work = [&](size_t& first) {
      const size_t count = std::min(part, input_.size() - first);
      std::memcpy(output_.data() + first, input_.data() + first, count * sizeof(float));
    };
    run_ordered<size_t>(threads, threads, make, work, [](size_t&) {});
  }

  // The items' buffers are lent to them when they are made first.
  void lend(Item& item, size_t& lent) {
    if (item.buffers == nullptr) item.buffers = &buffers_[lent++];
  }

  // Into packed_, lengths_ and digest_. `look(workspace)` sees each chunk, in order.
  template <typename Look>
  void encode(const TensorEncoder& encoder, Look look) {
    FrameWalk walk(schema_);
    size_t lent = 0;
    std::vector<uint64_t> digests;
    packed_.clear();
    lengths_.clear();
    const auto make = [&](Item& item) {
      lend(item, lent);
      return walk.next(item.place);
    };
    const auto work = [&](Item& item) {
      Frame& frame = item.buffers->frame;
      frame.params.clear();
      frame.exceptions.clear();
      frame.payload.clear();
      frame.form = Form::coder;
      if (item.place.has_params()) frame.params = encoder.stored();
      if (item.place.params_only) return;
      item.buffers->digest = encoder.encode(item.place.range, true, item.buffers->work, frame);
    };
    const auto take = [&](Item& item) {
      Frame& frame = item.buffers->frame;
      seal_frame(frame, kFirstCheck + lengths_.size());
      put_bytes(packed_, frame.sealed);
      lengths_.push_back(frame.sealed.size());
      if (item.place.params_only) return;
      digests.push_back(item.buffers->digest);
      look(item.buffers->work);
    };
    run_ordered<Item>(crew_.threads, crew_.slots, make, work, take);
    digest_ = tensor_digest(digests);
  }

  // From packed_ into output_.
  void decode(const Combination& combination) {
    FrameWalk walk(schema_);
    size_t lent = 0, frame = 0, at = 0;
    std::vector<uint64_t> digests;
    RestoredTensor current;
    const auto make = [&](Item& item) {
      lend(item, lent);
      if (!walk.next(item.place)) return false;
      FrameBytes& read = item.buffers->read;
      const auto bytes = ByteView(packed_).subspan(at, lengths_[frame]);
      read.buffer.assign(bytes.begin(), bytes.end());
      read.offset = at;
      open_frame(
          kFirstCheck + frame++, [&] { return item.place.text(); }, read);
      at += bytes.size();
      if (item.place.has_params()) current = restore_tensor(combination.plan, item.place, read, info().dtype);
      item.tensor = current;
      return true;
    };
    const auto work = [&](Item& item) {
      if (item.place.params_only) return;
      Buffers& buffers = *item.buffers;
      const Range range = item.place.range;
      buffers.work.target =
          std::span(output_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
      buffers.digest = decode_frame(info(), item.tensor, item.place, buffers.read, buffers.work);
      // No value comes by way of the buffer, but for `raw`, which decodes bytes.
      const ByteView elements =
          convert_frame(info(), item.tensor, item.place, buffers.read, buffers.work, buffers.elements);
      const std::span<float> target = buffers.work.target;
      if (elements.data() != std::as_bytes(target).data()) load_little(elements.data(), target);
      buffers.work.target = {};
    };
    const auto take = [&](Item& item) {
      if (item.place.params_only) return;
      digests.push_back(item.buffers->digest);
    };
    run_ordered<Item>(crew_.threads, crew_.slots, make, work, take);
    if (tensor_digest(digests) != digest_) {
      throw Error(Exit::bug, "the decoded values are not those that were encoded: their digests differ");
    }
  }

  std::optional<double> error_of_output() const {
    constexpr size_t kPiece = 4096;
    ReconstructionSums sums;
    std::vector<double> x, decoded;
    for (size_t at = 0; at < input_.size(); at += kPiece) {
      const size_t end = std::min(input_.size(), at + kPiece);
      x.assign(input_.begin() + static_cast<ptrdiff_t>(at), input_.begin() + static_cast<ptrdiff_t>(end));
      decoded.assign(output_.begin() + static_cast<ptrdiff_t>(at), output_.begin() + static_cast<ptrdiff_t>(end));
      sums.add(x, decoded, 0, at);
    }
    return sums.result().nmse;
  }

  Speed summary() {
    Speed out;
    const uint64_t bytes = input_.size_bytes();
    out.copy = rate_of(copies_, bytes);
    if (!copies_by_threads_.empty()) out.copy_threads = rate_of(copies_by_threads_, bytes);
    for (Combination& combination : combinations_) {
      SpeedRow& row = combination.row;
      if (!combination.plan.scheme.carries_bytes()) row.prepare = rate_of(combination.prepare, bytes);
      row.encode = rate_of(combination.encode, bytes);
      row.decode = rate_of(combination.decode, bytes);
      out.rows.push_back(row);
    }
    return out;
  }

  const std::span<const float> input_;
  const SpeedOptions& options_;
  Progress& progress_;
  const Schema schema_;
  const Crew crew_;
  std::vector<float> output_;
  std::deque<Buffers> buffers_;
  std::vector<Combination> combinations_;
  Bytes packed_;                   // frames, one after another
  std::vector<uint64_t> lengths_;  // of frames
  uint32_t digest_ = 0;            // of what was encoded last
  std::vector<double> copies_, copies_by_threads_;
};

}  // namespace

void check_speed_memory(uint64_t size, uint64_t memory) {
  if (size > memory / kCost) {
    throw Error(Exit::limit, "measuring takes " + std::to_string(kCost) + " bytes of memory a value, too much for " +
                                 std::to_string(size) + " values: lower --size or raise --memory");
  }
}

Speed measure_speed(std::span<const float> input, const SpeedOptions& options, Progress& progress) {
  return SpeedBench(input, options, progress).run();
}

}  // namespace gradcodec
