// SPDX-License-Identifier: Apache-2.0
#include "format/verifier.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "codec/checks/error_check.h"
#include "codec/scan.h"
#include "format/crew.h"
#include "format/ordered.h"
#include "format/trials.h"

namespace gradcodec {
namespace {

// Objects that cost memory, one for each thread at work.
template <typename T>
class Pool {
 public:
  std::unique_ptr<T> get() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<T>();
    std::unique_ptr<T> out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  void put(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

// What is tested as one: a tensor under its scheme, or the narrowing of what it decodes to.
struct Subject {
  std::string stage;
  std::unique_ptr<Trials> trials;
  std::unique_ptr<ErrorCheck> check;
  const EncodedTrials* encoded = nullptr;
  std::shared_ptr<Subject> wide;  // of a narrowing: what it narrows
  double moved = kAbsent;         // ||x - target||^2 / ||x||^2, if the scheme has a target of its own
};

struct Unit {
  size_t tensor = 0;
  uint64_t chunk = 0;
  bool last = false;
  std::shared_ptr<Subject> subject, previous;  // no subject: raw
  std::shared_ptr<TensorData> data;            // of raw
  ErrorSums sums;
  std::string fault;  // of raw
};

// The energy of x and of x - target.
double moved_of(const Tensor& x, const Tensor& target, uint64_t chunk_len) {
  std::vector<float> room(static_cast<size_t>(std::min(chunk_len, x.size())));
  double energy = 0, moved = 0;
  for_each_chunk(x, chunk_len, [&](Range range, std::span<const float> values) {
    const std::span<const float> near = target.read(range, room);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!std::isfinite(value)) continue;
      const double distance = value - static_cast<double>(near[i]);
      energy += value * value;
      moved += distance * distance;
    }
  });
  return energy > 0 ? moved / energy : 0;
}

class Verifier {
 public:
  Verifier(Source& source, const VerifyOptions& options, Progress& progress, const TakeFindings& take)
      : source_(source), options_(options), progress_(progress), take_(take) {
    schema_ = plan_schema(source, options.compress);
    const std::string chosen = options.compress.scheme.stored_text();
    uint64_t subjects = 0;
    for (const SchemaTensor& tensor : schema_.tensors) {
      const SchemeChoice choice = schema_.schemes[tensor.scheme].text == chosen ? options.compress.scheme : raw();
      choices_.push_back(choice);
      if (choice.scheme->carries_bytes()) continue;
      subjects += is_narrowed(tensor.info) ? 2 : 1;
      largest_ = std::max(largest_, std::min(tensor.info.size(), schema_.chunk_len(tensor)));
    }
    check_.level = options.alpha / (kTestsPerTensor * static_cast<double>(std::max<uint64_t>(1, subjects)));
    check_.margin = options.margin;
    check_.messages = options.messages;
  }

  void run() {
    progress_.total = total_bytes(schema_) * options_.trials;
    const unsigned threads = thread_count();
    threads_ = threads;
    run_ordered<Unit>(
        threads, threads + size_t{1}, [this](Unit& unit) { return make(unit); },
        [this](Unit& unit) { in_tensor(schema_.tensors[unit.tensor].info, [&] { work(unit); }); },
        [this](Unit& unit) { finish(unit); });
  }

 private:
  static SchemeChoice raw() { return parse_scheme("raw"); }
  static bool is_narrowed(const TensorInfo& info) { return info.dtype.item_size() == 2; }

  // What a chunk's views and buffers take, in bytes an element: three views of errors and laws, one of them the current
  // trial's, and the buffers of encoding.
  unsigned thread_count() const {
    constexpr uint64_t kBytesAnElement = 512;
    const uint64_t cost = std::max<uint64_t>(1, largest_ * kBytesAnElement);
    if (cost > options_.compress.memory) {
      throw Error(Exit::limit, "a chunk takes about " + std::to_string(cost) +
                                   " bytes of memory to test: raise --memory, or lower --chunk-log2");
    }
    return static_cast<unsigned>(std::min<uint64_t>(options_.compress.threads, options_.compress.memory / cost));
  }

  bool make(Unit& unit) {
    unit = {};
    while (at_chunk_ == chunks_) {
      if (!open_next()) return false;
    }
    unit.tensor = tensor_;
    unit.chunk = at_chunk_++;
    unit.last = at_chunk_ == chunks_;
    unit.subject = subject_;
    unit.previous = previous_;
    unit.data = data_;
    return true;
  }

  // The next tensor, or the next stage of this one. False after the last.
  bool open_next() {
    if (subject_ && subject_->stage.empty() && is_narrowed(schema_.tensors[tensor_].info)) {
      narrowed_ = open_narrowed();
      begin(narrowed_, previous_narrowed_);
      previous_narrowed_ = narrowed_;
      return true;
    }
    if (started_) ++tensor_;
    started_ = true;
    if (tensor_ == schema_.tensors.size()) return false;
    in_tensor(schema_.tensors[tensor_].info, [&] {
      std::unique_ptr<TensorData> data = source_.open(tensor_);
      if (choices_[tensor_].scheme->carries_bytes()) {
        subject_.reset();
        data_ = std::move(data);
        at_chunk_ = 0;
        chunks_ = chunk_count(schema_.tensors[tensor_].info.size(), plan(tensor_).chunk_len);
      } else {
        data_.reset();
        const std::shared_ptr<Subject> before = wide_;
        wide_ = open_wide(std::move(data), before);
        begin(wide_, before);
      }
    });
    return true;
  }

  TensorPlan plan(size_t tensor) const {
    const SchemaTensor& entry = schema_.tensors[tensor];
    return {entry.info,
            choices_[tensor],
            options_.compress.coder,
            options_.compress.id,
            static_cast<uint32_t>(tensor),
            schema_.chunk_len(entry)};
  }

  std::shared_ptr<Subject> open_wide(std::unique_ptr<TensorData> data, const std::shared_ptr<Subject>& before) const {
    auto subject = std::make_shared<Subject>();
    auto trials =
        std::make_unique<EncodedTrials>(plan(tensor_), std::move(data), options_.trials, options_.compress.nonfinite);
    subject->encoded = trials.get();
    subject->trials = std::move(trials);
    subject->check = std::make_unique<ErrorCheck>(*subject->trials, before ? before->check.get() : nullptr, check_);
    const Promise& promise = subject->encoded->promise();
    subject->check->set_promise(promise);
    if (promise.target != nullptr) {
      subject->moved = moved_of(subject->encoded->tensor(), *promise.target, subject->trials->chunk_len());
    }
    return subject;
  }

  std::shared_ptr<Subject> open_narrowed() const {
    const std::string type = schema_.tensors[tensor_].info.dtype.name();
    auto subject = std::make_shared<Subject>();
    subject->stage = "narrowed to " + type;
    subject->wide = wide_;
    subject->trials = std::make_unique<NarrowedTrials>(*wide_->encoded);
    CheckOptions options = check_;
    options.outside = "beyond what " + type + " holds: decompress will need --dtype f4";
    subject->check = std::make_unique<ErrorCheck>(
        *subject->trials, previous_narrowed_ ? previous_narrowed_->check.get() : nullptr, options);
    return subject;
  }

  // Surveys the subject; its chunks are next. A tensor of several chunks is prepared and surveyed by all threads.
  void begin(const std::shared_ptr<Subject>& subject, const std::shared_ptr<Subject>& before) {
    subject_ = subject;
    previous_ = before;
    at_chunk_ = 0;
    chunks_ = subject->trials->chunks();
    const unsigned threads = chunks_ > 1 ? threads_ : 1;
    if (threads > 1 && subject->encoded != nullptr) subject->encoded->prepare(threads);
    struct Part {
      uint64_t chunk = 0;
      LawSums laws;
    };
    uint64_t next = 0;
    run_ordered<Part>(
        threads, threads + size_t{1},
        [&](Part& part) {
          part.chunk = next;
          return next++ < chunks_;
        },
        [&](Part& part) {
          std::unique_ptr<ErrorCheck::Room> room = rooms_.get();
          part.laws = subject->check->survey(part.chunk, *room);
          rooms_.put(std::move(room));
        },
        [&](Part& part) { subject->check->take(part.laws); });
  }

  void work(Unit& unit) {
    if (!unit.subject) {
      compare_bytes(unit);
      return;
    }
    std::unique_ptr<ErrorCheck::Room> room = rooms_.get();
    unit.sums = unit.subject->check->measure(unit.chunk, *room);
    rooms_.put(std::move(room));
  }

  // A raw chunk through the whole path.
  void compare_bytes(Unit& unit) const {
    const TensorPlan plan = this->plan(unit.tensor);
    const uint64_t first = unit.chunk * plan.chunk_len;
    const Range range{first, std::min(plan.chunk_len, plan.info.size() - first)};
    const auto encoder = make_tensor_encoder(plan, std::make_unique<SharedData>(unit.data), Nonfinite::keep);
    ByteReader stored(ByteView{}, "the stored parameters");
    const auto decoder = make_tensor_decoder(plan, stored, plan.info.dtype);
    Workspace work;
    Frame frame;
    encoder->encode(range, true, work, frame);
    Bytes before(static_cast<size_t>(range.count * plan.info.dtype.item_size())), after;
    unit.data->read(range, before);
    decoder->decode(ByteReader(frame.payload, "the frame"), frame.form, {}, range, work, after);
    if (before != after) unit.fault = "elements from " + std::to_string(first) + " differ";
  }

  // The tensor's bytes, for an encoder that would own them.
  class SharedData final : public TensorData {
   public:
    explicit SharedData(std::shared_ptr<TensorData> data) : data_(std::move(data)) {}
    void read(Range range, std::span<std::byte> out) const override { data_->read(range, out); }

   private:
    std::shared_ptr<TensorData> data_;
  };

  void finish(Unit& unit) {
    const TensorInfo& info = schema_.tensors[unit.tensor].info;
    TensorFindings findings;
    if (unit.subject) {
      progress_.done += unit.subject->trials->chunk(unit.chunk).count * info.dtype.item_size() * options_.trials /
                        (is_narrowed(info) ? 2 : 1);
      unit.subject->check->take(unit.sums);
      if (unit.last) findings = unit.subject->check->findings();
      findings.stage = unit.subject->stage;
      findings.moved = unit.subject->moved;
    } else {
      if (raw_fault_.empty()) raw_fault_ = unit.fault;
      if (unit.last) findings = exact_findings(info);
    }
    if (unit.last) {
      findings.tensor = info.name;
      take_(std::move(findings));
    }
    unit = {};  // the last one closes the tensor
  }

  TensorFindings exact_findings(const TensorInfo& info) {
    TensorFindings out;
    out.size = info.size();
    out.trials = 1;
    Finding finding;
    finding.name = "exact";
    finding.promise = "every byte as it was";
    finding.verdict = raw_fault_.empty() ? Verdict::proved : Verdict::broken;
    finding.note = std::move(raw_fault_);
    raw_fault_.clear();
    out.findings.push_back(std::move(finding));
    progress_.done += info.byte_size() * options_.trials;
    return out;
  }

  Source& source_;
  const VerifyOptions& options_;
  Progress& progress_;
  const TakeFindings& take_;
  Schema schema_;
  std::vector<SchemeChoice> choices_;
  CheckOptions check_;
  uint64_t largest_ = 0;  // elements a chunk
  unsigned threads_ = 1;
  Pool<ErrorCheck::Room> rooms_;
  // Where make is.
  bool started_ = false;
  size_t tensor_ = 0;
  uint64_t at_chunk_ = 0, chunks_ = 0;
  std::shared_ptr<Subject> subject_, previous_, wide_, narrowed_, previous_narrowed_;
  std::shared_ptr<TensorData> data_;
  std::string raw_fault_;
};

}  // namespace

void verify_scheme(Source& source, const VerifyOptions& options, Progress& progress, const TakeFindings& take) {
  Verifier(source, options, progress, take).run();
}

}  // namespace gradcodec
