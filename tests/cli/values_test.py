#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values that break codecs: none, zeros, tiny, huge, not finite, alone among zeros; and means stay what they are."""
import numpy as np

import support
from support import BAD_INPUT, LIMIT

F32 = np.float32
LOSSY = ["dqsg:levels=3", "dqsg:levels=255", "dqsg:levels=65535", "dqsg:levels=5,bucket=3", "dither:nmse=0.1",
         "dither:nmse=1e-6", "dither:nmse=0.1,bucket=3"]
SCHEMES = ["raw", *LOSSY]
TINIEST = F32(1e-45)


def step_of(x, levels):
    """Of dqsg, but for its last bit."""
    return float(np.abs(x.astype(np.float64)).max(initial=0)) / (levels // 2)


class Values(support.CliTest):
    def decoded(self, x, scheme, *options, seed=1, back=()):
        return self.there_and_back(x, "--scheme", scheme, "--seed", seed, "--coder=pack", *options, back=back)

    def test_shapes_and_zeros_come_back(self):
        for x in (np.zeros(0, F32), np.zeros((3, 0, 2), F32), F32(0), F32(-0.0), np.zeros(1, F32),
                  np.zeros((4, 5), F32),
                  np.full(7, -0.0, F32), np.zeros(5000, np.float64), np.zeros(9, np.float16)):
            for scheme in SCHEMES:
                got = self.decoded(x, scheme)
                expected = x if scheme == "raw" else x + x.dtype.type(0)  # lossy schemes decode zeros to +0
                self.assert_same_bits(got, np.asarray(expected), f"{x!r} {scheme}")

    def test_zeros_cost_next_to_nothing(self):
        for scheme in LOSSY[:2] + LOSSY[4:5]:
            packed = self.compress(self.npy(np.zeros(10**6, F32)), "--scheme", scheme)
            self.assertLess(packed.stat().st_size, 300, scheme)

    def test_dqsg_errs_by_half_a_step_whatever_the_magnitude(self):
        pattern = np.array([1, -1, 0.5, 0, -0.25, 1e-3, -0.999, 0.7], F32)
        for scale in (1e-31, 1e-25, 1.2e-38, 1e-20, 1, 1e20, 1e30, 8e37, 2.0**126):
            x = (pattern * F32(scale)).astype(F32)
            for levels in (3, 5, 255, 65535):
                step = step_of(x, levels)
                if step < 2.0**-126:
                    step = 2.0**-126
                error = np.abs(self.decoded(x, f"dqsg:levels={levels}").astype(np.float64) - x)
                self.assertLessEqual(error.max(), step * (0.5 + 2.0**-6), f"scale {scale} levels {levels}")

    def test_subnormal_values(self):
        x = np.array([TINIEST, -TINIEST, 0, 1e-40, -1e-39], F32)
        for scheme in LOSSY:
            got = self.decoded(x, scheme).astype(np.float64)
            self.assertTrue(np.all(np.abs(got - x) <= 2.0**-126 * 0.51), f"{scheme}: {got}")
        self.assert_same_bits(self.decoded(x, "raw"), x)

    def test_one_element_and_constants(self):
        for x in (np.full(1, 3, F32), np.full(1, -1e-30, F32), F32(7), np.full(1000, -2.5, F32)):
            for scheme in LOSSY:
                if scheme == "dither:nmse=0.1":
                    continue  # its error is a third of the value
                got = np.asarray(self.decoded(x, scheme))
                self.assertTrue(np.all(np.isfinite(got)), scheme)
                self.assertTrue(np.all(np.abs(got - x) <= np.abs(x)), f"{scheme}: {got.reshape(-1)[:4]}")

    def test_values_at_the_top_of_float32_are_kept_exactly(self):
        x = np.array([1, 3.4e38, -3.4028235e38, 9e37, 0.25], F32)  # three above 2^126
        for scheme in SCHEMES:
            got = self.decoded(x, scheme)
            self.assert_same_bits(got[1:4], x[1:4], scheme)
            self.assertTrue(np.all(np.isfinite(got)), scheme)

    def test_one_outlier_in_a_sea_of_zeros(self):
        x = np.zeros(10**7, F32)
        x[7_654_321] = 5
        packed = self.compress(self.npy(x), "--scheme=dither:nmse=0.1", "--seed=1")
        got = self.decompress(packed)
        rms = 5 / np.sqrt(1e7)
        self.assertLessEqual(abs(got[7_654_321] - 5), rms * np.sqrt(1.2) / 2 * 1.001)
        self.assertEqual(np.count_nonzero(np.abs(got) > rms * np.sqrt(1.2) / 2 * 1.001), 1)
        x[7_654_321] = 1e6  # and the same beyond 32,767 steps, by a small error wanted
        got = self.decompress(self.compress(self.npy(x), "--scheme=dither:nmse=1e-6", "--seed=1"))
        self.assertEqual(got[7_654_321], F32(1e6))

    def test_negative_zero(self):
        x = np.array([-0.0, 0.0, 1.0, -1.0], F32)
        self.assert_same_bits(self.decoded(x, "raw"), x)
        y = np.abs(x)
        y[3] = -1
        for scheme in LOSSY:  # -0 and +0 are the same number
            self.assert_same_bits(self.decoded(x, scheme), self.decoded(y, scheme), scheme)

    def test_nonfinite_is_an_error_that_names_tensor_and_index(self):
        for bad in (np.nan, np.inf, -np.inf):
            for scheme in LOSSY:
                for size, at in [(1, 0), (10, 9), (9000, 4097)]:
                    x = np.ones(size, F32)
                    x[at] = bad
                    source = self.npz({"fine": np.ones(3, F32), "weights": x})
                    result = self.refused(BAD_INPUT, "compress", source, "-f", "-o", self.dir / "o", "--scheme", scheme,
                                          "--chunk-log2=12", says="tensor 'weights'")
                    self.assertIn(f"element {at} ", result.err)
                    self.assertFalse((self.dir / "o").exists())

    def test_nonfinite_kept_comes_back_to_the_bit(self):
        x = np.linspace(-1, 1, 9000, dtype=F32)
        odd = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x7FFFFFFF], np.uint32).view(F32)
        at = [0, 1, 4095, 4096, 4097, 8999]
        x[at] = odd
        without = np.where(np.isfinite(x), x, F32(0))
        for scheme in LOSSY:
            got = self.decoded(x, scheme, "--nonfinite=keep", "--chunk-log2=12")
            self.assert_same_bits(got[at], odd, scheme)
            rest = np.delete(np.arange(9000), at)
            if scheme.startswith("dqsg"):  # the others are as if zeros stood there
                self.assert_same_bits(got[rest], self.decoded(without, scheme, "--chunk-log2=12")[rest], scheme)
            self.assertTrue(np.all(np.isfinite(got[rest])), scheme)
        self.assert_same_bits(self.decoded(x, "raw"), x)

    def test_nothing_but_nonfinite(self):
        x = np.array([np.nan, np.inf, -np.inf], F32)
        for scheme in LOSSY:
            self.assert_same_bits(self.decoded(x, scheme, "--nonfinite=keep"), x, scheme)

    def test_nonfinite_float16_and_float64(self):
        for dtype in (np.float16, np.float64):
            x = np.array([1, np.inf, -np.inf, np.nan, -0.5], dtype)
            for scheme in LOSSY:
                got = self.decoded(x, scheme, "--nonfinite=keep")
                self.assertEqual((got.dtype, got[1], got[2]), (x.dtype, np.inf, -np.inf))
                self.assertTrue(np.isnan(got[3]) and np.isfinite(got[[0, 4]]).all(), scheme)

    def test_float64_beyond_float32(self):
        x = np.array([1.0, 1e39, 2.0])
        for scheme in LOSSY:
            call = ["compress", self.npy(x), "-f", "-o", self.dir / "o", "--scheme", scheme]
            self.refused(BAD_INPUT, *call, says="element 1 ")
            self.assertEqual(self.decoded(x, scheme, "--nonfinite=keep")[1], np.inf)
        self.assert_same_bits(self.decoded(x, "raw"), x)
        just = np.array([1.0, float(np.finfo(F32).max)])
        self.assert_same_bits(self.decoded(just, "dqsg:levels=3")[1:], just[1:])

    def test_scale_equivariance(self):
        x = np.random.default_rng(3).standard_normal(3000).astype(F32)
        for scheme in ("dqsg:levels=3", "dqsg:levels=255", "dqsg:levels=65535", "dqsg:levels=5,bucket=100",
                       "dither:nmse=0.1",
                       "dither:nmse=1e-5", "dither:nmse=0.1,bucket=100"):
            for power in (-33, -60, 40):
                scaled = self.decoded(x * F32(2.0**power), scheme)
                self.assert_same_bits(scaled, self.decoded(x, scheme) * F32(2.0**power), f"{scheme} times 2^{power}")

    def test_clip_limits_first(self):
        x = np.random.default_rng(4).standard_normal(4000).astype(F32)
        x[17] = 100
        limit = 2.5 * x.astype(np.float64).std()
        got = self.decoded(x, "dqsg:levels=255,clip=2.5")
        error = np.abs(got - np.clip(x, -limit, limit))
        self.assertLessEqual(error.max(), limit / 127 * 0.501)

    def test_orders_byte_orders_and_types_of_input(self):
        x = np.random.default_rng(5).standard_normal((30, 50)).astype(F32)
        plain = self.decoded(x, "dqsg:levels=5")
        self.assert_same_bits(self.decoded(np.asfortranarray(x), "dqsg:levels=5"), plain)
        self.assert_same_bits(self.decoded(x.astype(">f4"), "dqsg:levels=5"), plain)
        self.assert_same_bits(self.decoded(x.astype(">f8"), "dqsg:levels=5", back=["--dtype=f4"]), plain)

    def test_bfloat16_only_where_it_is_said_to_be(self):
        x = np.random.default_rng(6).standard_normal(500).astype(F32)
        bits = (x.view(np.uint32) >> 16).astype(np.uint16)
        values = (bits.astype(np.uint32) << 16).view(F32)
        expected = self.decoded(values, "dqsg:levels=5")
        for stored in (bits, bits.view("V2")):
            got = self.decoded(stored, "dqsg:levels=5", "--as-bf16", back=["--dtype=f4"])
            self.assert_same_bits(got, expected)
            self.assertEqual(self.decoded(stored, "dqsg:levels=5").tobytes(), bits.tobytes())  # raw


class Means(support.CliTest):
    """Over many seeds. By chance a bound is passed in fewer than one run in a million; the seeds are fixed anyway."""

    SEEDS = 400

    def check_mean(self, errors, sigma, what):
        """The error's mean over trials (rows) is 0 in each column, within 6 sigma of the mean."""
        bound = 6 * sigma / np.sqrt(len(errors))
        mean = np.abs(errors.mean(axis=0))
        told = f"{what}: mean error {mean.max()} of element {mean.argmax()}, bound {bound}"
        self.assertTrue(np.all(mean <= bound), told)

    def trials(self, x, scheme, *back, seeds=None, first=1):
        source = self.npy(x)
        schema = ["--scheme", scheme, "--coder=pack", "-T1"]

        def one(seed):
            packed = self.dir / f"{seed}.gradz"
            self.ok("compress", source, "-q", "-o", packed, *schema, "--seed", seed)
            out = np.frombuffer(self.ok("decompress", packed, "-q", "-T1", "-o", "-", *back).out[128:], np.uint8)
            packed.unlink()
            return out
        return np.stack(support.in_parallel(one, range(first, first + (seeds or self.SEEDS))))

    def test_dqsg_is_unbiased_and_of_uniform_error(self):
        x = np.concatenate([[1], np.random.default_rng(7).uniform(-1, 1, 62), [0]]).astype(F32)
        trials = self.trials(x, "dqsg:levels=5").view(F32).astype(np.float64)
        step = 0.5
        errors = trials - x
        self.check_mean(errors, step / np.sqrt(12), f"seeds 1 to {self.SEEDS}")
        # step^2 / 12, within 6 sigma: an error's square varies by step^4 / 180.
        variance, sigma = (errors**2).mean(), step**2 / np.sqrt(180 * errors.size)
        self.assertLessEqual(abs(variance - step**2 / 12), 6 * sigma)

    def test_the_check_catches_a_rigged_result(self):
        step, rng = 0.5, np.random.default_rng(8)
        fair = rng.uniform(-step / 2, step / 2, (self.SEEDS, 64))
        self.check_mean(fair, step / np.sqrt(12), "fair")
        x = rng.uniform(-1, 1, 64)
        for rigged in (fair + 0.1 * step, fair - 0.2 * x, np.round(x / step) * step - x + 0 * fair):
            with self.assertRaises(AssertionError):
                self.check_mean(rigged, step / np.sqrt(12), "rigged")

    def test_narrowing_to_16_bits_is_unbiased(self):
        x = np.array([1, 0.3, -0.7, 1e-3, 0.999, -1e-2, 0.5, -0.123], F32)
        many, seeds = np.tile(x, 50), self.SEEDS // 10
        exact = self.trials(many, "dqsg:levels=65535", seeds=seeds).view(F32).reshape(-1, x.size).astype(np.float64)
        for dtype, digits in [("f2", 10), ("bf16", 7)]:
            bits = self.trials(many, "dqsg:levels=65535", f"--dtype={dtype}", seeds=seeds).view(np.uint16)
            bits = bits.reshape(-1, x.size)
            values = bits.view(np.float16) if dtype == "f2" else (bits.astype(np.uint32) << 16).view(F32)
            ulp = 2.0 ** (np.floor(np.log2(np.abs(exact))) - digits)
            errors = (values.astype(np.float64) - exact) / ulp  # one of two neighbours: sigma is at most 1/2
            self.assertLess(np.abs(errors).max(), 1)
            self.assertGreater(np.abs(errors).max(), 0.9, "nothing was rounded far, so nothing was tested")
            self.check_mean(errors, 0.5, f"{dtype}, seeds 1 to {seeds}")
            nearest = np.rint(exact / ulp) * ulp
            self.assertGreater(np.count_nonzero(values != nearest), exact.size // 8, f"{dtype} is rounded to nearest")


class Narrowing(support.CliTest):
    def test_beyond_float16_is_an_error(self):
        packed = self.compress(self.npy(np.array([1, 1e5, 2], F32)), "--scheme=dither:step=0.5", "--seed=1")
        self.refused(LIMIT, "decompress", packed, "-o", self.dir / "o.npy", "--dtype=f2", says="element 1 ")
        self.assertFalse((self.dir / "o.npy").exists())
        self.assertEqual(self.decompress(packed, "--dtype=f4").shape, (3,))

    def test_a_float16_input_that_decodes_beyond_its_range_is_an_error(self):
        x = np.full(2000, 65504, np.float16)
        packed = self.compress(self.npy(x), "--scheme=dqsg:levels=3", "--seed=1")
        self.refused(LIMIT, "decompress", packed, "-o", self.dir / "o.npy", says="--dtype")
        self.assertTrue(np.isfinite(self.decompress(packed, "--dtype=f4")).all())

    def test_infinities_stay_infinite(self):
        packed = self.compress(self.npy(np.array([1, np.inf], F32)), "--scheme=dqsg:levels=3", "--nonfinite=keep")
        self.assertEqual(self.decompress(packed, "--dtype=f2")[1], np.inf)

    def test_raw_beyond_the_range_of_another_type_is_an_error(self):
        edges = {"f2": 65520.0, "f4": 2.0**128 - 2.0**103}  # halfway between the largest and the next power of two
        for dtype, edge in edges.items():
            below = np.nextafter(edge, 0)
            packed = self.compress(self.npy(np.array([np.inf, below, -below])), "--scheme=raw")
            largest = np.finfo(dtype).max
            self.assert_same_bits(self.decompress(packed, f"--dtype={dtype}"),
                                  np.array([np.inf, largest, -largest], dtype))
            packed = self.compress(self.npy(np.array([0, -edge])), "--scheme=raw")
            self.refused(LIMIT, "decompress", packed, "-o", self.dir / "o.npy", f"--dtype={dtype}", says="element 1 ")

    def test_raw_is_rounded_to_nearest(self):
        x = np.random.default_rng(9).standard_normal(2000).astype(F32) * F32(10.0)
        packed = self.compress(self.npy(x), "--scheme=raw")
        self.assert_same_bits(self.decompress(packed, "--dtype=f2"), x.astype(np.float16))
        self.assert_same_bits(self.decompress(packed, "--dtype=f8"), x.astype(np.float64))
        bits = self.decompress(packed, "--dtype=bf16").view(np.uint16)
        words = x.view(np.uint32)
        self.assert_same_bits(bits, ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16))


@support.slow
class Slow(Means):
    SEEDS = 2000


if __name__ == "__main__":
    support.main()
