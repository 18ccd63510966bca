// Statistics of a message, against straightforward loops over what decompress gives.
// SPDX-License-Identifier: Apache-2.0
#include "format/message_stats.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "format/made_messages.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

MemorySource varied() {
  MemorySource source;
  std::vector<float> special = made_values(5000, 3);
  special[7] = std::numeric_limits<float>::quiet_NaN();
  special[4096] = -std::numeric_limits<float>::infinity();
  source.add_values("long", "f4", {3, 3000}, made_values(9000));
  source.add_values("special", "f4", {5000}, special);
  source.add_values("one", "f4", {1}, {0.5F});
  source.add_values("none", "f4", {0, 3}, {});
  source.add_values("scalar", "f4", {}, {-2.0F});
  source.add_values("half", "f2", {4100}, made_values(4100, 4));
  source.add_values("brain", "bf16", {4100}, made_values(4100, 5));
  source.add_values("double", "f8", {10}, made_values(10, 6));
  source.add_values("zeros", "f4", {100}, std::vector<float>(100, 0.0F));
  Bytes integers(4 * 4099);
  for (size_t i = 0; i < integers.size(); ++i) integers[i] = static_cast<std::byte>(i * i >> 3);
  source.add("integers", "i4", {4099}, integers);
  source.add("nothing", "S0", {uint64_t{1} << 50}, {});
  return source;
}

MessageStats stats_of(const std::string& path, Source* dump, unsigned threads = 1) {
  Progress progress;
  const StoredMessage message(path, threads, kMemory, progress);
  return message_stats(message, dump, threads, kMemory, progress);
}

std::vector<double> doubles(const DType& dtype, const Bytes& elements) {
  std::vector<double> out(elements.size() / dtype.item_size());
  if (dtype.code == DType::f8) {
    std::memcpy(out.data(), elements.data(), elements.size());
    return out;
  }
  std::vector<float> values(out.size());
  widen(dtype, elements, values);
  return {values.begin(), values.end()};
}

Bytes decompressed(const StoredMessage& message, size_t tensor) {
  Bytes out;
  Piece piece;
  for (uint64_t chunk = 0; chunk < message.chunks(tensor); ++chunk) {
    message.load(tensor, chunk, piece);
    message.convert(piece);
    put_bytes(out, piece.elements);
  }
  return out;
}

// Entropy of all symbols of a tensor of one stream, in bits.
double ideal_bits(const StoredMessage& message, size_t tensor, uint64_t& symbols) {
  std::map<uint32_t, double> counts;
  Piece piece;
  symbols = 0;
  for (uint64_t chunk = 0; chunk < message.chunks(tensor); ++chunk) {
    message.load(tensor, chunk, piece);
    REQUIRE(piece.work.code.streams.size() == 1);
    const Stream& stream = piece.work.code.streams[0];
    for (const uint16_t symbol : stream.symbols) counts[symbol] += 1;
    for (const std::byte byte : stream.bytes) counts[std::to_integer<uint32_t>(byte)] += 1;
    symbols += stream.count();
  }
  double bits = 0;
  for (const auto& [symbol, count] : counts) bits -= count * std::log2(count / static_cast<double>(symbols));
  return bits;
}

void check_near(const std::optional<double>& seen, double expected) {
  REQUIRE(seen.has_value());
  CHECK(*seen == Approx(expected).epsilon(1e-11).margin(1e-14));
}

void check_values(const Reconstruction& r, const std::vector<double>& x, const std::vector<double>& decoded) {
  double ee = 0, xx = 0, dd = 0, ex = 0, low = HUGE_VAL, high = -HUGE_VAL, largest = -1;
  uint64_t count = 0, nonfinite = 0, where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      ++nonfinite;
      continue;
    }
    const double e = decoded[i] - x[i];
    ++count;
    ee += e * e;
    xx += x[i] * x[i];
    dd += decoded[i] * decoded[i];
    ex += e * x[i];
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    if (std::fabs(e) > largest) {
      largest = std::fabs(e);
      where = i;
    }
  }
  CHECK(r.compared == count);
  CHECK(r.nonfinite == nonfinite);
  CHECK(r.nonfinite_changed == 0);
  CHECK(r.nmse.has_value() == (xx > 0));
  CHECK(r.psnr.has_value() == (ee > 0 && high > low));
  CHECK(r.max_error.has_value() == (count > 0));
  if (count == 0) return;
  CHECK(r.max_error == largest);
  CHECK(r.max_index == where);
  if (r.psnr) check_near(r.psnr, 20 * std::log10((high - low) / std::sqrt(ee / static_cast<double>(count))));
  if (xx == 0) return;
  check_near(r.nmse, ee / xx);
  check_near(r.bias, ex / xx);
  if (dd > 0) check_near(r.cosine, (ex + xx) / std::sqrt(dd) / std::sqrt(xx));
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    return error.what();
  }
  return "";
}

// Equal in every bit.
void check_equal(const TensorStats& a, const TensorStats& b) {
  INFO(a.name);
  CHECK(a.ideal_bits == b.ideal_bits);
  CHECK(a.symbol_bytes == b.symbol_bytes);
  CHECK(a.exceptions == b.exceptions);
  REQUIRE(a.comparison.has_value() == b.comparison.has_value());
  if (!a.comparison || !a.comparison->values) return;
  const Reconstruction &x = *a.comparison->values, &y = *b.comparison->values;
  CHECK(x.nmse == y.nmse);
  CHECK(x.cosine == y.cosine);
  CHECK(x.bias == y.bias);
  CHECK(x.psnr == y.psnr);
  CHECK(x.max_error == y.max_error);
  CHECK(x.max_part == y.max_part);
  CHECK(x.max_index == y.max_index);
}

}  // namespace

TEST_CASE("statistics of a message are those of straightforward loops, for any number of threads") {
  MemorySource source = varied();
  for (const char* scheme : {"dqsg:levels=5", "dither:nmse=0.1", "dither:nmse=0.01,bucket=100", "raw"}) {
    for (const char* coder : {"pack", "zstd"}) {
      INFO(scheme << " " << coder);
      const TemporaryFile file;
      compress_to(file.path(), source, options_for(scheme, coder));
      Progress progress;
      const StoredMessage message(file.path(), 1, kMemory, progress);
      const MessageStats stats = stats_of(file.path(), &source);
      CHECK(stats.only_in_dump.empty());
      CHECK(stats.only_in_file.empty());
      REQUIRE(stats.tensors.size() == source.tensors().size());
      std::vector<double> all_x, all_decoded;
      double all_ideal = 0;
      for (size_t i = 0; i < stats.tensors.size(); ++i) {
        const TensorStats& tensor = stats.tensors[i];
        const TensorInfo& info = source.tensors()[i];
        INFO(info.name);
        CHECK(tensor.name == info.name);
        uint64_t symbols = 0;
        const double ideal = ideal_bits(message, i, symbols);
        CHECK(tensor.symbols == symbols);
        CHECK(tensor.ideal_bits == Approx(ideal).epsilon(1e-11).margin(1e-9));
        CHECK(tensor.bytes == message.tallies()[i].bytes());
        CHECK(tensor.symbol_bytes <= message.tallies()[i].payload);
        all_ideal += ideal;
        REQUIRE(tensor.comparison.has_value());
        const Bytes decoded = decompressed(message, i);
        if (std::string(scheme) == "raw" || !info.dtype.is_float()) {
          CHECK(decoded == source.elements(i));
          CHECK(tensor.comparison->unequal == 0);
          CHECK(tensor.comparison->values.has_value() == info.dtype.is_float());
        }
        if (!info.dtype.is_float()) continue;
        const std::vector<double> x = doubles(info.dtype, source.elements(i)), y = doubles(info.dtype, decoded);
        check_values(tensor.comparison->values.value(), x, y);
        all_x.insert(all_x.end(), x.begin(), x.end());
        all_decoded.insert(all_decoded.end(), y.begin(), y.end());
        CHECK(tensor.exceptions == (info.name == "special" && std::string(scheme) != "raw" ? 2 : 0));
      }
      CHECK(stats.whole.bytes == file.bytes().size());
      CHECK(stats.whole.ideal_bits == Approx(all_ideal).epsilon(1e-11));
      Reconstruction whole = stats.whole.comparison.value().values.value();
      const TensorStats& worst = stats.tensors.at(whole.max_part);
      CHECK(worst.comparison->values->max_error == whole.max_error);
      CHECK(worst.comparison->values->max_index == whole.max_index);
      for (uint64_t i = 0; i < whole.max_part; ++i) whole.max_index += source.tensors()[i].size();
      check_values(whole, all_x, all_decoded);

      const MessageStats again = stats_of(file.path(), &source, 4);
      for (size_t i = 0; i < stats.tensors.size(); ++i) check_equal(stats.tensors[i], again.tensors[i]);
      check_equal(stats.whole, again.whole);
    }
  }
}

TEST_CASE("a message by hand") {
  MemorySource stored, dump;
  stored.add_values("a", "f4", {2}, {3, 5})
      .add("b", "u1", {4}, {std::byte{0}, std::byte{9}, std::byte{0}, std::byte{0}});
  dump.add_values("a", "f4", {2}, {3, 4}).add("b", "u1", {4}, {std::byte{0}, std::byte{9}, std::byte{1}, std::byte{0}});
  const TemporaryFile file;
  compress_to(file.path(), stored, options_for("raw"));
  const MessageStats stats = stats_of(file.path(), &dump);
  const Reconstruction r = stats.tensors[0].comparison.value().values.value();
  check_near(r.nmse, 1.0 / 25);
  check_near(r.bias, 4.0 / 25);
  check_near(r.cosine, 29 / (5 * std::sqrt(34.0)));
  check_near(r.psnr, 10 * std::log10(2.0));
  CHECK(r.max_error == 1.0);
  CHECK(r.max_index == 1);
  CHECK(stats.tensors[0].comparison->unequal == 1);
  CHECK(stats.tensors[1].comparison->unequal == 1);
  CHECK_FALSE(stats.tensors[1].comparison->values.has_value());
  const double entropy = 0.75 * std::log2(4 / 3.0) + 0.25 * 2;
  check_near(stats.tensors[1].entropy_per_symbol(), entropy);
  CHECK(stats.tensors[1].symbol_bytes == 4);
  CHECK(stats.tensors[1].bytes == 16);  // 4 of head, 4 of payload, 8 of check
  check_near(stats.tensors[1].bits_per_value(), 32);
  CHECK(stats.tensors[1].excess_bits() == Approx(32 - 4 * entropy));
  check_near(stats.tensors[1].excess_percent(), 100 * (8 / entropy - 1));
}

TEST_CASE("without a dump there is no comparison, without elements no quotient") {
  MemorySource source;
  source.add_values("a", "f4", {0}, {}).add_values("b", "f4", {9}, std::vector<float>(9, 1.0F));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dqsg:levels=3"));
  const MessageStats stats = stats_of(file.path(), nullptr);
  CHECK_FALSE(stats.whole.comparison.has_value());
  CHECK_FALSE(stats.tensors[0].comparison.has_value());
  CHECK_FALSE(stats.tensors[0].bits_per_value().has_value());
  CHECK_FALSE(stats.tensors[0].entropy_per_symbol().has_value());
  CHECK_FALSE(stats.tensors[0].excess_percent().has_value());
  CHECK(stats.tensors[0].bytes == 16);                 // its step, and the frame
  CHECK(stats.tensors[1].entropy_per_value() == 0.0);  // every symbol is the largest level
  CHECK(stats.tensors[1].excess_bits() == 8.0);
  CHECK_FALSE(stats.tensors[1].excess_percent().has_value());
  CHECK(stats.parts.total() == file.bytes().size());

  MemorySource none;
  compress_to(file.path(), none, options_for("raw"));
  const MessageStats empty = stats_of(file.path(), &none);
  CHECK(empty.tensors.empty());
  CHECK_FALSE(empty.whole.bits_per_value().has_value());
}

TEST_CASE("tensors are matched by name; another shape or kind of type is refused") {
  MemorySource source, dump;
  source.add_values("a", "f4", {2, 2}, {1, 2, 3, 4}).add_values("b", "f4", {1}, {1}).add("c", "i4", {1}, Bytes(4));
  dump.add("c", "i4", {1}, Bytes(4)).add_values("d", "f4", {1}, {1}).add_values("a", "f8", {2, 2}, {1, 2, 3, 4});
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("raw"));
  const MessageStats stats = stats_of(file.path(), &dump);
  CHECK(stats.only_in_dump == std::vector<std::string>{"d"});
  CHECK(stats.only_in_file == std::vector<std::string>{"b"});
  CHECK(stats.tensors[0].comparison.value().values.value().nmse == 0.0);
  CHECK(stats.tensors[0].comparison->unequal == 0);
  CHECK_FALSE(stats.tensors[1].comparison.has_value());
  CHECK(stats.whole.comparison.value().values.value().compared == 4);

  MemorySource flat, integers, wide;
  flat.add_values("a", "f4", {4}, {1, 2, 3, 4});
  integers.add("a", "i4", {2, 2}, Bytes(16));
  wide.add("c", "i8", {1}, Bytes(8));
  const std::string& name = file.path();
  CHECK(refusal([&] {
          stats_of(file.path(), &flat);
        }).find(name + ": tensor 'a': has the shape 2x2 in the file and 4 in") == 0);
  CHECK(refusal([&] {
          stats_of(file.path(), &integers);
        }).find(name + ": tensor 'a': has the type f4 in the file and i4") == 0);
  CHECK(refusal([&] {
          stats_of(file.path(), &wide);
        }).find(name + ": tensor 'c': has the type i4 in the file and i8") == 0);
}

TEST_CASE("what the tensor's type cannot hold is compared as float32 and counted") {
  MemorySource source;
  source.add_values("a", "f2", {200}, std::vector<float>(200, 65504.0F));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dither:nmse=0.1"));
  const MessageStats stats = stats_of(file.path(), &source);
  CHECK(stats.whole.comparison.value().beyond_type == 1);
  CHECK(*stats.whole.comparison->values.value().nmse == Approx(0.1).epsilon(0.3));
}

TEST_CASE("the error that a scheme was asked for is the one that is measured") {
  MemorySource source;
  source.add_values("a", "f4", {20000}, made_values(20000));
  const TemporaryFile file;
  compress_to(file.path(), source, options_for("dither:nmse=0.1"));
  const MessageStats stats = stats_of(file.path(), &source);
  const Reconstruction r = stats.whole.comparison.value().values.value();
  CHECK(*r.nmse == Approx(0.1).epsilon(0.03));
  CHECK(std::fabs(*r.bias) < 0.01);
  CHECK(*r.cosine == Approx(1 / std::sqrt(1.1)).epsilon(0.01));
}
