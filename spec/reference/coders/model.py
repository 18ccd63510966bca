"""coders/model.md"""
# SPDX-License-Identifier: Apache-2.0
from functools import lru_cache
from pathlib import Path

import numpy as np

from reference.coders import rans
from reference.reading import Reader, require

CLASSES, ZERO, ESCAPE = 77, 77, 31
LAWS = np.array((Path(__file__).resolve().parents[2] / "coders/model-laws.txt").read_text().split(),
                np.int64).reshape(4, 1025)
INVERSE = (1048576, 881744, 741455, 623487)


def raw_count(scale):
    return 0 if scale <= 38 or scale == ZERO else (scale - 38 + 3) // 4


def tail(law, scale, distances):
    z = distances * INVERSE[scale % 4] >> 14 + scale // 4
    i, rest = np.minimum(z >> 16, 1024), z & 0xFFFF
    table = LAWS[law]
    return table[i] - ((table[i] - table[np.minimum(i + 1, 1024)]) * rest >> 16)


@lru_cache(maxsize=None)
def row(law, scale, dither):
    """(token, frequency, start) of each run of slots."""
    if scale == ZERO:
        return [(0, 2**15, 0)]
    j = np.arange(4)
    points = 5120 * (2 * j + 1) if dither == 0 else 8 * (4 + dither % 4) + 2 * j + 1 << (dither + 60) // 4 - 5
    edges = np.arange(17) << raw_count(scale)
    upper = [int(tail(law, scale, (edge - 1 << 24) + points).sum()) if edge else None for edge in edges]
    lower = [int(tail(law, scale, (edge + 1 << 24) - points).sum()) for edge in edges]
    shares = [0] + [upper[k] - upper[k + 1] if sign > 0 else lower[k - 1] - lower[k]
                    for k in range(1, 16) for sign in (1, -1)]
    counts = [share + 2**16 >> 17 for share in shares]
    escaping = upper[16] + lower[15] + sum(share for share, count in zip(shares, counts) if not count)
    counts.append(max(1, escaping + 2**16 >> 17))
    counts[0] = 2**15 - sum(counts)
    starts = np.cumsum([0] + counts).tolist()
    return [(token, count, starts[token]) for token, count in enumerate(counts) if count]


def take_token(lanes, lane, runs):
    state = lanes.states[lane]
    slot = state & 2**15 - 1
    token, frequency, start = next(run for run in reversed(runs) if run[2] <= slot)
    lanes.states[lane] = frequency * (state >> 15) + slot - start
    lanes.refill(lane)
    return token


def decode(data, alphabet, count, contexts=None, classes=0, scales=None):
    """`scales()`: one for each symbol, of a stream that has them."""
    if alphabet == 1 or count == 0:
        return rans.decode(data, alphabet, count)
    reader = Reader(data)
    head = reader.uint(1)
    if head & 3 == 0:
        require(head == 0, "form 0 with other bits")
        return rans.decode(reader.take(reader.left()), alphabet, count, contexts, classes)
    require(scales is not None, "a form for scales where there are none")
    law, offset = head >> 2 & 3, (head >> 4) - 4
    require(offset <= 4, "scales moved by more than an octave")
    number = reader.varint()
    require(number <= count, "more escapes than symbols")
    escapes = [reader.varint() for _ in range(number)]
    require(all(z < alphabet for z in escapes), "an escape beyond the alphabet")
    escapes = [z >> 1 if z % 2 == 0 else -(z + 1 >> 1) for z in reversed(escapes)]
    lanes = rans.Lanes(reader, rans.LANES[head & 3])
    scales, contexts = scales(), contexts()
    scales = np.where(scales == ZERO, ZERO, np.clip(scales + offset, 0, CLASSES - 1)).tolist()
    dithers, width = (contexts >> 1).tolist(), len(lanes.states)
    has_raw = any(raw_count(scale) for scale in set(scales))
    q = []
    for first in range(0, count, width):
        places = range(first, min(first + width, count))
        tokens = [take_token(lanes, i - first, row(law, scales[i], dithers[i])) for i in places]
        for i, token in zip(places, tokens):
            if token == ESCAPE:
                require(escapes, "too few escapes")
                q.append(escapes.pop())
                continue
            bits = raw_count(scales[i]) if has_raw else 0
            raw = lanes.raw(i - first, bits)
            q.append(((token + 1 >> 1) * (1 if token % 2 else -1) << bits) + raw)
    require(not escapes, "too many escapes")
    lanes.end()
    symbols = alphabet // 2 + np.where(contexts & 1, -np.array(q), q)
    require(symbols.min() >= 0 and symbols.max() < alphabet, "a symbol beyond the alphabet")
    return symbols
