"""gradcodec aggregate: spec/aggregate.md in NumPy, and what is refused."""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import struct
import threading
import unittest

import h5py
import numpy as np

import container as gz
import sketches
import support
from support import BAD_INPUT, LIMIT, OK, UNSUPPORTED, USAGE


def mean_of(arrays, weights=None, total=False):
    """Sections "Decode and add", in its order: float64, then float32."""
    result, weight = np.zeros(arrays[0].shape), 0.0
    for i, array in enumerate(arrays):
        w = 1.0 if weights is None else float(weights[i])
        result = result + w * array.astype(np.float64)
        weight = weight + w
    return result if total else result / weight


class Aggregate(support.CliTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)

    def arrays(self):
        values = self.rng.standard_normal
        return {"w": values((90, 100)).astype(np.float32), "h": values(7).astype(np.float16), "d": values(9),
                "n": np.arange(4), "e": np.zeros((0, 3), np.float32), "s": np.float32(values())}

    def messages(self, scheme, count=5, arrays=None, options=(), **named):
        """Messages of `count` workers, each of its own values; their paths."""
        return [self.compress(self.npz(arrays(i) if arrays else self.arrays(), f"x{i}.npz"), "--scheme", scheme,
                              "--seed=3", f"--worker={i}", *options, to=self.dir / f"{i}.gradz")
                for i in range(count)]

    def values(self, path):
        """As decoded, before they are narrowed: float64 holds them."""
        return self.decompress(path, "--dtype=f8", suffix=".npz")

    def aggregate(self, *args, to="out.npz", expect=OK):
        self.ok("aggregate", *args, "-o", self.dir / to, "-f", "-q")
        if to.endswith(".gradz"):
            return self.dir / to
        loaded = np.load(self.dir / to)
        return {name: loaded[name] for name in loaded.files} if to.endswith(".npz") else loaded

    def bytes_of(self, *args, to="out.gradz"):
        return self.aggregate(*args, to=to).read_bytes()


class Mean(Aggregate):
    SCHEMES = ("dqsg:levels=3", "dither:nmse=0.1", "maxnorm", "topk:k=10%/dqsg:levels=5", "randk:k=20%", "raw",
               "rotate:block=64/qsgd:s=4", "natural")

    def test_it_is_numpys_to_the_bit(self):
        for scheme in self.SCHEMES:
            paths = self.messages(scheme, options=["--chunk-log2=12"])
            inputs = [self.values(path) for path in paths]
            for weights, total in ((None, False), (None, True), ([1, 2, 0.5, 1e-3, 7], False), ([3, 1, 1, 1, 2], True)):
                args = ["--sum"] if total else []
                args += ["--weights", ",".join(map(str, weights))] if weights else []
                made = self.aggregate(*paths, *args)
                for name, array in made.items():
                    with self.subTest(scheme=scheme, tensor=name, args=args):
                        if name == "n":
                            self.assert_same_bits(array, np.arange(4))
                            continue
                        expected = mean_of([arrays[name] for arrays in inputs], weights, total)
                        if not (name == "d" and scheme == "raw"):
                            expected = expected.astype(np.float32)
                        dtype = {"h": np.float16, "d": np.float64}.get(name, np.float32)
                        self.assert_same_bits(array, expected.astype(dtype))

    def test_types_that_are_asked_for(self):
        paths = self.messages("dqsg:levels=5", arrays=lambda i: {"w": self.rng.standard_normal(5000).astype("f4")})
        expected = mean_of([self.values(path)["w"] for path in paths]).astype(np.float32)
        for name, dtype in (("f2", np.float16), ("f4", np.float32), ("f8", np.float64)):
            self.assert_same_bits(self.aggregate(*paths, "--dtype", name)["w"], expected.astype(dtype))
        bits = expected.view(np.uint32).astype(np.uint64)  # to nearest even
        bits = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
        self.assert_same_bits(self.aggregate(*paths, "--dtype=bf16")["w"].view(np.uint16), bits)

    def test_float64_by_raw_is_rounded_once(self):
        x = 1 + 2.0**-11 + 2.0**-40  # as float32 it is half way between two float16, and goes to the even one
        paths = self.messages("raw", 2, lambda i: {"d": np.array([x, 1.0])})
        self.assertEqual(self.aggregate(*paths, "--dtype=f2")["d"][0], np.float16(1 + 2.0**-10))
        self.assertEqual(self.aggregate(*paths)["d"][0], x)

    def test_a_float64_sum_beyond_float64_is_refused(self):
        paths = self.messages("raw", 2, lambda i: {"d": np.array([1.0, 1.7e308])})
        self.refused(LIMIT, "aggregate", *paths, "-o", self.dir / "o.npz", says="element 1 adds up to more")
        infinite = self.messages("raw", 2, lambda i: {"d": np.array([np.inf, 1.0])}, options=("--nonfinite=keep",))
        self.assertEqual(self.aggregate(*infinite)["d"].tolist(), [np.inf, 1.0])

    def test_schemes_may_differ(self):
        sources = [self.npz({"w": self.rng.standard_normal(3000).astype("f4")}, f"x{i}.npz") for i in range(3)]
        schemes = ("dqsg:levels=3", "raw", "multiscale")
        paths = [self.compress(source, "--scheme", scheme, f"--worker={i}", "--seed=1", "--level", str(1 + 4 * (i % 2)))
                 for i, (source, scheme) in enumerate(zip(sources, schemes))]
        expected = mean_of([self.values(path)["w"] for path in paths]).astype(np.float32)
        self.assert_same_bits(self.aggregate(*paths)["w"], expected)

    def test_the_order_is_that_of_the_arguments(self):
        values = (2.0**60, 1.0, -(2.0**60), 2.0**-30)
        paths = self.messages("raw", 4, lambda i: {"d": np.array([values[i]])})
        for order in itertools.permutations(range(4)):
            expected = 0.0
            for i in order:
                expected += values[i]
            made = self.aggregate(*(paths[i] for i in order), "--sum")["d"]
            self.assertEqual(made[0], expected, order)

    def test_threads_change_nothing(self):
        # 200 small tensors and one of many chunks; more threads than frames at a time.
        def arrays(i):
            many = {f"t{k}": self.rng.standard_normal(k).astype("f4") for k in range(200)}
            return {**many, "w": self.rng.standard_normal(70_000).astype("f4"), "n": np.arange(9000)}
        paths = self.messages("dqsg:levels=3", 6, arrays, ["--chunk-log2=12"])
        one = self.aggregate(*paths, "-T1", to="1.npz")
        for threads in (2, 4, 13):
            for name, array in self.aggregate(*paths, f"-T{threads}", to="n.npz").items():
                self.assert_same_bits(array, one[name])

    def test_256_inputs_and_one_input(self):
        paths = self.messages("dqsg:levels=3", 256, lambda i: {"w": np.float32([i, -i, 1, 0])})
        expected = mean_of([self.values(path)["w"] for path in paths]).astype(np.float32)
        self.assert_same_bits(self.aggregate(*paths)["w"], expected)
        self.assert_same_bits(self.aggregate(paths[9])["w"], self.values(paths[9])["w"].astype("f4"))

    def test_the_same_file_twice(self):
        path, other = self.messages("dqsg:levels=3", 2)
        a, b = self.values(path)["w"], self.values(other)["w"]
        self.assert_same_bits(self.aggregate(path, path, other)["w"], mean_of([a, a, b]).astype("f4"))

    def test_pipes(self):
        paths = self.messages("dqsg:levels=3", 4, options=["--chunk-log2=12"])
        expected = self.aggregate(*paths)
        fifos = []
        for i, path in enumerate(paths[:2]):
            fifos.append(self.dir / f"fifo{i}")
            os.mkfifo(fifos[-1])
            threading.Thread(target=fifos[-1].write_bytes, args=(path.read_bytes(),), daemon=True).start()
        out = self.dir / "piped.npz"
        with open(paths[2], "rb") as stdin:
            done = support.run("aggregate", *fifos, "-", paths[3], "-o", "-", "--to=npz", "-q", stdin=stdin)
        self.assertEqual(done.code, OK, done.err)
        out.write_bytes(done.out)
        with np.load(out) as made:
            for name in made.files:
                self.assert_same_bits(made[name], expected[name])
        self.refused(USAGE, "aggregate", "-", "-", "-o", out, says="once")

    def test_nan_and_infinities(self):
        x = [np.float32([np.nan, np.inf, np.inf, 1]), np.float32([0, 1, -np.inf, 1])]
        paths = self.messages("dqsg:levels=3", 2, lambda i: {"w": x[i]}, ["--nonfinite=keep"])
        made = self.aggregate(*paths)["w"]
        self.assertTrue(np.isnan(made[0]) and np.isinf(made[1]) and np.isnan(made[2]))

    def test_a_sum_beyond_the_type_is_refused(self):
        paths = self.messages("raw", 2, lambda i: {"w": np.float32([1, 3e38]), "h": np.float16([1, 60000])})
        self.refused(LIMIT, "aggregate", *paths, "--sum", "-o", self.dir / "o.npz", says="element 1 is 6e+38")
        self.assert_same_bits(self.aggregate(*paths)["w"], np.float32([1, 3e38]))
        paths = self.messages("raw", 2, lambda i: {"h": np.float16([1, 60000])})
        self.refused(LIMIT, "aggregate", *paths, "--sum", "-o", self.dir / "o.npz", says="tensor 'h'")
        self.assert_no_leftovers()

    def test_with_a_scheme_it_is_the_dump_compressed(self):
        paths = self.messages("dqsg:levels=3", options=["--chunk-log2=12"])
        self.aggregate(*paths, to="mean.npz")
        options = ["--scheme=dither:nmse=0.01", "--seed=7", "--worker=2", "--step=9", "--exclude=h", "--level=3"]
        direct = self.bytes_of(*paths, *options)
        self.assertEqual(direct, self.compress(self.dir / "mean.npz", *options).read_bytes())

    def test_hdf5_keeps_what_is_common(self):
        for i, text in enumerate(("same", "same", "other")):
            with h5py.File(self.dir / f"{i}.h5", "w") as file:
                file["layer/w"] = np.full(9, i, np.float32)
                file["layer"].attrs["note"] = text
            self.compress(self.dir / f"{i}.h5", "--scheme=raw", to=self.dir / f"{i}.gradz")
        paths = [self.dir / f"{i}.gradz" for i in range(3)]
        self.ok("aggregate", *paths[:2], "-o", self.dir / "a.h5", "-q")
        said = self.ok("aggregate", *paths, "-o", self.dir / "b.h5").err
        self.assertIn("left out", said)
        with h5py.File(self.dir / "a.h5") as a, h5py.File(self.dir / "b.h5") as b:
            self.assertEqual(a["layer"].attrs["note"], "same")
            self.assertEqual(list(b["layer"].attrs), [])
            self.assertEqual(list(a["layer/w"][()]), [0.5] * 9)
            self.assertEqual(list(b["layer/w"][()]), [1] * 9)


class Codes(Aggregate):
    """Sums in the compressed domain."""

    def shared(self, scheme="maxnorm:bits=3", scale=6, **options):
        return self.messages(scheme, options=[f"--shared-scale={scale}", "--chunk-log2=12", "--step=4"], **options)

    def test_any_order_and_grouping_gives_the_same_bytes(self):
        shared = ["--shared-scale=400"]
        for scheme, options in (("maxnorm:bits=3", shared), ("multiscale:bits=2-4-7", shared), ("grid:step=0.03", []),
                                ("rotate:block=64,shared=yes/maxnorm:bits=6", shared),
                                ("randk:k=20%,shared=yes/maxnorm:bits=5", shared)):
            paths = self.messages(scheme, options=[*options, "--chunk-log2=12", "--step=4"])
            for more in ([], ["--sum"]):
                with self.subTest(scheme=scheme, options=more):
                    expected = self.bytes_of(*paths, *more)
                    self.assertEqual(self.bytes_of(*paths[::-1], *more, "-T4"), expected)
                    a = self.aggregate(*paths[3:1:-1], to="a.gradz")
                    b = self.aggregate(paths[0], paths[4], "--sum", to="b.gradz")
                    c = self.aggregate(b, paths[1], to="c.gradz")
                    self.assertEqual(self.bytes_of(a, c, *more), expected)
                    self.ok("info", "--test", self.dir / "out.gradz")

    def test_what_it_decodes_to(self):
        paths = self.shared()
        step = np.float32(6 / 7)
        if np.float64(step) * 7 < 6:  # rounded up, so that it reaches the scale
            step = np.nextafter(step, np.float32(7))
        symbols = [np.round(self.values(path)["w"] / np.float64(step)) for path in paths]
        total = sum(symbols)
        made = self.decompress(self.aggregate(*paths, to="o.gradz"), suffix=".npz")["w"]
        self.assert_same_bits(made, (total * np.float64(step) * 0.2).astype(np.float32))
        made = self.decompress(self.aggregate(*paths, "--sum", to="o.gradz"), suffix=".npz")["w"]
        self.assert_same_bits(made, (total * np.float64(step)).astype(np.float32))
        weighted = sum(w * q for w, q in zip((3, 1, 1, 2, 1), symbols))
        made = self.decompress(self.aggregate(*paths, "--weights=3,1,1,2,1", to="o.gradz"), suffix=".npz")["w"]
        self.assert_same_bits(made, (weighted * np.float64(step) * 0.125).astype(np.float32))
        for more in ([], ["--sum"]):
            exact = self.aggregate(*paths, "--exact-sum", *more)["w"]
            packed = self.decompress(self.aggregate(*paths, *more, to="o.gradz"), suffix=".npz")["w"]
            self.assert_same_bits(exact, packed)
            np.testing.assert_allclose(exact, self.aggregate(*paths, *more)["w"], rtol=1e-6, atol=1e-6)

    def test_zero_tensors_go_with_any_step(self):
        paths = self.messages("grid:step=0.25", 3, lambda i: {"w": np.float32([0.5, -0.25, 0]) * (i == 1)})
        made = self.decompress(self.aggregate(*paths, "--sum", to="o.gradz"), suffix=".npz")["w"]
        self.assert_same_bits(made, np.float32([0.5, -0.25, 0]))

    def test_randk_values_are_added_where_they_are(self):
        paths = self.messages("randk:k=10%,shared=yes", options=["--step=4", "--chunk-log2=12"])
        inputs = [self.values(path)["w"] for path in paths]
        self.assertGreater(np.count_nonzero(inputs[0]), 0)
        for array in inputs:
            self.assertTrue(((array != 0) == (inputs[0] != 0)).all())
        packed = self.aggregate(*paths, to="o.gradz")
        expected = sum(inputs, np.zeros(inputs[0].shape)) * 0.2
        self.assert_same_bits(self.decompress(packed, suffix=".npz")["w"], expected.astype(np.float32))
        self.assertEqual(self.info(packed)["kind"], "sum")
        a, b = self.aggregate(*paths[:2], to="a.gradz"), self.aggregate(*paths[2:], to="b.gradz")
        together = self.decompress(self.aggregate(a, b, to="c.gradz"), suffix=".npz")["w"]
        np.testing.assert_allclose(together, expected.astype(np.float32), rtol=2**-22)

    def test_a_sum_counts_as_its_messages(self):
        paths = self.shared()
        expected = self.aggregate(*paths)["w"]
        for more in ([], ["--sum"]):
            part = self.aggregate(*paths[:3], *more, to="part.gradz")
            np.testing.assert_allclose(self.aggregate(part, *paths[3:])["w"], expected, rtol=1e-6, atol=1e-6)
            total = self.aggregate(part, *paths[3:], "--sum")["w"]
            np.testing.assert_allclose(total, 5 * expected, rtol=1e-6, atol=1e-6)

    def test_info_stats_and_another_program_read_it(self):
        packed = self.aggregate(*self.shared(), to="o.gradz")
        said = self.info(packed)
        self.assertEqual((said["kind"], said["step"], said.get("worker"), said.get("seed")), ("sum", 4, None, None))
        self.assertEqual(said["tensors"][0]["parameters"].partition(",")[0], "mean of 5 messages")
        self.ok("stats", packed)
        self.ok("info", "--test", packed)

    def test_the_alphabet_is_bounded(self):
        paths = self.messages("maxnorm:bits=14", 3, lambda i: {"w": np.float32([1, 2])}, ["--shared-scale=2"])
        self.aggregate(*paths[:2], to="o.gradz")
        self.refused(LIMIT, "aggregate", *paths, "-o", self.dir / "p.gradz", says=f"{paths[2]}: tensor 'w'")
        self.refused(LIMIT, "aggregate", self.dir / "o.gradz", paths[2], "-o", self.dir / "p.gradz", says="dump")
        self.refused(LIMIT, "aggregate", *paths[:2], "--weights=1,2", "-o", self.dir / "p.gradz", says="65535")
        self.aggregate(*paths)

    def test_what_does_not_add_up_is_refused(self):
        out = self.dir / "o.gradz"
        for scheme in ("dqsg:levels=3", "qsgd:s=4", "raw", "topk:k=2/maxnorm", "randk:k=2", "randk:k=2/maxnorm",
                       "rotate:block=4/maxnorm"):
            paths = self.messages(scheme, 2, lambda i: {"w": np.float32([1, 2, 3, 4])})
            says = f"{paths[0]}: tensor 'w': goes by '{scheme.partition(':')[0]}"
            self.assertIn("does not add up", self.refused(USAGE, "aggregate", *paths, "-o", out, says=says).err)
            self.refused(USAGE, "aggregate", *paths, "--exact-sum", "-o", self.dir / "o.npz", says="--scheme")
        one = {"w": np.float32([1, 2, 3, 4])}

        def pair(scheme, first, second):
            return [self.compress(self.npz(one), "--scheme", scheme, "--seed=1", *options, to=self.dir / f"{i}.gradz")
                    for i, options in enumerate((first, second))]
        step = "--step=1"
        for scheme, first, second, says in (
                ("maxnorm", ["--shared-scale=4"], ["--shared-scale=5"], "--shared-scale"),
                ("maxnorm", ["--worker=1"], ["--shared-scale=9"], "--shared-scale"),
                ("randk:k=2,shared=yes", [step], ["--step=2"], "another seed or step"),
                ("randk:k=2,shared=yes", [step], [step, "--seed=2"], "another seed or step"),
                ("multiscale:bits=2-4", ["--shared-scale=4"], ["--scheme=multiscale:bits=2-5", "--shared-scale=4"],
                 "steps")):
            second = [*second]
            if "--seed=2" in second:
                paths = pair(scheme, first, [step])
                self.compress(self.npz(one), "--scheme", scheme, "--seed=2", step, to=paths[1])
            elif second[0].startswith("--scheme"):
                paths = pair(scheme, first, first)
                self.compress(self.npz(one), second[0], "--seed=1", *first, to=paths[1])
            else:
                paths = pair(scheme, first, second)
            self.refused(USAGE, "aggregate", *paths, "-o", out, says=says)
            self.assertIn("1.gradz", support.run("aggregate", *paths, "-o", out).err)
            self.ok("aggregate", *paths, "-o", self.dir / "fine.npz", "-f")
        paths = pair("randk:k=2,shared=yes", [step], [step])
        self.compress(self.npz(one), "--scheme=randk:k=3,shared=yes", "--seed=1", step, to=paths[1])
        self.refused(USAGE, "aggregate", *paths, "-o", out, says="another number")
        paths = pair("maxnorm", ["--shared-scale=4"], ["--shared-scale=4"])
        self.refused(USAGE, "aggregate", *paths, "-o", out, "--weights=1,1.5", says="whole numbers")
        self.assertFalse(out.exists())
        self.assert_no_leftovers()

    def test_exceptions_do_not_add_up(self):
        x = [np.float32([1, 2]), np.float32([1, np.nan])]
        paths = self.messages("maxnorm", 2, lambda i: {"w": x[i]}, ["--shared-scale=2", "--nonfinite=keep"])
        says = f"{paths[1]}: tensor 'w': chunk 1"
        self.refused(UNSUPPORTED, "aggregate", *paths, "-o", self.dir / "o.gradz", says=says)
        self.aggregate(*paths)


class Sketches(Aggregate):
    """Sums of tables: schemes/sum.md, of tables, and aggregate.md, "Sketches"."""
    ROWS, COLS, SEED, STEP = 3, 40, 3, 5
    SHAPES = {"w": (90, 100), "b": (60,)}

    def floats(self, i=0):
        return {**{name: self.rng.standard_normal(shape).astype("f4") for name, shape in self.SHAPES.items()},
                "e": np.zeros((0, 3), "f4"), "s": np.float32(i + 0.1)}

    def sketched(self, more="", count=5, arrays=None, step=STEP, options=()):
        return self.messages(f"countsketch:rows={self.ROWS},cols={self.COLS}{more}", count, arrays or self.floats,
                             [f"--step={step}", "--chunk-log2=12", *options])

    def of(self, name, size, scope="step"):
        ordinal = list(self.floats()).index(name)
        return sketches.Sketch(self.SEED, self.STEP, ordinal, size, self.ROWS, min(self.COLS, size), scope)

    def test_any_order_and_grouping_gives_the_same_bytes(self):
        paths = self.sketched(",value=i64,exp=20", 7)
        rng = np.random.default_rng(3)
        for more in ([], ["--sum"]):
            expected = self.bytes_of(*paths, *more)
            for _ in range(6):
                order = [paths[i] for i in rng.permutation(len(paths))]
                self.assertEqual(self.bytes_of(*order, *more, "-T4"), expected)
                # Groups of any kind, and groups of groups.
                while len(order) > 1:
                    take = int(rng.integers(1, len(order) + 1))
                    part = self.dir / f"part{len(order)}-{rng.integers(1 << 30)}.gradz"
                    last = take == len(order)
                    kind = more if last else [["--sum"], []][int(rng.integers(2))]
                    self.aggregate(*order[:take], *kind, to=part.name)
                    order = order[take:] + [part]
                self.assertEqual(self.aggregate(*order, *more, to="o.gradz").read_bytes(), expected)
            weighted = self.bytes_of(*paths[:2], "--weights=3,1", *more)
            self.assertEqual(self.bytes_of(*[paths[0]] * 2, paths[1], paths[0], *more), weighted)

    def test_the_sum_of_tables_is_the_table_of_the_sum(self):
        """Whole numbers, of which float32 holds every sum: to the bit, what one sketch of all together says."""
        x = [{name: self.rng.integers(-999, 999, shape).astype("f4") for name, shape in self.SHAPES.items()}
             for _ in range(4)]
        together = {name: sum(part[name] for part in x) for name in x[0]}
        for more in ("", ",value=i64,exp=0"):
            whole = self.sketched(more, 1, lambda i: together)[0]
            whole = whole.rename(self.dir / "whole.gradz")
            paths = self.sketched(more, 4, lambda i: x[i])
            said = self.values(self.aggregate(*paths, "--sum", to="sum.gradz"))
            for name, values in self.values(whole).items():
                self.assert_same_bits(said[name], values)
            mean = self.values(self.aggregate(*paths, to="mean.gradz"))
            dump = self.aggregate(*paths)
            for name, values in said.items():
                self.assert_same_bits(mean[name].astype("f4"), (values * 0.25).astype("f4"))
                self.assert_same_bits(dump[name], mean[name].astype("f4"))
            apart = mean_of([self.values(path)["w"] for path in paths])
            self.assertGreater(np.abs(apart - mean["w"]).max(), 1)  # a mean of medians is something else

    def test_float32_cells_are_added_in_the_order_of_the_arguments(self):
        x = [{name: values * np.float32(10.0**i) for name, values in self.floats().items()} for i in range(5)]
        paths = self.sketched(arrays=lambda i: x[i])
        for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3]):
            for weights in (None, [3, 1, 2, 1, 7], [0.3, 1, 1e-3, 2.5, 1]):
                args = [paths[i] for i in order] + ([f"--weights={','.join(map(str, weights))}"] if weights else [])
                for total in (False, True):
                    made = self.aggregate(*args, *["--sum"] * total)
                    for name in ("w", "b", "s"):
                        of = self.of(name, x[0][name].size)
                        cells, weight = np.zeros((self.ROWS, of.cols)), 0.0
                        for j, i in enumerate(order):
                            w = weights[j] if weights else 1.0
                            cells, weight = cells + w * of.table(x[i][name]).astype("f8"), weight + w
                        said = of.estimates(cells.astype("f4")).astype("f8") * (1 if total else 1 / weight)
                        self.assert_same_bits(made[name].ravel(), said.astype("f4"), (order, weights, total, name))
                    if weights is None or weights[0] == 3:
                        file = self.aggregate(*args, *["--sum"] * total, to="o.gradz")
                        for name, values in self.values(file).items():
                            self.assert_same_bits(values.astype("f4"), made[name])
                    else:
                        self.refused(USAGE, "aggregate", *args, "-o", self.dir / "p.gradz", says="whole numbers")

    def test_weights_of_whole_numbers(self):
        paths = self.sketched(",value=i64", 2)
        self.refused(USAGE, "aggregate", *paths, "--weights=1,0.5", "-o", self.dir / "o.npz",
                     says=f"{paths[1]}: tensor 'w': cells that are whole numbers")
        self.assertFalse((self.dir / "o.npz").exists())
        made = self.aggregate(*paths, "--weights=3,2", "--sum")
        again = self.aggregate(*[paths[0]] * 3, *[paths[1]] * 2, "--sum")
        for name, values in made.items():
            self.assert_same_bits(values, again[name])

    def test_a_sum_counts_as_its_messages(self):
        paths = self.sketched(",value=i64,exp=30")
        expected = self.aggregate(*paths)
        for more in ([], ["--sum"]):
            part = self.aggregate(*paths[:3], *more, to="part.gradz")
            for name, values in self.aggregate(part, *paths[3:]).items():
                self.assert_same_bits(values, expected[name])
        self.assertEqual(self.info(part)["tensors"][0]["parameters"],
                         "sum of 3 messages, 3 rows of 40, units of 2^-30")
        self.assertEqual(self.info(part)["tensors"][0]["scheme"], "sum:of=tables/countsketch:rows=3,value=i64,exp=30")

    def test_a_memory_leaves_no_trace_in_the_sum(self):
        x = [self.floats(i) for i in range(3)]
        plain = self.bytes_of(*self.sketched(arrays=lambda i: x[i], count=3))
        paths = self.messages(f"momentum:m=0.5/countsketch:rows={self.ROWS},cols={self.COLS}", 3, lambda i: x[i],
                              [f"--step={self.STEP}", "--chunk-log2=12"])
        self.assertEqual(self.bytes_of(*paths), plain)

    def test_what_is_not_a_number_is_added_beside_the_table(self):
        x = [self.floats(i) for i in range(2)]
        x[0]["w"][3, :3] = np.nan, np.inf, np.inf
        x[1]["w"][3, 2] = -np.inf
        paths = self.sketched(arrays=lambda i: x[i], count=2, options=["--nonfinite=keep"])
        made = self.aggregate(*paths)["w"]
        self.assertTrue(np.isnan(made[3, 0]) and made[3, 1] == np.inf and np.isnan(made[3, 2]))
        self.assertEqual(np.count_nonzero(~np.isfinite(made)), 3)
        for more in (["-o", self.dir / "o.gradz"], ["-o", self.dir / "o.npz", "--exact-sum"]):
            self.refused(UNSUPPORTED, "aggregate", *paths, *more, says=f"{paths[0]}: tensor 'w': chunk 1")

    def pair(self, first, second, arrays=None):
        """Two messages that differ: (scheme, options) each."""
        out = []
        for i, (scheme, options) in enumerate((first, second)):
            dump = self.npz(arrays[i] if arrays else {"w": np.arange(500, dtype="f4")}, f"d{i}.npz")
            out.append(self.compress(dump, "--scheme", scheme, *options, to=self.dir / f"{i}.gradz"))
        return out

    def test_tables_that_do_not_add_up_are_refused_by_name(self):
        one, usual = "countsketch:rows=3,cols=40", ["--seed=1", "--step=2"]
        out = self.dir / "o.gradz"
        for scheme, options, says, apart in (
                (one, ["--seed=2", "--step=2"], "another seed or step", True),
                (one, ["--seed=1", "--step=3"], "another seed or step", True),
                (one, ["--seed=1"], "another seed or step", True),
                ("countsketch:rows=5,cols=40", usual, "'sum:of=tables/countsketch:rows=3'", True),
                (one + ",value=i64", usual, "'sum:of=tables/countsketch:rows=3'", True),
                (one + ",scope=run", usual, "'sum:of=tables/countsketch:rows=3'", True),
                ("countsketch:rows=3,cols=41", usual, "40 columns and 41 columns", False),
                ("countsketch:rows=3,cols=9%", usual, "40 columns and 45 columns", False)):
            paths = self.pair((one, usual), (scheme, options))
            with self.subTest(scheme=scheme, options=options):
                self.assertIn(f"{paths[1]}: ", self.refused(USAGE, "aggregate", *paths, "-o", out, says=says).err)
                self.refused(USAGE, "aggregate", *paths, "--exact-sum", "-o", self.dir / "p.npz", says=says)
                if apart:  # a mean of what each says, and that is told
                    self.assertIn("'w': not all are sketches of one",
                                  self.ok("aggregate", *paths, "-o", self.dir / "q.npz", "-f").err)
                    expected = mean_of([self.values(path)["w"] for path in paths]).astype("f4")
                    with np.load(self.dir / "q.npz") as made:
                        self.assert_same_bits(made["w"], expected)
                else:
                    self.refused(USAGE, "aggregate", *paths, "-o", self.dir / "p.npz", says=says)
        paths = self.pair((one + ",value=i64,exp=3", usual), (one + ",value=i64,exp=4", usual))
        self.refused(USAGE, "aggregate", *paths, "-o", out, says="exp=3")
        x = np.arange(500, dtype="f4")
        for arrays, says in (({"v": x}, "'v'"), ({"w": x.reshape(5, 100)}, "5x100"), ({"w": x[:499]}, "499")):
            paths = self.pair((one, usual), (one, usual), [{"w": x}, arrays])
            self.refused(BAD_INPUT, "aggregate", *paths, "-o", out, says=says)
        self.assertFalse(out.exists() or (self.dir / "p.npz").exists())
        self.assert_no_leftovers()

    def test_sketches_of_a_run_add_up_over_steps(self):
        scheme = "countsketch:rows=3,cols=40,scope=run"
        x = self.rng.integers(-99, 99, (2, 500)).astype("f4")
        paths = self.pair((scheme, ["--seed=1", "--step=2"]), (scheme, ["--seed=1", "--step=3"]),
                          [{"w": x[0]}, {"w": x[1]}])
        made = self.aggregate(*paths, "--sum", to="o.gradz")
        said = self.info(made)
        self.assertEqual((said["seed"], said.get("step"), said.get("worker")), (1, None, None))
        whole, _ = self.pair((scheme, ["--seed=1"]), (scheme, ["--seed=1"]), [{"w": x[0] + x[1]}] * 2)
        self.assert_same_bits(self.values(made)["w"], self.values(whole)["w"])
        paths = self.pair((scheme, ["--seed=1"]), (scheme, ["--seed=2"]))
        self.refused(USAGE, "aggregate", *paths, "-o", self.dir / "p.gradz", says="another seed")

    def test_no_cell_wraps_around(self):
        """2^61 units each: what 63 bits do not hold is refused, and only the total counts, not the way to it."""
        scheme = "countsketch:rows=1,cols=1,value=i64,exp=149"
        x = np.float32(2.0**-88)
        paths = [self.compress(self.npz({"w": np.array([sign * x])}, f"x{i}.npz"), "--scheme", scheme, "--seed=1",
                               f"--worker={i}", to=self.dir / f"{i}.gradz") for i, sign in enumerate((1, 1, 1, 1, -1))]
        for count in (4, 5):
            for order in itertools.islice(itertools.permutations(range(count)), 0, None, 2 if count == 4 else 11):
                given = [paths[i] for i in order]
                result = support.run("aggregate", *given, "--sum", "-f", "-q", "-o", self.dir / "o.gradz")
                self.assertEqual(result.code, LIMIT if count == 4 else OK, result.err)
                if count == 5:
                    self.assert_same_bits(self.values(self.dir / "o.gradz")["w"], np.array([3.0 * float(x)]))
            if count == 4:
                self.refused(LIMIT, "aggregate", *paths[:4], "-o", self.dir / "p.gradz",
                             says=f"{paths[3]}: tensor 'w': with it a cell of the sum of sketches would pass 63 bits")
                self.refused(LIMIT, "aggregate", *paths[:4], "-o", self.dir / "p.npz", says="63 bits")
        self.refused(LIMIT, "aggregate", paths[0], "--weights=4", "-o", self.dir / "p.gradz", says="63 bits")
        self.refused(LIMIT, "aggregate", *[paths[0]] * 2, "--weights=9007199254740991,2", "-o", self.dir / "p.gradz",
                     says="2^53")
        big = [self.compress(self.npz({"w": np.float32([8e37])}), "--scheme=countsketch:rows=1,cols=1", "--seed=1",
                             f"--worker={i}", to=self.dir / f"{i}.gradz") for i in range(5)]
        self.ok("aggregate", *big[:4], "-o", self.dir / "q.gradz", "-q")
        self.refused(LIMIT, "aggregate", *big, "-o", self.dir / "p.gradz", says=f"{big[4]}: tensor 'w': with it")
        self.assertFalse((self.dir / "p.gradz").exists() or (self.dir / "p.npz").exists())

    def test_info_stats_and_verify_read_it(self):
        packed = self.aggregate(*self.sketched(",value=i64"), to="o.gradz")
        said = self.info(packed, "--test")
        self.assertEqual((said["kind"], said["step"], said["seed"], said.get("worker")), ("sum", 5, 3, None))
        self.ok("stats", packed)
        self.assertIn("canonical", self.ok("verify", packed, "--strict").out.decode())
        self.refused(BAD_INPUT, "decompress", self.write(packed.read_bytes()[:-9], "cut.gradz"), "-o", self.dir / "o.npz")
        symbols = self.aggregate(*self.messages("maxnorm", options=["--shared-scale=90"]), to="s.gradz")
        self.ok("verify", symbols, "--strict")

    def test_equal_keys_are_no_matter(self):
        """All workers of a step share the hashes: that is what makes tables add up."""
        paths = self.pair(("countsketch:rows=1,cols=9", ["--seed=1"]), ("countsketch:rows=1,cols=9", ["--seed=1"]))
        for out in ("o.npz", "o.gradz"):
            self.assertNotIn("same", self.ok("aggregate", *paths, "-o", self.dir / out).err)

    def test_hdf5_and_types(self):
        paths = self.sketched(",value=i64", 2, lambda i: {"h": self.rng.standard_normal(300).astype("f2"),
                                                          "d": self.rng.standard_normal(300), "n": np.arange(4)})
        made = self.aggregate(*paths)
        self.assertEqual({name: x.dtype for name, x in made.items()}, {"h": "f2", "d": "f8", "n": "i8"})
        file = self.aggregate(*paths, to="o.gradz")
        self.assert_same_bits(self.decompress(file, suffix=".npz")["d"], made["d"])
        wide = self.aggregate(file, "--dtype=f8")
        self.assert_same_bits(wide["h"], self.values(file)["h"])
        self.ok("aggregate", *paths, "-o", self.dir / "o.h5", "-q")
        message = self.aggregate(*paths, "--scheme=raw", to="m.gradz")
        self.assert_same_bits(self.decompress(message, suffix=".npz")["d"], made["d"])

    def test_256_tables_in_the_memory_of_a_few(self):
        if support.SANITIZED:
            self.skipTest("sanitizers take memory of their own")
        x = self.rng.standard_normal(1 << 19).astype("f4")
        paths = [self.compress(self.npz({"w": x * np.float32(i + 1)}), "--scheme=countsketch:rows=3,cols=262144",
                               "--seed=1", f"--worker={i}", to=self.dir / f"{i}.gradz") for i in range(4)]
        for out in ("o.gradz", "o.npz"):  # a table is 3 MiB, 256 of them 768
            result = support.run("aggregate", *paths * 64, "-T1", "-q", "-o", self.dir / out, memory=160 << 20)
            self.assertEqual(result.code, OK, result.err)
        whole, = self.values(self.dir / "o.gradz").values()
        with np.load(self.dir / "o.npz") as made:
            self.assert_same_bits(made["w"], whole.astype("f4"))


class Refusals(Aggregate):
    def together(self, first, second, code, says, *options):
        """Two dumps that do not go together, and the second file is named."""
        a = self.compress(self.npz(first, "a.npz"), "--seed=1", "--worker=1", "--scheme=dqsg:levels=3")
        b = self.compress(self.npz(second, "b.npz"), "--seed=1", "--worker=2", "--scheme=dqsg:levels=3", *options)
        result = self.refused(code, "aggregate", a, b, "-o", self.dir / "o.npz", says=says)
        self.assertIn(f"{b}: ", result.err)
        self.assertFalse((self.dir / "o.npz").exists())
        self.assert_no_leftovers()

    def test_messages_that_do_not_go_together(self):
        w, b = np.ones((2, 3), np.float32), np.ones(4, np.float32)
        one = {"w": w, "b": b}
        self.together(one, {"w": w, "c": b}, BAD_INPUT, "'c'")
        self.together(one, {"w": w.T, "b": b}, BAD_INPUT, "3x2")
        self.together(one, {"w": w.astype(np.float16), "b": b}, BAD_INPUT, "f2 2x3")
        self.together(one, {"b": b, "w": w}, BAD_INPUT, "same order")
        self.together(one, {"w": w}, BAD_INPUT, "'b'")
        self.together(one, {**one, "z": b}, BAD_INPUT, "'z'")
        self.together(one, one, BAD_INPUT, "--chunk-log2", "--chunk-log2=12")
        self.together({"n": np.arange(3)}, {"n": np.arange(3) + 1}, BAD_INPUT, "type i8")

    def test_other_files_among_the_inputs(self):
        path, = self.messages("dqsg:levels=3", 1)
        out = self.dir / "o.npz"
        dump = self.dir / "x0.npz"
        self.refused(BAD_INPUT, "aggregate", path, dump, "-o", out, says=f"{dump}: is a dump")
        self.ok("info", path, "--schema-out", self.dir / "s")
        self.refused(USAGE, "aggregate", path, self.dir / "s", "-o", out, says="schema file")
        self.refused(BAD_INPUT, "aggregate", path, self.write(b"", "empty"), "-o", out, says="empty")
        self.ok("decompress", path, "--top=1", "--indices", self.dir / "set", "-q")
        self.refused(USAGE, "aggregate", self.dir / "set", "-o", out, says="is an index set")
        self.refused(support.IO_FAILURE, "aggregate", path, self.dir / "none", "-o", out, says="none")
        twice = self.write(path.read_bytes() * 2, "twice.gradz")
        self.refused(BAD_INPUT, "aggregate", path, twice, "-o", out, says=f"{twice}: is damaged")

    def test_one_damaged_input_of_five_leaves_no_output(self):
        paths = self.messages("dqsg:levels=3", options=["--chunk-log2=12"])
        whole = paths[3].read_bytes()
        cases = [("cut", whole[:-1])] + [(f"byte {at}", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
                                         for at in (20, len(whole) // 2, len(whole) - 40, len(whole) - 1)]
        for threads in ("-T1", "-T4"):
            for output in ("o.npz", "o.npy.gradz"):
                more = ["--scheme=dqsg:levels=3"] if output.endswith(".gradz") else []
                for name, data in cases:
                    with self.subTest(case=name, threads=threads, output=output):
                        paths[3].write_bytes(data)
                        self.refused(BAD_INPUT, "aggregate", *paths, threads, "-o", self.dir / output, *more,
                                     says=f"{paths[3]}: ")
                        self.assertFalse((self.dir / output).exists())
                        self.assert_no_leftovers()

    def test_the_output(self):
        paths = self.messages("dqsg:levels=3", 2)
        out = self.dir / "o.npz"
        out.write_bytes(b"mine")
        self.refused(USAGE, "aggregate", *paths, "-o", out, says="-f")
        self.assertEqual(out.read_bytes(), b"mine")
        self.ok("aggregate", *paths, "-o", out, "-f", "-q")
        for path in paths:
            self.refused(USAGE, "aggregate", *paths, "-o", path, "-f", "--scheme=raw", says="one of the files that are read")
        self.refused(USAGE, "aggregate", *paths, says="--output")
        paths[1].chmod(0o600)
        self.ok("aggregate", *paths, "-o", self.dir / "p.npz", "-q")
        self.assertEqual((self.dir / "p.npz").stat().st_mode & 0o777, 0o600)

    def test_options(self):
        paths = self.messages("maxnorm", 2, options=["--shared-scale=9"])
        out, message = self.dir / "o.npz", self.dir / "o.gradz"
        for call, says in ((["--weights=1"], "1 numbers for 2"), (["--weights=1,0"], "between 0"),
                           (["--weights=1,-1"], "--weights"), (["--weights=1,"], "--weights"),
                           (["--weights=1,nan"], "--weights"), (["--seed=1"], "--scheme"), (["--dtype=i4"], "--dtype"),
                           (["--scheme=raw"], "not a dump"), (["--coder=pack"], ".gradz")):
            self.refused(USAGE, "aggregate", *paths, *call, "-o", out, says=says)
        self.refused(USAGE, "aggregate", *paths, "-o", message, "--dtype=f4", says="--dtype")
        self.refused(USAGE, "aggregate", *paths, "-o", message, "--scheme=sum", says="aggregate makes")
        self.refused(USAGE, "compress", self.dir / "x0.npz", "-o", message, "--scheme=sum", says="aggregate makes")
        self.ok("aggregate", *paths, "-o", self.dir / "any", "--to=gradz", "--metadata={\"a\":1}", "--level=1", "-q")
        self.assertEqual(self.info(self.dir / "any")["metadata"]["user"], {"a": 1})

    def test_equal_keys_are_told(self):
        arrays = {"w": np.float32([1, 2, 3])}
        paths = [self.compress(self.npz(arrays), "--scheme=dqsg:levels=3", "--seed=1", f"--worker={w}",
                               to=self.dir / f"{i}.gradz") for i, w in enumerate((1, 2, 1, 1))]
        said = self.ok("aggregate", *paths, "-o", self.dir / "o.npz").err
        self.assertIn(f"'{paths[0]}', '{paths[2]}' and '{paths[3]}' have the same seed, worker and step", said)
        said = self.ok("aggregate", *paths[:2], "-o", self.dir / "o.npz", "-f").err
        self.assertNotIn("same seed", said)
        raw = self.compress(self.npz(arrays), "--scheme=raw", to=self.dir / "raw.gradz")
        self.assertNotIn("same seed", self.ok("aggregate", raw, raw, "-o", self.dir / "o.npz", "-f").err)


class Hostile(Aggregate):
    """Sums that no program wrote."""

    def sum_file(self, payload, text="sum", kind=5, dtype=gz.F4, count=2, seed=None):
        writer = gz.Writer(kind=kind)
        writer.block(gz.SCHEMA, gz.schema([gz.Tensor("x", dtype, (count,))], ((text, gz.PACK),)))
        writer.block(gz.MESSAGE, gz.message(seed)).frame(payload)
        return self.write(writer.end(), "hostile.gradz")

    @staticmethod
    def params(weight=2, factor=0.5, level=6, steps=(1.0,)):
        out = gz.varint(weight) + struct.pack("<d", factor) + gz.varint(level) + bytes([len(steps)])
        return out + b"".join(struct.pack("<f", step) for step in steps)

    def test_sums_are_checked(self):
        good = self.params() + bytes([13 * 7 + 5])
        path = self.sum_file(good)
        self.assert_same_bits(self.decompress(path, suffix=".npz")["x"], np.float32([-0.5, 0.5]))
        symbols = bytes([13 * 6 + 6])
        cases = {"weight 0": self.params(weight=0) + symbols, "weight": self.params(weight=2**53 + 1) + symbols,
                 "factor": self.params(factor=0.25) + symbols, "factor nan": self.params(factor=np.nan) + symbols,
                 "M": self.params(level=32768) + symbols, "no scales": self.params(steps=()),
                 "nine scales": self.params(steps=[2.0**-i for i in range(9)]) + symbols,
                 "steps that rise": self.params(steps=(1, 2)) + b"\1" + symbols + symbols,
                 "a step twice": self.params(steps=(1, 1)) + b"\1" + symbols + symbols,
                 "steps of 0 beside others": self.params(steps=(1, 0)) + b"\1" + symbols + symbols,
                 "a negative step": self.params(steps=(-1,)) + symbols,
                 "a huge one": self.params(steps=(2.0**126,)) + symbols,
                 "a sum of zeros": self.params(steps=(0,)) + bytes([13 * 7 + 6]), "bytes behind": good + b"\0",
                 "too short": good[:-1]}
        for name, payload in cases.items():
            with self.subTest(case=name):
                path = self.sum_file(payload)
                self.refused(BAD_INPUT, "info", "--test", path)
                self.refused(BAD_INPUT, "decompress", path, "-o", self.dir / "o.npz")
                self.refused(BAD_INPUT, "aggregate", path, "-o", self.dir / "o.npz", says=str(path))

    def test_values_are_checked(self):
        for value, code in ((1.5, OK), (-0.0, BAD_INPUT), (np.nan, BAD_INPUT), (np.inf, BAD_INPUT), (1e300, BAD_INPUT)):
            data = struct.pack("<d", value)
            payload = gz.varint(1) + struct.pack("<d", 1) + b"\1" + data[7:] + b"\1" + data[6:7] + data[:6]
            path = self.sum_file(payload, "sum:of=values", count=1)
            self.assertEqual(support.run("info", "--test", path).code, code, value)

    def test_kinds_have_the_schemes_that_are_theirs(self):
        good = self.params() + bytes([13 * 7 + 5])
        for command in (["info"], ["info", "--test"], ["stats"], ["decompress", "-o", self.dir / "o.npz"],
                        ["aggregate", "-o", self.dir / "o.npz"]):
            self.refused(BAD_INPUT, *command, self.sum_file(good, kind=1), says="no sum")
            ternary = self.sum_file(struct.pack("<f", 1) + b"\4", text="dqsg:levels=3", seed=7)
            self.refused(BAD_INPUT, *command, ternary, says="is a sum")
            self.refused(BAD_INPUT, *command, self.sum_file(b"\0" * 8, text="raw"), says="is a sum")
        self.refused(BAD_INPUT, "info", self.sum_file(good, text="sum:of=symbols"), says="canonical")

    def table_sum(self, payload, text="sum:of=tables/countsketch:rows=1", **options):
        return self.sum_file(payload, text, seed=7, **options)

    def test_sums_of_tables_are_checked(self):
        head = lambda weight=2, factor=0.5: gz.varint(weight) + struct.pack("<d", factor)  # noqa: E731
        table = gz.varint(1) + struct.pack("<f", 3)
        path = self.table_sum(head() + table)
        values = self.decompress(path, suffix=".npz")["x"]
        self.assert_same_bits(np.abs(values), np.float32([1.5, 1.5]))
        self.assertEqual(self.info(path)["tensors"][0]["parameters"], "mean of 2 messages, 1 rows of 1")
        whole = gz.varint(1) + b"\1\3"
        self.ok("info", "--test", self.table_sum(head() + whole, "sum:of=tables/countsketch:rows=1,value=i64,exp=1"))
        cases = {"weight 0": (head(0, 1) + table,), "weight": (head(2**53 + 1, 1) + table,),
                 "factor": (head(2, 0.25) + table,), "factor nan": (head(2, np.nan) + table,),
                 "no table": (head(),), "cut": (head() + table[:-1],), "bytes behind": (head() + table + b"\0",),
                 "no columns": (head() + b"\0",), "columns": (head() + gz.varint(3) + 12 * b"\0",),
                 "-0": (head() + gz.varint(1) + struct.pack("<f", -0.0),),
                 "too wide": (head() + gz.varint(1) + b"\2\3\0", "sum:of=tables/countsketch:rows=1,value=i64,exp=1"),
                 "no sketch": (head() + table, "sum:of=tables"), "symbols": (head() + table, "sum/countsketch:rows=1"),
                 "values": (head() + table, "sum:of=values/countsketch:rows=1"),
                 "of others": (head() + table, "sum:of=tables/maxnorm"),
                 "of sums": (head() + table, "sum:of=tables/sum:of=tables/countsketch:rows=1"),
                 "below": (head() + table, "randk:shared=yes/sum:of=tables/countsketch:rows=1"),
                 "over": (head() + table, "sum:of=tables/randk/countsketch:rows=1")}
        for name, arguments in cases.items():
            with self.subTest(case=name):
                path = self.table_sum(*arguments)
                for command in (["info", "--test"], ["stats"], ["decompress", "-o", self.dir / "o.npz"],
                                ["aggregate", "-o", self.dir / "o.npz"], ["aggregate", "-o", self.dir / "o.gradz"],
                                ["decompress", "--top=1", "-o", self.dir / "o.npz"]):
                    self.refused((BAD_INPUT, USAGE) if command[0] == "aggregate" else BAD_INPUT, *command, path)
        for command in (["info"], ["decompress", "-o", self.dir / "o.npz"], ["aggregate", "-o", self.dir / "o.npz"]):
            self.refused(BAD_INPUT, *command, self.table_sum(head() + table, kind=1), says="no sum")
            self.refused(BAD_INPUT, *command, self.table_sum(table, "countsketch:rows=1"), says="is a sum")

    def test_sums_have_no_exceptions(self):
        nan = gz.varint(1) + gz.varint(0) + struct.pack("<I", 0x7FC00000)
        head = gz.varint(2) + struct.pack("<d", 0.5)
        for text, before, after in (("sum:of=tables/countsketch:rows=1", head + gz.varint(1) + struct.pack("<f", 3), b""),
                                    ("sum", self.params(), bytes([13 * 7 + 5]))):
            writer = gz.Writer(kind=5)
            writer.block(gz.SCHEMA, gz.schema([gz.Tensor("x", gz.F4, (2,))], ((text, gz.PACK),)))
            writer.block(gz.MESSAGE, gz.message(None if text == "sum" else 7))
            writer.frame(before + nan + after, exceptions=True)
            path = self.write(writer.end(), "hostile.gradz")
            for command in (["info", "--test"], ["decompress", "-o", self.dir / "o.npz"],
                            ["aggregate", "-o", self.dir / "o.npz"], ["aggregate", "-o", self.dir / "o.gradz"]):
                self.refused(BAD_INPUT, *command, path, says="exceptions")

    def test_memory_stays_bounded(self):
        """64 files whose chunks are 4 MiB of float32 each, in less memory than eight of them take."""
        if support.SANITIZED:
            self.skipTest("sanitizers take memory of their own")
        paths = self.messages("dqsg:levels=3", 8, lambda i: {"w": self.rng.standard_normal(1 << 21).astype("f4")},
                              ["--chunk-log2=20"])
        result = support.run("aggregate", *paths * 8, "-T1", "-q", "-o", self.dir / "o.npz", memory=160 << 20)
        self.assertEqual(result.code, OK, result.err)
        self.refused(LIMIT, "aggregate", *paths, "--memory=1M", "-o", self.dir / "p.npz", says="--memory")


if __name__ == "__main__":
    unittest.main()
