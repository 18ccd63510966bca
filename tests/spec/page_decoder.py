"""A .gradz decoder written from the words of spec/ alone, as slow and as short as it can be: if it decodes what the
program writes, the pages suffice. All coders but zstd, all schemes, bare messages; no TREE, no METADATA."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from page_numbers import DTYPES, FLOATS, Damaged, Reader, message_key, narrow, require, step_key, word_of
from page_schemes import Code, Place, scheme_of
from xxh3 import xxh3

def digits_in(alphabet, size):
    k = 0
    while alphabet ** (k + 1) <= 256 ** size:
        k += 1
    return k


def group_of(alphabet):
    """Bytes and digits of a full group."""
    sizes = [b for b in range(1, 9) if digits_in(alphabet, b)]
    size = min(sizes, key=lambda b: (b / digits_in(alphabet, b), b))
    return size, digits_in(alphabet, size)


def unpack(data, alphabet, count):
    if alphabet == 1:
        require(data == b"", "bytes for an alphabet of one")
        return [0] * count
    b, k = group_of(alphabet)
    rest = count % k
    groups = [(b, k)] * (count // k)
    if rest:
        groups.append((next(b for b in range(1, 9) if alphabet ** rest <= 256 ** b), rest))
    reader, out = Reader(data), []
    for size, digits in groups:
        value = reader.uint(size)
        require(value < alphabet ** digits, "group too large")
        for _ in range(digits):
            out.append(value % alphabet)
            value //= alphabet
    require(reader.left() == 0, "packed bytes too many")
    return out


def packed_size(alphabet, count):
    if alphabet == 1:
        return 0
    b, k = group_of(alphabet)
    rest = alphabet ** (count % k) - 1
    return count // k * b + (rest.bit_length() + 7) // 8


# --- coders/elias.md

class Bits:
    def __init__(self, data):
        self.text, self.at = "".join("{:08b}".format(byte) for byte in data), 0

    def take(self, n):
        require(n <= len(self.text) - self.at, "bits too few")
        self.at += n
        return int(self.text[self.at - n:self.at], 2)

    def omega(self, most):
        """A number, of which it is known that it is at most `most`."""
        k = 1
        while self.take(1):
            require(k <= most, "number too large")
            k = 1 << k | self.take(k)
        require(k <= most, "number too large")
        return k


def omega_size(k):
    return 1 if k == 1 else omega_size(k.bit_length() - 1) + k.bit_length()


def elias(data, alphabet, count):
    if alphabet == 1 or count == 0:
        require(data == b"", "bytes for nothing")
        return [0] * count
    bits, middle = Bits(data), alphabet // 2
    out, last, positions = [middle] * count, 0, 0

    def level():
        negative = bits.take(1)
        return middle - bits.omega(middle) if negative else middle + bits.omega(alphabet - 1 - middle)

    sparse = bits.take(1)
    if sparse:
        for _ in range(bits.omega(count + 1) - 1):
            gap = bits.omega(count - last)
            last, positions = last + gap, positions + omega_size(gap)
            out[last - 1] = level()
    else:
        for i in range(count):
            if bits.take(1):
                out[i] = level()
                last, positions = i + 1, positions + omega_size(i + 1 - last)
    positions += omega_size(count - out.count(middle) + 1)
    require(sparse == (positions < count), "the other form is written")
    rest = len(bits.text) - bits.at
    require(rest < 8 and (rest == 0 or bits.take(rest) == 0), "elias's end")
    return out


# --- coders/rans.md

class LowBits:
    """Bits of a reader's bytes, from the lowest of each."""

    def __init__(self, reader):
        self.reader, self.held, self.left = reader, 0, 0

    def bit(self):
        if self.left == 0:
            self.held, self.left = self.reader.uint(1), 8
        bit, self.held, self.left = self.held & 1, self.held >> 1, self.left - 1
        return bit

    def rice(self, parameter):
        quotient = 0
        while self.bit():
            quotient += 1
            require(quotient < 2**16, "frequency")
        return quotient << parameter | sum(self.bit() << i for i in range(parameter))


class Model:
    def __init__(self, reader, count, tokens, classes):
        head, second = reader.uint(1), reader.uint(1)
        self.form, contexts, m = head & 3, head >> 2 & 7, head >> 5
        self.k, first_rice, has_blocks = (second & 7) + 8, second >> 3 & 15, second >> 7
        self.shift = contexts - 1 if contexts else None
        self.groups = 1
        if contexts:
            require(classes > 0 and (self.shift == 0 or (classes - 1) >> (self.shift - 1) > 0), "groups")
            self.groups = ((classes - 1) >> self.shift) + 1
        self.block_log2, self.blocks = 0, 1
        if has_blocks:
            byte = reader.uint(1)
            self.block_log2, self.blocks = (byte & 3) + 5, (byte >> 2) + 1
            require(2 <= self.blocks <= 8, "block classes")
        rows = self.blocks * self.groups
        require(rows << self.k <= min(2**19, 2**15 + 128 * count), "slots")
        next_rice = reader.uint(1) if rows > 1 else 0
        low, span, rest = reader.uint(1), reader.uint(1), reader.uint(1)
        require(low + span < tokens and rest <= span and next_rice <= 15, "tokens")
        bits, indices = LowBits(reader), []
        for row in range(rows):
            of_row, before = {}, 0
            for token in range(low, low + span + 1):
                if token == low + rest:
                    continue
                if row:
                    before = indices[row - 1 if row % self.groups else row - self.groups][token]
                z = bits.rice(next_rice if row else first_rice)
                before += -(z + 1 >> 1) if z & 1 else z >> 1
                require(before >= 0, "index")
                of_row[token] = before
            indices.append(of_row)
        require(bits.held == 0, "bits behind the indices")
        self.rows = []
        for of_row in indices:
            frequencies = {token: self.frequency(index, m) for token, index in of_row.items()}
            left = (1 << self.k) - sum(frequencies.values())
            require(left >= 0, "sum")
            frequencies[low + rest] = left
            slots = []  # (token, frequency, start) of each slot
            for token in sorted(frequencies):
                slots += [(token, frequencies[token], len(slots))] * frequencies[token]
            self.rows.append(slots)

    @staticmethod
    def frequency(index, m):
        if index < 2 << m:
            return index
        return ((1 << m) + index % (1 << m)) << (index >> m) - 1


class Lanes:
    def __init__(self, reader, number, words=None):
        self.states = [reader.uint(4) for _ in range(number)]
        require(all(2**15 <= x < 2**31 for x in self.states), "states")
        count = reader.varint() if words == "counted" else reader.left() // 2
        require(words == "counted" or reader.left() % 2 == 0, "half a word")
        self.words = [reader.uint(2) for _ in range(count)][::-1]

    def refill(self, lane):
        if self.states[lane] < 2**15:
            require(self.words, "words")
            self.states[lane] = self.states[lane] << 16 | self.words.pop()

    def token(self, lane, slots, k):
        slot = self.states[lane] % (1 << k)
        token, frequency, start = slots[slot]
        self.states[lane] = frequency * (self.states[lane] >> k) + slot - start
        self.refill(lane)
        return token

    def raw(self, lane, count):
        bits = self.states[lane] % (1 << count)
        self.states[lane] >>= count
        self.refill(lane)
        return bits

    def end(self):
        require(not self.words and all(x == 2**15 for x in self.states), "the end")


def rans(data, alphabet, count, contexts=None, classes=0):
    if alphabet == 1 or count == 0:
        require(data == b"", "bytes for nothing")
        return [0] * count
    reader = Reader(data)
    if data and data[0] & 3 == 0:
        require(reader.uint(1) == 0, "form 0")
        symbol = reader.varint()
        require(symbol < alphabet and reader.left() == 0, "the symbol")
        return [symbol] * count
    large = alphabet > 256
    fewer = max(0, (classes - 1).bit_length() - 4) if classes else 0
    kept = ((classes - 1) >> fewer) + 1 if classes else 0
    model = Model(reader, count, 223 if large else alphabet, kept)
    centre = reader.uint(2) if large else 0
    require(centre < alphabet and not (large and model.shift is not None and 2 * centre != alphabet - 1), "centre")
    of_block = [0]
    if model.blocks > 1:
        of_block = take_block_classes(reader, -(-count >> model.block_log2), model.blocks)
    width = {1: 1, 2: 8, 3: 32}[model.form]
    lanes, tokens, raws = Lanes(reader, width), [], []
    for first in range(0, count, width):
        in_round = range(first, min(count, first + width))
        for i in in_round:
            row = of_block[i >> model.block_log2 if model.blocks > 1 else 0] * model.groups
            if model.shift is not None:
                row += contexts[i] >> 1 >> fewer >> model.shift
            tokens.append(lanes.token(i - first, model.rows[row], model.k))
        for i in in_round:
            index = tokens[i] + 1 >> 1
            raws.append(lanes.raw(i - first, (index - 16 >> 3) + 1) if large and index >= 16 else 0)
    lanes.end()
    out = []
    for i, (token, raw) in enumerate(zip(tokens, raws)):
        symbol = token
        if large:
            index = token + 1 >> 1
            size = index if index < 16 else (8 + (index & 7) << (index - 16 >> 3) + 1) + raw
            symbol = centre + (size if token & 1 else -size)
            require(0 <= symbol < alphabet, "symbol")
        mirrored = model.shift is not None and contexts[i] & 1
        out.append(alphabet - 1 - symbol if mirrored else symbol)
    return out


def take_block_classes(reader, count, classes):
    model = Model(reader, count, classes, classes)
    require(model.form == 1 and model.blocks == 1, "form of the block classes")
    lanes, out, before = Lanes(reader, 1, "counted"), [], 0
    for _ in range(count):
        before = lanes.token(0, model.rows[0 if model.shift is None else before >> model.shift], model.k)
        out.append(before)
    lanes.end()
    return out


# --- schemes/grid_quantizer.md, contexts

# --- container.md

CODERS = {0: unpack, 2: rans, 3: "rans-dither", 4: elias}


class Tensor:
    def __init__(self, reader):
        self.name = reader.take(reader.varint()).decode()
        self.code = reader.uint(1)
        self.item, self.word, self.numpy = DTYPES[self.code]
        self.shape = [reader.varint() for _ in range(reader.uint(1))]
        self.scheme = reader.varint()
        self.size = int(np.prod(self.shape, dtype=object)) if self.shape else 1


class Schema:
    def __init__(self, body):
        reader = Reader(body)
        self.chunk_log2, alignment, self.origin = reader.take(3)
        require(12 <= self.chunk_log2 <= 22 and alignment == 0 and 1 <= self.origin <= 3, "schema's head")
        self.schemes = [(reader.take(reader.varint()).decode("ascii"), reader.uint(2)) for _ in range(reader.varint())]
        self.tensors = [Tensor(reader) for _ in range(reader.varint())]
        require(reader.left() == 0, "schema's end")

    def chunk_len(self, tensor):
        if tensor.item <= 32:
            return 1 << self.chunk_log2
        return max(1, (32 << self.chunk_log2) // tensor.item)


class Decoder:
    """One tensor's: stored parameters, then chunks."""

    def __init__(self, schema, ordinal, keys, stored, sides, mask=None):
        self.tensor, self.key, self.ordinal = schema.tensors[ordinal], keys[0], ordinal
        text, coder = schema.schemes[self.tensor.scheme]
        require(coder in CODERS, "a coder that is not here")
        self.symbols, self.scheme, self.private = CODERS[coder], None, text.startswith("bq:")
        require(coder == 0 or not self.private, "coder of a private scheme")
        if text != "raw":
            require(self.tensor.code in FLOATS, "scheme")
            length, size = schema.chunk_len(self.tensor), self.tensor.size
            chunks = [min(length, size - first) for first in range(0, size, length)]
            place = Place(*keys, ordinal, self.tensor.shape, chunks, side=sides.get(self.tensor.name), mask=mask)
            place.memory = lambda: schema.memory.setdefault("h/" + self.tensor.name, np.zeros(self.tensor.size))
            self.scheme = scheme_of(text, stored, place)

    def chunk(self, reader, form, exceptions, first, count):
        """The bytes that the digest is of, and the elements."""
        if self.scheme is None:
            return self.raw_chunk(reader, form, count)
        code = self.take_code(self.scheme, reader, Code(first, count, exceptions))
        streams = self.streams_of(code)
        for i, (owner, stream) in enumerate(streams):
            last = i + 1 == len(streams)
            owner.symbols.append(self.take_symbols(reader, form, stream, last))
        values = self.scheme.values(code)
        return values.tobytes() if self.scheme.digested else b"", self.output(values, first)

    def take_code(self, scheme, reader, code):
        """Parameters, and those of the schemes below."""
        code.params = scheme.take_params(reader, code)
        code.streams = scheme.streams(code)
        if scheme.inner:
            first, count = scheme.inner_range(code)
            below = Code(first, count, take_exceptions(reader, count))
            code.below = self.take_code(scheme.inner, reader, below)
        return code

    def streams_of(self, code):
        return [(code, stream) for stream in code.streams] + (self.streams_of(code.below) if code.below else [])

    def take_symbols(self, reader, form, stream, last):
        alphabet = stream.alphabet or 256
        require(form == 0 or not self.private, "form of a private scheme")
        if form == 1:
            symbol = reader.varint()
            require(stream.count and symbol < alphabet, "constant")
            return [symbol] * stream.count
        require(form == 0 or self.symbols != unpack, "stored, though by pack")
        data = reader.take(reader.left() if last else reader.varint())
        coder = unpack if form == 2 else self.symbols
        if stream.alphabet == 0 and coder in (unpack, elias):
            require(len(data) == stream.count, "bytes")
            return list(data)
        if coder != "rans-dither":
            return coder(data, alphabet, stream.count)
        if stream.contexts is None:
            return rans(data, alphabet, stream.count)
        return rans(data, alphabet, stream.count, stream.contexts(), stream.classes)

    def output(self, values, first):
        if self.tensor.code in (1, 4):
            words = (word_of(self.key, self.ordinal, 2, 255, first + i) for i in range(len(values)))
            out = [narrow(x, self.tensor.code, word) for x, word in zip(values, words)]
            return np.array(out, np.uint16).tobytes()
        return values.astype(self.tensor.numpy).tobytes()

    def raw_chunk(self, reader, form, count):
        size, word = count * self.tensor.item, self.tensor.word
        if form == 1:
            planes = bytes([reader.varint()]) * size
        elif form == 0 and self.symbols in (rans, "rans-dither"):
            planes = bytes(rans(reader.take(reader.left()), 256, size))
        else:
            planes = reader.take(size)
        words = size // word
        elements = bytes(planes[j * words + i] for i in range(words) for j in range(word))
        return elements, elements

    def fixed_size(self):
        """Of a chunk that is the whole tensor, where nothing needs to say its length; else None."""
        if self.symbols != unpack:
            return None
        size = self.tensor.size
        if self.scheme is None:
            return size * self.tensor.item
        params = self.scheme.fixed_params(size)
        if params is None or self.scheme.inner or self.scheme.streams_vary:
            return None
        streams = self.scheme.streams(Code(0, size, []))
        return params + packed_size(streams[0].alphabet, size) if len(streams) == 1 else None


def take_exceptions(reader, count):
    out, index = [], 0
    number = reader.varint()
    for _ in range(number):
        index += reader.varint()
        require(index < count, "exception beyond the chunk")
        out.append((index, reader.uint(4)))
        index += 1
    return out


def digest(chunks):
    return xxh3(b"".join(xxh3(chunk).to_bytes(8, "little") for chunk in chunks)) & 0xFFFFFFFF


class Frames:
    """Frames of a file or of a long bare message."""

    def __init__(self, reader, base, k, sides):
        self.reader, self.base, self.k, self.lengths, self.sides = reader, base, k, [], sides

    def next(self):
        start = self.reader.at
        head = self.reader.uint(4)
        size, form, exceptions = head & 0xFFFFFFF, head >> 28 & 3, head >> 30 & 1
        payload = self.reader.take(size)
        covered = self.reader.data[start:self.reader.at]
        require(self.reader.uint(8) == xxh3(covered, self.base + self.k), "frame %d" % self.k)
        require(form < 3 and head >> 31 == 0, "form")
        self.k += 1
        self.lengths.append(size)
        return Reader(payload), form, exceptions

    def tensor(self, schema, ordinal, keys, mask=None):
        """Its digest and its elements' bytes."""
        tensor = schema.tensors[ordinal]
        length = schema.chunk_len(tensor)
        starts = range(0, max(tensor.size, 1), length)
        decoder, digested, elements = None, [], []
        if len(starts) > 1:
            stored, form, exceptions = self.next()
            decoder = Decoder(schema, ordinal, keys, stored, self.sides, mask)
            require(form == 0 and not exceptions and stored.left() == 0, "parameter frame")
        for first in starts:
            count = min(length, tensor.size - first)
            payload, form, exceptions = self.next()
            decoder = decoder or Decoder(schema, ordinal, keys, payload, self.sides, mask)
            listed = take_exceptions(payload, count) if exceptions else []
            require(bool(listed) == bool(exceptions), "exceptions")
            part = decoder.chunk(payload, form, listed, first, count)
            require(payload.left() == 0, "frame's end")
            digested.append(part[0])
            elements.append(part[1])
        return digest(digested), b"".join(elements)


def take_block(reader, seed):
    start = reader.at
    tag, size = reader.uint(1), reader.varint()
    body = reader.take(size)
    covered = reader.data[start:reader.at]
    check = reader.uint(8)
    require(check == xxh3(covered, seed), "block %d" % tag)
    return tag, body, check


def take_prologue(reader):
    head = reader.take(12)
    require(head[:8] == bytes.fromhex("894752410D0A1A0A"), "magic")
    require(reader.uint(4) == xxh3(head) & 0xFFFFFFFF, "prologue's check")
    require(head[8] == 1 and head[11] == 0, "version or flags")
    return head[10]


def read_schema_file(data):
    reader = Reader(data)
    require(take_prologue(reader) == 2, "kind")
    tag, body, check = take_block(reader, 0)
    require(tag == 1 and reader.left() == 0, "schema file")
    return Schema(body), check


# Of whose pages the line is "Draws: no".
NO_DRAWS = ("raw", "bq", "uniform", "sign", "onebit", "topk", "threshold", "sum", "ef", "ec", "momentum", "diana",
            "shrink", "at", "mask")
MEMORIES = ("ef", "ec", "momentum", "diana")


def keys_of(seed, worker, step):
    """Of the message, of the step, of the run."""
    return message_key(seed, worker, step), step_key(seed, step), message_key(seed, None, None)


def draws(text):
    """Whether a scheme's text, or one below it, draws random numbers."""
    return any(part.partition(":")[0] not in NO_DRAWS for part in text.split("/"))


def take_state(body):
    """Role and memory of a STATE block."""
    reader = Reader(body)
    role, memory = reader.uint(1), reader.take(reader.varint()).decode("ascii")
    require(role in (1, 2) and memory and reader.left() == 0, "STATE")


def side_digest(schema, sides):
    """Of a dump."""
    def of(tensor):
        values, length = np.asarray(sides[tensor.name], np.float32).reshape(-1), schema.chunk_len(tensor)
        chunks = [values[at:at + length].tobytes() for at in range(0, max(tensor.size, 1), length)]
        return xxh3(b"".join(xxh3(chunk).to_bytes(8, "little") for chunk in chunks)).to_bytes(8, "little")
    return xxh3(b"".join(of(tensor) for tensor in schema.tensors if schema.schemes[tensor.scheme][0].startswith("ndqsg")))


def read_index_set(data):
    """rounds.md: {name: its mask}, and the set's name."""
    sizes = {}
    tensors = decode_message(data, kinds=(4,), sizes=sizes)
    masks = {name: np.frombuffer(elements, np.uint8).reshape(sizes[name], -1).any(1) if elements else np.zeros(0, bool)
             for name, elements in tensors.items()}
    return masks, int.from_bytes(data[-16:-8], "little")


def decode_message(data, sides=None, memory=None, index_set=None, kinds=(1, 3, 5), sizes=None):
    """{name: bytes of its elements} of a whole file. `sides`: side information, arrays by name. `memory`: {VECTOR/NAME:
    float64 values} that the decoder has of the messages before, brought to the next step; none of the first.
    `index_set`: of read_index_set, for an answer to it. `sizes` receives how many elements there are."""
    sides = sides or {}
    reader = Reader(data)
    kind = take_prologue(reader)
    require(kind in kinds, "kind")
    check, k, tag, schema, states = 0, 0, None, None, 0
    while tag != 2:
        tag, body, check = take_block(reader, check)
        require((tag == 1) == (k == 0), "order of blocks")
        schema = schema or Schema(body)
        if tag == 4:
            take_state(body)
            states += 1
        k += 1
    require(states == (kind == 3), "STATE of a state, and of nothing else")
    for tensor in schema.tensors:
        text, _ = schema.schemes[tensor.scheme]
        sums = any(part.partition(":")[0] == "sum" for part in text.split("/"))
        require(sums == (kind == 5) or (kind == 5 and text == "raw" and tensor.code not in FLOATS), "sums of this kind")
    message = Reader(body)
    flags = message.varint()
    require(flags & ~63 == 0, "flags")
    if kind == 3:
        require(flags & 21 == 21, "flags of a state")
    else:
        require((flags & 1) == any(draws(text) for text, _ in schema.schemes), "seed")
        remembers = any(text.partition("/")[0].partition(":")[0] in MEMORIES for text, _ in schema.schemes)
        require(remembers == bool(flags & 16), "the message before")
    seed = message.uint(8) if flags & 1 else None
    worker = message.varint() if flags & 2 else None
    step = message.varint() if flags & 4 else None
    previous = message.uint(8) if flags & 16 else 0
    side = message.uint(8) if flags & 32 else None
    require(message.left() == 0, "message's end")
    answers = any(text == "at" or text.startswith("at/") for text, _ in schema.schemes)
    if answers:
        require(side is not None and side == index_set[1], "index set")
    else:
        require(side is None or side == side_digest(schema, sides), "side information")
    require(kind != 4 or all(text == "mask" for text, _ in schema.schemes), "an index set's schemes")
    needs = previous and any(text.startswith("diana") for text, _ in schema.schemes)
    require(kind == 3 or not needs or memory is not None, "memory of the messages before")
    keys = keys_of(seed or 0, worker, step)
    schema.memory = {} if memory is None else memory
    frames = Frames(reader, check, k, sides)
    digests, out = [], {}
    for ordinal, tensor in enumerate(schema.tensors):
        mask = index_set[0][tensor.name] if answers else None
        if sizes is not None:
            sizes[tensor.name] = tensor.size
        its_digest, out[tensor.name] = frames.tensor(schema, ordinal, keys, mask)
        digests.append(its_digest)
    start = reader.at
    tag, body, _ = take_block(reader, frames.base + frames.k)
    size, end = reader.at - start, Reader(body)
    require(tag == 0x7F, "END")
    if flags & 8:
        require([end.uint(4) for _ in digests] == digests, "digests")
    require([end.varint() for _ in frames.lengths] == frames.lengths and end.left() == 0, "lengths")
    require(reader.uint(4) == size and reader.take(4) == b"GZnd" and reader.left() == 0, "tail")
    return out


def decode_bare(schema_data, data, sides=None):
    sides = sides or {}
    schema, schema_digest = read_schema_file(schema_data)
    reader = Reader(data)
    require(reader.take(5) == b"\x89GRb\x01", "magic")
    flags = reader.uint(1)
    require(reader.uint(8) == schema_digest, "another schema")
    seed = reader.uint(8)
    worker = reader.varint() if flags & 1 else None
    step = reader.varint() if flags & 2 else None
    keys = keys_of(seed, worker, step)
    digests, out = [], {}
    if sum(tensor.size for tensor in schema.tensors) > 2**22:
        frames = Frames(reader, xxh3(data[:reader.at], schema_digest), 0, sides)
        for ordinal, tensor in enumerate(schema.tensors):
            its_digest, out[tensor.name] = frames.tensor(schema, ordinal, keys)
            digests.append(its_digest)
        covered, seed = data[reader.at:reader.at + 4], frames.base + frames.k
    else:
        covered, seed = data[:-8], schema_digest
        require(int.from_bytes(data[-8:], "little") == xxh3(covered, seed), "check")
        for ordinal, tensor in enumerate(schema.tensors):
            its_digest, out[tensor.name] = bare_tensor(reader, schema, ordinal, keys, flags >> 2 & 1, sides)
            digests.append(its_digest)
    require(reader.uint(4) == xxh3(b"".join(d.to_bytes(4, "little") for d in digests)) & 0xFFFFFFFF, "digest")
    require(reader.uint(8) == xxh3(covered, seed) and reader.left() == 0, "check")
    return out


def bare_tensor(reader, schema, ordinal, keys, exceptions, sides):
    """A tensor of a short bare message: one chunk. Its length is stored, or for `pack` follows from parameters."""
    tensor = schema.tensors[ordinal]
    decoder = Decoder(schema, ordinal, keys, reader, sides)
    listed = take_exceptions(reader, tensor.size) if exceptions else []
    size = decoder.fixed_size()
    payload = Reader(reader.take(reader.uint(4) if size is None else size))
    digested, elements = decoder.chunk(payload, 0, listed, 0, tensor.size)
    require(payload.left() == 0, "payload's end")
    return digest([digested]), elements
