"""schemes/ndqsg.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import xxhash

from reference import random as draws
from reference.reading import Usage, require
from reference.schemes.parts import F4, REGULAR, Scheme, Stream, put_back, take_double, take_step


class Nested(Scheme):
    def __init__(self, stored, place, checked):
        super().__init__(place)
        self.checked, self.step, self.rho = checked, take_step(stored), stored.varint()
        self.alpha, self.a, self.b = (take_double(stored) for _ in range(3))
        require(2 <= self.rho <= 32767 and 0.001 <= self.alpha <= 1, "rho or alpha out of range")
        a = self.alpha / (self.rho * float(self.step)) if self.step else 0.0
        require(self.a.tobytes() == np.float64(a).tobytes() and self.b == 1 / self.rho, "A or B")
        self.middle, self.digested = self.rho // 2, self.alpha == 1

    def fixed_params(self, count):
        return 4 if self.checked else 0

    def take_params(self, reader, code):
        return reader.uint(4) if self.checked else None

    def streams(self, code):
        plain = self.contexts(code)
        if self.rho % 2:
            return [Stream(self.rho, code.count, plain, 32)]
        return [Stream(self.rho, code.count, lambda: 2 * ((plain() >> 1) + 32 * (plain() & 1)), 64)]

    def values(self, code):
        k = code.symbols[0] - self.middle
        require(self.step or not np.any(k), "a symbol where the step is 0")
        put_back(np.zeros(code.count, F4), code, k == 0, 32767 * float(self.step) if self.step else REGULAR)
        require(self.place.side is not None, "a tensor of ndqsg is decoded with side information", Usage)
        y = self.place.side[code.first:code.first + code.count].astype(np.float64)
        y[~(np.abs(y) <= REGULAR)] = 0
        u = draws.v_of(self.place.words(draws.ROUNDING, code.places())).astype(np.float64) - 0.5
        z = y * self.a + (u - k) * self.b + 0.5
        most = 32767 // self.rho + 1
        q = k + self.rho * np.clip(np.floor(z), -most, most).astype(np.int64)
        q[code.exceptions.places] = 0
        if not self.step:
            q[:] = 0
        require(not self.checked or code.params == xxhash.xxh3_64_intdigest(q.astype("<i4").tobytes()) & 0xFFFFFFFF,
                "the side information is another one, or too far from the values")
        if not self.step:
            values = np.zeros(code.count, F4)
        elif self.alpha == 1:
            values = (q.astype(F4) - u.astype(F4)) * self.step
        else:
            values = (y * (1 - self.alpha * self.alpha) + self.alpha * float(self.step) * (q - u)).astype(F4)
        values.view(np.uint32)[code.exceptions.places] = code.exceptions.bits
        return values
