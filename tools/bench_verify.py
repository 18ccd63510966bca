#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/bench_verify.py [VALUES] [TRIALS]: what `verify` costs beside what it tries, in one run on this machine.

Makes a normal .npy of VALUES (25,000,000) float32, then for some schemes times compress, decompress, and verify with
TRIALS (8), the least of three runs each, all cores; prints verify's time over TRIALS times that of one compress and one
decompress, and the most memory that verify held. Whole processes of build/release/gradcodec."""
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).resolve().parents[1] / "build/release/gradcodec"


def least_time(*arguments):
    times = []
    for _ in range(3):
        start = time.monotonic()
        subprocess.run([PROGRAM, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - start)
    return min(times)


def main():
    values, trials = (int(text) for text in (sys.argv[1:] + ["25000000", "8"][len(sys.argv) - 1:]))
    with tempfile.TemporaryDirectory() as folder:
        dump, packed, back = (os.path.join(folder, name) for name in ("x.npy", "x.gradz", "back.npy"))
        np.save(dump, np.random.default_rng(1).standard_normal(values, dtype="f4"))
        print(f"{values:,} values, R = {trials}")
        for scheme, coder in (("dqsg:levels=5", "pack"), ("dither:nmse=0.1", "pack"), ("dither:nmse=0.1", "zstd")):
            how = ["--scheme", scheme, "--coder", coder, "--seed", 1, "-q"]
            forth = least_time("compress", dump, "-f", "-o", packed, *how)
            back_time = least_time("decompress", packed, "-f", "-o", back, "-q")
            # The largest of all children so far; compress and decompress hold less.
            test = least_time("verify", dump, "--trials", trials, *how)
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{scheme}, {coder}: compress {forth:.2f} s, decompress {back_time:.2f} s, verify {test:.2f} s: "
                  f"{test / (trials * (forth + back_time)):.2f} times as long a trial, {memory:.0f} MiB")


if __name__ == "__main__":
    main()
