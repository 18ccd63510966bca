"""Of page_schemes.py: the numbers of schemes/rotation.md, nearest_normal.md and rounded_normal.md."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from page_numbers import F4, float_of, require, take_float

CENTROIDS = {1: [0.7978846], 2: [0.45278004, 1.5104176], 3: [0.24509416, 0.7560052, 1.3439093, 2.1519456],
             4: [0.12839502, 0.38804823, 0.656759, 0.94234025, 1.256231, 1.618046, 2.0690167, 2.7325888]}
LEVELS = {2: [0.8285143], 3: [0.31801653, 1.0003355, 1.8847173],
          4: [0.14317425, 0.43349558, 0.73654723, 1.0639938, 1.4345206, 1.88489, 2.5125089]}


def padded(count, block):
    rest = count % block
    return count - rest + (1 << (rest - 1).bit_length() if rest else 0)


def rotate_back(values, count, block, is_negative):
    """`count` elements of a chunk's rotated values; is_negative(i): the sign of its element i."""
    values = np.clip(values, F4(-2.0**108), F4(2.0**108))
    for at in range(0, count, block):
        y = values[at:at + block]
        h = 1
        while h < len(y):
            pairs = y.reshape(-1, 2, h)
            a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0], pairs[:, 1] = a + b, a - b
            h *= 2
        m = len(y).bit_length() - 1
        y *= F4(2.0**(-(m // 2))) * (float_of(0x3F3504F3) if m % 2 else F4(1))
    return np.array([-x if is_negative(i) else x for i, x in enumerate(values[:count])], F4)


def take_table(reader, bits, rounds):
    """Of a bucket: the value of each symbol; None if its scale is 0."""
    scale = take_float(reader)
    top = take_float(reader) if rounds else scale
    if scale.view(np.uint32) == top.view(np.uint32) == 0:
        return None
    require(2.0**(-120 if rounds else -126) <= scale <= 2.0**126, "scale")
    magnitudes = [scale * F4(x) for x in (LEVELS if rounds else CENTROIDS)[bits]]
    if rounds:
        require(magnitudes[-1] < top <= 2.0**126, "top")
        magnitudes.append(top)
    return [-x for x in magnitudes[::-1]] + magnitudes
