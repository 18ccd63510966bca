"""What a user may say wrongly, and what limits refuse."""
# SPDX-License-Identifier: Apache-2.0
import unittest
import zipfile

import h5py
import numpy as np

import container as gz
import support
from support import BAD_INPUT, LIMIT, UNSUPPORTED, USAGE

F4, V32 = 2, "V32"
PACK = 0


class Words(support.CliTest):
    def setUp(self):
        super().setUp()
        self.source = self.npy(np.arange(1000, dtype=np.float32))

    def test_the_first_word_is_a_command(self):
        for word in ("compres", "x.npy", "-d"):
            self.refused(USAGE, word, self.source, says="gradcodec")
        self.refused(USAGE, "compres", self.source, says="'compres' is not a command")
        self.assertIn("compress", self.ok("help").out.decode())

    def test_an_empty_value_is_not_a_missing_one(self):
        # As when a shell variable is not set: --worker "$RANK" must not become no worker at all.
        for option in ("--worker", "--seed", "--step", "--scheme", "--include", "--metadata"):
            self.refused(USAGE, "compress", self.source, option, "", says="empty")
            self.refused(USAGE, "compress", self.source, option + "=", says="no value")
        self.refused(USAGE, "compress", "", says="empty")

    def test_files_of_another_kind_are_named(self):
        packed = self.compress(self.source)
        self.refused(BAD_INPUT, "compress", packed, "-o", self.dir / "o", says="already")
        for command in ("info", "decompress"):
            self.refused(BAD_INPUT, command, self.source, *(["-o", self.dir / "o"] if command == "decompress" else []),
                         says="is a dump")

    def test_braces_are_a_number_in_streams_alone(self):
        packed = self.dir / "a{}.npy.gradz"
        self.ok("compress", self.source, "-o", packed)
        self.ok("decompress", packed)
        self.assertTrue((self.dir / "a{}.npy").exists())

    def test_bare_takes_nothing_that_contradicts_its_schema(self):
        packed, schema = self.compress(self.source, "--scheme=dither:nmse=0.01"), self.dir / "s"
        self.ok("info", packed, "--schema-out", schema)
        call = ["compress", self.source, "--bare", "--schema", schema, "-o", self.dir / "o"]
        self.refused(USAGE, *call, says="give --scheme dither")  # its nmse is stored nowhere
        self.refused(USAGE, *call, "--scheme=dqsg:levels=3", says="not 'dqsg:levels=3'")
        for more in (["--coder=pack"], ["--level=1"], ["--chunk-log2=12"], ["--exclude=*"], ["--metadata=1"]):
            self.refused(USAGE, *call, "--scheme=dither:nmse=0.01", *more)
        self.ok(*call, "--scheme=dither:nmse=0.01", "--coder=rans-dither")
        self.ok(*call, "--scheme=dither:nmse=0.01", "--level=9", "-f")


class Limits(support.CliTest):
    def test_a_pytorch_file_is_called_one(self):
        with zipfile.ZipFile(self.dir / "x.pt", "w") as archive:
            archive.writestr("x/data.pkl", b"\x80\x02}.")
        self.refused(UNSUPPORTED, "compress", self.dir / "x.pt", says="PyTorch")

    def test_memory_bounds_what_constant_frames_become(self):
        # 128 MiB a chunk, for a few bytes in the file.
        tensor = gz.Tensor("x", V32, (1 << 24,))
        frames = [b""] + [{"payload": b"\0", "form": 1}] * 4
        path = self.write(gz.file_of([tensor], frames, (("raw", PACK),), chunk_log2=22))
        self.refused(LIMIT, "info", "--test", "--memory=64M", path, says="--memory")
        result = support.run("info", "--test", "--memory=1G", "-T8", path, memory=3 << 30)
        self.assertEqual(result.code, 0, result.err)

    def test_elements_of_no_bytes_take_no_time(self):
        head = b"{'descr': '|S0', 'fortran_order': False, 'shape': (4611686018427387904,), }"
        head += b" " * (117 - len(head)) + b"\n"
        path = self.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head, "s0.npy")
        packed = self.compress(path, "--scheme=raw")
        self.assertLess(packed.stat().st_size, 200)
        self.ok("info", "--test", packed)

    def test_a_tree_of_millions_of_values_is_refused(self):
        # 64 MiB of empty texts: a few kilobytes in the file, gigabytes as values.
        count = (64 << 20) - 16
        head = b"\x9a" + count.to_bytes(4, "big")  # an array
        packed = gz.zstd_zeros(count, b"\x60", head)
        writer = gz.Writer().block(gz.SCHEMA, gz.schema([gz.Tensor("x", F4, (0,))], (("raw", PACK),), origin=3))
        writer.block(gz.TREE, b"\1" + gz.varint(len(head) + count) + packed)
        path = self.write(writer.block(gz.MESSAGE, gz.message(None)).frame(b"").end())
        result = support.run("info", "--test", path, memory=300 << 20)
        self.assertEqual(result.code, LIMIT, result.err)


class Narrow(support.CliTest):
    def test_float64_is_rounded_once(self):
        x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, -1e-8, 65519.99, 2.0**-25 + 2.0**-60, 3e-5])
        with np.errstate(all="ignore"):
            expected = x.astype(np.float16)
        packed = self.compress(self.npy(x), "--scheme=raw")
        self.assert_same_bits(self.decompress(packed, "--dtype=f2"), expected)

    def test_a_value_beyond_the_type_is_an_error_after_raw_too(self):
        packed = self.compress(self.npy(np.array([1, 7e4])), "--scheme=raw")
        self.refused(LIMIT, "decompress", packed, "-o", self.dir / "o.npy", "--dtype=f2", says="element 1 ")


class Silence(support.CliTest):
    """What would be lost without a word."""

    def test_float64_that_float32_cannot_hold(self):
        tiny = np.array([1e-50, -3e-47, 0])
        self.refused(support.UNSUPPORTED, "compress", self.npy(tiny), "-o", self.dir / "o", says="--scheme raw")
        self.assert_same_bits(self.there_and_back(tiny, "--scheme=raw"), tiny)
        self.assertEqual(self.there_and_back(np.append(tiny, 1.0), "--seed=1").shape, (4,))
        self.assert_same_bits(self.there_and_back(np.zeros(3)), np.zeros(3))

    def test_float16_that_will_not_fit(self):
        path = self.npy(np.array([65504, -65504, 60000, 1] * 50, np.float16))
        made = self.ok("compress", path, "--scheme=dqsg:levels=3", "--seed=1", "-o", self.dir / "o.gradz")
        self.assertIn("--dtype f4", made.err)
        self.ok("info", "--test", self.dir / "o.gradz")
        path = self.npy(np.array([1, 2], np.float16))
        self.assertNotIn("--dtype", self.ok("compress", path, "--seed=1", "-o", self.dir / "p.gradz").err)

    def test_info_says_the_step(self):
        packed = self.compress(self.npy(np.array([3, -4, 0, 0], np.float32)), "--scheme=dither:nmse=0.03", "--seed=1")
        self.assertIn("step 1.5, M 3", self.ok("info", packed).out.decode())
        self.assertEqual(self.info(packed)["tensors"][0]["parameters"], "step 1.5, M 3")

    def test_what_only_hdf5_holds_is_named(self):
        with h5py.File(self.dir / "a.h5", "w") as file:
            file["w"] = np.arange(4, dtype=np.float32)
            file["names"] = ["a", "b"]
            file.attrs["gradcodec_order"] = [0.0, 1.0]  # the user's own, not the program's
        packed = self.compress(self.dir / "a.h5", "--seed=1")
        said = self.ok("decompress", packed, "-o", self.dir / "b.npz").err
        self.assertIn("dataset 'names'", said)
        self.ok("decompress", packed, "-o", self.dir / "b.h5")
        with h5py.File(self.dir / "b.h5") as file:
            self.assertEqual(list(file.attrs["gradcodec_order"]), [0, 1])


if __name__ == "__main__":
    unittest.main()
