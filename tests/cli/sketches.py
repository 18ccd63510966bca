# SPDX-License-Identifier: Apache-2.0
"""The pages schemes/countsketch.md and rounds.md in NumPy: hashes, tables, what they say, and what is heaviest."""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "spec"))
from reference.random import FILL, HASH, Keys, words  # noqa: E402


class Sketch:
    """The hashes of one tensor."""

    def __init__(self, seed, step, ordinal, size, rows, cols, scope="step"):
        keys = Keys(seed, None, step)
        key = keys.step if scope == "step" else keys.run
        drawn = [words(key, ordinal, 0, HASH, np.arange(size), row).astype(np.uint64) for row in range(rows)]
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


def filling_words(seed, step, tensors):
    """HEAVYMIX: of all elements of all tensors, in order."""
    key = Keys(seed, None, step).step
    return np.concatenate([words(key, ordinal, 0, FILL, np.arange(x.size))
                           for ordinal, x in enumerate(tensors.values())])


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
