"""schemes/grid_quantizer.md, multiscale.md, natural.md, bq.md: multiples of steps, powers of two."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.reading import require
from reference.schemes.parts import (F4, REGULAR, Scheme, Stream, buckets_in, of_buckets, put_back, require_falling,
                                     take_step, take_steps)
from reference.schemes.line_scales import LineScales, drops, scale_classes, steps_by_class

SUBTRACTIVE, HALF, NEAREST = range(3)


class Grid(Scheme):
    """`levels`: M; None where it is stored. `sets_aside`: whether values beyond 32,767 steps may be exceptions."""

    def __init__(self, stored, place, rounding, bucket=0, levels=None, sets_aside=False,
                 by_class=False):
        super().__init__(place)
        self.rounding, self.bucket, self.sets_aside, self.by_class = rounding, bucket, sets_aside, by_class
        self.step = None if bucket else take_step(stored)
        self.m = stored.varint() if levels is None else levels
        require(self.m <= 32767, "M above 32,767")
        require(bucket or self.step or not self.m or levels is not None, "M beside a step of 0")
        stores_scales = (place.stores_scales or by_class) and rounding != NEAREST and self.step
        self.scales = LineScales(stored, place) if stores_scales else None

    def fixed_params(self, count):
        return 4 * buckets_in(count, self.bucket) if self.bucket else 0

    def take_params(self, reader, code):
        return take_steps(reader, buckets_in(code.count, self.bucket)) if self.bucket else [self.step]

    def streams(self, code):
        if self.rounding == NEAREST:
            return [Stream(2 * self.m + 1, code.count)]
        scales = self.scales and (lambda: self.scales_of(code))
        return [Stream(2 * self.m + 1, code.count, self.contexts(code), 32, scales)]

    def scales_of(self, code):
        """For a coder."""
        t, zero = self.scales.sixteenths(code.places())
        return scale_classes(t + drops(t) if self.by_class else t, zero)

    def steps_of(self, code):
        if self.by_class and self.step:
            return steps_by_class(self.step, *self.scales.sixteenths(code.places()))
        return of_buckets(code.params, code, self.bucket)

    def values(self, code):
        steps, q = self.steps_of(code), code.symbols[0] - self.m
        require(not np.any(q[steps == 0]), "a symbol where the step is 0")
        if self.rounding == SUBTRACTIVE:
            u = draws.u_of(self.place.words(draws.ROUNDING, code.places()))
            values = np.where(steps == 0, F4(0), (q.astype(F4) - u) * steps)
        else:
            values = q.astype(F4) * steps
        limit = np.where(steps == 0, REGULAR, 32767 * steps.astype(np.float64)) if self.sets_aside else REGULAR
        return put_back(values, code, q == 0, limit)


def choose(stored, place):
    """choose.md"""
    half, bucket = stored.uint(1), stored.varint()
    require(half <= 1 and bucket <= 2**22 and not (half and bucket), "a rounding and a bucket")
    return Grid(stored, place, HALF if half else SUBTRACTIVE, bucket, sets_aside=True)


class Multiscale(Scheme):
    """multiscale.md"""

    def __init__(self, stored, place, bits):
        super().__init__(place)
        self.m, self.steps = 2 ** bits[0] - 1, take_steps(stored, len(bits))
        require_falling(self.steps)

    def fixed_params(self, count):
        return None  # two streams

    def streams(self, code):
        return [Stream(len(self.steps), code.count), Stream(2 * self.m + 1, code.count, self.contexts(code), 32)]

    def values(self, code):
        scales, q = code.symbols[0], code.symbols[1] - self.m
        require(self.steps[0] or not (np.any(q) or np.any(scales)), "a symbol where the steps are 0")
        values = q.astype(F4) * self.steps[scales]
        finest = len(self.steps) - 1 if self.steps[0] else 0
        return put_back(values, code, (q == 0) & (scales == finest))


class Natural(Scheme):
    """natural.md"""

    def __init__(self, stored, place):
        super().__init__(place)
        self.k = stored.varint()
        self.lowest = stored.varint() if self.k else 0
        require(self.lowest + self.k <= 276, "exponents beyond 126")

    def streams(self, code):
        return [Stream(2 * self.k + 1, code.count, self.contexts(code), 32)]

    def values(self, code):
        powers = np.ldexp(F4(1), np.arange(self.k) + self.lowest - 149)
        table = np.concatenate([-powers[::-1], [0], powers]).astype(F4)
        return put_back(table[code.symbols[0]], code, code.symbols[0] == self.k)


class Binomial(Scheme):
    """bq.md"""

    def __init__(self, stored, place, bits, m):
        super().__init__(place)
        self.top, self.step = 2**bits - 1 + m, take_step(stored)
        require(2.0**-114 <= self.step <= 2.0**101, "a step out of range")

    def streams(self, code):
        return [Stream(self.top + 1, code.count)]

    def values(self, code):
        require(len(code.exceptions.places) == 0, "exceptions of bq")
        return self.step / F4(2) * (2 * code.symbols[0] - self.top).astype(F4)
