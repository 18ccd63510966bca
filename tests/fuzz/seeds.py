#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small inputs for a fuzz target to start from, of the vectors: tests/fuzz/seeds.py TARGET FOLDER."""
import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VECTORS = ROOT / "spec/vectors"
MOST = 8192


def schema_body(file):
    """What a schema file holds: its one block without prologue, tag, size and check."""
    data = file.read_bytes()
    at = 17
    while data[at] & 0x80:
        at += 1
    return data[at + 1:-8]


def bare():
    for file in VECTORS.glob("*/schema"):
        message = json.loads((file.parent / "vector.json").read_text()).get("file", "file.gradz")
        body = schema_body(file)
        yield len(body).to_bytes(2, "little") + body + (file.parent / message).read_bytes()


def dumps():
    for folder in (VECTORS, ROOT / "tests"):
        yield from (file.read_bytes() for end in ("npy", "npz", "h5") for file in folder.rglob(f"*.{end}"))


def files():
    return (file.read_bytes() for file in VECTORS.rglob("*.gradz"))


def text():
    for file in VECTORS.glob("*/vector.json"):
        yield from (found.encode() for found in re.findall(r"--scheme=(\S+?)[\s\"]", file.read_text()))


def main(target, folder):
    makers = {"bare": bare, "beside": files, "dumps": dumps, "reader": files, "text": text}
    seeds = {seed for seed in makers[target]() if len(seed) <= MOST} if target in makers else set()
    for seed in seeds:
        (Path(folder) / f"seed-{hashlib.sha256(seed).hexdigest()[:16]}").write_bytes(seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
