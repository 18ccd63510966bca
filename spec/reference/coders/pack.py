"""coders/pack.md"""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference.reading import require


def digits_in(alphabet, size):
    k = 0
    while alphabet ** (k + 1) <= 256**size:
        k += 1
    return k


def group_of(alphabet):
    """(bytes, digits) of a full group."""
    sizes = [b for b in range(1, 9) if digits_in(alphabet, b)]
    size = min(sizes, key=lambda b: (b / digits_in(alphabet, b), b))
    return size, digits_in(alphabet, size)


def rest_size(alphabet, count):
    """Bytes of a last group."""
    return ((alphabet**count - 1).bit_length() + 7) // 8


def packed_size(alphabet, count, group=None):
    if alphabet == 0:
        return count
    if alphabet == 1:
        return 0
    size, digits = group or group_of(alphabet)
    return count // digits * size + rest_size(alphabet, count % digits)


def decode(data, alphabet, count, group=None):
    """`count` symbols. `group`: bytes and digits of a full group, if they are not those of the page."""
    require(len(data) == packed_size(alphabet, count, group), "packed symbols of another size")
    if alphabet == 0:
        return np.frombuffer(data, np.uint8).astype(np.int64)
    if alphabet == 1:
        return np.zeros(count, np.int64)
    size, digits = group or group_of(alphabet)
    groups, rest = divmod(count, digits)
    out = np.concatenate([take_groups(data[:groups * size], alphabet, size, digits),
                          take_groups(data[groups * size:], alphabet, rest_size(alphabet, rest), rest)])
    return out


def take_groups(data, alphabet, size, digits):
    if digits == 0:
        return np.zeros(0, np.int64)
    numbers = np.zeros((len(data) // size, 8), np.uint8)
    numbers[:, :size] = np.frombuffer(data, np.uint8).reshape(-1, size)
    numbers = numbers.view("<u8")[:, 0]
    require(not np.any(numbers > np.uint64(alphabet**digits - 1)), "a group beyond its alphabet")
    out = np.zeros((len(numbers), digits), np.int64)
    for i in range(digits):
        out[:, i] = numbers % np.uint64(alphabet)
        numbers = numbers // np.uint64(alphabet)
    return out.reshape(-1)
