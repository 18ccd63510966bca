#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the README prints is what the program prints, where no byte depends on the version of a library."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]


class Readme(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.lines = (ROOT / "README.md").read_text().splitlines()

    def setUp(self):
        super().setUp()
        shutil.copy(support.DATA / "fc.h5", self.dir / "grads.h5")

    def assert_printed(self, lines):
        self.assertTrue(lines)
        for line in lines:
            self.assertIn("    " + line, self.lines)

    def test_sizes_of_the_tensors(self):
        self.ok("compress", "grads.h5", "--seed", "1", cwd=self.dir)
        out = self.ok("info", "grads.h5.gradz", cwd=self.dir).out.decode().splitlines()
        tensors = [line for line in out if line.startswith(("fc", "payloads", "frame heads"))]
        self.assertEqual(len(tensors), 8)
        self.assert_printed(tensors)

    def test_entropy_and_coded_bits(self):
        out = self.ok("stats", "grads.h5", "--scheme", "dqsg:levels=3", "--scheme", "dither:nmse=0.1", cwd=self.dir)
        self.assert_printed(out.out.decode().splitlines()[-2:])

    def test_table_of_schemes(self):
        program = str(Path(os.environ["GRADCODEC"]).resolve())
        out = subprocess.run([sys.executable, ROOT / "tools/table.py", support.DATA / "fc.h5"], capture_output=True,
                             text=True, check=True, env={**os.environ, "GRADCODEC": program}).stdout
        rows = [row for row in out.splitlines() if "| zstd |" not in row]
        self.assertGreater(len(rows), 12)
        for row in rows:
            self.assertIn(row, self.lines)


if __name__ == "__main__":
    support.main()
