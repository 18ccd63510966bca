# SPDX-License-Identifier: Apache-2.0
"""For tests that make HDF5 files with h5py, copy them by dump_tool and compare object by object."""
import os
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


def main():
    """The arguments are DUMP_TOOL and unittest's options."""
    global TOOL
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
