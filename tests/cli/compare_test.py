"""gradcodec compare: its figures are those of compress and stats, and what it advises is the best of what it tried."""
# SPDX-License-Identifier: Apache-2.0
import csv
import functools
import io
import json
import re
import shlex
import xml.etree.ElementTree as xml

import h5py
import numpy as np

import support
from support import BAD_INPUT, USAGE

ASKED = ("dither:nmse=", "choose:", "lattice:nmse=", "rotate/dither:nmse=", "lowrank:")  # keep what is asked for on average

DIGITS = (100, 90, 80, 70, 60, 50, 45, 40, 35, 30, 25, 20, 17, 14, 12)  # of the errors that are tried


def made():
    random = np.random.default_rng(5)
    return {"heavy": random.standard_t(4, (40, 75)).astype("f4"), "even": random.uniform(-1, 1, 500).astype("f4"),
            "count": np.arange(9)}


class Compare(support.CliTest):
    def setUp(self):
        super().setUp()
        self.dump = self.npz(made())

    def json(self, *options):
        return json.loads(self.ok("compare", self.dump, "--json", "-q", *options).out)

    @functools.cache
    def by_hand(self, scheme, *options):
        """What compress and stats make of it: bytes, bits, NMSE, largest error."""
        packed = self.compress(self.dump, "--scheme", scheme, "--seed", 1, *options)
        whole = json.loads(self.ok("stats", packed, "--against", self.dump, "--json").out)["whole"]
        return packed.stat().st_size, whole["bits_per_value"], whole["nmse"], whole["max_error"]

    def figures(self, row):
        return row["bytes"], row["bits_per_value"], row["nmse"], row["max_error"]


class Figures(Compare):
    SCHEMES = {"dither:nmse=0.1": "unbiased", "topk:k=5%/qsgd:s=4": "biased, bounded", "raw": "exact", "sign": "contraction",
               "tqsgd:bits=3": "unbiased, clipped", "uniform:bits=4": "biased, bounded", "eden:bits=2": "exact along x"}

    def test_those_of_compress_and_stats(self):
        for options in ((), ("--level=2",), ("--exclude=heavy", "--chunk-log2=12")):
            rows = self.json(*(f"--scheme={scheme}" for scheme in self.SCHEMES), *options)["schemes"]
            self.assertEqual([row["bytes"] for row in rows], sorted(row["bytes"] for row in rows))
            self.assertEqual({row["scheme"] for row in rows}, set(self.SCHEMES))
            for row in rows:
                self.assertEqual(self.figures(row), self.by_hand(row["scheme"], *options), row)
                self.assertGreater(row["encode_mb_per_s"] * row["decode_mb_per_s"], 0)
                if not options:
                    self.assertEqual(row["promise"], self.SCHEMES[row["scheme"]])
                coder = "zstd" if row["scheme"] == "raw" else "rans" if "--level=2" in options else "rans-dither"
                self.assertEqual(row["coder"], coder)

    def test_a_promise_is_that_of_the_tensors_that_are_coded(self):
        self.dump = self.npz({"x": np.repeat(np.float32([1, -1]), 200), "y": made()["heavy"]}, "signs.npz")
        for options, word in ((["--include=x"], "unbiased"), ([], "unbiased, clipped"), (["--include=y"], "unbiased, clipped"),
                              (["--min-elements=99999"], "exact")):
            self.assertEqual(self.json("--scheme=tqsgd:bits=3", *options)["schemes"][0]["promise"], word)

    def test_what_a_dump_of_hdf5_keeps_counts(self):
        self.dump = self.dir / "x.h5"
        with h5py.File(self.dump, "w") as file:
            file["x"] = made()["heavy"]
            file["x"].attrs["where"] = "a" * 100
        row, = self.json("--scheme=dqsg:levels=5")["schemes"]
        self.assertEqual(self.figures(row), self.by_hand("dqsg:levels=5"))

    def test_the_same_for_any_number_of_threads(self):
        one, four, other = (self.ok("compare", self.dump, "--csv", "--nmse=0.3", *options).out
                            for options in (["-T1"], ["-T4"], ["--seed=2"]))
        self.assertEqual(one, four)
        self.assertNotEqual(one, other)
        rows = list(csv.DictReader(io.StringIO(one.decode())))
        self.assertNotIn("encode_mb_per_s", rows[0])
        self.assertGreater(len(rows), 20)


class Search(Compare):
    def test_the_fewest_bits_for_an_error(self):
        report = self.json("--nmse=0.1,2")
        for most, advice in zip((0.1, 2), report["advice"]):
            rows = [row for row in report["schemes"] if row["most_nmse"] == most]
            kept = [row for row in rows if row["kept"] == "yes"]
            self.assertGreater(len(kept), 15)
            self.assertEqual(rows[:len(kept)], sorted(kept, key=lambda row: row["bytes"]))
            for row in rows:
                if not row["scheme"].startswith(ASKED):
                    self.assertEqual(row["kept"] == "yes", row["nmse"] <= most, row)
            self.assert_least(rows, most)
            best = next(row for row in kept if row["promise"] in ("unbiased", "exact"))
            self.assertEqual((advice["most_nmse"], advice["unbiased"]), (most, best["scheme"]))
            self.assertEqual(advice["biased"], None if kept[0] is best else kept[0]["scheme"])

    def assert_coders(self, report):
        """The smaller file of the usual coder's and of model's, to the byte."""
        coders = {row["coder"] for row in report["schemes"]}
        self.assertEqual(coders, {"zstd", "rans-dither", "model"})
        for start in ("dither:nmse=", "lowrank:", "maxnorm:", "topk:"):
            for row in (row for row in report["schemes"] if row["scheme"].startswith(start)):
                both = {coder: self.by_hand(row["scheme"], f"--coder={coder}") for coder in ("rans-dither", "model")}
                self.assertEqual(self.figures(row), both[row["coder"]], row)
                self.assertEqual(row["coder"], min(both, key=lambda coder: both[coder][0]))

    def test_the_coder_of_the_smallest_file(self):
        row_scales = 2.0 ** -(np.arange(128) % 8)[:, None]
        rows = np.random.default_rng(1).standard_normal((128, 64)) * row_scales
        self.dump = self.npy(rows.astype("f4"))
        report = self.json("--nmse=0.1")
        self.assert_coders(report)
        self.assertEqual(report["advice"][0]["unbiased"], "dither:nmse=0.1,steps=class")
        self.assertEqual(report["advice"][0]["unbiased_coder"], "model")
        words = self.ok("compare", self.dump, "--nmse=0.1").out.decode()
        self.assertIn("take --scheme dither:nmse=0.1,steps=class --coder model: ", words)
        thin = np.random.default_rng(2).standard_normal((2, 128))
        self.dump = self.npy((thin.T @ thin).astype("f4"))
        self.assertEqual(self.json("--nmse=0.1")["advice"][0]["unbiased"], "lowrank:rank=16+dither:nmse=0.1,steps=class")
        self.assertRegex(self.json("--bits=1.5")["advice"][0]["unbiased"], r"^lowrank:rank=16\+dither:nmse=.*,steps=class$")

    def test_within_bits_too(self):
        """What model saves is spent: a setting more would be too many bits by either coder."""
        report = self.json("--bits=2")
        row = next(row for row in report["schemes"] if row["scheme"].endswith(",steps=class"))
        self.assertEqual(self.figures(row), self.by_hand(row["scheme"], "--coder=" + row["coder"]))
        self.assertLessEqual(row["bits_per_value"], 2)
        nmse = float(re.search("nmse=([^,]*)", row["scheme"])[1])
        tried = (digits / 10 ** k for k in range(1, 8) for digits in DIGITS)
        finer = max(setting for setting in tried if setting < nmse)
        for coder in ("rans-dither", "model"):
            self.assertGreater(self.by_hand(f"dither:nmse={finer},steps=class", "--coder=" + coder)[1], 2)

    def test_a_coder_that_is_given_is_taken(self):
        for option, coders in (("--coder=rans", {"rans"}), ("--level=5", {"rans-dither", "zstd"})):
            self.assertEqual({row["coder"] for row in self.json("--nmse=0.5", option)["schemes"]}, coders)

    def assert_least(self, rows, most):
        """A setting less would have been too much of an error."""
        checked = 0
        for row in rows:
            if found := re.fullmatch(r"(maxnorm:bits=|uniform:bits=|rotq:bits=|alq:s=|nuqsgd:s=)(\d+)", row["scheme"]):
                least = {"uniform:bits=": 2, "rotq:bits=": 2}.get(found[1], 1)
                if row["kept"] == "yes" and int(found[2]) > least:
                    self.assertGreater(self.by_hand(f"{found[1]}{int(found[2]) - 1}")[2], most, row)
                    checked += 1
        self.assertGreater(checked, 0)

    def test_the_least_error_for_bits(self):
        report = self.json("--bits=4")
        kept = [row for row in report["schemes"] if row["kept"] == "yes"]
        self.assertEqual(kept, sorted(kept, key=lambda row: row["nmse"]))
        self.assertTrue(all(row["bits_per_value"] <= 4 for row in kept))
        bits = next(int(row["scheme"].split("=")[1]) for row in kept if row["scheme"].startswith("maxnorm:"))
        self.assertGreater(self.by_hand(f"maxnorm:bits={bits + 1}")[1], 4)
        self.assertEqual(report["advice"][0]["most_bits"], 4)

    def test_more_bits_than_asked_for_are_not_advised(self):
        """Of rows that differ in scale, 0.5 bits a value by choose's own account are more in the file."""
        rows = np.random.default_rng(1).standard_normal((128, 64)) * 2.0 ** -(np.arange(128) % 8)[:, None]
        self.dump = self.npy(rows.astype("f4"))
        report = self.json("--bits=0.5")
        for row in report["schemes"]:
            self.assertEqual(row["kept"] == "yes", row["bits_per_value"] <= 0.5, row)
        chosen = next(row for row in report["schemes"] if row["scheme"].startswith("choose:"))
        self.assertGreater(chosen["bits_per_value"], 0.5)
        self.assertNotEqual(report["advice"][0]["unbiased"], chosen["scheme"])

    def test_the_ends_of_what_can_be_asked(self):
        small = self.json("--nmse=1e-8")
        self.assertEqual(self.json("--nmse=5000")["advice"][0]["unbiased"].split(":")[0], "choose")
        self.assertEqual({row["kept"] for row in small["schemes"] if row["scheme"].startswith("topk")}, {"no"})
        self.assertTrue(next(row for row in small["schemes"] if row["scheme"] == "raw")["kept"] == "yes")

    def test_zeros_are_kept_by_all(self):
        self.dump = self.npy(np.zeros(300, "f4"))
        report = self.json("--nmse=0.1")
        self.assertEqual({row["kept"] for row in report["schemes"]}, {"yes"})
        self.assertEqual({row["nmse"] for row in report["schemes"]}, {None})
        self.dump = self.npy(np.zeros(0, "f4"))
        self.assertEqual({row["bits_per_value"] for row in self.json("--nmse=0.1")["schemes"]}, {None})


class Words(Compare):
    def lines(self, *options):
        return self.ok("compare", self.dump, *options).out.decode().splitlines()

    def test_the_advice(self):
        lines = self.lines("--scheme=dither:nmse=0.1", "--scheme=sign", "--nmse=0.15,0.7", "--coder=rans")
        size, bits, nmse, _ = self.by_hand("dither:nmse=0.1", "--coder=rans")
        other = self.by_hand("sign", "--coder=rans")
        self.assertLess(other[0], size)
        take = f"take --scheme dither:nmse=0.1 --coder rans: {bits:.3g} bits a value, NMSE {nmse:.3g}, unbiased"
        self.assertEqual(lines[-3:], [
            "for NMSE 0.15 on this dump " + take, "for NMSE 0.7 on this dump " + take,
            f"  smaller, but not unbiased (contraction; needs ef/ and --state to be made up for): --scheme sign --coder rans: "
            f"{other[1]:.3g} bits a value, NMSE {other[2]:.3g}"])
        lines = self.lines("--scheme=sign", "--nmse=0.9")
        self.assertIn("for NMSE 0.9 on this dump there is no unbiased scheme among these", lines)
        self.assertNotIn("take", "\n".join(self.lines("--scheme=sign")))

    def test_an_error_that_is_asked_for_is_kept_on_average(self):
        seed = next(n for n in range(1, 50) if self.json("--scheme=dither:nmse=0.1", f"--seed={n}")["schemes"][0]["nmse"] > 0.1)
        lines = self.lines("--scheme=dither:nmse=0.1", "--nmse=0.1,0.09", f"--seed={seed}")
        self.assertRegex(lines[-2], rf"take --scheme dither:nmse=0.1 --seed {seed}: .* NMSE 0\.1\d* \(0.1 on average\), unbiased$")
        self.assertIn("no unbiased scheme", lines[-1])

    def test_the_advice_is_the_command_that_was_measured(self):
        self.dump = self.npz({"it's": made()["heavy"], "b": np.float32([np.nan] * 200), "c": np.zeros(40, "V2")}, "odd.npz")
        given = ["--level=2", "--seed=7", "--exclude=b*", "--exclude=it's?", "--min-elements=3", "--nonfinite=keep",
                 "--chunk-log2=12", "--as-bf16"]
        self.refused(USAGE, "compare", self.dump, *given)  # no tensor is named like it's?
        given[3] = "--exclude=?"
        line = self.lines("--scheme=dither:nmse=0.1", "--nmse=0.2", *given)[-1]
        options = shlex.split(re.search("take (.*?): [0-9.]+ bits", line)[1])
        self.assertEqual(options, ["--scheme", "dither:nmse=0.1", "--level", "2", "--seed", "7", "--exclude", "b*", "--exclude", "?",
                                   "--min-elements", "3", "--nonfinite", "keep", "--chunk-log2", "12", "--as-bf16"])
        packed = self.dir / "advised.gradz"
        self.ok("compress", self.dump, "-o", packed, *options)
        row, = self.json("--scheme=dither:nmse=0.1", *given)["schemes"]
        self.assertEqual(packed.stat().st_size, row["bytes"])
        line = self.lines("--scheme=dither:nmse=0.1", "--nmse=0.2", "--include=it's")[-1]
        self.assertIn("--include 'it'\\''s': ", line)

    def test_without_floats_there_is_nothing_to_choose(self):
        self.dump = self.npy(np.arange(50))
        lines = self.lines("--nmse=0.1")
        self.assertEqual(lines[-1], "no float tensors: every scheme stores them exactly, as raw does")
        self.assertNotIn("take", "\n".join(lines))
        report = self.json("--nmse=0.1")
        self.assertEqual([row["scheme"] for row in report["schemes"]], ["raw"])
        self.assertEqual((report["advice"][0]["unbiased"], report["advice"][0]["biased"]), ("raw", None))
        self.assertIsNone(self.json("--nmse=0.1", "--scheme=sign")["advice"][0]["unbiased"])
        self.dump = self.npz(made())
        self.assertIn("no float tensors but those that the options leave out: ", self.lines("--min-elements=99999")[-1])

    def test_without_options_two_errors(self):
        lines = self.lines()
        self.assertEqual([line.split(" on ")[0] for line in lines if line.startswith("for ") and "take" in line],
                         ["for NMSE 0.1", "for NMSE 0.01"])
        self.assertIn("not within that: ", "\n".join(lines))
        self.assertNotIn("MB/s", "\n".join(lines))  # not a terminal

    def test_plot(self):
        plot = self.dir / "p.svg"
        call = ["compare", self.dump, "--scheme=dqsg:levels=3", "--scheme=raw", "--nmse=0.1,1", "--plot", plot, "-q"]
        self.ok(*call)
        marks = [e for e in xml.parse(plot).iter() if e.get("class") == "mark"]
        self.assertEqual(len(marks), 2)
        self.refused(USAGE, *call, says="-f")
        self.ok(*call, "-f")

    def test_refusals(self):
        for options, says in {("--scheme=ef/topk:k=1%",): "gradcodec replay", ("--scheme=ndqsg:fine=9,coarse=3",): "side",
                              ("--scheme=at",): "index set", ("--scheme=dqsg",): "levels", ("--nmse=0",): "--nmse",
                              ("--nmse=1e-9",): "--nmse", ("--bits=17",): "--bits", ("--nmse=0.1,x",): "--nmse",
                              ("--plot=x.png",): ".svg", ("--include=nobody",): "nobody"}.items():
            self.refused(USAGE, "compare", self.dump, *options, says=says)
        self.dump = self.npy(np.float32([1, np.nan]))
        self.refused(BAD_INPUT, "compare", self.dump, says="dither:nmse=0.1")
        self.assertEqual(len(self.json("--nonfinite=keep", "--scheme=dqsg:levels=3")["schemes"]), 1)


if __name__ == "__main__":
    support.main()
