"""spec/reference/ against the program: golden files, worked examples, every scheme and coder, what stands beside a
message, damage.

    GRADCODEC=build/release/gradcodec python3 tests/spec/reference_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import io
import json
import pathlib
import subprocess
import sys
import unittest
import zipfile

import numpy as np

import examples
from program import ROOT, SPEC, Case
from reference import container, decode, dumps, rounds
from reference.reading import Damaged, Refused, Usage

GOLDEN = ROOT / "tests/golden"
EXAMPLES = examples.read_examples()
CODERS = ("pack", "zstd", "elias", "rans", "rans-dither")
ALL_CODERS = ("raw", "dqsg:levels=3", "dqsg:levels=257,bucket=100", "dither:nmse=0.01", "multiscale:bits=6-10",
              "topk:k=20%", "randk:k=30%/dither:nmse=0.1")
SCHEMES = ALL_CODERS + (
    "choose:nmse=0.1", "choose:nmse=3", "choose:bits=1", "dither:nmse=0.5,bucket=4096", "dither:step=1e-3",
    "dqsg:levels=5,clip=1", "lattice:kind=d4,nmse=0.1", "lattice:kind=a2,nmse=0.1", "lattice:nmse=0.001",
    "rotate:block=64/dither:nmse=0.1", "rotate:shared=yes/rotate:block=2/dqsg:levels=5", "rotate:block=8/topk:k=20%",
    "drive", "eden:bits=3,block=128", "rotq:bits=2", "randk:k=30%/rotate:block=16/dqsg:levels=5",
    "topk:k=50%/eden:bits=2", "topk:k=5%/dqsg:levels=5,bucket=7", "threshold:t=1e-3", "randk:k=9,shared=yes",
    "rotate/threshold:t=1e-6", "rotate/randk:k=20%", "rotate/topk:k=100%", "topk:k=50%/rotate:block=16/topk:k=100%",
    "topk:k=50%/rotate:block=16/randk:k=20%/dqsg:levels=5", "rotate/rotate:block=16/threshold:t=1e-6",
    "qsgd:s=4", "qsgd:s=200,norm=max", "adaquant:s0=2,loss0=2,loss=0.5", "terngrad:clip=2.5", "natural", "maxnorm",
    "grid:step=0.5", "uniform:bits=4,bucket=100", "sign", "sign:axis=row", "onebit", "onebit:axis=row",
    "topk:k=20%/sign:axis=row", "bq:clip=1,bits=4,m=20,noise=test",
    "ef/topk:k=10%", "ec/qsgd:s=4", "momentum/topk:k=5%/qsgd:s=2", "diana/qsgd:s=2",
    "diana/rotate:block=8/dqsg:levels=5", "topk:k=20%/shrink/qsgd:s=1", "shrink/qsgd:s=1", "shrink/rotate:block=16/dqsg:levels=3",
    "shrink/randk:k=20%", "ndqsg:fine=3,coarse=1", "ndqsg:fine=4,coarse=1,check=yes",
    "ndqsg:fine=300,coarse=100,alpha=0.7", "ndqsg:fine=30,coarse=10,range=0.0005,check=yes",
    "countsketch:rows=5,cols=5%", "countsketch:rows=3,cols=30,value=i64,exp=20",
    "countsketch:rows=1,cols=50%,scope=run", "topk:k=20%/countsketch:rows=3,cols=20%",
    "momentum/topk:k=20%/countsketch:rows=3,cols=20%", "rotate:block=16/countsketch:rows=1,cols=50%",
    "shrink/countsketch:rows=3,cols=20%", "mask", "tqsgd:bits=3",
    "tnqsgd:bits=2,density=powerlaw", "tbqsgd:bits=4", "nuqsgd:s=3", "alq:s=2,bucket=64", "amq:s=3")


def plain(tensors):
    """{name: (shape, bytes)} of what the reference decodes."""
    return {name: (shape, data) for name, (_, shape, data) in tensors.items()}


class Golden(unittest.TestCase):
    def test_every_file_decodes_to_the_bit(self):
        cases = json.loads((GOLDEN / "manifest.json").read_text())["cases"]
        self.assertGreater(len(cases), 100)
        for case in cases:
            suffix = pathlib.Path(case["input"]).suffix
            for i, options in enumerate(case["decode"]):
                with self.subTest(case["name"], options=options):
                    expected = (GOLDEN / ("expected/%s.%d%s" % (case["name"], i, suffix))).read_bytes()
                    decoded = decode.decode((GOLDEN / ("files/%s.gradz" % case["name"])).read_bytes(),
                                            **self.beside(case), **self.asked(options))
                    members = {name + ".npy": dumps.npy_bytes(*tensor) for name, tensor in decoded.items()}
                    self.assertEqual(members, members_of(expected, suffix))

    @staticmethod
    def beside(case):
        files = {}
        if case["bare"]:
            files["schema"] = (GOLDEN / ("files/%s.schema" % case["bare"])).read_bytes()
        if "side" in case:
            files["side"] = (GOLDEN / case["side"]).read_bytes()
        return files

    def asked(self, options):
        self.assertTrue(all(option.startswith("--dtype=") for option in options), options)
        return {"dtype": option.partition("=")[2] for option in options}


def members_of(data, suffix):
    if suffix == ".npy":
        return {"array.npy": data}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Examples(Case):
    def test_worked_examples(self):
        for name, example in EXAMPLES.items():
            with self.subTest(example=name, page=example.page):
                example.write_input(self.path)
                for file, data in example.files.items():
                    if not file.endswith((".schema", ".indices")):
                        decoded = decode.decode(data, **self.beside(example, file))
                        self.assertEqual({key: body for key, (_, _, body) in decoded.items()}, example.decoded_of(file))

    def beside(self, example, file):
        files = {}
        for option, name in example.files_beside(file):
            files[option] = example.files[name]
        if example.sides:
            files["side"] = self.bytes_of(example.side_input)
        return files

    def test_any_damaged_byte_is_found(self):
        for example, name in (("one", "one.gradz"), ("elias", "elias.gradz"), ("state", "f.state")):
            data = EXAMPLES[example].files[name]
            for at in range(len(data)):
                with self.assertRaises(Damaged):
                    decode.decode(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])

    def test_no_beginning_of_a_file_is_a_file(self):
        for name in ("one.gradz", "short.bare"):
            example = EXAMPLES["one" if name == "one.gradz" else "bare-short"]
            schema = example.files.get("short.schema")
            for size in range(len(example.files[name])):
                with self.assertRaises(Damaged):
                    decode.decode(example.files[name][:size], schema=schema)


class Schemes(Case):
    """What the program writes, by every scheme and coder."""

    def test_dumps_of_many_kinds(self):
        """Every float type, buckets, chunks, exceptions, subnormal numbers."""
        random = np.random.default_rng(1)
        values = random.standard_normal(4500) * 10.0 ** random.integers(-6, 6, 4500)
        values[[0, 17, 4400]] = [np.inf, np.nan, 1e-40]
        floats = {"a": values.astype("<f4"), "b": values[:9], "c": (values[20:60] / 1e6).astype("<f2"),
                  "d": np.float32(3), "e": np.zeros((0, 3), "<f4")}
        np.savez(self.path / "x.npz", **floats, f=np.arange(6, dtype=">i4"), g=np.zeros((2, 2), "<c16"))
        tame = {name: np.nan_to_num(x, posinf=1).astype(np.asarray(x).dtype) for name, x in floats.items()}
        np.savez(self.path / "tame.npz", **tame, f=np.arange(6))
        for scheme in SCHEMES:
            for coder in self.coders(scheme):
                with self.subTest(scheme=scheme, coder=coder):
                    dump = "tame.npz" if scheme.startswith("bq") else "x.npz"  # bq keeps no exceptions
                    self.compress(dump, scheme, coder, "--nonfinite", "error" if dump == "tame.npz" else "keep")
                    side = self.side_of(scheme, tame if dump == "tame.npz" else floats)
                    self.assert_agrees("x.gradz", **side)

    @staticmethod
    def coders(scheme):
        if scheme.startswith("bq"):
            return ("pack",)
        return CODERS if scheme in ALL_CODERS else ("zstd", "rans-dither")

    def compress(self, dump, scheme, coder, *options):
        self.run_program("compress", dump, "-o", "x.gradz", "--scheme", scheme, "--coder", coder, "--seed", "5",
                         "--worker", "3", "--chunk-log2", "12", "-f", "-q", *options)

    def side_of(self, scheme, floats):
        """Near enough to the values for a scheme that needs side information."""
        if not scheme.startswith("ndqsg"):
            return {}
        with np.errstate(all="ignore"):
            sides = {name: (x * np.float32(1.00001)).astype("f4") for name, x in floats.items()}
        np.savez(self.path / "side.npz", **sides)
        return {"side": "side.npz"}

    def assert_agrees(self, file, **beside):
        """`beside`: names of files, by decode's names for them."""
        options = [part for key, name in beside.items() for part in (OPTIONS[key], name)]
        ours = decode.decode(self.bytes_of(file), **{key: self.bytes_of(name) for key, name in beside.items()})
        self.assertEqual(plain(ours), self.decompressed(file, *options))

    def test_long_streams(self):
        """Rows of zeros, of two scales, and a few large values: block classes, contexts, several lanes, raw bits."""
        rng = np.random.default_rng(7)
        x = rng.laplace(size=(48, 128)) * np.repeat([1, 0.1, 0], 16)[rng.permutation(48), None]
        np.savez(self.path / "x.npz", a=x.astype(np.float32), b=np.float32([1, 2, 3]))
        for coder in CODERS:
            for scheme in ("dqsg:levels=3", "dither:nmse=0.1", "dqsg:levels=255", "dqsg:levels=2001", "raw"):
                with self.subTest(coder=coder, scheme=scheme):
                    self.compress("x.npz", scheme, coder)
                    self.assert_agrees("x.gradz")

    def test_bare_messages(self):
        arrays = {"a": np.arange(-20, 20, dtype="<f4"), "b": np.arange(6, dtype="<f4"), "c": np.float32(3),
                  "d": np.zeros((0, 2), "<f4")}
        np.savez(self.path / "x.npz", **arrays)
        for scheme in SCHEMES:
            if scheme.startswith(("ef/", "ec/", "momentum/", "diana/")):
                continue  # bare messages have no room for them
            for coder in ("pack", "elias", "zstd") if not scheme.startswith("bq") else ("pack",):
                with self.subTest(scheme=scheme, coder=coder):
                    options = ["--scheme", scheme, "--coder", coder, "--seed", "1", "-f", "-q"]
                    self.run_program("compress", "x.npz", "-o", "x.gradz", *options)
                    self.run_program("info", "x.gradz", "--schema-out", "x.schema", "-q", "-f")
                    self.run_program("compress", "x.npz", "-o", "x.bare", *options, "--bare", "--schema", "x.schema")
                    side = self.side_of(scheme, arrays)
                    self.assert_agrees("x.bare", schema="x.schema", **side)
                    self.assert_agrees("x.gradz", **side)

    def test_sums(self):
        random = np.random.default_rng(2)
        for scheme, scale in (("maxnorm:bits=3", 9), ("multiscale:bits=2-4-6", 9), ("grid:step=0.1", None),
                              ("randk:k=20%,shared=yes", None), ("randk:k=20%,shared=yes/maxnorm", 90),
                              ("countsketch:rows=3,cols=5%", None),
                              ("momentum/countsketch:rows=1,cols=9,value=i64", None),
                              ("rotate:block=64,shared=yes/maxnorm", 90),
                              ("rotate:block=16,shared=yes/randk:k=30%,shared=yes", None)):
            shared = ["--shared-scale", str(scale)] if scale else []
            for worker in "12":
                values = random.standard_normal(4500).clip(-8, 8)
                np.savez(self.path / "x.npz", a=values.astype("<f4"), b=values[:9], d=np.float32(3),
                         e=np.zeros((0, 3), "<f4"), f=np.arange(6, dtype=">i4"), h=values[:30].astype("<f2"))
                self.run_program("compress", "x.npz", "-o", worker, "--scheme", scheme, *shared, "--seed", "5",
                                 "--step", "3", "--worker", worker, "--chunk-log2", "12", "-f", "-q")
            for options in ([], ["--coder", "pack", "--sum", "--weights", "2,1"]):
                with self.subTest(scheme=scheme, options=options):
                    self.run_program("aggregate", "1", "2", "-o", "x.gradz", "-f", "-q", *options)
                    self.assert_agrees("x.gradz")


OPTIONS = {"side": "--side-info", "at": "--at", "schema": "--schema"}


class Beside(Schemes):
    """Index sets, the heaviest elements, states, streams, metadata and trees."""
    test_dumps_of_many_kinds = test_long_streams = test_bare_messages = test_sums = None


if __name__ == "__main__":
    unittest.main()
