# SPDX-License-Identifier: Apache-2.0
"""Reads .npy files that NumPy writes, and has NumPy read what is written: python3 npy_numpy_test.py DUMP_TOOL"""
import itertools
import os
import struct
import subprocess
import unittest

import numpy as np

from dump_testing import DumpTest, array_of, little_endian, npy_header

NUMBERS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16"]
OTHERS = ["b1", "S0", "S5", "U3", "V7", "V2", "M8[ns]", "M8[D]", "m8[25us]", "m8"]
if np.dtype("longdouble").itemsize == 16:
    OTHERS += ["f16", "c32"]
SHAPES = [(), (5,), (0,), (1,), (3, 4), (4, 0), (1, 7), (2, 3, 4), (2, 1, 3, 2), (2, 3, 1, 2, 2), (1,) * 27 + (2,) * 5]


class NpyTest(DumpTest):
    def check(self, array, **save):
        path = self.path("a.npy")
        with open(path, "wb") as file:
            np.lib.format.write_array(file, array, **save)
        loaded = np.load(path)
        self.assertEqual(self.output("cat", path, "array"), little_endian(loaded))
        listed = self.output("list", path).decode().split(" ", 2)
        self.assertEqual(listed[2].strip(), "(" + "".join(f"{n}," for n in loaded.shape) + ")")
        copy = self.path("b.npy")
        self.output("copy", path, copy, "--part=7")
        again = np.load(copy)
        self.assertEqual(again.dtype, loaded.dtype.newbyteorder("<"))
        self.assertEqual(again.shape, loaded.shape)
        self.assertEqual(again.tobytes(), little_endian(loaded))
        self.assertTrue(again.flags.c_contiguous)
        with open(copy, "rb") as file:
            self.assertEqual(np.lib.format.read_magic(file), (1, 0))
            np.lib.format.read_array_header_1_0(file)
            self.assertEqual(file.tell() % 64, 0)

    def test_types_orders_and_ranks(self):
        for dtype, shape in itertools.product(NUMBERS + OTHERS, SHAPES):
            # Every rank for float32, a few for the others: each case starts three processes.
            if dtype != "f4" and shape not in [(), (5,), (4, 0), (2, 3, 4)]:
                continue
            for order, byte_order in itertools.product("CF", "<>"):
                with self.subTest(dtype=dtype, shape=shape, order=order, byte_order=byte_order):
                    array = array_of(dtype, shape)
                    if np.dtype(dtype).kind != "b":
                        array = array.astype(np.dtype(dtype).newbyteorder(byte_order))
                    self.check(np.array(array, order=order))

    def test_versions_and_padding(self):
        array = array_of("f4", (3, 4))
        for version in [(1, 0), (2, 0), (3, 0)]:
            self.check(array, version=version)
        header = npy_header("<f4", (3, 4))
        text = header[10:-1] + b" " * 5000 + b"\n"
        content = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + array.tobytes()
        self.assertEqual(np.load(self.write("p.npy", content)).tobytes(), array.tobytes())
        self.assertEqual(self.output("cat", self.path("p.npy"), "array"), array.tobytes())

    def test_what_numpy_saves_but_nobody_should_load(self):
        np.save(self.path("o.npy"), np.array([{}, []], dtype=object), allow_pickle=True)
        self.assert_fails(6, "list", self.path("o.npy"), text=b"pickles")
        np.save(self.path("r.npy"), np.zeros(3, dtype=[("a", "<f4"), ("b", "<i2")]))
        self.assert_fails(6, "list", self.path("r.npy"), text=b"structured dtype not supported")

    def test_bfloat16(self):
        words = np.array([0x3F80, 0xC000, 0x7FC0], dtype="<u2")
        for array in [words, words.view("V2"), words.astype(">u2")]:
            np.save(self.path("h.npy"), array)
            self.assertIn(b" bf16 ", self.output("list", self.path("h.npy"), "--bf16"))
            self.assertNotIn(b" bf16 ", self.output("list", self.path("h.npy")))
            self.output("copy", self.path("h.npy"), self.path("i.npy"), "--bf16")
            back = np.load(self.path("i.npy"))
            self.assertEqual(back.dtype, np.dtype("V2"))
            self.assertEqual(back.tobytes(), words.tobytes())
            with open(self.path("i.npy"), "rb") as file:
                self.assertIn(b"'descr': '<V2'", file.read(100))

    def test_cut_everywhere(self):
        np.save(self.path("w.npy"), np.arange(9, dtype="f4").reshape(3, 3).T)
        with open(self.path("w.npy"), "rb") as file:
            whole = file.read()
        for size in range(0, len(whole), 5):
            self.assert_fails(3, "copy", self.write("c.npy", whole[:size]), self.path("d.npy"))
            self.assertFalse(os.path.exists(self.path("d.npy")))

    def test_standard_input(self):
        array = array_of("f4", (3, 4))
        np.save(self.path("s.npy"), np.asfortranarray(array))
        with subprocess.Popen(["cat", self.path("s.npy")], stdout=subprocess.PIPE) as pipe:
            self.assertEqual(self.output("cat", "-", "array", stdin=pipe.stdout), array.tobytes())

    def test_large_fortran_order_in_little_memory(self):
        memory = self.small_memory()
        rng = np.random.default_rng(2)
        for shape in [(9000, 7000), (3, 2_000_003, 7), (2,) * 24]:
            array = np.asfortranarray(rng.integers(0, 1 << 32, shape, dtype=np.uint32))
            np.save(self.path("f.npy"), array)
            self.output("copy", self.path("f.npy"), self.path("c.npy"), memory=memory)
            self.assertTrue(np.array_equal(np.load(self.path("c.npy")), array), shape)


if __name__ == "__main__":
    unittest.main()
