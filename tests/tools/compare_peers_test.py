#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/compare-peers on small files, one round: what it prints is of the files it made. Nothing is said of times."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "compare-peers"
PROGRAM = os.environ["GRADCODEC"]


def compare(*arguments, path=None):
    env = {**os.environ, "PATH": path} if path else None
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, env=env)


def tables(text):
    """Heading of the first column: (headings, {name: cells})."""
    out, lines = {}, [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    for cells in lines:
        if cells[0] in ("program", "compress", "decompress"):
            rows = out.setdefault(cells[0], (cells, {}))[1]
        else:
            rows[cells[0]] = cells
    return out


class ComparePeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.x = np.random.default_rng(1).laplace(size=(300, 1000)).astype(np.float32)
        self.file = self.dir / "x.npy"
        np.save(self.file, self.x)

    def check_times(self, found, names, base):
        for direction in ("compress", "decompress"):
            headings, rows = found[direction]
            self.assertEqual(list(rows), names)
            for cells in rows.values():
                self.assertEqual(len(cells), len(headings))
                least, most = map(float, cells[2].split(".."))
                self.assertTrue(0 < least <= float(cells[1]) <= most)
                self.assertEqual(cells[3] == "1.00" if cells[0] == base else float(cells[3]) > 0, True, cells)
                self.assertGreater(float(cells[-1]), 1)  # MiB

    @unittest.skipUnless(shutil.which("zstd") and shutil.which("zfp"), "zstd and zfp are not installed")
    def test_all_peers(self):
        done = compare(self.file, "--rounds=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = tables(done.stdout)
        rows = found["program"][1]
        names = list(rows)
        self.assertEqual(names[:4], ["gradcodec -T1", "gradcodec -T2", "zstd -1", "zstd -3"])
        self.assertRegex(names[4], r"^zfp -a 2\^-?\d+$")
        self.check_times(found, names, "zstd -1")
        errors = {name: float(cells[4]) for name, cells in rows.items()}
        self.assertAlmostEqual(errors["gradcodec -T1"], 0.1, delta=0.002)
        self.assertEqual((errors["zstd -1"], errors["zstd -3"]), (0, 0))
        self.assertTrue(errors["gradcodec -T1"] / 8 < errors[names[4]] <= errors["gradcodec -T1"], errors)
        packed = self.dir / "x.gradz"
        subprocess.run([PROGRAM, "compress", self.file, "-q", "--seed=1", "-o", packed], check=True)
        for name in names[:2]:
            self.assertEqual(rows[name][1], f"{packed.stat().st_size:,}")

    @unittest.skipUnless(os.path.isabs(PROGRAM), "the program is found through PATH")
    def test_without_peers(self):
        done = compare("--values=300000", "--rounds=1", path=str(self.dir))
        self.assertEqual(done.returncode, 0, done.stderr)
        for peer in ("zstd", "zfp"):
            self.assertIn(f"{peer} is not installed", done.stdout)
        found = tables(done.stdout)
        self.assertEqual(list(found["program"][1]), ["gradcodec -T1", "gradcodec -T2"])
        self.assertEqual({cells[3] for cells in found["compress"][1].values()}, {"-"})
        self.assertIn("300,000 float32, 1.2 MB", done.stdout)

    def test_refusals(self):
        np.save(self.file, self.x.astype(np.float64))
        for arguments in ((self.file,), (self.dir / "none.npy",), (self.file, "--rounds=0")):
            done = compare(*arguments)
            self.assertNotIn(done.returncode, (0, -6, -11))
        self.assertIn("float64", compare(self.file).stderr)


if __name__ == "__main__":
    unittest.main()
