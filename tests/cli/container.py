# SPDX-License-Identifier: Apache-2.0
"""Writes and takes apart .gradz files, without the program's help and without its scruples."""
import struct
from collections import namedtuple

import xxhash

MAGIC = bytes([0x89]) + b"GRA\r\n\x1a\n"
MESSAGE_FILE, SCHEMA_FILE = 1, 2
SCHEMA, MESSAGE, TREE, END, METADATA = 0x01, 0x02, 0x03, 0x7F, 0x81
NPY, NPZ, HDF5 = range(1, 4)  # what a file was made from
OTHER, F2, F4, F8 = range(4)  # element types
PACK, ZSTD = 0, 1
CODER, CONSTANT, STORED = range(3)  # forms of a frame
SEEDED, HAS_WORKER, HAS_STEP, DIGESTS = 1, 2, 4, 8  # flags of MESSAGE

Tensor = namedtuple("Tensor", "name dtype shape scheme", defaults=(0,))


def check(data, seed=0):
    return xxhash.xxh3_64_intdigest(data, seed % 2**64)


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return varint(len(data)) + data


def prologue(kind=MESSAGE_FILE, major=1, minor=0, flags=0):
    head = MAGIC + bytes([major, minor, kind, flags])
    return head + struct.pack("<I", check(head) & 0xFFFFFFFF)


def schema(tensors, schemes=(("dqsg:levels=3", PACK),), chunk_log2=18, alignment=0, origin=NPZ, count=None):
    out = bytes([chunk_log2, alignment, origin]) + varint(len(schemes))
    for scheme, coder in schemes:
        out += text(scheme) + struct.pack("<H", coder)
    out += varint(len(tensors) if count is None else count)
    for tensor in tensors:
        out += text(tensor.name)
        out += bytes([tensor.dtype]) if isinstance(tensor.dtype, int) else b"\0" + text(tensor.dtype)
        out += bytes([len(tensor.shape)]) + b"".join(map(varint, tensor.shape)) + varint(tensor.scheme)
    return out


def message(seed=7, digests=False, flags=0):
    """`seed`: None where no scheme draws."""
    flags |= (0 if seed is None else SEEDED) | (DIGESTS if digests else 0)
    return varint(flags) + (b"" if seed is None else struct.pack("<Q", seed))


class Writer:
    """Every block and frame gets the check that it should have, whatever it says."""

    def __init__(self, **options):
        self.out, self.seed, self.count, self.base, self.lengths = prologue(**options), 0, 0, None, []

    def _checked(self, data):
        value = check(data, self.seed if self.base is None else self.base + self.count)
        self.count += 1
        self.out += data + struct.pack("<Q", value)
        return value

    def block(self, tag, body, claimed=None):
        size = varint(len(body)) if claimed is None else claimed
        self.seed = self._checked(bytes([tag]) + size + body)
        if tag == MESSAGE:
            self.base = self.seed
        return self

    def frame(self, payload, form=CODER, exceptions=False, claimed=None):
        size = len(payload) if claimed is None else claimed
        self._checked(struct.pack("<I", size | form << 28 | exceptions << 30) + payload)
        self.lengths.append(len(payload))
        return self

    def end(self, digests=(), lengths=None):
        start = len(self.out)
        lengths = self.lengths if lengths is None else lengths
        self.block(END, b"".join(struct.pack("<I", d) for d in digests) + b"".join(map(varint, lengths)))
        self.out += struct.pack("<I", len(self.out) - start) + b"GZnd"
        return self.out


def file_of(tensors, frames, schemes=(("dqsg:levels=3", PACK),), **options):
    """A file of these frames, each a payload or a dict of what Writer.frame takes; no digests."""
    seed = None if all(text == "raw" for text, _ in schemes) else 7
    writer = Writer().block(SCHEMA, schema(tensors, schemes, **options)).block(MESSAGE, message(seed))
    for frame in frames:
        writer.frame(**frame) if isinstance(frame, dict) else writer.frame(frame)
    return writer.end()


def zstd_zeros(size, byte=b"\0", head=b""):
    """One Zstandard frame of `head` and `size` zeros (or another byte), four bytes for each 128 KiB (RFC 8878: RLE blocks)."""
    out = struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(head) + size)
    if head:
        out += struct.pack("<I", len(head) << 3)[:3] + head
    while True:
        n = min(size, 1 << 17)
        size -= n
        out += struct.pack("<I", (size == 0) | 1 << 1 | n << 3)[:3] + byte
        if size == 0:
            return out


Part = namedtuple("Part", "name start end")


def parts(data, frames):
    """Where the prologue, the blocks, the frames and the tail of a file lie. `frames`: how many there are."""
    def varint_at(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return value, at

    out, at, left = [Part("prologue", 0, 16)], 16, frames
    last = 0
    while last != END:
        if last == MESSAGE and left:
            size, begin = struct.unpack_from("<I", data, at)[0] & 0xFFFFFFF, at + 4
            name, left = f"frame {frames - left}", left - 1
        else:
            last = data[at]
            name = {SCHEMA: "SCHEMA", MESSAGE: "MESSAGE", TREE: "TREE", METADATA: "METADATA", END: "END"}[last]
            size, begin = varint_at(at + 1)
        out.append(Part(name, at, begin + size + 8))
        at = out[-1].end
    return out + [Part("tail", at, at + 8)]
