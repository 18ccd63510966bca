"""schemes/lowrank.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.coders import model, rans
from reference.reading import require
from reference.schemes.line_scales import LineScales, scale_classes
from reference.schemes.parts import F4, Place, Scheme, dither_contexts, put_back, take_float


class LowRank(Scheme):
    def __init__(self, stored, place):
        super().__init__(place)
        self.prediction = np.zeros(place.size, F4)
        rank = stored.varint()
        require(rank <= 128, "a rank above 128")
        if rank:
            require(len(place.shape) >= 2 and place.size, "a rank of a tensor without rows and columns")
            self.predict(stored, place, rank)

    def predict(self, stored, place, rank):
        fold, inner = stored.varint(), place.size // place.shape[0]
        require(fold and inner % fold == 0, "a fold that does not divide what a row has")
        rows, cols = place.shape[0] * fold, inner // fold
        require(rank <= min(rows, cols), "a rank above that of the matrix")
        require(rank * (rows + cols) <= 2**24, "factors of more than 2^24 coordinates")
        weights = np.array([take_float(stored) for _ in range(rank)])
        require(np.all((weights >= 2.0**-64) & (weights <= 2.0**90)), "a weight out of range")
        step = take_float(stored)
        require(2.0**-80 <= step <= 2.0**80, "a step out of range")
        m = stored.varint()
        require(m <= 32767, "M above 32,767")
        factors = self.take_factors(stored, place, (rank, rows + cols), step, m)
        of_rows, of_cols = factors[:, :rows] * weights[:, np.newaxis], factors[:, rows:]
        require(np.all(np.abs(of_rows) <= 2.0**16), "a factor beyond 2^16")
        matrix = np.zeros((rows, cols), F4)
        for k in range(rank):
            matrix = matrix + of_rows[k][:, np.newaxis] * of_cols[k][np.newaxis, :]
        self.prediction = matrix.reshape(rows // fold, fold, cols).transpose(0, 2, 1).reshape(-1)

    @staticmethod
    def take_factors(stored, place, shape, step, m):
        places = np.arange(shape[0] * shape[1])
        scales = None
        if place.stores_scales:
            lines = LineScales(stored, Place(place.keys, place.ordinal, [len(places)], place.stage, shape=shape), 4)
            scales = lambda: scale_classes(*lines.sixteenths(places))
        words = place.words(draws.ROUNDING, places)
        data = stored.take(stored.varint())
        contexts = lambda: dither_contexts(words)
        if scales:
            symbols = model.decode(data, 2 * m + 1, len(places), contexts, 32, scales)
        else:
            symbols = rans.decode(data, 2 * m + 1, len(places), contexts, 32)
        return (((symbols - m).astype(F4) - draws.u_of(words)) * step).reshape(shape)

    def values(self, code):
        return put_back(self.prediction[code.first:code.first + code.count].copy(), code)
