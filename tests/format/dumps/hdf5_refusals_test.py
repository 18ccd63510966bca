#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the HDF5 source refuses or leaves out, and what it makes of damaged files.

    hdf5_refusals_test.py DUMP_TOOL [unittest options]"""
import os
import random
import resource
import signal
import subprocess
import sys

import h5py
import numpy as np

import hdf5_cases
from hdf5_cases import BAD_INPUT, IO, LIMIT, UNSUPPORTED, Case, make_raw, run


class Unsupported(Case):
    def check_dropped(self, *texts):
        error = self.check_refused(UNSUPPORTED, "--drop-unsupported", *texts)
        self.assertIn("w f4 (1,)", self.list(self.path, "--drop"))
        result = run("copy", self.path, self.copy, "--drop")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"dropped: ", result.stderr)
        for text in texts:
            self.assertIn(text.encode(), result.stderr)
        return error

    def make(self):
        f = super().make()
        f["w"] = np.ones(1, "f4")
        return f

    def test_types(self):
        floats = h5py.h5t.IEEE_F32LE.copy()
        floats.set_fields(31, 20, 11, 0, 20)
        nested = np.dtype([("a", [("b", "f4"), ("c", "i4")])])
        odd = h5py.h5t.STD_I32LE.copy()
        odd.set_precision(20)
        kinds = {
            "references": lambda f: f.create_dataset("bad", data=f["w"].ref, dtype=h5py.ref_dtype),
            "sequences": lambda f: f.create_dataset("bad", (2,), dtype=h5py.vlen_dtype("f4")),
            "arrays": lambda f: f.create_dataset("bad", (2,), np.dtype(("f4", (3,))) and h5py.h5t.py_create(
                np.dtype([("a", "f4", (3,))])).dtype),
            "compounds with compounds": lambda f: f.create_dataset("bad", (2,), nested),
            "floats other": lambda f: make_raw(f, "bad", floats, (1,), np.zeros(1, "f4")),
            "integers of an unusual": lambda f: make_raw(f, "bad", odd, (1,), np.zeros(1, "i4")),
            "bit fields": lambda f: make_raw(f, "bad", h5py.h5t.STD_B8LE, (1,), np.zeros(1, "u1")),
            "variable-length strings in": lambda f: f.create_dataset(
                "bad", data=np.array([(1, "text")] * 100, [("n", "i4"), ("t", h5py.string_dtype())])),
            "committed": lambda f: f.__setitem__("bad", np.dtype("f4")),
            "float80": lambda f: f.create_dataset("bad", (2,), "g"),
        }
        for text, make in kinds.items():
            with self.subTest(text), self.make() as f:
                make(f)
                f.close()
                self.check_dropped("'bad'", "" if text == "float80" else text)

    def test_array_type(self):
        with self.make() as f:
            t = h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (3,))
            make_raw(f, "bad", t, (2,), np.zeros((2, 3), "f4"))
        self.check_dropped("'bad'", "arrays")

    def test_attributes(self):
        with self.make() as f:
            f["w"].attrs["r"] = f["w"].ref
            f["w"].attrs.create("ok", 1)
        self.check_dropped("attribute 'r' of 'w'", "references")
        with h5py.File(self.copy) as f:
            self.assertEqual(list(f["w"].attrs), ["ok"])

    def test_dimension_scales(self):
        with self.make() as f:
            f["x"] = np.ones(1, "f4")
            f["x"].make_scale("x")
            f["w"].dims[0].attach_scale(f["x"])
        self.check_dropped("DIMENSION_LIST")

    def test_other_files_are_never_opened(self):
        other = os.path.join(self.dir.name, "other.h5")
        secret = os.path.join(self.dir.name, "secret")
        with open(secret, "wb") as s:
            s.write(b"secret of 16 byt")
        with h5py.File(other, "w") as f:
            f["data"] = np.ones(4, "f4")
        with self.make() as f:
            f["external link"] = h5py.ExternalLink(other, "/data")
        self.check_dropped("link 'external link'", "another file")
        self.check_not_opened(other, secret)
        with self.make() as f:
            f.create_dataset("external", (4,), "f4", external=[(secret, 0, 16)])
        self.check_dropped("dataset 'external'", "other files")
        self.check_not_opened(other, secret)
        with self.make() as f:
            layout = h5py.VirtualLayout((4,), "f4")
            layout[:] = h5py.VirtualSource(other, "data", shape=(4,))
            f.create_virtual_dataset("virtual", layout)
        self.check_dropped("dataset 'virtual'", "virtual")
        self.check_not_opened(other, secret)

    def check_not_opened(self, *names):
        """By what strace says, if it is there."""
        try:
            result = subprocess.run(["strace", "-f", "-e", "trace=open,openat", hdf5_cases.TOOL, "list", self.path, "--drop"],
                                    capture_output=True, timeout=60)
        except FileNotFoundError:
            return
        for name in names:
            self.assertNotIn(os.fsencode(name), result.stderr)

    def test_link_to_what_was_dropped(self):
        with self.make() as f:
            f.create_dataset("bad", (2,), dtype=h5py.vlen_dtype("f4"))
            f["hard"] = f["bad"]
            f["soft"] = h5py.SoftLink("/bad")
        self.check_dropped("'bad'")
        with h5py.File(self.copy) as f:
            self.assertEqual(sorted(f), ["soft", "w"])

    def test_names_that_are_not_utf8(self):
        with self.make() as f:
            h5py.h5d.create(f.id, b"\xff\xfe", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((1,)))
        self.check_dropped("\\xff\\xfe", "UTF-8")

    def test_huge_chunks_and_shapes(self):
        with self.make() as f:
            f.create_dataset("chunked", (1 << 20, 1 << 7), "f4", chunks=(1 << 20, 1 << 7))
        self.check_refused(LIMIT, "chunks", "268435456")
        with self.make() as f:
            f.create_dataset("huge", (1 << 60,), "i1")
        self.check_refused(LIMIT, "'huge'")
        with self.make() as f:
            f.create_dataset("huge", (1 << 50,), "f4", chunks=(1024,))
        self.check_refused(LIMIT, "'huge'")


class Damage(Case):
    def make_small(self, **options):
        with self.make(**options) as f:
            f["a/w"] = np.arange(600, dtype="f4")
            f.create_dataset("z", data=np.ones((20, 20)), chunks=(5, 5), compression="gzip", maxshape=(None, 20))
            f["a"].attrs["text"] = ["variable", "strings"]
            f["t"] = np.array(["x", "yy"], dtype=h5py.string_dtype())
            f["soft"] = h5py.SoftLink("a/w")
        with open(self.path, "rb") as f:
            return f.read()

    def test_cut_files(self):
        whole = self.make_small()
        for share in (0.1, 0.3, 0.5, 0.9, 0.99):
            with open(self.path, "wb") as f:
                f.write(whole[:int(len(whole) * share)])
            self.check_refused(BAD_INPUT, "cut", "h5clear")
        with open(self.path, "wb") as f:
            f.write(whole[:9])
        self.check_refused(BAD_INPUT)

    def test_a_file_its_writer_left_open(self):
        program = ("import h5py,os,sys;f=h5py.File(sys.argv[1],'w',libver='latest');f['w']=[1.0];"
                   "f.swmr_mode=True;f.flush();os._exit(0)")
        subprocess.run([sys.executable, "-c", program, self.path], check=True)
        self.check_refused(BAD_INPUT, "h5clear")

    def test_no_hdf5(self):
        with open(self.path, "wb") as f:
            f.write(b"\x89HDF\r\n\x1a\n" + b"junk" * 100)
        self.check_refused(BAD_INPUT)

    def test_damaged_chunk_is_named(self):
        with self.make() as f:
            f.create_dataset("deep/z", data=np.arange(4000, dtype="f4"), compression="gzip", fletcher32=True)
            offset = f["deep/z"].id.get_chunk_info(0).byte_offset
        with open(self.path, "r+b") as f:
            f.seek(offset + 40)
            f.write(b"\xff" * 8)
        result = run("cat", self.path, "deep/z")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn(b"deep/z", result.stderr)

    def test_a_full_disk(self):
        """Written by the library (what can grow, texts) and beside it. The limit stands for the end of the disk."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        made = {
            "contiguous": lambda f: f.create_dataset("w", data=np.ones(1_000_000, "f4")),
            "growing": lambda f: f.create_dataset("w", data=np.ones(1_000_000, "f4"), maxshape=(None,)),
            "the last chunk": lambda f: f.create_dataset("w", data=np.ones((1 << 18) + 1, "f4"), maxshape=(None,)),
            "texts": lambda f: f.create_dataset("t", data=["x" * 40] * 30_000, dtype=h5py.string_dtype()),
        }
        for name, make in made.items():
            with self.subTest(name):
                with self.make() as f:
                    make(f)
                result = subprocess.run([hdf5_cases.TOOL, "copy", self.path, self.copy], capture_output=True,
                                        timeout=60, preexec_fn=limit)
                self.assertEqual(result.returncode, IO, result.stderr)
                self.assertEqual(os.listdir(self.dir.name), ["in.h5"])

    def test_mutated_files(self):
        """Whatever the library does with them, it ends with a message."""
        rng = random.Random(5)
        counts = {}
        for options in ({}, {"libver": "latest"}):
            whole = self.make_small(**options)
            for _ in range(150):
                changed = bytearray(whole)
                for _ in range(rng.randint(1, 4)):
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
                with open(self.path, "wb") as f:
                    f.write(changed)
                result = run("copy", self.path, self.copy, "--drop")
                self.assertIn(result.returncode, (0, BAD_INPUT, LIMIT, UNSUPPORTED), result.stderr)
                counts[result.returncode] = counts.get(result.returncode, 0) + 1
        self.assertGreater(counts.get(0, 0) + counts.get(BAD_INPUT, 0), 200)


if __name__ == "__main__":
    hdf5_cases.main()
