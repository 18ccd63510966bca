"""What the tests of spec/ share: the program in a folder of its own, and the reference decoder."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec"
PROGRAM = pathlib.Path(os.environ.get("GRADCODEC", ROOT / "build/release/gradcodec")).resolve()
sys.path.insert(0, str(SPEC))  # where the package `reference` lies


def arrays_of(path):
    """{name: (shape, bytes)} of an .npz."""
    with np.load(path) as arrays:
        return {key: (arrays[key].shape, arrays[key].tobytes()) for key in arrays.files}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def exit_code(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.path, capture_output=True, check=False).returncode

    def run_program(self, *arguments, expect=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.path, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expect, "%s: %s" % (arguments, done.stderr))
        return done.stdout

    def bytes_of(self, name):
        return (self.path / name).read_bytes()

    def decompressed(self, name, *options):
        """{name: (shape, bytes)} of what the program decodes a file to."""
        self.run_program("decompress", name, "-o", "decompressed.npz", "-f", "-q", *options)
        return arrays_of(self.path / "decompressed.npz")
