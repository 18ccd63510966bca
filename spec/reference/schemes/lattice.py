"""schemes/lattice.md. Vectors are the rows of arrays; points are doubled integers."""
# SPDX-License-Identifier: Apache-2.0
import functools

import numpy as np

from reference import random as draws
from reference.reading import require
from reference.schemes.parts import F4, REGULAR, Scheme, Stream, put_back, take_step

SIZE = {"a2": 2, "d4": 4, "e8": 8}
MOST = {"a2": 72000, "d4": 640, "e8": 40}  # N0
HALVES = {"a2": True, "d4": False, "e8": True}
EVEN = {"a2": False, "d4": True, "e8": True}
KEYS = {"a2": (3, (4, 2)), "d4": (5, (10, 6, 4, 2)), "e8": (25, (49, 35, 29, 22, 17, 12, 8, -1))}
SECOND_SCALE = np.array(0x3FDDB3D7, np.uint32).view(F4)[()]


def norms(kind, points):
    return np.sum(points * points * weights(kind), axis=1)


def weights(kind):
    return np.array([1, 3] if kind == "a2" else [1] * SIZE[kind])


def nearest(kind, y):
    """(distances, r) of the nearest points with whole coordinates, of even sum where the lattice asks for it."""
    p = np.floor(y + 0.5)
    r = y - p
    if EVEN[kind]:
        rows = np.flatnonzero(p.sum(axis=1) % 2 == 1)
        far = np.argmax(np.abs(r[rows]), axis=1)
        r[rows, far] -= np.where(r[rows, far] >= 0, 1, -1)
    distance = np.zeros(len(y))
    for i, weight in enumerate(weights(kind)):
        distance = distance + weight * (r[:, i] * r[:, i])
    return distance, r


def rest(kind, y):
    """y - Q(y)"""
    distance, r = nearest(kind, y)
    if not HALVES[kind]:
        return r
    other_distance, other = nearest(kind, y - 0.5)
    is_other = (other_distance < distance) | (other_distance == distance) & (other[:, 0] < r[:, 0])
    return np.where(is_other[:, None], other, r)


def dither(kind, words):
    if kind == "a2":
        return rest(kind, (words >> 9) * 2.0**-23 + 2.0**-24 - 0.5)
    return rest(kind, (words >> 8) * 2.0**-23 + 2.0**-24 - 1)


def leave_chamber(kind, z, points):
    """g^-1 of each point."""
    if kind == "a2":
        return leave_chamber_of_a2(z, points)
    order = np.argsort(-np.abs(z), axis=1, kind="stable")
    signs = np.where(np.take_along_axis(z, order, 1) > 0, 1, -1)
    if kind == "e8":
        signs[:, -1] *= np.where(np.sum(z < 0, axis=1) % 2 == 1, -1, 1)
    out = np.empty_like(points)
    np.put_along_axis(out, order, signs * points, 1)
    return out


def leave_chamber_of_a2(z, points):
    x, t = np.abs(z).T
    above_60 = t > x
    x, t = np.where(above_60, (3 * t - x) / 2, x), np.where(above_60, (x + t) / 2, t)
    p, q = points.T
    above_30 = 3 * t > x
    p, q = np.where(above_30, (p + 3 * q) // 2, p), np.where(above_30, (p - q) // 2, q)
    p, q = np.where(above_60, (3 * q - p) // 2, p), np.where(above_60, (p + q) // 2, q)
    return np.stack([p, q], 1) * np.where(z > 0, 1, -1)


@functools.lru_cache(None)
def table(kind):
    """Row n - 1 is the point of number n, from 2 on; row 0 is that of number 0."""
    points, left = np.zeros((1, 0), np.int64), np.array([MOST[kind]])
    for place, weight in enumerate(weights(kind)):
        most = int(np.sqrt(MOST[kind] // weight)) + 1
        values = np.arange(-most, most + 1)
        if not HALVES[kind]:
            values = values[values % 2 == 0]
        row, column = np.nonzero(weight * values**2 <= left[:, None])
        if place:
            same = points[row, 0] % 2 == values[column] % 2
            row, column = row[same], column[same]
        points = np.concatenate([points[row], values[column][:, None]], 1)
        left = left[row] - weight * values[column] ** 2
    if EVEN[kind]:
        points = points[points.sum(axis=1) % 4 == 0]
    factor, by = KEYS[kind]
    key = factor * norms(kind, points) - points @ np.array(by)
    return points[np.lexsort([*points.T[::-1], key])]


class Lattice(Scheme):
    def __init__(self, stored, place, kind):
        super().__init__(place)
        self.kind, self.size, self.scale = kind, SIZE[kind], take_step(stored)

    def fixed_params(self, count):
        return None

    def vectors(self, code):
        return -(-code.count // self.size)

    def take_params(self, reader, code):
        """E, J, C, F"""
        escapes, joint = reader.varint(), reader.varint()
        others, first = (reader.varint(), reader.varint()) if escapes else (0, 0)
        require(escapes <= self.vectors(code) and max(joint, others, first) <= 32767, "E, J, C or F out of range")
        require(joint > 0 or escapes in (0, self.vectors(code)), "J of 0")
        require(joint == 0 or not 0 < escapes == self.vectors(code), "J without a joint stream")
        require(self.scale or joint == escapes == 0, "points where the scale is 0")
        return escapes, joint, others, first

    def streams(self, code):
        escapes, joint, others, first = code.params
        out = []
        if escapes == 0 or escapes < self.vectors(code):
            out.append(Stream(2 * joint + 1, self.vectors(code)))
        if escapes and HALVES[self.kind]:
            out.append(Stream(2, escapes))
        if escapes:
            out += [Stream(2 * others + 1, escapes * (self.size - 1)), Stream(2 * first + 1, escapes)]
        return out

    def words(self, code):
        """Of each vector; those behind the chunk's end are of sub 1."""
        count = self.vectors(code) * self.size
        words = self.place.words(draws.CELL, code.first + np.arange(count))
        behind = np.arange(code.count, count)
        words[code.count:] = self.place.words(draws.CELL, 8 * (code.first + code.count) + behind % self.size, 1)
        return words.reshape(-1, self.size)

    def values(self, code):
        points = self.points(code)
        if self.scale:
            z = dither(self.kind, self.words(code))
            points = leave_chamber(self.kind, z, points)
            scales = np.full(self.size, self.scale)
            if self.kind == "a2":
                scales[1] = self.scale * SECOND_SCALE
            values = ((F4(0.5) * points.astype(F4) - z.astype(F4)) * scales).reshape(-1)[:code.count].copy()
        else:
            values = np.zeros(code.count, F4)
        return put_back(values, code, limit=16384 * float(self.scale) if self.scale else REGULAR)

    def points(self, code):
        """As the chambers see them."""
        escapes, joint, _, _ = code.params
        streams = list(code.symbols)
        numbers = np.ones(self.vectors(code), np.int64)
        if escapes == 0 or escapes < self.vectors(code):
            q = streams.pop(0) - joint
            numbers = np.where(q > 0, 2 * q - 1, -2 * q)
        is_escaped = numbers == 1
        require(np.sum(is_escaped) == escapes, "another number of escapes")
        if not np.any(numbers):
            return np.zeros((len(numbers), self.size), np.int64)
        known = table(self.kind)
        require(numbers.max() <= len(known), "a point beyond the table")
        points = known[np.where(is_escaped, 0, np.maximum(numbers - 1, 0))]
        if escapes:
            points[is_escaped] = self.escaped(streams, code.params)
            require(escapes == len(numbers) or np.all(norms(self.kind, points[is_escaped]) > MOST[self.kind]),
                    "an escaped vector that is in the table")
        return points

    def escaped(self, streams, params):
        escapes, _, others_level, first_level = params
        coset = streams.pop(0) if HALVES[self.kind] else np.zeros(escapes, np.int64)
        others = streams[0].reshape(escapes, self.size - 1) - others_level
        first = streams[1] - first_level
        if EVEN[self.kind]:
            first = 2 * first + others.sum(axis=1) % 2
        return 2 * np.concatenate([first[:, None], others], 1) + coset[:, None]
