"""schemes/diana.md and shrink.md: what changes the values of the scheme behind and has no stage of its own."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import require
from reference.schemes.parts import F4, take_double, take_float


class Through:
    """Has what the scheme behind has, as if that stood there alone."""

    def __init__(self, behind):
        self.behind = behind

    def __getattr__(self, name):
        return getattr(self.behind, name)


class Shrink(Through):
    def __init__(self, stored, place, below):
        self.factor = take_float(stored)
        require(2.0**-64 <= self.factor <= 1, "a factor out of range")
        super().__init__(below(stored, place))

    def values(self, code):
        values = self.behind.values(code) * self.factor
        values.view(np.uint32)[code.exceptions.places] = code.exceptions.bits
        return values


class Diana(Through):
    def __init__(self, stored, place, below):
        self.alpha = take_double(stored)
        require(2.0**-64 <= self.alpha <= 1, "alpha out of range")
        super().__init__(below(stored, place))

    def values(self, code):
        m = self.behind.values(code)
        h = self.place.memory[code.first:code.first + code.count]
        finite = np.isfinite(m)
        values = np.where(finite, (h + m).astype(F4), m)
        h[finite] = h[finite] + self.alpha * m[finite].astype(np.float64)
        return values
