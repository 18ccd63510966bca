"""coders/rans.md and coders/rans-dither.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import Reader, require

LANES = {1: 1, 2: 8, 3: 32}
FIRST_STATE = 2**15


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
        return quotient << parameter | sum(self.bit() << i for i in range(parameter))


class Model:
    """Frequencies of tokens, a row for each class of blocks and group of contexts. `classes`: of contexts, or 0."""

    def __init__(self, reader, count, tokens, classes):
        head, second = reader.uint(1), reader.uint(1)
        self.form, contexts, m = head & 3, head >> 2 & 7, head >> 5
        self.k, first_rice, has_blocks = (second & 7) + 8, second >> 3 & 15, second >> 7
        self.shift, self.groups = None, 1
        if contexts:
            self.shift = contexts - 1
            require(classes > 0, "contexts where there are none")
            require(self.shift == 0 or classes - 1 >> self.shift - 1 > 0, "groups larger than needed")
            self.groups = (classes - 1 >> self.shift) + 1
        self.block_log2, self.blocks = 0, 1
        if has_blocks:
            byte = reader.uint(1)
            self.block_log2, self.blocks = (byte & 3) + 5, (byte >> 2) + 1
            require(2 <= self.blocks <= 8, "%d classes of blocks" % self.blocks)
        rows = self.blocks * self.groups
        require(rows << self.k <= min(2**19, 2**15 + 128 * count), "too many slots")
        next_rice = reader.uint(1) if rows > 1 else 0
        low, span, rest = reader.uint(1), reader.uint(1), reader.uint(1)
        require(low + span < tokens and rest <= span and next_rice <= 15, "tokens beyond the alphabet")
        bits, indices = LowBits(reader), []
        for row in range(rows):
            above = indices[row - 1 if row % self.groups else row - self.groups] if row else None
            indices.append(take_row(bits, above, low, span, rest, next_rice if row else first_rice))
        require(bits.held == 0, "bits behind the indices")
        self.rows = [slots_of(row, low + rest, m, self.k) for row in indices]


def take_row(bits, above, low, span, rest, rice):
    """{token: index of its frequency}."""
    row, before = {}, 0
    for token in range(low, low + span + 1):
        if token != low + rest:
            z = bits.rice(rice)
            expected = above[token] if above is not None else before
            before = expected + (-(z + 1 >> 1) if z & 1 else z >> 1)
            require(0 <= before < 2**16, "an index out of range")
            row[token] = before
    return row


def slots_of(row, rest, m, k):
    """(token, frequency, start) of each of the 2^k slots."""
    frequencies = {}
    for token, index in row.items():
        # An index that is out of range would be a number of thousands of bits.
        require(index >> m <= 16, "an index out of range")
        frequencies[token] = index if index < 2 << m else (1 << m) + index % (1 << m) << (index >> m) - 1
    frequencies[rest] = (1 << k) - sum(frequencies.values())
    require(frequencies[rest] >= 0, "a row of more than 2^k")
    slots = []
    for token in sorted(frequencies):
        slots += [(token, frequencies[token], len(slots))] * frequencies[token]
    return slots


class Lanes:
    """The states, and the words that refill them. Words go to the payload's end, or their number stands before them."""

    def __init__(self, reader, number, counted=False):
        self.states = [reader.uint(4) for _ in range(number)]
        require(all(FIRST_STATE <= x < 2**31 for x in self.states), "a first state out of range")
        require(counted or reader.left() % 2 == 0, "half a word")
        count = reader.varint() if counted else reader.left() // 2
        self.words, self.next = np.frombuffer(reader.take(2 * count), "<u2").tolist(), 0

    def refill(self, lane):
        if self.states[lane] < FIRST_STATE:
            require(self.next < len(self.words), "words too few")
            self.states[lane] = self.states[lane] << 16 | self.words[self.next]
            self.next += 1

    def token(self, lane, slots, k):
        slot = self.states[lane] & (1 << k) - 1
        token, frequency, start = slots[slot]
        self.states[lane] = frequency * (self.states[lane] >> k) + slot - start
        self.refill(lane)
        return token

    def raw(self, lane, count):
        bits = self.states[lane] & (1 << count) - 1
        self.states[lane] >>= count
        self.refill(lane)
        return bits

    def end(self):
        require(self.next == len(self.words), "words left over")
        require(all(x == FIRST_STATE for x in self.states), "a last state that is not the first")


def decode(data, alphabet, count, contexts=None, classes=0):
    """`contexts()`: one for each symbol, 2 * class + mirrored, with `classes` classes."""
    alphabet = alphabet or 256
    if alphabet == 1 or count == 0:
        require(data == b"", "bytes for nothing")
        return np.zeros(count, np.int64)
    reader = Reader(data)
    if data and data[0] & 3 == 0:
        require(reader.uint(1) == 0, "form 0 with other bits")
        symbol = reader.varint()
        require(symbol < alphabet, "a symbol beyond the alphabet")
        reader.end("form 0")
        return np.full(count, symbol, np.int64)
    large = alphabet > 256
    shift = max(0, (classes - 1).bit_length() - 4) if classes else 0
    model = Model(reader, count, 223 if large else alphabet, (classes - 1 >> shift) + 1 if classes else 0)
    centre = reader.uint(2) if large else 0
    require(centre < alphabet, "a centre beyond the alphabet")
    rows = np.zeros(count, np.int64)
    if model.blocks > 1:
        of_block = take_block_classes(reader, -(-count >> model.block_log2), model.blocks)
        rows = np.repeat(of_block, 1 << model.block_log2)[:count] * model.groups
    mirrored = np.zeros(count, bool)
    if model.shift is not None:
        require(not large or 2 * centre == alphabet - 1, "contexts, and a centre that is not the middle")
        contexts = contexts()
        rows, mirrored = rows + (contexts >> 1 >> shift >> model.shift), contexts & 1 == 1
    tokens, raws = take_tokens(Lanes(reader, LANES[model.form]), model, rows.tolist(), large)
    symbols = from_tokens(np.array(tokens), np.array(raws), centre) if large else np.array(tokens)
    require(symbols.min() >= 0 and symbols.max() < alphabet, "a symbol beyond the alphabet")
    return np.where(mirrored, alphabet - 1 - symbols, symbols)


def take_tokens(lanes, model, rows, large):
    """Round by round: the tokens of all lanes, then their raw bits."""
    tokens, raws, width = [], [], len(lanes.states)
    for first in range(0, len(rows), width):
        last = min(first + width, len(rows))
        for i in range(first, last):
            tokens.append(lanes.token(i - first, model.rows[rows[i]], model.k))
        for i in range(first, last) if large else ():
            index = tokens[i] + 1 >> 1
            raws.append(lanes.raw(i - first, (index - 16 >> 3) + 1) if index >= 16 else 0)
    lanes.end()
    return tokens, raws


def from_tokens(tokens, raws, centre):
    """Symbols of an alphabet above 256."""
    index = tokens + 1 >> 1
    magnitude = np.where(index < 16, index, (8 + (index & 7) << np.maximum(index - 16 >> 3, -1) + 1) + raws)
    return centre + np.where(tokens & 1, magnitude, -magnitude)


def take_block_classes(reader, count, classes):
    model = Model(reader, count, classes, classes)
    require(model.form == 1 and model.blocks == 1, "the form of the classes of blocks")
    lanes, out, before = Lanes(reader, 1, counted=True), [], 0
    for _ in range(count):
        before = lanes.token(0, model.rows[0 if model.shift is None else before >> model.shift], model.k)
        out.append(before)
    lanes.end()
    return out
