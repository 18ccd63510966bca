#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--side-info and --on-overload: what ndqsg needs to be decoded, and what happens when it is not there or not near."""
import json
import shutil

import h5py
import numpy as np

import support
from support import BAD_INPUT, CHECK_FAILED, OK, USAGE, run

NDQSG = "ndqsg:fine=3,coarse=1"
NEAR, FAR = 0.3, 0.8  # distances as parts of the largest value; the limit of NDQSG is a third


def largest(x):
    return np.abs(x).max()


class SideInfo(support.CliTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.x = {"a": rng.standard_normal((30, 500)).astype("f4"), "b": rng.laplace(size=700).astype("f4"),
                  "n": np.arange(5)}
        self.near, self.far = self.moved(NEAR), self.moved(FAR)
        self.dump = self.npz(self.x)
        self.side = self.npz({**self.near, "more": np.arange(3)}, "near.npz")
        self.far_side = self.npz(self.far, "far.npz")
        self.dqsg = self.decompress(self.compress(self.dump, "--scheme", "dqsg:levels=7", "--seed", 1), suffix=".npz")

    def moved(self, distance, seed=4):
        rng = np.random.default_rng(seed)
        return {name: (x + distance * largest(x) * rng.uniform(-1, 1, x.shape)).astype("f4")
                for name, x in self.x.items() if name != "n"}

    def file(self, *options, scheme=NDQSG, name="n.gradz", dump=None):
        # Chunks of 4096: four of `a`, one of `b`.
        return self.compress(dump or self.dump, "--scheme", scheme, "--seed", 1, "--chunk-log2", 12, *options,
                             to=self.dir / name)

    def assert_dqsg(self, arrays):
        for name, expected in self.dqsg.items():
            self.assert_same_bits(arrays[name], expected, name)

    def test_decoded_values_are_those_of_dqsg(self):
        for scheme in (NDQSG, NDQSG + ",check=yes"):
            file = self.file(scheme=scheme)
            for side in (self.side, self.dump):
                self.assert_dqsg(self.decompress(file, "--side-info", side, suffix=".npz"))
        # By any kind of file, and from a pipe.
        with h5py.File(self.dir / "near.h5", "w") as out:
            for name, y in self.near.items():
                out[name] = y.astype("f8")
        np.savez(self.dir / "half.npz", **{name: y.astype("f2") for name, y in self.near.items()})
        exact = self.compress(self.side, "--scheme", "raw", to=self.dir / "near.gradz")
        lossy = self.compress(self.side, "--scheme", "dither:nmse=1e-4", "--seed", 5, to=self.dir / "lossy.gradz")
        for side in (self.dir / "near.h5", self.dir / "half.npz", exact, lossy):
            self.assert_dqsg(self.decompress(file, "--side-info", side, suffix=".npz"))
        target = self.dir / "piped.npz"
        self.ok("decompress", file, "-o", target, "-q", "--side-info", "-", stdin=lossy.read_bytes())
        self.assert_dqsg(np.load(target))
        self.ok("decompress", "-", "-o", target, "-q", "-f", "--side-info", self.side, stdin=file.read_bytes())
        self.assert_dqsg(np.load(target))
        self.refused(USAGE, "decompress", "-", "-o", target, "-f", "--side-info", "-", says="standard input")

    def test_means_of_messages_that_need_it(self):
        files = [self.file(), self.file(name="again.gradz")]
        self.refused(USAGE, "aggregate", *files, "-o", self.dir / "m.npz", says="--side-info FILE")
        self.ok("aggregate", *files, "-o", self.dir / "m.npz", "--side-info", self.side, "-q")
        with np.load(self.dir / "m.npz") as arrays:
            self.assert_dqsg({name: arrays[name] for name in arrays.files})

    def test_only_and_other_types_of_tensors(self):
        file = self.file()
        only = self.decompress(file, "--side-info", self.side, "--only", "b", suffix=".npz")
        self.assert_same_bits(only["b"], self.dqsg["b"])
        # Of a tensor that is not wanted no side information is needed; of one by raw, never.
        self.assertEqual(list(self.decompress(file, "--only", "n", suffix=".npz")), ["n"])
        part = self.npz({"b": self.near["b"]}, "part.npz")
        self.decompress(file, "--side-info", part, "--only", "b", suffix=".npz")
        self.decompress(self.file("--exclude", "a"), "--side-info", part, suffix=".npz")

    def test_sixteen_bits(self):
        dump = self.npz({name: x.astype("f2") if x.dtype == "f4" else x for name, x in self.x.items()}, "half.npz")
        expected = self.decompress(self.compress(dump, "--scheme", "dqsg:levels=7", "--seed", 1), suffix=".npz")
        got = self.decompress(self.file(dump=dump, scheme=NDQSG + ",check=yes"), "--side-info", dump, suffix=".npz")
        for name, array in expected.items():
            self.assert_same_bits(got[name], array, name)

    def test_same_bytes_for_any_number_of_threads(self):
        files, dumps = [], []
        for threads in (1, 2, 5):
            files.append(self.file("-T", threads, "--side-info", self.side, scheme=NDQSG + ",check=yes",
                                   name=f"t{threads}.gradz").read_bytes())
            out = self.dir / f"t{threads}.npz"
            self.ok("decompress", self.dir / f"t{threads}.gradz", "-q", "-T", threads, "-o", out, "--side-info",
                    self.side)
            dumps.append(out.read_bytes())
        self.assertEqual(len(set(files)), 1)
        self.assertEqual(len(set(dumps)), 1)

    def test_same_bytes_by_any_instruction_set(self):
        for scheme in (NDQSG, "ndqsg:fine=200,coarse=50,check=yes", "ndqsg:fine=8,coarse=2,alpha=0.7"):
            outcomes = set()
            for target in ("scalar", ""):
                env = {"GRADCODEC_KERNELS": target}
                file, out = self.dir / "k.gradz", self.dir / "k.npz"
                self.ok("compress", self.dump, "-f", "-q", "-o", file, "--scheme", scheme, "--seed", 1, env=env)
                self.ok("decompress", file, "-f", "-q", "-o", out, "--side-info", self.dump, env=env)
                outcomes.add((file.read_bytes(), out.read_bytes()))
            self.assertEqual(len(outcomes), 1, scheme)

    def test_none_where_it_is_needed(self):
        file = self.file()
        self.refused(USAGE, "decompress", file, "-o", self.dir / "o.npz", says="tensor 'a': is coded by 'ndqsg'")
        self.assertFalse((self.dir / "o.npz").exists())
        tested = run("info", "--test", file)
        self.assertEqual(tested.code, OK)
        self.assertIn(b"the values of 2 tensors need side information, and were not decoded", tested.out)
        self.assertEqual(self.info(file, "--test")["not_decoded"], ["a", "b"])
        self.assertEqual(self.info(file, "--test", "--side-info", self.side)["not_decoded"], [])
        self.refused(BAD_INPUT, "info", "--test", file, "--side-info", self.far_side, says="side information")
        for command in ("verify", "stats"):
            self.ok(command, file)
            self.refused(USAGE, command, file, "--against", self.dump, says="needs side information")
        self.refused(USAGE, "verify", self.dump, "--scheme", NDQSG, says="--side-info")
        self.refused(USAGE, "stats", self.dump, "--scheme", NDQSG, says="--side-info")
        for command in ("compress", "verify", "stats"):
            self.refused(USAGE, command, self.dump, "--scheme", "dqsg:levels=3", "--side-info", self.side, says="ndqsg")

    def test_damage_is_found_without_side_information(self):
        data = self.file(scheme=NDQSG + ",check=yes").read_bytes()
        for at in range(60, len(data), 211):
            bad = self.write(data[:at] + bytes([data[at] ^ 8]) + data[at + 1:], "bad.gradz")
            self.refused(BAD_INPUT, "info", "--test", bad)

    def test_side_information_that_does_not_fit(self):
        file = self.file()
        out = ["-o", self.dir / "o.npz", "--side-info"]
        missing = self.npz({"a": self.near["a"]}, "missing.npz")
        self.refused(BAD_INPUT, "decompress", file, *out, missing, says="missing.npz: tensor 'b'")
        shape = self.npz({**self.near, "b": self.near["b"].reshape(7, 100)}, "shape.npz")
        self.refused(BAD_INPUT, "decompress", file, *out, shape, says="has the shape 7x100")
        kind = self.npz({**self.near, "b": np.arange(700)}, "kind.npz")
        self.refused(BAD_INPUT, "decompress", file, *out, kind, says="of type i8")
        self.refused(BAD_INPUT, "decompress", file, *out, self.write(b"nothing", "nothing"), says="nothing")
        nested = self.file(name="nested.gradz")
        self.refused(USAGE, "decompress", file, *out, nested, says="needs more than itself")
        self.refused(BAD_INPUT, "decompress", file, *out, self.far_side, says="side information")
        cut = self.write(self.compress(self.side, "--scheme", "raw").read_bytes()[:-30], "cut.gradz")
        self.refused(BAD_INPUT, "decompress", file, *out, cut, says="cut.gradz")
        self.assertFalse((self.dir / "o.npz").exists())

    def test_what_is_not_finite_counts_as_zero(self):
        y = {name: values.copy() for name, values in self.near.items()}
        zero = {name: values.copy() for name, values in self.near.items()}
        for at, hostile in ((3, np.nan), (77, np.inf), (500, -np.inf), (600, 3e38)):
            y["b"][at], zero["b"][at] = hostile, 0
        file = self.file(scheme=NDQSG + ",alpha=0.9")  # no digest to compare
        got = self.decompress(file, "--side-info", self.npz(y, "y.npz"), suffix=".npz")
        expected = self.decompress(file, "--side-info", self.npz(zero, "zero.npz"), suffix=".npz")
        for name, array in expected.items():
            self.assert_same_bits(got[name], array, name)

    def test_overloads_are_seen_chunk_by_chunk(self):
        side = {name: values.copy() for name, values in self.near.items()}
        flat = side["a"].reshape(-1)
        flat[4096 + 5] += 3 * largest(self.x["a"])
        flat[3 * 4096 + 1:] += 3 * largest(self.x["a"])
        side = self.npz(side, "partly.npz")
        file = self.file(scheme=NDQSG + ",check=yes")
        result = self.refused(BAD_INPUT, "decompress", file, "-o", self.dir / "o.npz", "--side-info", side,
                              says="tensor 'a': chunk 2 of 4")
        self.assertIn("--on-overload", result.err)
        x, y, right = (np.asarray(v).reshape(-1) for v in (self.x["a"], np.load(side)["a"], self.dqsg["a"]))
        plain = self.decompress(self.file(scheme=NDQSG, name="plain.gradz"), "--side-info", self.side, suffix=".npz")
        self.assert_dqsg(plain)
        for policy in ("keep", "zero", "side"):
            target = self.dir / "o.npz"
            result = run("decompress", file, "-f", "-o", target, "--side-info", side, "--on-overload", policy)
            self.assertEqual(result.code, OK, result.err)
            self.assertEqual([f"chunk {i} of 4" in result.err for i in (1, 2, 3, 4)], [False, True, False, True])
            self.assertIn("2 chunks are not what was encoded", result.err)
            got = np.load(target)
            self.assert_same_bits(got["b"], self.dqsg["b"])
            a = got["a"].reshape(-1)
            for chunk in range(4):
                part = slice(4096 * chunk, 4096 * (chunk + 1))
                if chunk % 2 == 0:
                    self.assert_same_bits(a[part], right[part])
                elif policy == "zero":
                    self.assertFalse(a[part].any())
                elif policy == "side":
                    self.assert_same_bits(a[part], y[part])
                else:
                    coarse = largest(x)
                    off = (a[part].astype(float) - right[part]) / coarse
                    np.testing.assert_allclose(off, np.round(off), atol=1e-5)
                    self.assertEqual(np.flatnonzero(np.round(off)).size, 1 if chunk == 1 else off.size - 1)
        # Nothing sees it but the digest, without check=yes.
        self.refused(BAD_INPUT, "decompress", self.file(), "-f", "-o", target, "--side-info", side, "--on-overload",
                     "keep", says="most likely the side information")

    def test_exceptions_stay_where_a_chunk_is_replaced(self):
        self.x["b"][7] = np.nan
        dump = self.npz(self.x, "nan.npz")
        file = self.file("--nonfinite", "keep", scheme=NDQSG + ",check=yes", dump=dump)
        for policy in ("keep", "zero", "side"):
            got = self.decompress(file, "--side-info", self.far_side, "--on-overload", policy, suffix=".npz")
            self.assertEqual(np.flatnonzero(np.isnan(got["b"])).tolist(), [7])

    def test_bare_messages(self):
        file = self.file(scheme=NDQSG + ",check=yes")
        schema, bare = self.dir / "s.schema", self.dir / "m.bare"
        self.ok("info", file, "--schema-out", schema)
        self.ok("compress", self.dump, "--bare", "--schema", schema, "--scheme", NDQSG + ",check=yes", "--seed", 1, "-o",
                bare, "--side-info", self.side)
        back = ["decompress", bare, "--schema", schema, "-f", "-o", self.dir / "o.npz"]
        self.refused(USAGE, *back, says="tensor 'a'")
        self.ok(*back, "--side-info", self.side)
        self.assert_dqsg(np.load(self.dir / "o.npz"))
        self.refused(BAD_INPUT, *back, "--side-info", self.far_side, says="--on-overload")
        result = run(*back, "--side-info", self.far_side, "--on-overload", "zero")
        self.assertEqual(result.code, OK, result.err)
        self.assertIn("2 chunks are not what was encoded", result.err)
        self.assertFalse(np.load(self.dir / "o.npz")["a"].any())

    def test_compress_tries_it_and_lets_decompress_take_no_other(self):
        for side in (self.side, self.compress(self.side, "--scheme", "raw", to=self.dir / "raw.gradz")):
            result = run("compress", self.dump, "-f", "-o", self.dir / "o.gradz", "--scheme", NDQSG, "--seed", 1,
                         "--side-info", side)
            self.assertEqual(result.code, OK)
            self.assertIn("every value is decoded right", result.err)
            self.assertIn("beside", self.info(self.dir / "o.gradz"))
            self.assert_dqsg(self.decompress(self.dir / "o.gradz", "--side-info", side, suffix=".npz"))
            for other in (self.dump, self.far_side, lossy := self.compress(
                    self.side, "--scheme", "dither:nmse=1e-6", to=self.dir / "lossy.gradz")):
                self.refused(BAD_INPUT, "decompress", self.dir / "o.gradz", "-f", "-o", self.dir / "o.npz",
                             "--side-info", other, says="is not the side information that compress was given")
        del lossy
        # The name does not matter, the values do.
        shutil.copy(self.side, self.dir / "copy.npz")
        noted = self.file("--side-info", self.side)
        self.assert_dqsg(self.decompress(noted, "--side-info", self.dir / "copy.npz", suffix=".npz"))
        # It is a note: the rest of the file is as without it.
        plain = self.info(self.file(name="plain.gradz"), "--test", "--side-info", self.side)
        self.assertNotIn("beside", plain)
        self.assertEqual(self.info(noted)["total_bytes"], plain["total_bytes"] + 8)

    def test_none_where_none_is_taken(self):
        file = self.file(scheme="dqsg:levels=3", name="d.gradz")
        for command in (["decompress", file, "-o", self.dir / "o.npz"], ["info", "--test", file]):
            self.refused(USAGE, *command, "--side-info", self.side, says="has no place here")

    def test_what_is_not_decoded_is_not_called_right(self):
        self.assertIn(b"the digests of what was decoded", run("verify", self.file()).out)
        self.assertIn(b"every digest too", run("verify", self.file(scheme="dqsg:levels=3", name="d.gradz")).out)

    def test_a_sum_is_side_information_and_what_needs_more_is_none(self):
        self.ok("compress", self.dump, "-o", self.dir / "m.gradz", "--scheme", "maxnorm:bits=8", "--shared-scale", 8, "-f")
        self.ok("aggregate", self.dir / "m.gradz", self.dir / "m.gradz", "-o", self.dir / "sum.gradz", "-q")
        self.ok("aggregate", self.dir / "m.gradz", self.dir / "m.gradz", "-o", self.dir / "mean.npz", "-q")
        self.ok("decompress", self.file(), "-o", self.dir / "a.npz", "--side-info", self.dir / "sum.gradz")
        self.ok("decompress", self.file(), "-o", self.dir / "b.npz", "--side-info", self.dir / "mean.npz")
        with np.load(self.dir / "a.npz") as a, np.load(self.dir / "b.npz") as b:
            for name in a.files:
                np.testing.assert_array_equal(a[name], b[name])
        for step in range(2):
            self.ok("compress", self.dump, "-o", self.dir / "later.gradz", "-f", "--scheme", "diana/dqsg:levels=9", "--state",
                    self.dir / "d.state")
        self.refused(USAGE, "decompress", self.file(), "-o", self.dir / "c.npz", "--side-info", self.dir / "later.gradz",
                     says="needs more than itself")

    def test_what_compress_says_of_it_is_so(self):
        for more in ("", ",check=yes", ",alpha=0.8", ",alpha=0.8,check=yes"):
            with self.subTest(more=more):
                self.what_compress_says(NDQSG + more)

    def what_compress_says(self, ndqsg):
        result = run("compress", self.dump, "-f", "-o", self.dir / "o.gradz", "--scheme", ndqsg, "--seed", 1,
                     "--side-info", self.far_side)
        self.assertEqual(result.code, OK)
        self.assertIn("are decoded wrongly with it", result.err)
        wrong = int(result.err.split("side information: ")[1].split(" of")[0].replace(",", ""))
        if "alpha" not in ndqsg:
            checked = NDQSG + ",check=yes"
            got = self.decompress(self.file(scheme=checked), "--side-info", self.far_side, "--on-overload", "keep",
                                  suffix=".npz")
            self.assertEqual(sum(int((got[name] != self.dqsg[name]).sum()) for name in got), wrong)
        # Either scheme that it names has no overload.
        for scheme in [part.split()[0] for part in result.err.split("ndqsg:")[1:]]:
            again = run("compress", self.dump, "-f", "-o", self.dir / "o.gradz", "--scheme", "ndqsg:" + scheme, "--seed",
                        1, "--side-info", self.far_side)
            self.assertIn("every value is decoded right", again.err)
            largest_said = float(again.err.split("the largest |x - y| is ")[1].split()[0])
            self.assertLessEqual(largest_said, 1)
            self.assertGreater(largest_said, 0.6)
            self.assertEqual("check=yes" in scheme, "check=yes" in ndqsg)

    def test_stats_measure_the_distance(self):
        file = self.file(scheme=NDQSG + ",check=yes")
        said = json.loads(self.ok("stats", file, "--against", self.dump, "--side-info", self.far_side, "--json").out)
        rows = {row["name"]: row for row in said["side_information"]}
        self.assertEqual(set(rows), {"a", "b", "(file)"})
        everything = []
        for name in ("a", "b"):
            limit = largest(self.x[name]) / 3
            ratio = np.abs(self.x[name].astype(float) - self.far[name]).reshape(-1) / limit
            everything.append(ratio)
            row = rows[name]
            self.assertAlmostEqual(row["largest"] / ratio.max(), 1, places=4)
            self.assertEqual(row["beyond"], int((ratio > 1 - 1e-4).sum()))
            for key, p in (("median", 0.5), ("quantile_90", 0.9), ("quantile_99", 0.99)):
                exact = np.quantile(ratio, p, method="inverted_cdf")
                self.assertGreaterEqual(row[key], exact * (1 - 1e-4))
                self.assertLess(row[key], exact * 1.02)
        self.assertEqual(rows["(file)"]["values"], 15700)
        self.assertEqual(rows["(file)"]["beyond"], rows["a"]["beyond"] + rows["b"]["beyond"])
        # rho - 1 = 2 of the limit's units.
        self.assertEqual(rows["(file)"]["least_rho"], np.ceil(2 * max(map(np.max, everything)) + 1))
        text = self.ok("stats", file, "--against", self.dump, "--side-info", self.far_side).out.decode()
        self.assertIn("within the limit is every value by ndqsg:fine=", text)
        near = self.ok("stats", file, "--against", self.dump, "--side-info", self.side).out.decode()
        self.assertIn("every value is within the limit", near)

    def test_stats_of_a_dump_decode_with_it(self):
        def nmse(side, scheme=NDQSG):
            out = self.ok("stats", self.dump, "--scheme", scheme, "--side-info", side, "--json").out
            return json.loads(out)["schemes"][0]["nmse"]
        plain = json.loads(self.ok("stats", self.dump, "--scheme", "dqsg:levels=7", "--json").out)["schemes"][0]["nmse"]
        self.assertAlmostEqual(nmse(self.side) / plain, 1, places=6)
        self.assertGreater(nmse(self.far_side), 1.5 * plain)

    def test_verify(self):
        verify = ["verify", self.dump, "--trials", 16, "--seed", 1, "--scheme"]
        for scheme in (NDQSG, NDQSG + ",check=yes", NDQSG + ",alpha=0.8", "ndqsg:fine=4,coarse=2,range=2.6"):
            result = run(*verify, scheme, "--side-info", self.side)
            self.assertEqual(result.code, OK, result.out.decode())
        result = run(*verify, NDQSG, "--side-info", self.far_side)
        self.assertEqual(result.code, CHECK_FAILED, result.out.decode())
        self.assertIn(b"broken: no value beyond the last level", result.out)
        self.assertIn(b"is the side information too far?", result.out)
        file = self.file()
        against = ["verify", file, "--against", self.dump, "--side-info"]
        self.assertEqual(run(*against, self.side).code, OK)
        self.assertEqual(run(*against, self.side, "--scheme", NDQSG).code, OK)
        for scheme in (NDQSG + ",check=yes", NDQSG + ",alpha=0.9,check=yes"):
            against[1] = self.file("--side-info", self.side, scheme=scheme)
            for options in ([], ["--scheme", scheme]):
                result = run(*against, self.side, *options)
                self.assertEqual(result.code, OK, result.out.decode())
        self.refused(BAD_INPUT, *against, self.far_side, says="side information")

    def test_levels_of_such_a_file_are_not_kept(self):
        self.refused(USAGE, "compress", self.dump, "-o", self.dir / "o.gradz", "--scheme", "alq:s=4", "--levels-from",
                     self.file(), says="is coded by 'ndqsg'")


if __name__ == "__main__":
    support.main()
