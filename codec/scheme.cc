// SPDX-License-Identifier: Apache-2.0
#include "codec/scheme.h"

namespace gradcodec {

Code& Code::below() {
  if (!inner) inner = std::make_unique<Code>();
  return *inner;
}

Code& Code::remainder() {
  if (!rest) rest = std::make_unique<Code>();
  return *rest;
}

Inputs Inputs::below() const {
  Inputs inputs = *this;
  ++inputs.stage;
  inputs.inner = inputs.rest = nullptr;  // SchemeChoice::prepare sets them
  inputs.rows = 0;                       // what is left of a tensor has no rows
  inputs.side = nullptr;                 // it is of the tensor, not of what is left of it
  return inputs;
}

Inputs Inputs::behind() const {
  Inputs inputs = *this;
  inputs.memory = nullptr;
  inputs.inner = inputs.rest = nullptr;
  return inputs;
}

void Decoder::take_params(Range range, ByteReader& payload, Code& code) const {
  const std::optional<uint64_t> size = params_size(range);
  if (!size) throw Error(Exit::bug, "a scheme does not take its chunks' parameters");
  const ByteView params = payload.get_bytes(*size);
  code.params.assign(params.begin(), params.end());
}

Range Decoder::inner_range(const Code&, Range) const { throw Error(Exit::bug, "there is no scheme below"); }

void Decoder::targets(const Code&, Range, std::span<const float>, std::span<float>) const {
  throw Error(Exit::bug, "targets of a scheme of one stage");
}

void Decoder::first_laws(const Code&, Range, std::span<const float>, std::span<Law>) const {
  throw Error(Exit::bug, "a first stage that draws has no laws");
}

void Decoder::contexts(const Code&, size_t, Range, std::span<uint16_t>) const {
  throw Error(Exit::bug, "contexts of a stream that has none");
}

void Decoder::scales(const Code&, size_t, Range, std::span<uint8_t>) const {
  throw Error(Exit::bug, "scales of a stream that has none");
}

Release Scheme::release(const Params&) const { throw Error(Exit::bug, "the release of a scheme that is not private"); }

namespace {

// Whoever cuts a tensor unevenly for the scheme below, or makes another of it, must say how large that one is.
void check_ends(const Inputs& inputs) {
  if (inputs.ends.empty() || inputs.ends.back() == inputs.size) return;
  throw Error(Exit::bug, "the chunks of stage " + std::to_string(inputs.stage) + " end at " +
                             std::to_string(inputs.ends.back()) + " of " + std::to_string(inputs.size));
}

}  // namespace

std::unique_ptr<Encoder> SchemeChoice::prepare(const Tensor& tensor, const Inputs& inputs) const {
  Inputs own = inputs;
  own.inner = inner.get();
  own.rest = rest.get();
  own.size = tensor.size();
  own.rows = rows_of(tensor.shape());
  check_ends(own);
  return scheme->prepare(tensor, params, own);
}

std::unique_ptr<Decoder> SchemeChoice::restore(ByteReader& stored, const Inputs& inputs) const {
  Inputs own = inputs;
  own.inner = inner.get();
  own.rest = rest.get();
  check_ends(own);
  return scheme->restore(params, stored, own);
}

SchemeChoice SchemeChoice::rehearsed() const {
  SchemeChoice out = *this;
  out.params = scheme->rehearsed(params);
  if (inner) out.inner = std::make_shared<const SchemeChoice>(inner->rehearsed());
  if (rest) out.rest = std::make_shared<const SchemeChoice>(rest->rehearsed());
  return out;
}

std::string SchemeChoice::stored_text() const {
  if (rest) return inner->stored_text() + "+" + rest->stored_text();
  std::string text(scheme->name());
  char separator = ':';
  for (const ParamSpec& spec : scheme->params()) {
    const auto found = params.find(spec.name);
    if (!spec.decoder_needs || found == params.end()) continue;
    const std::string value = value_text(found->second);
    if (value == spec.fallback) continue;
    text += separator + std::string(spec.name) + "=" + value;
    separator = ',';
  }
  if (inner) text += "/" + inner->stored_text();
  return text;
}

}  // namespace gradcodec
