"""Files that our encoder does not write and a decoder has to read."""
# SPDX-License-Identifier: Apache-2.0
from made_files import (NAN, ONE, REST, SEED, STEP, SYMBOLS, bits, by, doubles, exceptions, file, floats, one_frame,
                        packed,
                        schema, tensor, varint)

RAW = schema(schemes=((b"raw", 0),))


def all_accepted():
    """(name, what it shows, bytes)"""
    yield "plain", "The file from which the invalid ones are made: three values.", file()
    yield "minor", "A minor number of 7, which changes nothing.", file()
    yield "skippable", "Blocks that a reader does not know and skips, one of no bytes.", \
        file(between=((0x82, b"x"), (0xFF, b"")))
    yield "skippable-after", "A skippable block between the last frame and END, which counts its bytes.", \
        file(after=((0x90, b"late"),), lengths=[5, 14])
    yield "raw", "Three zeros by raw.", file(schema=RAW, message=b"\x00", frames=((0, bytes(12)),))
    yield "raw-constant", "raw in the constant form: all bytes are 40.", \
        file(schema=RAW, message=b"\x00", frames=((1, b"\x40"),))
    yield "no-tensors", "A message of no tensors.", \
        file(schema=schema(schemes=(), tensors=()), message=b"\x00", frames=())
    yield "constant", "The constant form.", one_frame(STEP + b"\x02", form=1)
    yield "stored", "Form 2: packed, though the coder is rans.", by("dqsg:levels=3", STEP + SYMBOLS, form=2, coder=2)
    yield "no-elements", "A tensor of no elements.", one_frame(STEP, schema=schema(tensors=(tensor(dims=(0,)),)))
    yield "exceptions", "Exceptions: a NaN, and the least value above 2^126.", \
        one_frame(STEP + exceptions((0, NAN), (1, 0x7E800001)) + REST, form=4)
    yield "all-exceptions", "Each element is an exception, with NaNs of three payloads.", \
        one_frame(STEP + exceptions((0, 0x7F800001), (0, 0xFFC00000), (0, 0x7FFFFFFF)) + REST, form=4)
    yield "step-least", "A step of 2^-126: decoded values are subnormal.", one_frame(bits(0x00800000) + SYMBOLS)
    yield "step-largest", "A step of 2^126.", one_frame(bits(0x7E800000) + SYMBOLS)
    yield "step-0", "A step of 0.", one_frame(bits(0) + REST)
    yield "m-not-needed", "M is larger than the symbols need.", by("dither", STEP + b"\x07" + packed(15, 7, 8, 6))
    yield "exponent-126", "The largest exponent of natural.", by("natural", b"\x01" + varint(275) + b"\x0d")
    yield "exponent-least", "The least exponent of natural, which decodes to subnormal numbers.", \
        by("natural", b"\x01\x00" + packed(3, 0, 1, 2))
    yield "beside-m", "A NaN beside M of adaquant.", \
        by("adaquant:bucket=0", STEP + b"\x01" + exceptions((0, NAN)) + REST, form=4)
    yield "beyond-m", "A value beyond 32,767 steps of dither.", \
        by("dither", STEP + b"\x01" + exceptions((0, 0x48000000)) + REST, form=4)
    yield "rows-of-1", "Rows of one element.", by("sign:axis=row", b"\x01" + bits(ONE) * 3 + b"\x00", draws=False)
    yield "chunks", "Two chunks, both constant.", \
        file(schema=schema(head=b"\x0c\x00\x02", tensors=(tensor(dims=(5000,)),)),
             frames=((0, STEP), (1, b"\x01"), (1, b"\x00")))
    yield "alpha", "ndqsg with an alpha of 1 and rho of 2.", \
        by("ndqsg", floats(2) + b"\x02" + doubles(1, 0.25, 0.5) + packed(2, 0, 1, 1))
    yield "choose-half", "choose by stochastic rounding.", by("choose", b"\x01\x00" + STEP + b"\x01" + SYMBOLS)
    yield "randk-all", "All elements drawn.", \
        by("randk", b"\x03" + bits(0xFFFFFFFF) + b"\x03" + b"\x3f" * 3 + bytes(6) + b"\x80" * 3)
    yield "below-exception", "An exception of the scheme below, put back before the places.", \
        by("topk/dqsg:levels=3", b"\x02" + STEP + b"\x20" + exceptions((1, NAN)) + packed(3, 2, 1))
    yield "rotated-exception", "An exception of a rotation, and a large one below it.", \
        by("rotate/dither", floats(1) + b"\x01" + exceptions((2, NAN)) + exceptions((0, 0x48000000)) + b"\x28", form=4)
    yield "rotated-large", "Values beyond 2^108 below a rotation, which count as 2^108.", \
        by("rotate/dither", floats(2.0**110) + b"\x01" + b"\x00" + packed(3, 2, 0, 1, 2))
    yield "whole-cells", "Cells of eight bytes, the largest of both signs.", \
        by("countsketch:rows=1,value=i64,exp=62", b"\x02\x08" + b"\xff" * 7 + b"\x7f" + b"\x01" + bytes(6) + b"\x80")
    yield "mask", "A mask as a message.", by("mask", b"\x02" + b"\x40", draws=False)
    yield "mask-empty", "An index set of no places.", by("mask", b"\x00", draws=False, kind=4)
    yield "model-escape", "By model, an escape for what has a token.", \
        by("dqsg:levels=3", STEP + b"\x30\x41\x01\x02" + b"\xff\x7f\0\x40", coder=5, count=1)
    yield "model-form-0", "By model, form 0 where the stream has scales, and a symbol in a row without.", \
        by("dqsg:levels=3", STEP + b"\x00\x29" + b"\x1f" + bytes(19) + b"\x29" + bytes(20) + b"\x00\x00\x02",
           coder=5, dims=(32, 32), count=1024)
    yield "lines-none", "Rows and columns of one class after all.", \
        by("dither:steps=class", STEP + b"\x01\x00\x00" + packed(3, *[1, 2] * 512), dims=(32, 32), count=1024)
    yield "constant-without-streams", "The constant form of a chunk that has no streams.", \
        by("countsketch:rows=1", b"\x01" + STEP, form=1)
    yield "shrink-biased", "A biased scheme behind shrink, which readers do not check.", \
        by("shrink/sign", bits(ONE, ONE) + b"\x00", draws=False)
    yield "flags", "Worker 0 and step 0, which are not the same as none.", file(message=b"\x07" + SEED + b"\x00\x00")
