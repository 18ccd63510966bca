#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stats of .gradz files: sizes against info, entropy and errors against NumPy on what decompress gives."""
import csv
import io
import json
import xml.etree.ElementTree

import numpy as np
import scipy.stats

import support
from support import BAD_INPUT, DATA, USAGE

FC = DATA / "fc.h5"


def strict_json(text):
    def refuse(name):
        raise ValueError(name)
    return json.loads(text, parse_constant=refuse)


def errors(x, y):
    x, y = x.ravel().astype("f8"), y.ravel().astype("f8")
    e = y - x
    return {"nmse": (e @ e) / (x @ x), "cosine": (x @ y) / np.sqrt((x @ x) * (y @ y)), "max_error": np.abs(e).max(),
            "max_error_index": int(np.abs(e).argmax()), "bias": (e @ x) / (x @ x),
            "psnr": 20 * np.log10((x.max() - x.min()) / np.sqrt((e @ e) / e.size)), "unequal": int((x != y).sum())}


class StatsOfMessages(support.CliTest):
    def stats(self, *args, **options):
        return strict_json(self.ok("stats", *args, "--json", "-q", **options).out)

    def test_errors_are_what_numpy_finds(self):
        x = support.real_gradient()
        dump = self.npz({**x, "half": (x["fc2.weight"] * 64).astype("f2"), "wide": x["fc3.weight"].astype("f8")})
        for scheme in ("dither:nmse=0.1", "dqsg:levels=255,bucket=512"):
            file = self.compress(dump, "--seed", 1, "--scheme", scheme)
            decoded = self.decompress(file, suffix=".npz")
            report = self.stats(file, "--against", dump)
            for tensor in report["tensors"]:
                before = np.load(dump)[tensor["name"]]
                for name, value in errors(before, decoded[tensor["name"]]).items():
                    self.assertAlmostEqual(tensor[name] / value if value else tensor[name] + 1, 1, delta=1e-9,
                                           msg=(tensor["name"], name))

    def test_sizes_are_those_of_info(self):
        file = self.compress(FC, "--seed", 1)
        info, report = self.info(file), self.stats(file)
        self.assertEqual({t["name"]: t["bytes"] for t in info["tensors"]}, {t["name"]: t["bytes"] for t in report["tensors"]})
        self.assertEqual({k: v for k, v in info["parts"].items() if v}, {p["part"]: p["bytes"] for p in report["parts"]})
        self.assertEqual(report["whole"]["bytes"], file.stat().st_size)
        self.assertAlmostEqual(report["whole"]["bits_per_value"], 8 * file.stat().st_size / 266610, delta=1e-12)

    def test_entropy_is_that_of_the_symbols(self):
        """Of raw the symbols are the bytes. Of a step far above the values they are 0 but where |u| is nearly 1/2."""
        x = np.random.default_rng(1).geometric(0.4, 20000).astype("f4")
        file = self.compress(self.npy(x), "--scheme", "raw")
        planes = np.frombuffer(x.tobytes(), "u1")
        expected = scipy.stats.entropy(np.bincount(planes), base=2)
        self.assertAlmostEqual(self.stats(file)["tensors"][0]["entropy_bits_per_symbol"] / expected, 1, delta=1e-9)
        tensor = self.stats(self.compress(self.npy(x), "--scheme", "dither:step=1000", "--seed", 1))["tensors"][0]
        p = x.astype("f8").mean() / 1000
        self.assertAlmostEqual(tensor["entropy_bits_per_symbol"], scipy.stats.entropy([p, 1 - p], base=2), delta=0.01)

    def test_formats(self):
        file = self.compress(FC, "--seed", 1)
        rows = list(csv.DictReader(io.StringIO(self.ok("stats", file, "--csv", "--against", FC).out.decode())))
        self.assertEqual([row["name"] for row in rows], sorted(support.real_gradient()))
        self.assertAlmostEqual(float(rows[1]["nmse"]), 0.1, delta=0.002)
        plot = self.dir / "plot.svg"
        self.ok("stats", file, "--against", FC, "--plot", plot)
        text = "".join(xml.etree.ElementTree.parse(plot).getroot().itertext())
        for name in support.real_gradient():
            self.assertIn(name, text)
        self.assertIn("bits a value (bytes of the file)", text)
        self.assertNotIn("entropy", text)
        piped = self.stats("-", stdin=file.read_bytes())
        self.assertEqual(piped["tensors"], self.stats(file)["tensors"])
        table = self.ok("stats", file, "--against", FC).out.decode()
        for word in ("NMSE", "entropy", "payloads", "fc3.bias"):
            self.assertIn(word, table)

    def test_a_plot_of_many_tensors_numbers_the_first(self):
        x = np.random.default_rng(2).standard_normal(200).astype("f4")
        dump = self.npz({f"t{i:02}": x for i in range(70)})
        plot = self.dir / "plot.svg"
        self.ok("stats", self.compress(dump, "--seed", 1), "--against", dump, "--plot", plot)
        root = xml.etree.ElementTree.parse(plot).getroot()
        of_class = lambda name: [e.text for e in root.iter() if e.get("class") == name]
        self.assertEqual(len(of_class("mark")), 71)
        self.assertEqual(of_class("number"), [str(i + 1) for i in range(60)])
        self.assertEqual([t.split(":")[0] for t in of_class("label")], ["(file)"] + [f"t{i:02}" for i in range(59)])
        self.assertIn("and 11 more, not numbered", [e.text for e in root.iter()])

    def test_odd_tensors(self):
        x = np.zeros(5000, "f4")
        x[:3] = np.nan, np.inf, 1
        dump = self.npz({"kept": x, "zeros": np.zeros(10, "f4"), "none": np.zeros(0, "f4"), "i": np.arange(9)})
        file = self.compress(dump, "--nonfinite", "keep", "--seed", 1, "--scheme", "dqsg:levels=3")
        tensors = {t["name"]: t for t in self.stats(file, "--against", dump)["tensors"]}
        self.assertEqual((tensors["kept"]["nonfinite"], tensors["kept"]["exceptions"]), (2, 2))
        self.assertIsNone(tensors["zeros"]["nmse"])
        self.assertEqual(tensors["zeros"]["max_error"], 0)
        self.assertIsNone(tensors["none"]["bits_per_value"])
        self.assertEqual((tensors["i"]["unequal"], tensors["i"]["nmse"]), (0, None))

    def test_refusals(self):
        file = self.compress(FC, "--seed", 1)
        self.refused(USAGE, "stats", file, "--scheme", "raw", says="--scheme")
        self.refused(USAGE, "stats", file, "--plot", self.dir / "x.svg", says="--against")
        self.refused(USAGE, "stats", FC, "--against", FC, says="--against")
        self.refused(BAD_INPUT, "stats", file, "--against", self.npz({"fc1.bias": np.zeros(3, "f4")}), says="fc1.bias")
        data = bytearray(file.read_bytes())
        data[-100] ^= 1
        self.refused(BAD_INPUT, "stats", self.write(data))


if __name__ == "__main__":
    support.main()
