"""schemes/sum.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import require
from reference.schemes.memory import Through
from reference.schemes.parts import F4, Scheme, Stream, require_falling, take_double, take_steps

PLANES = 6


def take_head(stored):
    """(weight, factor)"""
    weight = stored.varint()
    require(1 <= weight <= 2**53, "a weight out of range")
    factor = take_double(stored)
    require(factor in (1.0, 1.0 / weight), "a factor that does not follow from the weight")
    return weight, float(factor)


def finished(totals, factor):
    scaled = totals * factor
    require(np.all(np.abs(scaled) <= 2.0**127), "a sum beyond float32")
    return scaled.astype(F4)


class SymbolSum(Scheme):
    def __init__(self, stored, place):
        super().__init__(place)
        self.weight, self.factor = take_head(stored)
        self.m, scales = stored.varint(), stored.uint(1)
        require(self.m <= 32767 and 1 <= scales <= 8, "M or the number of scales")
        self.steps = take_steps(stored, scales).astype(np.float64)
        require_falling(self.steps)
        require(self.m * self.steps[0] * self.factor <= 2.0 ** (107 if place.stage else 127), "steps too large")

    def streams(self, code):
        return [Stream(2 * self.m + 1, code.count)] * len(self.steps)

    def values(self, code):
        require(len(code.exceptions.places) == 0, "exceptions of a sum")
        total = np.zeros(code.count)
        for symbols, step in zip(code.symbols, self.steps):
            require(step or np.all(symbols == self.m), "a sum where the step is 0")
            total = total + (symbols - self.m) * step
        return finished(total, self.factor)


class ValueSum(Scheme):
    def __init__(self, stored, place):
        super().__init__(place)
        self.weight, self.factor = take_head(stored)

    def streams(self, code):
        return [Stream(256, code.count), Stream(256, code.count), Stream(0, PLANES * code.count)]

    def values(self, code):
        require(len(code.exceptions.places) == 0, "exceptions of a sum")
        highest, following, others = code.symbols
        planes = np.concatenate([others.reshape(PLANES, code.count), [following], [highest]]).astype(np.uint8)
        total = np.ascontiguousarray(planes.T).view("<f8")[:, 0]
        require(not np.any((total == 0) & np.signbit(total)), "a value of -0")
        return finished(total, self.factor)


class TableSum(Through):
    """Stands before a sketch: what that says, times the factor."""

    def __init__(self, stored, place, below):
        self.weight, self.factor = take_head(stored)
        super().__init__(below(stored, place))

    def values(self, code):
        require(len(code.exceptions.places) == 0, "exceptions of a sum")
        return (self.behind.values(code).astype(np.float64) * self.factor).astype(F4)
