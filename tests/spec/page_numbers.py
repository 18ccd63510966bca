"""Bytes, random numbers and number types, from container.md, random.md and numbers.md."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

F4 = np.float32


class Damaged(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Damaged(what)


class Reader:
    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def take(self, n):
        require(n <= len(self.data) - self.at, "too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def uint(self, size):
        return int.from_bytes(self.take(size), "little")

    def varint(self):
        value = 0
        for i in range(9):
            byte = self.uint(1)
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                require(byte > 0 or i == 0, "varint not minimal")
                return value
        raise Damaged("varint too long")

    def left(self):
        return len(self.data) - self.at


def float_of(bits):
    return np.array(bits, np.uint32).view(F4)[()]


def take_float(reader):
    return float_of(reader.uint(4))


# --- random.md

def philox(key, counter):
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0, c1, c2, c3


def message_key(seed, worker, step):
    key = (seed & 0xFFFFFFFF, seed >> 32)
    if worker is None and step is None:
        return key
    step = step or 0
    return philox(key, (step & 0xFFFFFFFF, step >> 32, worker or 0, 0x6D736731))[:2]


def step_key(seed, step):
    step = step or 0
    return philox((seed & 0xFFFFFFFF, seed >> 32), (step & 0xFFFFFFFF, step >> 32, 0, 0x73746531))[:2]


def word_of(key, ordinal, purpose, stage, i, sub=0):
    quad = i // 4
    return philox(key, (quad & 0xFFFFFFFF, quad >> 32, ordinal, stage << 24 | purpose << 16 | sub))[i % 4]


# --- numbers.md

#        code: (item size, word size, NumPy's name of the same bytes)
DTYPES = {1: (2, 2, "<f2"), 2: (4, 4, "<f4"), 3: (8, 8, "<f8"), 4: (2, 2, "<u2"), 5: (1, 1, "<i1"), 6: (2, 2, "<i2"),
          7: (4, 4, "<i4"), 8: (8, 8, "<i8"), 9: (1, 1, "<u1"), 10: (2, 2, "<u2"), 11: (4, 4, "<u4"),
          12: (8, 8, "<u8"), 13: (1, 1, "|b1"), 14: (8, 4, "<c8"), 15: (16, 8, "<c16")}
FLOATS = (1, 2, 3, 4)


def narrow(x, code, word):
    """One float32 to the bits of float16 (1) or bfloat16 (4), at random."""
    bits = int(np.array(x, F4).view(np.uint32))
    sign, exponent, fraction = bits >> 31 << 15, bits >> 23 & 0xFF, bits & 0x7FFFFF
    width, least = (10, -14) if code == 1 else (7, -126)
    infinity = 0x7FFF >> width << width
    if exponent == 0xFF:
        kept = fraction >> 23 - width
        return sign | infinity | (kept or (1 << width - 1 if fraction else 0))
    e = max(exponent, 1) - 127
    significand = fraction | (1 << 23 if exponent else 0)
    dropped = 23 - width + max(least - e, 0)
    low = (max(e - least, 0) << width) + (significand >> dropped)
    rest = significand & (1 << dropped) - 1
    require(low + (rest > 0) < infinity, "beyond the type")
    return sign | low + (word < rest * 2**32 >> dropped)


# --- coders/pack.md
