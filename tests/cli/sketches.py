# SPDX-License-Identifier: Apache-2.0
"""The pages schemes/countsketch.md and rounds.md in NumPy: hashes, tables, what they say, and what is heaviest."""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "spec"))
import page_numbers  # noqa: E402

HASH = 6  # the purpose


def words(key, ordinal, count, sub):
    """page_numbers.word_of of stage 0, of all coordinates below `count`."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1 = np.arange(-(-count // 4), dtype=np.uint64), np.uint64(0)
    c2, c3 = np.uint64(ordinal), np.uint64(HASH << 16 | sub)
    k0, k1 = (np.uint64(k) for k in key)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = p1 >> np.uint64(32) ^ c1 ^ k0, p1 & low, p0 >> np.uint64(32) ^ c3 ^ k1, p0 & low
        k0, k1 = k0 + np.uint64(0x9E3779B9) & low, k1 + np.uint64(0xBB67AE85) & low
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), axis=-1).ravel()[:count]


class Sketch:
    """The hashes of one tensor."""

    def __init__(self, seed, step, ordinal, size, rows, cols, scope="step"):
        key = page_numbers.step_key(seed, step) if scope == "step" else page_numbers.message_key(seed, None, None)
        drawn = [words(key, ordinal, size, row) for row in range(rows)]
        self.cols, self.minus = cols, np.array([w >> np.uint64(31) != 0 for w in drawn])
        self.buckets = np.array([(w << np.uint64(1) & np.uint64(0xFFFFFFFF)) * np.uint64(cols) >> np.uint64(32)
                                 for w in drawn]).astype(int)

    def table(self, x):
        """Of float32."""
        x = np.asarray(x, "f8").ravel()
        return np.array([np.bincount(b, np.where(minus, -x, x), self.cols) for b, minus in
                         zip(self.buckets, self.minus)]).astype("f4") + np.float32(0)

    def estimates(self, table):
        said = np.array([np.where(minus, -row[b], row[b]) for b, minus, row in zip(self.buckets, self.minus, table)])
        return np.sort(said, axis=0)[len(table) // 2] + table.dtype.type(0)


def heaviest(tensors, count):
    """{name: places} of the largest magnitudes: of equal ones the first tensor's, the lower place's."""
    keys = np.concatenate([np.abs(x).ravel().view(np.uint32) for x in tensors.values()])
    order = np.argsort(-keys.astype(np.int64), kind="stable")[:count]
    return split(tensors, np.sort(order))


def split(tensors, order):
    out, first = {}, 0
    for name, x in tensors.items():
        out[name] = order[(order >= first) & (order < first + x.size)] - first
        first += x.size
    return out


def only(tensors, places):
    """The tensors, 0 but for these places."""
    out = {}
    for name, x in tensors.items():
        kept = np.zeros_like(x)
        kept.ravel()[places[name]] = x.ravel()[places[name]]
        out[name] = kept + 0
    return out
