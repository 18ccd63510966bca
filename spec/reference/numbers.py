"""numbers.md: element types, and how values become elements of them."""
# SPDX-License-Identifier: Apache-2.0
import re

import numpy as np

from reference.random import NARROWING, NARROWING_STAGE, words
from reference.reading import Limit, Unsupported, require

PLAIN = {1: ("f2", 2, 2), 2: ("f4", 4, 4), 3: ("f8", 8, 8), 4: ("bf16", 2, 2), 5: ("i1", 1, 1), 6: ("i2", 2, 2),
         7: ("i4", 4, 4), 8: ("i8", 8, 8), 9: ("u1", 1, 1), 10: ("u2", 2, 2), 11: ("u4", 4, 4), 12: ("u8", 8, 8),
         13: ("bool", 1, 1), 14: ("c8", 8, 4), 15: ("c16", 16, 8)}
FLOATS = {"f2": 1, "f4": 2, "f8": 3, "bf16": 4}
LAYOUT = {"f2": (10, -14), "bf16": (7, -126), "f4": (23, -126)}  # bits of the mantissa, the least exponent


class Type:
    """Section 1. `code`, `name`, and the sizes of an element and of its words in bytes."""

    def __init__(self, code, name, item, word):
        self.code, self.name, self.item, self.word = code, name, item, word
        self.is_float = 1 <= code <= 4


def take_type(reader):
    code = reader.uint(1)
    if code:
        require(code in PLAIN, "an element type %d" % code, Unsupported)
        return Type(code, *PLAIN[code])
    text = reader.text(reader.left()).decode("latin-1")
    require(text not in [name for name, _, _ in PLAIN.values()], "a descriptor of a type with a code")
    sized = re.fullmatch(r"([SUV])(0|[1-9][0-9]{0,6})", text)
    if sized and int(sized[2]) <= 2**20:
        word = 4 if sized[1] == "U" else 1
        return Type(0, text, word * int(sized[2]), word)
    if re.fullmatch(r"[Mm]8(\[[A-Za-z0-9]+\])?", text) and len(text) <= 24:
        return Type(0, text, 8, 8)
    require(text in ("f16", "c32"), "a descriptor '%s'" % text, Unsupported)
    return Type(0, text, {"f16": 16, "c32": 32}[text], 16)


def from_planes(planes, word):
    """raw.md: the elements' bytes, word by word."""
    return np.frombuffer(planes, np.uint8).reshape(word, len(planes) // word).T.tobytes()


# --- sections 2 and 4

def nearest(values, name):
    """float64 values to the nearest of type `name`, ties to even: its bits. Beyond its range they are infinite."""
    width, least = LAYOUT[name]
    bits = np.asarray(values, np.float64).view(np.uint64)
    exponent, fraction = (bits >> 52 & 0x7FF).astype(np.int64), bits & np.uint64(2**52 - 1)
    e = np.maximum(exponent, 1) - 1023
    significand = fraction | (exponent > 0).astype(np.uint64) << 52
    dropped = np.minimum(52 - width + np.maximum(least - e, 0), 63).astype(np.uint64)
    low = (np.maximum(e - least, 0).astype(np.uint64) << width) + (significand >> dropped)
    rest, half = significand & (np.uint64(1) << dropped) - np.uint64(1), np.uint64(1) << dropped - np.uint64(1)
    low += (rest > half) | (rest == half) & (low & 1 == 1)
    return finished(bits >> 63, exponent == 0x7FF, fraction >> 52 - width, fraction > 0, low, name)


def at_random(values, name, words):
    """random.md, section 5: float32 values to float16 or bfloat16, by a word each."""
    width, least = LAYOUT[name]
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    exponent, fraction = (bits >> 23 & 0xFF).astype(np.int64), bits & np.uint64(2**23 - 1)
    e = np.maximum(exponent, 1) - 127
    significand = fraction | (exponent > 0).astype(np.uint64) << 23
    dropped = np.minimum(23 - width + np.maximum(least - e, 0), 60).astype(np.uint64)
    low = (np.maximum(e - least, 0).astype(np.uint64) << width) + (significand >> dropped)
    rest = significand & (np.uint64(1) << dropped) - np.uint64(1)
    finite = exponent < 0xFF
    require(np.all(low[finite] + (rest[finite] > 0) < infinity(name)), "a value beyond the range of " + name, Limit)
    low += words < rest << 32 >> dropped
    return finished(bits >> 31, ~finite, fraction >> 23 - width, fraction > 0, low, name)


def infinity(name):
    bits = {"f4": 31}.get(name, 15)
    return (1 << bits) - 1 >> LAYOUT[name][0] << LAYOUT[name][0]


def finished(sign, special, payload, is_nan, low, name):
    """The bits of type `name`, from parts; infinities and NaN have what is left of their mantissa."""
    top = 1 << LAYOUT[name][0] - 1
    kept = infinity(name) | np.where(is_nan & (payload == 0), np.uint64(top), payload)
    sign_bit = 31 if name == "f4" else 15
    out = np.where(special, kept, np.minimum(low, np.uint64(infinity(name)))) | sign << sign_bit
    return out.astype(np.uint32 if name == "f4" else np.uint16)


def widened(data, name):
    """The elements of a float type as float64, NaN with their payloads."""
    if name == "f8":
        return np.frombuffer(data, "<f8")
    dtype, shift = ("<u4", 0) if name == "f4" else ("<u2", 16 if name == "bf16" else 13)
    bits = np.frombuffer(data, dtype).astype(np.uint32)
    if name == "f2":
        values = bits.astype(np.uint16).view(np.float16).astype(np.float64)
        payload = bits.astype(np.uint64) & 0x3FF
        payload, sign = payload << 42, bits.astype(np.uint64) >> 15
    else:
        bits = bits << shift
        values = bits.view(np.float32).astype(np.float64)
        payload, sign = (bits.astype(np.uint64) & 0x7FFFFF) << 29, bits.astype(np.uint64) >> 31
    nan = np.isnan(values)
    values.view(np.uint64)[nan] = (sign << 63 | np.uint64(0x7FF << 52) | payload)[nan]
    return values


def as_float32(data, name):
    """Section 2."""
    return nearest(widened(data, name), "f4").view(np.float32)


def from_lossy(values, name, key, ordinal, first):
    """Section 4: what a scheme decoded to, from element `first` of the tensor on, as elements of type `name`."""
    if name == "f4":
        return values.tobytes()
    if name == "f8":
        return widened(values.tobytes(), "f4").tobytes()
    places = np.arange(first, first + len(values), dtype=np.uint64)
    return at_random(values, name, words(key, ordinal, NARROWING_STAGE, NARROWING, places)).tobytes()


def from_raw(data, name, other):
    """Section 4: elements of type `name`, exactly, as elements of type `other`."""
    if name == other:
        return data
    values = widened(data, name)
    if other == "f8":
        return values.tobytes()
    out = nearest(values, other)
    beyond = np.isfinite(values) & (out & infinity(other) == infinity(other))
    require(not np.any(beyond), "a value beyond the range of " + other, Limit)
    return out.tobytes()
