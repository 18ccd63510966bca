"""Every worked example of spec/ against the program and against page_decoder.py, which is written from the pages.

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_examples_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import examples
import page_decoder

PROGRAM = pathlib.Path(os.environ.get("GRADCODEC", "build/release/gradcodec")).resolve()
EXAMPLES = examples.read_examples()
CODERS = ("pack", "elias", "rans", "rans-dither")  # those of page_decoder.py
ALL_CODERS = ("raw", "dqsg:levels=3", "dqsg:levels=257,bucket=100", "dither:nmse=0.01", "multiscale:bits=6-10",
               "topk:k=20%", "randk:k=30%/dither:nmse=0.1")
SCHEMES = ALL_CODERS + (
    "choose:nmse=0.1", "choose:nmse=3", "choose:bits=1", "dither:nmse=0.5,bucket=4096", "dither:step=1e-3", "dqsg:levels=5,clip=1", "lattice:kind=d4,nmse=0.1",
    "rotate:block=64/dither:nmse=0.1", "rotate:shared=yes/rotate:block=2/dqsg:levels=5", "rotate:block=8/topk:k=20%",
    "drive", "eden:bits=3,block=128", "rotq:bits=2", "randk:k=30%/rotate:block=16/dqsg:levels=5", "topk:k=50%/eden:bits=2",
    "topk:k=5%/dqsg:levels=5,bucket=7", "threshold:t=1e-3", "randk:k=9,shared=yes",
    "rotate/threshold:t=1e-6", "rotate/randk:k=20%", "rotate/topk:k=100%", "topk:k=50%/rotate:block=16/topk:k=100%",
    "topk:k=50%/rotate:block=16/randk:k=20%/dqsg:levels=5", "rotate/rotate:block=16/threshold:t=1e-6",
    "qsgd:s=4", "qsgd:s=200,norm=max", "adaquant:s0=2,loss0=2,loss=0.5", "terngrad:clip=2.5", "natural", "maxnorm",
    "grid:step=0.5", "uniform:bits=4,bucket=100", "sign", "sign:axis=row", "onebit", "onebit:axis=row",
    "ef/topk:k=10%", "ec/qsgd:s=4", "momentum/topk:k=5%/qsgd:s=2", "diana/qsgd:s=2", "diana/rotate:block=8/dqsg:levels=5",
    "topk:k=20%/shrink/qsgd:s=1", "shrink/rotate:block=16/dqsg:levels=3", "shrink/randk:k=20%",
    "ndqsg:fine=3,coarse=1", "ndqsg:fine=4,coarse=1,check=yes", "ndqsg:fine=300,coarse=100,alpha=0.7",
    "ndqsg:fine=30,coarse=10,range=0.0005,check=yes",
    "countsketch:rows=5,cols=5%", "countsketch:rows=3,cols=30,value=i64,exp=20", "countsketch:rows=1,cols=50%,scope=run",
    "mask", "tqsgd:bits=3", "tnqsgd:bits=2,density=powerlaw", "tbqsgd:bits=4", "nuqsgd:s=3", "alq:s=2,bucket=64", "amq:s=3")
LARGE = 100_000  # elements; beyond, the program alone decodes


def size_of(example):
    return sum(np.prod(tensor["shape"], dtype=int) for tensor in example.tensors.values())


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_program(self, *arguments, expect=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.path, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expect, "%s: %s" % (arguments, done.stderr))
        return done.stdout

    def for_each_example(self, check):
        for name, example in EXAMPLES.items():
            with self.subTest(example=name, page=example.page):
                check(example)

    def side_of(self, scheme, arrays):
        """Side information for a scheme that takes some: how to say so, and the arrays."""
        if not scheme.startswith("ndqsg"):
            return [], {}
        rng = np.random.default_rng(2)
        sides = {}
        for name, x in arrays.items():
            x = np.asarray(x, "<f4")
            most = np.max(np.abs(x[np.isfinite(x)]), initial=0)
            # Wrong here and there, where no digest would tell.
            reach = 0.5 if "alpha" in scheme else 1e-5 if "range" in scheme else 0.1
            sides[name] = (x + reach * most * rng.uniform(-1, 1, x.shape)).astype("<f4")
        np.savez(self.path / "side.npz", **sides)
        return ["--side-info", "side.npz"], sides

    def write_files(self, example):
        example.write_input(self.path)
        for name, data in example.files.items():
            (self.path / name).write_bytes(data)

    @staticmethod
    def files_beside(example, file):
        """The arguments that name the schema file of a bare message, or the index set that a message answers."""
        if file.endswith(".bare"):
            return ["--schema", next(name for name in example.files if name.endswith(".schema"))]
        sets = [name for name in example.files if name.endswith(".indices")]
        return ["--at", sets[0]] if sets else []


class Program(Case):
    def test_there_are_examples(self):
        self.assertGreaterEqual(len(EXAMPLES), 9)

        def check(example):
            self.assertTrue(example.files and example.tensors and example.commands)

        self.for_each_example(check)

    def test_commands_make_the_same_bytes(self):
        def check(example):
            example.write_input(self.path)
            for command in example.commands:
                self.run_program(*command, "-f", "-q")
            for name, data in example.files.items():
                self.assertEqual((self.path / name).read_bytes().hex(" "), data.hex(" "), name)

        self.for_each_example(check)

    def test_decompress_gives_the_printed_values(self):
        def check(example):
            self.write_files(example)
            for name in example.files:
                if name.endswith((".schema", ".indices")):
                    continue
                self.run_program("decompress", name, "-o", "out.npz", "-f", "-q", *self.files_beside(example, name),
                                 *example.side_arguments())
                with np.load(self.path / "out.npz") as arrays:
                    out = {key: arrays[key].tobytes() for key in arrays.files}
                    shapes = {key: list(arrays[key].shape) for key in arrays.files}
                self.assertEqual(out, example.decoded_of(name), name)
                if not name.endswith(".state"):
                    self.assertEqual(shapes, {key: tensor["shape"] for key, tensor in example.tensors.items()})

        self.for_each_example(check)

    def test_accounts_add_up(self):
        def check(example):
            self.write_files(example)
            for name, data in example.files.items():
                if not name.endswith(".gradz"):
                    continue
                tested = [] if self.files_beside(example, name) else ["--test"]  # what it answers is not told to info
                said = json.loads(self.run_program("info", *tested, "--json", name, "-q"))
                self.assertEqual(said["total_bytes"], len(data))
                self.assertEqual(sum(said["parts"].values()), len(data))
                tensors = said["tensors"]
                self.assertEqual(sum(tensor["payload_bytes"] for tensor in tensors), said["parts"]["payloads"])
                self.assertEqual(12 * sum(tensor["frames"] for tensor in tensors),
                                 said["parts"]["frame heads and checks"])

        self.for_each_example(check)

    def test_any_damaged_byte_of_a_bare_message_is_found(self):
        example = EXAMPLES["bare-short"]
        self.write_files(example)
        data = example.files["short.bare"]
        for at in range(len(data)):
            (self.path / "x.bare").write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
            expect = 6 if 4 <= at < 14 else 3  # version, unknown flags, schema digest
            self.run_program("decompress", "x.bare", "--schema", "short.schema", "-o", "x.npz", "-q", expect=expect)

    def test_any_damaged_byte_is_found(self):
        example = EXAMPLES["one"]
        (name, data), = example.files.items()
        for at in range(len(data)):
            damaged = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:]
            (self.path / name).write_bytes(damaged)
            self.run_program("info", "--test", name, "-q", expect=3)


class Pages(Case):
    """The pages suffice: a decoder of their words alone gives the printed values."""

    def test_decoder_of_the_pages_reads_what_no_example_is_long_enough_for(self):
        # Rows of zeros, of two scales, and a few large values: block classes, contexts, several lanes, raw bits.
        rng = np.random.default_rng(7)
        x = rng.laplace(size=(48, 128)) * np.repeat([1, 0.1, 0], 16)[rng.permutation(48), None]
        np.savez(self.path / "x.npz", a=x.astype(np.float32), b=np.float32([1, 2, 3]))
        for coder in CODERS:
            for scheme in ("dqsg:levels=3", "dither:nmse=0.1", "dqsg:levels=255", "dqsg:levels=2001", "raw"):
                with self.subTest(coder=coder, scheme=scheme):
                    self.run_program("compress", "x.npz", "-o", "x.gradz", "--scheme", scheme, "--coder", coder,
                                     "--seed", "3", "-f", "-q")
                    self.run_program("decompress", "x.gradz", "-o", "out.npz", "-f", "-q")
                    with np.load(self.path / "out.npz") as arrays:
                        expected = {name: arrays[name].tobytes() for name in arrays.files}
                    self.assertEqual(page_decoder.decode_message((self.path / "x.gradz").read_bytes()), expected)

    def test_decoder_of_the_pages(self):
        def check(example):
            if size_of(example) > LARGE:
                return
            for name, data in example.files.items():
                if name.endswith((".gradz", ".state")):
                    memory = {}  # of a first message, or of one whose decoder needs none
                    sets = [page_decoder.read_index_set(other_data) for other, other_data in example.files.items()
                            if other.endswith(".indices")]
                    decoded = page_decoder.decode_message(data, example.sides, memory, *sets)
                    self.assertEqual(decoded, example.decoded_of(name), name)
                elif name.endswith(".bare"):
                    schema = next(data for name, data in example.files.items() if name.endswith(".schema"))
                    self.assertEqual(page_decoder.decode_bare(schema, data), example.decoded(), name)

        self.for_each_example(check)

    def test_it_decodes_what_the_program_writes(self):
        """Beyond the examples: every float type, buckets, chunks, exceptions, subnormal numbers."""
        random = np.random.default_rng(1)
        values = random.standard_normal(4500) * 10.0 ** random.integers(-6, 6, 4500)
        values[[0, 17, 4400]] = [np.inf, np.nan, 1e-40]
        floats = {"a": values.astype("<f4"), "b": values[:9], "c": (values[20:60] / 1e6).astype("<f2"),
                  "d": np.float32(3), "e": np.zeros((0, 3), "<f4")}
        others = {"f": np.arange(6, dtype=">i4"), "g": np.zeros((2, 2), "<c16")}
        for scheme in SCHEMES:
            for coder in CODERS if scheme in ALL_CODERS else ("pack", "rans-dither"):
                with self.subTest(scheme=scheme, coder=coder):
                    # Beside another coder's symbols, bytes go by zstd, which the decoder of the pages has not.
                    np.savez(self.path / "x.npz", **floats, **(others if "pack" == coder or scheme == "raw" else {}))
                    self.run_program("compress", "x.npz", "-o", "x.gradz", "--scheme", scheme, "--coder", coder,
                                     "--seed", "5", "--worker", "3", "--chunk-log2", "12", "--nonfinite", "keep", "-f",
                                     "-q")
                    option, sides = self.side_of(scheme, floats)
                    self.run_program("decompress", "x.gradz", "-o", "y.npz", "-f", "-q", *option)
                    with np.load(self.path / "y.npz") as arrays:
                        expected = {key: arrays[key].tobytes() for key in arrays.files}
                    data = (self.path / "x.gradz").read_bytes()
                    self.assertEqual(page_decoder.decode_message(data, sides), expected)

    def test_it_decodes_sums(self):
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
                         e=np.zeros((0, 3), "<f4"), f=np.arange(6, dtype=">i4"))
                self.run_program("compress", "x.npz", "-o", worker, "--scheme", scheme, *shared, "--seed", "5",
                                 "--step", "3", "--worker", worker, "--chunk-log2", "12", "-f", "-q")
            for options in (["--coder", "pack"], ["--coder", "pack", "--sum", "--weights", "2,1"]):
                with self.subTest(scheme=scheme, options=options):
                    self.run_program("aggregate", "1", "2", "-o", "x.gradz", "-f", "-q", *options)
                    self.run_program("decompress", "x.gradz", "-o", "y.npz", "-f", "-q")
                    with np.load(self.path / "y.npz") as arrays:
                        expected = {key: arrays[key].tobytes() for key in arrays.files}
                    self.assertEqual(page_decoder.decode_message((self.path / "x.gradz").read_bytes()), expected)

    def test_it_decodes_answers_to_index_sets(self):
        random = np.random.default_rng(2)
        values = random.standard_normal(9000) ** 3
        values[[5, 8000]] = [np.inf, np.nan]
        np.savez(self.path / "x.npz", a=values[:9000].astype("<f4"), b=values[:40], c=values[40:300].astype("<f2"),
                 d=np.zeros((0, 3), "<f4"))
        compress = ["compress", "x.npz", "-f", "-q", "--seed", "5", "--chunk-log2", "12", "--nonfinite", "keep"]
        self.run_program(*compress, "-o", "x.gradz", "--scheme", "countsketch:rows=3,cols=10%", "--step", "2")
        self.run_program("decompress", "x.gradz", "--top", "700", "--indices", "x.indices", "-q")
        index_set = page_decoder.read_index_set((self.path / "x.indices").read_bytes())
        self.assertEqual(sum(mask.sum() for mask in index_set[0].values()), 700)
        for scheme in ("at", "at/dqsg:levels=5,bucket=50", "at/topk:k=30%/qsgd:s=4", "at/rotate:block=16/dither:nmse=0.1"):
            with self.subTest(scheme=scheme):
                self.run_program(*compress, "-o", "y.gradz", "--at", "x.indices", "--scheme", scheme, "--coder", "pack")
                self.run_program("decompress", "y.gradz", "-o", "y.npz", "-f", "-q", "--at", "x.indices")
                with np.load(self.path / "y.npz") as arrays:
                    expected = {key: arrays[key].tobytes() for key in arrays.files}
                data = (self.path / "y.gradz").read_bytes()
                self.assertEqual(page_decoder.decode_message(data, index_set=index_set), expected)
                with self.assertRaises(page_decoder.Damaged):
                    page_decoder.decode_message(data, index_set=(index_set[0], index_set[1] + 1))

    def test_it_decodes_bare_messages_with_lengths_and_without(self):
        arrays = {"a": np.arange(-20, 20, dtype="<f4"), "b": np.arange(6, dtype="<f4"), "c": np.float32(3)}
        np.savez(self.path / "x.npz", **arrays)
        for scheme in SCHEMES:
            if scheme.startswith(page_decoder.MEMORIES):
                continue  # bare messages have no room for them
            for coder in ("pack", "elias"):
                with self.subTest(scheme=scheme, coder=coder):
                    self.check_bare(["--scheme", scheme, "--coder", coder, "--seed", "1", "-f"],
                                    *self.side_of(scheme, arrays))

    def check_bare(self, options, side, sides):
        self.run_program("compress", "x.npz", "-o", "x.gradz", *options, "-q")
        self.run_program("info", "x.gradz", "--schema-out", "x.schema", "-q", "-f")
        self.run_program("compress", "x.npz", "-o", "x.bare", *options, "--bare", "--schema", "x.schema", "-q")
        message, bare, schema = ((self.path / name).read_bytes() for name in ("x.gradz", "x.bare", "x.schema"))
        self.assertEqual(page_decoder.decode_bare(schema, bare, sides), page_decoder.decode_message(message, sides))
        self.run_program("decompress", "x.bare", "--schema", "x.schema", "-o", "bare.npz", "-f", "-q", *side)
        self.run_program("decompress", "x.gradz", "-o", "whole.npz", "-f", "-q", *side)
        with np.load(self.path / "bare.npz") as ours, np.load(self.path / "whole.npz") as theirs:
            self.assertEqual({name: ours[name].tobytes() for name in ours},
                             {name: theirs[name].tobytes() for name in theirs})

    def test_it_remembers(self):
        rng = np.random.default_rng(3)
        for scheme in ("diana/qsgd:s=4", "diana/randk:k=20%/dqsg:levels=5"):
            with self.subTest(scheme=scheme):
                memory = {}
                for step in range(4):
                    np.savez(self.path / "x.npz", a=rng.standard_normal(5000).astype("f4"), b=np.float32(step))
                    self.run_program("compress", "x.npz", "-o", "x.gradz", "--scheme", scheme, "--state", "w.state",
                                     "--seed", "5", "--chunk-log2", "12", "-f", "-q")
                    self.run_program("decompress", "x.gradz", "-o", "y.npz", "--state", "d.state", "-f", "-q")
                    with np.load(self.path / "y.npz") as arrays:
                        expected = {key: arrays[key].tobytes() for key in arrays.files}
                    ours = page_decoder.decode_message((self.path / "x.gradz").read_bytes(), memory=memory)
                    self.assertEqual(ours, expected)
                for side in ("w.state", "d.state"):
                    state = page_decoder.decode_message((self.path / side).read_bytes())
                    self.assertEqual(state, {name: values.tobytes() for name, values in memory.items()})
                for side in ("w.state", "d.state"):
                    (self.path / side).unlink()

    def test_it_refuses_damage(self):
        data = EXAMPLES["one"].files["one.gradz"]
        for at in range(len(data)):
            with self.assertRaises(page_decoder.Damaged):
                page_decoder.decode_message(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])


if __name__ == "__main__":
    unittest.main()
