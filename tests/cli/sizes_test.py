#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files are as small as promised, and info accounts for every byte."""
import json

import numpy as np

import support


class Sizes(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.tensors = support.real_gradient()

    def schema_of(self, packed):
        path = self.dir / "x.schema"
        self.ok("info", packed, "-f", "--schema-out", path)
        return path

    def test_ternary_file_of_the_network(self):
        packed = self.compress(self.npz(self.tensors), "--scheme=dqsg:levels=3", "--coder=pack", "--seed=1")
        self.assertLessEqual(packed.stat().st_size, 53_640)

    def test_ternary_bare_message_of_the_network(self):
        source = self.npz(self.tensors)
        options = ["--scheme=dqsg:levels=3", "--coder=pack", "--seed=1"]
        schema = self.schema_of(self.compress(source, *options))
        bare = self.compress(source, *options, "--bare", "--schema", schema, "--worker=1", "--step=1000")
        self.assertLessEqual(bare.stat().st_size, 53_400)

    def bits_and_entropy(self, source, scheme, coder):
        """Bits a value of all tensors' frames, and of the order-0 entropy of their symbols, of one message."""
        packed = self.compress(source, "--scheme", scheme, "--coder", coder, "--seed=1", to=self.dir / "o")
        whole = json.loads(self.ok("stats", packed, "--json").out)["whole"]
        return whole["bits_per_value"], whole["entropy_bits_per_value"]

    def test_the_dither_as_context_saves_what_it_should(self):
        source = support.DATA / "fc.h5"
        for scheme, most in (("dqsg:levels=3", 0.68), ("dqsg:levels=5", 0.77), ("dither:nmse=0.1", 0.84)):
            bits, entropy = self.bits_and_entropy(source, scheme, "rans-dither")
            self.assertLessEqual(bits, most * entropy, scheme)
        rans, _ = self.bits_and_entropy(source, "dither:nmse=0.1", "rans")
        dithered, _ = self.bits_and_entropy(source, "dither:nmse=0.1", "rans-dither")
        self.assertLessEqual(rans, 1.57)
        self.assertLess(dithered, rans)

    def test_contexts_never_cost_more_than_16_bytes_a_tensor(self):
        cases = {**self.tensors, "one-sided": np.abs(self.tensors["fc2.weight"]), "constant": np.full(999, 3, np.float32),
                 "zeros": np.zeros(70_000, np.float32), "ramp": np.linspace(0, 1, 5000, dtype=np.float32)}
        source = self.npz(cases)
        for scheme in ("dqsg:levels=3", "dqsg:levels=255", "dqsg:levels=4097,bucket=100", "dither:nmse=0.1", "dither:nmse=1e-5"):
            sizes = [{tensor["name"]: tensor["bytes"] for tensor in self.info(self.compress(
                source, "--scheme", scheme, "--coder", coder, "--seed=1", to=self.dir / "o"))["tensors"]}
                for coder in ("rans", "rans-dither")]
            for name, size in sizes[0].items():
                self.assertLessEqual(sizes[1][name], size + 16, f"{scheme}, {name}")

    def test_size_never_grows_with_the_level(self):
        for source, more in ((support.DATA / "fc.h5", ["raw"]), (self.npz({"a": self.tensors["fc2.weight"]}), [])):
            for scheme in ["dqsg:levels=3", "dqsg:levels=255", "dither:nmse=0.1", "dither:nmse=0.001", *more]:
                sizes = [self.compress(source, "--scheme", scheme, f"-{level}", "--seed=1", to=self.dir / "o").stat().st_size
                         for level in range(1, 10)]
                self.assertEqual(sizes, sorted(sizes, reverse=True), scheme)
                self.assertLess(sizes[-1], sizes[0])

    def test_less_error_takes_more_bytes(self):
        sizes = [self.compress(support.DATA / "fc.h5", f"--scheme=dither:nmse={nmse}", "--seed=1", to=self.dir / "o").stat().st_size
                 for nmse in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)]
        self.assertEqual(sizes, sorted(set(sizes), reverse=True))

    def test_overhead_of_a_file_and_of_a_bare_message(self):
        for count in (1, 2, 7):
            tensors = {f"t{i}": np.linspace(-1, 1, 100 + i, dtype=np.float32).reshape(1, -1) for i in range(count)}
            source, scheme = self.npz(tensors), "dqsg:levels=3"
            packed = self.compress(source, "--scheme", scheme, "--coder=pack", "--seed=1")
            symbols = sum((x.size + 4) // 5 for x in tensors.values())
            stored = 4 * count
            allowed = 110 + len(scheme) + count * (len("t0") + 8 + 3 + 16) + stored
            self.assertLessEqual(packed.stat().st_size - symbols, allowed, f"{count} tensors")
            bare = self.compress(source, "--scheme", scheme, "--coder=pack", "--seed=1", "--bare", "--schema",
                                 self.schema_of(packed), "--worker=1", "--step=1")
            self.assertLessEqual(bare.stat().st_size - symbols - stored, 48, f"{count} tensors")

    def test_incompressible_input_grows_by_little(self):
        noise = np.frombuffer(np.random.default_rng(5).bytes(4 << 20), np.uint32).copy()
        for coder in ("pack", "zstd", "rans"):
            packed = self.compress(self.npy(noise), "--scheme=raw", "--coder", coder)
            self.assertLessEqual(packed.stat().st_size, noise.nbytes + 400, coder)

    def test_parts_sum_to_the_file(self):
        tiny = {"a": np.float32(3), "b": np.zeros((0, 4), np.float32), "c": np.arange(9000, dtype=np.int32)}
        sources = [self.npz(self.tensors, "real.npz"), self.npz(tiny, "tiny.npz"), self.npz({}, "none.npz"),
                   self.npy(np.linspace(-1, 1, 300_000, dtype=np.float64), "long.npy")]
        options = [["--scheme=raw"], ["--scheme=dqsg:levels=3", "--coder=pack"], ["--scheme=dqsg:levels=5,bucket=512"],
                   ["--scheme=dither:nmse=0.1", "--chunk-log2=12", "--metadata", '{"a": [1, 2.5, "x"]}'],
                   ["--scheme=dither:step=0.01", "--level=9", "--worker=3", "--step=9"]]
        for source in sources:
            for choice in options:
                packed = self.compress(source, "--seed=1", *choice)
                size = packed.stat().st_size
                info = self.info(packed)
                self.assertEqual(sum(info["parts"].values()), size, f"{source.name} {choice}")
                self.assertEqual(info["total_bytes"], size, f"{source.name} {choice}")
                inside = sum(tensor["bytes"] for tensor in info["tensors"])
                frames = info["parts"]["payloads"] + info["parts"]["frame heads and checks"]
                self.assertEqual(inside, frames, f"{source.name} {choice}: tensors against frames")


if __name__ == "__main__":
    support.main()
