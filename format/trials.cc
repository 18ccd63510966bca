// SPDX-License-Identifier: Apache-2.0
#include "format/trials.h"

#include <algorithm>
#include <cmath>

#include "codec/checks/products.h"
#include "codec/registry.h"
#include "codec/scan.h"
#include "codec/values.h"
#include "format/forms.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

// Buffers of one load. A thread works on one at a time.
struct Buffers {
  Workspace work;
  Frame frame;
  Piece piece;
  Bytes elements;
  std::vector<float> x, domain;
};

Buffers& buffers() {
  thread_local Buffers of_this_thread;
  return of_this_thread;
}

// All that the laws of a chunk are made from, beside its values.
Bytes key_of(const Decoder& decoder, const Code& code) {
  Bytes key = decoder.stored();
  write_exceptions(code.exceptions, key);
  write_params(code, key);
  return key;
}

std::string place_of(uint64_t trial, Range range) {
  return "trial " + std::to_string(trial) + ", elements from " + std::to_string(range.first);
}

// Distances at which the draws of a tensor may repeat by mistake: its row, the scheme's bucket.
void add_buckets(const SchemeChoice* scheme, std::vector<uint64_t>& out) {
  if (scheme == nullptr) return;
  if (scheme->params.count("bucket") != 0) out.push_back(static_cast<uint64_t>(integer_of(scheme->params, "bucket")));
  add_buckets(scheme->inner.get(), out);
  add_buckets(scheme->rest.get(), out);
}

std::vector<uint64_t> periods_of(const TensorInfo& info, const SchemeChoice& scheme) {
  std::vector<uint64_t> out;
  if (info.shape.size() >= 2) out.push_back(info.shape.back());
  add_buckets(&scheme, out);
  return out;
}

bool any_shares_draws(const Decoder* stage) {
  return stage != nullptr &&
         (stage->shares_draws() || any_shares_draws(stage->inner()) || any_shares_draws(stage->remainder()));
}

void read_into(const Tensor& tensor, Range range, std::vector<float>& out) {
  out.resize(static_cast<size_t>(range.count));
  const std::span<const float> values = tensor.read(range, out);
  if (values.data() != out.data()) std::copy(values.begin(), values.end(), out.begin());
}

void zero_exceptions(const Code& code, std::span<float> x) {
  for (const Exception& exception : code.exceptions) x[static_cast<size_t>(exception.index)] = 0;
}

// Target, laws and key of a sample, from a chunk's code.
void load_laws(const Decoder& decoder, const Tensor& target, const Code& code, Range range, Sample& sample) {
  const bool fresh = sample.fresh;
  if (fresh) read_into(target, range, sample.target);
  Bytes key = key_of(decoder, code);
  sample.same_laws = !fresh && key == sample.key;
  sample.fresh = false;
  if (sample.same_laws) return;
  sample.key = std::move(key);
  // Stored parameters may depend on draws where laws do not: a chunk's alphabets.
  thread_local std::vector<Law> laws;
  laws.resize(sample.target.size());
  decoder.laws(code, range, sample.target, laws);
  sample.same_laws = !fresh && laws == sample.laws;
  std::swap(sample.laws, laws);
}

// What the last stage should give in this very message, in its domain; `x` are the chunk's values without exceptions.
void find_targets(const ValueTrials& trials, uint64_t trial, const Code& code, Range range, std::span<const float> x,
                  std::vector<float>& out) {
  const Decoder& decoder = trials.decoder(trial);
  out.resize(static_cast<size_t>(decoder.domain(range)));
  if (const Encoder* encoder = trials.encoder(trial)) {
    encoder->targets(code, range, x, out);
  } else {
    decoder.targets(code, range, x, out);
  }
}

double length2(std::span<const float> x) { return inner_product(x, x); }

double distance2(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

// A transform T keeps lengths, and x' is what T takes nearest to y', the values in the domain: then ||T x' - y'||^2 =
// ||y'||^2 - ||x'||^2 (0 but for padding), and x' is no further from x than y' from T x. float32 adds to squares about
// 2^-24 a butterfly, of which there are 18 at most, each way. Among subnormal numbers it rounds each value of the
// domain by up to 2^-150 instead (kernels::hadamard_error), once a rotation, of which kMostStages may follow each
// other: by `e` in length, and a square of length l, of values that were rounded `times` times, by 2 l e times + (e
// times)^2.
std::string transform_fault(const Decoder& decoder, const Code& code, Range range, std::span<const float> x,
                            std::span<const float> decoded, const Sample& sample) {
  constexpr double kRounding = 0x1p-17;
  const double e = static_cast<double>(kMostStages) * 0x1p-150 * std::sqrt(static_cast<double>(sample.target.size()));
  const auto subnormal = [e](double square, double times) { return times * e * (2 * std::sqrt(square) + times * e); };
  const double norm2 = length2(x), target2 = length2(sample.target);
  if (!(std::fabs(target2 - norm2) <= kRounding * norm2 + subnormal(norm2, 1)))
    return "it does not keep the length of the values";
  std::vector<float>& again = buffers().domain;
  again.resize(sample.decoded.size());
  decoder.targets(code, range, decoded, again);
  const double there2 = length2(sample.decoded), back2 = length2(decoded);
  if (!(std::fabs(distance2(again, sample.decoded) - (there2 - back2)) <= kRounding * there2 + subnormal(there2, 3))) {
    return "what is decoded is not what comes back from it";
  }
  const double error2 = distance2(decoded, x), there = distance2(sample.decoded, sample.target);
  // The difference of values that are each off by float32's rounding of their whole length.
  const double slack = kRounding * (std::sqrt(there * (norm2 + there2)) + kRounding * (norm2 + there2));
  if (!(error2 <= there * (1 + kRounding) + slack + subnormal(there, 2)))
    return "the error is larger than where it is made";
  return "";
}

// Of a sum, what the first part gave is both x less what it left and the decoded value less what the last one
// decodes to, but for a rounding of each.
std::string sum_fault(std::span<const float> x, std::span<const float> left, std::span<const float> decoded,
                      const Sample& sample) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double of[] = {double{x[i]}, double{left[i]}, double{decoded[i]}, double{sample.decoded[i]}};
    double size = 0;
    for (const double value : of) size += std::fabs(value);
    if (std::fabs((of[0] - of[1]) - (of[2] - of[3])) <= 0x1p-22 * size + 0x1p-148) continue;
    return "the parts of the sum do not add up";
  }
  return "";
}

}  // namespace

void ValueTrials::load(uint64_t trial, Range range, bool whole_path, Sample& sample) const {
  Workspace& work = buffers().work;
  decode(trial, range, whole_path, work, sample);
  const Decoder& decoder = this->decoder(trial);
  sample.transform_fault.clear();
  if (before() == Decoder::Before::nothing) {
    const bool moved = promise() && promise()->target != nullptr;
    load_laws(decoder, moved ? *promise()->target : tensor(), work.code, range, sample);
    sample.decoded.swap(work.values);
    return;
  }
  std::vector<float>& x = buffers().x;
  read_into(tensor(), range, x);
  zero_exceptions(work.code, x);
  sample.fresh = sample.same_laws = false;
  find_targets(*this, trial, work.code, range, x, sample.target);
  sample.decoded.resize(sample.target.size());
  sample.laws.resize(sample.target.size());
  try {
    decoder.decode_domain(work.code, range, sample.decoded);
  } catch (const Error&) {  // told where the whole path is taken
  }
  if (before() == Decoder::Before::part) {
    const Decoder* const last = decoder.remainder();
    if (last != nullptr && last->before() == Decoder::Before::nothing && work.code.exceptions.empty()) {
      std::vector<float>& left = buffers().domain;
      left.resize(x.size());
      decoder.targets(work.code, range, x, left);
      sample.transform_fault = sum_fault(x, left, work.values, sample);
    }
    if (!sample.transform_fault.empty()) sample.transform_fault += ": " + place_of(trial, range);
  } else if (transforms()) {
    zero_exceptions(work.code, work.values);
    sample.transform_fault = transform_fault(decoder, work.code, range, x, work.values, sample);
    if (!sample.transform_fault.empty()) sample.transform_fault += ": " + place_of(trial, range);
  } else {
    put_back(work.code.exceptions, sample.target);  // they are in the domain, as they were
  }
  decoder.laws(work.code, range, sample.target, sample.laws);
}

EncodedTrials::EncodedTrials(const TensorPlan& plan, std::unique_ptr<TensorData> data, uint64_t count,
                             Nonfinite nonfinite)
    : plan_(plan),
      nonfinite_(nonfinite),
      tensor_(std::make_shared<DumpTensor>(plan.info, std::move(data))),
      messages_(static_cast<size_t>(count)) {
  prepare_one(0);
  promise_ = messages_[0].encoder->scheme()->promise();
  shares_draws_ = any_shares_draws(&decoder(0));
}

MessageId EncodedTrials::id(uint64_t trial) const {
  MessageId id = plan_.message;
  id.worker = id.worker.value_or(0) + trial;
  if (shares_draws_) id.step = id.step.value_or(0) + trial;
  return id;
}

std::vector<uint64_t> EncodedTrials::periods() const { return periods_of(plan_.info, plan_.scheme); }

void EncodedTrials::prepare_one(uint64_t trial) const {
  Prepared& message = messages_[static_cast<size_t>(trial)];
  if (message.encoder) return;
  TensorPlan plan = plan_;
  plan.message = id(trial);
  message.encoder = make_value_encoder(plan, tensor_, nonfinite_);
  const Bytes stored = message.encoder->stored();
  ByteReader reader(stored, "the stored parameters");
  try {
    message.decoder = make_tensor_decoder(plan, reader, DType{});
    reader.expect_end();
  } catch (const Error& error) {
    message.decoder.reset();
    message.fault = "the decoder refuses those of trial " + std::to_string(trial) + ": " + error.text();
    return;
  }
  if (message.decoder->scheme()->stored() != stored) {
    message.fault = "those of trial " + std::to_string(trial) + " are not what a decoder would store";
  }
}

void EncodedTrials::prepare(unsigned threads) const {
  std::call_once(prepared_, [&] {
    struct Item {
      uint64_t trial = 0;
    };
    uint64_t next = 1;
    run_ordered<Item>(
        threads, 2 * size_t{threads},
        [&](Item& item) {
          item.trial = next;
          return next++ < count();
        },
        [&](Item& item) { prepare_one(item.trial); }, [](Item&) {});
  });
}

// What may be the reason of a decoder's fault.
std::string EncodedTrials::too_far(const Prepared& message) {
  return message.decoder->scheme()->side_need() ? " (is the side information too far?)" : "";
}

void EncodedTrials::through_coder(const Prepared& message, uint64_t trial, Range range, Workspace& work,
                                  Sample& sample) const {
  Frame& frame = buffers().frame;
  frame.payload.clear();
  const uint64_t reported = message.encoder->encode(range, true, work, frame);
  ByteReader exceptions(frame.exceptions, "the list of exceptions");
  std::vector<Exception> list;
  if (!frame.exceptions.empty()) {
    read_exceptions(exceptions, range.count, false, list);
    exceptions.expect_end();
  }
  try {
    const uint64_t decoded =
        message.decoder->decode(ByteReader(frame.payload, "the frame"), frame.form, list, range, work);
    if (decoded != reported) sample.decoder_fault = "not so in " + place_of(trial, range) + too_far(message);
  } catch (const Error& error) {
    sample.decoder_fault = "the decoder refuses " + place_of(trial, range) + ": " + error.text();
  }
}

void EncodedTrials::decode(uint64_t trial, Range range, bool whole_path, Workspace& work, Sample& sample) const {
  if (trial > 0) prepare(1);
  const Prepared& message = messages_[static_cast<size_t>(trial)];
  sample.parameters_fault = message.fault;
  sample.decoder_fault.clear();
  if (!message.decoder) {  // nothing decodes: the encoder's own values, under a fault that is said
    work.values.resize(static_cast<size_t>(range.count));
    fit_code(message.encoder->scheme()->decoder(), work.code);
    message.encoder->scheme()->encode(range, work.code, work.values);
  } else if (whole_path) {
    through_coder(message, trial, range, work, sample);
  } else {
    fit_code(message.encoder->scheme()->decoder(), work.code);
    message.encoder->scheme()->encode(range, work.code, {});
    work.values.resize(static_cast<size_t>(range.count));
    try {
      message.decoder->scheme()->decode(work.code, range, work.values);
    } catch (const Error&) {  // told where the whole path is taken
    }
  }
}

kernels::Draws EncodedTrials::narrowing(uint64_t trial) const {
  return Random(id(trial), plan_.ordinal).draws(Purpose::narrowing, kNarrowingStage);
}

StoredTrials::StoredTrials(const StoredMessage& message, size_t tensor, std::unique_ptr<DumpTensor> values,
                           const MessageId& id, const SchemeChoice* choice, std::optional<float> shared_scale)
    : message_(message),
      number_(tensor),
      values_(std::move(values)),
      chunk_len_(message.schema().chunk_len(message.schema().tensors[tensor])),
      random_(id, static_cast<uint32_t>(tensor)) {
  if (choice == nullptr) return;
  Inputs inputs{random_, kFirstStage, chunk_len_, Nonfinite::keep};
  if (choice->takes_shared_scale()) inputs.shared_scale = shared_scale;
  inputs.side = message.side(tensor);
  inputs.scales = message.coder(tensor).uses_scales();
  encoder_ = prepared(*choice, inputs);
  promise_ = encoder_->promise();
  if (encoder_->decoder().stored() != message.stored_params(tensor)) {
    parameters_fault_ = "the file has " + message.decoder(tensor)->describe() + ", this scheme stores " +
                        encoder_->decoder().describe() + " for the dump";
    if (choice->takes_shared_scale() && !shared_scale) parameters_fault_ += "; or is --shared-scale missing here?";
  }
}

std::unique_ptr<Encoder> StoredTrials::prepared(const SchemeChoice& choice, Inputs inputs) const {
  std::unique_ptr<Encoder> encoder = choice.prepare(*values_, inputs);
  const Bytes stored = message_.stored_params(number_);
  if (encoder->decoder().stored() == stored || encoder->decoder().fitted_levels().empty()) return encoder;
  inputs.kept_levels = message_.decoder(number_)->fitted_levels();
  std::unique_ptr<Encoder> keeping = choice.prepare(*values_, inputs);
  return keeping->decoder().stored() == stored ? std::move(keeping) : std::move(encoder);
}

std::vector<uint64_t> StoredTrials::periods() const {
  const Schema& schema = message_.schema();
  const SchemaTensor& tensor = schema.tensors[number_];
  return periods_of(tensor.info, parse_stored_scheme(schema.schemes[tensor.scheme].text));
}

kernels::Draws StoredTrials::narrowing(uint64_t) const { return random_.draws(Purpose::narrowing, kNarrowingStage); }

void StoredTrials::decode(uint64_t, Range range, bool, Workspace& work, Sample& sample) const {
  Piece& piece = buffers().piece;
  message_.load(number_, range.first / chunk_len_, piece);
  std::swap(work.code, piece.work.code);
  std::swap(work.values, piece.work.values);
  sample.parameters_fault = parameters_fault_;
  if (!encoder_ || !parameters_fault_.empty()) return;
  Code mine;
  encoder_->encode(range, mine, {});
  Bytes ours, theirs;
  write_params(mine, ours);
  write_params(work.code, theirs);
  if (ours != theirs) {
    sample.parameters_fault = "the parameters of a chunk are not those that this scheme stores, in the elements from " +
                              std::to_string(range.first);
  }
}

void FirstTrials::load(uint64_t trial, Range range, bool whole_path, Sample& sample) const {
  Workspace& work = buffers().work;
  last_.decode(trial, range, whole_path, work, sample);
  sample.parameters_fault.clear();  // told of the last stage
  sample.decoder_fault.clear();
  sample.fresh = sample.same_laws = false;
  read_into(last_.tensor(), range, sample.target);
  std::vector<float>& x = buffers().x;
  x = sample.target;
  zero_exceptions(work.code, x);
  find_targets(last_, trial, work.code, range, x, sample.decoded);
  put_back(work.code.exceptions, sample.decoded);
  sample.laws.resize(sample.target.size());
  last_.decoder(trial).first_laws(work.code, range, x, sample.laws);
}

void NarrowedTrials::load(uint64_t trial, Range range, bool whole_path, Sample& sample) const {
  Workspace& work = buffers().work;
  wide_.decode(trial, range, whole_path, work, sample);
  sample.parameters_fault.clear();  // told of the values themselves
  sample.decoder_fault.clear();
  sample.fresh = sample.same_laws = false;
  sample.target.swap(work.values);
  sample.laws.resize(sample.target.size());
  narrowing_laws(sample.target, type_, sample.laws);
  // What lies beyond the type is not narrowed: decompress refuses it.
  sample.decoded = sample.target;
  for (size_t i = 0; i < sample.laws.size(); ++i) {
    if (sample.laws[i].kind == Law::outside) sample.decoded[i] = 0;
  }
  Bytes& elements = buffers().elements;
  elements.resize(sample.decoded.size() * type_.item_size());
  narrow(sample.decoded, type_, wide_.narrowing(trial), range.first, elements);
  widen(type_, elements, sample.decoded);
}

}  // namespace gradcodec
