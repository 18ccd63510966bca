#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--loss-attribute: adaquant takes its losses from the attributes of a trace."""
import json
import math

import h5py
import numpy as np

import support
from support import BAD_INPUT, USAGE


def levels(first, loss, s0=2):
    """The smallest s with s^2 loss >= s0^2 first."""
    s = 1
    while s * s * loss < s0 * s0 * first:
        s += 1
    return s


class Losses(support.CliTest):
    """Two steps of two workers, the later step first in the file's order of names."""

    LOSSES = {"step_5": 2.0, "step_20": 0.125}

    def setUp(self):
        super().setUp()
        self.dump = self.dir / "trace.h5"
        self.names = [f"{step}/worker_{w}/w" for step in self.LOSSES for w in (0, 1)]
        with h5py.File(self.dump, "w") as file:
            for i, name in enumerate(self.names):
                file[name] = np.random.default_rng(i).standard_normal(900).astype("f4")
            for step, loss in self.LOSSES.items():
                file[step].attrs["loss"] = loss

    def edit(self, change):
        with h5py.File(self.dump, "a") as file:
            change(file)

    def packed(self, scheme="adaquant:s0=2", *options, attribute="loss"):
        return self.compress(self.dump, "--scheme", scheme, "--seed=1", "--loss-attribute", attribute, *options)

    def levels(self, *args, **options):
        """What info says of each tensor, as its largest symbol."""
        tensors = self.info(self.packed(*args, **options))["tensors"]
        return {t["name"]: int(t["parameters"].split("M ")[1]) for t in tensors if "M " in t["parameters"]}

    def refusal(self, code, says, scheme="adaquant:s0=2", attribute="loss", command="compress"):
        err = self.refused(code, command, self.dump, "-f", "--scheme", scheme, "--loss-attribute", attribute,
                           *(["-o", self.dir / "o"] if command == "compress" else [])).err
        for part in says:
            self.assertIn(part, err)

    def test_each_step_has_its_loss_and_the_first_is_the_first(self):
        self.assertEqual(self.levels(), {n: levels(2.0, self.LOSSES[n.split("/")[0]]) for n in self.names})
        self.assertEqual(set(self.levels().values()), {2, 8})

    def test_what_the_text_gives_is_not_read(self):
        self.assertEqual(set(self.levels("adaquant:s0=2,loss0=8").values()), {4, 16})
        self.assertEqual(set(self.levels("adaquant:s0=2,loss=0.5").values()), {4})
        self.refusal(USAGE, ["--loss-attribute is for"], "adaquant:s0=2,loss0=1,loss=1")
        self.refusal(USAGE, ["--loss-attribute is for"], "dqsg:levels=3")
        self.refusal(USAGE, ["--loss-attribute is for"], "adaquant:s0=2/qsgd:s=4")
        self.refusal(USAGE, ["s0"], "adaquant")

    def test_the_bytes_are_those_of_the_losses_in_the_text(self):
        for step, loss in self.LOSSES.items():
            only = ("--include", step + "/*")
            by_attribute = self.packed("adaquant:s0=3,loss0=2.5,bucket=100", *only).read_bytes()
            text = f"adaquant:s0=3,loss0=2.5,loss={loss},bucket=100"
            self.assertEqual(self.compress(self.dump, "--scheme", text, "--seed=1", *only).read_bytes(), by_attribute)

    def test_behind_a_sparsifier(self):
        whole = self.packed("topk:k=10%/adaquant:s0=2").read_bytes()
        same = self.packed("topk:k=10%/adaquant:s0=2,loss0=2").read_bytes()
        text = "topk:k=10%/adaquant:s0=2,loss0=2,loss=2"
        self.assertEqual(whole, same)
        self.assertNotEqual(self.compress(self.dump, "--scheme", text, "--seed=1").read_bytes(), whole)

    def test_the_group_of_the_step_goes_before_nearer_ones(self):
        self.edit(lambda f: f["step_20/worker_1"].attrs.__setitem__("loss", 1e-6))
        self.assertEqual(set(self.levels().values()), {2, 8})
        self.edit(lambda f: f["step_20"].attrs.__delitem__("loss"))
        self.edit(lambda f: f.attrs.__setitem__("loss", 0.5))
        self.assertEqual(self.levels()["step_20/worker_0/w"], levels(2.0, 0.5))  # the root's
        self.assertEqual(self.levels()["step_20/worker_1/w"], levels(2.0, 1e-6))  # the nearest

    def test_a_dump_without_steps(self):
        with h5py.File(self.dump, "w") as file:
            file["layers/w"] = np.arange(1, 900, dtype="f4")
            file["layers"].attrs["loss"] = 0.5
        self.assertEqual(self.levels("adaquant:s0=2,loss0=2"), {"layers/w": 4})
        self.refusal(USAGE, ["trace.h5", "loss0=... in the scheme"])

    def test_types_of_numbers(self):
        for value in (np.float16(0.125), np.float32(0.125), np.float64(0.125), np.array([0.125]), np.array([[0.125]])):
            self.edit(lambda f: f["step_20"].attrs.__setitem__("loss", value))
            self.assertEqual(self.levels()["step_20/worker_0/w"], 8)
        for kind in "i1 i2 i4 i8 u1 u2 u4 u8".split():
            self.edit(lambda f: f["step_5"].attrs.create("loss", 2, dtype=kind))
            self.assertEqual(self.levels()["step_20/worker_0/w"], 8)
        self.edit(lambda f: f["step_20"].attrs.__setitem__("loss", 2e20))
        self.assertEqual(self.levels()["step_20/worker_0/w"], 1)

    def test_no_such_attribute(self):
        self.refusal(USAGE, ["trace.h5", "group '/step_5'", "attribute 'lost'", "loss=... and loss0=..."],
                     attribute="lost")
        self.edit(lambda f: f["step_20"].attrs.__delitem__("loss"))
        self.refusal(USAGE, ["trace.h5", "tensor 'step_20/worker_0/w'", "group '/step_20'", "attribute 'loss'", "loss=..."])
        self.assertFalse((self.dir / "o").exists())
        # Tensors that go by raw need none.
        self.packed("adaquant:s0=2", "--exclude", "step_20/*")

    def test_attributes_that_are_no_loss(self):
        for value in (math.nan, math.inf, 0.0, -1.0, -3, 1e31):
            self.edit(lambda f: f["step_20"].attrs.__setitem__("loss", value))
            self.refusal(BAD_INPUT, ["trace.h5", "group '/step_20'", "attribute 'loss'", "from 1e-30", "loss=..."])
        for value in ("0.5", np.array([0.5, 0.25]), np.array([], dtype="f4"), True, 1j, h5py.Empty("f8")):
            self.edit(lambda f: f["step_20"].attrs.__setitem__("loss", value))
            self.refusal(BAD_INPUT, ["trace.h5", "group '/step_20'", "attribute 'loss'", "not a single number"])

    def test_other_dumps_have_no_attributes(self):
        self.dump = self.npz({"step_5/w": np.ones(9, "f4")})
        self.refusal(USAGE, ["x.npz", "only HDF5"])

    def test_bare_messages_too(self):
        schema = self.dir / "schema"
        self.ok("info", self.packed(), "--schema-out", schema)
        bare = {}
        for name, options in {"all": [], "given": ["--loss-attribute=loss"]}.items():
            text = "adaquant:s0=2" + ("" if options else ",loss0=2,loss=2")
            bare[name] = self.dir / name
            self.ok("compress", self.dump, "--bare", "--schema", schema, "--seed=1", "-q", "-o", bare[name], "--scheme",
                    text, *options)
        self.assertNotEqual(bare["all"].read_bytes(), bare["given"].read_bytes())

    def test_verify_tries_the_same_levels(self):
        out = json.loads(self.ok("verify", self.dump, "--scheme=adaquant:s0=2", "--loss-attribute=loss", "--seed=1",
                                 "--trials=8", "--json").out)
        for i, name in enumerate(self.names):
            tensor, = [t for t in out["tensors"] if t["tensor"] == name]
            expected = self.variance(i, self.levels()[name])
            self.assertAlmostEqual(tensor["variance"] / expected, 1, delta=1e-4, msg=name)
        self.refused(USAGE, "verify", self.packed(), "--loss-attribute=loss", "--scheme=adaquant:s0=2")

    @staticmethod
    def variance(tensor, s):
        """Of qsgd's rounding with s levels and buckets of 512."""
        x = np.abs(np.random.default_rng(tensor).standard_normal(900).astype("f4").astype("f8"))
        out = 0
        for part in (x[:512], x[512:]):
            step = np.linalg.norm(part) / s
            f = part / step % 1
            out += (step**2 * f * (1 - f)).sum()
        return out


if __name__ == "__main__":
    support.main()
