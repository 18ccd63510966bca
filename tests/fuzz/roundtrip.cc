// Any scheme with any parameters over any values: the same bytes from every instruction set, and decoded the same by
// every number of threads; and what was encoded is what is decoded, as the digests say.
// SPDX-License-Identifier: Apache-2.0
#include <fuzzer/FuzzedDataProvider.h>

#include <cmath>

#include "codec/presets.h"
#include "codec/registry.h"
#include "fuzz/support.h"

using namespace gradcodec;

namespace {

std::string some_value(const ParamSpec& spec, FuzzedDataProvider& data) {
  switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return example_text(spec);
    case 1:
      return std::to_string(data.ConsumeIntegralInRange<int64_t>(0, 300));
    default:
      break;
  }
  if (spec.kind == ParamSpec::choice) {
    const std::string_view words = spec.choices;
    const size_t from = data.ConsumeIntegralInRange<size_t>(0, words.size() - 1);
    const size_t begin = words.rfind('|', from) == std::string_view::npos ? 0 : words.rfind('|', from) + 1;
    return std::string(words.substr(begin, words.find('|', begin) - begin));
  }
  if (spec.kind == ParamSpec::amount) return std::to_string(data.ConsumeIntegralInRange<int>(1, 100)) + "%";
  if (spec.kind == ParamSpec::real)
    return std::to_string(data.ConsumeIntegral<uint16_t>()) + "e-" + std::to_string(data.ConsumeIntegralInRange(0, 12));
  const double most = std::min(spec.max, 0x1p40), least = std::max(spec.min, 0.0);
  if (!(most >= least)) return example_text(spec);
  return std::to_string(data.ConsumeIntegralInRange(static_cast<int64_t>(least), static_cast<int64_t>(most)));
}

void add_stage(std::string& text, std::string_view name, std::span<const ParamSpec> params, FuzzedDataProvider& data) {
  if (!text.empty()) text += '/';
  text += name;
  char before = ':';
  for (const ParamSpec& spec : params) {
    if (!spec.required && data.ConsumeBool()) continue;
    text += before + std::string(spec.name) + "=" + some_value(spec, data);
    before = ',';
  }
}

std::string some_scheme(FuzzedDataProvider& data) {
  std::string text;
  const auto schemes = all_schemes();
  const auto presets = all_presets();
  for (int stages = data.ConsumeIntegralInRange(1, 3); stages > 0; --stages) {
    const size_t at = data.ConsumeIntegralInRange<size_t>(0, schemes.size() + presets.size() - 1);
    if (at < schemes.size()) {
      add_stage(text, schemes[at]->name(), schemes[at]->params(), data);
    } else {
      add_stage(text, presets[at - schemes.size()].name, presets[at - schemes.size()].params, data);
    }
  }
  return text;
}

// Normal-like, sparse, of many magnitudes, or any bits there are.
std::vector<float> some_values(FuzzedDataProvider& data) {
  const size_t count = data.ConsumeIntegralInRange<size_t>(0, data.ConsumeBool() ? 40 : 9000);
  std::vector<float> values = made_values(count, data.ConsumeIntegral<uint32_t>());
  const int exponent = data.ConsumeIntegralInRange(-150, 126), spread = data.ConsumeIntegralInRange(0, 40);
  const unsigned kept = data.ConsumeIntegralInRange(0U, 255U);
  for (size_t i = 0; i < count; ++i) {
    const auto hash = static_cast<uint32_t>(i * 2654435761U);
    const int more = spread == 0 ? 0 : static_cast<int>(hash >> 8) % spread;
    values[i] = hash >> 24 > kept ? 0.0F : std::ldexp(values[i], std::min(exponent + more, 126));
  }
  for (size_t i = 0; i < count && data.remaining_bytes() > 8; i += 1 + data.ConsumeIntegral<uint8_t>()) {
    values[i] = std::bit_cast<float>(data.ConsumeIntegral<uint32_t>());
  }
  return values;
}

struct Case {
  MemorySource source;
  CompressOptions options;
};

std::shared_ptr<RandomFile> compressed(Case& job, const std::string& target) {
  fuzz::demand(kernels::use_target(target), "an instruction set is not there");
  const Schema schema = plan_schema(job.source, job.options);
  std::vector<SchemeChoice> choices;
  for (const StoredScheme& stored : schema.schemes) {
    choices.push_back(stored.text == job.options.scheme.stored_text() ? job.options.scheme : parse_scheme(stored.text));
  }
  std::shared_ptr<RandomFile> file = RandomFile::in_memory("message");
  OutputFile output(file);
  ContainerWriter writer(output);
  writer.begin(schema, {}, {}, plan_message(schema, job.options.id));
  Progress progress;
  compress(job.source, schema, choices, job.options, writer, progress);
  output.commit();
  return file;
}

Bytes all_of(const RandomFile& file) {
  Bytes bytes(static_cast<size_t>(file.size()));
  file.read_at(0, bytes);
  return bytes;
}

std::map<std::string, Bytes> decompressed(const std::shared_ptr<const RandomFile>& file, unsigned threads) {
  InputStream input(file);
  ContainerReader reader(input, fuzz::kMemory);
  reader.begin();
  DecompressOptions options;
  options.wanted = [](const TensorInfo&) { return true; };
  options.threads = threads;
  MemorySink sink;
  Progress progress;
  const auto decoded =
      decompress(reader, reader.schema(), id_of(reader.schema(), reader.message()), options, &sink, progress);
  compare_digests(reader.schema(), options, reader.finish(), decoded);
  reader.expect_end_of_input();
  return sink.elements;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  Case job;
  bool made = false;
  fuzz::expect_error_or_nothing([&] {
    job.options.scheme = parse_scheme(some_scheme(data));
    made = !job.options.scheme.is_private() && !job.options.scheme.takes_side();  // drawn anew; decoded with more
  });
  if (!made) return 0;
  const auto coders = all_coders();
  const auto coder = [&] { return coders[data.ConsumeIntegralInRange<size_t>(0, coders.size() - 1)]; };
  job.options.coders = {coder(), coder()};
  job.options.id.seed = data.ConsumeIntegral<uint64_t>();
  job.options.nonfinite = data.ConsumeBool() ? Nonfinite::keep : Nonfinite::error;
  job.options.chunk_log2 = kMinChunkLog2;
  const char* types[] = {"f4", "f2", "bf16", "f8"};
  for (int tensors = data.ConsumeIntegralInRange(1, 2); tensors > 0; --tensors) {
    const char* type = types[data.ConsumeIntegralInRange(0, 3)];
    const std::vector<float> values = some_values(data);
    const bool is_large = std::any_of(values.begin(), values.end(), [](float x) { return std::fabs(x) > 65504; });
    if (is_large && type[1] != '8') type = "f4";
    const uint64_t rows = values.size() % 3 == 0 ? 3 : 1;
    job.source.add_values("t" + std::to_string(tensors), type, {rows, values.size() / rows}, values);
  }
  std::shared_ptr<RandomFile> file;
  fuzz::expect_error_or_nothing([&] { file = compressed(job, "scalar"); });
  if (!file) {  // refused: by every target
    bool other = false;
    fuzz::expect_error_or_nothing([&] { other = compressed(job, "") != nullptr; });
    fuzz::demand(!other, "values are refused by one instruction set alone");
    return 0;
  }
  for (const std::string& target : kernels::available_targets()) {
    fuzz::demand(all_of(*compressed(job, target)) == all_of(*file), "another instruction set makes other bytes");
  }
  const auto decoded = decompressed(file, 1);
  kernels::use_target("scalar");
  fuzz::demand(decompressed(file, 3) == decoded, "other threads and instructions decode other values");
  return 0;
}
