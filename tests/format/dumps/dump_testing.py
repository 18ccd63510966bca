# SPDX-License-Identifier: Apache-2.0
"""What the tests that compare dumps with NumPy share."""
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TOOL = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20


def array_of(dtype, shape):
    """Random bytes as this type; bool is 0 and 1, text has letters only."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(1)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    if dtype.kind in "SU":
        length = max(1, dtype.itemsize // (4 if dtype.kind == "U" else 1))
        words = ["".join(rng.choice(list("abcxyz"), length)) for _ in range(count)]
        return np.array(words, dtype=dtype).reshape(shape)
    raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return np.frombuffer(raw.tobytes(), dtype=dtype).reshape(shape)


def little_endian(array):
    """The elements in C order, little-endian, as bytes."""
    return array.astype(array.dtype.newbyteorder("<"), order="C").tobytes()


def run(*words, memory=None, stdin=None):
    """The finished process. `memory` limits its address space, in bytes."""
    def limit():
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return subprocess.run([TOOL, *words], capture_output=True, preexec_fn=limit, stdin=stdin, check=False, timeout=600)


def npy_header(descr, shape, fortran_order=False):
    text = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


class DumpTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gradcodec-test-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def output(self, *words, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        return done.stdout

    def assert_fails(self, code, *words, text=b"", **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, code, (words, done.stderr))
        self.assertIn(text, done.stderr)

    def small_memory(self):
        """An address space that leaves 64 MiB beside the program itself, or None under a sanitizer."""
        path = self.path("probe.npz")
        np.savez_compressed(path, a=np.arange(3))
        for megabytes in range(40, 400, 5):
            if run("list", path, memory=megabytes * MIB).returncode == 0:
                return (megabytes + 64) * MIB
        return None
