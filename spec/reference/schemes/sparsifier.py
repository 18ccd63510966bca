"""schemes/sparsifier.md: topk, threshold, randk, at and mask."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import random as draws
from reference.indices import take_places
from reference.reading import require
from reference.schemes.parts import F4, REGULAR, Scheme, Stream


class Sparsifier(Scheme):
    """`below(stored, place)` makes the scheme below; None without one."""

    def __init__(self, stored, place, name, shared, below):
        super().__init__(place)
        self.name, self.shared = name, shared
        if name == "at":
            starts = place.starts
            self.given = [np.flatnonzero(place.mask[a:b]) for a, b in zip(starts, starts[1:])]
            self.kept = [len(places) for places in self.given]
        else:
            self.kept = [stored.varint() for _ in place.chunks]
        require(all(kept <= count for kept, count in zip(self.kept, place.chunks)), "more kept than there are")
        self.total, self.last = sum(self.kept), None
        if name == "randk" and place.size:
            require(self.total > 0, "nothing drawn")
            self.last = stored.uint(4)
        if below:
            self.inner = below(stored, place.below(self.kept))

    def fixed_params(self, count):
        return None

    def take_params(self, reader, code):
        """The places that are kept."""
        if code.count == 0:
            return np.zeros(0, np.int64)
        kept = self.kept[code.index]
        if self.name == "at":
            return self.given[code.index]
        if self.name == "randk":
            return self.drawn(kept, code)
        return take_places(reader, kept, code.count)

    def drawn(self, kept, code):
        words = self.place.words(draws.SUBSET, code.places(), key=self.place.shared_key(self.shared))
        lower, equal = np.flatnonzero(words < self.last), np.flatnonzero(words == self.last)
        require(len(lower) <= kept <= len(lower) + len(equal), "another number than was drawn")
        return np.sort(np.concatenate([lower, equal[:kept - len(lower)]]))

    def streams(self, code):
        if self.inner or self.name == "mask":
            return []
        return [Stream(256, len(code.params)), Stream(0, 3 * len(code.params))]

    def values(self, code):
        values = np.zeros(code.count, F4)
        values[code.params] = self.kept_values(code)
        places, magnitudes = code.exceptions.places, code.exceptions.magnitudes()
        require(not np.any(self.needless(magnitudes)), "an exception without need")
        require(self.inner or not np.any(values.view(np.uint32)[places]), "an exception in the place of a value")
        values.view(np.uint32)[places] = code.exceptions.bits
        return values

    def kept_values(self, code):
        if self.inner:
            return self.inner.values(code.below)
        if self.name == "mask":
            return F4(1)
        k, (highest, others) = len(code.params), code.symbols
        bits = highest << 24 | others[2 * k:] << 16 | others[k:2 * k] << 8 | others[:k]
        kept = bits.astype(np.uint32).view(F4)
        require(np.all(np.abs(kept) <= REGULAR), "a value that is not regular")
        return kept

    def needless(self, magnitudes):
        if self.name != "randk":
            return magnitudes <= REGULAR
        scaled = magnitudes * self.place.size
        return (magnitudes == 0) | (2.0**-126 * self.total <= scaled) & (scaled <= REGULAR * self.total)
