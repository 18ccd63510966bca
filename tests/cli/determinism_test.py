#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same bytes for every number of threads, instruction set, run, locale, and way in."""
import os
import subprocess

import h5py
import numpy as np

import support
from support import USAGE

# Names of instruction sets, as the Highway library has them; a machine has some of them.
TARGETS = ["SSE2", "SSSE3", "SSE4", "AVX2", "AVX3", "AVX3_DL", "AVX3_ZEN4", "AVX3_SPR", "NEON", "NEON_WITHOUT_AES"]
SCHEMES = ["raw", "dqsg:levels=3", "dqsg:levels=65535", "dqsg:levels=257,bucket=100", "dqsg:levels=5,clip=2",
           "dither:nmse=0.1", "dither:nmse=0.001,bucket=1000", "dither:step=0.01"]


def available_targets():
    return ["scalar", *[t for t in TARGETS if support.run("schemes", env={"GRADCODEC_KERNELS": t}).code == 0]]


class Determinism(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.real = support.real_gradient()
        rng = np.random.default_rng(10)
        odd = rng.standard_normal(40_001).astype(np.float32)
        odd[[0, 4095, 4096, 20_000]] = [np.nan, np.inf, 3e38, 1e-42]
        cls.tensors = {"odd": odd, "wide": rng.standard_normal(9001),
                       "half": rng.standard_normal(8200).astype(np.float16),
                       "few": np.float32([1, 2, 3]), "whole": np.arange(5000), "none": np.zeros(0, np.float32)}

    def outcomes(self, source, scheme, *options, env=None):
        """A .gradz file of `source`, and what it decodes to under the same conditions, as bytes."""
        packed = self.dir / "o.gradz"
        self.ok("compress", source, "-q", "-f", "-o", packed, "--scheme", scheme, "--seed=3", "--chunk-log2=12",
                "--nonfinite=keep", *options, env=env)
        threads = [o for o in options if o.startswith("-T")]
        out = self.ok("decompress", packed, "-o", "-", "--to=npz", *threads, env=env).out
        narrow = self.ok("decompress", packed, "-o", "-", "--to=npz", "--dtype=bf16", *threads, env=env).out
        return packed.read_bytes(), out, narrow

    def assert_all_equal(self, outcomes):
        first, *others = outcomes.items()
        for key, outcome in others:
            for what, a, b in zip(("file", "decoded values", "decoded bfloat16"), first[1], outcome):
                self.assertTrue(a == b, f"{what}: {key} differs from {first[0]}")

    def test_threads(self):
        source = self.npz(self.tensors)
        for scheme in SCHEMES:
            for coder in ("pack", "zstd", "rans", "rans-dither", "elias"):
                self.assert_all_equal({(scheme, coder, t): self.outcomes(source, scheme, "--coder", coder, t)
                                       for t in ("-T1", "-T2", "-T5", "-T7")})

    def test_repeats(self):
        source = self.npz(self.real)
        self.assert_all_equal({i: self.outcomes(source, "dqsg:levels=5,bucket=512", "-T8") for i in range(5)})

    def test_instruction_sets(self):
        targets = available_targets()
        source = self.npz(self.tensors)
        coded = [(scheme, "pack") for scheme in SCHEMES]
        coded += [(scheme, "rans-dither") for scheme in ("dqsg:levels=3", "dqsg:levels=65535", "dither:nmse=0.1")]
        coded += [(scheme, "model") for scheme in ("dqsg:levels=3", "dither:nmse=1e-5", "dither:nmse=0.1,steps=class")]
        for scheme, coder in coded:
            environments = {t: {"GRADCODEC_KERNELS": t} for t in [*targets, ""]}
            self.assert_all_equal({(scheme, coder, t): self.outcomes(source, scheme, "--coder", coder, env=env)
                                   for t, env in environments.items()})

    def test_an_unknown_instruction_set_is_refused(self):
        self.refused(USAGE, "schemes", env={"GRADCODEC_KERNELS": "none"}, says="GRADCODEC_KERNELS")

    def test_nonfinite_values_on_every_instruction_set(self):
        x = np.zeros(5000, np.float32)
        for at in (0, 1, 17, 4999):
            y = x.copy()
            y[at] = np.nan
            for target in available_targets():
                self.refused(support.BAD_INPUT, "compress", self.npy(y), "-o", self.dir / "o", "--scheme=dqsg:levels=3",
                             env={"GRADCODEC_KERNELS": target}, says=f"element {at} ")

    def test_the_first_nonfinite_value_is_named_whoever_finds_it(self):
        x = np.ones(40 * 4096, np.float32)
        x[[39 * 4096 + 1, 11 * 4096 + 9, 11 * 4096 + 7]] = np.inf
        for scheme in ("dqsg:levels=3", "dither:nmse=0.1", "dither:nmse=0.1,bucket=100"):
            for threads in ("-T1", "-T2", "-T5"):
                self.refused(support.BAD_INPUT, "compress", self.npy(x), "-o", self.dir / "o", "--chunk-log2=12",
                             "--scheme", scheme, threads, says=f"element {11 * 4096 + 7} ")

    def test_file_and_pipe(self):
        source = self.npz(self.tensors)
        options = ["--scheme=dither:nmse=0.1", "--seed=3", "-q", "--nonfinite=keep", "-o", "-"]
        file = self.ok("compress", source, *options).out
        self.assertEqual(self.ok("compress", "-", *options, stdin=source.read_bytes()).out, file)
        packed = self.write(file)
        self.assertEqual(self.ok("decompress", "-", "--to=npz", stdin=file).out,
                         self.ok("decompress", packed, "-o", "-", "--to=npz").out)

    def test_the_kind_of_dump_decides_no_value(self):
        options = ["--scheme=dqsg:levels=5", "--seed=3"]
        values = self.decompress(self.compress(self.npz(self.real), *options), suffix=".npz")
        packed = self.dir / "h5.gradz"
        made = support.run("compress", support.DATA / "fc.h5", "-o", packed, *options)
        self.assertEqual(made.code, 0, made.err)
        decoded = self.decompress(packed, "--to=npz", suffix=".npz")
        self.assertEqual(list(decoded), list(values))
        for name, x in values.items():
            self.assert_same_bits(decoded[name], x, name)
        back = self.dir / "back.h5"
        self.ok("decompress", packed, "-o", back)
        with h5py.File(back) as file:
            for name, x in values.items():
                self.assert_same_bits(file[name][()], x, name)
            with h5py.File(support.DATA / "fc.h5") as original:
                attributes = [{k: str(v) for k, v in f.attrs.items()} for f in (file, original)]
                self.assertEqual(*attributes)

    def test_a_locale_with_a_decimal_comma(self):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", self.dir / "de_DE.UTF-8"], check=True)
        env = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(self.dir),
               "ASAN_OPTIONS": "detect_leaks=0"}  # the C library leaks what it makes of LOCPATH
        point = subprocess.run(["locale", "decimal_point"], capture_output=True, text=True, env={**os.environ, **env})
        self.assertEqual(point.stdout.strip(), ",")
        source = self.npz(self.tensors)
        for scheme in ("dither:nmse=0.001", "dqsg:levels=5,clip=2.5"):
            self.assert_all_equal({"C": self.outcomes(source, scheme, env={"LC_ALL": "C"}),
                                   "de": self.outcomes(source, scheme, env=env)})
        packed = self.compress(source, "--scheme=raw", "--metadata", '{"x": 1.5}')
        for call in (["info", packed], ["info", "--json", packed], ["schemes", "dither"], ["schemes", "--json"]):
            self.assertEqual(self.ok(*call, env=env).out, self.ok(*call, env={"LC_ALL": "C"}).out)

    def test_no_path_or_time_is_in_a_file(self):
        x = np.linspace(-1, 1, 100, dtype=np.float32)
        a, b = self.npy(x, "first-name.npy"), self.npy(x, "other.npy")
        options = ["--scheme=dqsg:levels=5", "--seed=3"]
        self.assertEqual(self.compress(a, *options).read_bytes(), self.compress(b, *options).read_bytes())
        self.assertNotIn(b"first-name", self.compress(a, *options).read_bytes())
        raw = self.compress(self.npz(self.tensors), "--scheme=raw")
        self.assertNotIn("seed", self.info(raw))

    def test_fresh_seeds_differ(self):
        source = self.npy(np.linspace(-1, 1, 100, dtype=np.float32))
        seeds = {self.info(self.compress(source, "--scheme=dqsg:levels=3"))["seed"] for _ in range(5)}
        self.assertEqual(len(seeds), 5)


if __name__ == "__main__":
    support.main()
