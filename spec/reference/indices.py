"""indices.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import Damaged, require


def take_places(reader, kept, count):
    """`kept` places below `count`, rising."""
    is_missing = kept > count // 2
    written = count - kept if is_missing else kept
    if written == 0:
        return np.arange(count if is_missing else 0)
    require(written <= 8 * reader.left(), "a list of places that ends early")
    r, gaps = take_gaps(reader, written, count)
    places = np.cumsum(gaps + 1) - 1
    sizes = [written * (s + 1) + int(np.sum(gaps >> s)) for s in range(32)]
    require(sizes.index(min(sizes)) == r, "a list of places that is not the shortest")
    if not is_missing:
        return places
    marks = np.ones(count, bool)
    marks[places] = False
    return np.flatnonzero(marks)


def take_gaps(reader, written, count):
    """(r, gaps)"""
    bits = np.unpackbits(np.frombuffer(reader.data, np.uint8, offset=reader.at), bitorder="little").tobytes()

    def low(at, size):
        return sum(bit << i for i, bit in enumerate(bits[at:at + size]))

    r, at, gaps, left = low(0, 5), 5, [], count
    for _ in range(written):
        one = bits.find(b"\1", at)
        if one < 0 or one + 1 + r > len(bits):
            raise Damaged("a list of places that ends early")
        gaps.append(one - at << r | low(one + 1, r))
        at, left = one + 1 + r, left - gaps[-1] - 1
        require(left >= 0, "a place beyond the chunk")
    size = (at + 7) // 8
    require(not any(bits[at:8 * size]), "bits behind a list of places")
    reader.take(size)
    return r, np.array(gaps, np.int64)
