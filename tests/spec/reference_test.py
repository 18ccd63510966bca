"""spec/reference/ against the vectors and the program: worked examples, every scheme and coder, what stands beside a
message, damage.

    GRADCODEC=build/release/gradcodec python3 tests/spec/reference_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import os
import resource
import subprocess
import sys
import unittest
from random import Random
from unittest import mock

import h5py
import numpy as np

import examples
import made_files
import vectors
from program import SPEC, Case, arrays_of
from reference import container, decode, rounds
from reference.coders import model
from reference.reading import Damaged, Refused, Usage

VECTORS = vectors.all_vectors()
EXAMPLES = examples.read_examples()
CODERS = ("pack", "zstd", "elias", "rans", "rans-dither", "model")
ALL_CODERS = ("raw", "dqsg:levels=3", "dqsg:levels=257,bucket=100", "dither:nmse=0.01", "multiscale:bits=6-10",
              "topk:k=20%", "randk:k=30%/dither:nmse=0.1", "lowrank:rank=3,nmse=0.01+dither:nmse=0.01")
SCHEMES = ALL_CODERS + (
    "choose:nmse=0.1", "choose:nmse=3", "choose:bits=1", "dither:nmse=0.5,bucket=4096", "dither:nmse=0.1,steps=class",
    "dither:step=1e-3",
    "lowrank:rank=4,nmse=1e-4", "sign+qsgd:s=4", "topk:k=9%/qsgd:s=4+sign+dither:nmse=0.1", "ef/sign+topk:k=10%",
    "onebit+rotate:block=16/dqsg:levels=5", "dqsg:levels=5,clip=1", "lattice:kind=d4,nmse=0.1", "lattice:kind=a2,nmse=0.1", "lattice:nmse=0.001",
    "rotate:block=64/dither:nmse=0.1", "rotate:shared=yes/rotate:block=2/dqsg:levels=5", "rotate:block=8/topk:k=20%",
    "drive", "eden:bits=3,block=128", "rotq:bits=2", "randk:k=30%/rotate:block=16/dqsg:levels=5",
    "topk:k=50%/eden:bits=2", "topk:k=5%/dqsg:levels=5,bucket=7", "threshold:t=1e-3", "randk:k=9,shared=yes",
    "rotate/threshold:t=1e-6", "rotate/randk:k=20%", "rotate/topk:k=100%", "topk:k=50%/rotate:block=16/topk:k=100%",
    "topk:k=50%/rotate:block=16/randk:k=20%/dqsg:levels=5", "rotate/rotate:block=16/threshold:t=1e-6",
    "qsgd:s=4", "qsgd:s=200,norm=max", "adaquant:s0=2,loss0=2,loss=0.5", "terngrad:clip=2.5", "natural", "maxnorm",
    "grid:step=0.5", "uniform:bits=4,bucket=100", "sign", "sign:axis=row", "onebit", "onebit:axis=row",
    "topk:k=20%/sign:axis=row", "bq:clip=1,bits=4,m=20,noise=test",
    "ef/topk:k=10%", "ec/qsgd:s=4", "momentum/topk:k=5%/qsgd:s=2", "diana/qsgd:s=2",
    "diana/rotate:block=8/dqsg:levels=5", "topk:k=20%/shrink/qsgd:s=1", "shrink/qsgd:s=1",
    "shrink/rotate:block=16/dqsg:levels=3",
    "shrink/randk:k=20%", "ndqsg:fine=3,coarse=1", "ndqsg:fine=4,coarse=1,check=yes",
    "ndqsg:fine=300,coarse=100,alpha=0.7", "ndqsg:fine=30,coarse=10,range=0.0005,check=yes",
    "countsketch:rows=5,cols=5%", "countsketch:rows=3,cols=30,value=i64,exp=20",
    "countsketch:rows=1,cols=50%,scope=run", "topk:k=20%/countsketch:rows=3,cols=20%",
    "momentum/topk:k=20%/countsketch:rows=3,cols=20%", "rotate:block=16/countsketch:rows=1,cols=50%",
    "shrink/countsketch:rows=3,cols=20%", "mask", "tqsgd:bits=3",
    "tnqsgd:bits=2,density=powerlaw", "tbqsgd:bits=4", "nuqsgd:s=3", "alq:s=2,bucket=64", "amq:s=3")


OPTIONS = {"side": "--side-info", "at": "--at", "schema": "--schema"}  # of the program, by decode's names


def plain(tensors):
    """{name: (shape, bytes)} of what the reference decodes."""
    return {name: (shape, data) for name, (_, shape, data) in tensors.items()}


class Vectors(unittest.TestCase):
    def check(self, refused):
        """Files to the bit, refusals by their exit codes."""
        for name, vector in VECTORS.items():
            if ("exit" in vector) == refused:
                with self.subTest(name, shows=vector["shows"]):
                    self.assertIsNone(vectors.mistake(vector))

    def test_files_to_refuse(self):
        self.check(refused=True)

    def test_files_to_decode(self):
        """Among them payloads of `model` of every form and law, of the outermost offsets, with many escapes."""
        self.assertGreater(len(VECTORS), 1000)
        with mock.patch.object(model, "decode", side_effect=model.decode) as spy:
            self.check(refused=False)
        payloads = [call.args[0] for call in spy.call_args_list if call.args[1] > 1 and call.args[2] > 0]
        own = [data for data in payloads if data[0] & 3 > 0]
        self.assertGreater(len(payloads), len(own))
        self.assertEqual({data[0] & 3 for data in own}, {1, 2, 3})
        self.assertEqual({data[0] >> 2 & 3 for data in own}, {0, 1, 2, 3})
        self.assertLess({0, 8}, {data[0] >> 4 for data in own})
        self.assertGreater(max(data[1] for data in own if data[0] & 3 == 3), 100)


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
        return CODERS if scheme in ALL_CODERS else (("rans-dither",) + CODERS)[SCHEMES.index(scheme) % 7:][:1]

    def compress(self, dump, scheme, coder, *options):
        self.run_program("compress", dump, "-o", "x.gradz", "--scheme", scheme, "--coder", coder, "--seed", "5",
                         "--worker", "3", "--chunk-log2", "12", "-f", "-q", *options)

    def side_of(self, scheme, floats):
        """For a scheme that needs side information: its file. Too far here and there, where no digest would tell."""
        if not scheme.startswith("ndqsg"):
            return {}
        rng, sides = np.random.default_rng(2), {}
        reach = 0.5 if "alpha" in scheme else 1e-5 if "range" in scheme else 0.1
        for name, x in floats.items():
            x = np.asarray(x, "<f4")
            most = np.max(np.abs(x[np.isfinite(x)]), initial=0)
            sides[name] = (x + reach * most * rng.uniform(-1, 1, x.shape)).astype("<f4")
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
            for coder in ("pack", "elias") if scheme in ALL_CODERS else ("pack",):
                with self.subTest(scheme=scheme, coder=coder):
                    options = ["--scheme", scheme, "--coder", coder, "--seed", "1", "-f", "-q"]
                    self.run_program("compress", "x.npz", "-o", "x.gradz", *options)
                    self.run_program("info", "x.gradz", "--schema-out", "x.schema", "-q", "-f")
                    self.run_program("compress", "x.npz", "-o", "x.bare", *options, "--bare", "--schema", "x.schema")
                    side = self.side_of(scheme, arrays)
                    self.assert_agrees("x.bare", schema="x.schema", **side)

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


class Beside(Case):
    """What stands beside a message, and what is asked of one."""

    def dump(self, seed=2, finite=False):
        random = np.random.default_rng(seed)
        values = random.standard_normal(9000) ** 3
        values[[5, 8000]] = [1, 1] if finite else [np.inf, np.nan]
        np.savez(self.path / "x.npz", a=values.astype("<f4"), b=values[100:140], c=values[140:400].astype("<f2"),
                 d=np.zeros((0, 3), "<f4"), e=np.arange(5))

    def compress(self, output, *options):
        self.run_program("compress", "x.npz", "-o", output, "-f", "-q", "--seed", "5", "--chunk-log2", "12",
                         "--nonfinite", "keep", *options)

    def test_answers_to_index_sets(self):
        self.dump()
        self.compress("x.gradz", "--scheme", "countsketch:rows=3,cols=10%", "--step", "2")
        for name, top in (("x.indices", "700"), ("y.indices", "1%")):
            self.run_program("decompress", "x.gradz", "--top", top, "--indices", name, "-q")
        masks, _ = rounds.read_index_set(self.bytes_of("x.indices"))
        self.assertEqual(sum(int(mask.sum()) for _, mask in masks.values()), 700)
        self.assertEqual(plain(decode.decode(self.bytes_of("x.indices"))), self.decompressed("x.indices"))
        for scheme in ("at", "at/dqsg:levels=5,bucket=50", "at/topk:k=30%/qsgd:s=4",
                       "at/rotate:block=16/dither:nmse=0.1"):
            with self.subTest(scheme=scheme):
                self.compress("y.gradz", "--at", "x.indices", "--scheme", scheme, "--coder", "pack")
                data = self.bytes_of("y.gradz")
                ours = decode.decode(data, at=self.bytes_of("x.indices"))
                self.assertEqual(plain(ours), self.decompressed("y.gradz", "--at", "x.indices"))
                for wrong, kind in (("y.indices", Damaged), ("x.gradz", Usage)):
                    with self.assertRaises(kind):
                        decode.decode(data, at=self.bytes_of(wrong))
                with self.assertRaises(Usage):
                    decode.decode(data)

    def test_the_heaviest_elements(self):
        self.dump()
        for scheme in ("countsketch:rows=5,cols=10%", "countsketch:rows=3,cols=9%,value=i64", "topk:k=20%",
                       "momentum/countsketch:rows=3,cols=9%", "rotate:block=16/countsketch:rows=3,cols=10%"):
            self.compress("x.gradz", "--scheme", scheme, "--step", "3")
            for options in (["5"], ["0.1%"], ["12.5%"], ["100%"], ["4%", "f2"], ["7", "bf16"], ["600", "heavymix"]):
                with self.subTest(scheme=scheme, options=options):
                    if options[-1] != "heavymix" or scheme.startswith(("countsketch", "momentum")):
                        self.check_top("x.gradz", *options)

    def check_top(self, file, top, other=None):
        heavymix = other == "heavymix"
        dtype = other if other in decode.DTYPES else None
        options = ["--top", top] + ["--heavymix"] * heavymix + (["--dtype", dtype] if dtype else [])
        ours = decode.decode(self.bytes_of(file), top=top, heavymix=heavymix, dtype=dtype)
        self.assertEqual(plain(ours), self.decompressed(file, *options))

    def test_heavymix_of_sums(self):
        for worker in "12":
            self.dump(int(worker), finite=True)
            self.compress(worker, "--scheme", "countsketch:rows=3,cols=9%", "--step", "3", "--worker", worker)
        self.run_program("aggregate", "1", "2", "-o", "x.gradz", "-f", "-q")
        for options in (["100"], ["100", "heavymix"]):
            self.check_top("x.gradz", *options)

    def test_states(self):
        rng = np.random.default_rng(3)
        for scheme in ("diana/qsgd:s=4", "diana/randk:k=20%/dqsg:levels=5"):
            for name in ("w.state", "d.state"):
                (self.path / name).unlink(missing_ok=True)
            for step in range(4):
                with self.subTest(scheme=scheme, step=step):
                    np.savez(self.path / "x.npz", a=rng.standard_normal(5000).astype("f4"), b=np.float32(step))
                    self.compress("x.gradz", "--scheme", scheme, "--state", "w.state")
                    data, state = self.bytes_of("x.gradz"), self.bytes_of("d.state") if step else None
                    memory = decode.read(data, decode.Beside(state=state)).memory
                    ours = decode.decode(data, state=state)
                    self.assertEqual(plain(ours), self.decompressed("x.gradz", "--state", "d.state"))
                    for file in ("w.state", "d.state"):
                        vectors = {name: body for name, (_, _, body) in decode.decode(self.bytes_of(file)).items()}
                        self.assertEqual(vectors, {"h/" + name: h.tobytes() for name, h in memory.items()})
            with self.assertRaises(Usage):
                decode.decode(data)
            for wrong in ("d.state", "w.state"):  # one that has this message already, and an encoder's
                with self.assertRaises(Damaged):
                    decode.decode(data, state=self.bytes_of(wrong))

    def test_side_information(self):
        """As a dump and as a message, noted and not, and another one than was noted."""
        rng = np.random.default_rng(4)
        x = rng.standard_normal(9000).astype("f4")
        np.savez(self.path / "x.npz", a=x, n=np.arange(3))
        near = (x + 0.1 * rng.uniform(-1, 1, x.shape)).astype("f4")
        np.savez(self.path / "near.npz", a=near.astype(">f8"), more=np.arange(2))
        np.savez(self.path / "far.npz", a=near + np.float32(2))
        for name, scheme in (("exact.gradz", "raw"), ("lossy.gradz", "dither:nmse=1e-4")):
            self.run_program("compress", "near.npz", "-o", name, "--scheme", scheme, "-q")
        for side in ("near.npz", "exact.gradz", "lossy.gradz"):
            for noted in ([], ["--side-info", side]):
                with self.subTest(side=side, noted=noted):
                    self.compress("x.gradz", "--scheme", "ndqsg:fine=3,coarse=1,check=yes", *noted)
                    ours = decode.decode(self.bytes_of("x.gradz"), side=self.bytes_of(side))
                    self.assertEqual(plain(ours), self.decompressed("x.gradz", "--side-info", side))
                    for wrong, kind in (("far.npz", Damaged), ("x.npz", Damaged if noted else None), (None, Usage)):
                        if kind:
                            with self.assertRaises(kind):
                                decode.decode(self.bytes_of("x.gradz"), side=wrong and self.bytes_of(wrong))

    def test_streams_metadata_and_trees(self):
        self.dump()
        self.compress("1", "--scheme", "dqsg:levels=3", "--metadata", '{"lr": [0.5, -1, 1e300, null, true, "\u00fc"]}')
        self.compress("2", "--scheme", "topk:k=3")
        with h5py.File(self.path / "x.h5", "w", track_order=True) as file:
            file["w"] = np.arange(6, dtype="f4").reshape(2, 3)
            file["w"].attrs["kind"] = np.array([1, 0], h5py.enum_dtype({"A": 0, "B": 1}, "i1"))
            file["g/b"], file["names"], file["c"] = np.arange(7.0), ["a", "b"], np.zeros(3, [("q", "i4"), ("z", "f8")])
            file["last"], file["again"], file["none"] = h5py.SoftLink("/w"), file["w"], h5py.Empty("f4")
            file.create_dataset("open", (4,), maxshape=(None,), dtype="f4", fillvalue=2.0)
            file["g"].attrs["text"], file["op"], file["st"] = "hello", np.zeros(2, "V5"), np.array([b"ab", b"c"])
        self.run_program("compress", "x.h5", "-o", "3", "--scheme", "dqsg:levels=3", "-q")
        files = [self.bytes_of(name) for name in "123"]
        decoded = decode.decode_stream(b"".join(files), decode.Beside())
        self.assertEqual([plain(tensors) for tensors in decoded], [self.decompressed(name) for name in "123"])
        header = container.read_file(files[0]).header
        self.assertEqual(header.metadata["user"], {"lr": [0.5, -1, 1e300, None, True, "\u00fc"]})
        self.assertIn("tensors", container.read_file(files[2]).header.tree)
        for damaged in (files[0] + files[1], b"".join(files)[:-1], files[0] + b"x"):
            with self.assertRaises(Damaged):
                decode.decode(damaged)


class Damage(Case):
    """Files with right checks around random damage: both decoders refuse, or both give the same values. For more of
    them: GRADCODEC_MUTANTS=100000."""
    MUTANTS = int(os.environ.get("GRADCODEC_MUTANTS", 400))

    def test_both_refuse_or_agree(self):
        random = Random(1)
        sources = list(self.sources())
        outcomes = collections.Counter()
        for number in range(self.MUTANTS):
            name, parts, beside = random.choice(sources)
            data = made_files.file(**damaged(parts, random))
            (self.path / "x.gradz").write_bytes(data)
            options = [part for option, path in beside.items() for part in (OPTIONS[option], path)]
            (self.path / "out.npz").unlink(missing_ok=True)
            code = self.exit_code("decompress", "x.gradz", "-o", "out.npz", "-q", *options)
            with self.subTest(file=name, number=number, code=code):
                try:
                    ours = plain(decode.decode(data, **{key: path.read_bytes() for key, path in beside.items()}))
                    outcomes["decoded"] += 1
                except Refused as refusal:
                    ours = None
                    outcomes[refusal.code] += 1
                self.assertEqual(ours is None, code != 0)
                if ours is not None:
                    self.assertEqual(ours, arrays_of(self.path / "out.npz"))
        self.assertTrue(all(outcomes[key] > self.MUTANTS // 50 for key in ("decoded", 3, 6)), outcomes)

    def test_what_stands_beside_is_of_equal_hostility(self):
        """A damaged schema file or index set is refused; of side information a bit of a value may go unseen."""
        random = Random(2)
        for name, file in (("bare-short", "short.bare"), ("at", "answer.gradz"), ("ndqsg", "ndqsg.gradz")):
            example = EXAMPLES[name]
            example.write_input(self.path)
            options = dict(example.files_beside(file)) or {"side": example.side_input}
            (option, other), = options.items()
            beside = example.files[other] if other in example.files else self.bytes_of(other)
            decoded = decode.decode(example.files[file], **{option: beside})
            refused = 0
            for _ in range(150):
                try:
                    result = decode.decode(example.files[file], **{option: with_fault(beside, random)})
                    self.assertEqual(result, decoded)
                except Refused:
                    refused += 1
            self.assertGreater(refused, 60 if option == "side" else 140, name)

    @staticmethod
    def sources():
        """(name, parts, files beside it) of vectors that are whole files and decode."""
        for name, vector in VECTORS.items():
            said = set(vector) - {"shows", "expected", "side", "at"}
            data = vector["file"].read_bytes()
            if said == {"file"} and data.startswith(container.MAGIC):
                beside = {key: vector[key] for key in ("side", "at") if key in vector}
                yield name, made_files.taken_apart(data), beside


def damaged(parts, random):
    """A fault or two, somewhere in what `made_files.taken_apart` gives."""
    parts = {**parts, "frames": list(parts["frames"])}
    for _ in range(random.choice([1, 1, 1, 2])):
        where = random.choice(["schema", "message"] + ["frames"] * 8)
        if where != "frames":
            parts[where] = with_fault(parts[where], random)
        elif parts["frames"]:
            i = random.randrange(len(parts["frames"]))
            form, payload = parts["frames"][i]
            if random.random() < 0.1:
                parts["frames"][i] = random.randrange(8), payload
            else:
                parts["frames"][i] = form, with_fault(payload, random)
    return parts


def with_fault(data, random):
    data, at = bytearray(data), random.randrange(len(data) + 1)
    kind = random.randrange(5)
    if kind == 0:
        data[at:at + 1] = b""
    elif kind == 1:
        data[at:at] = bytes([random.randrange(256)])
    elif kind == 2:
        data = data[:at]
    elif kind == 3:
        data[at:at + 1] = random.choice([b"\0", b"\1", b"\x7f", b"\x80", b"\xff"])
    elif at < len(data):
        data[at] ^= 1 << random.randrange(8)
    return bytes(data)


class Hostile(Case):
    """Claims that nothing stands behind, in a process that has little memory and little time."""
    MEMORY, SECONDS = 1 << 30, 20
    SCRIPT = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from reference import decode
from reference.reading import Refused
for path in sorted(pathlib.Path(".").glob("*.gradz")):
    try:
        decode.decode(path.read_bytes())
        print(path.stem, 0)
    except Refused as refusal:
        print(path.stem, refusal.code)
"""

    def test_nothing_is_allocated_on_a_claim(self):
        expected = {}
        for number, (code, data) in enumerate(self.claims()):
            (self.path / ("%02d.gradz" % number)).write_bytes(data)
            expected["%02d" % number] = str(code)

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (self.MEMORY, self.MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (self.SECONDS, self.SECONDS))

        done = subprocess.run([sys.executable, "-c", self.SCRIPT, SPEC], cwd=self.path, capture_output=True, text=True,
                              preexec_fn=limit, check=False, env={"OPENBLAS_NUM_THREADS": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(dict(line.split() for line in done.stdout.splitlines()), expected)

    @staticmethod
    def claims():
        """(exit code, file)"""
        file, schema, tensor, varint, step = (made_files.file, made_files.schema, made_files.tensor, made_files.varint,
                                              made_files.STEP)
        many = varint(2**62)

        def of(text, payload, form=0, dims=(3,), coder=0, **more):
            its_schema = schema(schemes=((text, coder),), tensors=(tensor(dims=dims),))
            return file(schema=its_schema, frames=((form, payload),), **more)

        raw = {"message": b"\0"}
        yield 3, file(schema=schema()[:-9] + many)  # tensors
        yield 3, file(schema=b"\x12\0\2\1" + many)  # bytes of a text
        yield 3, of(b"dqsg:levels=3", step + many + bytes(9), form=4)  # exceptions
        yield 3, of(b"topk", many + bytes(9), **raw)  # kept values
        yield 3, of(b"dqsg:levels=3", step + bytes(9), dims=(2**50,))  # chunks
        yield 3, of(b"lattice", step + many * 4)  # vectors
        yield 3, of(b"natural", many * 2)  # levels
        yield 3, of(b"dither", step + many)
        yield 3, of(b"sign:axis=row", many + bytes(9), **raw)  # rows
        yield 3, of(b"countsketch:rows=63", varint(2**40), dims=(2**22,))
        yield 3, of(b"countsketch:rows=1,value=i64,exp=3", varint(2**21) + b"\x08", dims=(2**18,))
        yield 3, of(b"dqsg:levels=3", step + b"\1\xff\xff\xff\xff\xff", dims=(2**18,), coder=2)  # a model of rans
        yield 3, of(b"dqsg:levels=3", step + b"\xff" * 40, dims=(2**18,), coder=4)  # a number of elias
        yield 3, of(b"raw", BOMB, dims=(1000,), coder=1, **raw)  # content of zstd, more than it says
        yield 3, of(b"raw", BOMB[:5] + (2**40).to_bytes(8, "little") + BOMB[13:], dims=(1000,), coder=1, **raw)
        yield 3, file(between=((0x81, b"\1" + varint(2**24) + b"junk"),))
        yield 5, file(between=((0x81, b"\1" + varint(2**40) + b"junk"),))
        for head in (b"\x9b", b"\xbb", b"\x5b", b"\x7b"):  # an array, a map, bytes, text
            yield 3, file(between=((0x81, b"\0" + head + (2**60).to_bytes(8, "big")),))
        yield 3, file(between=((0x81, b"\0" + b"\x81" * 100000),))
        constant = [(1, b"\1")] * 2000
        large = schema(head=b"\x16\0\2", tensors=(tensor(dims=(2000 * 2**22,)),))
        yield 5, file(schema=large, frames=[(0, step)] + constant)


# A Zstandard frame that says 4,000 bytes, and has 2,000 blocks of 128 KiB, each the same byte.
BOMB = (b"\x28\xb5\x2f\xfd\xe0" + (4000).to_bytes(8, "little")
        + ((2**17 << 3 | 2).to_bytes(3, "little") + b"x") * 2000 + b"\1\0\0")


class Command(Case):
    DECODE = [sys.executable, SPEC / "reference/decode.py"]

    def run_decoder(self, *arguments, stdin=b""):
        return subprocess.run([*self.DECODE, *arguments], cwd=self.path, input=stdin, capture_output=True, check=False)

    def test_it_writes_an_npz_or_nothing(self):
        data = EXAMPLES["one"].files["one.gradz"]
        (self.path / "one.gradz").write_bytes(data)
        for arguments, stdin in ((["one.gradz"], b""), (["-"], data)):
            self.assertEqual(self.run_decoder(*arguments, "-o", "out.npz", stdin=stdin).returncode, 0)
            self.assertEqual(arrays_of(self.path / "out.npz"), self.decompressed("one.gradz"))
            (self.path / "out.npz").unlink()
        for arguments, stdin, code in ((["-"], data[:-1], 3), (["none"], b"", 4), (["-", "--top", "x"], data, 2),
                                       (["-", "--dtype", "i4"], data, 2), (["-"], data[:8] + b"\2" + data[9:], 3)):
            done = self.run_decoder(*arguments, "-o", "out.npz", stdin=stdin)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertNotIn(b"Traceback", done.stderr)
            self.assertEqual({path.name for path in self.path.iterdir()}, {"one.gradz", "decompressed.npz"})
        self.assertEqual(self.run_decoder("-", "--stream", "-o", "{}.npz", stdin=data + data).returncode, 0)
        self.assertTrue((self.path / "0.npz").read_bytes() == (self.path / "1.npz").read_bytes())


if __name__ == "__main__":
    unittest.main()
