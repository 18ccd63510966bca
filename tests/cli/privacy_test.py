"""bq through the program: what compress says of privacy, what it refuses, and that no size follows from a value."""
# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np

import container as gz
import support
from container import CONSTANT, F4, NPY, PACK, STORED, ZSTD, Tensor
from support import BAD_INPUT, USAGE

BQ = "--scheme=bq:clip=1,bits=4,m=2000"
TEST = BQ + ",noise=test"


class Compress(support.CliTest):
    def setUp(self):
        super().setUp()
        self.values = np.linspace(-1.2, 1.2, 1000, dtype=np.float32)
        self.source = self.npy(self.values)

    def said(self, *options):
        return self.ok("compress", self.source, "-f", "-o", self.dir / "o", *options).err

    def test_quiet_or_not_what_is_not_private_is_said(self):
        np.savez(self.dir / "two.npz", a=np.ones(50, "f4"), b=np.ones(3, "i4"))
        for source, options in ((self.source, [TEST]), (self.dir / "two.npz", [BQ])):
            result = support.run("compress", source, "-q", "-f", "-o", self.dir / "quiet", *options)
            self.assertEqual(result.code, 0, result.err)
            self.assertIn("NOT PRIVATE", result.err)
            self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_epsilon_is_said_with_what_it_rests_on(self):
        text = self.said(BQ)
        for part in ("1,000 values", "delta 1e-06", "1 client,", "Bin(2,000, 1/2)", "any other, 16 levels",
                     "theorem 1 of cpSGD", "one value alone, exactly: epsilon 3.128", "T messages"):
            self.assertIn(part, text)
        self.assertNotIn("NOT PRIVATE", text)
        self.assertNotIn("seed", text)

    def test_clients_delta_and_distance_count(self):
        # (15,000 for l1, 474.3 for l2, 15: computed apart from the program.)
        text = self.said(BQ, "--clients=100")
        self.assertIn("by theorem 1 of cpSGD: epsilon 11.51", text)
        self.assertIn("nothing but the sum", text)
        near = self.said(BQ, "--clients=100", "--distance=0.01", "--delta=1e-3")
        self.assertIn("delta 0.001", near)
        self.assertIn("at most 0.01 apart", near)
        self.assertIn("nothing here enforces", near)

    def test_no_epsilon_where_there_is_none(self):
        text = self.said("--scheme=bq:clip=1,bits=4,m=32")
        self.assertIn("the theorem asks for more noise, m times --clients of 2,119 or more", text)
        self.assertIn("epsilon infinite", text)

    def test_not_private_is_said(self):
        self.assertIn("NOT PRIVATE", self.said(TEST))
        self.source = self.npz({"a": self.values, "n": np.arange(3)})
        self.assertIn("NOT PRIVATE: 1 tensors", self.said(BQ))

    def test_what_would_betray_the_noise_is_refused(self):
        self.refused(USAGE, "compress", self.source, BQ, "--seed=1", says="seed")
        for coder in ("zstd", "rans", "rans-dither", "elias"):
            self.refused(USAGE, "compress", self.source, BQ, "--coder", coder, says="size")
        self.ok("compress", self.source, "-q", "-o", self.dir / "o", BQ, "--coder=pack")
        for option in ("--delta=1e-6", "--clients=2", "--distance=1"):
            self.refused(USAGE, "compress", self.source, "--scheme=dqsg:levels=3", option, says="private")
        for option in ("--delta=0", "--delta=1", "--clients=0", "--clients=1000001", "--distance=0"):
            self.refused(USAGE, "compress", self.source, "-f", BQ, option)

    def test_what_is_not_finite_is_refused_even_if_it_is_to_be_kept(self):
        self.values[17] = np.inf
        for keep in ([], ["--nonfinite=keep"]):
            self.refused(BAD_INPUT, "compress", self.npy(self.values), "-o", self.dir / "p", BQ, *keep, says="17")

    def test_no_seed_and_fresh_noise(self):
        one, other = (self.compress(self.source, BQ, to=self.dir / name) for name in "ab")
        self.assertNotIn("seed", self.info(one))
        self.assertNotEqual(one.read_bytes(), other.read_bytes())
        self.assertEqual(one.stat().st_size, other.stat().st_size)
        same = [self.compress(self.source, TEST, "--seed=5", to=self.dir / name).read_bytes() for name in "cd"]
        self.assertEqual(*same)
        self.assertIn("NOT PRIVATE", self.info(self.dir / "c")["tensors"][0]["parameters"])
        self.assertIn("secret noise", self.info(one)["tensors"][0]["parameters"])

    def test_no_size_follows_from_a_value(self):
        # With one random bit many of these are of one symbol only, which other schemes write in fewer bytes.
        for level in (1, 5, 9):
            sizes = set()
            for seed in range(20):
                array = np.full(6, [-1, 0, 1][seed % 3], np.float32)
                path = self.compress(self.npy(array), "--scheme=bq:clip=1,bits=1,m=1,noise=test", f"--seed={seed}",
                                     f"-{level}", to=self.dir / "s")
                info = self.info(path)["tensors"][0]
                self.assertEqual((info["coder"], info["constant_chunks"], info["stored_chunks"]), ("pack", 0, 0))
                self.ok("verify", path, "-q")
                sizes.add(path.stat().st_size)
            self.assertEqual(len(sizes), 1)

    def test_through_bare_and_narrow_types(self):
        for dtype in (np.float16, np.float64):
            back = self.there_and_back(self.values.astype(dtype), BQ)
            self.assertEqual(back.dtype, dtype)
            self.assertLess(abs(back.astype(float)).max(), 1 + 2 / 15 * 1001)
        packed, schema = self.compress(self.source, TEST, "--seed=3"), self.dir / "schema"
        self.ok("info", packed, "--schema-out", schema)
        bare = self.dir / "bare"
        self.ok("compress", self.source, "-q", "--bare", "--schema", schema, "-o", bare, TEST, "--seed=3")
        self.assert_same_bits(self.decompress(bare, "--schema", schema), self.decompress(packed))

    def test_test_noise_is_the_same_for_all_threads_and_instruction_sets(self):
        source = self.npy(np.resize(self.values, 30_000))
        options = [TEST, "--seed=9", "--chunk-log2=12"]
        made = {self.compress(source, *options, t, to=self.dir / "t").read_bytes() for t in ("-T1", "-T2", "-T7")}
        self.ok("compress", source, "-q", "-f", "-o", self.dir / "t", *options, env={"GRADCODEC_KERNELS": "scalar"})
        self.assertEqual(made, {(self.dir / "t").read_bytes()})

    def test_verify_rehearses(self):
        call = ["verify", self.source, "--trials=20", BQ]
        text = self.ok(*call, "--seed=1")
        self.assertIn("noise=test", text.out.decode() + text.err)
        self.ok(*call)

    def test_other_commands_have_it_too(self):
        self.ok("stats", self.source, BQ)
        self.ok("bench", self.source, "--size=5000", "--repeats=1", BQ)


class Hostile(support.CliTest):
    def test_only_what_an_encoder_writes(self):
        tensors = [Tensor("array", F4, (3,))]

        def file(payload, scheme="bq:bits=1,m=4", coder=PACK, **frame):
            data = gz.Writer().block(gz.SCHEMA, gz.schema(tensors, [(scheme, coder)], origin=NPY))
            return data.block(gz.MESSAGE, gz.message(None)).frame(payload, **frame).end()

        packed = struct.pack("<f", 0.5) + bytes([0 + 5 * 6 + 3 * 36])  # y = 0, 5, 3 of 6
        self.ok("info", "--test", self.write(file(packed)))
        np.testing.assert_array_equal(self.decompress(self.write(file(packed))), np.float32([-1.25, 1.25, 0.25]))
        for what in (file(struct.pack("<f", 0.5) + b"\x03", form=CONSTANT), file(packed, form=STORED),
                     file(packed, coder=ZSTD), file(packed, coder=3), file(packed[:4] + b"\xff"),
                     file(packed[:4] + b"\x01\x00" + struct.pack("<I", 0x7FC00000) + packed[4:], exceptions=True),
                     file(struct.pack("<f", 0) + packed[4:]), file(packed + b"\0"),
                     file(packed, scheme="bq:bits=1,m=4,noise=secret"), file(packed, scheme="bq:bits=15,m=40000")):
            self.refused(BAD_INPUT, "info", "--test", self.write(what))

    def test_a_seed_is_out_of_place(self):
        tensors = [Tensor("array", F4, (1,))]
        data = gz.Writer().block(gz.SCHEMA, gz.schema(tensors, [("bq:bits=1,m=4", PACK)], origin=NPY))
        data = data.block(gz.MESSAGE, gz.message(7)).frame(struct.pack("<f", 0.5) + b"\x01").end()
        self.refused(BAD_INPUT, "info", "--test", self.write(data), says="seed")


if __name__ == "__main__":
    support.main()
