"""schemes/countsketch.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.reading import require
from reference.schemes.parts import F4, Scheme, put_back


class Sketch(Scheme):
    digested = False

    def __init__(self, stored, place, rows, exp, scope):
        super().__init__(place)
        self.rows, self.exp, self.key = rows, exp, place.keys.run if scope == "run" else place.keys.step
        self.cols = stored.varint()
        require((self.cols == 0) == (place.size == 0) and self.cols <= place.size, "columns")
        require(rows * self.cols <= 2**26, "more than 2^26 cells")
        if self.exp is None:
            self.table = self.take_floats(stored)
        else:
            self.table = self.take_integers(stored) if self.cols else np.zeros((rows, 0), np.int64)

    def fixed_params(self, count):
        return None

    def take_floats(self, stored):
        size = 4 * self.rows * self.cols
        require(size < 2**28 - 256, "too many bytes of cells")
        table = np.frombuffer(stored.take(size), "<f4")
        require(np.all(np.isfinite(table)) and not np.any((table == 0) & np.signbit(table)), "a cell")
        return table.reshape(self.rows, self.cols)

    def take_integers(self, stored):
        width = stored.uint(1)
        require(1 <= width <= 8, "the width of cells")
        size = width * self.rows * self.cols
        require(size < 2**28 - 256, "too many bytes of cells")
        # Into the upper bytes, then down, which keeps the sign.
        cells = np.zeros((self.rows * self.cols, 8), np.uint8)
        cells[:, 8 - width:] = np.frombuffer(stored.take(size), np.uint8).reshape(-1, width)
        table = cells.view("<i8")[:, 0] >> 8 * (8 - width)
        most = int(np.max(np.maximum(table, ~table)))
        require(most.bit_length() // 8 + 1 == width, "cells that are wider than they need be")
        require(not np.any(table == -2**63), "a cell of -2^63")
        return table.reshape(self.rows, self.cols)

    def estimates(self, places):
        said = np.empty((self.rows, len(places)), self.table.dtype)
        for row in range(self.rows if len(places) else 0):
            words = self.place.words(draws.HASH, places, row, self.key).astype(np.uint64)
            cells = self.table[row][(2 * words & draws.LOW) * np.uint64(self.cols) >> 32]
            said[row] = np.where(words >> 31, -cells, cells)
        median = np.sort(said, axis=0)[self.rows // 2]
        return median + F4(0) if self.exp is None else median.astype(F4) * F4(2.0**-self.exp)

    def values(self, code):
        return put_back(self.estimates(code.places()).astype(F4), code)
