#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verify as its users run it: honest schemes pass, wrong files do not, and what cannot be shown is said."""
import json
import struct

import numpy as np

import container as gz
import support
from container import F4, PACK, Tensor
from support import BAD_INPUT, CHECK_FAILED, DATA, IO_FAILURE, LIMIT, MIB, OK, USAGE

FC = DATA / "fc.h5"
CHANCE = {"bias overall", "linear x", "linear x/var", "linear 1", "linear sign", "linear |x|", "coordinate", "variance",
          "var |x|", "uniformity"}


def strict_json(text):
    """NaN and infinity are not JSON, though Python reads them."""
    def refuse(name):
        raise ValueError(name)
    return json.loads(text, parse_constant=refuse)


def heavy(n, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.laplace(size=n) * 1e-3 * rng.integers(0, 2, n)).astype("f4")


class Verify(support.CliTest):
    def report(self, code, *args, **options):
        result = support.run("verify", *args, "--json", "-q", **options)
        self.assertEqual(result.code, code, f"verify {' '.join(map(str, args))}\n{result.err}\n{result.out[-2000:]}")
        return strict_json(result.out)

    def checks(self, report, tensor, stage=None):
        for entry in report["tensors"]:
            if entry["tensor"] == tensor and entry["stage"] == stage:
                return {check["check"]: check for check in entry["checks"]}
        self.fail(f"no {tensor}, {stage} in the report")

    def assert_honest(self, report):
        self.assertNotEqual(report["verdict"], "broken", report["summary"])
        for entry in report["tensors"]:
            self.assertIsNone(entry["reason"])
            for check in entry["checks"]:
                self.assertNotEqual(check["verdict"], "broken", (entry["tensor"], check))


class Schemes(Verify):
    def test_a_real_gradient_keeps_the_promises(self):
        report = self.report(OK, FC, "--scheme", "dqsg:levels=5", "--trials", 64, "--seed", 1)
        self.assert_honest(report)
        self.assertEqual((report["trials"], report["alpha"], report["seed"]), (64, 1e-6, 1))
        self.assertEqual([t["tensor"] for t in report["tensors"]], sorted(support.real_gradient()))
        checks = self.checks(report, "fc1.weight")
        self.assertLessEqual(CHANCE | {"lag 1", "lag 784", "between tensors", "support"}, set(checks))
        for name in ("bias overall", "linear x", "variance"):
            self.assertEqual(checks[name]["verdict"], "kept")
            self.assertLessEqual(checks[name]["smallest"], checks[name]["margin"])
        for name in ("parameters", "decoder", "overload", "support", "variance bound"):
            self.assertEqual(checks[name]["verdict"], "proved")
        # What is measured is what NumPy measures: step^2/12 = (max/2)^2/12 for each element.
        x = support.real_gradient()["fc1.weight"].astype("f8")
        entry = next(t for t in report["tensors"] if t["tensor"] == "fc1.weight")
        self.assertAlmostEqual(entry["variance"] / (x.size * (np.abs(x).max() / 2) ** 2 / 12), 1, delta=1e-6)
        self.assertAlmostEqual(entry["norm"] / np.linalg.norm(x.ravel()), 1, delta=1e-12)

    def test_small_tensors_are_undecided_and_said_to_be(self):
        report = self.report(OK, FC, "--scheme", "dqsg:levels=5", "--seed", 1)
        bias = self.checks(report, "fc3.bias")["bias overall"]
        self.assertEqual(bias["verdict"], "undecided")
        self.assertGreater(bias["trials_needed"], 64)
        self.assertEqual(report["verdict"], "undecided")
        self.assertIn("--trials", report["summary"])
        self.report(CHECK_FAILED, FC, "--scheme", "dqsg:levels=5", "--seed", 1, "--strict")
        # With what it asks for, that one is decided.
        more = self.report(OK, self.npy(support.real_gradient()["fc3.bias"]), "--scheme", "dqsg:levels=5", "--seed", 1,
                           "--trials", bias["trials_needed"])
        self.assertEqual(self.checks(more, "array")["bias overall"]["verdict"], "kept")

    def test_threads_and_repetition_change_nothing(self):
        dump = self.npz({"a": heavy(30000), "b": heavy(9000, 2).astype("f8"), "c": heavy(5000, 3).astype("f2")})
        args = (dump, "--scheme", "dither:nmse=0.1,bucket=100", "--trials", 5, "--seed", 4, "--chunk-log2", 12)
        one, again, four = (self.report(OK, *args, "-T", n) for n in (1, 1, 4))
        self.assertEqual(one, again)
        self.assertEqual(one, four)
        other = self.report(OK, *args[:-3], 5, "--chunk-log2", 12)
        self.assertNotEqual(one["tensors"], other["tensors"])

    def test_every_type_and_its_narrowing(self):
        x = heavy(6000)
        dump = self.npz({"f8": x.astype("f8"), "f2": (x * 64).astype("f2"), "i4": np.arange(5, dtype="i4"),
                         "bf16": (x.view("u4") >> 16).astype("u2")})
        report = self.report(OK, dump, "--as-bf16", "--seed", 3, "--trials", 16)
        self.assert_honest(report)
        stages = {(t["tensor"], t["stage"]) for t in report["tensors"]}
        self.assertEqual(stages, {("f8", None), ("f2", None), ("f2", "narrowed to f2"), ("i4", None), ("bf16", None),
                                  ("bf16", "narrowed to bf16")})
        self.assertEqual(self.checks(report, "i4")["exact"]["verdict"], "proved")
        for tensor, stage in (("f2", "narrowed to f2"), ("bf16", "narrowed to bf16")):
            checks = self.checks(report, tensor, stage)
            self.assertEqual(checks["support"]["verdict"], "proved")
            self.assertIn(checks["linear x"]["verdict"], ("kept", "undecided"))
            self.assertEqual(checks["coordinate"]["verdict"], "not covered")

    def test_what_f2_cannot_hold_is_said(self):
        x = np.full(500, 65000, "f2")
        x[::2] = 1
        report = self.report(OK, self.npy(x), "--scheme", "dqsg:levels=3", "--seed", 1, "--trials", 4)
        overload = self.checks(report, "array", "narrowed to f2")["overload"]
        self.assertEqual(overload["verdict"], "not covered")
        self.assertIn("--dtype f4", overload["note"])

    def test_values_that_are_kept(self):
        x = heavy(5000)
        x[[7, 4999]] = np.nan, -np.inf
        path = self.npy(x)
        self.refused(BAD_INPUT, "verify", path, "--seed", 1, says="element 7")
        for scheme in ("dqsg:levels=3", "dither:nmse=0.1,bucket=7", "dither:step=1e-9"):
            self.assert_honest(self.report(OK, path, "--nonfinite", "keep", "--scheme", scheme, "--trials", 8, "--seed", 1))

    def test_what_is_not_finite_is_kept_by_16_bit_types(self):
        x = (heavy(1000) * 64).astype("f2")
        x[[3, 500, 999]] = np.nan, np.inf, -np.inf
        report = self.report(OK, self.npy(x), "--nonfinite", "keep", "--scheme", "dqsg:levels=5", "--trials", 8, "--seed", 1)
        self.assert_honest(report)
        self.assertEqual(self.checks(report, "array", "narrowed to f2")["support"]["verdict"], "proved")

    def test_nothing_tested_is_not_kept(self):
        for array in (np.arange(10), np.zeros(0, "i4"), np.arange(10, dtype="u2")):
            path = self.npy(array)
            self.assertEqual(self.report(OK, path, "--seed", 1)["verdict"], "nothing tested")
            self.report(CHECK_FAILED, path, "--seed", 1, "--strict")
            self.assertIn("nothing to test", self.ok("verify", path, "--seed", 1).out.decode())
        self.assertEqual(self.report(OK, path, "--scheme", "raw", "--strict")["verdict"], "kept")

    def test_another_dump_of_the_same_names_is_not_called_tested(self):
        packed = self.compress(self.npy(np.ones(50, np.float32)), "--scheme=dqsg:levels=3")
        other = self.npy(np.ones(50, np.float16), "other.npy")
        self.assertIn("NOTHING COMPARED", self.ok("verify", packed, "--against", other).out.decode())

    def test_what_float32_hides_is_said(self):
        report = self.report(OK, self.npy(heavy(3000)), "--scheme", "dqsg:levels=65535", "--seed", 1, "--margin", 1e-9)
        checks = self.checks(report, "array")
        self.assertEqual(checks["linear x"]["verdict"], "below resolution")

    def test_the_trials_that_are_asked_for_decide(self):
        path = self.npy(np.concatenate([heavy(300), np.float32([2e-3])]))
        for scheme in ("dqsg:levels=5", "dither:nmse=0.3"):
            first = self.report(OK, path, "--scheme", scheme, "--seed", 1, "--trials", 16)
            needed = max(c["trials_needed"] or 0 for c in first["tensors"][0]["checks"])
            self.assertGreater(needed, 16)
            self.assertEqual(self.report(OK, path, "--scheme", scheme, "--seed", 2, "--trials", needed)["verdict"], "kept")

    def test_an_error_leaves_no_half_document(self):
        path = self.npz({"a": heavy(100), "b": np.float32([1, np.nan])})
        result = self.refused(BAD_INPUT, "verify", path, "--json", "--seed", 1)
        self.assertEqual(result.out, b"")
        many = self.npz({**{f"a{i:02}": heavy(100) for i in range(12)}, "z": np.float32([np.nan])}, "many.npz")
        self.assertIn(b"a05", self.refused(BAD_INPUT, "verify", many, "--seed", 1, "-T1").out)

    def test_quiet_is_for_scripts(self):
        text = self.ok("verify", self.npy(heavy(1000)), "--seed", 1, "-q").out.decode()
        self.assertLess(len(text.splitlines()), 5)

    def test_clipping_is_tested_against_the_clipped_values(self):
        x = heavy(20000)
        report = self.report(OK, self.npy(x), "--scheme", "dqsg:levels=5,clip=2.5", "--seed", 1)
        self.assert_honest(report)
        clip = np.float32(2.5 * x.astype("f8").std())
        moved = ((x.astype("f8") - np.clip(x, -clip, clip).astype("f8")) ** 2).sum() / (x.astype("f8") ** 2).sum()
        self.assertAlmostEqual(report["tensors"][0]["moved_by_clipping"] / moved, 1, delta=1e-5)
        bias = ((np.clip(x, -clip, clip).astype("f8") - x) * x).sum() / (x.astype("f8") ** 2).sum()
        self.assertAlmostEqual(report["tensors"][0]["bias_of_clipping"] / bias, 1, delta=1e-5)
        self.assertIn("clipping moves", report["summary"])

    def test_odd_tensors_neither_fool_nor_crash_it(self):
        outlier = np.zeros(5000, "f4")
        outlier[1234] = 3e37
        dump = self.npz({"one": np.float32([0.7]), "none": np.zeros((0, 3), "f4"), "zeros": np.zeros(9000, "f4"),
                         "scalar": np.float32(3), "equal": np.full(9000, -0.3, "f4"), "outlier": outlier,
                         "denormals": (np.arange(-3000, 3000) * 1e-45).astype("f4"), "huge": np.float32([3e38, -1, 2]),
                         "wide": np.logspace(-38, 37, 4000).astype("f4")})
        for scheme in ("dqsg:levels=3", "dqsg:levels=65535", "dither:nmse=0.1", "dither:nmse=1e-6,bucket=64"):
            for trials in (1, 2, 33):
                self.assert_honest(self.report(OK, dump, "--scheme", scheme, "--trials", trials, "--seed", 2))

    def test_many_tensors_get_a_line_each(self):
        dump = self.npz({f"layer{i:03}": heavy(300, i) for i in range(40)})
        text = self.ok("verify", dump, "--seed", 1, "--trials", 4).out.decode()
        self.assertLess(len(text.splitlines()), 60)
        for i in range(40):
            self.assertIn(f"layer{i:03}", text)
        full = self.ok("verify", dump, "--seed", 1, "--trials", 4, "-v").out.decode()
        self.assertGreaterEqual(full.count("independent at distance 16"), 40)

    def test_pipes(self):
        data = self.npy(heavy(1000)).read_bytes()
        named = self.ok("verify", self.dir / "x.npy", "--seed", 1, "-q").out.decode().splitlines()[-1]
        self.assertEqual(self.ok("verify", "-", "--seed", 1, "-q", stdin=data).out.decode().splitlines()[-1], named)

    def test_memory_does_not_grow_with_trials(self):
        if support.SANITIZED:
            self.skipTest("sanitizers need address space")
        path = self.npy(np.tile(heavy(100000), 20))  # 2 M values, 8 MB
        for trials in (2, 12):
            self.ok("verify", path, "--seed", 1, "--trials", trials, "-T1", memory=320 * MIB)
        self.refused(LIMIT, "verify", path, "--seed", 1, "--memory", "16M", says="--memory")

    def test_wrong_use(self):
        path = self.npy(heavy(10))
        for args in (["--trials", 0], ["--trials", "1e3"], ["--alpha", 0], ["--alpha", 1], ["--alpha", "nan"],
                     ["--margin", "-1"], ["--messages", 0], ["--scheme", "none"], ["--against", path],
                     ["--worker", 2 ** 32 - 1, "--trials", 2], ["--include", "nothing"]):
            self.refused(USAGE, "verify", path, *args)


class Files(Verify):
    def setUp(self):
        super().setUp()
        self.x = heavy(20000)
        self.dump = self.npy(self.x)

    def test_a_file_alone(self):
        file = self.compress(self.dump, "--seed", 1)
        report = self.report(OK, file)
        self.assertEqual((report["integrity"], report["digests"], report["departures"], report["tensors"]),
                         ("proved", "proved", [], []))
        self.assertEqual(report["verdict"], "intact")
        self.assertIn("canonical", self.ok("verify", file, "--strict").out.decode())
        self.assertEqual(self.ok("verify", "-", "-q", stdin=file.read_bytes()).code, OK)
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        self.refused(BAD_INPUT, "verify", self.write(damaged), says="damaged")

    def test_a_file_against_its_dump(self):
        file = self.compress(self.dump, "--seed", 1, "--scheme", "dqsg:levels=255", "--chunk-log2", 12)
        report = self.report(OK, file, "--against", self.dump)
        self.assert_honest(report)
        checks = self.checks(report, "array")
        for name in ("bias overall", "coordinate"):
            self.assertEqual((checks[name]["verdict"], checks[name]["note"]), ("not covered", "one sample cannot show it"))
        self.assertEqual(checks["variance bound"]["verdict"], "not covered")
        # What it measured is what NumPy measures.
        y = self.decompress(file).astype("f8")
        x = self.x.astype("f8")
        step = np.float64(np.float32(np.abs(x).max() / 127))
        self.assertAlmostEqual(checks["linear x"]["measured"], ((y - x) * x).sum() / (x * x).sum(), delta=1e-12)
        self.assertAlmostEqual(checks["variance"]["measured"], ((y - x) ** 2).sum() / (x.size * step ** 2 / 12), delta=1e-6)
        told = self.checks(self.report(OK, file, "--against", self.dump, "--scheme", "dqsg:levels=255"), "array")
        self.assertEqual(told["variance bound"]["verdict"], "proved")

    def test_another_dump_is_seen(self):
        file = self.compress(self.dump, "--seed", 1, "--scheme", "dqsg:levels=255")
        other = self.x.copy()
        other[777] += np.float32(0.02) * np.abs(self.x).max()
        report = self.report(CHECK_FAILED, file, "--against", self.npy(other, "other.npy"))
        self.assertEqual(report["tensors"][0]["reason"], "support")
        self.assertIn("element 777", self.checks(report, "array")["support"]["note"])
        # A smaller change everywhere, that leaves each error within its law: a bias of 2 %.
        report = self.report(CHECK_FAILED, self.compress(self.npy(self.x * np.float32(1.02), "scaled.npy"), "--seed", 1,
                                                         "--scheme", "dither:nmse=0.001"), "--against", self.dump)
        self.assertIn(report["tensors"][0]["reason"], ("support", "linear x"))

    def test_names_and_shapes_of_the_dump(self):
        file = self.compress(self.npz({"a": self.x, "b": self.x[:5], "c": np.arange(4)}), "--seed", 1)
        report = self.report(OK, file, "--against", self.npz({"a": self.x, "c": np.arange(4), "z": self.x}, "less.npz"))
        self.assertEqual(self.checks(report, "b")["exact"]["note"], "the dump has no such tensor")
        self.assertEqual(self.checks(report, "c")["exact"]["verdict"], "proved")
        report = self.report(CHECK_FAILED, file, "--against",
                             self.npz({"a": self.x, "b": self.x[:5], "c": np.array([0, 1, 2, 7])}, "other.npz"))
        self.assertEqual([t["reason"] for t in report["tensors"]], [None, None, "exact"])
        self.assertIn("element 3", self.checks(report, "c")["exact"]["note"])
        self.assertEqual((report["tensors_tested"], report["tensors_by_raw"], report["tensors_not_compared"]), (2, 1, 0))
        less = self.report(OK, file, "--against", self.dir / "less.npz")
        self.assertEqual((less["tensors_not_compared"], less["verdict"]), (2, "undecided"))  # b, and z of the dump
        self.report(CHECK_FAILED, file, "--against", self.dir / "less.npz", "--strict")
        self.refused(BAD_INPUT, "verify", file, "--against", self.npz({"m/a": self.x}, "renamed.npz"), says="other names")
        wide = self.npz({"a": self.x.astype("f8"), "b": self.x[:5], "c": np.arange(4)}, "wide.npz")
        self.assertIn("another type", self.checks(self.report(OK, file, "--against", wide), "a")["exact"]["note"])
        self.refused(BAD_INPUT, "verify", file, "--against",
                     self.npz({"a": self.x[:-1], "b": self.x[:5], "c": np.arange(4)}, "short.npz"), says="'a'")

    def test_a_clipped_file_needs_to_be_told(self):
        file = self.compress(self.dump, "--seed", 1, "--scheme", "dqsg:levels=5,clip=2")
        checks = self.checks(self.report(OK, file, "--against", self.dump), "array")
        self.assertEqual(checks["overload"]["verdict"], "not covered")
        self.assertIn("--scheme", checks["overload"]["note"])
        told = self.report(OK, file, "--against", self.dump, "--scheme", "dqsg:levels=5,clip=2")
        self.assertEqual(self.checks(told, "array")["overload"]["verdict"], "proved")
        wrong = self.report(CHECK_FAILED, file, "--against", self.dump, "--scheme", "dqsg:levels=5")
        self.assertEqual(wrong["tensors"][0]["reason"], "parameters")

    def test_a_stored_step_that_is_too_small(self):
        """A file right in every check whose step is one per cent small: what no checksum can see."""
        x = np.float32(np.r_[np.linspace(-1, 1, 999)])
        symbols = np.full(999, 1)  # all 0: the errors are the values themselves
        packed = bytes(int(sum(d * 3 ** i for i, d in enumerate(symbols[at:at + 5]))) for at in range(0, 999, 5))
        file = gz.file_of([Tensor("array", F4, (999,))], [struct.pack("<f", 0.99) + packed])
        report = self.report(CHECK_FAILED, self.write(file), "--against", self.npy(x, "line.npy"))
        self.assertIn(report["tensors"][0]["reason"], ("support", "overload"))
        text = support.run("verify", self.dir / "x.gradz", "--against", self.dir / "line.npy").out.decode()
        self.assertIn("BROKEN", text)
        self.assertIn("made from another dump", text)
        self.assertIn("most likely", text)

    def test_a_file_that_is_written_otherwise(self):
        """Symbols that are all one, coded though a constant is shorter: every reader reads it, --strict tells."""
        file = gz.file_of([Tensor("array", F4, (500,))], [struct.pack("<f", 1) + bytes([121]) * 100],
                          (("dqsg:levels=3", PACK),))
        path = self.write(file)
        report = self.report(OK, path)
        self.assertEqual([d["tensor"] for d in report["departures"] if d["tensor"]], ["array"])
        self.assertEqual(report["digests"], None)
        self.report(CHECK_FAILED, path, "--strict")
        # Without digests nobody knows what its encoder saw.
        against = self.report(OK, path, "--against", self.npy(np.full(500, 0.0, "f4"), "zeros.npy"))
        self.assertEqual(self.checks(against, "array")["decoder"]["verdict"], "not covered")

    def test_narrowed_files(self):
        x = (self.x * 64).astype("f2")
        file = self.compress(self.npy(x, "half.npy"), "--seed", 5, "--scheme", "dither:nmse=0.01")
        report = self.report(OK, file, "--against", self.dir / "half.npy")
        self.assert_honest(report)
        self.assertEqual([t["stage"] for t in report["tensors"]], [None, "narrowed to f2"])

    def test_wrong_use(self):
        file = self.compress(self.dump, "--seed", 1)
        for args in (["--trials", 3], ["--seed", 2, "--against", self.dump], ["--coder", "pack"],
                     ["--scheme", "dither:nmse=0.1"], ["--scheme", "dqsg:levels=3", "--against", self.dump]):
            self.refused(USAGE, "verify", file, *args)


class States(Verify):
    """What is remembered is part of what a scheme codes."""

    def step(self, number):
        rng = np.random.default_rng(number)
        path = self.dir / f"step{number}.npz"
        np.savez(path, weight=rng.laplace(size=(40, 50)).astype("f4"), bias=rng.laplace(size=30).astype("f4"),
                 half=rng.laplace(size=300).astype("f2"))
        return path

    def remembering(self, scheme):
        state = self.dir / "w.state"
        state.unlink(missing_ok=True)
        for number in range(3):
            self.ok("compress", self.step(number), "-o", self.dir / "m.gradz", "-f", "--scheme", scheme, "--state", state,
                    "--worker", 2)
        return state

    def test_every_memory_is_honest_from_a_state(self):
        for scheme in ("ef/topk:k=2%", "ec-qsgd:s=4", "dgc:k=2%", "diana/qsgd:s=4", "qsparse:k=2%", "onebit-ef",
                       "sign-ef", "diana/randk:k=10%", "diana/rotate/dqsg:levels=9", "ef/rotate/dqsg:levels=9",
                       "momentum/topk:k=5%/dqsg:levels=5"):
            with self.subTest(scheme=scheme):
                state = self.remembering(scheme)
                before = state.read_bytes()
                report = self.report(OK, self.step(3), "--scheme", scheme, "--state", state)
                self.assert_honest(report)
                self.assertIn("w.state, step 3", report["scheme"])
                self.assertEqual({t["tensor"] for t in report["tensors"]}, {"weight", "bias", "half"})
                self.assertEqual(state.read_bytes(), before)

    def test_it_is_the_scheme_behind_on_what_is_remembered_too(self):
        state = self.remembering("ef/dqsg:levels=3")
        self.ok("decompress", state, "-o", self.dir / "e.npz")
        with np.load(self.dir / "e.npz") as e, np.load(self.step(3)) as x:
            np.savez(self.dir / "u.npz", **{name: (x[name].astype("f8") + e["e/" + name]).astype("f4") for name in x.files})
        info = json.loads(self.ok("info", "--json", state).out)
        seed = ["--seed", info["seed"], "--worker", 2, "--step", 3]
        ours = self.report(OK, self.step(3), "--scheme", "ef/dqsg:levels=3", "--state", state)
        behind = self.report(OK, self.dir / "u.npz", "--scheme", "dqsg:levels=3", *seed)

        def measured(report):  # bounds depend on how many tests there are: of 16-bit tensors there are more
            return {t["tensor"]: {c["check"]: c["measured"] for c in t["checks"]} for t in report["tensors"]
                    if t["stage"] is None}
        self.assertEqual(measured(ours), measured(behind))
        self.assertIn("linear x", measured(ours)["weight"])

    def test_a_later_message_is_not_compared_with_its_dump(self):
        for scheme in ("ef/topk:k=2%", "qsparse:k=2%", "dgc:k=2%"):
            self.remembering(scheme)
            report = self.report(OK, self.dir / "m.gradz", "--against", self.step(2))
            self.assertEqual(report["verdict"] == "broken", False)
            for entry in report["tensors"]:
                self.assertIn("what was remembered", entry["checks"][0]["note"] if entry["checks"] else entry["reason"])

    def test_a_state_that_is_not_this_steps(self):
        state = self.remembering("ef/topk:k=2%")
        step = self.step(3)
        for part, args in (("expects step 3", ["--step", 5]), ("not of worker 4", ["--worker", 4]),
                           ("scheme is 'ec/...'", ["--scheme", "ec/dqsg:levels=5"])):
            args = args if "--scheme" in args else ["--scheme", "ef/topk:k=2%", *args]
            self.refused(BAD_INPUT, "verify", step, "--state", state, *args, says=part)
        self.refused(BAD_INPUT, "verify", FC, "--scheme", "ef/topk:k=2%", "--state", state, says="was it renamed")
        self.refused(USAGE, "verify", step, "--scheme", "topk:k=2%", "--state", state)
        self.refused(USAGE, "verify", self.dir / "m.gradz", "--state", state)
        self.refused(IO_FAILURE, "verify", step, "--scheme", "ef/topk:k=2%", "--state", self.dir / "none.state")
        self.assertFalse((self.dir / "none.state").exists())


@support.slow
class Slow(Verify):
    def test_a_hundred_million_equal_elements(self):
        path = self.dir / "equal.npy"
        array = np.lib.format.open_memmap(path, "w+", "f4", (10 ** 8,))
        array[:] = 0.3
        array.flush()
        report = self.report(OK, path, "--scheme", "dqsg:levels=3", "--trials", 2, "--seed", 1, timeout=600,
                             memory=None if support.SANITIZED else 1024 * MIB)
        self.assert_honest(report)
        variance = self.checks(report, "array")["variance"]
        self.assertAlmostEqual(variance["measured"], 1, delta=1e-3)


if __name__ == "__main__":
    support.main()
