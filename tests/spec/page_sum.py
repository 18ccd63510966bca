"""The page schemes/sum.md: sums of symbols, of values and of tables, and what they stand for."""
# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np

from page_numbers import F4, float_of, require

PLANES = 6


def take_step(reader):
    bits = reader.uint(4)
    require(bits == 0 or 0x00800000 <= bits <= 0x7E800000, "step")
    return float(float_of(bits))


def take_head(stored):
    """The factor, behind the weight that it follows from."""
    weight = stored.varint()
    require(1 <= weight <= 2**53, "weight")
    factor, = struct.unpack("<d", stored.take(8))
    require(factor in (1.0, 1.0 / weight), "factor")
    return factor


class Sum:
    """Of one tensor, from its stored parameters. `below`: under another scheme."""

    def __init__(self, stored, of, below):
        require(of in ("symbols", "values"), "tables of nothing")
        self.of, self.factor = of, take_head(stored)
        if of == "values":
            return
        self.m, scales = stored.varint(), stored.uint(1)
        require(self.m <= 32767 and 1 <= scales <= 8, "M and scales")
        self.steps = [take_step(stored) for _ in range(scales)]
        for a, b in zip(self.steps, self.steps[1:]):
            require(a > b or a == b <= 2.0**-126, "steps that do not fall")
        require(bool(self.steps[0]) == bool(self.steps[-1]), "a step of 0 beside others")
        require(self.m * self.steps[0] * self.factor <= 2.0**(107 if below else 127), "steps too large")

    def streams(self):
        """(alphabet, symbols an element) of each; alphabet 0: plain bytes."""
        return [(256, 1), (256, 1), (0, PLANES)] if self.of == "values" else [(2 * self.m + 1, 1)] * len(self.steps)

    def values(self, symbols, count):
        values = np.zeros(count, F4)
        for i in range(count):
            total = self.value(symbols, i, count) if self.of == "values" else self.total(symbols, i)
            require(abs(total * self.factor) <= 2.0**127, "a sum beyond float32")
            values[i] = F4(total * self.factor)
        return values

    def total(self, symbols, i):
        total = 0.0
        for of_scale, step in zip(symbols, self.steps):
            require(step or of_scale[i] == self.m, "a sum where the step is 0")
            total = total + float(of_scale[i] - self.m) * step
        return total

    @staticmethod
    def value(symbols, i, count):
        highest, following, planes = symbols
        low = bytes(planes[plane * count + i] for plane in range(PLANES))
        data = low + bytes([following[i], highest[i]])
        require(data != struct.pack("<d", -0.0), "-0")
        return struct.unpack("<d", data)[0]
