#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sketches, the heaviest elements, index sets and answers to them: spec/rounds.md by the command line."""
import json
import re
import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path

import numpy as np

import container as gz
import sketches
import support
from container import F4, PACK, Tensor, varint
from sketches import filling_words, heaviest, only, split
from support import BAD_INPUT, IO_FAILURE, LIMIT, USAGE, run

ROOT = Path(__file__).resolve().parents[2]
SKETCH = "countsketch:rows=5,cols=300"


def heavy_tailed(seed, shape):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape))).astype("f4")


class RoundsTest(support.CliTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"a": heavy_tailed(1, (40, 50)), "b": heavy_tailed(2, (7000,))}
        self.dump = self.save("x.npz", self.tensors)

    def save(self, name, tensors):
        np.savez(self.dir / name, **tensors)
        return self.dir / name

    def load(self, name):
        with np.load(self.dir / name) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def compress(self, dump, out, scheme, *options):
        self.ok("compress", dump, "-f", "-q", "-o", self.dir / out, "--seed=3", "--step=7", "--scheme", scheme,
                "--chunk-log2=12", *options)
        return self.dir / out

    def decompress(self, file, out, *options):
        self.ok("decompress", file, "-f", "-q", "-o", self.dir / out, *options)
        return self.load(out)

    def answer(self, dump, out, indices, *options):
        self.ok("compress", dump, "-f", "-q", "-o", self.dir / out, "--at", indices, *options)
        return self.dir / out

    def assert_equal(self, ours, theirs):
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, x in ours.items():
            self.assertEqual(x.shape, theirs[name].shape)
            self.assertEqual(x.tobytes(), theirs[name].tobytes(), name)


class Rounds(RoundsTest):
    def test_the_heaviest_are_those_of_what_decompress_gives(self):
        for scheme in (SKETCH, SKETCH + ",value=i64", "dither:nmse=0.1", "topk:k=100"):
            file = self.compress(self.dump, "x.gradz", scheme)
            whole = self.decompress(file, "whole.npz")
            for top, count in (("1", 1), ("500", 500), ("1%", 90), ("100%", 9000), ("12345", 9000)):
                with self.subTest(scheme=scheme, top=top):
                    taken = self.decompress(file, "top.npz", "--top", top, "--indices", self.dir / "x.indices")
                    places = heaviest(whole, count)
                    self.assert_equal(taken, only(whole, places))
                    marks = self.decompress(self.dir / "x.indices", "marks.npz")
                    self.assert_equal(marks, only({name: np.ones_like(x) for name, x in whole.items()}, places))

    def test_threads_and_pipes_change_nothing(self):
        file = self.compress(self.dump, "x.gradz", SKETCH)
        for threads in ("-T1", "-T2"):
            again = self.compress(self.dump, "again.gradz", SKETCH, threads)
            self.assertEqual(again.read_bytes(), file.read_bytes())
            for mix in ([], ["--heavymix"]):
                self.ok("decompress", file, "--top=700", "--indices", self.dir / f"set{threads}{len(mix)}", threads,
                        "-q", *mix)
        for mix in "01":
            one, two = ((self.dir / f"set-T{threads}{mix}").read_bytes() for threads in "12")
            self.assertEqual(one, two)
        piped = self.ok("decompress", "-", "--top=700", "-o", "-", "-q", stdin=file.read_bytes()).out
        (self.dir / "piped.npz").write_bytes(piped)
        self.assert_equal(self.load("piped.npz"), self.decompress(file, "file.npz", "--top=700"))

    def test_a_round_of_two(self):
        """Candidates from the sketch, exact values at them, the heaviest of those: what was asked for is exact."""
        file = self.compress(self.dump, "x.gradz", SKETCH)
        indices, taken = self.dir / "x.indices", self.dir / "taken.indices"
        self.ok("decompress", file, "--top=1000", "--indices", indices, "-q")
        self.assertFalse((self.dir / "x.npz.gradz").exists())  # a dump is made only if it is asked for
        whole = self.decompress(file, "whole.npz")
        candidates = heaviest(whole, 1000)
        answer = self.answer(self.dump, "answer.gradz", indices)
        exact = self.decompress(answer, "exact.npz", "--at", indices)
        self.assert_equal(exact, only(self.tensors, candidates))
        update = self.decompress(answer, "update.npz", "--at", indices, "--top=200", "--indices", taken)
        places = heaviest(exact, 200)
        self.assert_equal(update, only(exact, places))
        # The places are not in the file: what is there is the values, and what all files have.
        self.assertLess(answer.stat().st_size, 4 * 1000 + 200)
        # Nothing is lost: what is left at the worker and what was sent are what there was, bit for bit.
        left = self.load("x.npz")
        for name, mark in self.decompress(taken, "marks.npz").items():
            left[name][mark != 0] = 0
            self.assertEqual((left[name] + update[name]).tobytes(), self.tensors[name].tobytes())

    def test_answers_of_several_workers_add_up(self):
        """The server's half of the second round: the mean of exact values at the places that it asked for."""
        other = {name: heavy_tailed(seed, x.shape) for seed, (name, x) in enumerate(self.tensors.items(), 11)}
        indices = self.dir / "x.indices"
        self.ok("decompress", self.compress(self.dump, "x.gradz", SKETCH), "--top=500", "--indices", indices, "-q")
        answers = [self.answer(self.dump, "a0.gradz", indices),
                   self.answer(self.save("y.npz", other), "a1.gradz", indices)]
        self.ok("aggregate", *answers, "--at", indices, "-o", self.dir / "mean.npz", "-q")
        places = heaviest(self.decompress(self.dir / "x.gradz", "whole.npz"), 500)
        both = {name: ((x.astype("f8") + other[name].astype("f8")) / 2).astype("f4")
                for name, x in self.tensors.items()}
        self.assert_equal(self.load("mean.npz"), only(both, places))
        self.refused(USAGE, "aggregate", *answers, "-o", self.dir / "m.npz", says="--at SET")
        self.assertFalse((self.dir / "m.npz").exists())

    def test_with_all_candidates_it_is_the_true_top_k(self):
        file = self.compress(self.dump, "x.gradz", "countsketch:rows=1,cols=1")  # says nothing
        indices = self.dir / "x.indices"
        self.ok("decompress", file, "--top=100%", "--indices", indices, "-q")
        answer = self.answer(self.dump, "answer.gradz", indices)
        update = self.decompress(answer, "update.npz", "--at", indices, "--top=50")
        self.assert_equal(update, only(self.tensors, heaviest(self.tensors, 50)))
        self.assert_equal(self.decompress(answer, "all.npz", "--at", indices, "--top=100%"), self.tensors)

    def test_heavymix(self):
        file = self.compress(self.dump, "x.gradz", SKETCH)
        whole = self.decompress(file, "whole.npz")
        # The tables, as they stand in the parameter frames: behind their columns, 300, in two bytes.
        data, squares = file.read_bytes(), []
        for name in self.tensors:
            at = data.index(varint(300), 60 if name == "a" else at + 2 + 4 * 1500)
            table = np.frombuffer(data[at + 2:at + 2 + 4 * 1500], "<f4").reshape(5, 300).astype(float)
            squares.append(sorted(np.add.accumulate(row * row)[-1] for row in table)[2])
        flat, words = np.concatenate([x.ravel() for x in whole.values()]), filling_words(3, 7, whole)
        for count in (5, 600):
            with self.subTest(count=count):
                heavy = np.flatnonzero(flat.astype(float)**2 >= sum(squares) / count)
                if len(heavy) > count:
                    expected = heaviest(whole, count)
                else:
                    rest = sorted(set(range(len(flat))) - set(heavy), key=lambda i: (words[i], i))
                    order = np.sort(np.concatenate([heavy, rest[:count - len(heavy)]]).astype(int))
                    expected = split(whole, order)
                    self.assertLess(len(heavy), count)
                taken = self.decompress(file, "mix.npz", f"--top={count}", "--heavymix")
                self.assert_equal(taken, only(whole, expected))
        self.refused(USAGE, "decompress", self.compress(self.dump, "y.gradz", "dither:nmse=0.1"), "--top=5",
                     "--heavymix", "-o", self.dir / "y.npz", says="no sketch")

    def test_other_tensors_come_as_they_are(self):
        tensors = {"bias": np.arange(9, dtype="f8"), **self.tensors, "ids": np.arange(5), "none": np.zeros((0, 3), "f4")}
        dump = self.save("more.npz", tensors)
        file = self.compress(dump, "x.gradz", SKETCH, "--exclude=bias")
        whole = self.decompress(file, "whole.npz")
        looked = {name: whole[name] for name in ("a", "b", "none")}
        taken = self.decompress(file, "top.npz", "--top=300", "--indices", self.dir / "x.indices")
        self.assert_equal(taken, {**only(looked, heaviest(looked, 300)), "bias": tensors["bias"], "ids": tensors["ids"]})
        self.assertEqual(sorted(self.decompress(self.dir / "x.indices", "m.npz")), ["a", "b", "none"])
        answer = self.answer(dump, "answer.gradz", self.dir / "x.indices")
        self.assert_equal(self.decompress(answer, "y.npz", "--at", self.dir / "x.indices"),
                          only({**self.tensors, "none": tensors["none"]}, heaviest(looked, 300)))

    def test_types_that_are_not_float32(self):
        x = heavy_tailed(5, 3000).clip(-100, 100)
        dump = self.save("types.npz", {"half": x.astype("f2"), "double": x.astype("f8"), "single": x})
        file = self.compress(dump, "x.gradz", "countsketch:rows=3,cols=50%")
        indices = self.dir / "x.indices"
        taken = self.decompress(file, "top.npz", "--top=30", "--indices", indices)
        self.assertEqual([taken[name].dtype for name in ("half", "double", "single")], ["f2", "f8", "f4"])
        self.assertEqual(sum(np.count_nonzero(x) for x in taken.values()), 30)
        exact = self.decompress(self.answer(dump, "answer.gradz", indices), "y.npz", "--at", indices)
        marks = self.decompress(indices, "marks.npz")
        for name, whole in self.load("types.npz").items():
            self.assertEqual(exact[name].dtype, whole.dtype)
            self.assertEqual(exact[name].tobytes(), np.where(marks[name] != 0, whole.astype("f4"), 0)
                             .astype(whole.dtype).tobytes())
        wide = self.decompress(file, "wide.npz", "--top=30", "--dtype=f8")
        self.assertEqual({x.dtype for x in wide.values()}, {np.dtype("f8")})

    def test_an_answer_over_a_scheme(self):
        indices = self.dir / "x.indices"
        self.ok("decompress", self.compress(self.dump, "x.gradz", SKETCH), "--top=500", "--indices", indices, "-q")
        answer = self.answer(self.dump, "answer.gradz", indices, "--scheme=at/dqsg:levels=65535", "--seed=1")
        exact = only(self.tensors, heaviest(self.decompress(self.dir / "x.gradz", "w.npz"), 500))
        said = self.decompress(answer, "y.npz", "--at", indices)
        for name, x in exact.items():
            self.assertTrue(np.all((said[name] == 0) | (x != 0)))
            np.testing.assert_allclose(said[name], x, atol=np.abs(x).max() / 30000)

    def test_what_is_not_a_number_stands_first(self):
        x = self.tensors["b"].copy()
        x[[5, 4000]] = [np.nan, -np.inf]
        file = self.compress(self.save("nan.npz", {"b": x}), "x.gradz", SKETCH, "--nonfinite=keep")
        taken = self.decompress(file, "top.npz", "--top=2")["b"]
        self.assertEqual(np.flatnonzero(taken).tolist(), [5, 4000])

    def test_another_set_is_refused(self):
        file = self.compress(self.dump, "x.gradz", SKETCH)
        sets = [self.dir / name for name in ("one", "two")]
        self.ok("decompress", file, "--top=500", "--indices", sets[0], "-q")
        self.ok("decompress", file, "--top=501", "--indices", sets[1], "-q")
        answer = self.answer(self.dump, "answer.gradz", sets[0])
        out = self.dir / "y.npz"
        names = [(path.read_bytes()[-16:-8][::-1]).hex() for path in sets]
        self.refused(BAD_INPUT, "decompress", answer, "-o", out, "--at", sets[1], says=names[0])
        self.refused(BAD_INPUT, "decompress", answer, "-o", out, "--at", sets[1], "--top=5", says=names[1])
        self.refused(USAGE, "decompress", answer, "-o", out, says="--at")
        self.refused(USAGE, "decompress", answer, "-o", out, "--top=5", says="--at")
        for command in (["info", "--test"], ["stats"], ["verify"]):
            self.refused(USAGE, *command, answer, says=f"answers the index set whose check is {names[0]}: --at SET")
            self.refused(BAD_INPUT, *command, answer, "--at", sets[1], says=names[1])
            self.refused(USAGE, *command, file, "--at", sets[0], says="answers no index set")
            self.ok(*command, answer, "--at", sets[0])
        self.refused(USAGE, "info", answer, "--at", sets[0], says="--test")
        for command in ("stats", "verify"):
            self.refused(USAGE, command, self.dump, "--at", sets[0], says="--at goes with a .gradz file")
        self.refused(USAGE, "decompress", file, "-o", out, "--at", sets[0], says="answers no index set")
        self.refused(USAGE, "decompress", answer, "-o", out, "--at", file, says="is a message: an index set")
        self.assertEqual(json.loads(self.ok("info", "--json", answer).out)["beside"], names[0])
        self.assertEqual(json.loads(self.ok("info", "--json", sets[0]).out)["kind"], "indices")
        self.ok("info", "--test", sets[0])
        data = bytearray(sets[0].read_bytes())
        data[-30] ^= 1
        (self.dir / "bad").write_bytes(data)
        self.refused(BAD_INPUT, "compress", self.dump, "-o", out, "--at", self.dir / "bad", says="check")

    def test_what_makes_no_sense_is_said(self):
        file = self.compress(self.dump, "x.gradz", SKETCH)
        out, indices = self.dir / "y", self.dir / "x.indices"
        self.ok("decompress", file, "--top=50", "--indices", indices, "-q")
        self.refused(USAGE, "decompress", file, "--indices", out, says="--top")
        self.refused(USAGE, "decompress", file, "--heavymix", says="--top")
        self.refused(USAGE, "decompress", file, "--top=5", "--only=a", "-o", out, says="--only")
        for twice in ((out, out), (out, self.dir / "." / "y"), ("-", "-")):
            self.refused(USAGE, "decompress", file, "--top=5", "--indices", twice[0], "-o", twice[1], says="two outputs")
        self.refused(USAGE, "decompress", file, "--top=5", "--indices=-", "-c", says="two outputs")
        for top in ("0", "-1", "101%", "x", "1.5"):
            self.refused(USAGE, "decompress", file, f"--top={top}", "-o", out)
        self.refused(USAGE, "compress", self.dump, "-o", out, "--scheme=at", says="--at")
        self.refused(USAGE, "compress", self.dump, "-o", out, "--at", indices, "--scheme=qsgd:s=4", says="at/...")
        self.refused(USAGE, "compress", self.dump, "-o", out, "--at", indices, "--exclude=a", says="--exclude")
        other = self.save("other.npz", {"a": self.tensors["a"], "c": self.tensors["b"]})
        self.refused(USAGE, "compress", other, "-o", out, "--at", indices, says="'b'")
        other = self.save("other.npz", {"a": self.tensors["a"].T, "b": self.tensors["b"]})
        self.refused(USAGE, "compress", other, "-o", out, "--at", indices, says="50x40")
        raw = self.compress(self.dump, "raw.gradz", "raw")
        self.refused(USAGE, "decompress", raw, "--top=5", "-o", out, says="lossy")
        self.refused(USAGE, "decompress", file, "--top=5", "--indices", file, "-f", says="x.gradz")
        self.refused(LIMIT, "compress", self.dump, "-o", out, "--scheme=countsketch:rows=1,cols=1,value=i64,exp=149",
                     says="would pass")

    def test_tables_too_large_are_refused_before_they_are_made(self):
        np.save(self.dir / "long.npy", np.zeros(20_000_000, "f4"))
        self.refused(LIMIT, "compress", self.dir / "long.npy", "-o", self.dir / "y", "--scheme",
                     "countsketch:rows=5,cols=100%", says="400000000 bytes")

    def test_memory_counts_the_rows(self):
        def made(rows, code_of):
            return code_of("compress", self.dump, "-f", "-o", self.dir / "y", "--memory=4M",
                           "--scheme", f"countsketch:rows={rows},cols=10,value=i64")
        made(1, self.ok)
        made(63, lambda *args: self.refused(LIMIT, *args, says="--memory"))

    def test_hostile_tables(self):
        schemes = (("countsketch:rows=5", PACK),)
        one = [Tensor("x", F4, (1000,))]

        def refused(frame, says, tensors=one, schemes=schemes, code=BAD_INPUT):
            path = self.dir / "hostile"
            path.write_bytes(gz.file_of(tensors, [frame], schemes, chunk_log2=22))
            self.refused(code, "decompress", path, "-o", self.dir / "y.npz", "-f", says=says, memory=600 * support.MIB)

        row = struct.pack("<f", 1.0)
        refused(varint(0), "0 columns")
        refused(varint(1001) + 5005 * row, "1001 columns")
        refused(varint(1000), "ends too early")
        long = [Tensor("x", F4, (1 << 22,))]
        refused(varint(1 << 22), "ends too early", long)
        refused(varint(1 << 22), "2^26 cells", long, (("countsketch:rows=63", PACK),))
        refused(varint(1) + 4 * row + struct.pack("<f", float("nan")), "not finite")
        refused(varint(1) + 6 * row, "bytes more")
        whole = (("countsketch:rows=1,value=i64,exp=32", PACK),)
        refused(varint(1) + b"\2\1\0", "more bytes than they need", schemes=whole)
        refused(varint(1) + b"\x09" + bytes(9), "9 bytes a cell", schemes=whole)
        # No encoder puts a memory that must know what is decoded before a sketch.
        for text in ("ef", "ec", "diana"):
            head = struct.pack("<d", 0.5) if text == "diana" else b""
            path = self.dir / "hostile"
            writer = gz.Writer().block(gz.SCHEMA, gz.schema(one, ((text + "/countsketch:rows=1", PACK),)))
            first = varint(gz.SEEDED | gz.HAS_STEP | 16) + struct.pack("<Q", 7) + varint(0) + bytes(8)  # of its worker
            writer.block(gz.MESSAGE, first).frame(head + varint(1) + row).frame(b"")
            path.write_bytes(writer.end())
            for command in (["decompress", path, "-o", self.dir / "y.npz"], ["aggregate", path, "-o", self.dir / "y.npz"],
                            ["decompress", path, "--top=3", "--heavymix", "-o", self.dir / "y.npz"], ["info", "--test", path]):
                self.refused(BAD_INPUT, *command, says="below a memory")
        for text in ("countsketch:rows=4", "countsketch:rows=65", "countsketch:rows=1,value=i64",
                     "countsketch:rows=1,exp=3", "countsketch:rows=1,cols=5", "mask/dqsg:levels=3"):
            refused(varint(1) + row, "", schemes=((text, PACK),))

    def test_real_gradient(self):
        whole = support.real_gradient()
        file = self.compress(support.DATA / "fc.h5", "x.gradz", "countsketch:rows=5,cols=10%", "--min-elements=1000")
        indices = self.dir / "x.indices"
        self.ok("decompress", file, "--top=2%", "--indices", indices, "-q")
        answer = self.answer(support.DATA / "fc.h5", "answer.gradz", indices)
        update = self.decompress(answer, "update.npz", "--at", indices, "--top=25%")
        names = [name for name, x in whole.items() if x.size >= 1000]
        self.assertEqual(sorted(update), sorted(names))
        count = sum(np.count_nonzero(x) for x in update.values())
        # Half of the energy of as many true ones, at least.
        flat = np.sort(np.concatenate([whole[name].ravel() for name in names]).astype(float)**2)[::-1]
        self.assertGreater(sum((x.astype(float)**2).sum() for x in update.values()), flat[:count].sum() / 2)


    def test_what_is_said_of_answers(self):
        """stats and verify beside the dump: the values that were asked for are exact, the others missing."""
        indices = self.dir / "x.indices"
        self.ok("decompress", self.compress(self.dump, "x.gradz", SKETCH), "--top=500", "--indices", indices, "-q")
        answer = self.answer(self.dump, "answer.gradz", indices)
        said = json.loads(self.ok("stats", answer, "--at", indices, "--against", self.dump, "--json").out)
        self.assertNotIn(b"side information", self.ok("stats", answer, "--at", indices, "--against", self.dump).out)
        exact = self.decompress(answer, "y.npz", "--at", indices)
        missing = sum(((exact[name].astype("f8") - x)**2).sum() for name, x in self.tensors.items())
        whole = sum((x.astype("f8")**2).sum() for x in self.tensors.values())
        self.assertAlmostEqual(said["whole"]["nmse"], missing / whole, delta=1e-12)
        for more in ([], ["--scheme=at"]):
            verdict = self.ok("verify", answer, "--at", indices, "--against", self.dump, *more, "--json")
            self.assertEqual(json.loads(verdict.out)["verdict"] in ("broken",), False, verdict.out)
        exact["a"].ravel()[np.flatnonzero(exact["a"])[0]] += 1  # another dump at one of the places
        other = self.save("other.npz", {**self.tensors, "a": np.where(exact["a"] != 0, exact["a"], self.tensors["a"])})
        self.assertEqual(run("verify", answer, "--at", indices, "--against", other, "--scheme=at").code, 1)

    def test_the_step_of_an_answer_is_its_sets(self):
        indices = self.dir / "x.indices"
        self.ok("decompress", self.compress(self.dump, "x.gradz", SKETCH), "--top=500", "--indices", indices, "-q")
        step = lambda path: json.loads(self.ok("info", "--json", path).out).get("step")  # noqa: E731
        self.assertEqual(step(self.answer(self.dump, "a.gradz", indices)), 7)
        self.refused(USAGE, "compress", self.dump, "-o", self.dir / "b.gradz", "--at", indices, "--step=9", "--seed=1",
                     says="is of step 7")
        answers = [self.answer(self.dump, f"{i}.gradz", indices, f"--worker={i}", "--seed=1") for i in range(2)]
        mean = self.dir / "mean.gradz"
        self.ok("aggregate", *answers, "--at", indices, "--scheme=at", "-o", mean, "-q")
        self.assertEqual(step(mean), 7)
        self.assert_equal(self.decompress(mean, "y.npz", "--at", indices),
                          self.decompress(answers[0], "z.npz", "--at", indices))
        self.refused(USAGE, "aggregate", *answers, "--scheme=at", "-o", self.dir / "m", says="--at SET")
        self.refused(USAGE, "aggregate", self.compress(self.dump, "x.gradz", SKETCH), "--at", indices, "--scheme=at",
                     "-o", self.dir / "m", says="answers no index set")


def gradients(steps, workers=2, shapes=(("a", (20, 30)), ("b", (400,)))):
    """[[{name: values}]] by step and worker: what all share, and what is a worker's own."""
    rng = np.random.default_rng(17)
    common = {name: rng.standard_normal(shape) * np.exp(rng.standard_normal(shape)) for name, shape in shapes}
    return [[{name: (x + 0.5 * rng.standard_normal(x.shape)).astype("f4") for name, x in common.items()}
             for _ in range(workers)] for _ in range(steps)]


class SketchedSgd:
    """Algorithm 3 of arXiv 1903.04488, in NumPy: u, v, the table of the sum, P k candidates, the k heaviest."""

    def __init__(self, tensors, workers, momentum, seed, rows, share):
        self.momentum, self.seed, self.rows, self.share = momentum, seed, rows, share
        zeros = lambda: {name: np.zeros(x.shape) for name, x in tensors.items()}  # noqa: E731
        self.u, self.v = [zeros() for _ in range(workers)], [zeros() for _ in range(workers)]

    def step(self, number, given, candidates, count):
        """The places that are asked for, those that are taken, and the update."""
        for u, v, x in zip(self.u, self.v, given):
            for name in x:
                u[name] = self.momentum * u[name] + x[name]
                v[name] = v[name] + u[name]
        sent = [{name: x.astype("f4") for name, x in v.items()} for v in self.v]
        said = {}
        for ordinal, name in enumerate(sent[0]):
            size = sent[0][name].size
            sketch = sketches.Sketch(self.seed, number, ordinal, size, self.rows, -(-size * self.share // 100))
            table = sum(sketch.table(x[name]).astype("f8") for x in sent).astype("f4")
            said[name] = (sketch.estimates(table).astype("f8") * (1 / len(sent))).astype("f4")
        asked = heaviest(said, candidates)
        mean = {name: (sum(x[name].astype("f8") for x in sent) / len(sent)).astype("f4") for name in said}
        exact = only(mean, asked)
        taken = heaviest(exact, count)
        for memory in self.u + self.v:
            for name, x in memory.items():
                x.ravel()[taken[name]] = 0
        return asked, taken, only(exact, taken)


class Files(RoundsTest):
    """Sketched-SGD by the commands that spec/rounds.md prints, word for word."""
    STEPS, MOMENTUM, SEED, ROWS, SHARE, ASKED, TAKEN = 3, 0.9, 7, 5, 5, 40, 10

    @classmethod
    def setUpClass(cls):
        page = (ROOT / "spec/rounds.md").read_text()
        block, = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
        cls.commands = [shlex.split(line)[1:] for line in block.splitlines()]
        assert len(cls.commands) == 10 and all(line.startswith("gradcodec ") for line in block.splitlines())
        cls.given = gradients(cls.STEPS)

    def make(self, step, commands=None):
        for name, x in zip("wx", self.given[step]):
            self.save(name + ".npz", x)
        for command in self.commands if commands is None else commands:
            self.ok(*command, *([] if command[0] == "forget" else ["-f"]), "-q", cwd=self.dir)

    def marks(self, path):
        return {name: np.flatnonzero(x) for name, x in self.decompress(self.dir / path, "marks.npz").items()}

    def vectors(self, path):
        return self.decompress(self.dir / path, "vectors.npz")

    def test_three_steps_are_those_of_numpy_and_of_replay(self):
        ours = SketchedSgd(self.given[0][0], 2, self.MOMENTUM, self.SEED, self.ROWS, self.SHARE)
        trace = {f"step_{step}/worker_{worker}/{name}": x for step, workers in enumerate(self.given)
                 for worker, tensors in enumerate(workers) for name, x in tensors.items()}
        scheme = self.commands[0][self.commands[0].index("--scheme") + 1]
        report = json.loads(self.ok("replay", self.save("trace.npz", trace), "--scheme", scheme, "--top=1%",
                                    "--candidates=4", "--seed=7", "--json", "-q").out)["steps"]
        for step, row in enumerate(report):
            asked, taken, update = ours.step(step, self.given[step], self.ASKED, self.TAKEN)
            self.make(step)
            for path, places in (("asked.indices", asked), ("taken.indices", taken)):
                marks = self.marks(path)
                for name in places:
                    self.assertEqual(marks[name].tolist(), places[name].tolist(), (step, path, name))
            self.assert_equal(self.load("update.npz"), update)
            for path, u, v in zip(("w.state", "x.state"), ours.u, ours.v):
                self.assert_equal(self.vectors(path), {f"{letter}/{name}": x for letter, memory in (("u", u), ("v", v))
                                                       for name, x in memory.items()})
            size = lambda *names: sum((self.dir / name).stat().st_size for name in names)  # noqa: E731
            self.assertEqual(row["up_bytes"], size("w.gradz", "x.gradz", "w.answer.gradz", "x.answer.gradz"))
            self.assertEqual(row["down_bytes"], size("asked.indices", "taken.indices") + 4 * self.TAKEN)
            mean = {name: sum(x[name].astype("f8") for x in self.given[step]) / 2 for name in update}
            answers = [self.decompress(self.dir / f"{worker}.answer.gradz", "y.npz", "--at", self.dir / "asked.indices")
                       for worker in "wx"]
            sent = only({name: sum(x[name].astype("f8") for x in answers) / 2 for name in mean}, taken)
            error = sum(((sent[name] - x)**2).sum() for name, x in mean.items())
            self.assertAlmostEqual(row["mean_nmse"], error / sum((x**2).sum() for x in mean.values()), delta=1e-12)
            norms = [np.sqrt(sum((x**2).sum() for x in v.values())) for v in ours.v]
            self.assertAlmostEqual(row["memory_norm"], sum(norms) / 2, delta=1e-9)

    def test_whole_numbers_do_the_same_in_any_order(self):
        swap = lambda command: [w + ",value=i64" if w.startswith("momentum:") else w for w in command]  # noqa: E731
        commands = [swap(command) for command in self.commands]
        self.make(0, commands[:8])
        whole = {path: (self.dir / path).read_bytes() for path in ("sum.gradz", "asked.indices", "update.npz")}
        server = [[*command[:1], command[2], command[1], *command[3:]] if command[0] == "aggregate" else command
                  for command in commands[2:8]]
        self.make(0, server)
        for path, data in whole.items():
            self.assertEqual((self.dir / path).read_bytes(), data, path)

    def test_what_readme_prints_runs(self):
        text = (ROOT / "README.md").read_text()
        lines = [line[4:].partition("  #")[0] for line in text.splitlines()
                 if re.match(r"    gradcodec .*(sketch|sum\.gradz|asked|taken)", line) and "replay" not in line]
        self.assertEqual([line.split()[1] for line in lines],
                         ["compress", "aggregate", "decompress", "compress", "aggregate", "decompress", "forget"])
        for worker, tensors in zip("23", self.given[0]):
            shutil.copy(self.save("x.npz", tensors), self.dir / f"grads{worker}.npz")
        for line in lines:
            of_worker = "2" in re.sub(r"\d%|m=0\.9", "", line)
            for worker in "23" if of_worker else " ":
                words = shlex.split(re.sub(r"(?<=[a-z])2\b|(?<= )2\b", worker, line))[1:]
                words = [path for word in words for path in (sorted(self.dir.glob(word)) if "*" in word else [word])]
                self.ok(*words, cwd=self.dir)
        self.assertTrue((self.dir / "update.npz").exists())
        taken = self.marks("taken.indices")
        for worker in "23":
            for name, x in self.vectors(f"w{worker}.state").items():
                self.assertEqual(np.count_nonzero(x.ravel()[taken[name[2:]]]), 0)
                self.assertGreater(np.count_nonzero(x), 0)

    def test_to_forget_twice_is_to_forget_once(self):
        self.make(0)
        state = self.dir / "w.state"
        before = state.read_bytes()
        self.ok("forget", state, "--at", self.dir / "taken.indices")
        self.assertEqual(state.read_bytes(), before)
        said = json.loads(self.ok("info", "--json", state).out)
        self.assertEqual((said["step"], said["worker"], said["seed"]), (1, 0, 7))
        self.assertEqual(said["previous"], json.loads(self.ok("info", "--json", self.dir / "w.gradz").out)["check"])
        self.assertEqual(state.stat().st_mode, (self.dir / "w.gradz").stat().st_mode)
        self.assert_no_leftovers()

    def test_answers_of_a_state_and_of_a_dump_of_v_are_one(self):
        self.make(0, self.commands[:6])
        v = {name[2:]: x.astype("f4") for name, x in self.vectors("w.state").items() if name.startswith("v/")}
        asked = self.dir / "asked.indices"
        self.ok("compress", self.save("v.npz", v), "--at", asked, "-o", self.dir / "v.gradz", "--worker=0", "--seed=7",
                "-q")
        self.assertEqual((self.dir / "v.gradz").read_bytes(), (self.dir / "w.answer.gradz").read_bytes())
        lossy = self.dir / "lossy.gradz"
        self.ok("compress", self.dir / "w.state", "--at", asked, "--scheme=at/qsgd:s=4", "-o", lossy, "-q")
        said = json.loads(self.ok("info", "--json", lossy).out)
        self.assertEqual((said["seed"], said["worker"], said["step"]), (7, 0, 0))
        self.ok("info", "--test", lossy, "--at", asked)

    def refused_as_it_is(self, code, path, *args, says):
        """Nothing happens to the state."""
        before = path.read_bytes()
        self.refused(code, *args, says=says)
        self.assertEqual(path.read_bytes(), before)
        self.assert_no_leftovers()

    def test_another_rounds_set_is_refused(self):
        self.make(0)
        self.make(1, self.commands[:2])
        state, old = self.dir / "w.state", self.dir / "taken.indices"
        for call in (["forget", state], ["compress", state, "-o", self.dir / "o"]):
            self.refused_as_it_is(BAD_INPUT, state, *call, "--at", old,
                                  says=f"{state}: expects step 2 next, and the index set '{old}' is of step 0, not of step 1")
        # Other tensors, other shapes, more and fewer of them.
        x = self.given[0][0]
        for changes, says in (({"b": x["b"][:300]}, "tensor 'b': is of shape 400 in the state, and of 300"),
                              ({"c": x["b"]}, "tensor 'c': is in"), ({"b": None}, "tensor 'b': is remembered")):
            tensors = {name: value for name, value in {**x, **changes}.items() if value is not None}
            file = self.dir / "other.gradz"
            self.ok("compress", self.save("other.npz", tensors), "--scheme=countsketch:rows=1,cols=9", "--seed=7",
                    "--step=1", "-o", file, "-f", "-q")
            self.ok("decompress", file, "--top=5", "--indices", self.dir / "other.indices", "-f", "-q")
            for call in (["forget", state], ["compress", state, "-o", self.dir / "o"]):
                self.refused_as_it_is(BAD_INPUT, state, *call, "--at", self.dir / "other.indices", says=says)
        self.ok("compress", self.save("other.npz", x), "--scheme=topk:k=9", "-o", self.dir / "other.gradz", "-f", "-q")
        self.ok("decompress", self.dir / "other.gradz", "--top=5", "--indices", self.dir / "other.indices", "-f", "-q")
        self.refused_as_it_is(BAD_INPUT, state, "forget", state, "--at", self.dir / "other.indices", says="of no step")
        self.assertFalse((self.dir / "o").exists())

    def test_other_files_are_no_workers_states(self):
        self.make(0)
        taken, out = self.dir / "taken.indices", self.dir / "o"
        forget = lambda path: ("forget", path, "--at", taken)  # noqa: E731
        self.refused(USAGE, *forget(self.dir / "w.gradz"), says="not a state")
        self.refused(BAD_INPUT, *forget(self.dir / "w.npz"), says="is a dump")
        self.refused(IO_FAILURE, *forget(self.dir / "none"), says="does not exist")
        self.assertFalse((self.dir / "none").exists())
        self.refused(USAGE, *forget("-"), says="no file")
        self.refused(USAGE, *forget("/dev/null"), says="regular")
        self.refused(USAGE, "forget", self.dir / "w.state", says="--at")
        self.refused(USAGE, "forget", self.dir / "w.state", "--at", self.dir / "w.gradz", says="an index set was expected")
        self.refused(USAGE, "compress", self.dir / "w.gradz", "--at", taken, "-o", out, says="not a state")
        self.refused(BAD_INPUT, "compress", self.dir / "w.state", "-o", out, says="already")
        for option in ("--seed=7", "--worker=0", "--step=0", f"--state={self.dir / 'w.state'}"):
            self.refused(USAGE, "compress", self.dir / "w.state", "--at", taken, "-o", out, option, says="knows its seed")
        for scheme, says in (("ef/topk:k=1%", "'ef' remembers where it encodes"),
                             ("diana/qsgd:s=4", "'diana' remembers where it encodes")):
            state = self.dir / "other.state"
            self.ok("compress", self.dir / "w.npz", "--scheme", scheme, "--state", state, "-o", out, "-f", "-q")
            self.refused_as_it_is(USAGE, state, *forget(state), says=says)
            self.refused_as_it_is(USAGE, state, "compress", state, "--at", taken, "-o", self.dir / "p", says=says)
            state.unlink()
        self.assertFalse((self.dir / "p").exists())

    def test_damaged_states_are_refused_and_kept(self):
        self.make(0)
        state, taken = self.dir / "w.state", self.dir / "taken.indices"
        whole = state.read_bytes()
        rng = np.random.default_rng(2)
        for cut in [whole[:n] for n in (0, 1, 15, 16, 60, len(whole) - 1)] + [
                whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1:]
                for at in rng.integers(len(whole), size=40)]:
            state.write_bytes(cut)
            self.refused_as_it_is((BAD_INPUT, support.UNSUPPORTED), state, "forget", state, "--at", taken, says=str(state))
            self.refused_as_it_is((BAD_INPUT, support.UNSUPPORTED), state, "compress", state, "--at", taken, "-o",
                                  self.dir / "o", says="")
        state.write_bytes(whole)
        self.refused_as_it_is(LIMIT, state, "forget", state, "--at", taken, "--memory=9k", says="--memory")

    def test_a_killed_command_leaves_one_state_or_the_other(self):
        """Of a state large enough for the command to be met at its work."""
        shape = ("a", (300, 1000))
        (given, _), = gradients(1, shapes=(shape,))
        state, taken = self.dir / "w.state", self.dir / "taken.indices"
        self.compress(self.save("w.npz", given), "w.gradz", "momentum/countsketch:rows=1,cols=9",
                      "--state", state)
        self.ok("decompress", self.dir / "w.gradz", "--top=50%", "--indices", taken, "-q")
        before = state.read_bytes()
        begin = time.monotonic()
        self.ok("forget", state, "--at", taken)
        took, after, seen = time.monotonic() - begin, state.read_bytes(), set()
        self.assertNotEqual(before, after)
        for i in range(24):
            state.write_bytes(before)
            process = subprocess.Popen([support.PROGRAM, "forget", state, "--at", taken, "-q"])
            time.sleep(took * i / 16)
            process.kill()
            process.wait()
            found = state.read_bytes()
            self.assertIn(found, (before, after))
            seen.add(found == after)
        self.assertEqual(seen, {False, True})

    def test_a_state_in_use_is_refused(self):
        import fcntl
        self.make(0)
        with open(self.dir / "w.state", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refused(IO_FAILURE, "forget", self.dir / "w.state", "--at", self.dir / "taken.indices", says="in use")


class SumsOfSketches(RoundsTest):
    """--top, --heavymix and index sets of a sum, as of one worker's sketch."""

    def setUp(self):
        super().setUp()
        self.other = {name: heavy_tailed(seed, x.shape) for seed, (name, x) in enumerate(self.tensors.items(), 11)}

    def sum_of(self, scheme, *options, out="sum.gradz"):
        files = [self.compress(dump, f"{i}.gradz", scheme, f"--worker={i}")
                 for i, dump in enumerate((self.dump, self.save("y.npz", self.other)))]
        self.ok("aggregate", *files, "-f", "-q", "-o", self.dir / out, *options)
        return self.dir / out

    def test_the_heaviest_are_those_of_what_it_decodes_to(self):
        for scheme in (SKETCH, SKETCH + ",value=i64"):
            sets = []
            for options in ([], ["--sum"]):
                file = self.sum_of(scheme, *options)
                whole = self.decompress(file, "whole.npz")
                for top, count in (("1", 1), ("500", 500), ("1%", 90), ("100%", 9000)):
                    with self.subTest(scheme=scheme, top=top, options=options):
                        taken = self.decompress(file, "top.npz", "--top", top, "--indices", self.dir / "x.indices")
                        self.assert_equal(taken, only(whole, heaviest(whole, count)))
                        sets.append((self.dir / "x.indices").read_bytes())
            self.assertEqual(sets[:4], sets[4:])  # two workers: halves are exact

    def test_heavymix(self):
        """Of a mean, and of a sum of messages with a memory: L2 is that of what they decode to."""
        rows, cols = 5, 300
        for text, options, factor in ((SKETCH, [], 0.5), (SKETCH, ["--sum"], 1)):
            file = self.sum_of(text, *options)
            whole, squares = self.decompress(file, "whole.npz"), 0.0
            for ordinal, name in enumerate(self.tensors):
                sketch = sketches.Sketch(3, 7, ordinal, self.tensors[name].size, rows, cols)
                table = (sketch.table(self.tensors[name]).astype("f8") + sketch.table(self.other[name])).astype("f4")
                by_row = [np.add.accumulate(row.astype("f8")**2)[-1] for row in table]
                squares += sorted(by_row)[rows // 2] * factor * factor
            flat = np.concatenate([x.ravel() for x in whole.values()])
            drawn = filling_words(3, 7, whole)
            heavy = np.flatnonzero(flat.astype(float)**2 >= squares / 600)
            self.assertLess(len(heavy), 600)
            self.assertGreater(len(heavy), 20)
            rest = sorted(set(range(len(flat))) - set(heavy), key=lambda i: (drawn[i], i))
            order = np.sort(np.concatenate([heavy, rest[:600 - len(heavy)]]).astype(int))
            taken = self.decompress(file, "mix.npz", "--top=600", "--heavymix")
            self.assert_equal(taken, only(whole, split(whole, order)))

    def test_heavymix_of_a_worker_with_momentum(self):
        plain = self.compress(self.dump, "plain.gradz", SKETCH)
        first = self.compress(self.dump, "first.gradz", "momentum/" + SKETCH)
        self.assert_equal(*(self.decompress(file, "y.npz", "--top=700", "--heavymix") for file in (plain, first)))


if __name__ == "__main__":
    support.unittest.main()
