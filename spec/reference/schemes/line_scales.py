"""line_scales.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.coders import pack, rans
from reference.reading import require

ZERO_LINE, ZERO_SCALE, SCALES = 31, 77, 77


def rows_with_lines(place, worth):
    """The number of rows of a tensor whose lines are told apart; else 0."""
    if len(place.shape) < 2 or place.size == 0:
        return 0
    rows = place.shape[0]
    cols = place.size // rows
    return rows if rows <= 2**20 and cols <= 2**16 and rows + cols <= place.size // worth else 0


class LineScales:
    def __init__(self, stored, place, worth=16):
        base = stored.varint()
        require(base <= 2**15, "scales that no step has")
        self.base = base >> 1 if base % 2 == 0 else -(base + 1 >> 1)
        rows = rows_with_lines(place, worth)
        self.cols, self.rows, self.columns = 0, None, None
        if rows:
            head = stored.varint()
            if head:
                self.cols = place.size // rows
                self.rows = take_classes(stored, head, rows)
                self.columns = take_classes(stored, stored.varint(), self.cols)

    def sixteenths(self, places):
        """Scale over step of each element in sixteenths of an octave, and whether its row or column is zero."""
        if not self.cols:
            return np.full(len(places), self.base), np.zeros(len(places), bool)
        row, col = self.rows[places // self.cols], self.columns[places % self.cols]
        return self.base - 8 * (row + col), (row == ZERO_LINE) | (col == ZERO_LINE)


def take_classes(stored, head, count):
    data = stored.take(head >> 1)
    return (pack.decode if head & 1 else rans.decode)(data, 32, count)


def scale_classes(sixteenths, zero):
    return np.where(zero, ZERO_SCALE, np.clip((sixteenths + 2 >> 2) + 32, 0, SCALES - 1))


UP_TO = (6, -8, -15, -21, -25, -29, -33, -36, -39)
ROOTS = np.array([0x3F800000, 0x3F75257D, 0x3F6AC0C7, 0x3F60CCDF, 0x3F5744FD, 0x3F4E248C, 0x3F45672A, 0x3F3D08A4,
                  0x3F3504F3, 0x3F2D583F, 0x3F25FED7, 0x3F1EF532, 0x3F1837F0, 0x3F11C3D3, 0x3F0B95C2, 0x3F05AAC3],
                 np.uint32).view(np.float32)


def drops(t):
    """By how many sixteenths of an octave steps are below D0."""
    return np.where(t < UP_TO[-1], (-t - 13) // 3, np.sum([t <= most for most in UP_TO], axis=0))


def steps_by_class(d0, t, zero):
    d = drops(t)
    scaled = (d0 * ROOTS[d % 16]).astype(np.float64) * 2.0 ** -np.minimum(d // 16, 300)
    return np.where(zero, 0, np.maximum(scaled, 2.0**-126)).astype(np.float32)
