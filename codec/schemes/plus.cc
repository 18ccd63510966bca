// x' = A(x) + B(x - A(x)): what a decodes to is a prediction that both sides have, and b codes its error. Every
// operation is one of float32 an element, so that all decoders agree.
//
// What is left is not kept: it is made chunk by chunk by coding with a again, whenever b reads it.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/plus.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "codec/room.h"
#include "codec/scan.h"
#include "codec/schemes/grid_quantizer.h"
#include "codec/schemes/regular.h"

namespace gradcodec {
namespace {

constexpr uint8_t kStagesAPart = 16;  // more than a part can have

uint8_t parts_of(const SchemeChoice& choice) {
  return static_cast<uint8_t>(choice.rest ? parts_of(*choice.inner) + 1 : 1);
}

Inputs first_inputs(const Inputs& inputs) {
  Inputs first = inputs.behind();
  first.side = nullptr;
  first.shared_scale.reset();
  first.kept_levels = {};
  return first;
}

Inputs rest_inputs(const Inputs& inputs) {
  Inputs rest = first_inputs(inputs);
  rest.stage = static_cast<uint8_t>(rest.stage + kStagesAPart * parts_of(*inputs.inner));
  rest.rest_step = 0;
  return rest;
}

// A parameter of the scheme or of one below it.
std::optional<double> number_of(const SchemeChoice* choice, std::string_view key) {
  for (; choice != nullptr; choice = choice->inner.get()) {
    if (const auto found = choice->params.find(key); found != choice->params.end()) {
      return std::get<double>(found->second);
    }
  }
  return std::nullopt;
}

void subtract(std::span<const float> x, std::span<const float> from, std::span<float> out) {
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] - from[i];
}

// What the first part leaves of a tensor.
class Rest final : public Tensor {
 public:
  Rest(const Tensor& tensor, const Encoder& first, const Inputs& inputs)
      : tensor_(tensor), first_(first), chunks_(tensor.size(), inputs), len_(inputs.chunk_len) {
    static std::atomic<uint64_t> made = 0;
    number_ = ++made;
  }
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }

  std::span<const float> read(Range range, std::span<float> scratch) const override {
    for (uint64_t done = 0; done < range.count;) {
      const uint64_t at = range.first + done;
      const Range chunk = chunks_[at / len_];
      const Kept& kept = kept_of(chunk);
      const uint64_t count = std::min(range.count - done, chunk.first + chunk.count - at);
      const auto from = kept.values.begin() + static_cast<ptrdiff_t>(at - chunk.first);
      std::copy(from, from + static_cast<ptrdiff_t>(count), scratch.begin() + static_cast<ptrdiff_t>(done));
      done += count;
    }
    return scratch.first(static_cast<size_t>(range.count));
  }

  // The first part's code of a chunk and, in `predicted`, what it decodes to.
  void code_first(Range chunk, Code& code, std::span<float> predicted) const {
    first_.encode(chunk, code, predicted);
    Kept& kept = kept_of_thread();
    keep(chunk, predicted, kept);
  }

 private:
  // The chunk of the newest reader in a thread: who asks for a piece of it asks for the others soon.
  struct Kept {
    uint64_t of = 0, first = 0;  // Rest::number_, and where its chunk begins
    std::vector<float> values;
  };

  static Kept& kept_of_thread() {
    thread_local Kept kept;
    return kept;
  }

  const Kept& kept_of(Range chunk) const {
    Kept& kept = kept_of_thread();
    if (kept.of == number_ && kept.first == chunk.first) return kept;
    Code code;
    Room<float> room;
    const std::span<float> predicted = room.first(chunk.count);
    first_.encode(chunk, code, predicted);
    keep(chunk, predicted, kept);
    return kept;
  }

  void keep(Range chunk, std::span<const float> predicted, Kept& kept) const {
    Room<float> room;
    const std::span<const float> x = tensor_.read(chunk, room.first(chunk.count));
    kept.of = number_;
    kept.first = chunk.first;
    kept.values.resize(x.size());
    subtract(x, predicted, kept.values);
  }

  const Tensor& tensor_;
  const Encoder& first_;
  Chunks chunks_;
  uint64_t len_, number_;
};

class PlusDecoder final : public Decoder {
 public:
  PlusDecoder(const Decoder& first, const Decoder& rest) : first_(first), rest_(rest) {}
  PlusDecoder(std::unique_ptr<Decoder> first, std::unique_ptr<Decoder> rest)
      : owned_first_(std::move(first)), owned_rest_(std::move(rest)), first_(*owned_first_), rest_(*owned_rest_) {}

  Bytes stored() const override {
    Bytes out = first_.stored();
    put_bytes(out, rest_.stored());
    return out;
  }
  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range) const override { return {}; }
  const Decoder* inner() const override { return &first_; }
  const Decoder* remainder() const override { return &rest_; }
  Range inner_range(const Code&, Range range) const override { return range; }
  std::string describe() const override { return first_.describe() + "; the rest: " + rest_.describe(); }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    Room<float> room;
    const std::span<float> rest = room.first(range.count);
    first_.decode(*code.inner, range, out);
    rest_.decode(*code.rest, range, rest);
    for (size_t i = 0; i < rest.size(); ++i) out[i] += rest[i];
    for (const Exception& exception : code.exceptions) require_needed(exception, true);
    put_back(code.exceptions, out);
  }

  Before before() const override { return Before::part; }
  uint64_t domain(Range range) const override { return rest_.domain(range); }
  void decode_domain(const Code& code, Range range, std::span<float> out) const override {
    rest_.decode_domain(*code.rest, range, out);
  }
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    rest_.laws(*code.rest, range, target, laws);
  }
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override {
    Room<float> room;
    const std::span<float> left = room.first(range.count);
    leave(code, range, x, left);
    if (rest_.before() == Before::nothing) {
      std::copy(left.begin(), left.end(), out.begin());
    } else {
      rest_.targets(*code.rest, range, left, out);
    }
    put_back_drawn(code, out);
  }

  // What the last part is given of `x`, without its own exceptions if it is of two stages.
  void leave(const Code& code, Range range, std::span<const float> x, std::span<float> left) const {
    first_.decode(*code.inner, range, left);
    subtract(x, left, left);
    if (rest_.before() == Before::nothing) return;
    for (const Exception& exception : code.rest->exceptions) left[static_cast<size_t>(exception.index)] = 0;
  }

  // They are as they were where the last part draws first.
  void put_back_drawn(const Code& code, std::span<float> targets) const {
    if (rest_.before() == Before::draw) put_back(code.rest->exceptions, targets);
  }

  bool shares_draws() const override { return first_.shares_draws() || rest_.shares_draws(); }

 private:
  std::unique_ptr<Decoder> owned_first_, owned_rest_;
  const Decoder &first_, &rest_;
};

void check_known(bool known, const SchemeChoice& part) {
  if (known) return;
  throw Error(Exit::usage, "'" + std::string(part.scheme->name()) +
                               "' cannot be part of a sum: its encoder does not know what it decodes to");
}

class PlusEncoder final : public Encoder {
 public:
  PlusEncoder(const Tensor& tensor, const Inputs& inputs)
      : tensor_(tensor), energy_(scan_energy(tensor, inputs)), regular_(tensor, energy_.extent.irregular > 0) {
    prepare_first(inputs);
    rest_tensor_.emplace(regular_, *first_, inputs);
    Inputs to_rest = rest_inputs(inputs);
    to_rest.whole_squares = energy_.squares;
    rest_ = inputs.rest->prepare(*rest_tensor_, to_rest);
    check_known(rest_->decoder().is_digested(), *inputs.rest);
    decoder_ = std::make_unique<PlusDecoder>(first_->decoder(), rest_->decoder());
    is_fixed_ = !inputs.inner->draws() || number_of(inputs.rest, "nmse").has_value();
    loop_free_ = inputs;
    loop_free_.loop = {};
  }

  const Decoder& decoder() const override { return *decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    code.params.clear();
    code.streams.clear();
    code.exceptions.clear();
    Room<float> room, rest_room;
    const std::span<float> predicted = room.first(range.count);
    if (energy_.extent.irregular > 0) list_exceptions(range, code);
    rest_tensor_->code_first(range, code.below(), predicted);
    const std::span<float> rest = decoded.empty() ? decoded : rest_room.first(range.count);
    rest_->encode(range, code.remainder(), rest);
    for (size_t i = 0; i < rest.size(); ++i) decoded[i] = predicted[i] + rest[i];
    if (!decoded.empty()) put_back(code.exceptions, decoded);
  }

  // Of a last part that limits values first, those that it is unbiased for.
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override {
    Room<float> room;
    if (rest_->decoder().before() != Decoder::Before::nothing) {
      const std::span<float> left = room.first(range.count);
      decoder_->leave(code, range, x, left);
      rest_->targets(*code.rest, range, left, out);
      decoder_->put_back_drawn(code, out);
    } else if (const Tensor* const limited = rest_promise().target) {
      const std::span<const float> values = limited->read(range, room.first(range.count));
      std::copy(values.begin(), values.end(), out.begin());
    } else {
      decoder_->targets(code, range, x, out);
    }
  }

  std::string warning() const override {
    const std::string first = first_->warning();
    return first.empty() ? rest_->warning() : first;
  }

  Promise promise() const override {
    const Promise first = first_->promise();
    Promise both = sum_of(first, rest_promise());
    both.independent = is_fixed_ && rest_promise().independent;
    // Of what is left in this message, which is what it is in every one unless the first part draws. Where the second
    // part's error is relative to ||x||^2 it does not matter what is left.
    if (is_fixed_ && both.unbiased && rest_promise().omega && energy_.squares > 0) {
      const double left = scan_energy(*rest_tensor_, loop_free_).squares / energy_.squares;
      const double omega = *rest_promise().omega * left * (1 + 0x1p-30);
      both.omega = both.omega ? std::min(*both.omega, omega) : omega;
      if (const std::optional<double> delta = delta_of(both.omega); delta)
        both.delta = std::max(both.delta.value_or(0), *delta);
    }
    return both;
  }

 private:
  void prepare_first(const Inputs& inputs) {
    Inputs to_first = first_inputs(inputs);
    if (const std::optional<double> nmse = number_of(inputs.rest, "nmse")) {
      to_first.rest_step = static_cast<double>(step_for_nmse(energy_.squares, tensor_.size(), *nmse));
    } else if (const std::optional<double> step = number_of(inputs.rest, "step")) {
      to_first.rest_step = *step;
    }
    first_ = inputs.inner->prepare(regular_, to_first);
    check_known(first_->decoder().is_digested(), *inputs.inner);
  }

  void list_exceptions(Range range, Code& code) const {
    Room<float> room;
    const std::span<const float> x = tensor_.read(range, room.first(range.count));
    for (size_t i = 0; i < x.size(); ++i) {
      if (!is_regular(x[i])) code.exceptions.push_back({i, std::bit_cast<uint32_t>(x[i])});
    }
  }

  const Promise& rest_promise() const {
    std::call_once(asked_, [&] { rest_promise_ = rest_->promise(); });
    return rest_promise_;
  }

  const Tensor& tensor_;
  Energy energy_;
  Regular regular_;
  std::unique_ptr<Encoder> first_;
  std::optional<Rest> rest_tensor_;
  std::unique_ptr<Encoder> rest_;
  std::unique_ptr<PlusDecoder> decoder_;
  bool is_fixed_ = false;
  Inputs loop_free_ = {Random({}, 0), kFirstStage, 1};
  mutable std::once_flag asked_;
  mutable Promise rest_promise_;  // once it was asked for
};

class Plus final : public Scheme {
 public:
  std::string_view name() const override { return "+"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "a+b: b codes what a leaves, x - a's decoded values"; }
  std::string_view promises() const override {
    return "unbiased if, and only if, b is, whatever a is; omega_b (1 - delta_a); each error is b's";
  }
  std::string_view source() const override { return "residual coding; spec/schemes/plus.md has the derivation"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  unsigned work_per_value(const Params&) const override { return kWork; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    return std::make_unique<PlusEncoder>(tensor, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    std::unique_ptr<Decoder> first = inputs.inner->restore(stored, first_inputs(inputs));
    std::unique_ptr<Decoder> rest = inputs.rest->restore(stored, rest_inputs(inputs));
    if (!first->is_digested() || !rest->is_digested()) {
      stored.fail("are of a sum, of a part of which no encoder knows what it decodes to");
    }
    return std::make_unique<PlusDecoder>(std::move(first), std::move(rest));
  }

 private:
  static constexpr unsigned kWork = 24;  // values predicted, left and decoded; symbols of the second part
};

}  // namespace

const Scheme& plus_scheme() {
  static const Plus scheme;
  return scheme;
}

}  // namespace gradcodec
