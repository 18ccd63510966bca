#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults that users reported against tools of this kind, where no other test has them; tests/faults.md lists all."""
import ast
import io
import json
import os
import re
import resource
import signal
import struct
import subprocess
import time
import unittest
import warnings
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np

import support
from support import BAD_INPUT, IO_FAILURE, LIMIT, OK, PROGRAM, UNSUPPORTED, USAGE, run

F32 = np.float32
ROOT = Path(__file__).resolve().parents[2]
CLOSED_PIPE = 128 + signal.SIGPIPE
# Not a finite number of values: where a step or a threshold is given, or values are marked, scale matters.
ABSOLUTE = ("grid", "threshold", "bq", "mask")
NEEDS_A_FILE = ("at",)  # an index set


def schemes(*without):
    """The text of each scheme's example, but for schemes of these names."""
    examples = {s["name"]: s["example"].split()[-1] for s in json.loads(run("schemes", "--json").out)}
    return [text for name, text in examples.items() if name not in (*NEEDS_A_FILE, *without)]


def npy_bytes(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version, allow_pickle=False)
    return buffer.getvalue()


def odd_tensors():
    """Finite tensors that break fits, norms and divisions."""
    rng = np.random.default_rng(1)
    outlier = np.zeros(5000, F32)
    outlier[4321] = 1e5
    return {"negative zero": F32([-0.0]), "both zeros": F32([-0.0, 0.0]), "scalar": F32(-0.0), "none": np.zeros(0, F32),
            "constant": np.full(3000, -2.5, F32), "two values": np.where(np.arange(5000) % 2, 1, -3).astype(F32),
            "outlier": outlier, "tiny": np.full(5000, 1e-31, F32), "subnormal": F32([1e-45, -1e-40, 0]),
            "huge": F32([3.4e38, -3.4e38, 1e37, 0, 1]), "normal": rng.standard_normal(20_000).astype(F32),
            "matrix": rng.standard_normal((30, 50)).astype(F32)}


class ZipTest(support.CliTest):
    def zip(self, *members, name="x.npz", method=zipfile.ZIP_STORED):
        path = self.dir / name
        with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of a name twice
            for member, data in members:
                archive.writestr(member, data)
        return path

    def many(self, count):
        """An .npz of `count` scalars, the values their numbers."""
        head, out, directory = npy_bytes(F32(0))[:-4], bytearray(), bytearray()
        for i in range(count):
            name, data = b"t%07d.npy" % i, head + struct.pack("<f", i)
            sizes = len(data), len(data), len(name)
            common = struct.pack("<HHHIIIIHH", 20, 0, 0, 0x00210000, zlib.crc32(data), *sizes, 0)
            directory += b"PK\1\2" + struct.pack("<H", 20) + common + bytes(10) + struct.pack("<I", len(out)) + name
            out += b"PK\3\4" + common + name + data
        at = len(out)
        out += directory + b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(directory), at)
        out += b"PK\6\7" + struct.pack("<IQI", 0, at + len(directory), 1)
        out += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
        return self.write(out, "m.npz")

    def many_tensors(self, count, seconds):
        """There and back, in half a GiB and a kilobyte of memory a tensor and `seconds` of CPU time a command."""
        limits = {"memory": (512 << 20) + 1024 * count, "cpu": seconds, "timeout": 20 * seconds}
        packed, back, one = self.dir / "m.gradz", self.dir / "back.npz", self.dir / "one.npy"
        self.ok("compress", self.many(count), "-q", "-T2", "-o", packed, "--scheme=raw", **limits)
        self.assertLess(packed.stat().st_size, 48 * count)
        self.ok("decompress", packed, "-q", "-T2", "-o", back, **limits)
        with np.load(back) as arrays:
            self.assertEqual(len(arrays.files), count)
            for i in (0, 1, count // 2, count - 1):
                self.assertEqual(arrays[f"t{i:07}"], F32(i))
        self.ok("decompress", packed, "-q", "-o", one, f"--only=t{count - 1:07}", **limits)
        self.assertEqual(np.load(one), F32(count - 1))
        self.ok("aggregate", packed, packed, "-q", "-f", "-T2", "-o", back, **limits)
        limits["memory"] = support.start_up_memory() + (16 << 20) + 320 * count
        for options in ([], ["--json", "--test"]):
            self.assertIn(f"t{count - 1:07}".encode(), self.ok("info", "-T1", packed, *options, **limits).out)


class Zip(ZipTest):
    def test_orders_byte_orders_and_versions_are_numpys(self):
        rng = np.random.default_rng(2)
        members, expected = [], {}
        for kind in ("f2", "f4", "f8"):
            for byte_order in "<>":
                for order in "CF":
                    for version in ((1, 0), (2, 0), (3, 0)):
                        x = np.array(rng.standard_normal((7, 11, 3)).astype(byte_order + kind), order=order)
                        name = f"{byte_order}{kind} {order} {version}"
                        members.append((name + ".npy", npy_bytes(x, version)))
                        expected[name] = np.ascontiguousarray(x.astype("<" + kind))
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            packed = self.compress(self.zip(*members, method=method), "--scheme=raw")
            decoded = self.decompress(packed, suffix=".npz")
            self.assertEqual(list(decoded), list(expected))
            for name, x in expected.items():
                self.assert_same_bits(decoded[name], x, name)
        for member, data in members:
            packed = self.compress(self.write(data, "one.npy"), "--scheme=raw")
            self.assert_same_bits(self.decompress(packed), expected[member[:-4]], member)

    def test_names_come_back(self):
        names = ["/a", "a//b", "a/", "..", "../../etc/passwd", ".", " ", "a b", "a\nb", "b\r\n", "a\tb", "\x1b[31mred",
                 "\u00e9", "e\u0301", "\U0001f600", "\u202e", "*", "[x]", '"q"', "it's", "a,b", "-x", "--", "A", "a",
                 "b.npy", "a%2Fb", "%0a", "c\\x", "x" * 60_000]
        arrays = {name: np.full(i + 1, i, F32) for i, name in enumerate(names)}
        # A ZipInfo of its own: given a text, Python would take its member for a path.
        source = self.zip(*[(zipfile.ZipInfo(name + ".npy"), npy_bytes(x)) for name, x in arrays.items()])
        packed = self.compress(source, "--scheme=raw")
        self.ok("decompress", packed, "-q", "-o", self.dir / "x.h5")
        for way in (packed, self.compress(self.dir / "x.h5", "--scheme=raw")):
            decoded = self.decompress(way, suffix=".npz")
            self.assertEqual(list(decoded), names)
            for name, x in arrays.items():
                self.assert_same_bits(decoded[name], x, name)
        shown = self.ok("info", packed).out
        self.assertEqual([byte for byte in shown if byte < 32 and byte != ord("\n")], [])
        for name in names:
            if "*" not in name and "[" not in name:
                one = self.decompress(packed, f"--only={name}")
                self.assert_same_bits(one, arrays[name], name)

    def test_names_that_are_none_are_refused(self):
        for name in ("", "a\0b"):
            member = zipfile.ZipInfo("q")
            member.filename = name + ".npy"
            self.refused(BAD_INPUT, "compress", self.zip((member, npy_bytes(F32(1)))), "-o", self.dir / "o")

    def test_members_of_one_name_are_never_one_silently(self):
        one, two = npy_bytes(F32([1])), npy_bytes(F32([2]))
        self.refused(BAD_INPUT, "compress", self.zip(("a.npy", one), ("b.npy", two), ("a.npy", two)), "-o",
                     self.dir / "o", says="twice")
        # Its name in NumPy would be that of a.npy.
        self.refused(UNSUPPORTED, "compress", self.zip(("a", one), ("a.npy", two)), "-o", self.dir / "o", says="'a'")
        packed = self.compress(self.zip(("a.npy", one), ("A.npy", two)), "--scheme=raw")
        decoded = self.decompress(packed, suffix=".npz")
        self.assertEqual({name: float(x[0]) for name, x in decoded.items()}, {"a": 1, "A": 2})

    def test_ranks_from_0_to_32(self):
        for shape in ((), (1,) * 32, (2,) + (1,) * 30 + (3,)):
            x = np.arange(1, 1 + int(np.prod(shape)), dtype=F32).reshape(shape)
            for scheme in ("raw", "dqsg:levels=65535"):
                packed = self.compress(self.npy(x), "--scheme", scheme, "--seed=1")
                for got in (self.decompress(packed), *self.decompress(packed, suffix=".npz").values()):
                    self.assertEqual(got.shape, shape)
                    self.assertLessEqual(np.abs(got - x).max(), 0 if scheme == "raw" else 1e-3)
                self.ok("decompress", packed, "-q", "-f", "-o", self.dir / "x.h5")
                with h5py.File(self.dir / "x.h5") as file:
                    self.assertEqual([d.shape for d in file.values()], [shape])
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 33}}}".encode() + b"\n"
        path = self.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes(4), "33.npy")
        self.refused(LIMIT, "compress", path, "-o", self.dir / "o", says="32 dimensions")

    def test_20_000_tensors_of_one_element(self):
        self.many_tensors(20_000, 10)
        packed, room = self.dir / "m.gradz", support.start_up_memory() + (16 << 20) + 3072 * 20_000
        for options in ([], ["--json"], ["--csv"]):
            self.assertIn(b"t0019999", self.ok("stats", "-T1", packed, *options, memory=room).out)
        self.refused(LIMIT, "stats", packed, "--memory=40M", says="--memory")


class Hdf5(support.CliTest):
    def make(self, **options):
        return h5py.File(self.dir / "x.h5", "w", **options)

    def back(self):
        """x.h5 there and back, opened."""
        packed = self.compress(self.dir / "x.h5", "--scheme=raw")
        self.ok("decompress", packed, "-q", "-f", "-o", self.dir / "back.h5", timeout=20)
        return h5py.File(self.dir / "back.h5")

    def test_groups_that_lead_back_to_themselves(self):
        with self.make() as file:
            file["first/data"] = F32([1, 2])
            file["first/root"] = file["/"]
            file["second/data"] = F32([3])
            file["second/inner/again"] = file["first"]
            file["second/inner/deep/up"] = file["second/inner"]
            file["link"] = h5py.SoftLink("/second/data")
        with self.back() as file:
            self.assertEqual(file["first/root"], file["/"])
            self.assertEqual(file["second/inner/again"], file["first"])
            self.assertEqual(file["second/inner/deep/up/deep/up"], file["second/inner"])
            self.assert_same_bits(file["link"][()], F32([3]))
            self.assert_same_bits(file["first/root/second/inner/again/data"][()], F32([1, 2]))

    def test_counts_of_links_that_lie(self):
        with self.make() as file:
            file["g/w"] = F32([1, 2])
            file["again"] = file["g"]
            file["g/self"] = file["g"]
            file["w"] = file["g/w"]
            places = [h5py.h5o.get_info(file[name].id) for name in ("g", "g/w")]
            places = [(info.addr, info.rc) for info in places]
        data = bytearray((self.dir / "x.h5").read_bytes())
        for address, count in places:
            version, _, _, stored = struct.unpack_from("<BBHI", data, address)
            self.assertEqual((version, stored), (1, count))
            self.assertGreater(count, 1)
            struct.pack_into("<I", data, address + 4, 1)
        self.write(data, "x.h5")
        with self.back() as file:
            self.assertEqual(file["again"], file["g"])
            self.assertEqual(file["g/self"], file["g"])
            self.assertEqual(file["w"], file["g/w"])

    def test_links_that_lead_nowhere_or_round(self):
        links = {"soft": "/w", "dangling": "/none/there", "itself": "/itself", "there": "back", "back": "there"}
        for version in ("earliest", "latest"):
            with self.make(libver=version) as file:
                file["w"] = F32([1])
                for name, path in links.items():
                    file[name] = h5py.SoftLink(path)
            with self.back() as file:
                self.assertEqual({name: file.get(name, getlink=True).path for name in links}, links)
                self.assert_same_bits(file["soft"][()], F32([1]))

    def test_nothing_is_written_through_filters(self):
        with self.make() as file:
            file.create_dataset("z", data=np.zeros((100, 100), F32), chunks=(10, 10), compression="gzip", shuffle=True)
            file.create_dataset("none", (0,), "f4", maxshape=(None,))
            file.create_dataset("filled", (5,), "f4", fillvalue=7, chunks=(2,))
            file["empty"] = h5py.Empty("f4")
        with self.back() as file:
            self.assertEqual((file["z"].compression, file["z"].shuffle, file["z"].chunks), (None, False, None))
            self.assertEqual(file["none"].shape, (0,))
            self.assert_same_bits(file["filled"][()], np.full(5, 7, F32))
            self.assertIsNone(file["empty"].shape)

    def test_every_cut_is_refused(self):
        with self.make() as file:
            file["w"] = np.arange(1000, dtype=F32)
        whole = (self.dir / "x.h5").read_bytes()
        for size in (0, 7, 8, 60, 96, *range(500, len(whole), 500), len(whole) * 9 // 10, len(whole) - 1):
            cut = self.write(whole[:size], "cut.h5")
            result = self.refused(BAD_INPUT, "compress", cut, "-o", self.dir / "o", timeout=20, says="cut.h5")
            if size >= 96:
                self.assertIn("h5clear", result.err, size)
            self.assertFalse((self.dir / "o").exists())


class Numbers(support.CliTest):
    def decoded(self, x, scheme, *options):
        return self.there_and_back(x, f"--scheme={scheme}", "--seed=1", *options, back=["--dtype=f4"])

    def odd(self):
        return self.npz(odd_tensors(), "odd.npz")

    def test_every_scheme_takes_odd_tensors(self):
        source = self.odd()

        def check(scheme):
            packed = self.dir / f"{scheme.replace('/', '+')}.gradz"
            made = run("compress", source, "-q", "-o", packed, "--scheme", scheme, "--chunk-log2=12")
            tested = run("info", "--test", packed)
            if made.code or tested.code:
                return f"{scheme}: {made.err or tested.err}"
            if scheme.startswith("ndqsg"):
                return None  # not decoded without side information
            target = self.dir / (packed.name + ".npz")
            self.ok("decompress", packed, "-q", "-o", target)
            decoded = np.load(target)
            zeros = ("negative zero", "both zeros", "scalar", "none")
            noise = scheme.startswith("bq")
            bad = [name for name in zeros if not noise and np.any(decoded[name] != 0)]
            if scheme == "raw":
                bad += [name for name, x in odd_tensors().items() if decoded[name].tobytes() != x.tobytes()]
            bad += [name for name in decoded.files if not np.isfinite(decoded[name]).all()]
            return f"{scheme}: {bad}" if bad else None

        self.assertEqual([text for text in support.in_parallel(check, schemes()) if text], [])

    @unittest.skipIf(support.SANITIZED, "a sanitizer's library must be the first")
    def test_floating_point_traps(self):
        """A library may have turned traps on: the program turns them off, and -0 would not need it."""
        code = """
            #define _GNU_SOURCE
            #include <fenv.h>
            static void trap(void) { feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); }
            #ifdef FOREVER
            int fesetenv(const fenv_t* env) { (void)env; trap(); return 0; }
            #endif
            __attribute__((constructor)) static void start(void) { trap(); }"""
        zeros = self.npz({name: odd_tensors()[name] for name in ("negative zero", "both zeros", "scalar")}, "zeros.npz")
        for how, source in (("-DONCE", self.odd()), ("-DFOREVER", zeros)):
            library = self.dir / f"trap{how}.so"
            subprocess.run(["cc", "-shared", "-fPIC", how, "-x", "c", "-", "-o", library, "-lm"], check=True,
                           input=code.encode())

            def check(scheme):
                packed = self.dir / f"{scheme.replace('/', '+')}.gradz"
                for call in (["compress", source, "-q", "-f", "-o", packed, "--scheme", scheme],
                             ["info", "--test", packed]):
                    done = run(*call, env={"LD_PRELOAD": str(library)})
                    if done.code:
                        return f"{how} {scheme}: {done.code} {done.err}"
                return None

            self.assertEqual([text for text in support.in_parallel(check, schemes()) if text], [])

    def test_every_scheme_is_scale_equivariant(self):
        rng = np.random.default_rng(3)
        rows = np.exp2(rng.integers(-6, 6, (30, 1))).astype(F32)
        tensors = {"flat": rng.standard_normal(3000).astype(F32),
                   "rows": rng.standard_normal((30, 40)).astype(F32) * rows}

        def check(scheme):
            first = None
            # An energy below 2^-100 is predicted by nothing (spec/schemes/lowrank.md).
            for power in (0, -33, 40) if scheme.startswith("lowrank") else (0, -33, -70, 40):
                stem = f"{scheme.replace('/', '+')}{power}"
                source = self.npz({name: x * F32(2.0**power) for name, x in tensors.items()}, stem + ".npz")
                packed, target = self.dir / (stem + ".gradz"), self.dir / (stem + ".out.npz")
                self.ok("compress", source, "-q", "-o", packed, "--scheme", scheme, "--seed=1")
                self.ok("decompress", packed, "-q", "-o", target)
                decoded = np.load(target)
                scaled = {name: decoded[name] * F32(2.0**-power) for name in tensors}
                first = first or scaled
                if any(scaled[name].tobytes() != first[name].tobytes() for name in tensors):
                    return f"{scheme} times 2^{power}"
            return None

        names = schemes("ndqsg", *ABSOLUTE)
        self.assertEqual([text for text in support.in_parallel(check, names) if text], [])

    def test_norms_neither_overflow_nor_vanish(self):
        for x in (F32([1e20, 1e20]), np.float16([600, 800]), np.full(1000, 1e-25, F32), F32([1e-31] * 9),
                  np.full(3000, 6e4, np.float16)):
            wide = x.astype(np.float64)
            told = json.loads(self.ok("stats", self.npy(x), "--json").out)["tensors"][0]
            self.assertAlmostEqual(told["norm2"] / np.linalg.norm(wide), 1, 12)
            for scheme, scale in (("qsgd:s=127", np.linalg.norm(wide) / 127), ("qsgd:s=127,norm=max", wide.max() / 127),
                                  ("terngrad", wide.max()), ("nuqsgd:s=7", np.linalg.norm(wide))):
                got = self.decoded(x, scheme).astype(np.float64)
                self.assertGreater(np.abs(got).max(), 0, scheme)
                self.assertLessEqual(np.abs(got - wide).max(), scale * 1.0001, f"{scheme} of {x[:2]}")

    def test_no_level_is_beyond_the_last(self):
        for x in (F32([3]), F32([-1e-30]), F32([0.1]), F32([-7e37])):
            for s in (1, 127, 128, 2047, 2048, 32767):
                for norm in ("l2", "max"):
                    got = self.decoded(x, f"qsgd:s={s},norm={norm}", "--coder=pack")
                    self.assertLessEqual(np.abs(got - x)[0], np.abs(x)[0] * 2.0**-22, f"{s} {norm} {x}")

    def test_places_are_wider_than_the_values(self):
        x = np.zeros(100_000, np.float16)
        at = [3, 32_767, 32_768, 65_535, 65_536, 99_999]
        x[at] = [1, 2, -3, 4, -5, 6]
        for scheme in ("topk:k=6", "threshold:t=1", "topk:k=100%"):
            for chunk in (12, 18):
                packed = self.compress(self.npy(x), f"--scheme={scheme}", f"--chunk-log2={chunk}")
                self.assert_same_bits(self.decompress(packed), x, scheme)

    def test_the_error_grows_with_the_bucket_as_it_should(self):
        x = np.random.default_rng(4).standard_normal(1 << 16).astype(F32)
        wide = x.astype(np.float64)
        buckets = [32, 128, 512, 1000, 1023, 1024, 1025, 4096, 16_384, 65_536]
        options = [f"--scheme=qsgd:s=4,bucket={b}" for b in buckets]
        told = json.loads(self.ok("stats", self.npy(x), "--json", *options).out)["schemes"]
        errors = [scheme["nmse"] for scheme in told]
        self.assertEqual(len(errors), len(buckets))
        for bucket, error in zip(buckets, errors):
            expected = 0  # the sum of step^2 f (1 - f), f the fraction of x / step
            for values in np.split(wide, range(bucket, x.size, bucket)):
                step = np.linalg.norm(values) / 4
                f = np.abs(values) / step % 1
                expected += step**2 * (f * (1 - f)).sum()
            self.assertAlmostEqual(error / (expected / (wide**2).sum()), 1, delta=0.1, msg=bucket)

    def test_sums_of_float16_are_wide(self):
        packed = self.compress(self.npy(np.full(100, 60_000, np.float16)), "--scheme=raw")
        inputs, target = [packed] * 64, self.dir / "sum.npy"
        self.ok("aggregate", *inputs, "-q", "-f", "-o", target)
        self.assert_same_bits(np.load(target), np.full(100, 60_000, np.float16))
        self.refused(LIMIT, "aggregate", *inputs, "-q", "-f", "--sum", "-o", target, says="--dtype f4")
        self.ok("aggregate", *inputs, "-q", "-f", "--sum", "--dtype=f4", "-o", target)
        self.assert_same_bits(np.load(target), np.full(100, 64 * 60_000, F32))

    def test_parameters_of_every_scheme_have_their_range(self):
        source, calls = self.npy(F32([1, 2, 3])), []
        for scheme in json.loads(run("schemes", "--json").out):
            required = {p["name"]: p["example"] for p in scheme["params"] if p["required"]}
            behind = scheme["example"].split()[-1].partition("/")[2]
            wrong = [("surplus", "1")]
            for param in scheme["params"]:
                values = {"real": ["nan"], "integer": ["1.5", "1e9", str(2**64)], "amount": ["0%", "101%"]}.get(
                    param["kind"], ["x"])
                if "min" in param:
                    values += ["0" if param["min"] > 0 else "-1", f"{param['max'] * 2:g}"]
                wrong += [(param["name"], value) for value in values]
            for name, value in wrong:
                text = scheme["name"] + ":" + ",".join(f"{k}={v}" for k, v in {**required, name: value}.items())
                calls.append((text + ("/" + behind if behind else ""), name, value))
        self.assertGreater(len(calls), 200)

        def check(call):
            text, name, value = call
            told = self.refused(USAGE, "compress", source, "-o", self.dir / "o", "--scheme", text).err
            self.assertRegex(told, "1e3" if "+" in value else f"'{name}'", text)

        support.in_parallel(check, calls)
        self.assertFalse((self.dir / "o").exists())

    def test_a_parameter_is_the_number_that_was_written(self):
        x = np.random.default_rng(5).standard_normal(500).astype(F32)
        same = {self.compress(self.npy(x), f"--scheme=grid:step={text}", "--seed=1").read_bytes()
                for text in ("0.001", "1e-3", "0.0010", "1.0e-03")}
        self.assertEqual(len(same), 1)
        got = self.decoded(x, "grid:step=0.001")
        symbols = np.rint(got / F32(0.001)).astype(F32)
        self.assert_same_bits(got, symbols * F32(0.001))


class Streams(support.CliTest):
    """Every command, where files are cut, disks full, pipes closed."""

    def setUp(self):
        super().setUp()
        x = np.random.default_rng(6).standard_normal(100_000).astype(F32)
        self.source = self.npy(x, "g.npy")
        self.packed = self.compress(self.source, "--scheme=dqsg:levels=255", "--seed=1", to=self.dir / "g.gradz")
        self.compress(self.source, "--scheme=dqsg:levels=255", "--seed=2", to=self.dir / "h.gradz")
        self.trace = self.npz({f"step_{s}/worker_{w}/p": x[:500] * (s + w) for s in (1, 2) for w in (1, 2)}, "t.npz")
        self.there = self.names()

    def names(self):
        return {path.name for path in self.dir.iterdir()}

    def writers(self):
        """Commands that write a file `o`, with any suffix."""
        dump, trace = "g.npy", ["t.npz", "--scheme=dqsg:levels=5"]
        state = ["--scheme=ef/dither:nmse=0.1", "--state=o.state"]
        yield from (["compress", dump, "-o", "o.gradz"], ["compress", dump, "-o", "o.gradz", "--scheme=raw"],
                    ["compress", dump, "-o", "o.gradz", *state], ["decompress", "g.gradz", "-o", "o.npy"],
                    ["decompress", "g.gradz", "-o", "o.npz"], ["decompress", "g.gradz", "-o", "o.h5"],
                    ["aggregate", "g.gradz", "h.gradz", "-o", "o.npy"],
                    ["aggregate", "g.gradz", "h.gradz", "-o", "o.gradz", "--scheme=raw"],
                    ["stats", "g.npy", "--plot=o.svg"], ["replay", *trace, "--plot=o.svg"])

    def readers(self, path):
        """Commands that read this .gradz file, each of which may write `o` with a suffix."""
        return (["verify", path], ["stats", path], ["decompress", path, "-o", "o.npy"],
                ["aggregate", "g.gradz", path, "-o", "o.npy"])

    def printers(self):
        dump, trace = ["g.npy"], ["t.npz", "--scheme=dqsg:levels=5"]
        yield from (["info", "g.gradz"], ["info", "--json", "g.gradz"], ["stats", *dump], ["stats", *dump, "--json"],
                    ["stats", *dump, "--csv"], ["stats", "g.gradz"], ["verify", "g.gradz"], ["verify", *trace],
                    ["verify", *trace, "--json"], ["replay", *trace], ["replay", *trace, "--json"], ["schemes"],
                    ["schemes", "--json"], ["schemes", "dqsg"], ["--help"], ["help"], ["replay", "--help"],
                    ["aggregate", "g.gradz", "h.gradz", "-o", "-", "--to=npz"], ["decompress", "g.gradz", "-o", "-"],
                    ["compress", *dump, "-o", "-"], ["bench", *trace, "--size=1000", "--repeats=1"])

    def call(self, command, stdout=subprocess.PIPE, **options):
        return subprocess.run([PROGRAM, *command], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=60, check=False, **options)

    def assert_disk_full(self, done, command):
        self.assertEqual(done.returncode, IO_FAILURE, (command, done.stderr))
        self.assertIn(b"gradcodec: ", done.stderr, command)
        self.assertEqual(self.names(), self.there, command)

    def test_no_room_for_any_file(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the program must do without its parent's help
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        env = {**os.environ, "TMPDIR": str(self.dir)}
        for command in self.writers():
            self.assert_disk_full(self.call(command, preexec_fn=limit, env=env), command)

    def test_a_small_disk(self):
        disk = self.dir / "disk"
        disk.mkdir()
        script = f"mount -t tmpfs -o size=16k none {disk} && exec sleep 600"
        holder = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        inside = Path(f"/proc/{holder.pid}/root{disk}")  # the disk, as seen from here
        deadline = time.monotonic() + 10
        while not (inside.exists() and inside.stat().st_dev != disk.stat().st_dev):
            if holder.poll() is not None or time.monotonic() > deadline:
                self.skipTest("no file system can be mounted here")
            time.sleep(0.01)
        for command in self.writers():
            if command[0] in ("stats", "replay"):
                continue  # plots have room
            names = [word.rpartition("=")[2] for word in command if word.rpartition("=")[2].startswith("o.")]
            words = [word.replace("o.", f"{inside}/o.", 1) if "o." in word[-9:] else word for word in command]
            for old in (None, b"as it was"):
                if old:
                    (inside / names[0]).write_bytes(old)
                done = self.call([*words, "-f"])
                self.assertEqual(done.returncode, IO_FAILURE, (command, done.stderr))
                left = {path.name: path.read_bytes() for path in inside.iterdir()}
                self.assertEqual(left, {names[0]: old} if old else {}, command)
                (inside / names[0]).unlink(missing_ok=True)

    def test_every_command_to_a_full_disk_and_to_a_closed_pipe(self):
        for command in self.printers():
            with open("/dev/full", "wb") as full:
                done = self.call(command, stdout=full)
            self.assertEqual(done.returncode, IO_FAILURE, (command, done.stderr))
            self.assertIn(b"cannot be written", done.stderr, command)
            read, write = os.pipe()
            os.close(read)
            quiet = ["-q"] if command[0] in ("compress", "replay", "bench") else []
            done = self.call([*command, *quiet], stdout=write)
            os.close(write)
            self.assertEqual((done.returncode, done.stderr), (CLOSED_PIPE, b""), command)

    def test_standard_streams_that_are_closed(self):
        """No file takes their numbers: a message would be written into it."""
        with h5py.File(self.dir / "names.h5", "w") as file:
            file["w"], file["names"] = F32([1, 2]), ["what .npz", "cannot hold"]
        names = self.compress(self.dir / "names.h5", "--scheme=raw")
        calls = [["compress", self.source, "-v", "--scheme=raw", "-o"], ["decompress", self.packed, "-v", "-o"],
                 ["decompress", names, "--to=npz", "-o"], ["decompress", names, "--to=h5", "-o"],
                 ["aggregate", self.packed, self.packed, "--to=npy", "-o"]]
        for call in calls:
            self.ok(*call, self.dir / "whole")
            whole = (self.dir / "whole").read_bytes()
            (self.dir / "whole").unlink()
            for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
                done = subprocess.run([PROGRAM, *map(str, call), "o"], cwd=self.dir, timeout=60, check=False,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      preexec_fn=lambda: [os.close(fd) for fd in closed])
                self.assertEqual(done.returncode, OK, (call, closed))
                self.assertTrue((self.dir / "o").read_bytes() == whole, (call, closed))
                (self.dir / "o").unlink()
            bad = subprocess.run([PROGRAM, *map(str, call), "-"], timeout=60, check=False, stderr=subprocess.PIPE,
                                 preexec_fn=lambda: os.close(1))
            self.assertEqual(bad.returncode, IO_FAILURE, bad.stderr)
        bad = subprocess.run([PROGRAM, "info", "-"], timeout=60, check=False, stderr=subprocess.PIPE,
                             preexec_fn=lambda: os.close(0))
        self.assertEqual(bad.returncode, IO_FAILURE, bad.stderr)

    def refuse_each(self, forms):
        """Every command refuses every form of the file that it reads, and writes nothing."""
        for data in forms:
            self.write(data, "bad.gradz")
            there = self.there | {"bad.gradz"}

            def check(command):
                done = self.call([*command, "-T1"])
                return None if done.returncode == BAD_INPUT and done.stderr else (command, done.returncode, done.stderr)

            failures = [f for f in support.in_parallel(check, self.readers("bad.gradz")) if f]
            self.assertEqual((failures, self.names()), ([], there), f"{len(data)} bytes")

    def test_every_command_refuses_every_cut(self):
        small = self.compress(self.npy(F32([1, -1, 0.5]), "g.npy"), "--scheme=dqsg:levels=5", to=self.dir / "g.gradz")
        data = small.read_bytes()
        self.refuse_each(data[:size] for size in range(len(data)))

    def test_every_command_refuses_what_follows_the_end(self):
        data = self.packed.read_bytes()
        self.refuse_each([data + data, data + b"\0", data + b"junk", data + data[:20], b"\0" + data])

    def test_more_threads_than_there_is_work(self):
        self.npy(F32([1, 2, 3]), "g.npy")
        for name in ("g", "h"):
            self.compress(self.source, "--scheme=dqsg:levels=5", f"--seed={ord(name)}", to=self.dir / f"{name}.gradz")
        for command in (*self.readers("g.gradz"), *self.writers(),
                        ["verify", "t.npz", "--scheme=dqsg:levels=5", "--seed=1"],
                        ["replay", "t.npz", "--scheme=dqsg:levels=5", "--json"]):
            outputs = set()
            for threads in ("-T1", "-T64", "-T1000"):
                done = self.call([*command, threads, *(["--seed=1"] if command[0] == "compress" else [])])
                self.assertEqual(done.returncode, OK, (command, threads, done.stderr))
                made = sorted(self.names() - self.there)
                outputs.add((done.stdout, *[(self.dir / name).read_bytes() for name in made]))
                for name in made:
                    (self.dir / name).unlink()
            self.assertEqual(len(outputs), 1, command)

    def test_options_stand_anywhere(self):
        files, out = ["g.gradz", "g.gradz"], self.dir / "o.npz"
        results = set()
        for command in ([*files, "-o", out, "--dtype", "f8", "-q"], ["-q", "--dtype", "f8", "-o", out, *files],
                        ["g.gradz", "-o", out, "g.gradz", "--dtype", "f8", "-q"],
                        ["-o", out, "g.gradz", "--dtype", "f8", "g.gradz", "-q"]):
            self.ok("aggregate", *command, cwd=self.dir)
            results.add(out.read_bytes())
            out.unlink()
        self.assertEqual(len(results), 1)
        scheme = ["--scheme", "dqsg:levels=5"]
        for words, path in ((["info", "--json", "--test"], "g.gradz"), (["stats", "--json", *scheme], "g.npy"),
                            (["replay", "--json", *scheme, "-q"], "t.npz"),
                            (["verify", *scheme, "--seed", "1", "--trials", "8"], "t.npz")):
            command, *options = words
            calls = [command, path, *options], [command, *options, path]
            printed = {self.ok(*call, cwd=self.dir).out for call in calls}
            self.assertEqual(len(printed), 1, words)

    def test_no_progress_in_a_log(self):
        """After a second a terminal would see some."""
        calls = [(["compress", "-", "-o", "a.gradz"], self.source), (["decompress", "-", "-o", "a.npy"], self.packed),
                 (["info", "--test", "-"], self.packed), (["aggregate", "-", "g.gradz", "-o", "b.npy"], self.packed)]
        running = []
        for command, source in calls:
            process = subprocess.Popen([PROGRAM, *command], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            data = source.read_bytes()
            process.stdin.write(data[:-1])
            process.stdin.flush()
            running.append((command, process, data[-1:]))
        time.sleep(1.6)
        for command, process, rest in running:
            _, err = process.communicate(rest, timeout=60)
            self.assertEqual(process.returncode, OK, (command, err))
            self.assertNotRegex(err, rb"[\r\x1b%]", command)

    def test_no_output_may_be_read_by_more_than_its_inputs(self):
        def mode(name):
            return oct((self.dir / name).stat().st_mode & 0o777)

        secret = self.compress(self.source, "--scheme=raw", to=self.dir / "secret.gradz")
        secret.chmod(0o600)
        for mask in (0o022, 0o077, 0):
            calls = [["aggregate", "g.gradz", "secret.gradz", "-o", "o.npy"],
                     ["decompress", "secret.gradz", "-o", "o.h5"],
                     ["aggregate", "secret.gradz", "g.gradz", "-o", "o.gradz", "--scheme=raw"]]
            for call in calls:
                done = self.call([*call, "-f"], preexec_fn=lambda: os.umask(mask))
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertEqual(mode(call[call.index("-o") + 1]), oct(0o600), (call, oct(mask)))
        self.source.chmod(0o600)
        state = ["compress", "g.npy", "-o", "s.gradz", "--scheme=ef/topk:k=1%", "--state=s.state"]
        self.assertEqual(self.call(state, preexec_fn=lambda: os.umask(0)).returncode, OK)
        self.assertEqual((mode("s.gradz"), mode("s.state")), (oct(0o600), oct(0o600)))

    def test_unknown_locales_and_odd_file_names(self):
        for locale in ("xx_YY.UTF-8", "tr_TR.UTF-8", "C", "", "zz"):
            env = {"LC_ALL": locale, "LANG": locale}
            self.ok("compress", self.source, "-q", "-f", "-o", self.dir / "l.gradz", env=env)
        for name in (b"-x.npy", b"a\nb.npy", b"\xff.npy", b"it's $(here).npy"):
            path = os.fsencode(self.dir) + b"/" + name
            with open(path, "wb") as file:
                file.write(self.source.read_bytes())
            done = self.call(["compress", "-f", "--", name])
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(os.path.exists(path + b".gradz"))
            self.assertEqual(done.stderr.count(b"\n"), 2, "a line of the scheme and one of the sizes")


class Table(unittest.TestCase):
    """Of tests/faults.md: every row names tests, and every one of them is there."""

    def names_in(self, path):
        text = path.read_text()
        if path.suffix == ".cc":
            return set(re.findall(r'^TEST_CASE\(\s*"([^"]+)"', text, re.MULTILINE))
        return {f"{c.name}.{f.name}" for c in ast.parse(text).body if isinstance(c, ast.ClassDef)
                for f in c.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test")}

    def test_every_test_that_it_names_is_there(self):
        rows = [line.strip("|").split(" | ") for line in (ROOT / "tests/faults.md").read_text().splitlines()
                if line.startswith("| ") and not line.startswith("| what went wrong |")]
        self.assertGreater(len(rows), 70)
        named, missing = {}, []
        for row in rows:
            self.assertEqual(len(row), 3, row)
            file = None
            there = set()
            for word in re.findall(r"`([^`]+)`", row[2]):
                if word.endswith((".py", ".cc")):
                    file = ROOT / "tests" / word
                    there = self.names_in(file)
                    named.setdefault(file, set())
                else:
                    named[file].add(word)
                    missing += [] if word in there else [f"{file.name}: {word}"]
            self.assertTrue(file and named[file], row)
        self.assertEqual(missing, [])
        own = {name for name in self.names_in(Path(__file__)) if not name.startswith("Table.")}
        self.assertEqual(own - named[Path(__file__).resolve()], set(), "tests here that the table lacks")


class Build(unittest.TestCase):
    def test_fast_math_is_refused(self):
        for file in ("codec/kernels/scalar.cc", "codec/kernels/hadamard.cc", "codec/lattice/lattices.cc"):
            done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-ffast-math", "-I.", file], cwd=ROOT,
                                  capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0, file)
            self.assertIn("-ffast-math", done.stderr, file)


@support.slow
class Slow(ZipTest):
    def test_1_300_000_tensors_of_one_element(self):
        self.many_tensors(1_300_000, 120)


if __name__ == "__main__":
    support.main()
