#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two HDF5 dumps with NumPy alone, so that it trusts nothing of gradcodec.

    tools/compare_dumps.py A.h5 B.h5 [NMSE]

Names, types and shapes must be equal. Without NMSE the values must be too, to the bit; with it, sum (b - a)^2 must be
NMSE * sum a^2 up to what chance allows. Prints the number of values, their bytes, and the NMSE measured over all
tensors; exit code 1 if anything differs."""
import sys

import h5py
import numpy as np


def tensors(path):
    found = {}
    with h5py.File(path, "r") as dump:
        dump.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def allowed(nmse, energies):
    """Six deviations above the promise. The square of a uniform error has the deviation 0.894 of its mean, and errors
    are independent: sum over elements of equal error is 0.894 / sqrt(n) off. The most unequal tensors matter most."""
    spread = np.sqrt(sum(e * e / n for n, e in energies)) / sum(e for _, e in energies)
    return nmse * (1 + 6 * 0.894 * spread)


def compare(before, after, nmse):
    if list(before) != list(after):
        return None, [f"other tensors: {sorted(before)} became {sorted(after)}"]
    wrong, parts, error = [], [], 0.0
    for name, a in before.items():
        b = after[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            wrong.append(f"{name}: {a.dtype}{a.shape} became {b.dtype}{b.shape}")
            continue
        if nmse is None:
            if a.tobytes() != b.tobytes():
                wrong.append(f"{name}: values differ")
            continue
        x, d = a.astype(np.float64), b.astype(np.float64) - a
        if not np.isfinite(d).all():
            wrong.append(f"{name}: not finite")
            continue
        energy, error_here = float((x * x).sum()), float((d * d).sum())
        if a.size and error_here > energy * allowed(nmse, [(a.size, energy or 1.0)]):
            wrong.append(f"{name}: NMSE {error_here / (energy or 1.0):.4g}, promised {nmse:g}")
        parts.append((max(a.size, 1), energy))
        error += error_here
    total = sum(e for _, e in parts)
    measured = error / total if total else 0.0
    if not wrong and total and measured > allowed(nmse, parts):
        wrong.append(f"all tensors: NMSE {measured:.4g}, promised {nmse:g}")
    return measured, wrong


def main(arguments):
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    before = tensors(arguments[0])
    measured, wrong = compare(before, tensors(arguments[1]), float(arguments[2]) if arguments[2:] else None)
    for what in wrong:
        print(f"compare_dumps: {what}", file=sys.stderr)
    if not wrong:
        print(sum(a.size for a in before.values()), sum(a.nbytes for a in before.values()), f"{measured:.4f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
