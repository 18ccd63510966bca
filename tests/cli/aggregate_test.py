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
            self.refused(USAGE, "aggregate", *paths, "-o", path, "-f", "--scheme=raw", says="input itself")
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
