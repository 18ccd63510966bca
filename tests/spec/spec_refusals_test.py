"""Section 17 of spec/container.md: what the options decide. (Each way of being wrong is a vector: refused_files.py.)

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_refusals_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import unittest

from made_files import STEP, SYMBOLS, file, schema, tensor
from program import Case
from reference import decode


class Refusals(Case):
    def refused(self, data, *arguments):
        """The program's exit code."""
        (self.path / "x.gradz").write_bytes(data)
        return self.exit_code(*arguments)

    def test_an_unknown_scheme_stops_only_its_tensor(self):
        two = schema(schemes=((b"dqsg:levels=3", 0), (b"later", 7)), tensors=(tensor(), tensor(name=b"b", scheme=1)))
        data = file(schema=two, frames=((0, STEP + SYMBOLS), (0, b"anything")))
        self.assertEqual(self.refused(data, "decompress", "x.gradz", "-o", "x.npz", "-q"), 6)
        self.assertEqual(self.refused(data, "decompress", "x.gradz", "-o", "x.npz", "-q", "--only", "a"), 0)
        self.assertEqual(self.refused(data, "info", "x.gradz", "-q"), 0)
        self.assertEqual(list(decode.decode(data, only=["a"])), ["a"])

    def test_streams(self):
        self.assertEqual(self.refused(file() + file(), "info", "--stream", "--test", "x.gradz", "-q"), 0)
        self.assertEqual(self.refused(file() + b"x", "info", "--stream", "x.gradz", "-q"), 3)

    def test_memory(self):
        self.assertEqual(self.refused(file(between=((0x82, bytes(3000)),)), "info", "x.gradz", "--memory", "2K"), 5)


if __name__ == "__main__":
    unittest.main()
