"""schemes/rotation.md, with nearest_normal.md and rounded_normal.md, which stand below its presets."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.reading import require
from reference.schemes.parts import F4, Scheme, Stream, buckets_in, put_back, take_floats

CENTROIDS = {1: [0.7978846], 2: [0.45278004, 1.5104176], 3: [0.24509416, 0.7560052, 1.3439093, 2.1519456],
             4: [0.12839502, 0.38804823, 0.656759, 0.94234025, 1.256231, 1.618046, 2.0690167, 2.7325888]}
LEVELS = {2: [0.8285143], 3: [0.31801653, 1.0003355, 1.8847173],
          4: [0.14317425, 0.43349558, 0.73654723, 1.0639938, 1.4345206, 1.88489, 2.5125089]}
ROOT_HALF = np.array(0x3F3504F3, np.uint32).view(F4)[()]
MOST = 2.0**108


def padded(count, block):
    rest = count % block
    return count - rest + (1 << (rest - 1).bit_length() if rest else 0)


class Rotation(Scheme):
    """`below(stored, place)` makes the scheme below."""

    def __init__(self, stored, place, block, shared, below):
        super().__init__(place)
        self.block, self.shared = block, shared
        self.inner = below(stored, place.below([padded(count, block) for count in place.chunks]))

    def fixed_params(self, count):
        return None

    def values(self, code):
        require(np.all(code.below.exceptions.magnitudes() <= MOST), "an exception below the rotation")
        y = np.clip(self.inner.values(code.below), F4(-MOST), F4(MOST))
        whole = code.count - code.count % self.block
        x = np.concatenate([transformed(y[:whole], self.block), transformed(y[whole:], len(y) - whole)])[:code.count]
        return put_back(np.where(self.is_negative(code), -x, x), code, limit=2.0**96)

    def is_negative(self, code):
        places = code.places()
        words = self.place.words(draws.ROTATION, places >> 5, key=self.place.shared_key(self.shared))
        return words >> (places & 31).astype(np.uint32) & 1 == 1


def transformed(values, size):
    """Each run of `size` values, a power of two: the Walsh-Hadamard transform over the root of its length."""
    if len(values) == 0:
        return values
    m, h = size.bit_length() - 1, 1
    while h < size:
        pairs = values.reshape(-1, 2, h)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
        h *= 2
    return values * (F4(2.0 ** -(m // 2)) * (ROOT_HALF if m % 2 else F4(1)))


class NormalLevels(Scheme):
    """nearest_normal.md, or where it `rounds` rounded_normal.md. A bucket's table: the value of each symbol."""

    def __init__(self, stored, place, bits, bucket, rounds):
        super().__init__(place)
        self.half, self.bucket, self.rounds = 2 ** (bits - 1), bucket, rounds
        self.units = np.array((LEVELS if rounds else CENTROIDS)[bits], F4)

    def take_params(self, reader, code):
        count = buckets_in(code.count, self.bucket)
        width = 2 if self.rounds else 1
        stored = take_floats(reader, count * width).reshape(count, width)
        scale, zero = stored[:, 0], np.all(stored.view(np.uint32) == 0, axis=1)
        require(np.all(zero | (scale >= 2.0 ** (-120 if self.rounds else -126)) & (scale <= 2.0**126)), "a scale")
        magnitudes = scale[:, None] * self.units
        if self.rounds:
            top = stored[:, 1]
            require(np.all(zero | (top > magnitudes[:, -1]) & (top <= 2.0**126)), "a top")
            magnitudes = np.concatenate([magnitudes, stored[:, 1:]], 1)
        return np.concatenate([-magnitudes[:, ::-1], magnitudes], 1)

    def streams(self, code):
        contexts = self.contexts(code) if self.rounds else None
        return [Stream(2 * self.half, code.count, contexts, 32 if self.rounds else 0)]

    def values(self, code):
        require(len(code.exceptions.places) == 0, "exceptions of levels of the normal law")
        buckets, symbols = np.arange(code.count) // self.bucket, code.symbols[0]
        require(np.all((code.params[buckets, -1] != 0) | (symbols == self.half)), "a symbol where the scale is 0")
        return code.params[buckets, symbols]
