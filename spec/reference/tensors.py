"""One tensor's chunks (container.md, section 10): payloads to symbols, symbols to values, values to digests."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import xxhash

from reference import schemes
from reference.coders import elias, model, pack, rans, zstd
from reference.numbers import from_planes
from reference.reading import Unsupported, Usage, require
from reference.schemes.parts import Code, Exceptions, Place, Stream

CODER, CONSTANT, STORED = range(3)
PACK, ZSTD, RANS, RANS_DITHER, ELIAS, MODEL = range(6)


class Context:
    """What stands beside a message. `sides`: {name: (shape, float32 values)}; `index_set`: {name: (shape, mask)};
    `memory`: {name: float64 vector h of diana}, which decoding moves on. Each may be None."""

    def __init__(self, sides=None, index_set=None, memory=None):
        self.sides, self.index_set, self.memory = sides, index_set, memory


class Decoder:
    """Of one tensor. After all its chunks, `parts` are the elements' bytes (raw) or float32 values (other schemes)."""

    def __init__(self, tensor, ordinal, keys, context, one_chunk=False):
        self.tensor, self.coder, self.parts, self.digests, self.scheme = tensor, tensor.coder, [], [], None
        text = tensor.scheme
        require(text.known, "the scheme '%s'" % text.text, Unsupported)
        require(self.coder <= MODEL, "coder %d" % self.coder, Unsupported)
        self.is_raw, self.is_private = text.text == "raw", text.names[0] == "bq"
        require(not self.is_private or self.coder == PACK, "a private scheme by another coder than pack")
        chunks = ([tensor.size] if tensor.size else []) if one_chunk else tensor.chunks()
        self.place = Place(keys, ordinal, chunks, side=side_of(tensor, context), mask=mask_of(tensor, context),
                           shape=tensor.shape, stores_scales=self.coder == MODEL)
        if text.names[0] == "diana":
            self.place.memory = context.memory.setdefault(tensor.name, np.zeros(tensor.size))

    def take_stored(self, reader):
        """The tensor's parameters."""
        if not self.is_raw:
            self.scheme = schemes.build(self.tensor.scheme.schemes, reader, self.place)

    def take_chunk(self, reader, form, exceptions, index):
        require(form == CODER or not self.is_private, "the form of a private scheme")
        require(form != STORED or self.coder != PACK, "stored form, though the coder is pack")
        if self.is_raw:
            require(len(exceptions.places) == 0, "exceptions of raw")
            count = self.place.chunks[index] if self.place.chunks else 0
            planes = self.take_symbols(reader, form, Stream(0, count * self.tensor.type.item), True)
            part = digested = from_planes(planes.astype(np.uint8).tobytes(), self.tensor.type.word)
        else:
            part = self.take_values(reader, form, Code(self.place, index, exceptions))
            digested = part.tobytes() if self.scheme.digested else b""
        self.parts.append(part)
        self.digests.append(xxhash.xxh3_64_intdigest(digested))

    def take_values(self, reader, form, code):
        self.take_params(self.scheme, reader, code)
        streams = streams_of(code)
        for i, (owner, stream) in enumerate(streams):
            owner.symbols.append(self.take_symbols(reader, form, stream, i + 1 == len(streams)))
        return self.scheme.values(code)

    def take_params(self, scheme, reader, code):
        """Of the chunk, for a scheme and those below."""
        code.params = scheme.take_params(reader, code)
        code.streams = scheme.streams(code)
        if scheme.inner:
            place = scheme.inner.place
            exceptions = take_exceptions(reader, place.chunks[code.index] if place.chunks else 0)
            code.below = Code(place, code.index, exceptions)
            self.take_params(scheme.inner, reader, code.below)
        if scheme.rest:
            code.rest = Code(scheme.rest.place, code.index, take_exceptions(reader, code.count))
            self.take_params(scheme.rest, reader, code.rest)

    def take_symbols(self, reader, form, stream, is_last):
        if form == CONSTANT:
            symbol = reader.varint()
            require(stream.count > 0 and symbol < (stream.alphabet or 256), "a constant beyond the alphabet")
            return np.full(stream.count, symbol, np.int64)
        data = reader.take(reader.left() if is_last else reader.varint())
        coder = PACK if form == STORED else self.coder
        if coder == RANS_DITHER:
            return rans.decode(data, stream.alphabet, stream.count, stream.contexts, stream.classes)
        if coder == MODEL:
            return model.decode(data, stream.alphabet, stream.count, stream.contexts, stream.classes, stream.scales)
        decode = {PACK: pack.decode, ZSTD: zstd.decode, RANS: rans.decode, ELIAS: elias.decode}[coder]
        return decode(data, stream.alphabet, stream.count)

    def fixed_size(self):
        """container.md, section 16: of the only chunk of a short bare message, where both sides know it; else None."""
        if self.coder != PACK:
            return None
        if self.is_raw:
            return self.tensor.size * self.tensor.type.item
        params = self.scheme.fixed_params(self.tensor.size)
        if params is None or self.scheme.inner:
            return None
        streams = self.scheme.streams(Code(self.place, 0, Exceptions()))
        return params + pack.packed_size(streams[0].alphabet, self.tensor.size) if len(streams) == 1 else None

    def digest(self):
        return digest_of(self.digests) & 0xFFFFFFFF


def digest_of(digests):
    return xxhash.xxh3_64_intdigest(np.array(digests, "<u8").tobytes())


def streams_of(code):
    own = [(code, stream) for stream in code.streams]
    return own + [pair for part in (code.below, code.rest) if part for pair in streams_of(part)]


def take_exceptions(reader, count):
    """Of a chunk of `count` elements; perhaps none."""
    number = reader.varint()
    require(number <= count, "more exceptions than elements")
    places, bits, at = [], [], 0
    for _ in range(number):
        at += reader.varint()
        require(at < count, "an exception beyond the chunk")
        places.append(at)
        bits.append(reader.uint(4))
        at += 1
    return Exceptions(places, bits)


def side_of(tensor, context):
    if tensor.scheme.names[0] != "ndqsg" or context.sides is None:
        return None
    require(tensor.name in context.sides, "side information without the tensor '%s'" % tensor.name)
    shape, values = context.sides[tensor.name]
    require(shape == tensor.shape, "side information of another shape for '%s'" % tensor.name)
    return values


def mask_of(tensor, context):
    if tensor.scheme.names[0] != "at":
        return None
    require(context.index_set is not None, "an answer is decoded with its index set", Usage)
    require(tensor.name in context.index_set, "an index set without the tensor '%s'" % tensor.name)
    shape, mask = context.index_set[tensor.name]
    require(shape == tensor.shape, "an index set of another shape for '%s'" % tensor.name)
    return mask
