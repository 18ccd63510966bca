"""What the schemes share: where one stands, the code of a chunk, streams, steps, exceptions, the contexts of draws."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.reading import require

F4 = np.float32
REGULAR = 2.0**126


class Place:
    """Where a scheme stands: whose draws, which tensor, its chunks (how many elements each), which stage.

    `side`: float32 side information of the tensor, or None. `mask`: the places of the index set that the message
    answers, or None. `memory`: the vector h of diana, float64, or None. `shape`: of a tensor itself, else (). Grids
    store scales for their coder if `stores_scales`.
    """

    def __init__(self, keys, ordinal, chunks, stage=0, side=None, mask=None, memory=None, shape=(),
                 stores_scales=False):
        self.keys, self.ordinal, self.chunks, self.stage = keys, ordinal, chunks, stage
        self.side, self.mask, self.memory, self.shape, self.stores_scales = side, mask, memory, shape, stores_scales
        self.size = sum(chunks)
        self.starts = np.concatenate([[0], np.cumsum(np.array(chunks, np.int64))]).astype(np.int64).tolist()

    def below(self, chunks):
        return Place(self.keys, self.ordinal, chunks, self.stage + 1, stores_scales=self.stores_scales)

    def part(self, number):
        """plus.md: of a part of a sum."""
        return Place(self.keys, self.ordinal, self.chunks, self.stage + 16 * number, shape=self.shape,
                     stores_scales=self.stores_scales)

    def words(self, purpose, places, sub=0, key=None):
        return draws.words(key or self.keys.message, self.ordinal, self.stage, purpose, places, sub)

    def shared_key(self, shared):
        return self.keys.step if shared else self.keys.message


class Stream:
    """`contexts`, `scales`: make them, when a coder asks; None for a stream without."""

    def __init__(self, alphabet, count, contexts=None, classes=0, scales=None):
        self.alphabet, self.count, self.contexts, self.classes = alphabet, count, contexts, classes
        self.scales = scales


class Exceptions:
    """Places in the chunk, and the bits of float32 there."""

    def __init__(self, places=(), bits=()):
        self.places, self.bits = np.array(places, np.int64), np.array(bits, np.uint32)

    def magnitudes(self):
        return np.abs(self.bits.view(F4).astype(np.float64))


class Code:
    """Of chunk `index` of what a scheme is given: parameters, streams, their symbols, exceptions, the code below."""

    def __init__(self, place, index, exceptions):
        self.index, self.exceptions = index, exceptions
        self.first, self.count = place.starts[index], (place.chunks[index] if place.chunks else 0)
        self.params, self.streams, self.symbols, self.below = None, [], [], None
        self.rest = None  # of a sum, the code of its last part

    def places(self):
        return np.arange(self.first, self.first + self.count)


class Scheme:
    """Of one tensor, from its stored parameters."""
    inner = None  # the scheme below; of a sum, what stands before the last +
    rest = None  # of a sum, its last part
    digested = True  # whether a chunk's digest is of its values

    def __init__(self, place):
        self.place = place

    def take_params(self, reader, code):
        """Of a chunk."""
        return None

    def fixed_params(self, count):
        """Bytes of the parameters of a chunk of `count` elements; None where that, or a stream, varies."""
        return 0

    def streams(self, code):
        return []

    def values(self, code):
        """float32, one an element of the chunk."""
        raise NotImplementedError

    def contexts(self, code):
        return lambda: dither_contexts(self.place.words(draws.ROUNDING, code.places()))


def dither_contexts(words):
    """grid_quantizer.md, contexts: 2 * class + mirrored, of each word."""
    t = (words >> 9).astype(np.int64)
    z = 2 * np.minimum(t, 2**23 - 1 - t) + 1
    e = np.frexp(z.astype(np.float64))[1] - 1
    classes = np.maximum(0, 4 * (e - 22) + (4 * z >> e) - 4 + 28)
    return 2 * classes + (t < 2**22)


def take_float(reader):
    return np.array(reader.uint(4), np.uint32).view(F4)[()]


def take_floats(reader, count):
    return np.frombuffer(reader.take(4 * count), "<f4")


def take_double(reader):
    return np.frombuffer(reader.take(8), "<f8")[0]


def take_steps(reader, count):
    """Each +0, or from 2^-126 to 2^126."""
    steps = take_floats(reader, count)
    bits = steps.view(np.uint32)
    require(np.all((bits == 0) | (bits >= 0x00800000) & (bits <= 0x7E800000)), "a step out of range")
    return steps


def take_step(reader):
    return take_steps(reader, 1)[0]


def require_falling(steps):
    for a, b in zip(steps, steps[1:]):
        require(a > b or a == b <= 2.0**-126, "steps that do not fall")
    require(bool(steps[0]) == bool(steps[-1]), "a step of 0 beside others")


def of_buckets(values, code, bucket):
    """One a bucket, or one for all, as one an element."""
    return values[np.arange(code.count) // bucket] if bucket else np.full(code.count, values[0], F4)


def buckets_in(count, bucket):
    return -(-count // bucket)


def put_back(values, code, at_rest=None, limit=REGULAR):
    """Puts exceptions in their places. Each must have the symbol at rest (`at_rest`: of every element, whether), and be
    irregular or above `limit` (one for all, or one an element)."""
    places, magnitudes = code.exceptions.places, code.exceptions.magnitudes()
    limit = np.minimum(limit[places] if np.ndim(limit) else limit, REGULAR)
    require(not np.any(magnitudes <= limit), "an exception without need")
    require(at_rest is None or np.all(at_rest[places]), "a symbol in the place of an exception")
    values.view(np.uint32)[places] = code.exceptions.bits
    return values
