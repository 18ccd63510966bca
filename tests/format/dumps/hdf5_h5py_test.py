#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files made by h5py, copied through the HDF5 source and sink, compared by h5py object by object.

    hdf5_h5py_test.py DUMP_TOOL [unittest options]"""
import os
import random
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

TOOL = None
BAD_INPUT, LIMIT, UNSUPPORTED = 3, 5, 6


def run(*words, timeout=60):
    return subprocess.run([TOOL, *map(str, words)], capture_output=True, timeout=timeout)


def little(array):
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def type_words(t):
    """All of a type but its byte order."""
    kind = type(t)
    if kind is h5py.h5t.TypeFloatID:
        return "float", t.get_size(), t.get_fields(), t.get_ebias(), t.get_precision()
    if kind is h5py.h5t.TypeIntegerID:
        return "int", t.get_size(), t.get_sign()
    if kind is h5py.h5t.TypeStringID:
        return "text", t.is_variable_str() or t.get_size(), t.get_strpad(), t.get_cset()
    if kind is h5py.h5t.TypeOpaqueID:
        return "opaque", t.get_size(), t.get_tag()
    members = range(t.get_nmembers())
    names = tuple(t.get_member_name(i) for i in members)
    if kind is h5py.h5t.TypeEnumID:
        return "enum", type_words(t.get_super()), names, tuple(t.get_member_value(i) for i in members)
    assert kind is h5py.h5t.TypeCompoundID, kind
    return ("compound", t.get_size(), names, tuple(t.get_member_offset(i) for i in members),
            tuple(type_words(t.get_member_type(i)) for i in members))


def order_of(t):
    if isinstance(t, h5py.h5t.TypeEnumID):
        t = t.get_super()
    return t.get_order() if isinstance(t, (h5py.h5t.TypeFloatID, h5py.h5t.TypeIntegerID)) else None


def raw(dataset):
    """The elements as little-endian bytes, untouched by conversions; strings of variable length as they are."""
    t = dataset.id.get_type()
    if dataset.shape is None:
        return None
    if isinstance(t, h5py.h5t.TypeStringID) and t.is_variable_str():
        return [x for x in np.ravel(np.array(dataset[()], dtype=object))]
    out = np.zeros(dataset.shape + (t.get_size(),), np.uint8)
    if out.size:
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out, mtype=t)
    if isinstance(t, (h5py.h5t.TypeFloatID, h5py.h5t.TypeIntegerID, h5py.h5t.TypeEnumID)):
        if order_of(t) == h5py.h5t.ORDER_BE:
            out = out[..., ::-1]
    elif isinstance(t, h5py.h5t.TypeCompoundID):
        for i in range(t.get_nmembers()):
            m, at = t.get_member_type(i), t.get_member_offset(i)
            parts = [(m, at)]
            if isinstance(m, h5py.h5t.TypeCompoundID):
                parts = [(m.get_member_type(k), at + m.get_member_offset(k)) for k in range(m.get_nmembers())]
            for m, at in parts:
                if order_of(m) == h5py.h5t.ORDER_BE:
                    out[..., at:at + m.get_size()] = out[..., at:at + m.get_size()][..., ::-1].copy()
    return out.tobytes()


def attributes(obj, ordered):
    out = {}
    for name, value in obj.attrs.items():
        aid = obj.attrs.get_id(name)
        if isinstance(value, h5py.Empty):
            value = None
        elif isinstance(value, (np.ndarray, np.generic)):
            value = little(np.asarray(value)).tolist()
        out[name] = (type_words(aid.get_type()), aid.shape if value is not None else None, value)
    return list(out.items()) if ordered else out


def describe(path):
    """Everything in a file that should survive, as plain values."""
    out, seen = {}, {}

    def visit(obj, where):
        address = h5py.h5o.get_info(obj.id).addr
        if address in seen:
            return ("the same as", seen[address])
        seen[address] = where
        plist = obj.id.get_create_plist()
        attr_order = plist.get_attr_creation_order()
        common = (attr_order, attributes(obj, attr_order != 0))
        if isinstance(obj, h5py.Dataset):
            fill = None
            if plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED and obj.dtype.kind != "O":
                fill = little(np.asarray(obj.fillvalue)).tobytes()
            out[where] = ("dataset", type_words(obj.id.get_type()), obj.shape, obj.maxshape, fill, raw(obj), *common)
            return "here"
        order = plist.get_link_creation_order()
        links = []
        for name in obj:
            link = obj.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                links.append((name, "soft", link.path))
            else:
                links.append((name, visit(obj[name], where + "/" + name)))
        out[where] = ("group", order, links, *common)
        return "here"

    with h5py.File(path, "r") as f:
        visit(f, "")
    return out


def bfloat16(order):
    t = h5py.h5t.IEEE_F32LE.copy()
    t.set_fields(15, 7, 8, 0, 7)
    t.set_precision(16)
    t.set_size(2)
    t.set_ebias(127)
    t.set_order(order)
    return t


def make_raw(f, name, t, shape, data):
    d = h5py.h5d.create(f.id, name.encode(), t, h5py.h5s.create_simple(shape))
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=t)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.path = os.path.join(self.dir.name, "in.h5")
        self.copy = os.path.join(self.dir.name, "out.h5")
        self.maxDiff = 4000

    def make(self, **options):
        return h5py.File(self.path, "w", **options)

    def list(self, path=None, *options):
        result = run("list", path or self.path, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode().splitlines()

    def cat(self, name, *options):
        result = run("cat", self.path, name, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check_copy(self, *options):
        """The copy is the same, and so are a copy of the copy and the order of tensors."""
        for part in ("", "--part=40"):
            result = run("copy", self.path, self.copy, *options, *filter(None, [part]))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(describe(self.path), describe(self.copy))
            self.assertEqual(self.list(), self.list(self.copy))
        again = self.copy + ".2.h5"
        self.assertEqual(run("copy", self.copy, again).returncode, 0)
        with open(self.copy, "rb") as a, open(again, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def check_refused(self, code, *texts, path=None):
        result = run("list", path or self.path)
        self.assertEqual(result.returncode, code, result.stderr)
        for text in texts:
            self.assertIn(text.encode(), result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        return result.stderr.decode()


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
            result = subprocess.run(["strace", "-e", "trace=open,openat", TOOL, "list", self.path, "--drop"],
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

    def test_mutated_files(self):
        """A crash inside the library is known; it is counted, and nothing of ours may hang or pass an exit code on
        that says it is a bug."""
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
                try:
                    code = run("copy", self.path, self.copy, "--drop", timeout=5).returncode
                except subprocess.TimeoutExpired:
                    code = "timeout"
                self.assertNotEqual(code, 70)
                counts[code] = counts.get(code, 0) + 1
        print(f"\nmutants by exit code (negative: died by a signal): {counts}")
        self.assertGreater(counts.get(0, 0) + counts.get(BAD_INPUT, 0), 200)


class Stdin(Case):
    def test_a_pipe(self):
        with self.make() as f:
            f["w"] = np.arange(5, dtype="f4")
        with open(self.path, "rb") as f:
            result = subprocess.run([TOOL, "cat", "-", "w"], input=f.read(), capture_output=True, timeout=60)
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
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
