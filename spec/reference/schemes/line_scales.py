"""schemes/line_scales.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.coders import pack, rans
from reference.reading import require

ZERO_LINE, ZERO_SCALE, SCALES = 31, 77, 77


def rows_with_lines(place):
    """The number of rows of a tensor whose lines are told apart; else 0."""
    if len(place.shape) < 2 or place.size == 0:
        return 0
    rows = place.shape[0]
    cols = place.size // rows
    return rows if cols <= 2**16 and rows + cols <= place.size // 16 else 0


class LineScales:
    def __init__(self, stored, place):
        base = stored.varint()
        require(base <= 2**15, "scales that no step has")
        self.base = base >> 1 if base % 2 == 0 else -(base + 1 >> 1)
        rows = rows_with_lines(place)
        self.cols, self.rows, self.columns = 0, None, None
        if rows:
            self.cols = place.size // rows
            self.rows, self.columns = take_classes(stored, rows), take_classes(stored, self.cols)

    def sixteenths(self, places):
        """Scale over step of each element in sixteenths of an octave, and whether its row or column is zero."""
        if not self.cols:
            return np.full(len(places), self.base), np.zeros(len(places), bool)
        row, col = self.rows[places // self.cols], self.columns[places % self.cols]
        return self.base - 8 * (row + col), (row == ZERO_LINE) | (col == ZERO_LINE)


def take_classes(stored, count):
    head = stored.varint()
    data = stored.take(head >> 1)
    return (pack.decode if head & 1 else rans.decode)(data, 32, count)


def scale_classes(sixteenths, zero):
    return np.where(zero, ZERO_SCALE, np.clip((sixteenths + 2 >> 2) + 32, 0, SCALES - 1))
