"""Section 17 of spec/container.md: each way of being wrong, with right checks around it, and the program's exit code.

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_refusals_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import struct
import unittest

from made_files import MAGIC, SEED, STEP, SYMBOLS, block, file, prologue, schema, tensor, varint
from program import Case
from reference import decode
from reference.container import xxh3
from reference.reading import Refused


def scheme_text(data, coder=0):
    return file(schema=schema(schemes=((data, coder),)))


def one_frame(payload, form=0, **more):
    return file(frames=((form, payload),), **more)


def bits(value):
    return struct.pack("<I", value)


def exceptions(*pairs):
    return varint(len(pairs)) + b"".join(varint(gap) + bits(value) for gap, value in pairs)


NAN, ONE = 0x7FC00000, 0x3F800000
RAW = schema(schemes=((b"raw", 0),))
EMPTY = schema(tensors=(tensor(dims=(0,)),))
NATURAL = schema(schemes=((b"natural", 0),))
ROWS = schema(schemes=((b"sign:axis=row", 0),))
DITHER = schema(schemes=((b"dither", 0),))
SUM, SUMMED = schema(schemes=((b"sum", 0),)), b"\1" + struct.pack("<d", 1) + b"\1\1" + STEP + SYMBOLS
MASK, SKETCH = schema(schemes=((b"mask", 0),)), schema(schemes=((b"countsketch:rows=1", 0),))
CHUNKED = schema(head=b"\x0c\x00\x02", tensors=(tensor(dims=(5000,)),))
CASES = {
    0: {
        "plain": file(),
        "skippable block": file(between=((0x82, b"x"), (0xFF, b""))),
        "raw": file(schema=RAW, message=b"\x00", frames=((0, bytes(12)),)),
        "no tensors": file(schema=schema(schemes=(), tensors=()), message=b"\x00", frames=()),
        "constant": one_frame(STEP + b"\x02", form=1),
        "no elements": one_frame(STEP, schema=EMPTY),
        "exception": one_frame(STEP + exceptions((0, NAN), (1, 0x7E800001)) + b"\x0d", form=4),
        "exponent 126": one_frame(b"\x01" + varint(275) + b"\x0d", schema=NATURAL),
        "beside M of adaquant": one_frame(STEP + b"\x01" + exceptions((0, NAN)) + b"\x0d", form=4,
                                          schema=schema(schemes=((b"adaquant:bucket=0", 0),))),
        "beyond M of dither": one_frame(STEP + b"\x01" + exceptions((0, 0x48000000)) + b"\x0d", form=4, schema=DITHER),
        "rows of 1": one_frame(b"\x01" + bits(ONE) * 3 + b"\x00", schema=ROWS, message=b"\x00"),
        "sum": file(start=prologue(kind=5), schema=SUM, message=b"\0", frames=((0, SUMMED),)),
        "index set": file(start=prologue(kind=4), schema=MASK, message=b"\0", frames=((0, b"\0"),)),
        "no streams, constant": one_frame(b"\1" + STEP, form=1, schema=SKETCH),
        "biased behind shrink": file(schema=schema(schemes=((b"shrink/sign", 0),)), message=b"\0",
                                     frames=((0, bits(ONE) + bits(ONE) + b"\0"),)),
        "chunks": file(schema=CHUNKED, frames=((0, STEP), (1, b"\x01"), (1, b"\x00"))),
    },
    2: {"bare without schema": b"\x89GRb" + bytes(40), "schema file": file(start=prologue(kind=2))[:55]},
    3: {
        "a scheme that no tensor uses": file(schema=schema(schemes=((b"dqsg:levels=3", 0), (b"dither", 0)))),
        "schemes in another order": file(schema=schema(schemes=((b"raw", 0), (b"dqsg:levels=3", 0)), tensors=(tensor(scheme=1), tensor(name=b"b", scheme=0)))),
        "empty": b"",
        "magic": file(start=prologue(magic=b"\x89GRX" + MAGIC[4:])),
        "cut": file()[:-1], "cut in a frame": file()[:80], "junk": file() + b"x", "second file": file() + file(),
        "chunk size 11": file(schema=schema(head=b"\x0b\x00\x02")),
        "chunk size 23": file(schema=schema(head=b"\x17\x00\x02")),
        "npy of no tensor": file(schema=schema(head=b"\x12\x00\x01", schemes=(), tensors=()), frames=()),
        "schema too long": file(schema=schema(more=b"x")), "schema too short": file(schema=schema()[:-1]),
        "scheme index": file(schema=schema(tensors=(tensor(scheme=1),))),
        "scheme twice": file(schema=schema(schemes=((b"dither", 0), (b"dither", 0)))),
        "name twice": file(schema=schema(tensors=(tensor(), tensor())), frames=((0, STEP + SYMBOLS),) * 2),
        "empty name": file(schema=schema(tensors=(tensor(name=b""),))),
        "zero byte": file(schema=schema(tensors=(tensor(name=b"a\0"),))),
        "not UTF-8": file(schema=schema(tensors=(tensor(name=b"\xc0\x80"),))),
        "name of 65,536": file(schema=schema(tensors=(tensor(name=b"a" * 65536),))),
        "rank 33": file(schema=schema(tensors=(tensor(dims=(1,) * 33),))),
        "2^63 bytes": file(schema=schema(tensors=(tensor(dims=(0, 2**31, 2**30)),))),
        "frames that cannot be there": file(schema=schema(tensors=(tensor(dims=(2**60,)),))),
        "dtype spelled": file(schema=schema(tensors=(tensor(dtype=b"\x00\x02f4"),))),
        "scheme for floats": file(schema=schema(tensors=(tensor(dtype=b"\x07"),))),
        "scheme text of nothing": scheme_text(b""), "with a space": scheme_text(b"dqsg: levels=3"),
        "of 1,025": scheme_text(b"a" * 1025), "default": scheme_text(b"dqsg:levels=3,bucket=0"),
        "leading zero": scheme_text(b"dqsg:levels=03"), "even": scheme_text(b"dqsg:levels=4"),
        "order of keys": scheme_text(b"dqsg:bucket=5,levels=3"), "unknown key": scheme_text(b"dqsg:levels=3,x=1"),
        "key of the encoder": scheme_text(b"dither:nmse=1"), "key missing": scheme_text(b"dqsg"),
        "no value": scheme_text(b"later:x"), "no name": scheme_text(b"later/"), "capital": scheme_text(b"Later"),
        "nothing below": scheme_text(b"rotate"), "raw below": scheme_text(b"topk/raw"),
        "below one that takes none": scheme_text(b"dither/dqsg:levels=3"),
        "key of another": scheme_text(b"topk/dqsg:levels=3,block=8"),
        "second SCHEMA": file(between=((1, schema()),)), "END before MESSAGE": file(between=((0x7F, b""),)),
        "two METADATA": file(between=((0x81, b"\x00\xa0"),) * 2), "empty TREE": file(between=((3, b"\x00"),)),
        "block after frames": file(after=((0x82, b""),)),
        "worker 2^32": file(message=b"\x03" + SEED + varint(2**32)),
        "no seed": file(message=b"\x00"), "seed of raw": file(schema=RAW, frames=((0, bytes(12)),)),
        "side information of none": file(message=b"\x21" + SEED + bytes(8)), "message too long": file(message=b"\x01" + SEED + b"x"), "varint": file(message=b"\x81\x00" + SEED),
        "stored by pack": one_frame(STEP + SYMBOLS, form=2), "constant 3": one_frame(STEP + b"\x03", form=1),
        "constant of nothing": one_frame(STEP + b"\x01", form=1, schema=EMPTY),
        "payload too long": one_frame(STEP + SYMBOLS + b"\x00"), "payload too short": one_frame(STEP),
        "group of 27": one_frame(STEP + bytes([27])), "step cut": one_frame(STEP[:3]),
        "step -0": one_frame(bits(0x80000000) + b"\x0d"), "step -2": one_frame(bits(0xC0000000) + SYMBOLS),
        "step subnormal": one_frame(bits(0x007FFFFF) + SYMBOLS), "step NaN": one_frame(bits(NAN) + SYMBOLS),
        "step above 2^126": one_frame(bits(0x7E800001) + SYMBOLS), "symbol at step 0": one_frame(bits(0) + SYMBOLS),
        "M 32,768": one_frame(STEP + varint(32768) + bytes(6), schema=DITHER),
        "M at step 0": one_frame(bits(0) + b"\x01\x0d", schema=DITHER),
        "exponent 127": one_frame(b"\x01" + varint(276) + b"\x0d", schema=NATURAL),
        "regular beside M of adaquant": one_frame(STEP + b"\x01" + exceptions((0, 0x48000000)) + b"\x0d", form=4,
                                                  schema=schema(schemes=((b"adaquant:bucket=0", 0),))),
        "rows of 2": one_frame(b"\x02" + bits(ONE) * 2 + b"\x00", schema=ROWS, message=b"\x00"),
        "no exceptions": one_frame(STEP + b"\x00" + SYMBOLS, form=4),
        "four of three": one_frame(STEP + exceptions(*[(0, NAN)] * 4) + b"\x0d", form=4),
        "beyond the chunk": one_frame(STEP + exceptions((3, NAN)) + b"\x0d", form=4),
        "without need": one_frame(STEP + exceptions((0, ONE)) + b"\x0d", form=4),
        "with a symbol": one_frame(STEP + exceptions((2, NAN)) + SYMBOLS, form=4),
        "of raw": file(schema=RAW, message=b"\x00", frames=((4, exceptions((0, NAN)) + bytes(12)),)),
        "parameter frame's form": file(schema=CHUNKED, frames=((1, STEP), (1, b"\x01"), (1, b"\x00"))),
        "parameter frame's rest": file(schema=CHUNKED, frames=((0, STEP + b"x"), (1, b"\x01"), (1, b"\x00"))),
        "chunk missing": file(schema=CHUNKED, frames=((0, STEP), (1, b"\x01"))),
        "lengths": file(lengths=[6]), "lengths too many": file(lengths=[5, 5]), "no lengths": file(lengths=[]),
        "worker of a sum": file(start=prologue(kind=5), schema=SUM, message=b"\x02\x05", frames=((0, SUMMED),)),
        "worker of an index set": file(start=prologue(kind=4), schema=MASK, message=b"\x02\x05", frames=((0, b"\0"),)),
        "two memories": file(schema=schema(schemes=((b"ef/grid", 0), (b"ec/grid", 0)), tensors=(tensor(), tensor(b"b", scheme=1))),
                             message=b"\x11" + SEED + bytes(8), frames=((0, STEP + b"\1" + SYMBOLS),) * 2),
        "memory of a sketch": file(schema=schema(schemes=((b"ef/countsketch:rows=1", 0),)),
                                   message=b"\x11" + SEED + bytes(8), frames=((0, b"\1" + STEP),)),
        "stored by pack, without streams": one_frame(b"\1" + STEP, form=2, schema=SKETCH),
        "digest": file(message=b"\x09" + SEED, digests=bytes(4)),
        "END's size": file(end_size=14), "tail's magic": file(tail=b"GZne"),
    },
    5: {
        "4,097 schemes": file(schema=schema(schemes=[(b"x%d" % i, 0) for i in range(4097)])),
        "TREE of 64 MiB and a byte": file(between=((3, b"\x01" + varint(2**26 + 1)),)),
        "METADATA of 16 MiB and a byte": file(between=((0x81, b"\x01" + varint(2**24 + 1)),)),
    },
    6: {
        "major": file(start=prologue(major=2)), "kind": file(start=prologue(kind=9)),
        "critical flag": file(start=prologue(flags=1)), "alignment": file(schema=schema(head=b"\x12\x01\x02")),
        "origin": file(schema=schema(head=b"\x12\x00\x04")), "critical block": file(between=((5, b""),)),
        "packing": file(between=((3, b"\x02x"),)), "message flag": file(message=b"\x41" + SEED),
        "form 3": one_frame(STEP + SYMBOLS, form=3), "bit 31": one_frame(STEP + SYMBOLS, form=8),
        "dtype 16": file(schema=schema(tensors=(tensor(dtype=b"\x10"),))),
        "descriptor": file(schema=schema(tensors=(tensor(dtype=b"\x00\x01Q"),))),
        "scheme": scheme_text(b"later:x=1"), "composition": scheme_text(b"later/dither"),
        "nine": scheme_text(b"topk/" * 8 + b"dither"), "below": scheme_text(b"topk/later:x=007"), "above": scheme_text(b"later/raw"),
        "sum": scheme_text(b"raw+dither"), "coder": scheme_text(b"dqsg:levels=3", coder=99),
    },
}


class Refusals(Case):
    def refused(self, data, *arguments):
        """The program's exit code."""
        (self.path / "x.gradz").write_bytes(data)
        return self.exit_code(*arguments)

    def test_exit_codes(self):
        for code, cases in CASES.items():
            for name, data in cases.items():
                with self.subTest(case=name):
                    self.assertEqual(self.refused(data, "decompress", "x.gradz", "-o", "x.npz", "-f", "-q"), code)
                    self.assertEqual((self.path / "x.npz").exists(), code == 0)
                    (self.path / "x.npz").unlink(missing_ok=True)

    def test_exit_codes_of_the_reference_decoder(self):
        for code, cases in CASES.items():
            for name, data in cases.items():
                with self.subTest(case=name):
                    try:
                        decode.decode(data)
                        found = 0
                    except Refused as refusal:
                        found = refusal.code
                    self.assertEqual(found, code)

    def test_an_unknown_scheme_stops_only_its_tensor(self):
        two = schema(schemes=((b"dqsg:levels=3", 0), (b"later", 7)), tensors=(tensor(), tensor(name=b"b", scheme=1)))
        data = file(schema=two, frames=((0, STEP + SYMBOLS), (0, b"anything")))
        self.assertEqual(self.refused(data, "decompress", "x.gradz", "-o", "x.npz", "-q"), 6)
        self.assertEqual(self.refused(data, "decompress", "x.gradz", "-o", "x.npz", "-q", "--only", "a"), 0)
        self.assertEqual(self.refused(data, "info", "x.gradz", "-q"), 0)
        self.assertEqual(list(decode.decode(data, only=["a"])), ["a"])

    def test_bare_messages_without_room(self):
        for text, code in ((b"ef/grid", 6), (b"diana/grid", 6), (b"at", 6), (b"sum", 3)):
            with self.subTest(scheme=text):
                start, (covered, check) = prologue(kind=2), block(1, schema(schemes=((text, 0),)), 0)
                bare = b"\x89GRb\1\0" + check.to_bytes(8, "little") + bytes(20)
                bare += xxh3(bare, check).to_bytes(8, "little")
                (self.path / "x.schema").write_bytes(start + covered)
                command = ["decompress", "x.gradz", "--schema", "x.schema", "-o", "x.npz", "-q"]
                self.assertEqual(self.refused(bare, *command), code)
                with self.assertRaises(Refused) as refusal:
                    decode.decode(bare, schema=start + covered)
                self.assertEqual(refusal.exception.code, code)

    def test_streams(self):
        self.assertEqual(self.refused(file() + file(), "info", "--stream", "--test", "x.gradz", "-q"), 0)
        self.assertEqual(self.refused(file() + b"x", "info", "--stream", "x.gradz", "-q"), 3)

    def test_memory(self):
        self.assertEqual(self.refused(file(between=((0x82, bytes(3000)),)), "info", "x.gradz", "--memory", "2K"), 5)


if __name__ == "__main__":
    unittest.main()
