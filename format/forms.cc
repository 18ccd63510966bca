// SPDX-License-Identifier: Apache-2.0
#include "format/forms.h"

#include <algorithm>
#include <functional>

#include "codec/registry.h"

namespace gradcodec {
namespace {

const Coder& pack() {
  static const Coder& coder = *find_coder("pack");
  return coder;
}

// The one symbol (or byte) that a stream repeats, if it does.
std::optional<uint32_t> repeated(const Stream& stream) {
  const auto all_equal = [](const auto& values) {
    return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
  };
  if (stream.count() == 0) return std::nullopt;
  if (stream.alphabet == 0) {
    if (!all_equal(stream.bytes)) return std::nullopt;
    return std::to_integer<uint32_t>(stream.bytes[0]);
  }
  if (!all_equal(stream.symbols)) return std::nullopt;
  return stream.symbols[0];
}

// Of all streams; nothing if one does not repeat its symbol.
std::optional<Bytes> constant_form(const StreamList& streams) {
  Bytes out;
  for (size_t i = 0; i < streams.size(); ++i) {
    const std::optional<uint32_t> symbol = repeated(streams[i]);
    if (!symbol) return std::nullopt;
    put_varint(out, *symbol);
  }
  return out;
}

void shrink_all(const StreamList& streams, const Coder& coder, Bytes& out) {
  for (size_t i = 0; i + 1 < streams.size(); ++i) {
    Bytes one;
    coder.shrink(streams[i], one);
    put_varint(out, one.size());
    put_bytes(out, one);
  }
  if (streams.size() > 0) coder.shrink(streams[streams.size() - 1], out);
}

uint64_t packed_size(const StreamList& streams) {
  uint64_t total = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    const uint64_t size = pack().fixed_size(streams[i].alphabet, streams[i].count()).value();
    Bytes length;
    if (i + 1 < streams.size()) put_varint(length, size);
    total += length.size() + size;
  }
  return total;
}

void fill(ByteReader& in, const StreamShape& shape, Stream& stream) {
  const uint64_t symbol = in.get_varint();
  const uint64_t alphabet = shape.alphabet == 0 ? 256 : shape.alphabet;
  if (shape.count == 0 || symbol >= alphabet) in.fail("repeats a symbol outside its alphabet");
  const auto count = static_cast<size_t>(shape.count);
  if (shape.alphabet == 0) {
    stream.bytes.assign(count, static_cast<std::byte>(symbol));
  } else {
    stream.symbols.assign(count, static_cast<uint16_t>(symbol));
  }
}

void append(const StreamShapes& shapes, StreamShapes& all) {
  for (const StreamShape& shape : shapes) all.add(shape);
}

// Parameters, those below too; the chunk's own exceptions are there. Makes room for the streams, and lists them.
void take_params(ByteReader& in, const Decoder& decoder, Range range, Code& code, StreamShapes& shapes) {
  decoder.take_params(range, in, code);
  const StreamShapes own = decoder.streams(code, range);
  code.streams.resize(own.size());
  append(own, shapes);
  const auto take_part = [&](const Decoder& part, Range of, Code& to) {
    read_exceptions(in, of.count, true, to.exceptions);
    take_params(in, part, of, to, shapes);
  };
  if (decoder.inner() != nullptr) take_part(*decoder.inner(), decoder.inner_range(code, range), code.below());
  if (decoder.remainder() != nullptr) take_part(*decoder.remainder(), range, code.remainder());
}

void expand_all(ByteReader& in, Form form, std::span<const StreamShape> shapes, const Coder& coder,
                const StreamListOf<Stream>& streams) {
  if (form == Form::stored && coder.id() == pack().id()) in.fail("is in stored form though its coder is pack");
  const Coder& used = form == Form::stored ? pack() : coder;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Stream& stream = streams[i];
    stream.alphabet = shapes[i].alphabet;
    if (form == Form::constant) {
      fill(in, shapes[i], stream);
      continue;
    }
    const uint64_t size = i + 1 < shapes.size() ? in.get_varint() : in.left();
    used.expand(in.get_bytes(size), shapes[i].count, stream);
  }
  in.expect_end();
}

}  // namespace

void fit_code(const Decoder& decoder, Code& code) {
  if (decoder.inner() == nullptr) {
    code.inner.reset();
  } else {
    fit_code(*decoder.inner(), code.below());
  }
  if (decoder.remainder() == nullptr) {
    code.rest.reset();
  } else {
    fit_code(*decoder.remainder(), code.remainder());
  }
}

void write_params(const Code& code, Bytes& out) {
  put_bytes(out, code.params);
  for (const Code* part : {code.inner.get(), code.rest.get()}) {
    if (part == nullptr) continue;
    if (part->exceptions.empty()) put_varint(out, 0);
    write_exceptions(part->exceptions, out);
    write_params(*part, out);
  }
}

void write_exceptions(std::span<const Exception> list, Bytes& out) {
  if (list.empty()) return;
  put_varint(out, list.size());
  uint64_t next = 0;
  for (const Exception& exception : list) {
    put_varint(out, exception.index - next);
    put(out, exception.bits);
    next = exception.index + 1;
  }
}

void read_exceptions(ByteReader& in, uint64_t len, bool may_be_empty, std::vector<Exception>& list) {
  list.clear();
  const uint64_t count = in.get_varint();
  if ((count == 0 && !may_be_empty) || count > len) in.fail("lists " + std::to_string(count) + " exceptions");
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t gap = in.get_varint();
    if (gap >= len - next) in.fail("lists an exception beyond the chunk");
    list.push_back({next + gap, in.get<uint32_t>()});
    next += gap + 1;
  }
}

void set_contexts(const Decoder& decoder, const Coder& coder, Range range, Code& code) {
  const StreamShapes shapes = decoder.streams(code, range);
  for (size_t i = 0; i < shapes.size(); ++i) {
    Stream& stream = code.streams[i];
    stream.classes = coder.uses_contexts() ? shapes[i].classes : 0;
    stream.contexts.resize(stream.classes == 0 ? 0 : static_cast<size_t>(shapes[i].count));
    if (stream.classes != 0) decoder.contexts(code, i, range, stream.contexts);
    const bool scales = coder.uses_scales() && shapes[i].scales;
    stream.scales.resize(scales ? static_cast<size_t>(shapes[i].count) : 0);
    if (scales) decoder.scales(code, i, range, stream.scales);
  }
  if (decoder.inner() != nullptr) {
    set_contexts(*decoder.inner(), coder, decoder.inner_range(code, range), *code.inner);
  }
  if (decoder.remainder() != nullptr) set_contexts(*decoder.remainder(), coder, range, *code.rest);
}

Form write_streams(const StreamList& streams, const Coder& coder, bool forms, Bytes& out) {
  if (!forms || streams.size() == 0) {
    shrink_all(streams, coder, out);
    return Form::coder;
  }
  const uint64_t packed = packed_size(streams);
  if (const std::optional<Bytes> constant = constant_form(streams); constant && constant->size() < packed) {
    put_bytes(out, *constant);
    return Form::constant;
  }
  const size_t start = out.size();
  shrink_all(streams, coder, out);
  if (coder.id() == pack().id() || out.size() - start < packed) return Form::coder;
  out.resize(start);
  shrink_all(streams, pack(), out);
  return Form::stored;
}

void read_code(ByteReader& in, Form form, const Decoder& decoder, const Coder& coder, Range range, Code& code) {
  fit_code(decoder, code);
  StreamShapes shapes = {};
  take_params(in, decoder, range, code, shapes);
  set_contexts(decoder, coder, range, code);
  expand_all(in, form, shapes, coder, code);
}

void read_streams(ByteReader& in, Form form, std::span<const StreamShape> shapes, const Coder& coder,
                  std::vector<Stream>& streams) {
  streams.resize(shapes.size());
  expand_all(in, form, shapes, coder, streams);
}

}  // namespace gradcodec
