#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/compare_dumps.py, the demo's judge, passes what is sound and catches what is not."""
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from compare_dumps import compare, main, tensors  # noqa: E402

NMSE = 0.1


def dithered(dump, nmse):
    random = np.random.default_rng(1)
    out = {}
    for name, a in dump.items():
        step = np.sqrt(12 * nmse * np.mean(np.square(a, dtype=np.float64)))
        out[name] = (a + step * (random.random(a.shape) - 0.5)).astype(a.dtype)
    return out


class CompareDumpsTest(unittest.TestCase):
    def setUp(self):
        self.dump = tensors(ROOT / "tests" / "data" / "fc.h5")

    def test_a_kept_promise_passes(self):
        measured, wrong = compare(self.dump, dithered(self.dump, NMSE), NMSE)
        self.assertEqual(wrong, [])
        self.assertAlmostEqual(measured, NMSE, delta=0.003)

    def test_a_tenth_more_error_is_seen(self):
        self.assertTrue(compare(self.dump, dithered(self.dump, 1.1 * NMSE), NMSE)[1])

    def test_one_small_tensor_gone_is_seen(self):
        self.assertTrue(compare(self.dump, {**dithered(self.dump, NMSE), "fc3.weight": 0 * self.dump["fc3.weight"]},
                                NMSE)[1])

    def test_structure(self):
        bias = self.dump["fc3.bias"]
        for changed in ({"fc3.bias": bias.astype("f8")}, {"fc3.bias": bias[:, None]}, {"new": bias},
                        {"fc3.bias": np.full_like(bias, np.nan)}):
            self.assertTrue(compare(self.dump, {**self.dump, **changed}, NMSE)[1], changed)

    def test_exact_means_every_bit(self):
        self.assertEqual(compare(self.dump, self.dump, None)[1], [])
        flipped = self.dump["fc3.bias"].copy()
        flipped.view("u4")[0] ^= 1
        self.assertTrue(compare(self.dump, {**self.dump, "fc3.bias": flipped}, None)[1])

    def test_command(self):
        path = str(ROOT / "tests" / "data" / "fc.h5")
        self.assertEqual(main([path, path]), 0)


if __name__ == "__main__":
    unittest.main()
