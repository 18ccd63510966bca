#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files made by h5py come through the HDF5 source and sink as they were.

    hdf5_h5py_test.py DUMP_TOOL [unittest options]"""
import os
import subprocess

import h5py
import numpy as np

import hdf5_cases
from hdf5_cases import LIMIT, UNSUPPORTED, Case, bfloat16, make_raw, run


class Elements(Case):
    def test_types_and_byte_orders(self):
        rng = np.random.default_rng(1)
        with self.make() as f:
            for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16"):
                for order in "<>":
                    bits = rng.integers(0, 256, (5, 7, np.dtype(kind).itemsize), np.uint8)
                    d = f.create_dataset(f"{kind}{'be' if order == '>' else 'le'}", (5, 7), order + kind)
                    d.id.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=d.id.get_type())
            bits = rng.integers(0, 65536, (300,), np.uint16)
            make_raw(f, "bf16le", bfloat16(h5py.h5t.ORDER_LE), (300,), bits)
            make_raw(f, "bf16be", bfloat16(h5py.h5t.ORDER_BE), (300,), bits)
            f["bool"] = np.array([True, False, True])
            f["fixed"] = np.array([b"abc", b"", b"abcdefg"], "S7")
            f["void"] = np.frombuffer(bytes(range(24)), "V8")
            f["scalar"] = np.float32(5)
        self.check_copy()
        lines = self.list()
        for line in ("bf16le bf16 (300,)", "bf16be bf16 (300,)", "bool bool (3,)", "fixed S7 (3,)", "void V8 (3,)",
                     "scalar f4 ()", "c8be c8 (5,7,)", "f2be f2 (5,7,)", "u8le u8 (5,7,)"):
            self.assertIn(line, lines)
        self.assertEqual(self.cat("bf16le"), bits.tobytes())
        self.assertEqual(self.cat("bf16be"), bits.byteswap().tobytes())
        with h5py.File(self.path) as f:
            self.assertEqual(self.cat("c8be"), f["c8be"][()].astype("<c8").tobytes())

    def test_every_float16_bit_pattern_is_kept(self):
        for order in "<>":
            with self.make() as f:
                f["h"] = np.arange(65536, dtype="<u2").view("<f2").astype(order + "f2")
            self.assertEqual(self.cat("h"), np.arange(65536, dtype="<u2").tobytes())

    def test_enums_strings_opaque_compounds(self):
        with self.make() as f:
            colours = h5py.enum_dtype({"RED": -3, "GREEN": 1, "BLUE": 32000}, basetype=">i2")
            f.create_dataset("colours", data=np.array([1, -3, 77, 32000], ">i2"), dtype=colours)
            for pad in (h5py.h5t.STR_NULLTERM, h5py.h5t.STR_NULLPAD, h5py.h5t.STR_SPACEPAD):
                for cset in (h5py.h5t.CSET_ASCII, h5py.h5t.CSET_UTF8):
                    t = h5py.h5t.C_S1.copy()
                    t.set_size(6)
                    t.set_strpad(pad)
                    t.set_cset(cset)
                    make_raw(f, f"text{pad}{cset}", t, (2,), np.frombuffer(b"abcde\0xy    ", np.uint8))
            t = h5py.h5t.create(h5py.h5t.OPAQUE, 5)
            t.set_tag(b"a tag")
            make_raw(f, "opaque", t, (2,), np.arange(10, dtype=np.uint8))
            point = np.dtype({"names": ["x", "y", "n", "c", "ok", "s"],
                              "formats": ["<f4", ">f8", "i2", ">c8", "?", "S3"],
                              "offsets": [0, 8, 16, 20, 28, 29], "itemsize": 40})
            values = np.frombuffer(bytes(i % 2 for i in range(200)), point)
            f["points"] = values
            f["point"] = values[1]
            f["points"].attrs["p"] = values[:2]
            f["points"].attrs["colour"] = np.int16(1)
        self.check_copy()
        self.assertIn("points V40 (5,)", self.list())

    def test_layouts_and_ranges(self):
        values = np.arange(7 * 11 * 5, dtype="f4").reshape(7, 11, 5)
        with self.make() as f:
            f.create_dataset("chunked", data=values, chunks=(2, 3, 4))
            f.create_dataset("filtered", data=values, chunks=(3, 4, 5), compression="gzip", shuffle=True,
                             fletcher32=True)
            f.create_dataset("unlimited", data=values, maxshape=(None, 20, None))
            f.create_dataset("lzf?", data=values[0])
            f.create_dataset("scaled", data=values.astype("i4"), chunks=(7, 1, 5), scaleoffset=0)
            space = h5py.h5s.create_simple((3,))
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_layout(h5py.h5d.COMPACT)
            d = h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist)
            d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2, 3], "f4"))
        self.check_copy()
        for part in (4, 12, 20, 100, 220, 444, 1000):
            self.assertEqual(self.cat("chunked", f"--part={part}"), values.tobytes())
            self.assertEqual(self.cat("filtered", f"--part={part}"), values.tobytes())

    def test_fill_values_and_unallocated_storage(self):
        with self.make() as f:
            for name, time in (("alloc", h5py.h5d.FILL_TIME_ALLOC), ("never", h5py.h5d.FILL_TIME_NEVER),
                               ("ifset", h5py.h5d.FILL_TIME_IFSET)):
                for chunks in (None, (2, 2)):
                    for value in (None, 7):
                        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                        plist.set_fill_time(time)
                        if chunks:
                            plist.set_chunk(chunks)
                        if value is not None:
                            plist.set_fill_value(np.array(value, ">f4"))
                        name_of = f"{name} {chunks} {value}"
                        d = h5py.h5d.create(f.id, name_of.encode(), h5py.h5t.IEEE_F32BE,
                                            h5py.h5s.create_simple((3, 5)), plist)
                        if chunks and time != h5py.h5d.FILL_TIME_NEVER:
                            h5py.Dataset(d)[0, 0] = 1
            f.create_dataset("zero", (0,), "f4", maxshape=(None,))
            f.create_dataset("zero2", (3, 0), "f8", maxshape=(3, None), fillvalue=2.5)
            f.create_dataset("zero3", (0, 4), "f4")
            f.create_dataset("late", (4,), "i4", fillvalue=-1)
        self.check_copy()

    def test_null_and_scalar_dataspaces(self):
        with self.make() as f:
            f["empty"] = h5py.Empty("f4")
            f["g/empty text"] = h5py.Empty("S3")
            f["scalar"] = np.float64(2)
            f.attrs["empty"] = h5py.Empty("i2")
            f["empty"].attrs["why"] = "nothing yet"
        self.check_copy()
        self.assertEqual(self.list(), ["scalar f8 ()"])

    def test_strings_of_variable_length(self):
        with self.make() as f:
            f["names"] = np.array([["caf\u00e9", ""], ["x" * 5000, "b"]], dtype=h5py.string_dtype())
            f["one"] = "text"
            f.create_dataset("ascii", data=[b"a", b"\xff\xfe"], dtype=h5py.string_dtype("ascii"))
            f.create_dataset("many", data=[str(i) for i in range(10000)], dtype=h5py.string_dtype(), chunks=(300,))
            f.create_dataset("growing", data=["a"], maxshape=(None,), dtype=h5py.string_dtype())
            f["names"].attrs["more"] = ["p", "q\u4e00"]
            f.attrs["title"] = "T"
            f["w"] = np.ones(3, "f4")
        self.check_copy()
        self.assertEqual(self.list(), ["w f4 (3,)"])

    def test_more_strings_than_can_be_kept(self):
        with self.make() as f:
            f.create_dataset("long", data=["x" * 1_000_000] * 80, dtype=h5py.string_dtype())
        self.check_refused(LIMIT, "67108864")
        with self.make() as f:
            f.create_dataset("many", (1 << 40,), dtype=h5py.string_dtype(), chunks=(1024,))
        self.check_refused(LIMIT, "67108864")


class Structure(Case):
    def test_groups_attributes_links(self):
        with self.make() as f:
            f["a/b/w"] = np.ones((2, 3), "f4")
            f["a/c"] = np.ones(4, "f8")
            f.create_group("empty/inner")
            f["a"].attrs["n"] = np.arange(6, dtype=">i4").reshape(2, 3)
            f["a/b/w"].attrs["flag"] = True
            f["a/b/w"].attrs["z"] = np.complex64(1 - 2j)
            f["a/b/w"].attrs["half"] = np.float16(0.1)
            f["soft"] = h5py.SoftLink("/a/b/w")
            f["relative"] = h5py.SoftLink("a/c")
            f["dangling"] = h5py.SoftLink("/no/where")
            f["hard"] = f["a/b/w"]
            f["a/zagain"] = f["a/c"]
            f["zgroup"] = f["a/b"]
        self.check_copy()
        self.assertEqual(self.list(), ["a/b/w f4 (2,3,)", "a/c f8 (4,)"])

    def test_creation_order(self):
        with self.make(track_order=True) as f:
            f["z"] = np.ones(1, "f4")
            g = f.create_group("m", track_order=True)
            for name in ("q", "a", "k"):
                g[name] = np.ones(2, "f4")
                g.attrs[name] = 1
            g["soft"] = h5py.SoftLink("q")
            g["aa"] = g["k"]
            f.create_group("nothing", track_order=True)
            f.create_group("by name", track_order=False)
            f["by name/2"] = np.ones(1, "f4")
            f["by name/1"] = np.ones(1, "f4")
            f["a"] = np.ones(3, "f4")
            f["first"] = h5py.SoftLink("z")
            for name in ("zz", "yy", "aa"):
                f.attrs[name] = name
        self.check_copy()
        self.assertEqual([line.split(" f4")[0] for line in self.list()],
                         ["z", "m/q", "m/a", "m/k", "by name/1", "by name/2", "a"])

    def test_the_latest_format(self):
        for version in ("earliest", "v108", "v110", "latest"):
            with self.make(libver=(version, "latest") if version != "latest" else "latest") as f:
                f["a/b"] = np.arange(100, dtype="f4")
                f.create_dataset("c", data=np.ones((30, 30)), chunks=(7, 9), maxshape=(None, None))
                f["s"] = h5py.SoftLink("nowhere")
                for i in range(40):
                    f["a"].attrs[f"n{i}"] = i
            self.check_copy()

    def test_cycles_and_many_names(self):
        with self.make() as f:
            f["g/w"] = np.ones(2, "f4")
            f["g/up"] = f["/"]
            f["g/self"] = f["g"]
            f["g/h/back"] = f["g"]
            for i in range(50):
                f[f"name{i}"] = f["g/w"]
        self.check_copy()
        self.assertEqual(self.list(), ["g/w f4 (2,)"])

    def test_large_attributes(self):
        with self.make(libver="latest") as f:
            f["w"] = np.ones(2, "f4")
            f["w"].attrs["large"] = np.arange(30000, dtype="f8")
            f.attrs["names"] = ["n%d" % i for i in range(6000)]
        self.check_copy()

    def test_depth(self):
        with self.make() as f:
            f["/".join(["g"] * 300) + "/w"] = np.ones(1, "f4")
        self.check_copy()
        with self.make() as f:
            f["/".join(["g"] * 700) + "/w"] = np.ones(1, "f4")
        self.check_refused(LIMIT, "deeper")

    def test_a_hundred_names_with_slashes(self):
        with self.make() as f:
            for i in range(100):
                f[f"block{i % 7}/layer{i}/w_s{i}"] = np.full(i, i, "f4")
        self.check_copy()
        self.assertEqual(len(self.list()), 100)

    def test_user_block(self):
        with self.make(userblock_size=1024) as f:
            f["w"] = np.arange(5, dtype="f4")
        self.check_copy()


class Stdin(Case):
    def test_a_pipe(self):
        with self.make() as f:
            f["w"] = np.arange(5, dtype="f4")
        with open(self.path, "rb") as f:
            result = subprocess.run([hdf5_cases.TOOL, "cat", "-", "w"], input=f.read(), capture_output=True, timeout=60)
        self.assertEqual(result.stdout, np.arange(5, dtype="f4").tobytes(), result.stderr)


class FromNpz(Case):
    def test_names_and_order(self):
        names = ["z", "a/x", "b", "a/y", "/lead", "tail/", "dou//ble", ".", "a", "./x", "..", "\u4e00", "k/l/m", "k/l",
                 "x" * 3000, "y" * 3000 + "/", "%2F", "dou%2F%2Fble", "/".join(["d"] * 600)]
        npz = os.path.join(self.dir.name, "in.npz")
        np.savez(npz, **{name: np.full(i + 1, i, "f4") for i, name in enumerate(names)})
        result = run("copy", npz, self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.list(npz), self.list())
        for i, name in enumerate(names):
            self.assertEqual(self.cat(name), np.full(i + 1, i, "f4").tobytes())
        self.check_copy()
        back = os.path.join(self.dir.name, "back.npz")
        self.assertEqual(run("copy", self.path, back).returncode, 0)
        with np.load(back) as f:
            self.assertEqual(f.files, names)
        with h5py.File(self.path) as f:
            self.assertEqual(f["k/l/m"].shape, (13,))
            self.assertEqual(f["dou%2F%2Fble%1"].attrs["gradcodec_name"], "dou//ble")

    def test_types_that_hdf5_lacks(self):
        npz = os.path.join(self.dir.name, "in.npz")
        for array in (np.array(["text"]), np.array([1], "M8[ns]"), np.array([1], "m8[s]"), np.array([1], "g"),
                      np.array([1], "G")):
            np.savez(npz, ok=np.ones(1, "f4"), bad=array)
            result = run("copy", npz, self.copy)
            self.assertEqual(result.returncode, UNSUPPORTED, (array.dtype, result.stderr))
            self.assertIn(b"'bad'", result.stderr)
            self.assertFalse(os.path.exists(self.copy))

    def test_all_others(self):
        npz = os.path.join(self.dir.name, "in.npz")
        arrays = {kind: np.zeros((2, 3), kind) for kind in
                  ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16", "S5", "V3")}
        np.savez(npz, **arrays)
        self.assertEqual(run("copy", npz, self.path).returncode, 0)
        self.assertEqual(self.list(npz), self.list())
        with h5py.File(self.path) as f:
            for kind, array in arrays.items():
                self.assertEqual(f[kind].dtype, array.dtype)


if __name__ == "__main__":
    hdf5_cases.main()
