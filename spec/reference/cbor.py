"""Deterministic CBOR (RFC 8949, section 4.2.1), strictly: what TREE and METADATA contain."""
# SPDX-License-Identifier: Apache-2.0
import struct

from reference.reading import Damaged, Limit, Reader, require

MOST_VALUES, MOST_DEPTH = 2**22, 16
UINT, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)


def decode(data, floats):
    """One value: int, bytes, str, list, dict, float, bool or None."""
    parser = Parser(data, floats)
    value = parser.value(0)
    parser.reader.end("a CBOR value")
    return value


class Parser:
    def __init__(self, data, floats):
        self.reader, self.floats, self.values = Reader(data), floats, 0

    def value(self, depth):
        self.values += 1
        require(self.values <= MOST_VALUES, "more than 2^22 CBOR values", Limit)
        first = self.reader.uint(1)
        major, info = first >> 5, first & 31
        if major == SIMPLE:
            return self.simple(info)
        number = self.number(info)
        if major == UINT:
            return number
        if major == NEGATIVE:
            require(number < 2**63, "an integer below -2^63")
            return -1 - number
        if major == BYTES:
            return self.reader.take(number)
        if major == TEXT:
            return utf8(self.reader.take(number))
        require(major != TAG, "a CBOR tag")
        require(depth < MOST_DEPTH, "CBOR of more than 16 levels")
        require(number <= self.reader.left(), "the input ends early")
        if major == ARRAY:
            return [self.value(depth + 1) for _ in range(number)]
        return self.map(number, depth)

    def number(self, info):
        require(info < 28, "an indefinite or reserved CBOR length")
        if info < 24:
            return info
        size = 1 << info - 24
        number = self.reader.uint_big(size)
        require(number >= (24 if size == 1 else 256 ** (size // 2)), "a CBOR number that is not the shortest")
        return number

    def map(self, count, depth):
        out, before = {}, b""
        for _ in range(count):
            start = self.reader.at
            key = self.value(depth + 1)
            require(isinstance(key, str), "a key that is not text")
            encoded = self.reader.data[start:self.reader.at]
            require(encoded > before, "keys that are not sorted")
            before, out[key] = encoded, self.value(depth + 1)
        return out

    def simple(self, info):
        if info in (20, 21, 22):
            return {20: False, 21: True, 22: None}[info]
        require(self.floats and 25 <= info <= 27, "a simple CBOR value or a float")
        size = 1 << info - 24
        data = self.reader.take(size)
        value, = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[size], data)
        if value != value:
            require(data == b"\x7E\x00", "a NaN that is not F9 7E 00")
        elif size > 2:
            require(not survives(value, {4: ">e", 8: ">f"}[size]), "a CBOR float that is not the shortest")
        return value


def survives(value, layout):
    """Whether it is the same in a shorter float."""
    try:
        return struct.unpack(layout, struct.pack(layout, value))[0] == value
    except OverflowError:
        return False


def utf8(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged("text that is not UTF-8") from error


def checked_metadata(data):
    """container.md, section 8."""
    value = decode(data, floats=True)
    require(isinstance(value, dict) and sorted(value) == ["program", "user"], "METADATA's keys")
    require(isinstance(value["program"], str), "METADATA's program")
    return value
