"""Files that are put together by hand, with right checks whatever is in them."""
# SPDX-License-Identifier: Apache-2.0
import struct

import program  # noqa: F401, where `reference` lies
from reference import container
from reference.container import xxh3
from reference.reading import Reader

MAGIC = bytes.fromhex("894752410D0A1A0A")
STEP = struct.pack("<f", 2)
SYMBOLS = bytes([1 + 1 * 3 + 2 * 9])  # 0 0 1
SEED = (1).to_bytes(8, "little")


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def text(data):
    return varint(len(data)) + data


def block(tag, body, seed):
    covered = bytes([tag]) + text(body)
    check = xxh3(covered, seed)
    return covered + check.to_bytes(8, "little"), check


def prologue(magic=MAGIC, major=1, kind=1, flags=0):
    head = magic + bytes([major, 7, kind, flags])  # any minor
    return head + struct.pack("<I", xxh3(head) & 0xFFFFFFFF)


def tensor(name=b"a", dtype=b"\x02", dims=(3,), scheme=0, rank=None):
    shape = bytes([len(dims) if rank is None else rank]) + b"".join(map(varint, dims))
    return text(name) + dtype + shape + varint(scheme)


def schema(head=b"\x12\x00\x02", schemes=((b"dqsg:levels=3", 0),), tensors=(tensor(),), more=b""):
    listed = b"".join(text(name) + struct.pack("<H", coder) for name, coder in schemes)
    return head + varint(len(schemes)) + listed + varint(len(tensors)) + b"".join(tensors) + more


def file(start=prologue(), schema=schema(), between=(), message=b"\x01" + SEED, frames=((0, STEP + SYMBOLS),), after=(),
         digests=b"", lengths=None, tail=b"GZnd", end_size=None):
    out, check, k = start, 0, 0
    for tag, body in [(1, schema), *between, (2, message)]:
        data, check = block(tag, body, check)
        out, k = out + data, k + 1
    for form, payload in frames:
        frame = struct.pack("<I", len(payload) | form << 28) + payload
        out, k = out + frame + xxh3(frame, check + k).to_bytes(8, "little"), k + 1
    for tag, body in after:
        out, k = out + block(tag, body, check + k)[0], k + 1
    lengths = [len(payload) for _, payload in frames] if lengths is None else lengths
    end = block(0x7F, digests + b"".join(map(varint, lengths)), check + k)[0]
    return out + end + struct.pack("<I", len(end) if end_size is None else end_size) + tail


def taken_apart(data):
    """The arguments with which `file` makes a file again, but for its digests: those are left out."""
    reader = Reader(data)
    header = container.Header(reader)
    blocks, blocks_reader = [], Reader(data[16:reader.at])
    while blocks_reader.left():
        tag, size = blocks_reader.uint(1), blocks_reader.varint()
        blocks.append((tag, blocks_reader.take(size)))
        blocks_reader.take(8)
    frames = []
    for _ in range(sum(map(container.frame_count, header.schema.tensors))):
        head = reader.uint(4)
        frames.append((head >> 28, reader.take(head & 2**28 - 1)))
        reader.take(8)
    flags = varint(header.flags & ~8)
    message = flags + blocks[-1][1][len(varint(header.flags)):]
    return {"start": data[:16], "schema": blocks[0][1], "between": blocks[1:-1], "message": message, "frames": frames}
