#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tools/table.py DUMP.h5: the README's table. Bits a value and relative squared error of schemes on a dump, as Markdown.

Runs build/release/gradcodec, or GRADCODEC; whole files are counted, names, checks and index included. With --seed 1 the numbers are
always the same, those of `zstd` with one version of it.
"""
import os
import subprocess
import sys
import tempfile

import compare_dumps

ROWS = [
    ("raw", "zstd"),
    ("dither:nmse=0.01", "rans-dither"),
    ("dither:nmse=0.05", "rans-dither"),
    ("dither:nmse=0.1", "pack"),
    ("dither:nmse=0.1", "zstd"),
    ("dither:nmse=0.1", "rans"),
    ("dither:nmse=0.1", "rans-dither"),
    ("dither:nmse=0.2", "rans-dither"),
    ("dither:nmse=0.1,bucket=512", "rans-dither"),
    ("dqsg:levels=3", "pack"),
    ("dqsg:levels=3", "elias"),
    ("dqsg:levels=3", "rans"),
    ("dqsg:levels=3", "rans-dither"),
    ("dqsg:levels=5,bucket=512", "rans-dither"),
    ("dqsg:levels=255", "rans-dither"),
    ("dqsg:levels=65535", "rans-dither"),
]


def measure(gradcodec, dump, scheme, coder, work):
    packed, restored = os.path.join(work, "x.gradz"), os.path.join(work, "x.h5")
    run = lambda *arguments: subprocess.run([gradcodec, *arguments, "-q", "-f"], check=True)
    run("compress", dump, "--scheme", scheme, "--coder", coder, "--seed", "1", "-o", packed)
    run("decompress", packed, "-o", restored)
    before, after = compare_dumps.tensors(dump), compare_dumps.tensors(restored)
    values = sum(x.size for x in before.values())
    noise = sum(((after[name].astype("f8") - x.astype("f8")) ** 2).sum() for name, x in before.items())
    energy = sum((x.astype("f8") ** 2).sum() for x in before.values())
    return 8 * os.path.getsize(packed) / values, noise / energy


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    gradcodec = os.environ.get("GRADCODEC", os.path.join(root, "build", "release", "gradcodec"))
    print("| scheme | coder | bits a value | NMSE |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as work:
        for scheme, coder in ROWS:
            bits, nmse = measure(gradcodec, sys.argv[1], scheme, coder, work)
            print(f"| `{scheme}` | {coder} | {bits:.2f} | {nmse:.2g} |")


if __name__ == "__main__":
    main()
