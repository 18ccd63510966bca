"""Section 17 of spec/container.md, where no vector can show it: what options of the program decide. The other rows are
vectors, made from refused_files.py.

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_refusals_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import tempfile
import unittest

from made_files import STEP, SYMBOLS, file, schema, tensor

PROGRAM = pathlib.Path(os.environ.get("GRADCODEC", "build/release/gradcodec")).resolve()


class Refusals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def exit_code(self, data, *arguments):
        (self.path / "x.gradz").write_bytes(data)
        done = subprocess.run([PROGRAM, *arguments], cwd=self.path, capture_output=True, check=False)
        return done.returncode

    def test_an_unknown_scheme_stops_only_its_tensor(self):
        two = schema(schemes=((b"dqsg:levels=3", 0), (b"later", 7)), tensors=(tensor(), tensor(name=b"b", scheme=1)))
        data = file(schema=two, frames=((0, STEP + SYMBOLS), (0, b"anything")))
        self.assertEqual(self.exit_code(data, "decompress", "x.gradz", "-o", "x.npz", "-q"), 6)
        self.assertEqual(self.exit_code(data, "decompress", "x.gradz", "-o", "x.npz", "-q", "--only", "a"), 0)
        self.assertEqual(self.exit_code(data, "info", "x.gradz", "-q"), 0)

    def test_streams(self):
        self.assertEqual(self.exit_code(file() + file(), "info", "--stream", "--test", "x.gradz", "-q"), 0)
        self.assertEqual(self.exit_code(file() + b"x", "info", "--stream", "x.gradz", "-q"), 3)

    def test_memory(self):
        self.assertEqual(self.exit_code(file(between=((0x82, bytes(3000)),)), "info", "x.gradz", "--memory", "2K"), 5)


if __name__ == "__main__":
    unittest.main()
