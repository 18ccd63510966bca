"""schemes/lattice.md, from the page: points from symbols, and values from points."""
# SPDX-License-Identifier: Apache-2.0
import functools
import math

import numpy as np

from page_numbers import F4, require
DIMENSION = {"a2": 2, "d4": 4, "e8": 8}
LIMIT = {"a2": 72000, "d4": 640, "e8": 40}
HALVES = {"a2": True, "d4": False, "e8": True}
EVEN = {"a2": False, "d4": True, "e8": True}
KEYS = {"a2": (3, (4, 2)), "d4": (5, (10, 6, 4, 2)), "e8": (25, (49, 35, 29, 22, 17, 12, 8, -1))}
SECOND_SCALE = np.array(0x3FDDB3D7, np.uint32).view(F4)[()]


def norm(kind, p):
    return p[0] ** 2 + 3 * p[1] ** 2 if kind == "a2" else sum(c * c for c in p)


def nearest_in_coset(kind, y):
    p = [math.floor(c + 0.5) for c in y]
    r = [c - q for c, q in zip(y, p)]
    if EVEN[kind] and sum(p) % 2 == 1:
        far = max(range(len(r)), key=lambda i: (abs(r[i]), -i))
        by = 1 if r[far] >= 0 else -1
        p[far] += by
        r[far] -= by
    distance = r[0] * r[0] + 3 * (r[1] * r[1]) if kind == "a2" else functools.reduce(lambda s, c: s + c * c, r, 0.0)
    return distance, r


def rest(kind, y):
    """y - Q(y)."""
    plain = nearest_in_coset(kind, y)
    if not HALVES[kind]:
        return plain[1]
    shifted = nearest_in_coset(kind, [c - 0.5 for c in y])
    return min(plain, shifted, key=lambda found: (found[0], found[1][0]))[1]


def dither(kind, words):
    if kind == "a2":
        v = [(w >> 9) * 2.0**-23 + 2.0**-24 - 0.5 for w in words]
    else:
        v = [(w >> 8) * 2.0**-23 + 2.0**-24 - 1 for w in words]
    return rest(kind, v)


def leave_chamber(kind, z, p):
    if kind == "a2":
        x, t = map(abs, z)
        above_60 = t > x
        if above_60:
            x, t = (3 * t - x) / 2, (x + t) / 2
        if 3 * t > x:
            p = [(p[0] + 3 * p[1]) // 2, (p[0] - p[1]) // 2]
        if above_60:
            p = [(3 * p[1] - p[0]) // 2, (p[0] + p[1]) // 2]
        return [c if of > 0 else -c for c, of in zip(p, z)]
    places = sorted(range(len(z)), key=lambda i: -abs(z[i]))  # stable
    signs = [1 if z[i] > 0 else -1 for i in places]
    if kind == "e8" and signs.count(-1) % 2:
        signs[-1] = -signs[-1]
    out = [0] * len(z)
    for k, i in enumerate(places):
        out[i] = signs[k] * p[k]
    return out


@functools.lru_cache(None)
def table(kind):
    points = [()]
    for place in range(DIMENSION[kind]):
        weight = 3 if kind == "a2" and place == 1 else 1
        most = math.isqrt(LIMIT[kind] // weight)
        longer = []
        for p in points:
            left = LIMIT[kind] - sum((3 if kind == "a2" and i == 1 else 1) * c * c for i, c in enumerate(p))
            for c in range(-most, most + 1):
                same = p[0] % 2 == c % 2 if p else HALVES[kind] or c % 2 == 0
                if weight * c * c <= left and same:
                    longer.append(p + (c,))
        points = longer
    if EVEN[kind]:
        points = [p for p in points if sum(p) % 4 == 0]
    factor, weights = KEYS[kind]
    points.sort(key=lambda p: (factor * norm(kind, p) - sum(w * c for w, c in zip(weights, p)), p))
    return points


def decode(kind, scale, words, vectors, streams, shape):
    """The values of all vectors. `words(vector)`: of its dither. `streams`: the symbols of those that there are."""
    escapes, j, c_level, f_level = shape
    size = DIMENSION[kind]
    joint = streams.pop(0) if escapes == 0 or escapes < vectors else None
    coset = streams.pop(0) if escapes and HALVES[kind] else [0] * escapes
    others, first = streams if escapes else ([], [])
    scales = [scale, scale * SECOND_SCALE] if kind == "a2" else [scale] * size
    values, escaped = [], 0
    for vector in range(vectors):
        q = joint[vector] - j if joint is not None else 1
        number = 2 * q - 1 if q > 0 else -2 * q
        if number == 1:
            require(escaped < escapes, "escapes")
            rest_q = [s - c_level for s in others[escaped * (size - 1):(escaped + 1) * (size - 1)]]
            f = first[escaped] - f_level
            q1 = 2 * f + sum(rest_q) % 2 if EVEN[kind] else f
            p = [2 * x + coset[escaped] for x in [q1, *rest_q]]
            require(joint is None or norm(kind, p) > LIMIT[kind], "in the table")
            escaped += 1
        else:
            require(number <= len(table(kind)), "a point")
            p = table(kind)[number - 1 if number else 0]
        z = dither(kind, words(vector))
        p = leave_chamber(kind, z, p)
        values += [(F4(0.5) * F4(c) - F4(of)) * s for c, of, s in zip(p, z, scales)]
    require(escaped == escapes, "escapes")
    return values
