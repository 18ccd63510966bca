"""schemes/level_quantizer.md, with its presets, and two_means.md."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import require
from reference.schemes.parts import (F4, REGULAR, Scheme, Stream, buckets_in, of_buckets, put_back, take_float,
                                     take_floats)


def require_rising(magnitudes, least, most):
    require(least <= magnitudes[0] and magnitudes[-1] <= most, "levels out of range")
    exact = magnitudes.astype(np.float64)
    require(np.all(exact[1:] >= exact[:-1] * (1 + 2.0**-16)), "levels that do not rise")


def mirrored(magnitudes, *middle):
    return np.concatenate([-magnitudes[::-1], np.array(middle, F4), magnitudes])


class Truncated(Scheme):
    """truncated.md and its presets: the levels are the values."""

    def __init__(self, stored, place, name, bits):
        super().__init__(place)
        first = take_float(stored)
        if first.view(np.uint32) == 0:
            self.levels = np.zeros(1, F4)
            return
        if name == "tqsgd":
            require(2.0**-126 <= first, "half an interval out of range")
            magnitudes = np.arange(1, 2**bits, 2).astype(F4) * first
            require(magnitudes[-1] <= 2.0**127, "half an interval out of range")
        else:
            magnitudes = np.concatenate([[first], take_floats(stored, 2 ** (bits - 1) - 1)])
            require_rising(magnitudes, 2.0**-126, 2.0**126)
        self.levels = mirrored(magnitudes)

    def streams(self, code):
        if len(self.levels) == 1:
            return [Stream(1, code.count)]
        return [Stream(len(self.levels), code.count, self.contexts(code), 32)]

    def values(self, code):
        return put_back(self.levels[code.symbols[0]], code, code.symbols[0] == 0)


class Scaled(Scheme):
    """nuqsgd.md, alq.md, amq.md: levels times a scale of a bucket."""

    def __init__(self, stored, place, name, s, bucket):
        super().__init__(place)
        self.bucket = bucket
        inner = np.ldexp(F4(1), np.arange(-s, 0)) if name == "nuqsgd" else take_floats(stored, s)
        magnitudes = np.concatenate([inner, [1]]).astype(F4)
        require_rising(magnitudes, 2.0**-60, 1)
        self.levels = mirrored(magnitudes, 0)
        self.least = F4(2.0**-126 / float(magnitudes[0]))
        if float(self.least) * float(magnitudes[0]) < 2.0**-126:
            self.least = np.nextafter(self.least, F4(1))
        self.scale = None if bucket else self.take_scales(stored, 1)

    def take_scales(self, reader, count):
        scales = take_floats(reader, count)
        require(np.all((scales.view(np.uint32) == 0) | (scales >= self.least) & (scales <= REGULAR)),
                "a scale out of range")
        return scales

    def fixed_params(self, count):
        return 4 * buckets_in(count, self.bucket) if self.bucket else 0

    def take_params(self, reader, code):
        return self.take_scales(reader, buckets_in(code.count, self.bucket)) if self.bucket else self.scale

    def streams(self, code):
        return [Stream(len(self.levels), code.count, self.contexts(code), 32)]

    def values(self, code):
        scales, at_rest = of_buckets(code.params, code, self.bucket), code.symbols[0] == len(self.levels) // 2
        require(np.all(at_rest[scales == 0]), "a symbol where the scale is 0")
        values = np.where(at_rest, F4(0), scales * self.levels[code.symbols[0]])
        return put_back(values, code, at_rest)


class Means(Scheme):
    """two_means.md"""

    def __init__(self, stored, place, two, by_row):
        super().__init__(place)
        self.two, self.row = two, 0
        if by_row:
            self.row = stored.varint()
            require(self.row and (place.stage or place.size % self.row == 0), "rows that do not divide the tensor")
        self.means = None if by_row else self.take_means(stored, 1)

    def take_means(self, reader, count):
        """Two columns, for the symbols 0 and 1."""
        width = 2 if self.two else 1
        means = take_floats(reader, count * width).reshape(count, width)
        plus, minus = means[:, 0], means[:, 1] if self.two else F4(0) - means[:, 0]
        require(np.all((plus >= 0) & (plus <= REGULAR) & ~np.signbit(plus)), "a mean out of range")
        require(np.all((minus <= 0) & (minus >= -REGULAR) & (np.signbit(minus) == (minus != 0))), "a mean out of range")
        return np.stack([plus, minus], 1)

    def pieces(self, first, count):
        return (first + count - 1) // self.row - first // self.row + 1 if count else 0

    def fixed_params(self, count):
        return self.pieces(0, count) * (8 if self.two else 4) if self.row else 0

    def take_params(self, reader, code):
        return self.take_means(reader, self.pieces(code.first, code.count)) if self.row else self.means

    def streams(self, code):
        return [Stream(2, code.count)]

    def values(self, code):
        pieces = code.places() // self.row - code.first // self.row if self.row else np.zeros(code.count, np.int64)
        symbols = code.symbols[0]
        require(np.all((symbols == 0) | (code.params[pieces, 1] != 0)), "a symbol of a mean of 0")
        return put_back(code.params[pieces, symbols], code, symbols == 0)
