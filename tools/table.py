#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The README's tables: what schemes, or coders, make of dumps, as Markdown.

    tools/table.py DUMP...                     bits a value, NMSE and encoding speed of each scheme
    tools/table.py --no-speed DUMP...          the same without speed
    tools/table.py --coders DUMP...            bits a value by coder
    tools/table.py --check README.md DUMP...   whether the file has these numbers in a table of the same dumps

Runs build/release/gradcodec, or GRADCODEC. Whole files are counted, names, checks and index included. With --seed 1
bits and NMSE are always the same, those of `zstd` with one version of it. Speeds are of one thread that has the first
dump's values in memory, again and again up to --size; finding scales and choosing elements is included, files are not.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

# The promise is of `gradcodec schemes --json`; every scheme there is in the list, but for those that code no dump by
# themselves. Behind a scheme may stand a coder, as it is typed.
SCHEMES = [
    "raw",
    "dither:nmse=0.01",
    "dither:nmse=0.1",
    "dither:nmse=0.1,steps=class --coder model",
    "dither:nmse=0.1,bucket=512",
    "choose:nmse=1",
    "lattice:nmse=0.1",
    "lowrank:rank=8+dither:nmse=0.1",
    "lowrank:rank=16+dither:nmse=0.1,steps=class --coder model",
    "dqsg:levels=3",
    "dqsg:levels=5,bucket=512",
    "dqsg:levels=255",
    "ndqsg:fine=9,coarse=3",
    "qsgd:s=4",
    "qsgd:s=16",
    "adaquant:s0=4,loss0=2.3,loss=0.57",
    "terngrad",
    "natural",
    "maxnorm:bits=4",
    "multiscale:bits=4-8",
    "grid:step=0.005",
    "nuqsgd:s=4",
    "alq:s=4",
    "amq:s=4",
    "tqsgd:bits=4",
    "tnqsgd:bits=4",
    "tbqsgd:bits=4",
    "rotate/dither:nmse=0.1",
    "rotq:bits=3",
    "drive",
    "eden:bits=2",
    "randk:k=10%",
    "randk:k=10%/dqsg:levels=255",
    "topk:k=1%",
    "topk:k=1%/qsgd:s=4",
    "threshold:t=0.005",
    "countsketch:rows=5,cols=5%",
    "sign",
    "onebit",
    "uniform:bits=4",
    "bq:clip=0.05,bits=4,m=32",
]
ANSWERS = {"at", "mask"}  # to what others ask for, and index sets
MEMORIES = {"ef", "ec", "momentum", "diana", "shrink"}  # whose first messages are those of the scheme behind them
CODERS = ["pack", "elias", "zstd", "rans", "rans-dither", "model"]
CODED = ["dither:nmse=0.1", "dqsg:levels=3", "dqsg:levels=255"]
USUAL = "rans-dither"
SIZE = 1 << 24  # floats that no cache holds

UNBIASED = {"exact": "exact", "unbiased": "yes", "unbiased, clipped": "clipped values", "exact along x": "along x",
            "unbiased, if near": "if near"}


class Program:
    def __init__(self, path):
        self.path = path
        self.promises = {scheme["name"]: scheme["promise"] for scheme in self.json("schemes")}

    def run(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stderr.decode())
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def unbiased(self, scheme):
        """Unbiased stages stay so one over another; what is not unbiased spoils the rest. Of a sum the last part counts."""
        words = [self.promises[stage.split(":")[0]] for stage in scheme.split("+")[-1].split("/")]
        words = [word for word in words if word != "as below"]
        worst = next((word for word in words if word != "unbiased"), "unbiased")
        return UNBIASED.get(worst, "no")

    def measure(self, dump, scheme, coder=None):
        """Bits a value of the whole file, and NMSE."""
        # Secret noise is never the same twice; test noise has the same law and size.
        text = scheme + ",noise=test" if scheme.startswith("bq") else scheme
        options = ["--coder", coder] if coder else []
        side = ["--side-info", dump] if scheme.startswith("ndqsg") else []  # as near as can be
        with tempfile.TemporaryDirectory() as work:
            packed = os.path.join(work, "x.gradz")
            self.run("compress", dump, "-q", "-o", packed, "--scheme", text, "--seed", 1, *options)
            whole = self.json("stats", packed, "-q", "--against", dump, *side)["whole"]
        return whole["bits_per_value"], whole["nmse"]

    def speeds(self, dump, rows, size, rounds):
        """{row of SCHEMES: (bytes a second, share of memcpy in the same run)}"""
        out = {}
        for coder in (USUAL, "zstd", "pack", "model"):
            mine = {scheme_of(row): row for row in rows if coder_of(row) == coder}
            if not mine:
                continue
            report = self.json("bench", dump, "-q", "-T1", "--coder", coder, "--size", size, "--repeats", rounds,
                               *(f"--scheme={scheme}" for scheme in mine))
            memcpy = report["memcpy"][0]["memcpy_gb_per_s"]
            for measured in report["combinations"]:
                prepare = measured["prepare_gb_per_s"]
                seconds = 1 / measured["encode_gb_per_s"] + (1 / prepare if prepare else 0)
                out[mine[measured["scheme"]]] = (1e3 / seconds, 1 / seconds / memcpy)
        return out


def scheme_of(row):
    return row.partition(" --coder ")[0]


def coder_of(row):
    """The one that is named, or what compress takes."""
    usual = "zstd" if row == "raw" else "pack" if row.startswith("bq") else USUAL
    return row.partition(" --coder ")[2] or usual


def digits(x):
    """Two significant digits, no exponent where there is room."""
    return f"{x:.0f}" if x >= 9.95 else f"{x:.2g}"


def print_table(headings, left, rows):
    print("| " + " | ".join(headings) + " |\n|" + "---|" * left + "---:|" * (len(headings) - left))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def headings_of(dumps, names):
    """With the dump's name only where there are several."""
    files = [os.path.basename(dump) for dump in dumps]
    return [name if len(dumps) == 1 else f"{name}, {file}" for file in files for name in names]


def scheme_rows(program, dumps):
    for entry in SCHEMES:
        scheme = scheme_of(entry)
        row = [f"`{entry}`", program.unbiased(scheme)]
        for dump in dumps:
            bits, nmse = program.measure(dump, scheme, coder_of(entry))
            row += [f"{bits:.2f}", digits(nmse)]
        yield row


def scheme_table(program, args):
    headings = ["scheme", "unbiased", *headings_of(args.dumps, ["bits", "NMSE"])]
    rows = list(scheme_rows(program, args.dumps))
    if not args.no_speed:
        headings.append("encode, MB/s (of memcpy)")
        speeds = program.speeds(args.dumps[0], SCHEMES, args.size, args.rounds)
        for scheme, row in zip(SCHEMES, rows):
            rate, share = speeds[scheme]
            row.append(f"{digits(rate)} ({share:.2g})")
    print_table(headings, 2, rows)


def coder_table(program, dumps):
    rows = ([f"`{scheme}`", coder, *(f"{program.measure(dump, scheme, coder)[0]:.2f}" for dump in dumps)]
            for scheme in CODED for coder in CODERS)
    print_table(["scheme", "coder", *headings_of(dumps, ["bits"])], 2, rows)


def check(program, path, dumps):
    """Rows of the file's table that are not what is measured, speeds apart; those by Zstandard vary with its version."""
    with open(path, encoding="utf-8") as file:
        written = [line.strip()[2:-2].split(" | ") for line in file if line.startswith("| `")]
    wrong = 0
    for row in scheme_rows(program, dumps):
        if row[0] == "`raw`" or any(cells[:len(row)] == row for cells in written):
            continue
        wrong += 1
        print(f"{path}: has no row | {' | '.join(row)} |", file=sys.stderr)
    return 1 if wrong else 0


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="+", metavar="DUMP")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--no-speed", action="store_true")
    what.add_argument("--coders", action="store_true")
    what.add_argument("--check", metavar="FILE")
    parser.add_argument("--size", type=int, default=SIZE, help="values that speed is measured on [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="of which medians are taken [%(default)s]")
    args = parser.parse_args()
    program = Program(os.environ.get("GRADCODEC", os.path.join(root, "build", "release", "gradcodec")))
    shown = {stage.split(":")[0] for scheme in SCHEMES for stage in scheme.replace("+", "/").split("/")}
    missing = set(program.promises) - ANSWERS - MEMORIES - shown
    if missing:
        sys.exit(f"tools/table.py: no row for {', '.join(sorted(missing))}")
    if args.check:
        return check(program, args.check, args.dumps)
    coder_table(program, args.dumps) if args.coders else scheme_table(program, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
