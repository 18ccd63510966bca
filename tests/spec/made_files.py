"""Files put together field by field, as spec/container.md lays them out: right in every check, wrong where they are
told to be. Without arguments each function makes what is right: a message of one tensor `a`, three float32 by
dqsg:levels=3.
"""
# SPDX-License-Identifier: Apache-2.0
import struct

import program  # noqa: F401, where `reference` lies
from reference import container
from reference.container import xxh3
from reference.reading import Reader

MAGIC = bytes.fromhex("894752410D0A1A0A")
SEED = (1).to_bytes(8, "little")
STEP = struct.pack("<f", 2)
SYMBOLS = bytes([1 + 1 * 3 + 2 * 9])  # 0 0 1
REST = b"\x0d"  # 0 0 0
NAN, ONE = 0x7FC00000, 0x3F800000


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def text(data):
    return varint(len(data)) + data


def bits(*values):
    """Of float32."""
    return b"".join(struct.pack("<I", value) for value in values)


def floats(*values):
    return b"".join(struct.pack("<f", value) for value in values)


def doubles(*values):
    return b"".join(struct.pack("<d", value) for value in values)


def exceptions(*pairs):
    return varint(len(pairs)) + b"".join(varint(gap) + bits(value) for gap, value in pairs)


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
    for i, (tag, body) in enumerate(after):
        out += block(tag, body, check + k + 1 + i)[0]
    lengths = [len(payload) for _, payload in frames] if lengths is None else lengths
    end = block(0x7F, digests + b"".join(map(varint, lengths)), check + k)[0]
    return out + end + struct.pack("<I", len(end) if end_size is None else end_size) + tail


def scheme_text(data, coder=0):
    return file(schema=schema(schemes=((data, coder),)))


def one_frame(payload, form=0, **more):
    return file(frames=((form, payload),), **more)


def by(scheme, payload, form=0, coder=0, count=3, draws=True, kind=1, dims=None, message=None):
    """One tensor, `count` float32 by this scheme, in one frame. `draws`: its page's line."""
    its_schema = schema(schemes=((scheme.encode(), coder),), tensors=(tensor(dims=dims or (count,)),))
    message = (b"\x01" + SEED if draws else b"\x00") if message is None else message
    return file(prologue(kind=kind), its_schema, frames=((form, payload),), message=message)


def remembers(scheme, payload, **more):
    """The first message of a scheme with memory."""
    return by(scheme, payload, message=b"\x11" + SEED + bytes(8), **more)


def sums(payload, scheme="sum", **more):
    return by(scheme, payload, draws=False, kind=5, **more)


def schema_file(schema=schema()):
    return prologue(kind=2) + block(1, schema, 0)[0]


def bare(schema=schema(), magic=b"\x89GRb", major=1, flags=0, more=b"", tensors=STEP + SYMBOLS, digest=None,
         values=None,
         check=None):
    """A short bare message. `values`: of its tensors, bytes each, for the digest."""
    its_digest = block(1, schema, 0)[1]
    out = magic + bytes([major, flags]) + its_digest.to_bytes(8, "little") + SEED + more + tensors
    if digest is None:
        chunks = [xxh3(each).to_bytes(8, "little") for each in values]
        digest = xxh3(b"".join((xxh3(each) & 0xFFFFFFFF).to_bytes(4, "little") for each in chunks)) & 0xFFFFFFFF
    out += struct.pack("<I", digest)
    return out + (xxh3(out, its_digest) if check is None else check).to_bytes(8, "little")


def digits_in(alphabet, size):
    k = 0
    while alphabet ** (k + 1) <= 256**size:
        k += 1
    return k


def packed(alphabet, *symbols):
    """coders/pack.md"""
    sizes = [b for b in range(1, 9) if digits_in(alphabet, b)]
    size = min(sizes, key=lambda b: (b / digits_in(alphabet, b), b))
    group = digits_in(alphabet, size)
    out = b""
    for at in range(0, len(symbols), group):
        part = symbols[at:at + group]
        if len(part) < group:
            size = next(b for b in range(1, 9) if alphabet ** len(part) <= 256**b)
        out += sum(symbol * alphabet**i for i, symbol in enumerate(part)).to_bytes(size, "little")
    return out


def starts(data, frames):
    """Where SCHEMA, MESSAGE, each frame and END begin in a file of no other blocks and of bodies below 128 bytes."""
    out, at = [], 16
    for _ in range(2):
        out, at = out + [at], at + 2 + data[at + 1] + 8
    for _ in range(frames):
        out, at = out + [at], at + 4 + int.from_bytes(data[at:at + 3], "little") + 8
    return out + [at]


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
