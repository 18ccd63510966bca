// Where the time of compress and decompress goes: each stage by the clock, chunk after chunk as in the pipeline, one
// thread, from file to file in the page cache. Prints a Markdown table, medians of five rounds.
//   profile_stages [VALUES]        25,000,000 (100 MB) without VALUES; $TMPDIR must hold five times as much
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "codec/checksum.h"
#include "codec/registry.h"
#include "codec/values.h"
#include "format/dumps/open.h"
#include "format/forms.h"
#include "format/pipeline.h"
#include "format/speed_input.h"

using namespace gradcodec;

namespace {

constexpr const char* kScheme = "dither:nmse=0.1";
constexpr uint64_t kChunk = uint64_t{1} << kDefaultChunkLog2;
constexpr int kRounds = 5;
const MessageId kMessage = {1, {}, {}};

using Times = std::map<std::string, double>;  // seconds a stage

template <typename Work>
auto timed(double& seconds, Work work) {
  struct Stop {
    double& seconds;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Stop() { seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
  } stop{seconds};
  return work();
}

// float32 in a file of nothing else; says how long reading took.
class FileTensor final : public Tensor {
 public:
  FileTensor(const RandomFile& file, uint64_t size) : file_(file), shape_{size} {}
  uint64_t size() const override { return shape_[0]; }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float> scratch) const override {
    const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
    timed(reading, [&] { file_.read_at(range.first * sizeof(float), std::as_writable_bytes(out)); });
    count += range.count;
    return out;
  }

  mutable double reading = 0;
  mutable uint64_t count = 0;

 private:
  const RandomFile& file_;
  std::vector<uint64_t> shape_;
};

// One message's stages, forth and back, coders beside one another.
class Stages {
 public:
  explicit Stages(const std::vector<float>& values)
      : values_(values), input_(RandomFile::temporary()), copy_(values.size()) {
    input_->write_at(0, std::as_bytes(std::span(values)));
  }

  Times round() {
    Times times;
    restored_ = RandomFile::temporary();  // new files, as outputs are
    packed_.clear();
    for (size_t i = 0; i < all_coders().size(); ++i) packed_.push_back(RandomFile::temporary());
    timed(times["memcpy"], [&] { std::memcpy(copy_.data(), values_.data(), values_.size() * sizeof(float)); });
    const FileTensor tensor(*input_, values_.size());
    const Random random(kMessage, 0);
    const SchemeChoice choice = parse_scheme(kScheme);
    double whole = 0;
    const std::unique_ptr<Encoder> encoder = timed(whole, [&] {
      return choice.prepare(tensor, {random, kFirstStage, kChunk});
    });
    passes = static_cast<double>(tensor.count) / static_cast<double>(tensor.size());
    times["read to prepare"] = tensor.reading;
    times["prepare"] = whole - tensor.reading;
    std::vector<uint64_t> offsets(packed_.size());
    for (uint64_t first = 0; first < tensor.size(); first += kChunk) {
      const Range range{first, std::min(kChunk, tensor.size() - first)};
      forth(tensor, *encoder, range, times);
      for (size_t i = 0; i < packed_.size(); ++i) through(*encoder, i, range, offsets[i], times);
      back(*encoder, range, times);
    }
    return times;
  }

  double passes = 0;  // over the tensor, to prepare

 private:
  void forth(const FileTensor& tensor, const Encoder& encoder, Range range, Times& times) {
    const auto count = static_cast<size_t>(range.count);
    decoded_.resize(count);
    words_.resize(count);
    timed(times["Philox"], [&] {
      kernels::philox_words(Random(kMessage, 0).draws(Purpose::rounding, kFirstStage), range.first, count,
                            words_.data());
    });
    tensor.reading = 0;
    double both = 0;
    timed(both, [&] { encoder.encode(range, code_, decoded_); });
    times["read"] += tensor.reading;
    times["quantize, Philox included"] += both - tensor.reading;
    timed(times["hash of decoded values"], [&] { checksum(std::as_bytes(std::span(decoded_)), 0); });
  }

  // Into the coder's bytes, to the file, and back from there.
  void through(const Encoder& encoder, size_t coder, Range range, uint64_t& offset, Times& times) {
    const Coder& used = *all_coders()[coder];
    const std::string with = ", " + std::string(used.name());
    Frame frame;
    timed(times["contexts" + with], [&] { set_contexts(encoder.decoder(), used, range, code_); });
    timed(times["code" + with], [&] { frame.form = write_streams(code_, used, true, frame.payload); });
    timed(times["frame and its check" + with], [&] { seal_frame(frame, 0); });
    const Bytes& bytes = frame.sealed;
    timed(times["write" + with], [&] { packed_[coder]->write_at(offset, bytes); });
    FrameBytes read;
    read.buffer.resize(bytes.size());
    timed(times["read" + with], [&] { packed_[coder]->read_at(offset, read.buffer); });
    timed(times["check" + with], [&] {
      open_frame(
          0, [] { return "frame"; }, read);
    });
    timed(times["decode" + with], [&] {
      ByteReader payload(read.payload, "frame");
      read_streams(payload, read.form, encoder.decoder().streams(code_, range), used, code_.streams);
    });
    offset += bytes.size();
  }

  void back(const Encoder& encoder, Range range, Times& times) {
    timed(times["dequantize, Philox included"], [&] { encoder.decoder().decode(code_, range, decoded_); });
    elements_.resize(decoded_.size() * sizeof(float));
    timed(times["values to elements"], [&] { narrow(decoded_, DType::parse("f4"), {}, range.first, elements_); });
    timed(times["write of elements"], [&] { restored_->write_at(range.first * sizeof(float), elements_); });
  }

  const std::vector<float>& values_;
  std::shared_ptr<RandomFile> input_, restored_;
  std::vector<std::shared_ptr<RandomFile>> packed_;  // of each coder
  std::vector<float> copy_, decoded_;
  std::vector<uint32_t> words_;
  Code code_;
  Bytes elements_;
};

// The same through compress and decompress themselves.
class WholePath {
 public:
  WholePath(const std::vector<float>& values, const std::string& folder)
      : dump_(folder + "/x.npy"), packed_(folder + "/x.gradz"), back_(folder + "/back.npy") {
    const TensorInfo info{"array", DType::parse("f4"), {values.size()}};
    OutputFile output(dump_, true, {});
    const std::unique_ptr<Sink> sink = make_sink(DumpKind::npy, output, {info}, {});
    sink->begin(info);
    sink->write(std::as_bytes(std::span(values)));
    sink->end();
    sink->finish();
  }

  void round(Times& times) const {
    for (const Coder* coder : all_coders()) {
      const std::string with = ", " + std::string(coder->name());
      timed(times["compress" + with], [&] { forth(*coder); });
      timed(times["decompress" + with], [&] { back(); });
      std::filesystem::remove(packed_);
      std::filesystem::remove(back_);
    }
  }

 private:
  void forth(const Coder& coder) const {
    CompressOptions options;
    options.scheme = parse_scheme(kScheme);
    options.coders = {&coder, &coder};
    options.id = kMessage;
    const std::unique_ptr<Source> source = open_source(dump_, {}, nullptr);
    const Schema schema = plan_schema(*source, options);
    OutputFile output(packed_, true, {});
    ContainerWriter writer(output);
    writer.begin(schema, {}, {}, plan_message(schema, options.id));
    Progress progress;
    compress(*source, schema, {options.scheme}, options, writer, progress);
    output.commit();
  }

  void back() const {
    DecompressOptions options;
    options.wanted = [](const TensorInfo&) { return true; };
    InputStream input(packed_);
    ContainerReader reader(input, options.memory);
    reader.begin();
    OutputFile output(back_, true, {});
    const std::unique_ptr<Sink> sink = make_sink(DumpKind::npy, output, {reader.schema().tensors[0].info}, {});
    Progress progress;
    decompress(reader, reader.schema(), id_of(reader.schema(), reader.message()), options, sink.get(), progress);
    reader.finish();
    sink->finish();
  }

  std::string dump_, packed_, back_;
};

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "profile-stages-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) throw Error(Exit::io, "no temporary folder can be made");
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Times medians(const std::vector<Times>& rounds) {
  Times out;
  for (const auto& [stage, unused] : rounds[0]) {
    std::vector<double> seconds;
    for (const Times& round : rounds) seconds.push_back(round.at(stage));
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    out[stage] = seconds[kRounds / 2];
  }
  return out;
}

class Table {
 public:
  Table(const Times& times, uint64_t values) : times_(times), bytes_(static_cast<double>(values * sizeof(float))) {
    std::printf("| stage | ms | GB/s of float32 | times memcpy |\n|---|---:|---:|---:|\n");
  }

  void row(const std::string& name, double seconds) const {
    std::printf("| %s | %.1f | %.2f | %.2f |\n", name.c_str(), seconds * 1e3, bytes_ / seconds / 1e9,
                seconds / times_.at("memcpy"));
  }

  double row(const std::string& stage) const {
    row(stage, times_.at(stage));
    return times_.at(stage);
  }

  // `common` seconds, and the stages and the whole of each coder.
  void coders(double common, const std::vector<std::string>& stages, const std::string& whole) const {
    for (const Coder* coder : all_coders()) {
      const std::string with = ", " + std::string(coder->name());
      double sum = common;
      for (const std::string& stage : stages) sum += row(stage + with);
      row("*sum of stages" + with + "*", sum);
      row("*" + whole + " as a whole" + with + "*", times_.at(whole + with));
    }
  }

 private:
  const Times& times_;
  double bytes_;
};

void print(const Times& times, uint64_t values, double passes) {
  std::printf("%s, %llu values, kernels %s, medians of %d rounds\n\n", kScheme, static_cast<unsigned long long>(values),
              kernels::current_target().c_str(), kRounds);
  const Table table(times, values);
  table.row("memcpy");
  std::printf("| **compress** | | | |\n");
  table.row("read to prepare, " + std::to_string(static_cast<int>(passes)) + " pass(es)", times.at("read to prepare"));
  double common = times.at("read to prepare");
  for (const std::string stage : {"prepare", "read", "Philox"}) common += table.row(stage);
  const double quantize = times.at("quantize, Philox included");
  table.row("round and restore (without Philox)", quantize - times.at("Philox"));
  common += quantize - times.at("Philox") + table.row("hash of decoded values");
  table.coders(common, {"contexts", "code", "frame and its check", "write"}, "compress");
  std::printf("| **decompress** | | | |\n");
  common = table.row("Philox");
  const double restore = times.at("dequantize, Philox included") - times.at("Philox");
  table.row("restore (without Philox)", restore);
  common += restore;
  for (const std::string stage : {"hash of decoded values", "values to elements", "write of elements"})
    common += table.row(stage);
  table.coders(common, {"read", "check", "contexts", "decode"}, "decompress");
}

int run(int argc, char** argv) {
  uint64_t values = 25'000'000;
  if (argc > 2) throw Error(Exit::usage, "profile_stages [VALUES]");
  if (argc == 2) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), values);
    if (error != std::errc() || end != text.data() + text.size() || values == 0) {
      throw Error(Exit::usage, "VALUES is a whole number, at least 1");
    }
  }
  const std::vector<float> x = made_input(values);
  const Folder folder;
  const WholePath whole(x, folder.path());
  Stages stages(x);
  stages.round();  // once without the clock's being read: files and memory are there
  std::vector<Times> rounds;
  for (int i = 0; i < kRounds; ++i) {
    rounds.push_back(stages.round());
    whole.round(rounds.back());
  }
  print(medians(rounds), values, stages.passes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "profile_stages: %s\n", error.what());
    return 1;
  }
}
