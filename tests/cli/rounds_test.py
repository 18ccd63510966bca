#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sketches, the heaviest elements, index sets and answers to them: spec/rounds.md by the command line."""
import json
import struct
import sys
from pathlib import Path

import numpy as np

import container as gz
import support
from container import F4, PACK, Tensor, varint
from support import BAD_INPUT, LIMIT, USAGE, run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "spec"))
import page_numbers  # noqa: E402

SKETCH = "countsketch:rows=5,cols=300"


def heavy_tailed(seed, shape):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape))).astype("f4")


def heaviest(tensors, count):
    """{name: places} of the largest magnitudes: of equal ones the first tensor's, the lower place's."""
    keys = np.concatenate([np.abs(x).ravel().view(np.uint32) for x in tensors.values()])
    order = np.argsort(-keys.astype(np.int64), kind="stable")[:count]
    return split(tensors, np.sort(order))


def split(tensors, order):
    out, first = {}, 0
    for name, x in tensors.items():
        out[name] = order[(order >= first) & (order < first + x.size)] - first
        first += x.size
    return out


def only(tensors, places):
    """The tensors, 0 but for these places."""
    out = {}
    for name, x in tensors.items():
        kept = np.zeros_like(x)
        kept.ravel()[places[name]] = x.ravel()[places[name]]
        out[name] = kept + 0
    return out


class Rounds(support.CliTest):
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
        key = page_numbers.step_key(3, 7)
        flat = np.concatenate([x.ravel() for x in whole.values()])
        words = [page_numbers.word_of(key, t, 7, 0, i) for t, x in enumerate(whole.values()) for i in range(x.size)]
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
        self.refused(USAGE, "info", "--test", answer, says="--at")
        self.refused(USAGE, "stats", answer, says="index set")
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


if __name__ == "__main__":
    support.unittest.main()
