#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the README prints is what the program prints, where no byte depends on the version of a library."""
import os
import re
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

    def test_fewest_bits(self):
        text = " ".join(self.lines)
        for scheme in ("dither:nmse=0.1,steps=class", "lowrank:rank=16+dither:nmse=0.1,steps=class"):
            self.ok("compress", "grads.h5", "-f", "--seed", "1", "--scheme", scheme, "--coder", "model", cwd=self.dir)
            size = f"{(self.dir / 'grads.h5.gradz').stat().st_size:,}"
            self.assertRegex(text, re.escape(f"`--scheme {scheme} --coder model`, {size}") + r"\b")

    def test_comparison(self):
        at = self.lines.index("    $ gradcodec compare grads.h5 --nmse 0.1")
        shown = [line.split() for line in self.lines[at + 4:at + 11]]
        rows, advice = shown[:5], shown[6]
        printed = []
        for options in ([], ["--coder=model"]):  # each row is by one of them
            out = self.ok("compare", "grads.h5", "--nmse=0.1", *options, *(f"--scheme={row[0]}" for row in rows), cwd=self.dir)
            printed += [line.split() for line in out.out.decode().splitlines()]
        for line in rows + [advice]:
            self.assertIn(line, printed)

    def table(self, *options, dumps=("fc.h5", "lstm-small.npz", "transformer-layer.npy")):
        program = str(Path(os.environ["GRADCODEC"]).resolve())
        return subprocess.run([sys.executable, ROOT / "tools/table.py", *options, *(support.DATA / name for name in dumps)],
                              capture_output=True, text=True, env={**os.environ, "GRADCODEC": program})

    def test_table_of_schemes(self):
        done = self.table("--check", ROOT / "README.md")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_wrong_row_is_found(self):
        row = next(line for line in self.lines if line.startswith("| `dqsg:levels=3` | yes | "))
        wrong = self.dir / "README.md"
        wrong.write_text("\n".join(self.lines).replace(row, row.replace("| yes | 0.", "| yes | 1.")))
        done = self.table("--check", wrong)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(row.rsplit(" | ", 1)[0], done.stderr)

    def test_table_has_speeds(self):
        """The columns and rows are the README's; speeds are another machine's."""
        done = self.table("--size=20000", "--rounds=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = done.stdout.splitlines()
        at = self.lines.index(rows[0])
        written = self.lines[at:at + len(rows)]
        self.assertEqual([row.split(" | ")[0] for row in rows], [row.split(" | ")[0] for row in written])
        for row in rows[2:] + written[2:]:
            self.assertRegex(row.rsplit(" | ", 1)[1], r"^\d+(\.\d+)? \(\d+(\.\d+)?(e-\d+)?\) \|$")

    def test_table_of_coders(self):
        rows = [row for row in self.table("--coders", dumps=["fc.h5"]).stdout.splitlines() if "| zstd |" not in row]
        self.assertGreater(len(rows), 12)
        for row in rows:
            self.assertIn(row, self.lines)


if __name__ == "__main__":
    support.main()
