#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradcodec stats: every number against NumPy's and SciPy's in float64, and the outputs that carry them."""
import csv
import io
import itertools
import json
import math
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as xml

import h5py
import numpy as np
from scipy import stats as scipy_stats

import support
from support import BAD_INPUT, IO_FAILURE, USAGE

F32 = np.float32
SVG = "{http://www.w3.org/2000/svg}"


def expected(values):
    """The statistics of an array, by textbook formulas in float64; None: not defined."""
    flat = np.asarray(values).reshape(-1).astype(np.float64)
    x = flat[np.isfinite(flat)]
    n = x.size
    out = {"count": flat.size, "nonfinite": flat.size - n, "zeros": int(np.count_nonzero(x == 0)),
           "norm1": math.fsum(np.abs(x)), "norm2": math.sqrt(math.fsum(x * x)),
           "norm_inf": float(np.abs(x).max(initial=0))}
    out.update(dict.fromkeys(("min", "max", "mean", "variance", "deviation", "kurtosis", "median", "laplace_scale",
                              "ks_laplace", "ks_normal", "tail_exponent", "tail_count", "tail_threshold")))
    if n == 0:
        return out
    mean = math.fsum(x) / n
    m2 = math.fsum((x - mean)**2) / n if x.min() < x.max() else 0.0
    location, scale = scipy_stats.laplace.fit(x)
    out.update(min=x.min(), max=x.max(), mean=mean, variance=m2, deviation=math.sqrt(m2), median=location,
               laplace_scale=scale)
    if m2 > 0:
        out["kurtosis"] = math.fsum((x - mean)**4) / n / m2**2
        out["ks_normal"] = scipy_stats.kstest(x, "norm", args=(mean, math.sqrt(m2))).statistic
    if scale > 0:
        out["ks_laplace"] = scipy_stats.kstest(x, "laplace", args=(location, scale)).statistic
    k = max(10, n // 100)
    if n > k:
        top = np.sort(np.abs(x))[::-1][:k + 1]
        if 0 < top[k] < top[0]:
            out.update(tail_exponent=k / math.fsum(np.log(top[:k] / top[k])), tail_count=k, tail_threshold=top[k])
    return out


class StatsTest(support.CliTest):
    def json(self, source, *options):
        def refuse(constant):
            raise AssertionError(f"{constant} in JSON")
        return json.loads(self.ok("stats", source, "--json", "-q", *options).out, parse_constant=refuse)

    def assert_numbers(self, got, want, message=""):
        for key, value in want.items():
            if value is None or isinstance(value, int):
                self.assertEqual(got[key], value, f"{message} {key}")
            else:
                self.assertIsNotNone(got[key], f"{message} {key}, {value} expected")
                self.assertLessEqual(abs(got[key] - value), 1e-9 * abs(value), f"{message} {key}: {got[key]} {value}")

    def check(self, array, message="", *options):
        out = self.json(self.npy(array), *options)
        self.assert_numbers(out["tensors"][0], expected(array), message)
        self.assert_numbers(out["whole"], expected(array), message)
        return out["tensors"][0]


class Numbers(StatsTest):
    def test_scipy_itself_agrees_with_the_formulas(self):
        x = np.random.default_rng(0).laplace(1, 2, 5000)
        want = expected(x)
        self.assertAlmostEqual(want["kurtosis"], scipy_stats.kurtosis(x, fisher=False), delta=1e-9)
        mean, deviation = scipy_stats.norm.fit(x)
        self.assertAlmostEqual(want["mean"], mean, delta=1e-12)
        self.assertAlmostEqual(want["deviation"], deviation, delta=1e-12)

    def test_the_real_gradient(self):
        out = self.json(support.DATA / "fc.h5")
        arrays = support.real_gradient()
        self.assertEqual([t["name"] for t in out["tensors"]], list(arrays))
        for tensor in out["tensors"]:
            self.assert_numbers(tensor, expected(arrays[tensor["name"]]), tensor["name"])
        self.assert_numbers(out["whole"], expected(np.concatenate([a.reshape(-1) for a in arrays.values()])), "whole")
        for name, array in arrays.items():
            tensor = next(t for t in out["tensors"] if t["name"] == name)
            self.assertEqual(tensor["shape"], list(array.shape))
            if array.ndim < 2:
                self.assertIsNone(tensor["zero_rows"])
            else:
                self.assertEqual(tensor["zero_rows"], np.count_nonzero(~array.any(axis=1)))
                self.assertEqual(tensor["zero_columns"], np.count_nonzero(~array.any(axis=0)))

    def test_distributions(self):
        rng = np.random.default_rng(7)
        cases = {
            "heavy tails": rng.standard_cauchy(50_001).astype(F32),
            "very heavy tails, doubles": rng.standard_cauchy(20_000) ** 5,
            "mean near zero": (lambda x: np.concatenate([x, -x, [1e-3]]))(rng.standard_t(2, 40_000)).astype(F32),
            "offset": (1e6 + rng.standard_normal(30_000)).astype(F32),
            "offset, doubles": 1e6 + rng.standard_normal(600_000),
            "several chunks": rng.laplace(0, 1e-3, 700_001).astype(F32),
            "halves": rng.standard_normal(10_000).astype(np.float16),
            "large": (rng.standard_normal(3000) * 1e37).astype(F32),
            "denormals": (rng.standard_normal(3000) * 1e-41).astype(F32),
            "ternary": rng.integers(-1, 2, 5000).astype(F32),
            "skewed": rng.exponential(2, 5000),
        }
        for message, x in cases.items():
            self.check(x, message)

    def test_a_chunk_of_another_mean(self):
        x = np.random.default_rng(2).standard_normal(600_000)
        x[262_144:400_000] += 1e5
        self.check(x)
        self.check(x[::-1].astype(F32))

    def test_few_and_equal_values(self):
        for x in ([], [3.0], [0.0], [-2.0, 5.0], [0.1] * 7, [0.0] * 5000, [1e-45], [3.4e38, -3.4e38], [2.5] * 12,
                  list(range(11)), list(range(10))):
            self.check(np.array(x, F32), str(x[:3]))
        self.check(np.float32(4), "scalar")
        self.check(np.zeros((3, 0, 2), F32), "no elements")

    def test_what_passes_float64_is_absent(self):
        tensor = self.json(self.npy(np.array([1e300, -1e308, 1e308, 1e308, 5.0])))["tensors"][0]
        for key in ("norm2", "variance", "kurtosis", "ks_normal"):
            self.assertIsNone(tensor[key], key)
        self.assertEqual((tensor["max"], tensor["median"]), (1e308, 1e300))
        tiny = self.json(self.npy(np.array([1e-300, -1e-310, 0.0])))["tensors"][0]
        self.assertIsNone(tiny["norm2"])
        self.assertEqual(tiny["norm1"], 1e-300 + 1e-310)

    def test_bfloat16_and_fortran_order_and_big_endian(self):
        x = np.random.default_rng(3).standard_normal((40, 30)).astype(F32)
        x[:, 4] = x[7] = 0
        bits = (x.view(np.uint32) >> 16).astype(np.uint16)
        self.assertEqual(self.json(self.npy(bits.view("i2")), "--as-bf16")["tensors"],
                         self.json(self.npy(bits), "--as-bf16")["tensors"])
        tensor = self.json(self.npy(bits), "--as-bf16")["tensors"][0]
        self.assertEqual(tensor["dtype"], "bf16")
        self.assert_numbers(tensor, expected((bits.astype(np.uint32) << 16).view(F32)))
        for array in (np.asfortranarray(x), x.astype(">f4"), x.astype(">f8")):
            tensor = self.check(array)
            self.assertEqual((tensor["zero_rows"], tensor["zero_columns"]), (1, 1))

    def test_doubles_beside_floats_keep_their_digits(self):
        rng = np.random.default_rng(4)
        arrays = {"a": rng.standard_normal(999), "b": rng.standard_normal(500).astype(F32)}
        out = self.json(self.npz(arrays))
        for tensor in out["tensors"]:
            self.assert_numbers(tensor, expected(arrays[tensor["name"]]))
        self.assert_numbers(out["whole"], expected(np.concatenate(list(arrays.values()))))

    def test_not_finite_is_counted_and_said(self):
        x = np.random.default_rng(5).standard_normal((300, 4)).astype(F32)
        x[3, 1], x[4, 2], x[5, 0] = np.nan, np.inf, -np.inf
        x[4, [0, 1, 3]] = 0
        tensor = self.check(x, "", "--scheme=dither:nmse=0.1", "--scheme=raw")
        self.assertEqual(tensor["zero_rows"], 0)
        source = self.npy(x)
        self.assertIn("3 values are not finite", self.ok("stats", source).err)
        for scheme in self.json(source, "--scheme=dither:nmse=0.1", "--scheme=raw")["schemes"]:
            self.assertIsNotNone(scheme["nmse"])
        self.check(np.full(20, np.nan, F32), "nothing finite")

    def test_threads_change_nothing(self):
        source = self.npz({"a": np.random.default_rng(6).standard_normal((1200, 1000)).astype(F32), "b": np.ones(3, F32)})
        runs = {self.ok("stats", source, "--json", f"-T{n}", "--scheme=dqsg:levels=5,bucket=512").out for n in (1, 2, 5)}
        self.assertEqual(len(runs), 1)


class Memory(StatsTest):
    ORDERED = ("median", "laplace_scale", "ks_laplace", "ks_normal", "tail_exponent", "tail_count", "tail_threshold")

    def test_what_does_not_fit_is_left_out_and_said(self):
        rng = np.random.default_rng(1)
        arrays = {"large": rng.standard_normal(300_000).astype(F32), "small": rng.standard_normal(1000).astype(F32)}
        source = self.npz(arrays)
        out = self.json(source, "--memory=1M")
        large, small = out["tensors"]
        self.assert_numbers(small, expected(arrays["small"]))
        for part, values in ((large, arrays["large"]), (out["whole"], np.concatenate(list(arrays.values())))):
            want = expected(values)
            self.assert_numbers(part, {**want, **dict.fromkeys(self.ORDERED)})
        self.assertIn("do not fit", self.ok("stats", source, "--memory=1M").err)
        self.assertNotIn("do not fit", self.ok("stats", source).err)

    def test_the_whole_alone_may_not_fit(self):
        arrays = {name: np.arange(200_000, dtype=F32) for name in "ab"}
        out = self.json(self.npz(arrays), "--memory=1M")
        self.assertIsNotNone(out["tensors"][0]["median"])
        self.assertIsNone(out["whole"]["median"])


class Schemes(StatsTest):
    def test_bits_and_error_are_those_of_the_message(self):
        x = np.random.default_rng(8).laplace(0, 1, 300_000).astype(F32)
        source = self.npy(x)
        out = self.json(source, "--scheme=dqsg:levels=5", "--seed=3")
        step = np.abs(x).max() / F32(2)
        decoded = self.there_and_back(x, "--scheme=dqsg:levels=5", "--seed=3").astype(np.float64)
        scheme = out["schemes"][0]
        nmse = math.fsum((decoded - x)**2) / math.fsum(x.astype(np.float64)**2)
        self.assertAlmostEqual(scheme["nmse"] / nmse, 1, delta=1e-9)
        self.assertEqual(scheme["symbols"], x.size)
        self.assertEqual(scheme["side_bits_per_value"], 8 * 4 / x.size)
        self.assertEqual(scheme["entropy_bits_per_value"], scheme["entropy_bits_per_symbol"])
        # A dithered level is the decoded value, the dither taken back: within half a step of it; so |x| / step decides
        # between two levels, and the share of each is known to 1 in 100.
        levels = np.floor(x.astype(np.float64) / step + np.random.default_rng(1).random(x.size))
        shares = np.unique(levels, return_counts=True)[1] / x.size
        self.assertAlmostEqual(scheme["entropy_bits_per_value"], -(shares * np.log2(shares)).sum(), delta=0.01)
        self.assertEqual(out["tensor_schemes"][0]["nmse"], scheme["nmse"])
        self.assertEqual(out["seed"], 3)

    def test_every_tensor_is_encoded_as_in_its_file(self):
        rng = np.random.default_rng(17)
        arrays = {"n": np.arange(3), "a": rng.standard_normal(5000).astype(F32), "b": rng.standard_t(3, 700_000),
                  "c": rng.standard_normal((30, 40)).astype(np.float16)}
        source = self.npz(arrays)
        decoded = self.decompress(self.compress(source, "--scheme=dqsg:levels=15", "--seed=5"), "--dtype=f8",
                                  suffix=".npz")
        for options in ((), ("--only=b",), ("--only=c",)):
            out = self.json(source, "--scheme=dqsg:levels=15", "--seed=5", *options)
            self.assertEqual(len(out["tensor_schemes"]), 1 if options else 3)
            for part in out["tensor_schemes"]:
                x = arrays[part["tensor"]].astype(F32).astype(np.float64)
                nmse = ((decoded[part["tensor"]] - x)**2).sum() / (x**2).sum()
                self.assertAlmostEqual(part["nmse"] / nmse, 1, delta=1e-9, msg=part["tensor"])

    def test_coded_bits_are_the_bytes_of_the_message(self):
        """Frames of several chunks and their parameters, of one, and of none; exceptions; streams that repeat one symbol
        or do not shrink."""
        rng = np.random.default_rng(18)
        arrays = {"a": rng.laplace(0, 1, 700_001).astype(F32), "b": rng.standard_normal((30, 40)), "c": np.zeros((0, 3), F32),
                  "d": np.zeros(9000, F32), "e": rng.standard_normal(2**18).astype(np.float16), "f": np.float32(3),
                  "g": np.where(np.arange(600_000) % 999 == 5, np.nan, 1).astype(F32)}
        source = self.npz(arrays)
        schemes = ["dqsg:levels=3", "dqsg:levels=255,bucket=512", "dither:nmse=0.1", "raw"]
        report = self.json(source, "--seed=4", *(f"--scheme={s}" for s in schemes))
        for text, whole in zip(schemes, report["schemes"]):
            packed = self.compress(source, "--scheme", text, "--seed=4", "--nonfinite=keep")
            tensors = self.info(packed)["tensors"]
            values = sum(a.size for a in arrays.values())
            self.assertEqual(whole["coded_bits_per_value"], 8 * sum(t["bytes"] for t in tensors) / values, text)
            parts = {p["tensor"]: p["coded_bits_per_value"] for p in report["tensor_schemes"] if p["scheme"] == text}
            self.assertEqual(parts, {t["name"]: 8 * t["bytes"] / arrays[t["name"]].size if arrays[t["name"]].size else None
                                     for t in tensors}, text)

    def test_the_entropy_bounds_what_a_coder_writes(self):
        x = np.random.default_rng(9).standard_normal(400_000).astype(F32)
        scheme = self.json(self.npy(x), "--scheme=dqsg:levels=9")["schemes"][0]
        packed = self.compress(self.npy(x), "--scheme=dqsg:levels=9", "--seed=1", "--coder=zstd")
        bits = 8 * packed.stat().st_size / x.size
        self.assertLess(scheme["entropy_bits_per_value"], bits)
        self.assertGreater(scheme["entropy_bits_per_value"], bits * 0.8)

    def test_raw_is_the_entropy_of_bytes(self):
        x = np.random.default_rng(10).standard_normal(10_000).astype(F32)
        shares = np.bincount(x.view(np.uint8)) / (4 * x.size)
        shares = shares[shares > 0]
        entropy = -(shares * np.log2(shares)).sum()
        scheme = self.json(self.npy(x), "--scheme=raw")["schemes"][0]
        self.assertAlmostEqual(scheme["entropy_bits_per_symbol"], entropy, delta=1e-9)
        self.assertAlmostEqual(scheme["entropy_bits_per_value"], 4 * entropy, delta=1e-9)
        self.assertEqual(scheme["nmse"], 0)

    def test_parameters_of_buckets_are_counted(self):
        scheme = self.json(self.npy(np.arange(1, 1001, dtype=F32)), "--scheme=dqsg:levels=3,bucket=100")["schemes"][0]
        self.assertEqual(scheme["side_bits_per_value"], 10 * 32 / 1000)

    def test_tensors_add_up(self):
        out = self.json(support.DATA / "fc.h5", "--scheme=dither:nmse=0.1", "--scheme=dqsg:levels=3")
        sizes = {t["name"]: t["count"] for t in out["tensors"]}
        squares = {t["name"]: t["norm2"]**2 for t in out["tensors"]}
        for scheme in out["schemes"]:
            parts = [p for p in out["tensor_schemes"] if p["scheme"] == scheme["scheme"]]
            self.assertEqual(len(parts), 6)
            bits = sum(p["entropy_bits_per_value"] * sizes[p["tensor"]] for p in parts) / sum(sizes.values())
            self.assertAlmostEqual(scheme["entropy_bits_per_value"], bits, delta=1e-9)
            error = sum(p["nmse"] * squares[p["tensor"]] for p in parts) / sum(squares.values())
            self.assertAlmostEqual(scheme["nmse"] / error, 1, delta=1e-9)

    def test_zeros_and_nothing_have_no_nmse(self):
        for x in (np.zeros(100, F32), np.zeros(0, F32), np.full(5, 1e-300)):
            for scheme in self.json(self.npy(x), "--scheme=dither:nmse=0.1", "--scheme=dqsg:levels=3")["schemes"]:
                self.assertIsNone(scheme["nmse"])

    def test_wrong_schemes_are_usage(self):
        source = self.npy(np.ones(4, F32))
        self.refused(USAGE, "stats", source, "--scheme=nothing")
        self.refused(USAGE, "stats", source, "--scheme=dqsg:levels=4")
        self.refused(USAGE, "stats", source, "--seed=x")


class Traces(StatsTest):
    def trace(self, workers, steps=(10, 500)):
        rng = np.random.default_rng(11)
        arrays = {}
        for step, worker in itertools.product(steps, range(workers)):
            for name, shape in (("fc.weight", (40, 500)), ("fc.bias", (40,))):
                arrays[f"step_{step:06}/worker_{worker:02}/{name}"] = rng.standard_t(4, shape).astype(F32)
        return arrays

    def h5(self, arrays):
        path = self.dir / "trace.h5"
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        return path

    @staticmethod
    def together(arrays, step, worker, names=("fc.weight", "fc.bias")):
        return np.concatenate([arrays[f"step_{step:06}/worker_{worker:02}/{n}"].reshape(-1) for n in names])

    def check_trace(self, out, arrays, workers):
        self.assertEqual([(g["step"], g["worker"]) for g in out["groups"]],
                         list(itertools.product((10, 500), range(workers))))
        for group in out["groups"]:
            self.assertEqual(group["tensors"], 2)
            self.assert_numbers(group, expected(self.together(arrays, group["step"], group["worker"])))
        self.assertEqual([(c["step"], c["first"], c["second"]) for c in out["cosines"]],
                         [(s, a, b) for s in (10, 500) for a in range(workers) for b in range(a + 1, workers)])
        for c in out["cosines"]:
            a, b = (self.together(arrays, c["step"], c[w]).astype(np.float64) for w in ("first", "second"))
            self.assertEqual(c["values"], a.size)
            self.assertAlmostEqual(c["cosine"], a @ b / math.sqrt((a @ a) * (b @ b)), delta=1e-12)

    def test_three_workers_two_steps(self):
        arrays = self.trace(3)
        self.check_trace(self.json(self.h5(arrays)), arrays, 3)
        self.check_trace(self.json(self.npz(arrays)), arrays, 3)

    def test_only_what_two_workers_share_counts(self):
        rng = np.random.default_rng(12)
        a, b = rng.standard_normal((2, 100)).astype(F32)
        out = self.json(self.npz({"rank0/w": a, "rank1/w": b, "rank1/more": b, "rank2/w": a.reshape(10, 10),
                                  "rank3/w": np.zeros(100, F32)}))
        cosines = {(c["first"], c["second"]): c for c in out["cosines"]}
        x, y = a.astype(np.float64), b.astype(np.float64)
        self.assertAlmostEqual(cosines[0, 1]["cosine"], x @ y / math.sqrt((x @ x) * (y @ y)), delta=1e-12)
        self.assertEqual(cosines[0, 1]["values"], 100)
        self.assertEqual((cosines[0, 2]["values"], cosines[0, 2]["cosine"]), (0, None))  # another shape
        self.assertEqual((cosines[0, 3]["values"], cosines[0, 3]["cosine"]), (100, None))  # of length zero
        self.assertIsNone(out["groups"][0]["step"])

    def test_sixteen_workers_are_compared(self):
        arrays = {f"worker_{w}/x": np.full(3, w, F32) for w in range(18)}
        source = self.npz(arrays)
        self.assertEqual({c["second"] for c in self.json(source)["cosines"]}, set(range(1, 16)))
        self.assertIn("lowest numbers", self.ok("stats", source).err)

    def test_no_trace_no_groups(self):
        out = self.json(support.DATA / "fc.h5")
        self.assertEqual((out["groups"], out["cosines"]), ([], []))

    def test_workers_of_doubles(self):
        rng = np.random.default_rng(13)
        x, y = rng.standard_normal((2, 50_000)) * 1e-12
        c = self.json(self.npz({"worker0/x": x, "worker1/x": y}))["cosines"][0]
        self.assertAlmostEqual(c["cosine"], x @ y / math.sqrt((x @ x) * (y @ y)), delta=1e-12)


class Outputs(StatsTest):
    HOSTILE = 'a,"b"\n<script>&\x1b[31m\x7f=\u00e9'

    def test_csv_has_a_row_a_tensor(self):
        arrays = {self.HOSTILE: np.arange(20, dtype=F32), "plain": np.ones((2, 3), F32), "n": np.arange(3)}
        source = self.npz(arrays)
        text = self.ok("stats", source, "--csv", "--scheme=dqsg:levels=3,bucket=5", "--scheme=raw").out.decode()
        self.assertFalse(re.search("[\x00-\x09\x0b-\x1f\x7f]", text))
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["name"] for row in rows],
                         [self.HOSTILE.replace("\x1b", "\\x1b").replace("\x7f", "\\x7f"), "plain"])
        self.assertEqual(len({len(row) for row in csv.reader(io.StringIO(text))}), 1)
        whole = self.json(source, "--scheme=dqsg:levels=3,bucket=5")
        for row, tensor in zip(rows, whole["tensors"]):
            for key, value in tensor.items():
                if isinstance(value, float):
                    self.assertEqual(float(row[key]), value, key)
                elif value is None:
                    self.assertEqual(row[key], "", key)
        self.assertEqual(float(rows[0]["nmse dqsg:levels=3,bucket=5"]), whole["tensor_schemes"][0]["nmse"])

    def test_names_are_escaped_for_people_and_exact_for_programs(self):
        source = self.npz({self.HOSTILE: np.arange(20, dtype=F32), "\x1b]n": np.arange(3)})
        table = self.ok("stats", source).out
        self.assertNotIn(b"\x1b", table)
        self.assertIn(b"\\x1b[31m", table)
        out = self.json(source)
        self.assertEqual(out["tensors"][0]["name"], self.HOSTILE)
        self.assertEqual(out["skipped"], [{"name": "\x1b]n", "dtype": "i8", "shape": [3]}])

    def test_the_table_is_the_same_numbers(self):
        text = self.ok("stats", support.DATA / "fc.h5", "--scheme=dqsg:levels=3").out.decode()
        whole = self.json(support.DATA / "fc.h5")["whole"]
        for key in ("norm2", "kurtosis", "laplace_scale", "tail_exponent", "ks_normal"):
            self.assertIn(f" {whole[key]:.5g}", text, key)
        self.assertNotIn("nan", text)
        self.assertIn("seed 1", text)

    def test_no_two_headings_of_a_table_are_equal(self):
        source = self.npz({f"worker_{w}/x": np.arange(1, 9, dtype=F32) for w in range(2)})
        packed = self.compress(source, "--scheme=dqsg:levels=3")
        for call in ((source, "--scheme=dqsg:levels=3"), (packed, "--against", source)):
            headings = [line for line in self.ok("stats", *call).out.decode().splitlines()
                        if re.match("(tensor|scheme|step|part) ", line)]
            self.assertGreaterEqual(len(headings), 2)
            for line in headings:
                names = re.split("  +", line)
                self.assertEqual(len(set(names)), len(names), line)

    def plot(self, source, *options, name="plot.svg"):
        path = self.dir / name
        self.ok("stats", source, "-q", "-f", "--plot", path, *options)
        return xml.parse(path).getroot()

    @staticmethod
    def of_class(root, tag, name):
        return [e for e in root.iter(SVG + tag) if e.get("class") == name]

    def test_bars_are_the_histogram_and_marks_the_schemes(self):
        x = np.random.default_rng(14).laplace(0, 1, 20_000).astype(F32)
        schemes = ["dqsg:levels=3", "dither:nmse=0.1", "raw"]
        source = self.npy(x, 'a<b>&"c".npy')
        root = self.plot(source, *(f"--scheme={s}" for s in schemes))
        wide = x.astype(np.float64)
        width = min(abs(wide.mean()) + 5 * wide.std(), np.abs(wide).max())
        counts, _ = np.histogram(wide, 101, (-width, width))
        shown = [int(bar[0].text.split(": ")[1].split(" ")[0].replace(",", "")) for bar in self.of_class(root, "rect", "bar")]
        self.assertEqual(shown, [c for c in counts if c])
        marks = self.of_class(root, "circle", "mark")
        self.assertEqual([m[0].text.split(": ")[0] for m in marks], [s.split(": ")[0] for s in schemes])
        texts = [t.text for t in root.iter(SVG + "text")]
        for wanted in ("value", "density (log scale)", "NMSE (log scale)"):
            self.assertIn(wanted, texts)
        labels = [t.text for t in self.of_class(root, "text", "label")]
        self.assertEqual(labels, [m[0].text for m in marks])
        self.assertTrue(labels[2].endswith("NMSE 0 (exact)"))
        self.assertTrue(any(t.startswith("Laplace") for t in texts) and any(t.startswith("normal") for t in texts))
        self.assertTrue(any(t.startswith("values of") and 'a<b>&"c".npy' in t for t in texts))
        self.assertEqual(len(list(root.iter(SVG + "polyline"))) - 2,  # the others are grid lines
                         len([t for t in root.iter(SVG + "text")
                              if t.get("class") is None and re.fullmatch(r"-?[\d.]+(e[-+]\d+)?", t.text)]))

    def test_the_bits_of_a_plot_are_those_of_the_message(self):
        """On a linear axis; over more than 8 times on one of powers of two."""
        source = support.DATA / "fc.h5"
        for schemes in (["dqsg:levels=255", "dither:nmse=0.001"], ["dqsg:levels=3", "dqsg:levels=255", "raw"]):
            options = [f"--scheme={s}" for s in schemes]
            root = self.plot(source, *options)
            bits = [s["coded_bits_per_value"] for s in self.json(source, *options)["schemes"]]
            marks = self.of_class(root, "circle", "mark")
            for mark, b in zip(marks, bits):
                self.assertIn(f": {b:.4g} bits a value, NMSE", mark[0].text)
            names = [t.text for t in root.iter(SVG + "text") if t.text.startswith("bits a value")]
            log = len(schemes) == 3
            self.assertEqual((len(names), "log scale" in names[0]), (1, log))
            at, scale = [float(m.get("cx")) for m in marks], math.log2 if log else float
            ticks = {float(t.text): float(t.get("x")) for t in root.iter(SVG + "text")
                     if t.get("text-anchor") == "middle" and t.get("class") is None and re.fullmatch(r"[\d.]+", t.text)
                     and 470 < float(t.get("y")) < 860}
            self.assertGreaterEqual(len(ticks), 4)
            (low, left), *_, (high, right) = sorted(ticks.items())
            if log:
                self.assertTrue(all(math.log2(t).is_integer() for t in ticks), ticks)
            else:
                (low, left), (high, right) = sorted(ticks.items())[1], sorted(ticks.items())[-1]
            for b, pixel in zip(bits, at):
                want = left + (scale(b) - scale(low)) / (scale(high) - scale(low)) * (right - left)
                self.assertAlmostEqual(pixel, want, delta=0.1)

    def test_a_histogram_says_what_is_in_it(self):
        arrays = {name: np.random.default_rng(19).standard_cauchy(1000).astype(F32) * s for name, s in (("a", 1), ("b", 9))}
        every = np.concatenate(list(arrays.values())).astype(np.float64)
        width = abs(every.mean()) + 5 * every.std()
        outside = 100 * np.count_nonzero(np.abs(every) > width) / every.size
        self.assertGreater(outside, 0)
        texts = [t.text for t in self.plot(self.npz(arrays)).iter(SVG + "text")]
        self.assertIn(f"2 tensors together, whose scales may differ; {outside:.3g}% of the values lie outside the range "
                      "drawn", texts)
        texts = [t.text for t in self.plot(self.npy(np.arange(9, dtype=F32))).iter(SVG + "text")]
        self.assertIn("1 tensor; 0% of the values lie outside the range drawn", texts)

    def test_all_is_said_to_be_a_mixture(self):
        note = "mixture of all tensors"
        self.assertIn(note, self.ok("stats", support.DATA / "fc.h5").out.decode())
        self.assertNotIn(note, self.ok("stats", self.npy(np.ones(3, F32))).out.decode())
        self.assertNotIn(note, self.ok("stats", self.npz({"i": np.arange(3)})).out.decode())

    def test_everything_is_inside_the_picture(self):
        for x in (np.array([1.0, 2, 4000]), np.random.default_rng(15).standard_cauchy(9999), np.full(9, 1e-42, F32)):
            root = self.plot(self.npy(x), "--scheme=dqsg:levels=3", "--scheme=raw", "--scheme=dither:nmse=1e-6")
            width, height = float(root.get("width")), float(root.get("height"))
            for e in root.iter():
                for key, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                    self.assertTrue(0 <= float(e.get(key, 0)) <= limit, xml.tostring(e))
                for point in e.get("points", "0,0").split():
                    at, up = map(float, point.split(","))
                    self.assertTrue(0 <= at <= width and 0 <= up <= height, point)

    def test_plots_of_little(self):
        for x in (np.zeros(0, F32), np.zeros(50, F32), np.ones(1, F32), np.full(3, np.nan, F32), np.full(3, 1e308),
                  np.full(4, 1e-310), np.array([1e-310, 2e-310, 0]), np.array([1e16, 1e16 + 2]), 1e6 + np.arange(9.0)):
            for options in ((), ("--scheme=dqsg:levels=3", "--scheme=raw")):
                root = self.plot(self.npy(x), *options)
                self.assertEqual(len(self.of_class(root, "circle", "mark")), len(options))
                self.assertNotIn("nan", xml.tostring(root).decode())

    def test_values_far_from_zero_are_shown_where_they_are(self):
        bars = self.of_class(self.plot(self.npy(1e4 + np.random.default_rng(16).standard_normal(20_000))), "rect", "bar")
        self.assertGreater(len(bars), 60)

    def test_points_are_numbered_and_listed(self):
        """Numbers overlap neither each other nor a mark, also where many points are one."""
        schemes = ["dqsg:levels=3"] * 14 + ["dqsg:levels=255,bucket=512", "dither:nmse=0.1", "dither:nmse=0.1000001"]
        root = self.plot(support.DATA / "fc.h5", *(f"--scheme={s}" for s in schemes))
        places = {}
        for name in ("number", "mark"):
            tag, x, y, up = ("text", "x", "y", 4) if name == "number" else ("circle", "cx", "cy", 0)
            places[name] = [(float(e.get(x)), float(e.get(y)) - up) for e in self.of_class(root, tag, name)]
            self.assertEqual(len(places[name]), len(schemes))
        self.assertEqual([e.text for e in self.of_class(root, "text", "number")], [str(i + 1) for i in range(17)])
        for (x, y), (u, v) in itertools.combinations(places["number"], 2):
            self.assertTrue(abs(x - u) >= 16 or abs(y - v) >= 12, (x, y, u, v))
        for (x, y), (u, v) in itertools.product(places["number"], places["mark"]):
            self.assertTrue(abs(x - u) >= 12 or abs(y - v) >= 10, (x, y, u, v))
        for i in (14, 15):  # alone, or nearly: right beside its mark
            self.assertLessEqual(math.dist(places["number"][i], places["mark"][i]), 22)
        keys = [(e.text, e.get("y")) for e in self.of_class(root, "text", "key")]
        labels = [(e.text.split(": ")[0], e.get("y")) for e in self.of_class(root, "text", "label")]
        self.assertEqual([text for text, _ in labels], [s.split(": ")[0] for s in schemes])
        self.assertEqual([text for text, _ in keys], [str(i + 1) for i in range(17)])
        self.assertEqual([y for _, y in keys], [y for _, y in labels])
        self.assertEqual(len({y for _, y in labels}), len(schemes))

    def test_html_is_the_same_picture(self):
        source = support.DATA / "fc.h5"
        page = self.plot(source, name="plot.html")
        self.assertEqual(page.tag, "html")
        self.assertEqual(xml.tostring(page.find(f"body/{SVG}svg")).strip(), xml.tostring(self.plot(source)).strip())

    def test_a_plot_replaces_nothing_unasked(self):
        source, plot = self.npy(np.ones(3, F32)), self.write(b"mine", "p.svg")
        self.refused(USAGE, "stats", source, "--plot", plot, says="exists")
        self.assertEqual(plot.read_bytes(), b"mine")
        self.refused(USAGE, "stats", source, "--plot", self.dir / "p.png", says=".svg or .html")
        self.refused(IO_FAILURE, "stats", source, "--plot", self.dir / "no" / "p.svg")
        self.refused(USAGE, "stats", source, "--json", "--csv")

    def test_a_plot_that_exists_is_refused_before_any_work(self):
        """The work would find the damage."""
        source, plot = self.npz({"x": np.random.default_rng(20).standard_normal(9999)}), self.write(b"mine", "p.svg")
        packed = self.compress(source, "--scheme=raw")
        for path, more in ((source, ()), (packed, ("--against", source))):
            data = bytearray(path.read_bytes())
            data[40_000] ^= 1
            bad = self.write(data, "bad")
            self.refused(BAD_INPUT, "stats", bad, *more)
            self.refused(USAGE, "stats", bad, *more, "--plot", plot, says="exists")
            self.assertEqual(plot.read_bytes(), b"mine")

    def test_a_closed_pipe_ends_quietly(self):
        source = support.DATA / "fc.h5"
        for call in ((source,), (source, "--json"), (source, "--csv"), (self.compress(source), "--against", source)):
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "wb") as closed:
                done = subprocess.run([support.PROGRAM, "stats", *map(str, call)], stdout=closed, stderr=subprocess.PIPE,
                                      timeout=60)
            self.assertEqual(done.returncode, 128 + signal.SIGPIPE)
            self.assertEqual(done.stderr, b"")

    def test_a_full_disk_is_a_failure_however_much_is_printed(self):
        """Less than a buffer, which fails at the end, and more, which fails before."""
        for options in (("--only=fc1.bias", "--csv"), ("--json",)):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([support.PROGRAM, "stats", support.DATA / "fc.h5", *options], stdout=full,
                                      stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, IO_FAILURE)
            self.assertIn(b"standard output cannot be written", done.stderr)

    def test_as_bf16_is_not_for_hdf5(self):
        source = support.DATA / "fc.h5"
        packed = self.compress(source)
        target = self.dir / "out.gradz"
        for call in (("stats", source), ("stats", packed, "--against", source), ("verify", source),
                     ("compress", source, "-o", target)):
            self.refused(USAGE, *call, "--as-bf16", says="--as-bf16 is for .npy and .npz")
        self.assertFalse(target.exists())

    def test_only(self):
        out = self.json(support.DATA / "fc.h5", "--only=*.bias")
        self.assertEqual([t["name"] for t in out["tensors"]], ["fc1.bias", "fc2.bias", "fc3.bias"])
        self.assertEqual(out["whole"]["count"], 410)
        self.refused(USAGE, "stats", support.DATA / "fc.h5", "--only=nothing*")

    def test_other_types_are_listed(self):
        source = self.npz({"i": np.arange(6).reshape(2, 3), "t": np.array([b"ab"]), "x": np.ones(2, F32)})
        self.assertIn("not of a float type, skipped\ni  i8  2x3\nt  S2  1\n", self.ok("stats", source).out.decode())
        out = self.json(source)
        self.assertEqual(([s["name"] for s in out["skipped"]], out["whole"]["count"]), (["i", "t"], 2))

    def test_other_files(self):
        source = self.npy(np.ones(3, F32))
        self.refused(BAD_INPUT, "stats", self.write(b"hello", "x"), says="no dump")
        self.refused(BAD_INPUT, "stats", self.write(b"", "x"), says="empty")
        self.refused(IO_FAILURE, "stats", self.dir / "nowhere.npy")
        self.refused(BAD_INPUT, "stats", self.write(source.read_bytes()[:-1], "cut.npy"))

    def test_standard_input(self):
        source = self.npy(np.arange(5, dtype=F32))
        out = json.loads(self.ok("stats", "-", "--json", stdin=source.read_bytes()).out)
        self.assertEqual(out["whole"]["norm1"], 10)


if __name__ == "__main__":
    support.main()
