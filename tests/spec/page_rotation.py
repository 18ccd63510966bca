"""Of page_decoder.py: what schemes/rotation.md, nearest_normal.md and rounded_normal.md say."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

F4 = np.float32
NAMES = ("rotate", "drive", "eden", "rotq")
CENTROIDS = {1: [0.7978846], 2: [0.45278004, 1.5104176], 3: [0.24509416, 0.7560052, 1.3439093, 2.1519456],
             4: [0.12839502, 0.38804823, 0.656759, 0.94234025, 1.256231, 1.618046, 2.0690167, 2.7325888]}
LEVELS = {2: [0.8285143], 3: [0.31801653, 1.0003355, 1.8847173],
          4: [0.14317425, 0.43349558, 0.73654723, 1.0639938, 1.4345206, 1.88489, 2.5125089]}


def padded(count, block):
    rest = count % block
    return count - rest + (1 << (rest - 1).bit_length() if rest else 0)


def rotate_back(values, count, block, is_negative):
    """`count` elements of a chunk's padded values; is_negative(i): the sign of its element i."""
    values = np.clip(values, F4(-2.0**108), F4(2.0**108))
    for at in range(0, count, block):
        y = values[at:at + block]
        h = 1
        while h < len(y):
            for i in range(len(y)):
                if not i & h:
                    y[i], y[i + h] = y[i] + y[i + h], y[i] - y[i + h]
            h *= 2
        m = len(y).bit_length() - 1
        y *= F4(2.0**(-m / 2)) if m % 2 == 0 else np.array(0x3F3504F3, np.uint32).view(F4) * F4(2.0**(-(m - 1) / 2))
    return np.array([-x if is_negative(i) else x for i, x in enumerate(values[:count])], F4)


class Quantizer:
    """What stands below drive, eden and rotq; a bucket's parameters and its table of values."""

    def __init__(self, scheme, params, require):
        self.bits = 1 if scheme == "drive" else int(params["bits"])
        self.rounds, self.require = scheme == "rotq", require
        self.rest = 1 << self.bits - 1

    def take(self, reader):
        numbers = [np.frombuffer(reader.take(4), F4)[0] for _ in range(2 if self.rounds else 1)]
        first, last = numbers[0], numbers[-1]
        if all(x.view(np.uint32) == 0 for x in numbers):
            return None
        self.require(2.0**(-120 if self.rounds else -126) <= first <= 2.0**126, "scale")
        if not self.rounds:
            magnitudes = [first * F4(c) for c in CENTROIDS[self.bits]]
        else:
            magnitudes = [first * F4(c) for c in LEVELS[self.bits]]
            self.require(magnitudes[-1] < last <= 2.0**126, "top")
            magnitudes.append(last)
        return [-x for x in magnitudes[::-1]] + magnitudes

    def values(self, tables, symbols, bucket):
        out = np.zeros(len(symbols), F4)
        for i, symbol in enumerate(symbols):
            table = tables[i // bucket]
            self.require(table or symbol == self.rest, "symbol where the scale is 0")
            if table:
                out[i] = table[symbol]
        return out
