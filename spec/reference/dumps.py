"""Dumps: .npy and .npz files that are read as side information, and the .npz that is written."""
# SPDX-License-Identifier: Apache-2.0
import ast
import io
import zipfile
import zlib

import numpy as np

from reference.reading import Damaged, Limit, Reader, require

NPY_MAGIC = b"\x93NUMPY"
MOST_HEADER = 2**16
MOST_MEMBER = 2**32
KEYS = {"descr", "fortran_order", "shape"}


def read_npy(data):
    """(dtype, shape, bytes in C order); the dtype as a NumPy text, None for one that is not a plain text."""
    reader = Reader(data)
    require(reader.take(6) == NPY_MAGIC, "not an .npy file")
    major, _ = reader.take(2)
    require(major in (1, 2, 3), "an .npy file of version %d" % major)
    size = reader.uint(2 if major == 1 else 4)
    require(size <= MOST_HEADER, "an .npy header of %d bytes" % size)
    text = reader.take(size)
    try:
        head = ast.literal_eval(text.decode("utf-8" if major == 3 else "latin-1"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Damaged("an .npy header: %s" % error) from error
    require(isinstance(head, dict) and set(head) == KEYS, "the keys of an .npy header")
    shape = head["shape"]
    require(isinstance(shape, tuple) and all(type(dim) is int and dim >= 0 for dim in shape), "an .npy shape")
    if not isinstance(head["descr"], str):
        return None, shape, b""
    try:
        item = np.dtype(head["descr"]).itemsize
    except TypeError as error:
        raise Damaged("an .npy type: %s" % error) from error
    count = 1
    for dim in shape:
        count *= dim
    require(count * item == reader.left(), "an .npy file of another size than its header says")
    body = reader.take(reader.left())
    if head["fortran_order"] and count and item:
        body = np.frombuffer(body, "V%d" % item).reshape(shape, order="F").tobytes()
    return head["descr"], shape, body


def read_dump(data, names):
    """{name: (dtype, shape, bytes)} of the tensors of these names that there are."""
    if data[:6] == NPY_MAGIC:
        return {"array": read_npy(data)}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            there = set(archive.namelist())
            return {name: read_npy(member(archive, archive.getinfo(name + ".npy")))
                    for name in names if name + ".npy" in there}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise Damaged("neither .npy, .npz nor .gradz: %s" % error) from error


def member(archive, info):
    require(info.file_size <= MOST_MEMBER, "%s has %d bytes" % (info.filename, info.file_size), Limit)
    with archive.open(info) as file:
        return file.read(info.file_size + 1)


def npy_bytes(name, shape, data):
    """`name`: of the element type, as numbers.md has it. bfloat16, which NumPy has not, is two opaque bytes."""
    descr = {"bf16": "<V2", "bool": "|b1", "i1": "|i1", "u1": "|u1"}.get(name, ("|" if name[0] in "SV" else "<") + name)
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def write_npz(file, tensors):
    """`tensors`: {name: (dtype, shape, bytes)}. Members are stored as they are, with no time of day."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, tensor in tensors.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy_bytes(*tensor))
