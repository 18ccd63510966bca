// SPDX-License-Identifier: Apache-2.0
#include "format/aggregator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "codec/checksum.h"
#include "codec/code_sum.h"
#include "codec/number_text.h"
#include "codec/sketch.h"
#include "codec/summable.h"
#include "codec/values.h"
#include "format/crew.h"
#include "format/forms.h"
#include "format/frame_decoder.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

constexpr double kBeyondFloat32 = 0x1.FFFFFFp127;  // rounds to infinity, as all above does
constexpr unsigned kSumWork = 24;                  // bytes a value that an item has beside what decompress needs

// An item that waits for one that failed.
struct Abandoned {};

// Items read an input one after another, in their order, each by another thread.
class Turns {
 public:
  // Waits until it is item `number`'s turn. Throws Abandoned once an earlier one has failed.
  void await(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ == number || failed_ < number; });
    if (next_ != number) throw Abandoned();
  }
  void pass() {
    const std::lock_guard lock(mutex_);
    ++next_;
    changed_.notify_all();
  }
  void fail(uint64_t number) {
    const std::lock_guard lock(mutex_);
    failed_ = std::min(failed_, number);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, failed_ = ~uint64_t{0};
};

// The innermost scheme's, which says of how many messages it is the sum.
std::optional<Summands> summands_of(const Decoder* decoder) {
  if (decoder == nullptr) return std::nullopt;
  while (decoder->inner() != nullptr) decoder = decoder->inner();
  const Summable* const summable = decoder->summable();
  return summable == nullptr ? std::nullopt : std::optional(summable->summands());
}

std::string type_and_shape(const TensorInfo& info) { return info.dtype.name() + " " + shape_text(info.shape); }

// A chunk that is in memory already.
class MadeChunk final : public TensorData {
 public:
  MadeChunk(ByteView bytes) : bytes_(bytes) {}
  void read(Range, std::span<std::byte> out) const override { std::copy(bytes_.begin(), bytes_.end(), out.begin()); }

 private:
  ByteView bytes_;
};

[[noreturn]] void beyond_float32(double value, uint64_t index) {
  throw Error(Exit::limit,
              "element " + std::to_string(index) + " is " + number_text(value, 4) + ", more than float32 holds");
}

}  // namespace

struct Aggregator::Input {
  Input(InputStream&& in, uint64_t memory) : stream(std::move(in)), reader(stream, memory) {}

  const std::string& name() const { return stream.name(); }

  InputStream stream;
  ContainerReader reader;
  MessageId id;
  std::vector<KnownScheme> schemes;
  Turns turns;
  std::vector<uint64_t> chunk_digests;
  std::vector<uint32_t> digests;
};

// One run over all inputs.
class Aggregator::Job {
 public:
  // Either of `sink` and `writer`.
  Job(Aggregator& all, Sink* sink, FrameWriter* writer, const CoderPair& coders, Progress& progress)
      : options_(all.options_),
        inputs_(all.inputs_),
        tables_(all.tables_),
        schema_(all.schema()),
        sink_(sink),
        writer_(writer),
        progress_(progress),
        walk_(schema_) {
    beside_.wanted = [](const TensorInfo&) { return true; };
    beside_.side_of = side_of(options_.side);
    if (options_.set) {
      beside_.places_of = [set = options_.set](const TensorInfo& info) { return set->mask_of(info); };
    }
    if (!options_.exact) return;
    made_schema_ = all.sum_schema(coders);
    made_schemes_ = parse_schemes(made_schema_);
    const Message message = all.sum_message();
    made_id_ = {message.seed.value_or(0), message.worker, message.step};
    coders_ = coders;
  }

  void run() {
    unsigned threads = options_.threads;
    size_t slots = ~size_t{0};
    for (const auto& input : inputs_) {
      const Crew crew = in_file(input->name(), [&] {
        return crew_for(input->reader.schema(), options_.threads, options_.memory, false, kSumWork);
      });
      threads = std::min(threads, crew.threads);
      slots = std::min(slots, crew.slots);
    }
    run_ordered<Item>(
        threads, slots, [this](Item& item) { return make(item); }, [this](Item& item) { work(item); },
        [this](Item& item) { take(item); });
    finish_inputs();
    if (writer_ != nullptr) writer_->finish(digests_);
  }

 private:
  // What is known of a tensor once the parameters of all inputs have been read.
  struct Joint {
    explicit Joint(bool mean) : codes(mean) {}

    std::vector<RestoredTensor> parts;  // of each input
    std::vector<double> factors;        // of each part's values
    double total = 0;                   // of the weights
    bool exact_doubles = true;          // all have float64, by raw
    CodeSum codes;
    std::optional<TableSum> tables;  // if they are added and codes are not
    std::optional<Table> table;      // their sum
    RestoredTensor made;             // what decodes the sum of codes
    Bytes made_params;
  };

  struct Item {
    FramePlace place;
    uint64_t number = 0;
    std::shared_ptr<Joint> joint;  // null: the parameters stand before the chunk
    FrameBytes frame;
    Workspace work;
    std::vector<uint64_t> digests;  // of each input's chunk
    std::vector<double> sums;
    std::vector<float> values;
    Bytes bytes, elements;  // of the first input, by raw; for the sink
    ChunkSum code_sum;
    Frame made;
    uint64_t made_digest = 0;
  };

  const TensorInfo& info(const Item& item) const { return schema_.tensors[item.place.tensor].info; }
  bool is_float(const Item& item) const { return info(item).dtype.is_float(); }
  bool adds_codes(const Item& item) const { return options_.exact && is_float(item); }
  bool adds_tables(const Item& item) const { return tables_[item.place.tensor]; }
  double weight(size_t input) const { return options_.weights.empty() ? 1 : options_.weights[input]; }

  bool make(Item& item) {
    if (!walk_.next(item.place)) return false;
    item.number = frames_++;
    if (item.place.params_only) {
      guarded(item, [&] {
        current_ = std::make_shared<Joint>(options_.mean);
        for (size_t i = 0; i < inputs_.size(); ++i) {
          read(item, i);
          join(item, i, *current_);
        }
        close(item, *current_);
      });
    }
    item.joint = item.place.has_params() && !item.place.params_only ? nullptr : current_;
    return true;
  }

  template <typename F>
  void guarded(const Item& item, F f) {
    try {
      f();
    } catch (...) {
      for (const auto& input : inputs_) input->turns.fail(item.number);
      throw;
    }
  }

  // The input's next frame, in the item's turn.
  void read(Item& item, size_t i) {
    Input& input = *inputs_[i];
    input.turns.await(item.number);
    in_file(input.name(), [&] { in_tensor(info(item), [&] { input.reader.next(item.frame, item.place); }); });
    input.turns.pass();
  }

  // Restores the tensor of input i from the frame with its parameters.
  void join(const Item& item, size_t i, Joint& joint) {
    const Input& input = *inputs_[i];
    const TensorInfo& tensor = info(item);
    in_file(input.name(), [&] {
      TensorPlan plan = plan_of(input.reader.schema(), input.schemes, input.id, item.place.tensor,
                                walk_.chunk_len(item.place.tensor));
      complete_plan(plan, beside_);
      joint.parts.push_back(restore_tensor(plan, item.place, item.frame, tensor.dtype));
      const Decoder* const decoder = joint.parts.back().decoder->scheme();
      joint.exact_doubles = joint.exact_doubles && decoder == nullptr && tensor.dtype.code == DType::f8;
      const Summands summands = summands_of(decoder).value_or(Summands());
      const auto count = static_cast<double>(summands.weight);
      joint.total += weight(i) * count;
      joint.factors.push_back(weight(i) * (summands.factor == 1 ? 1 : count));  // it decodes to its own mean
      if (adds_codes(item)) {
        fitting(tensor, [&] { joint.codes.join(*decoder, static_cast<uint64_t>(weight(i))); });
      } else if (adds_tables(item)) {
        const Table& table = *table_of(*decoder);
        if (!joint.tables) joint.tables.emplace(table.layout());
        in_tensor(tensor, [&] { joint.tables->add(table, weight(i)); });
      }
      // There may be many inputs: one table at a time is kept.
      if (adds_tables(item)) {
        joint.parts.back().decoder = make_value_decoder(plan, decoder->summable()->without_table(), tensor.dtype);
      }
    });
  }

  template <typename F>
  static void fitting(const TensorInfo& tensor, F f) {
    try {
      f();
    } catch (const Misfit& misfit) {
      throw Error(misfit.code, misfit.text).in_tensor(tensor.name);
    }
  }

  // All have joined.
  void close(const Item& item, Joint& joint) {
    if (joint.tables) {
      in_file(inputs_.back()->name(), [&] { in_tensor(info(item), [&] { joint.table = joint.tables->total(); }); });
      joint.tables.reset();
    }
    if (!options_.exact) return;
    const size_t tensor = item.place.tensor;
    if (is_float(item)) {
      in_file(inputs_.back()->name(), [&] { fitting(info(item), [&] { joint.made_params = joint.codes.stored(); }); });
    }
    FrameBytes frame;
    frame.payload = joint.made_params;
    const TensorPlan plan = plan_of(made_schema_, made_schemes_, made_id_, tensor, walk_.chunk_len(tensor));
    joint.made = restore_tensor(plan, item.place, frame, info(item).dtype);
  }

  void work(Item& item) {
    guarded(item, [&] {
      if (item.place.params_only) {
        if (writer_ != nullptr) seal_params(item);
        return;
      }
      std::optional<Joint> own;
      if (item.joint == nullptr) own.emplace(options_.mean);
      Joint& joint = own ? *own : *item.joint;
      begin(item);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        read(item, i);
        if (own) join(item, i, joint);
        in_file(inputs_[i]->name(), [&] { in_tensor(info(item), [&] { add(item, i, joint); }); });
      }
      if (own) close(item, joint);
      in_tensor(info(item), [&] { conclude(item, joint); });
    });
  }

  void begin(Item& item) const {
    item.digests.resize(inputs_.size());
    CodeSum::begin(item.code_sum);
    if (!is_float(item) || options_.exact) return;
    item.sums.assign(static_cast<size_t>(item.place.range.count), 0);
  }

  void add(Item& item, size_t i, const Joint& joint) {
    const RestoredTensor& part = joint.parts[i];
    item.digests[i] = decode_frame(info(item), part, item.place, item.frame, item.work);
    const Range range = item.place.range;
    const Decoder* const decoder = part.decoder->scheme();
    if (!is_float(item)) {
      add_equal(item, i);
    } else if (options_.exact) {
      const auto times = static_cast<uint64_t>(weight(i));
      try {
        joint.codes.add(*decoder, times, item.work.code, range, item.code_sum);
      } catch (const Misfit& misfit) {
        throw Error(misfit.code, item.place.text() + ": " + misfit.text);
      }
    } else if (decoder != nullptr) {
      add_values(item.work.decoded(range.count), joint.factors[i], item.sums);
    } else if (info(item).dtype.code == DType::f8) {
      add_doubles(item.work.bytes, joint.factors[i], range.first, item.sums);
    } else {
      item.values.resize(static_cast<size_t>(range.count));
      widen(info(item).dtype, item.work.bytes, item.values);
      add_values(item.values, joint.factors[i], item.sums);
    }
  }

  // There is no mean of what is no float.
  void add_equal(Item& item, size_t i) const {
    if (i == 0) {
      std::swap(item.bytes, item.work.bytes);
    } else if (item.bytes != item.work.bytes) {
      throw Error(Exit::bad_input, "is of type " + info(item).dtype.name() +
                                       ", which has no mean, and must be the same in all messages: in " +
                                       item.place.text() + " it is another than in " + escaped(inputs_[0]->name()));
    }
  }

  static void add_values(std::span<const float> values, double factor, std::span<double> sums) {
    const float* const x = values.data();
    double* const sum = sums.data();
    const size_t n = sums.size();
    if (factor == 1) {
      for (size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(x[i]);
    } else {
      for (size_t i = 0; i < n; ++i) sum[i] += factor * static_cast<double>(x[i]);
    }
  }

  static void add_doubles(ByteView bytes, double factor, uint64_t first, std::span<double> sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto x = load_little<double>(bytes.data() + i * sizeof(double));
      const double sum = sums[i] + factor * x;
      if (std::isinf(sum) && std::isfinite(sums[i]) && std::isfinite(x)) {
        throw Error(Exit::limit,
                    "with it element " + std::to_string(first + i) + " adds up to more than float64 holds");
      }
      sums[i] = sum;
    }
  }

  // All inputs have been added.
  void conclude(Item& item, const Joint& joint) {
    if (!is_float(item)) {
      conclude_equal(item, joint);
    } else if (options_.exact) {
      conclude_codes(item, joint);
    } else {
      if (joint.table) {
        add_estimates(item, joint);
      } else if (options_.mean) {
        for (double& sum : item.sums) sum /= joint.total;
      }
      if (joint.exact_doubles) return conclude_doubles(item);
      put_rounded(item);
    }
  }

  // What the summed table says, to the exceptions that the sums hold already; as the file of the sum decodes.
  void add_estimates(Item& item, const Joint& joint) const {
    const double factor = options_.mean ? 1 / joint.total : 1;
    item.values.resize(item.sums.size());
    joint.table->estimate(item.place.range.first, item.values);
    for (size_t i = 0; i < item.sums.size(); ++i) {
      item.sums[i] = (item.sums[i] + static_cast<double>(item.values[i])) * factor;
    }
  }

  void put_rounded(Item& item) const {
    item.values.resize(item.sums.size());
    for (size_t i = 0; i < item.sums.size(); ++i) {
      const double sum = item.sums[i];
      if (std::fabs(sum) >= kBeyondFloat32 && std::isfinite(sum)) beyond_float32(sum, item.place.range.first + i);
      item.values[i] = static_cast<float>(sum);
    }
    put_elements(item, item.values);
  }

  void conclude_equal(Item& item, const Joint& joint) {
    item.elements.swap(item.bytes);
    if (writer_ == nullptr) return;
    const size_t tensor = item.place.tensor;
    TensorPlan plan = plan_of(made_schema_, made_schemes_, made_id_, tensor, walk_.chunk_len(tensor));
    plan.coder = coders_.bytes;  // which has an effort
    const auto encoder = make_tensor_encoder(plan, std::make_unique<MadeChunk>(item.elements), Nonfinite::keep);
    begin_frame(item, joint);
    item.made_digest = encoder->encode(item.place.range, writer_->forms(), item.work, item.made);
    writer_->seal(item.number, item.made);
  }

  void conclude_codes(Item& item, const Joint& joint) {
    const Range range = item.place.range;
    const Decoder& decoder = *joint.made.decoder->scheme();
    Code& code = item.work.code;
    fit_code(decoder, code);
    joint.codes.finish(item.code_sum, code);
    item.values.resize(writer_ == nullptr || decoder.is_digested() ? static_cast<size_t>(range.count) : 0);
    if (!item.values.empty()) decoder.decode(code, range, item.values);
    if (writer_ == nullptr) return put_elements(item, item.values);
    const Coder& coder = *made_schemes_[made_schema_.tensors[item.place.tensor].scheme].coder;
    begin_frame(item, joint);
    write_params(code, item.made.payload);
    set_contexts(decoder, coder, range, code);
    item.made.form = write_streams(code, coder, writer_->forms(), item.made.payload);
    item.made_digest = checksum(LittleBytes<float>(item.values), 0);
    writer_->seal(item.number, item.made);
  }

  static void begin_frame(Item& item, const Joint& joint) {
    item.made.params.clear();
    if (item.place.has_params()) item.made.params = joint.made_params;
    item.made.exceptions.clear();
    item.made.payload.clear();
    item.made.form = Form::coder;
  }

  void seal_params(Item& item) {
    begin_frame(item, *item.joint);
    writer_->seal(item.number, item.made);
  }

  DType output_type(const Item& item) const { return output_info(info(item), options_.dtype).dtype; }

  // To nearest, where the type is narrower: the mean's errors are not those of one message, and nobody counts on them.
  void put_elements(Item& item, std::span<const float> values) const {
    const DType type = output_type(item);
    item.elements.resize(values.size() * type.item_size());
    round_to(values, type, item.place.range.first, item.elements);
  }

  // float64 that no scheme has touched stays float64, and is rounded once if at all.
  void conclude_doubles(Item& item) const {
    const DType type = output_type(item);
    const LittleBytes<double> bytes(item.sums);
    const ByteView doubles = bytes;
    if (type.code == DType::f8) {
      item.elements.assign(doubles.begin(), doubles.end());
      return;
    }
    if (type.code == DType::f4) return put_rounded(item);
    item.values.resize(item.sums.size());
    widen_to_odd(doubles, item.values);
    put_elements(item, item.values);
  }

  void take(Item& item) {
    if (writer_ != nullptr) writer_->append(item.made);
    item.joint.reset();
    if (item.place.params_only) return;
    const TensorInfo& tensor = info(item);
    progress_.done += item.place.range.count * tensor.dtype.item_size();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = *inputs_[i];
      input.chunk_digests.push_back(item.digests[i]);
      if (!item.place.ends_tensor()) continue;
      input.digests.push_back(tensor_digest(input.chunk_digests));
      input.chunk_digests.clear();
    }
    if (writer_ != nullptr) {
      made_digests_.push_back(item.made_digest);
      if (!item.place.ends_tensor()) return;
      digests_.push_back(tensor_digest(made_digests_));
      made_digests_.clear();
      return;
    }
    in_tensor(tensor, [&] {
      if (item.place.chunk == 0) sink_->begin(output_info(tensor, options_.dtype));
      sink_->write(item.elements);
      if (item.place.ends_tensor()) sink_->end();
    });
  }

  // What stands behind the frames, and that nothing follows.
  void finish_inputs() {
    DecompressOptions all;
    all.wanted = [](const TensorInfo&) { return true; };
    for (const auto& input : inputs_) {
      in_file(input->name(), [&] {
        const std::vector<uint32_t> stored = input->reader.finish();
        input->reader.expect_end_of_input();
        compare_digests(schema_, all, stored, input->digests);
      });
    }
  }

  const AggregateOptions& options_;
  DecompressOptions beside_;  // what decoders need beside the messages
  const std::vector<std::unique_ptr<Input>>& inputs_;
  const std::vector<bool>& tables_;
  const Schema& schema_;
  Sink* const sink_;
  FrameWriter* const writer_;
  Progress& progress_;
  FrameWalk walk_;
  uint64_t frames_ = 0;
  std::shared_ptr<Joint> current_;
  CoderPair coders_ = {};
  Schema made_schema_;  // of the sum, if codes are added
  std::vector<KnownScheme> made_schemes_;
  MessageId made_id_;
  std::vector<uint64_t> made_digests_;  // of the tensor's chunks
  std::vector<uint32_t> digests_;
};

Aggregator::Aggregator(const std::vector<std::string>& paths, AggregateOptions options) : options_(std::move(options)) {
  if (std::count(paths.begin(), paths.end(), "-") > 1) {
    throw Error(Exit::usage, "standard input can be read once: - stands for one message only");
  }
  for (const std::string& path : paths) open(std::make_unique<Input>(InputStream(path), options_.memory));
  if (options_.exact) check_adds_up();
  find_tables();
}

Aggregator::Aggregator(const std::vector<std::shared_ptr<const RandomFile>>& files, AggregateOptions options)
    : options_(std::move(options)) {
  for (const auto& file : files) open(std::make_unique<Input>(InputStream(file), options_.memory));
  if (options_.exact) check_adds_up();
  find_tables();
}

Aggregator::~Aggregator() = default;

void Aggregator::open(std::unique_ptr<Input> opened) {
  inputs_.push_back(std::move(opened));
  Input& input = *inputs_.back();
  in_file(input.name(), [&] {
    ContainerReader& reader = input.reader;
    if (!reader.begin()) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
    check_holds_tensors(reader.kind(), reader.schema());
    if (reader.kind() != FileKind::message && reader.kind() != FileKind::sum) {
      throw Error(Exit::usage, std::string(reader.kind() == FileKind::state ? "is a state" : "is an index set") +
                                   ": a message, or a sum of messages, was expected");
    }
    check_claims(input.stream, reader.schema());
    input.id = id_of(reader.schema(), reader.message());
    input.schemes = parse_schemes(reader.schema());
    for (const SchemaTensor& tensor : reader.schema().tensors) {
      const std::string& problem = input.schemes[tensor.scheme].problem;
      if (!problem.empty()) throw Error(Exit::unsupported, problem).in_tensor(tensor.info.name);
    }
    check_beside(input);
    check_same(input);
  });
}

// What a message needs beside itself must be there.
void Aggregator::check_beside(const Input& input) const {
  const ContainerReader& reader = input.reader;
  check_answer(reader.schema(), reader.message(), options_.set.get());
  if (options_.side) options_.side->check(reader.schema(), reader.message());
  for (const SchemaTensor& tensor : reader.schema().tensors) {
    const SchemeChoice& scheme = input.schemes[tensor.scheme].choice;
    if (needs_memory(reader.message(), scheme)) {
      throw Error(Exit::usage, "is decoded with what '" + std::string(scheme.scheme->name()) +
                                   "' remembers of its worker: decompress it with that --state, and aggregate what "
                                   "comes out by other means");
    }
    if (scheme.takes_side() && !options_.side) {
      throw Error(Exit::usage, "is coded by '" + scheme.stored_text() +
                                   "', which is decoded with side information: --side-info FILE, a dump or a message")
          .in_tensor(tensor.info.name);
    }
  }
}

void Aggregator::check_same(const Input& input) const {
  const Schema &here = input.reader.schema(), &first = schema();
  const std::string there = escaped(inputs_[0]->name());
  const auto refuse = [](const std::string& text) { throw Error(Exit::bad_input, text); };
  const size_t common = std::min(here.tensors.size(), first.tensors.size());
  for (size_t i = 0; i < common; ++i) {
    const TensorInfo &a = first.tensors[i].info, &b = here.tensors[i].info;
    if (a.name != b.name) {
      refuse("has the tensor '" + escaped(b.name) + "' where " + there + " has '" + escaped(a.name) +
             "': messages go together if they have the same tensors in the same order");
    }
    if (a.dtype != b.dtype || a.shape != b.shape) {
      refuse("has the tensor '" + escaped(b.name) + "' as " + type_and_shape(b) + ", and " + there + " has it as " +
             type_and_shape(a));
    }
  }
  if (here.tensors.size() != first.tensors.size()) {
    const bool more = here.tensors.size() > common;
    const TensorInfo& extra = (more ? here : first).tensors[common].info;
    refuse((more ? "has" : "has not") + std::string(" the tensor '") + escaped(extra.name) + "', unlike " + there);
  }
  if (here.chunk_log2 != first.chunk_log2) {
    refuse("has chunks of 2^" + std::to_string(here.chunk_log2) + " elements, and " + there + " of 2^" +
           std::to_string(first.chunk_log2) + ": compress all with one --chunk-log2");
  }
}

// That the schemes of all go into one sum, as far as their texts say.
void Aggregator::check_adds_up() const {
  for (const double weight : options_.weights) {
    if (weight != std::floor(weight) || weight > 0x1p53) {
      throw Error(Exit::usage, "symbols add up under weights that are whole numbers; a dump takes any weights");
    }
  }
  for (size_t tensor = 0; tensor < schema().tensors.size(); ++tensor) {
    const TensorInfo& info = schema().tensors[tensor].info;
    if (!info.dtype.is_float()) continue;
    std::optional<std::string> common;
    for (const auto& input : inputs_) {
      const Schema& schema = input->reader.schema();
      const uint32_t scheme = schema.tensors[tensor].scheme;
      const std::optional<std::string> text = sum_text(input->schemes[scheme].choice);
      const std::string own = schema.schemes[scheme].text;
      const auto refuse = [&](const std::string& why) {
        throw Error(Exit::usage, "goes by '" + own + "', " + why +
                                     ": name a dump as the output, or give --scheme for a message of the mean")
            .in_tensor(info.name)
            .in_file(input->name());
      };
      if (!text) {
        refuse(
            "which does not add up undecoded (maxnorm and multiscale with --shared-scale, grid, countsketch, and randk "
            "with shared=yes do)");
      }
      if (!common) common = text;
      if (*text != *common) refuse("whose sums do not go with those before it, '" + *common + "'");
    }
    const Input* const other = of_other_draws(parse_stored_scheme(common.value_or("raw")));
    if (other == nullptr) continue;
    throw Error(Exit::usage, "has another seed or step than " + escaped(inputs_[0]->name()) +
                                 ", and so other draws: what workers share follows from --seed and --step")
        .in_file(other->name());
  }
}

// The first input that does not have the draws of the first one, where messages with this sum must share them.
const Aggregator::Input* Aggregator::of_other_draws(const SchemeChoice& sum) const {
  if (!sum.draws()) return nullptr;
  const Message& first = inputs_[0]->reader.message();
  for (const auto& input : inputs_) {
    const Message& message = input->reader.message();
    if (message.seed != first.seed || (sum_is_of_step(sum) && message.step != first.step)) return input.get();
  }
  return nullptr;
}

// What the tensor's codes add up to in all inputs; nothing if that is not one text.
std::optional<std::string> Aggregator::common_sum(size_t tensor) const {
  std::optional<std::string> common;
  for (const auto& input : inputs_) {
    const std::optional<std::string> text =
        sum_text(input->schemes[input->reader.schema().tensors[tensor].scheme].choice);
    if (!text || (common && *text != *common)) return std::nullopt;
    common = text;
  }
  return common;
}

// A median of sums is no sum of medians: where tables can be added they are, whatever the output is.
void Aggregator::find_tables() {
  for (size_t tensor = 0; tensor < schema().tensors.size(); ++tensor) {
    const std::optional<std::string> sum = common_sum(tensor);
    const bool together = sum && of_other_draws(parse_stored_scheme(*sum)) == nullptr;
    tables_.push_back(together && sum->starts_with(kTableSums));
    const bool sketched = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& input) {
      const auto text = sum_text(input->schemes[input->reader.schema().tensors[tensor].scheme].choice);
      return text && text->starts_with(kTableSums);
    });
    if (sketched && !tables_.back()) apart_.push_back(schema().tensors[tensor].info.name);
  }
}

const Schema& Aggregator::schema() const { return inputs_[0]->reader.schema(); }

const Bytes& Aggregator::tree(bool& differs) const {
  static const Bytes none;
  const Bytes& first = inputs_[0]->reader.tree();
  differs =
      std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input->reader.tree() != first; });
  return differs ? none : first;
}

std::vector<Origin> Aggregator::origins() const {
  std::vector<Origin> out;
  for (const auto& input : inputs_) out.push_back(input->stream.origin());
  return out;
}

std::vector<std::string> Aggregator::shared_keys() const {
  const auto is_drawn = [&](const SchemaTensor& tensor) { return tensor.info.dtype.is_float(); };
  const std::vector<SchemaTensor>& tensors = schema().tensors;
  const auto drawn = std::count_if(tensors.begin(), tensors.end(), is_drawn);
  if (drawn > 0 && std::count(tables_.begin(), tables_.end(), true) == drawn) return {};
  std::map<std::array<uint32_t, 2>, std::vector<std::string>> by_key;
  for (const auto& input : inputs_) {
    const bool draws = input->reader.message().seed.has_value() && input->reader.kind() == FileKind::message;
    if (draws) by_key[message_key(input->id)].push_back("'" + escaped(input->name()) + "'");
  }
  std::vector<std::string> out;
  for (const auto& [key, names] : by_key) {
    if (names.size() < 2) continue;
    std::string text = names[0] + (names.size() == 2 ? " and " : ", ") + names[1];
    if (names.size() == 3) text += " and " + names[2];
    if (names.size() > 3) text += " and " + std::to_string(names.size() - 2) + " more";
    out.push_back(std::move(text));
  }
  return out;
}

void Aggregator::run(Sink& sink, Progress& progress) {
  Job(*this, &sink, nullptr, coders_for_level(kDefaultLevel), progress).run();
}

void Aggregator::run(FrameWriter& writer, const CoderPair& coders, Progress& progress) {
  Job(*this, nullptr, &writer, coders, progress).run();
}

Schema Aggregator::sum_schema(const CoderPair& coders) const {
  Schema out = schema();
  out.schemes.clear();
  for (SchemaTensor& tensor : out.tensors) {
    const SchemeChoice& choice = inputs_[0]->schemes[tensor.scheme].choice;
    const StoredScheme scheme = tensor.info.dtype.is_float()
                                    ? StoredScheme{sum_text(choice).value(), coders.symbols->id()}
                                    : StoredScheme{"raw", coders.bytes->id()};
    const auto found = std::find(out.schemes.begin(), out.schemes.end(), scheme);
    tensor.scheme = static_cast<uint32_t>(found - out.schemes.begin());
    if (found == out.schemes.end()) out.schemes.push_back(scheme);
  }
  return out;
}

// No worker: it is of all. The step if it is that of all.
Message Aggregator::sum_message() const {
  const Message& first = inputs_[0]->reader.message();
  Message message;
  message.digests = true;
  const bool one_step = std::all_of(inputs_.begin(), inputs_.end(),
                                    [&](const auto& input) { return input->reader.message().step == first.step; });
  if (one_step) message.step = first.step;
  for (const StoredScheme& scheme : sum_schema(coders_for_level(kDefaultLevel)).schemes) {
    if (parse_stored_scheme(scheme.text).draws()) message.seed = first.seed;
  }
  return message;
}

}  // namespace gradcodec
