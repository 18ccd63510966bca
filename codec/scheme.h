// What a scheme is: float32 values to a few stored parameters and small symbols, and back. Start reading here.
//
//   Scheme::prepare reads the tensor and yields an Encoder, whose parameters are already rounded to their stored form;
//   Encoder::encode then quantizes chunk by chunk, in any order and in parallel, against that form;
//   Scheme::restore makes the Decoder from the stored bytes alone, on the other side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/bytes.h"
#include "codec/coder.h"
#include "codec/law.h"
#include "codec/loop.h"
#include "codec/memory.h"
#include "codec/params.h"
#include "codec/promise.h"
#include "codec/random.h"
#include "codec/side.h"
#include "codec/tensor.h"

namespace gradcodec {

// A value that a quantizer cannot take, kept exactly.
struct Exception {
  uint64_t index;  // in the chunk
  uint32_t bits;   // of the float32
};

// One chunk, encoded.
struct Code {
  Bytes params;                       // stored parameters of the chunk: the steps of its buckets
  std::vector<Stream> streams;        // in a fixed order
  std::vector<Exception> exceptions;  // by index
  std::vector<float> scratch;         // room to read into; reused from chunk to chunk
  std::unique_ptr<Code> inner;        // of the scheme below, if there is one; of a sum, of its first part
  std::unique_ptr<Code> rest;         // of a sum, of what codes the rest

  Code& below();      // inner, made if it is not there
  Code& remainder();  // rest, likewise
};

// What a stream must look like.
struct StreamShape {
  uint32_t alphabet;
  uint64_t count;
  uint32_t classes = 0;  // of contexts, at most 64; 0: it has none
  bool scales = false;   // it has scales too; classes are of the dither then
};

// A few, in place: shapes are asked for chunk by chunk.
class StreamShapes {
 public:
  static constexpr size_t kMost = 24;  // of a sum of sums, each part at most three
  StreamShapes(std::initializer_list<StreamShape> shapes) {
    for (const StreamShape& shape : shapes) add(shape);
  }
  void add(const StreamShape& shape) {
    if (size_ == kMost) throw Error(Exit::bug, "a scheme of too many streams");
    shapes_[size_++] = shape;
  }
  size_t size() const { return size_; }
  const StreamShape* data() const { return shapes_.data(); }
  const StreamShape* begin() const { return data(); }
  const StreamShape* end() const { return data() + size_; }
  const StreamShape& operator[](size_t i) const { return shapes_[i]; }

 private:
  std::array<StreamShape, kMost> shapes_ = {};
  size_t size_ = 0;
};

// What to do with NaN and infinities: refuse the tensor, or list them as exceptions.
enum class Nonfinite : uint8_t { error, keep };

struct SchemeChoice;
class Summable;  // codec/summable.h

// What a stage is given beside its tensor and its parameters. `stage` is its place in the composition, which nobody but
// SchemeChoice counts: two stages never share a draw.
struct Inputs {
  Random random;
  uint8_t stage;
  uint64_t chunk_len;  // elements; every chunk but the last has this many
  Nonfinite nonfinite = Nonfinite::error;
  Loop loop = {};  // for prepare alone, while it runs
  // Below a sparsifier chunks are uneven: where each ends in what it kept. Outlives encoder and decoder. Else empty.
  std::span<const uint64_t> ends = {};
  const SchemeChoice* inner = nullptr;      // the scheme below; null if there is none
  const SchemeChoice* rest = nullptr;       // of a sum: what codes the rest
  std::optional<float> shared_scale = {};   // a scale that workers agreed on, instead of the tensor's own
  std::span<const float> kept_levels = {};  // levels to use instead of fitting them
  uint64_t size = 0;                        // of the tensor; for restore, which sees none
  uint64_t rows = 0;                        // likewise: its first axis if it has two or more, else 0
  bool scales = false;                      // the coder takes scales (Stream::scales): store what they follow from
  const Tensor* side = nullptr;             // side information: what the decoder has beside the message, if anything
  const Memory* memory = nullptr;           // of the tensor, for a scheme that remembers; null: it starts from zeros
  // Of what codes the rest in a sum: ||x||^2 of the tensor itself, which an error relative to it is relative to.
  std::optional<double> whole_squares = {};
  // Of what comes before it in a sum: the step that will quantize the rest, as far as that is known; else 0.
  double rest_step = 0;

  // A relative squared error of the whole tensor as one of the stage's own, whose squared norm is `squares`.
  double nmse_for(double nmse, double squares) const {
    return whole_squares && squares > 0 ? nmse * (*whole_squares / squares) : nmse;
  }

  Inputs below() const;   // for the scheme below
  Inputs behind() const;  // for the scheme behind one that draws nothing and is no stage of its own (codec/through.h)
};

// Inputs::rows of a shape.
inline uint64_t rows_of(std::span<const uint64_t> shape) { return shape.size() < 2 ? 0 : shape[0]; }

// How a tensor is cut. `inputs.ends`, if there are any, must outlive it.
class Chunks {
 public:
  Chunks(uint64_t size, const Inputs& inputs) : size_(size), len_(inputs.chunk_len), ends_(inputs.ends) {}
  uint64_t count() const { return ends_.empty() ? (size_ + len_ - 1) / len_ : ends_.size(); }
  Range operator[](uint64_t i) const {
    if (ends_.empty()) return {i * len_, std::min(len_, size_ - i * len_)};
    const uint64_t first = i == 0 ? 0 : ends_[static_cast<size_t>(i - 1)];
    return {first, ends_[static_cast<size_t>(i)] - first};
  }

 private:
  uint64_t size_, len_;
  std::span<const uint64_t> ends_;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual Bytes stored() const = 0;  // the tensor's stored parameters, as restore reads them

  // Bytes of a chunk's own parameters, where they follow from the range alone; so do its streams then.
  virtual std::optional<uint64_t> params_size(Range range) const = 0;

  // Moves the chunk's own parameters from the front of `payload` to code.params. Throws Error(bad_input). As written
  // here, for those of fixed size.
  virtual void take_params(Range range, ByteReader& payload, Code& code) const;

  // Its own streams. What stands before them in the file is in `code`: parameters, those below too. Throws
  // Error(bad_input).
  virtual StreamShapes streams(const Code& code, Range range) const = 0;

  // The decoder of the scheme below, of what this one leaves to it, and which part of that the chunk `range` is.
  virtual const Decoder* inner() const { return nullptr; }

  // Of a sum the decoder of what the first part, inner(), leaves; the chunk is the same to both.
  virtual const Decoder* remainder() const { return nullptr; }
  virtual Range inner_range(const Code& code, Range range) const;

  // Levels that were fitted to this tensor, as prepare may be given them for another (Inputs::kept_levels); none if the
  // scheme fits none. They live as long as this.
  virtual std::span<const float> fitted_levels() const { return {}; }

  virtual std::string describe() const = 0;  // the stored parameters for people: "step 0.0131, M 12"

  // The values of `range`, which is a whole chunk: range.count floats. `code` has the streams that `streams` says, with
  // symbols below their alphabets, and the code below. Throws Error(bad_input) on what no encoder writes; Overload. A
  // scheme that takes side information and has none checks what it can, and leaves `out` as it is. Thread-safe.
  virtual void decode(const Code& code, Range range, std::span<float> out) const = 0;

  // The contexts of stream number `stream`, which has some, of the chunk `range`: Stream::contexts says what they are.
  // They follow from stored parameters (code.params among them), draws and positions alone. Thread-safe.
  virtual void contexts(const Code& code, size_t stream, Range range, std::span<uint16_t> out) const;

  // The scales of stream number `stream`, which has some: Stream::scales. Likewise.
  virtual void scales(const Code& code, size_t stream, Range range, std::span<uint8_t> out) const;

  // The law of decoded - target for each element of the chunk `range`, from what is stored: `target` and `laws` hold
  // range.count. Elements that `code` keeps as exceptions are Law::at(0). Thread-safe. Of two stages (below): the laws
  // of the last, for domain(range) values that decode_domain and targets give.
  virtual void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const = 0;

  // For `verify`: a stage of its own that stands before the one whose laws are stated. What the rest asks is asked of
  // the outermost scheme alone.
  enum class Before : uint8_t {
    nothing,    // laws are of decoded - x, or of what Promise::target is
    transform,  // the same values in another domain: a rotation, whose signs are drawn
    draw,       // random values that are unbiased for x: a subset, scaled; of a scheme over another
    part,       // what the first part of a sum gives in this message: the last one is held to x less that, as float32
  };
  virtual Before before() const { return Before::nothing; }

  // How many values a chunk has where its errors are independent, range.count or more, and what they decode to there.
  virtual uint64_t domain(Range range) const { return range.count; }
  virtual void decode_domain(const Code& code, Range range, std::span<float> out) const { decode(code, range, out); }

  // If there is a stage before: what the last one is unbiased for in this very message, domain(range) values. `x`: the
  // chunk's values, 0 where there is an exception. A transform must keep the length of x. Thread-safe.
  virtual void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const;

  // If that is a draw: the law of targets - x for each element. Thread-safe.
  virtual void first_laws(const Code& code, Range range, std::span<const float> x, std::span<Law> laws) const;

  // Whether the encoder knows what decode gives, so that there is a digest of it. Asked of the outermost scheme alone.
  virtual bool is_digested() const { return true; }

  // What it needs of Inputs::side; nothing if it takes none. Asked of the outermost scheme alone.
  virtual std::optional<SideNeed> side_need() const { return std::nullopt; }

  // Whether it draws from what all workers of a step share (Random::shared_draws), so that only messages of different
  // steps are independent. Asked of every scheme of a composition.
  virtual bool shares_draws() const { return false; }

  // How its codes add up, if they do (Scheme::adds_up): this object, or null.
  virtual const Summable* summable() const { return nullptr; }
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual const Decoder& decoder() const = 0;

  // Encodes the chunk `range` into `code`. `decoded`, if not empty, receives what decode will give, with side
  // information that is near enough; if that is not known (Decoder::is_digested), what it may give. Thread-safe.
  virtual void encode(Range range, Code& code, std::span<float> decoded) const = 0;

  // As Decoder::targets, which is right unless the encoder knows more: that it limits values before it rounds them.
  virtual void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const {
    decoder().targets(code, range, x, out);
  }

  // Of a memory: the values that the scheme behind codes, as many as the tensor has. Null: the tensor's own. They live
  // as long as the encoder.
  virtual const Tensor* shifted() const { return nullptr; }

  // What a user should know of the parameters for this tensor: that a memory may grow without bound. Empty: nothing.
  virtual std::string warning() const { return ""; }

  // What is promised of this tensor under the parameters that are stored. May read the tensor once. The promise's
  // target lives as long as the encoder.
  virtual Promise promise() const = 0;
};

// Of a scheme whose integers are private, what a statement of privacy is computed from (codec/checks/privacy.h): k + Z
// is released of each value, k from 0 to `intervals`, Z of Bin(trials, 1/2).
struct Release {
  uint32_t intervals = 0, trials = 0;
  double step = 0;     // of the values, between one k and the next
  bool secret = true;  // false: anyone can make Z again
};

// Whether a scheme stands over another, as a in a/b.
enum class Inner : uint8_t { none, optional, required };

class Scheme {
 public:
  virtual ~Scheme() = default;
  virtual std::string_view name() const = 0;  // on disk; never reused
  virtual std::span<const ParamSpec> params() const = 0;
  virtual std::string_view summary() const = 0;   // one line
  virtual std::string_view promises() const = 0;  // what a user may rely on, a few lines
  virtual std::string_view source() const = 0;    // paper and section

  // True for `raw`, which carries the bytes of any element type and has neither encoder nor decoder.
  virtual bool carries_bytes() const { return false; }

  // Whether what it decodes to depends on the message's random numbers.
  virtual bool draws() const = 0;

  virtual Inner inner() const { return Inner::none; }

  // Of a memory (codec/memory.h): the names of its vectors, in their order. A memory stands first in a text and covers
  // all that stands behind it; it draws nothing, and is no stage.
  virtual std::span<const std::string_view> vectors() const { return {}; }

  // Whether the decoder has the same memory, and needs it.
  virtual bool decoder_remembers() const { return false; }

  // About the bytes that it works in for each value of a chunk, either way, beside the values, symbols and exceptions
  // that every scheme has.
  virtual unsigned work_per_value(const Params&) const { return 0; }

  // Whether codes of several messages can be added without being decoded, if what is stored of them agrees: its own, or
  // where a scheme stands below it the codes of that one.
  virtual bool adds_up(const Params&) const { return false; }

  // Whether it takes Inputs::shared_scale.
  virtual bool takes_shared_scale() const { return false; }

  // Whether its decoder cannot do without Inputs::side. It stands alone. The encoder may be given it too, and then
  // makes promises.
  virtual bool takes_side() const { return false; }

  // Sets what was not given and follows from other parameters.
  virtual void complete(Params&) const {}

  // Whether the symbols are private and no more than they may be told: sizes follow from no value, so that they go by
  // the coder `pack` in its own form alone, and nothing is an exception. Its draws are secret, and not the message's.
  virtual bool is_private() const { return false; }
  virtual Release release(const Params& params) const;  // of a private one; `params` as for encoding

  // The parameters under which messages can be made again and again from `Inputs::random`, with the same laws: for
  // trials, whose draws must be known. The same where no draw is secret.
  virtual Params rehearsed(const Params& params) const { return params; }

  // Throws Error(usage) on parameters that are each in range but impossible together. `encoding`: those that only the
  // encoder needs are there too.
  virtual void check(const Params& params, bool encoding) const = 0;

  // Reads `tensor` (which must outlive the encoder) a bounded number of times, in chunks. Throws
  // Error(bad_input) on values that the policy refuses.
  virtual std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const = 0;

  // Takes the tensor's stored parameters from the front of `stored`. Throws Error(bad_input) on what prepare never
  // stores.
  virtual std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const = 0;
};

// A scheme with its parameters (defaults filled in, each in its range, checked together) and what stands below it. Of a
// sum a+b the scheme is plus_scheme(), inner is a, which may be a sum, and rest is b.
struct SchemeChoice {
  const Scheme* scheme = nullptr;
  Params params = {};
  std::shared_ptr<const SchemeChoice> inner = {};
  std::shared_ptr<const SchemeChoice> rest = {};

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Inputs& inputs) const;
  std::unique_ptr<Decoder> restore(ByteReader& stored, const Inputs& inputs) const;

  bool carries_bytes() const { return scheme->carries_bytes(); }
  bool draws() const { return scheme->draws() || (inner && inner->draws()) || (rest && rest->draws()); }
  bool takes_shared_scale() const {
    return scheme->takes_shared_scale() || (inner && !rest && inner->takes_shared_scale());
  }
  bool takes_side() const { return scheme->takes_side(); }
  bool is_private() const { return scheme->is_private(); }
  bool remembers() const { return !scheme->vectors().empty(); }
  unsigned work_per_value() const {
    return scheme->work_per_value(params) + (inner ? inner->work_per_value() : 0) + (rest ? rest->work_per_value() : 0);
  }

  SchemeChoice rehearsed() const;  // Scheme::rehearsed

  // The text that a file stores: the decoder's parameters that differ from their defaults, in the scheme's order.
  std::string stored_text() const;
};

}  // namespace gradcodec
