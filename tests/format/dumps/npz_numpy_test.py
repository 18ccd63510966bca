# SPDX-License-Identifier: Apache-2.0
"""Reads .npz files that NumPy and Python write, and has them read what is written: python3 npz_numpy_test.py DUMP_TOOL

With GRADCODEC_SLOW=1 members of more than 4 GiB are written too.
"""
import os
import shutil
import struct
import subprocess
import sys
import unittest
import warnings
import zipfile
import zlib

import numpy as np

from dump_testing import MIB, TOOL, DumpTest, array_of, little_endian, npy_header, run


def zip_header(name, crc, size, offset=None):
    """A stored member's local header, or its directory entry if `offset` is given. Sizes are in a zip64 field."""
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    common = struct.pack("<HHHIIIIHH", 45, 0, 0, 0x00210000, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra))
    if offset is None:
        return b"PK\3\4" + common + name + extra
    extra = struct.pack("<HHQQQ", 1, 24, size, size, offset)
    common = common[:-2] + struct.pack("<H", len(extra))
    return b"PK\1\2" + struct.pack("<H", 45) + common + bytes(10) + struct.pack("<I", 0xFFFFFFFF) + name + extra


def zip_end(count, size, offset):
    record = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, offset + size, 1)
    return record + locator + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, 0xFFFFFFFF, 0xFFFFFFFF, 0)


class NpzTest(DumpTest):
    def check(self, path, *options):
        loaded = np.load(path)
        names = [line.split(" ")[0] for line in self.output("list", path, *options).decode().splitlines()]
        self.assertEqual(names, loaded.files)
        self.output("copy", path, self.path("copy.npz"), "--part=1000", *options)
        again = np.load(self.path("copy.npz"))
        self.assertEqual(again.files, loaded.files)
        for name in loaded.files:
            self.assertEqual(self.output("cat", path, name, *options), little_endian(loaded[name]), name)
            self.assertEqual(again[name].dtype, loaded[name].dtype.newbyteorder("<"))
            self.assertEqual(again[name].shape, loaded[name].shape)
            self.assertEqual(again[name].tobytes(), little_endian(loaded[name]))
        with zipfile.ZipFile(self.path("copy.npz")) as archive:
            self.assertIsNone(archive.testzip())
            for info in archive.infolist():
                self.assertEqual(info.date_time, (1980, 1, 1, 0, 0, 0))
                self.assertEqual(info.external_attr >> 16, 0o100644)
                self.assertEqual(info.compress_type, zipfile.ZIP_STORED)

    def arrays(self):
        arrays = {f"t{i}": array_of("f4", (i * 1000 + 1, 2)) for i in range(5)}
        arrays |= {"big/endian": array_of(">f8", (3, 5)), "fortran": np.asfortranarray(array_of("i2", (30, 50))),
                   "scalar": np.float32(5), "none": np.zeros((0, 3)), "\u00e9\u4e2d": array_of("c8", (2,)),
                   "zeros": np.zeros(300000), "a.npy": np.arange(3)}
        return arrays

    def test_savez(self):
        np.savez(self.path("a.npz"), **self.arrays())
        self.check(self.path("a.npz"))
        np.savez(self.path("empty.npz"))
        self.check(self.path("empty.npz"))

    def test_savez_compressed(self):
        np.savez_compressed(self.path("a.npz"), **self.arrays())
        self.check(self.path("a.npz"))

    def test_same_bytes_in_any_time_zone_and_locale(self):
        np.savez(self.path("a.npz"), **self.arrays())
        contents = set()
        for zone, locale in [("UTC", "C"), ("Asia/Tokyo", "C.UTF-8"), ("America/Los_Angeles", "POSIX")]:
            environment = dict(os.environ, TZ=zone, LC_ALL=locale)
            subprocess.run([TOOL, "copy", self.path("a.npz"), self.path("b.npz")], env=environment, check=True)
            with open(self.path("b.npz"), "rb") as file:
                contents.add(file.read())
        self.assertEqual(len(contents), 1)

    def test_zip_written_to_a_pipe(self):
        script = """
import sys, zipfile, numpy as np
with zipfile.ZipFile(sys.stdout.buffer, "w", int(sys.argv[1])) as archive:
    for i in range(3):
        with archive.open(f"p{i}.npy", "w", force_zip64=i == 2) as file:
            np.lib.format.write_array(file, np.arange(i + 4.0))
"""
        for method in ["0", "8"]:
            with open(self.path("p.npz"), "wb") as file:
                with subprocess.Popen([sys.executable, "-c", script, method], stdout=subprocess.PIPE) as pipe:
                    file.write(pipe.stdout.read())
            with zipfile.ZipFile(self.path("p.npz")) as archive:
                self.assertTrue(all(info.flag_bits & 8 for info in archive.infolist()))
            self.check(self.path("p.npz"))
            with subprocess.Popen(["cat", self.path("p.npz")], stdout=subprocess.PIPE) as pipe:
                self.assertEqual(self.output("cat", "-", "p2", stdin=pipe.stdout), np.arange(6.0).tobytes())

    def test_many_members(self):
        np.savez(self.path("m.npz"), **{f"m{i:05}": np.int32(i) for i in range(70000)})  # beyond 65,535: zip64
        self.assertEqual(len(self.output("list", self.path("m.npz")).splitlines()), 70000)
        self.output("copy", self.path("m.npz"), self.path("n.npz"))
        again = np.load(self.path("n.npz"))
        self.assertEqual(len(again.files), 70000)
        self.assertEqual(again["m69999"], 69999)

    def test_python_duplicates_and_junk(self):
        with zipfile.ZipFile(self.path("d.npz"), "w") as archive:
            for value in (1, 2):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # Python warns of the duplicate
                    archive.writestr("a.npy", npy_header("<f4", (1,)) + struct.pack("<f", value))
        self.assert_fails(3, "list", self.path("d.npz"), text=b"twice")
        np.savez(self.path("j.npz"), a=np.arange(3))
        with open(self.path("j.npz"), "ab") as file:
            file.write(b"junk")
        self.assert_fails(3, "list", self.path("j.npz"))

    def test_cut_everywhere(self):
        np.savez_compressed(self.path("w.npz"), a=np.arange(3), b=np.zeros((2, 2)))
        with open(self.path("w.npz"), "rb") as file:
            whole = file.read()
        for size in range(0, len(whole), 7):
            self.assert_fails(3, "copy", self.write("c.npz", whole[:size]), self.path("d.npz"))
            self.assertFalse(os.path.exists(self.path("d.npz")))

    def sparse(self, name, size):
        """An npz with a stored member of about `size` bytes of zeros but for its ends, and a small one after it."""
        elements = (size - 128) // 4
        header = npy_header("<u4", (elements,))
        first, last = struct.pack("<I", 11), struct.pack("<I", 22)
        crc, zeros = zlib.crc32(header + first), bytes(16 * MIB)
        left = elements * 4 - 8
        while left > 0:
            crc = zlib.crc32(zeros[:left], crc)
            left -= len(zeros)
        crc = zlib.crc32(last, crc)
        total = len(header) + elements * 4
        small = npy_header("<u4", ()) + struct.pack("<I", 33)
        with open(self.path(name), "wb") as file:
            file.write(zip_header(b"big.npy", crc, total) + header + first)
            file.seek(elements * 4 - 8, os.SEEK_CUR)
            file.write(last)
            second = file.tell()
            file.write(zip_header(b"small.npy", zlib.crc32(small), len(small)) + small)
            offset = file.tell()
            directory = zip_header(b"big.npy", crc, total, 0)
            directory += zip_header(b"small.npy", zlib.crc32(small), len(small), second)
            file.write(directory + zip_end(2, len(directory), offset))
        return elements

    def check_sparse(self, size):
        elements = self.sparse("s.npz", size)
        listed = self.output("list", self.path("s.npz")).decode()
        self.assertEqual(listed, f"big u4 ({elements},)\nsmall u4 ()\n")
        self.assertEqual(self.output("cat", self.path("s.npz"), "small"), struct.pack("<I", 33))
        with subprocess.Popen([TOOL, "cat", self.path("s.npz"), "big"], stdout=subprocess.PIPE) as process:
            count, start, end = 0, b"", b""
            while piece := process.stdout.read(16 * MIB):
                start = start or piece[:4]
                end, count = piece[-4:], count + len(piece)
        self.assertEqual(process.returncode, 0)
        self.assertEqual((count, start, end), (elements * 4, struct.pack("<I", 11), struct.pack("<I", 22)))

    def test_more_than_2_gib(self):
        self.check_sparse(2150 * MIB)

    def test_more_than_4_gib(self):
        if shutil.disk_usage(self.dir).free < 10 << 30:
            self.skipTest("less than 10 GB free")
        self.check_sparse(4200 * MIB)

    @unittest.skipUnless(os.environ.get("GRADCODEC_SLOW"), "GRADCODEC_SLOW is not set")
    def test_more_than_4_gib_written_and_inflated(self):
        elements = 4200 * MIB // 4
        with open(self.path("b.npy"), "wb") as file:
            file.write(npy_header("<u4", (elements,)))
            file.seek(elements * 4 - 4, os.SEEK_CUR)
            file.write(struct.pack("<I", 7))
        self.output("copy", self.path("b.npy"), self.path("b.npz"))
        with zipfile.ZipFile(self.path("b.npz")) as archive:
            self.assertIsNone(archive.testzip())
            with zipfile.ZipFile(self.path("z.npz"), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as deflated:
                with archive.open("array.npy") as source, deflated.open("array.npy", "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 16 * MIB)
        os.remove(self.path("b.npz"))
        self.output("copy", self.path("z.npz"), self.path("c.npy"))
        self.assertEqual(os.path.getsize(self.path("c.npy")), elements * 4 + 128)
        self.assertEqual(np.load(self.path("c.npy"), mmap_mode="r")[-1], 7)


class HostileTest(DumpTest):
    """Refused within a second and 64 MiB, whatever is claimed."""

    def refuse(self, code, path, command="list", text=b""):
        words = [command, path] + ([self.path("out.npz")] if command == "copy" else [])
        started = os.times()
        self.assert_fails(code, *words, memory=self.memory, text=text)
        if self.memory is not None:  # sanitizers are slow
            spent = os.times()
            self.assertLess(spent.children_user + spent.children_system - started.children_user - started.children_system, 1)

    def setUp(self):
        super().setUp()
        self.memory = self.small_memory()

    def npz(self, name, content, method=zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(self.path(name), "w", method) as archive:
            archive.writestr("a.npy", content)
        return self.path(name)

    def test_headers(self):
        cases = [b"\x93NUMPY\2\0\xf0\xff\xff\xff", npy_header("<f4", (10**18,)) + bytes(4),
                 npy_header("<f8", (2**32, 2**32)), npy_header("<f8", (2**61,)), npy_header("<f4", (2**40,), True)]
        cases += [npy_header(descr, (3,)) + bytes(12) for descr in ["", "<", "<ixy", "<f", "<g2", "|O", "<f4,<f4"]]
        cases.append(npy_header([("a", "<f4")], (3,)) + bytes(12))
        for case in cases:
            with self.subTest(case=case):
                stored = self.npz("s.npz", case, zipfile.ZIP_STORED)
                for path in [self.write("h.npy", case), self.npz("d.npz", case), stored]:
                    done = run("list", path, memory=self.memory)
                    self.assertIn(done.returncode, (3, 6), done.stderr)

    def test_header_of_many_gigabytes_that_are_there(self):
        path = self.path("h.npy")
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\2\0\xf0\xff\xff\xff")
            file.truncate(5 << 30)
        self.refuse(5, path)

    def test_deflate_bomb(self):
        content = npy_header("<f4", (50 * MIB,)) + bytes(200 * MIB)
        path = self.npz("b.npz", content)
        self.output("list", path, memory=self.memory)
        self.output("cat", path, "a", memory=self.memory)  # honest: many zeros
        with open(path, "rb") as file:
            whole = file.read()
        claim = struct.pack("<I", len(content))
        self.assertEqual(whole.count(claim), 2)
        # The directory says less than the stream yields.
        self.refuse(3, self.write("l.npz", whole.replace(claim, struct.pack("<I", 128 + 4 * MIB))), "list", b"shape")
        small = content.replace(b"(52428800,)", b"(1048576,) ")[:128] + content[128:]
        path = self.npz("m.npz", small)
        with open(path, "rb") as file:
            whole = file.read()
        lying = whole.replace(struct.pack("<I", len(small)), struct.pack("<I", 128 + 4 * MIB))
        self.refuse(3, self.write("n.npz", lying), "copy", b"damaged")

    def test_directory_of_many_gigabytes(self):
        path = self.path("z.npz")
        size = 6 << 30
        with open(path, "wb") as file:
            file.write(b"PK\3\4")
            file.seek(4 + size)
            file.write(zip_end(size // 46, size, 4))
        self.refuse(3, path)

    def test_overlapping_members(self):
        content = npy_header("<f4", (250,)) + bytes(1000)
        crc, name = zlib.crc32(content), [b"m%05d.npy" % i for i in range(50000)]
        file = zip_header(name[0], crc, len(content)) + content
        directory = b"".join(zip_header(n, crc, len(content), 0) for n in name)
        self.refuse(3, self.write("o.npz", file + directory + zip_end(len(name), len(directory), len(file))))


if __name__ == "__main__":
    unittest.main()
