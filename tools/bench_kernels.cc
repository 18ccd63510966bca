// Speed of the kernels and of the coders on one thread, in bytes of float32 a second, beside memcpy of the same
// floats, which do not fit a cache. Run alone on the machine:
//   bench_kernels --benchmark_min_time=1 --benchmark_repetitions=3 --benchmark_filter=encode
// GRADCODEC_KERNELS names the instruction set.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "codec/coders/elias.h"
#include "codec/coders/pack.h"
#include "codec/coders/rans.h"
#include "codec/kernels/hadamard.h"
#include "codec/kernels/kernels.h"
#include "codec/sketch.h"

using namespace gradcodec;

namespace {

constexpr size_t kLen = 25'000'000;    // 100 MB
constexpr size_t kChunkLen = 1 << 18;  // as tensors are coded
const kernels::Draws kDraws = {{1, 2}, 3, 0x00010000};

struct Data {
  std::vector<float> x = std::vector<float>(kLen), decoded = std::vector<float>(kLen);
  std::vector<uint32_t> words = std::vector<uint32_t>(kLen);
  std::vector<uint16_t> symbols = std::vector<uint16_t>(kLen);

  Data() {  // the sum of four words: bell-shaped, in (-1, 1)
    kernels::philox_words(kDraws, 0, kLen, words.data());
    for (size_t i = 0; i < kLen; ++i) {
      int32_t sum = 0;
      for (int j = 0; j < 4; ++j) sum += static_cast<int32_t>(words[i] >> (8 * j) & 0xFF) - 127;
      x[i] = static_cast<float>(sum) * 0x1p-9f;
    }
  }
};

Data& data() {
  static Data all;
  return all;
}

// Runs `body(at, n)` for each chunk, and counts the floats.
template <typename Body>
void run(benchmark::State& state, const Body& body) {
  data();
  for (auto _ : state) {
    for (size_t at = 0; at < kLen; at += kChunkLen) body(at, std::min(kChunkLen, kLen - at));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kLen * sizeof(float)));
}

// The floats, as schemes see them.
class Floats final : public Tensor {
 public:
  uint64_t size() const override { return kLen; }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(data().x).subspan(range.first, range.count);
  }

 private:
  std::array<uint64_t, 1> shape_ = {kLen};
};

// range(0) rows, 500,000 columns; range(1): cells are whole numbers.
SketchLayout sketch_of(const benchmark::State& state) {
  SketchLayout layout;
  layout.rows = static_cast<uint32_t>(state.range(0));
  layout.cols = 500'000;
  layout.type = state.range(1) == 0 ? CellType::f32 : CellType::i64;
  layout.exponent = state.range(1) == 0 ? 0 : 32;
  layout.hash = kDraws;
  return layout;
}

const Inputs kInputs = {Random({1, {}, {}}, 0), 0, kChunkLen};

void sketch(benchmark::State& state) {
  data();
  for (auto _ : state) benchmark::DoNotOptimize(Table::of(Floats(), sketch_of(state), kInputs));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kLen * sizeof(float)));
}

void estimate(benchmark::State& state) {
  data();
  const Table table = Table::of(Floats(), sketch_of(state), kInputs);
  run(state, [&](size_t at, size_t n) { table.estimate(at, std::span(data().decoded).subspan(at, n)); });
}

kernels::Lattice lattice_of(const benchmark::State& state) {
  const auto max_level = static_cast<uint32_t>(state.range(0) / 2);
  return {1.0f / static_cast<float>(max_level), max_level};
}

void copy(benchmark::State& state) {
  run(state, [](size_t at, size_t n) { std::memcpy(&data().decoded[at], &data().x[at], n * sizeof(float)); });
}

void philox(benchmark::State& state) {
  run(state, [](size_t at, size_t n) { kernels::philox_words(kDraws, at, n, &data().words[at]); });
}

// Into the same chunk again and again: without the cost of memory.
void philox_in_cache(benchmark::State& state) {
  run(state, [](size_t at, size_t n) {
    for (size_t i = 0; i < n; i += 4096)
      kernels::philox_words(kDraws, at + i, std::min(n - i, size_t{4096}), data().words.data());
  });
}

void max_abs(benchmark::State& state) {
  run(state, [](size_t at, size_t n) { benchmark::DoNotOptimize(kernels::max_abs(&data().x[at], n)); });
}

void sum(benchmark::State& state) {
  run(state, [](size_t at, size_t n) {
    kernels::Sums sums;
    kernels::add_sum(&data().x[at], n, sums);
    benchmark::DoNotOptimize(sums);
  });
}

void magnitudes(benchmark::State& state) {
  run(state, [](size_t at, size_t n) {
    kernels::Sums sums;
    kernels::add_magnitudes(&data().x[at], n, sums);
    benchmark::DoNotOptimize(sums);
  });
}

void squares(benchmark::State& state) {
  run(state, [](size_t at, size_t n) {
    kernels::Sums sums;
    kernels::add_squares(&data().x[at], n, 0.1, sums);
    benchmark::DoNotOptimize(sums);
  });
}

// Blocks of 2^range(0): one that lies in the cache already, again and again, or all of memory. Values stay of the same
// size.
void rotate_in_cache(benchmark::State& state) {
  const auto log2 = static_cast<unsigned>(state.range(0));
  const size_t block = size_t{1} << log2;
  std::vector<float> x(data().x.begin(), data().x.begin() + static_cast<ptrdiff_t>(block));
  run(state, [&](size_t at, size_t n) {
    for (size_t i = 0; i < n; i += block) {
      kernels::flip_signs(kDraws, at + i, block, x.data(), x.data());
      kernels::hadamard(x.data(), log2);
    }
  });
}

void rotate(benchmark::State& state) {
  const auto log2 = static_cast<unsigned>(state.range(0));
  const size_t block = size_t{1} << log2;
  run(state, [&](size_t at, size_t n) {
    for (size_t i = 0; i + block <= n; i += block) {
      kernels::flip_signs(kDraws, at + i, block, &data().x[at + i], &data().decoded[at + i]);
      kernels::hadamard(&data().decoded[at + i], log2);
    }
  });
}

void encode(benchmark::State& state) {
  const auto lattice = lattice_of(state);
  run(state, [&](size_t at, size_t n) {
    kernels::dither_encode(&data().x[at], n, kDraws, at, lattice, &data().symbols[at], nullptr);
  });
}

void encode_and_decode(benchmark::State& state) {
  const auto lattice = lattice_of(state);
  run(state, [&](size_t at, size_t n) {
    kernels::dither_encode(&data().x[at], n, kDraws, at, lattice, &data().symbols[at], &data().decoded[at]);
  });
}

void decode(benchmark::State& state) {
  const auto lattice = lattice_of(state);
  for (size_t i = 0; i < kLen; ++i) data().symbols[i] = static_cast<uint16_t>(i % (2 * lattice.max_level + 1));
  run(state, [&](size_t at, size_t n) {
    kernels::dither_decode(&data().symbols[at], n, kDraws, at, lattice, &data().decoded[at]);
  });
}

void half_encode_and_decode(benchmark::State& state) {
  const auto lattice = lattice_of(state);
  run(state, [&](size_t at, size_t n) {
    kernels::half_dither_encode(&data().x[at], n, kDraws, at, lattice, &data().symbols[at], &data().decoded[at]);
  });
}

void half_decode(benchmark::State& state) {
  const auto lattice = lattice_of(state);
  for (size_t i = 0; i < kLen; ++i) data().symbols[i] = static_cast<uint16_t>(i % (2 * lattice.max_level + 1));
  run(state,
      [&](size_t at, size_t n) { kernels::half_dither_decode(&data().symbols[at], n, lattice, &data().decoded[at]); });
}

std::vector<float> some_levels(const benchmark::State& state) {
  std::vector<float> levels(static_cast<size_t>(state.range(0)));
  const auto middle = static_cast<float>(levels.size() - 1) / 2;
  for (size_t i = 0; i < levels.size(); ++i) {
    const float t = (static_cast<float>(i) - middle) / middle;
    levels[i] = t * (t < 0 ? -t : t);
  }
  return levels;
}

void levels_encode(benchmark::State& state) {
  const auto levels = some_levels(state);
  run(state, [&](size_t at, size_t n) {
    kernels::levels_encode(&data().x[at], n, kDraws, at, levels.data(), static_cast<uint32_t>(levels.size()),
                           &data().symbols[at], nullptr);
  });
}

void levels_decode(benchmark::State& state) {
  const auto levels = some_levels(state);
  for (size_t i = 0; i < kLen; ++i) data().symbols[i] = static_cast<uint16_t>(i % levels.size());
  run(state,
      [&](size_t at, size_t n) { kernels::levels_decode(&data().symbols[at], n, levels.data(), &data().decoded[at]); });
}

// Words of 1 to 8 bytes; a float is four bytes here, whatever the word.
void split_planes(benchmark::State& state) {
  const auto word = static_cast<uint32_t>(state.range(0));
  run(state, [&](size_t at, size_t n) {
    kernels::split_planes(reinterpret_cast<const std::byte*>(&data().x[at]), n * 4 / word, word,
                          reinterpret_cast<std::byte*>(&data().decoded[at]));
  });
}

void join_planes(benchmark::State& state) {
  const auto word = static_cast<uint32_t>(state.range(0));
  run(state, [&](size_t at, size_t n) {
    kernels::join_planes(reinterpret_cast<const std::byte*>(&data().x[at]), n * 4 / word, word,
                         reinterpret_cast<std::byte*>(&data().decoded[at]));
  });
}

kernels::Half half_of(const benchmark::State& state) {
  return state.range(0) == 0 ? kernels::Half::float16 : kernels::Half::bfloat16;
}

void widen(benchmark::State& state) {
  const kernels::Half type = half_of(state);
  auto* halves = reinterpret_cast<std::byte*>(data().symbols.data());
  kernels::narrow_half(type, data().x.data(), kLen, halves);
  run(state, [&](size_t at, size_t n) { kernels::widen_half(type, halves + 2 * at, n, &data().decoded[at]); });
}

void narrow_to_nearest(benchmark::State& state) {
  const kernels::Half type = half_of(state);
  auto* halves = reinterpret_cast<std::byte*>(data().symbols.data());
  run(state, [&](size_t at, size_t n) { kernels::narrow_half(type, &data().x[at], n, halves + 2 * at); });
}

// Without the drawing of the words.
void narrow_stochastically(benchmark::State& state) {
  const kernels::Half type = half_of(state);
  auto* halves = reinterpret_cast<std::byte*>(data().symbols.data());
  run(state, [&](size_t at, size_t n) {
    kernels::narrow_half_by(type, &data().x[at], data().words.data(), n, halves + 2 * at);
  });
}

// Arguments: the alphabet, and one in how many symbols is any of it; the others are the middle one.
Stream some_symbols(const benchmark::State& state) {
  Stream stream;
  stream.alphabet = static_cast<uint32_t>(state.range(0));
  stream.symbols.resize(kChunkLen);
  const auto one_in = static_cast<uint32_t>(state.range(1));
  for (size_t i = 0; i < kChunkLen; ++i) {
    const uint32_t word = data().words[i], symbol = word / one_in % stream.alphabet;
    stream.symbols[i] = static_cast<uint16_t>(word % one_in == 0 ? symbol : stream.alphabet / 2);
  }
  return stream;
}

void shrink(benchmark::State& state, const Coder& coder) {
  const Stream stream = some_symbols(state);
  run(state, [&](size_t, size_t) {
    Bytes out;
    coder.shrink(stream, out);
    benchmark::DoNotOptimize(out.data());
  });
}

void expand(benchmark::State& state, const Coder& coder) {
  Stream stream = some_symbols(state);
  Bytes payload;
  coder.shrink(stream, payload);
  run(state, [&](size_t, size_t) {
    coder.expand(payload, kChunkLen, stream);
    benchmark::DoNotOptimize(stream.symbols.data());
  });
}

// What quantizing a chunk gives, with steps of range(0) to a deviation of about 1 / 4: few levels, little entropy.
Stream quantized(const benchmark::State& state) {
  const auto max_level = static_cast<uint32_t>(state.range(0) / 2);
  Stream stream;
  stream.alphabet = 2 * max_level + 1;
  stream.symbols.resize(kChunkLen);
  stream.contexts.resize(kChunkLen);
  stream.classes = kernels::kDitherClasses;
  kernels::dither_encode(data().x.data(), kChunkLen, kDraws, 0, lattice_of(state), stream.symbols.data(), nullptr);
  kernels::dither_contexts(kDraws, 0, kChunkLen, stream.contexts.data());
  return stream;
}

void contexts(benchmark::State& state) {
  std::vector<uint16_t> out(kChunkLen);
  run(state, [&](size_t at, size_t n) { kernels::dither_contexts(kDraws, at, n, out.data()); });
}

void shrink_dithered(benchmark::State& state, const Coder& coder) {
  const Stream stream = quantized(state);
  Bytes out;
  run(state, [&](size_t, size_t) {
    out.clear();
    coder.shrink(stream, out);
    benchmark::DoNotOptimize(out.data());
  });
  state.counters["bits"] = static_cast<double>(8 * out.size()) / kChunkLen;
}

void expand_dithered(benchmark::State& state, const Coder& coder) {
  Stream stream = quantized(state);
  Bytes packed;
  coder.shrink(stream, packed);
  run(state, [&](size_t, size_t) {
    coder.expand(packed, kChunkLen, stream);
    benchmark::DoNotOptimize(stream.symbols.data());
  });
}

BENCHMARK(copy);
BENCHMARK(philox);
BENCHMARK(philox_in_cache);
BENCHMARK(max_abs);
BENCHMARK(sum);
BENCHMARK(magnitudes);
BENCHMARK(squares);
BENCHMARK(encode)->Arg(3)->Arg(255)->Arg(65535);
BENCHMARK(encode_and_decode)->Arg(3)->Arg(255)->Arg(65535);
BENCHMARK(decode)->Arg(3)->Arg(65535);
BENCHMARK(half_encode_and_decode)->Arg(3)->Arg(255)->Arg(65535);
BENCHMARK(half_decode)->Arg(3)->Arg(65535);
BENCHMARK(levels_encode)->Arg(4)->Arg(16)->Arg(256)->Arg(65536);
BENCHMARK(levels_decode)->Arg(16)->Arg(65536);
BENCHMARK(rotate)->Arg(8)->Arg(12)->Arg(13)->Arg(18);
BENCHMARK(rotate_in_cache)->Arg(8)->Arg(12)->Arg(13)->Arg(18);
BENCHMARK(sketch)->ArgsProduct({{1, 5}, {0, 1}});
BENCHMARK(estimate)->ArgsProduct({{1, 5, 7}, {0, 1}});
BENCHMARK(widen)->Arg(0)->Arg(1);
BENCHMARK(narrow_to_nearest)->Arg(0)->Arg(1);
BENCHMARK(narrow_stochastically)->Arg(0)->Arg(1);
BENCHMARK(split_planes)->Arg(1)->Arg(2)->Arg(4)->Arg(8);
BENCHMARK(join_planes)->Arg(1)->Arg(2)->Arg(4)->Arg(8);

BENCHMARK_CAPTURE(shrink, pack, pack_coder())
    ->ArgsProduct({{3, 5, 7, 9, 11, 13, 15, 16, 17, 21, 25, 31, 63, 101, 127, 255, 1025, 65535}, {1}});
BENCHMARK_CAPTURE(expand, pack, pack_coder())
    ->ArgsProduct({{3, 5, 7, 9, 11, 13, 15, 16, 17, 21, 25, 31, 63, 101, 127, 255, 1025, 65535}, {1}});
BENCHMARK_CAPTURE(shrink, elias, elias_coder())->ArgsProduct({{3, 255, 65535}, {1, 2, 13, 100}});
BENCHMARK_CAPTURE(expand, elias, elias_coder())->ArgsProduct({{3, 255, 65535}, {1, 2, 13, 100}});
BENCHMARK(contexts);
BENCHMARK_CAPTURE(shrink_dithered, rans, rans_coder())->Arg(3)->Arg(15)->Arg(255)->Arg(65535);
BENCHMARK_CAPTURE(expand_dithered, rans, rans_coder())->Arg(3)->Arg(15)->Arg(255)->Arg(65535);
BENCHMARK_CAPTURE(shrink_dithered, rans_dither, rans_dither_coder())->Arg(3)->Arg(15)->Arg(255);
BENCHMARK_CAPTURE(expand_dithered, rans_dither, rans_dither_coder())->Arg(3)->Arg(15)->Arg(255);

}  // namespace

int main(int argc, char** argv) {
  const char* target = std::getenv("GRADCODEC_KERNELS");
  if (target != nullptr && !kernels::use_target(target)) {
    std::fprintf(stderr, "no kernels for '%s' here\n", target);
    return 2;
  }
  benchmark::AddCustomContext("kernels", kernels::current_target());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
