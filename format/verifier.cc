// SPDX-License-Identifier: Apache-2.0
#include "format/verifier.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>

#include "codec/checks/error_check.h"
#include "codec/scan.h"
#include "format/crew.h"
#include "format/ordered.h"
#include "format/verify_bench.h"

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

// What the target of a scheme differs from x by, over ||x||^2.
struct Moved {
  double energy = 0, along = 0;
};

// What is tested as one: a tensor under its scheme, the narrowing of what it decodes to, or bytes.
struct Subject {
  size_t tensor = 0;
  uint64_t chunks = 1, chunk_len = 1, size = 0;
  std::string stage;
  std::unique_ptr<Trials> trials;
  std::unique_ptr<ErrorCheck> check;    // of trials
  const ValueTrials* values = nullptr;  // the trials, if they are of what is decoded
  std::shared_ptr<Subject> wide;        // of another stage of the same messages: the values that are decoded
  std::optional<Moved> moved;           // if the scheme has a target of its own
  std::unique_ptr<ByteCheck> bytes;     // instead of trials
  std::string why_not;                  // why it is not tested at all

  Range chunk(uint64_t number) const {
    const uint64_t first = number * chunk_len;
    return {first, std::min(chunk_len, size - first)};
  }
};

struct Unit {
  uint64_t chunk = 0;
  std::shared_ptr<Subject> subject, previous;
  ErrorSums sums;
  std::string fault;  // of bytes
};

Moved moved_of(const Tensor& x, const Tensor& target, uint64_t chunk_len) {
  std::vector<float> room(static_cast<size_t>(std::min(chunk_len, x.size())));
  double norm2 = 0;
  Moved out;
  for_each_chunk(x, chunk_len, [&](Range range, std::span<const float> values) {
    const std::span<const float> near = target.read(range, room);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!std::isfinite(value)) continue;
      const double distance = static_cast<double>(near[i]) - value;
      norm2 += value * value;
      out.energy += distance * distance;
      out.along += distance * value;
    }
  });
  if (norm2 > 0) return {out.energy / norm2, out.along / norm2};
  return {};
}

// What is left of a promise for the last stage alone, given what the stages before it drew.
Promise promise_of_last(const Promise& whole, Decoder::Before before) {
  Promise last = whole;
  if (before == Decoder::Before::nothing) return last;
  if (before != Decoder::Before::part) {
    last.variance.reset();
    last.max_error.reset();
  }
  if (before == Decoder::Before::transform) return last;
  last.omega.reset();  // of x, which is not what the last stage is given
  last.delta.reset();
  last.inner_product.reset();
  last.projection = false;
  return last;
}

bool is_narrowed(const TensorInfo& info) { return info.dtype.item_size() == 2; }

class Verifier {
 public:
  Verifier(VerifyBench& bench, const VerifyOptions& options, Progress& progress, const TakeFindings& take)
      : bench_(bench), schema_(bench.schema()), options_(options), progress_(progress), take_(take) {
    uint64_t subjects = 0;
    for (size_t i = 0; i < schema_.tensors.size(); ++i) {
      const SchemaTensor& tensor = schema_.tensors[i];
      if (!bench.why_not(i).empty() || bench.carries_bytes(i)) continue;
      subjects += 1 + (is_narrowed(tensor.info) ? 1 : 0) + (bench.has_stages(i) ? 1 : 0);
      largest_ = std::max(largest_, std::min(tensor.info.size(), schema_.chunk_len(tensor)));
    }
    check_.level = options.alpha / (kTestsPerTensor * static_cast<double>(std::max<uint64_t>(1, subjects)));
    check_.margin = options.margin;
    check_.messages = options.messages;
    check_.knows_encoder = bench.knows_encoder();
    check_.outside = bench.outside();
    check_.no_promise = "a file does not say what its encoder was asked for: --scheme";
    threads_ = thread_count();
  }

  void run() {
    progress_.total = total_bytes(schema_) * bench_.trials();
    run_ordered<Unit>(
        threads_, threads_ + size_t{1}, [this](Unit& unit) { return make(unit); },
        [this](Unit& unit) { in_tensor(info(*unit.subject), [&] { work(unit); }); },
        [this](Unit& unit) { finish(unit); });
    for (const std::string& name : bench_.left_over()) {
      Subject subject;
      subject.why_not = "the file has no such tensor";
      TensorFindings findings = findings_of_bytes(subject);
      findings.tensor = name;
      take_(std::move(findings));
    }
  }

 private:
  const TensorInfo& info(const Subject& subject) const { return schema_.tensors[subject.tensor].info; }

  // As many as there is memory for: a chunk's views of errors and laws, and the buffers of coding.
  unsigned thread_count() const {
    constexpr uint64_t kBytesAnElement = 640;
    const uint64_t cost = std::max<uint64_t>(1, largest_ * kBytesAnElement);
    if (cost > options_.compress.memory) {
      throw Error(Exit::limit,
                  "a chunk takes about " + std::to_string(cost) + " bytes of memory to test: raise --memory");
    }
    return static_cast<unsigned>(std::min<uint64_t>(options_.compress.threads, options_.compress.memory / cost));
  }

  bool make(Unit& unit) {
    if (at_chunk_ == chunks_ && !open_next()) return false;
    unit.chunk = at_chunk_++;
    unit.subject = subject_;
    unit.previous = previous_;
    return true;
  }

  // The next stage of this tensor, or the next tensor. False after the last.
  bool open_next() {
    if (!stages_.empty()) {
      subject_ = in_tensor(info(*subject_), stages_.front());
      stages_.pop_front();
    } else {
      if (next_ == schema_.tensors.size()) return false;
      subject_ = in_tensor(schema_.tensors[next_].info, [&] { return open(next_); });
      ++next_;
      add_stages(subject_);
    }
    at_chunk_ = 0;
    chunks_ = subject_->chunks;
    return true;
  }

  void add_stages(const std::shared_ptr<Subject>& subject) {
    if (subject->values == nullptr) return;
    if (subject->values->before() == Decoder::Before::draw) {
      stages_.emplace_back([this, subject] { return open_first(subject); });
    }
    if (is_narrowed(info(*subject))) {
      stages_.emplace_back([this, subject] {
        previous_ = narrowed_;
        return narrowed_ = open_narrowed(subject);
      });
    }
  }

  std::shared_ptr<Subject> open(size_t tensor) {
    const SchemaTensor& entry = schema_.tensors[tensor];
    auto subject = std::make_shared<Subject>();
    subject->tensor = tensor;
    subject->size = entry.info.size();
    subject->chunk_len = schema_.chunk_len(entry);
    subject->chunks = chunk_count(subject->size, subject->chunk_len);
    subject->why_not = bench_.why_not(tensor);
    if (!subject->why_not.empty()) {
      subject->chunks = 1;
      return subject;
    }
    if (bench_.carries_bytes(tensor)) {
      subject->bytes = bench_.open_bytes(tensor);
      return subject;
    }
    std::unique_ptr<ValueTrials> trials = bench_.open_values(tensor);
    previous_ = wide_;
    subject->values = trials.get();
    subject->check = std::make_unique<ErrorCheck>(*trials, wide_ ? wide_->check.get() : nullptr, check_);
    if (const std::optional<Promise>& promise = trials->promise()) {
      subject->check->set_promise(promise_of_last(*promise, trials->before()));
      if (promise->target != nullptr) {
        subject->moved = moved_of(trials->tensor(), *promise->target, subject->chunk_len);
      }
    }
    subject->trials = std::move(trials);
    if (subject->chunks > 1) subject->values->prepare(threads_);
    survey(*subject);
    wide_ = subject;
    return subject;
  }

  // Of the same messages, nothing opened.
  static std::shared_ptr<Subject> stage_of(const std::shared_ptr<Subject>& wide, const std::string& stage) {
    auto subject = std::make_shared<Subject>();
    subject->tensor = wide->tensor;
    subject->size = wide->size;
    subject->chunk_len = wide->chunk_len;
    subject->chunks = wide->chunks;
    subject->stage = stage;
    subject->wide = wide;
    return subject;
  }

  std::shared_ptr<Subject> open_first(const std::shared_ptr<Subject>& wide) {
    const std::shared_ptr<Subject> subject = stage_of(wide, "first stage");
    subject->trials = std::make_unique<FirstTrials>(*wide->values);
    previous_.reset();
    subject->check = std::make_unique<ErrorCheck>(*subject->trials, nullptr, check_);
    Promise promise;
    promise.unbiased = true;
    subject->check->set_promise(promise);
    survey(*subject);
    return subject;
  }

  std::shared_ptr<Subject> open_narrowed(const std::shared_ptr<Subject>& wide) {
    const DType& type = info(*wide).dtype;
    const std::shared_ptr<Subject> subject = stage_of(wide, "narrowed to " + type.name());
    subject->trials = std::make_unique<NarrowedTrials>(*wide->values, type);
    CheckOptions options = check_;
    options.no_promise = "of narrowing nothing is promised but its law";
    options.outside = "beyond what " + type.name() + " holds: decompress will need --dtype f4";
    subject->check =
        std::make_unique<ErrorCheck>(*subject->trials, previous_ ? previous_->check.get() : nullptr, options);
    survey(*subject);
    return subject;
  }

  // By all threads, if there are several chunks.
  void survey(const Subject& subject) {
    struct Part {
      uint64_t chunk = 0;
      LawSums laws;
    };
    uint64_t next = 0;
    run_ordered<Part>(
        subject.chunks > 1 ? threads_ : 1, threads_ + size_t{1},
        [&](Part& part) {
          part.chunk = next;
          return next++ < subject.chunks;
        },
        [&](Part& part) {
          std::unique_ptr<ErrorCheck::Room> room = rooms_.get();
          part.laws = subject.check->survey(part.chunk, *room);
          rooms_.put(std::move(room));
        },
        [&](Part& part) { subject.check->take(part.laws); });
  }

  void work(Unit& unit) {
    const Subject& subject = *unit.subject;
    if (subject.bytes) unit.fault = subject.bytes->compare(subject.chunk(unit.chunk));
    if (!subject.check) return;
    std::unique_ptr<ErrorCheck::Room> room = rooms_.get();
    const uint64_t bytes = subject.chunk(unit.chunk).count * info(subject).dtype.item_size();
    unit.sums = subject.check->measure(unit.chunk, *room, [&] {
      if (subject.stage.empty()) progress_.done += bytes;
    });
    rooms_.put(std::move(room));
  }

  void finish(Unit& unit) {
    const Subject& subject = *unit.subject;
    const bool last = unit.chunk + 1 == subject.chunks;
    if (subject.check) subject.check->take(unit.sums);
    if (bytes_fault_.empty()) bytes_fault_ = unit.fault;
    if (!subject.check) {
      progress_.done += subject.chunk(unit.chunk).count * info(subject).dtype.item_size() * bench_.trials();
    }
    if (last) {
      TensorFindings findings = subject.check ? subject.check->findings() : findings_of_bytes(subject);
      findings.tensor = info(subject).name;
      findings.stage = subject.stage;
      if (subject.moved) {
        findings.moved = subject.moved->energy;
        findings.moved_along = subject.moved->along;
      }
      take_(std::move(findings));
    }
    unit = {};  // the last one closes the tensor
  }

  TensorFindings findings_of_bytes(const Subject& subject) {
    Finding finding;
    finding.name = "exact";
    finding.promise = "every byte as it was";
    if (subject.why_not.empty()) finding.verdict = bytes_fault_.empty() ? Verdict::proved : Verdict::broken;
    finding.note = subject.why_not.empty() ? bytes_fault_ : subject.why_not;
    bytes_fault_.clear();
    TensorFindings out;
    out.size = subject.size;
    out.trials = 1;
    out.findings.push_back(std::move(finding));
    return out;
  }

  VerifyBench& bench_;
  const Schema& schema_;
  const VerifyOptions& options_;
  Progress& progress_;
  const TakeFindings& take_;
  CheckOptions check_;
  uint64_t largest_ = 0;  // elements a chunk
  unsigned threads_ = 1;
  Pool<ErrorCheck::Room> rooms_;
  std::string bytes_fault_;
  // Where make is: the next tensor, the subject whose chunks are being made, and what the tests between tensors look
  // back at: the last of each stage.
  size_t next_ = 0;
  uint64_t at_chunk_ = 0, chunks_ = 0;
  std::shared_ptr<Subject> subject_, previous_, wide_, narrowed_;
  std::deque<std::function<std::shared_ptr<Subject>()>> stages_;  // of the tensor, that are still to be opened
};

}  // namespace

void verify_scheme(Source& source, const VerifyOptions& options, Progress& progress, const TakeFindings& take) {
  EncodingBench bench(source, options.compress, options.trials);
  Verifier(bench, options, progress, take).run();
}

void verify_message(const StoredMessage& message, Source& dump, const SchemeChoice* choice,
                    const VerifyOptions& options, Progress& progress, const TakeFindings& take) {
  StoredBench bench(message, dump, choice, options.compress.shared_scale);
  Verifier(bench, options, progress, take).run();
}

}  // namespace gradcodec
