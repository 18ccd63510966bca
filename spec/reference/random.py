"""random.md: the generator, keys, and the words of draws. All of many coordinates at once."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

F4 = np.float32
LOW = np.uint64(0xFFFFFFFF)
ROUNDING, NARROWING, SUBSET, ROTATION, CELL, HASH, FILL = range(1, 8)
NARROWING_STAGE = 255


def philox(key, counter):
    """Philox4x32-10: `counter` is four arrays of uint64 that hold 32-bit words, and so is the result."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ np.uint64(k0), p1 & LOW, p0 >> 32 ^ c3 ^ np.uint64(k1), p0 & LOW
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0, c1, c2, c3


def derived(key, counter):
    words = philox(key, [np.array([word], np.uint64) for word in counter])
    return int(words[0][0]), int(words[1][0])


class Keys:
    """Section 2: of the message, of the step, of the run. None is what the message does not say."""

    def __init__(self, seed, worker, step):
        self.run = (seed & 0xFFFFFFFF, seed >> 32)
        low, high = (step or 0) & 0xFFFFFFFF, (step or 0) >> 32
        self.step = derived(self.run, (low, high, 0, 0x73746531))
        self.message = self.run
        if worker is not None or step is not None:
            self.message = derived(self.run, (low, high, worker or 0, 0x6D736731))


def words(key, ordinal, stage, purpose, places, sub=0):
    """Section 3: one word (uint32) a coordinate of `places`."""
    places = np.asarray(places, np.uint64)
    last = np.full_like(places, stage << 24 | purpose << 16 | sub)
    four = philox(key, (places >> 2 & LOW, places >> 34, np.full_like(places, ordinal), last))
    return np.choose((places & 3).astype(np.int64), four).astype(np.uint32)


def v_of(words):
    return ((words >> 9).astype(F4) + F4(0.5)) * F4(2**-23)


def u_of(words):
    return v_of(words) - F4(0.5)
