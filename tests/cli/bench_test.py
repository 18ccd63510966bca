#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradcodec bench: sizes, errors and quotients are right, and what it refuses. Nothing is said of times."""
import json

import numpy as np

import support
from support import BAD_INPUT, LIMIT, USAGE

RATES = ("prepare", "encode", "decode")


def schemes_of(rows):
    return list(dict.fromkeys(row["scheme"] for row in rows))


class BenchTest(support.CliTest):
    def bench(self, *options):
        def refuse(constant):
            raise AssertionError(f"{constant} in JSON")
        return json.loads(self.ok("bench", "--json", "-q", "--repeats=2", *options).out, parse_constant=refuse)

    def coders(self):
        text = self.ok("schemes").out.decode()
        return [line.split()[0] for line in text.split("coders (--coder)\n")[1].splitlines() if line.startswith("  ")]

    def assert_rate(self, row, key):
        median, least, most = (row[f"{key}_{part}gb_per_s"] for part in ("", "min_", "max_"))
        self.assertGreater(least, 0)
        self.assertLessEqual(least, median)
        self.assertLessEqual(median, most)
        self.assertAlmostEqual(row[f"{key}_spread"], (most - least) / (2 * median), delta=1e-9 * most / median)


class Figures(BenchTest):
    def test_every_combination_is_there(self):
        out = self.bench("--size=300000")
        self.assertEqual((out["kind"], out["values"], out["input_bytes"], out["rounds"], out["threads"]),
                         ("bench", 300000, 1200000, 2, 1))
        self.assertIn(out["kernels"], self.ok("bench", "--size=1000", "--repeats=1", "-q").out.decode())
        wanted = [(scheme, coder) for scheme in ("dqsg:levels=3", "dqsg:levels=255", "dither:nmse=0.1")
                  for coder in self.coders()]
        self.assertEqual([(row["scheme"], row["coder"]) for row in out["combinations"]], wanted)
        self.assertEqual([row["threads"] for row in out["memcpy"]], [1])

    def test_shares_are_of_memcpy_by_as_many_threads(self):
        for threads in (1, 3):
            out = self.bench("--size=300000", f"-T{threads}", "--coder=pack", "--scheme=dqsg:levels=5")
            self.assertEqual([row["threads"] for row in out["memcpy"]], [1, 3] if threads > 1 else [1])
            for row in out["memcpy"]:
                self.assert_rate(row, "memcpy")
            copied = out["memcpy"][-1]["memcpy_gb_per_s"]
            for row in out["combinations"]:
                for key in RATES:
                    self.assert_rate(row, key)
                for key in RATES[1:]:
                    share = row[f"{key}_share_of_memcpy"]
                    self.assertAlmostEqual(share * copied / row[f"{key}_gb_per_s"], 1, delta=1e-12)

    def test_sizes_and_errors_are_those_of_compress_and_stats(self):
        # Three chunks, values that no quantizer takes among them, and one chunk.
        many = np.random.default_rng(1).standard_normal(600_000).astype(np.float32)
        many[[5, 300_000]] = np.nan, np.inf
        schemes = ["--scheme=dqsg:levels=3", "--scheme=dither:nmse=0.05,bucket=512", "--scheme=raw"]
        for values in (many, many[6:30_000]):
            dump = self.npy(values)
            stats = json.loads(self.ok("stats", dump, "--json", "-q", "--seed=7", *schemes).out)["schemes"]
            for threads in ("-T1", "-T2"):
                out = self.bench(dump, "--size=0", "--seed=7", threads, *schemes)
                self.assertEqual(out["values"], values.size)
                self.assertEqual(schemes_of(out["combinations"]), [option[9:] for option in schemes])
                for row in out["combinations"]:
                    want = next(s for s in stats if s["scheme"] == row["scheme"])
                    self.assertAlmostEqual(row["entropy_bits_per_value"], want["entropy_bits_per_value"], delta=1e-9)
                    self.assertAlmostEqual(row["nmse"], want["nmse"], delta=1e-12)
                    self.assertEqual(row["bits_per_value"], 8 * row["coded_bytes"] / values.size)
                    if row["coder"] == "rans-dither" and row["scheme"] != "raw":  # what stats takes
                        self.assertEqual(row["bits_per_value"], want["coded_bits_per_value"])
                    packed = self.compress(dump, "--seed=7", "--nonfinite=keep", "--scheme", row["scheme"], "--coder",
                                           row["coder"])
                    frames = sum(part["bytes"] for part in self.frame_parts(packed))
                    self.assertEqual(row["coded_bytes"], frames)

    def frame_parts(self, packed):
        parts = json.loads(self.ok("stats", packed, "--json", "-q").out)["parts"]
        return [part for part in parts if part["part"] in ("frame heads and checks", "payloads")]

    def test_raw_has_nothing_to_prepare(self):
        row = self.bench("--size=5000", "--scheme=raw", "--coder=pack")["combinations"][0]
        self.assertEqual((row["prepare_gb_per_s"], row["nmse"], row["coded_bytes"]), (None, 0, 20012))

    def test_zeros_have_no_relative_error(self):
        row = self.bench(self.npy(np.zeros(100, np.float32)), "--coder=pack", "--size=0")["combinations"][0]
        self.assertIsNone(row["nmse"])
        self.assertEqual(row["entropy_bits_per_value"], 0)


class Input(BenchTest):
    def test_tensors_follow_one_another_again_and_again(self):
        parts = {"b": np.arange(7, dtype=np.float16), "n": np.arange(3), "a": np.arange(5, dtype=np.float64) / 8}
        joined = np.concatenate([parts["b"], parts["a"]]).astype(np.float32)
        dump = self.npz(parts)
        for size in (0, 5, 12, 31):
            out = self.bench(dump, f"--size={size}", "--scheme=dither:nmse=0.1", "--coder=pack")
            self.assertEqual(out["values"], size or 12)
            alike = self.npy(np.resize(joined, size or 12))
            want = self.bench(alike, "--size=0", "--scheme=dither:nmse=0.1", "--coder=pack")["combinations"][0]
            row = out["combinations"][0]
            for key in ("coded_bytes", "entropy_bits_per_value", "nmse"):
                self.assertEqual(row[key], want[key], f"{size} {key}")

    def test_made_values_are_the_same_everywhere(self):
        row = self.bench("--size=8192", "--scheme=dqsg:levels=255", "--coder=pack")["combinations"][0]
        scalar = json.loads(self.ok("bench", "--json", "-q", "--size=8192", "--scheme=dqsg:levels=255", "--coder=pack",
                                    env={"GRADCODEC_KERNELS": "scalar"}).out)
        self.assertEqual(scalar["kernels"], "scalar")
        for key in ("coded_bytes", "entropy_bits_per_value", "nmse"):
            self.assertEqual(row[key], scalar["combinations"][0][key])

    def test_what_is_measured_is_said(self):
        dump = self.npy(np.ones(1000, np.float32))
        for size, says in ((5000, "again and again"), (10, "the first of its 1,000 values"), (0, "x.npy\n")):
            result = self.ok("bench", dump, f"--size={size}", "--repeats=1", "--coder=pack")
            self.assertIn(says, result.out.decode())
            self.assertIn("cache", result.err)
            self.assertEqual("smaller than a chunk" in result.err, size == 5000)


class Refusals(BenchTest):
    def test_refusals(self):
        small = "--size=1000"
        self.refused(USAGE, "bench", small, "--scheme=nothing", says="there is no scheme 'nothing'")
        self.refused(USAGE, "bench", small, "--coder=nothing", says="there is no coder 'nothing'")
        for repeats in ("0", "x", "-1"):
            self.refused(USAGE, "bench", small, "--repeats", repeats)
        self.refused(USAGE, "bench", "--size=0", says="--size")
        self.refused(LIMIT, "bench", "--memory=1M", says="--memory")
        self.refused(LIMIT, "bench", "--size=18446744073709551615", says="--memory")
        self.refused(LIMIT, "bench", self.npy(np.ones(5, np.float32)), "--size=1000000", "--memory=1M", says="--memory")
        self.refused(BAD_INPUT, "bench", self.npz({"a": np.arange(5)}), small, says="no values of a float type")
        self.refused(BAD_INPUT, "bench", self.npy(np.zeros(0, np.float32)), small, says="no values of a float type")


if __name__ == "__main__":
    support.main()
