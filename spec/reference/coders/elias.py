"""coders/elias.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import require


class Bits:
    """The highest bit of a byte first."""

    def __init__(self, data):
        self.bits, self.at = np.unpackbits(np.frombuffer(data, np.uint8)).tobytes(), 0

    def take(self, count):
        require(count <= len(self.bits) - self.at, "the bits end early")
        value = 0
        for bit in self.bits[self.at:self.at + count]:
            value = value << 1 | bit
        self.at += count
        return value

    def omega(self, most):
        """A number from 1 to `most`."""
        k = 1
        while self.take(1):
            require(k <= most, "a number that is too large")
            k = 1 << k | self.take(k)
        require(k <= most, "a number that is too large")
        return k


def omega_size(k):
    return 1 if k == 1 else omega_size(k.bit_length() - 1) + k.bit_length()


def decode(data, alphabet, count):
    if alphabet == 0:
        require(len(data) == count, "bytes of another number")
        return np.frombuffer(data, np.uint8).astype(np.int64)
    if alphabet == 1 or count == 0:
        require(data == b"", "bytes for nothing")
        return np.zeros(count, np.int64)
    bits, middle = Bits(data), alphabet // 2
    out, last, positions = np.full(count, middle, np.int64), 0, 0

    def level():
        if bits.take(1):
            return middle - bits.omega(middle)
        return middle + bits.omega(alphabet - 1 - middle)

    sparse = bits.take(1)
    levels = bits.omega(count + 1) - 1 if sparse else 0
    if sparse:
        for _ in range(levels):
            gap = bits.omega(count - last)
            last, positions = last + gap, positions + omega_size(gap)
            out[last - 1] = level()
    else:
        for i in range(count):
            if bits.take(1):
                out[i] = level()
                last, positions, levels = i + 1, positions + omega_size(i + 1 - last), levels + 1
    positions += omega_size(levels + 1)
    require(sparse == (positions < count), "the form that is longer")
    rest = len(bits.bits) - bits.at
    require(rest < 8 and bits.take(rest) == 0, "bits behind the symbols")
    return out
