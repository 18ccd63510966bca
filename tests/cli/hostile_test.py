#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Made-up files, right in every check but lying or odd: a message at once, in little memory, the right exit code."""
import io
import resource
import struct
import zipfile

import numpy as np

import container as gz
import support
from container import CONSTANT, F4, F8, NPY, PACK, SCHEMA, STORED, ZSTD, Tensor, Writer, varint
from support import BAD_INPUT, LIMIT, MIB, OK, UNSUPPORTED

TERNARY = (("dqsg:levels=3", PACK),)
ONE = [Tensor("x", F4, (5,))]
GOOD = struct.pack("<f", 1) + bytes([121])  # the parameters and the five symbols of ONE: each 0, that is 1 + M


class Hostile(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.memory = support.start_up_memory() + 64 * MIB if not support.SANITIZED else None

    def refuse_all(self, code, data, says="", command=None, what=""):
        """info --test and decompress (or `command`) refuse `data` in under a second of CPU time and 64 MiB."""
        path = self.write(data, "hostile")
        output = self.dir / "out.npz"
        output.unlink(missing_ok=True)
        files = sorted(self.dir.iterdir())
        commands = [command] if command else [["info", "--test", path], ["decompress", path, "-o", output],
                                              ["decompress", "-", "-o", output]]
        for call in commands:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with open(path, "rb") as stdin:
                result = support.run(*call, "-T1", memory=self.memory, stdin=stdin, timeout=30)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            told = f"{what} {call}: code {result.code}, {result.err!r}"
            self.assertIn(result.code, code if isinstance(code, tuple) else (code,), told)
            self.assertTrue(result.err.startswith("gradcodec: "), told)
            self.assertIn(says, result.err, told)
            self.assertNotIn("out of memory", result.err, told)
            self.assertLess(spent, 10 if support.SANITIZED else 1, told)
            self.assertEqual(sorted(self.dir.iterdir()), files, told)

    def with_schema(self, body, seed=7):
        return Writer().block(SCHEMA, body).block(gz.MESSAGE, gz.message(seed)).out

    def with_block(self, tag, body):
        """A good file, but for this block."""
        origin = gz.HDF5 if tag == gz.TREE else gz.NPZ
        writer = Writer().block(SCHEMA, gz.schema(ONE, origin=origin)).block(tag, body)
        return writer.block(gz.MESSAGE, gz.message()).frame(GOOD).end()


class Claims(Hostile):
    def test_the_file_that_the_others_are_made_from_is_good(self):
        path = self.write(gz.file_of(ONE, [GOOD], TERNARY))
        self.ok("info", "--test", path)
        self.assertEqual(self.decompress(path, suffix=".npz")["x"].shape, (5,))

    def test_a_tensor_of_10_to_the_18_elements(self):
        for scheme, seed in [("dqsg:levels=3", 7), ("raw", None)]:
            data = self.with_schema(gz.schema([Tensor("x", F4, (10**18,))], ((scheme, PACK),)), seed)
            self.refuse_all(BAD_INPUT, data, what=scheme)
            self.refuse_all(BAD_INPUT, data + struct.pack("<I", 100) + bytes(50), what=scheme)

    def test_elements_of_no_bytes(self):
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor("x", "V0", (10**18,))], (("raw", PACK),)), None))

    def test_shapes_whose_product_wraps(self):
        for shape in [(2**32, 2**32), (2**61,), (2**62, 2, 0), (2**31, 2**31, 2**31)]:
            self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor("x", F8, shape)], (("raw", PACK),))),
                            "tensor 'x'", what=shape)

    def test_10_to_the_9_tensors(self):
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema(ONE, count=10**9)))
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema(ONE * 2, count=2)), "two tensors named")

    def test_10_to_the_9_schemes(self):
        self.refuse_all(LIMIT, self.with_schema(bytes([18, 0, 2]) + varint(10**9) + b"\3raw\0\0"))

    def test_lengths_beyond_the_file(self):
        for size in (10**5, 2**27, 2**28 - 1, 2**28, 2**35, 2**62):
            self.refuse_all((BAD_INPUT, LIMIT), Writer().block(SCHEMA, b"", claimed=varint(size)).out, what=size)
        head = Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message())
        self.refuse_all(BAD_INPUT, head.frame(GOOD, claimed=2**28 - 1).out, "tensor 'x'")

    def test_memory_limit(self):
        data = gz.file_of([Tensor("x", F4, (1 << 20,))], [bytes(4 << 20)], (("raw", PACK),), chunk_log2=20)
        path = self.write(data)
        self.refused(LIMIT, "info", "--memory=1M", path, says="--memory")
        self.ok("info", "--test", "--memory=64M", path)

    def test_a_number_that_is_not_in_its_shortest_form(self):
        head = Writer().block(SCHEMA, gz.schema(ONE), claimed=bytes([0x80 | len(gz.schema(ONE)), 0]))
        self.refuse_all(BAD_INPUT, head.block(gz.MESSAGE, gz.message()).out, "shortest form")
        count = gz.schema(ONE).index(b"\x01\x01x")
        padded = gz.schema(ONE)[:count] + b"\x81\0" + gz.schema(ONE)[count + 1:]
        self.refuse_all(BAD_INPUT, self.with_schema(padded), "shortest form")
        writer = Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message()).frame(GOOD)
        self.refuse_all(BAD_INPUT, writer.block(gz.END, bytes([0x80 | len(GOOD), 0])).out, "shortest form")

    def test_an_index_that_disagrees_with_the_frames(self):
        head = lambda: Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message()).frame(GOOD)
        self.refuse_all(BAD_INPUT, head().end(lengths=[len(GOOD) + 1]))
        self.refuse_all(BAD_INPUT, head().end(lengths=[]))
        self.refuse_all(BAD_INPUT, head().end(lengths=[len(GOOD)] * 2))
        good = head().end()
        self.refuse_all(BAD_INPUT, good[:-8] + struct.pack("<I", 1) + good[-4:], "tail")

    def test_a_wrong_digest(self):
        writer = Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message(digests=True)).frame(GOOD)
        self.refuse_all(BAD_INPUT, writer.end(digests=[1]), "tensor 'x'")


class Bombs(Hostile):
    def test_in_a_payload(self):
        for declared in (10**9, 2**50):
            payload = struct.pack("<f", 1) + gz.zstd_zeros(10**9)
            payload = payload if declared == 10**9 else payload[:9] + struct.pack("<Q", declared) + payload[17:]
            self.refuse_all(BAD_INPUT, gz.file_of(ONE, [payload], (("dqsg:levels=3", ZSTD),)), "tensor 'x'")
        self.refuse_all(BAD_INPUT, gz.file_of(ONE, [gz.zstd_zeros(10**9)], (("raw", ZSTD),)), "tensor 'x'")

    def test_that_says_less_than_it_holds(self):
        for size in (2, 200):
            payload = struct.pack("<f", 1) + gz.zstd_zeros(10**8)
            payload = payload[:9] + struct.pack("<Q", 1) + payload[17:]
            self.refuse_all(BAD_INPUT, gz.file_of(ONE, [payload], (("dqsg:levels=3", ZSTD),)), what=size)

    def test_in_tree_and_metadata(self):
        for tag in (gz.TREE, gz.METADATA):
            for size in (10**9, 2**40):
                body = b"\1" + varint(size) + gz.zstd_zeros(min(size, 10**9))
                self.refuse_all((BAD_INPUT, LIMIT), self.with_block(tag, body), "block", what=f"{tag}, {size} bytes")

    def test_nested_cbor(self):
        arrays = b"\x81" * 100_000 + b"\x00"
        maps = b"\xa1\x61a" * 33_000 + b"\x00"
        strings = b"\xa1\x61a\x5b" + struct.pack(">Q", 2**63)
        counts = b"\x9b" + struct.pack(">Q", 2**60)
        for tag in (gz.TREE, gz.METADATA):
            for body in (arrays, maps, strings, counts, b"\x9f" * 100_000, b"\xff", b""):
                name = "the TREE block" if tag == gz.TREE else "the METADATA block"
                self.refuse_all(BAD_INPUT, self.with_block(tag, b"\0" + body), name, what=f"{body[:4]!r}",
                                command=["info", "--test", self.dir / "hostile"])

    def test_metadata_that_is_not_what_is_written(self):
        for body in (b"\xa0", b"\xa1\x64user\xf6", b"\xa2\x64user\xf6\x67program\x61x\x00", b"\x18\x05", b"\xc0\x00",
                     b"\xa2\x64user\xf6\x64user\xf6", b"\xa2\x67program\x61x\x64user\xf6", b"\xfb" + bytes(8),
                     b"\x61\xff", b"\xf7", b"\xa1\x00\x00", b"\xa2\x64user\xf6\x67program\x00"):
            self.refuse_all(BAD_INPUT, self.with_block(gz.METADATA, b"\0" + body), "the METADATA block", what=body,
                            command=["info", self.dir / "hostile"])


class Unknown(Hostile):
    def test_versions_kinds_and_flags_of_the_prologue(self):
        rest = Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message()).frame(GOOD).end()[16:]
        self.assertEqual(support.run("info", "-", stdin=gz.prologue(minor=9) + rest).code, OK)
        for changed, says in [({"major": 2}, "version 2"), ({"major": 0}, "version 0"), ({"kind": 9}, "kind 9"),
                              ({"kind": 0}, "kind 0"), ({"flags": 1}, "flags 1"), ({"flags": 128}, "flags 128")]:
            self.refuse_all(UNSUPPORTED, gz.prologue(**changed) + rest, says, what=changed)

    def test_blocks(self):
        for tag in (0x00, 0x05, 0x7E):
            writer = Writer().block(SCHEMA, gz.schema(ONE)).block(tag, b"?")
            self.refuse_all(UNSUPPORTED, writer.block(gz.MESSAGE, gz.message()).out, f"type {tag}")
        for tag in (0x80, 0x82, 0xFF):  # may be skipped
            writer = Writer().block(SCHEMA, gz.schema(ONE)).block(tag, b"?").block(gz.MESSAGE, gz.message())
            path = self.write(writer.frame(GOOD).end())
            self.ok("info", "--test", path)
            info = self.info(path)
            self.assertEqual(sum(info["parts"].values()), path.stat().st_size)
            path.unlink()

    def test_order_and_number_of_blocks(self):
        schema, message = (SCHEMA, gz.schema(ONE, origin=gz.HDF5)), (gz.MESSAGE, gz.message())
        tree, metadata = (gz.TREE, b"\0\xa0"), (gz.METADATA, b"\0\xa2\x64user\xf6\x67program\x61x")
        for blocks in [[message], [schema, schema, message], [tree, schema, message], [schema, tree, tree, message],
                       [schema, metadata, metadata, message], [schema, (gz.END, b"")], [schema, tree, message, tree],
                       [schema, message, message], [(SCHEMA, gz.schema(ONE)), tree, message]]:
            writer = Writer()
            for block in blocks:
                writer.block(*block)
            self.refuse_all(BAD_INPUT, writer.frame(GOOD).end(), what=[tag for tag, _ in blocks])

    def test_flags_of_the_message(self):
        for flag in (64, 1 << 40):
            writer = Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, gz.message(flags=flag))
            self.refuse_all(UNSUPPORTED, writer.frame(GOOD).end(), "flags", what=flag)
        worker = varint(gz.SEEDED | gz.HAS_WORKER) + bytes(8) + varint(2**32)
        self.refuse_all(BAD_INPUT, Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, worker).frame(GOOD).end(),
                        "worker")
        longer = gz.message() + b"\0"
        self.refuse_all(BAD_INPUT, Writer().block(SCHEMA, gz.schema(ONE)).block(gz.MESSAGE, longer).frame(GOOD).end())

    def test_there_is_a_seed_just_where_a_scheme_draws(self):
        schema = gz.schema(ONE)
        self.refuse_all(BAD_INPUT, Writer().block(SCHEMA, schema).block(gz.MESSAGE, b"\0").frame(GOOD).end(), "seed")
        schema = gz.schema(ONE, (("raw", PACK),))
        writer = Writer().block(SCHEMA, schema).block(gz.MESSAGE, gz.message())
        self.refuse_all(BAD_INPUT, writer.frame(bytes(20)).end(), "seed")

    def test_coders(self):
        for coder in (6, 7, 65535):
            self.refuse_all(UNSUPPORTED, gz.file_of(ONE, [GOOD], (("dqsg:levels=3", coder),)), f"coder {coder}")

    def test_scheme_texts(self):
        for text in ("later:s=4", "dqsg2:levels=3", "memo/dqsg:levels=3", "dqsg:levels=3+later", "x" * 1024):
            self.refuse_all(UNSUPPORTED, gz.file_of(ONE, [GOOD], ((text, PACK),)), "not known", what=text)
        # A later version may have such sums.
        self.refuse_all(UNSUPPORTED, gz.file_of(ONE, [GOOD], (("dqsg:levels=3+raw", PACK),)), "stands alone")

    def test_other_tensors_come_out_beside_an_unknown_scheme(self):
        data = gz.file_of([Tensor("x", F4, (5,), 0), Tensor("y", F4, (5,), 1)], [GOOD, b"anything"],
                          TERNARY + (("later:a=1", 77),))
        path = self.write(data)
        self.assertEqual(list(self.decompress(path, "--only=x", suffix=".npz")), ["x"])
        self.assertEqual(self.info(path)["tensors"][1]["scheme"], "later:a=1")

    def test_scheme_texts_that_are_not_canonical(self):
        for text in ("dqsg:levels=03", "dqsg:levels=3,bucket=0", "dqsg:bucket=5,levels=3", "dqsg",
                     "dqsg:", "dqsg:levels=3,", "dqsg:levels=4", "dqsg:levels=65537", "dqsg:levels=3,levels=3",
                     "dqsg:levels=3,clip=2", "dither:nmse=0.1", "dither:bucket=0", "raw:",
                     "dqsg:levels=3,bucket=4194305", "dqsg:levels=3.0", "dqsg:levels=0x3",
                     "dqsg:levels=99999999999999999999"):
            self.refuse_all(BAD_INPUT, gz.file_of(ONE, [GOOD], ((text, PACK),)), "scheme text", what=text)
        for text in ("", "dqsg:levels=3 ", "dqsg:levels=3\n", "x" * 1025, "dqs\u00e9"):
            self.refuse_all(BAD_INPUT, gz.file_of(ONE, [GOOD], ((text, PACK),)), what=text)
        self.refuse_all(BAD_INPUT, gz.file_of(ONE, [GOOD], TERNARY * 2), "twice")

    def test_element_types(self):
        for code in (16, 99, 255):
            self.refuse_all(UNSUPPORTED, self.with_schema(gz.schema([Tensor("x", code, (5,))])), f"code {code}")
        for text in ("f3", "V01", "V-1", "O", "", "M8[]", "V9999999"):
            self.refuse_all((BAD_INPUT, UNSUPPORTED), self.with_schema(gz.schema([Tensor("x", text, (5,))])), what=text)
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor("x", "f4", (5,))])), "spells out")
        integers = gz.file_of([Tensor("x", 7, (5,))], [GOOD], TERNARY)  # i4 under a scheme for floats
        self.refuse_all(BAD_INPUT, integers, "tensor 'x'")

    def test_names(self):
        for name in (b"", b"\xff", b"a\0b", b"\xed\xa0\x80", b"\xc0\x80", b"x" * 65536):
            self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor(name, F4, (5,))])), what=name[:9])

    def test_names_are_shown_escaped(self):
        data = gz.file_of([Tensor("a\x1b[31m\n\r\u009b", F4, (5,))], [b""], TERNARY)
        self.refuse_all(BAD_INPUT, data, r"a\x1b[31m\x0a\x0d\xc2\x9b")

    def test_other_fields_of_the_schema(self):
        for options, code in [({"chunk_log2": 11}, BAD_INPUT), ({"chunk_log2": 23}, BAD_INPUT),
                              ({"alignment": 1}, UNSUPPORTED), ({"origin": 0}, UNSUPPORTED),
                              ({"origin": 9}, UNSUPPORTED)]:
            self.refuse_all(code, self.with_schema(gz.schema(ONE, **options)), what=options)
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor("x", F4, (1,) * 33)])), "rank")
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema([Tensor("x", F4, (5,), 1)])), "scheme 1")
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema(ONE) + b"\0"))
        two = [Tensor("x", F4, (5,)), Tensor("y", F4, (5,))]
        self.refuse_all(BAD_INPUT, self.with_schema(gz.schema(two, origin=NPY)), "one tensor")

    def test_forms_of_a_frame(self):
        for form in (3, 8, 9):
            self.refuse_all(UNSUPPORTED, gz.file_of(ONE, [{"payload": GOOD, "form": form}]), "form")


class Contents(Hostile):
    """Of frames."""

    def refuse_frames(self, *frames, tensors=None, scheme=TERNARY[0], what="", code=BAD_INPUT):
        self.refuse_all(code, gz.file_of(tensors or ONE, frames, (scheme,)), "tensor 'x'", what=what)

    def test_steps(self):
        for bits in (0x7FC00000, 0x7F800000, 0xBF800000, 0x80000000, 0x00000001, 0x007FFFFF, 0x7E800001, 0x7F7FFFFF):
            step = struct.pack("<I", bits)
            self.refuse_frames(step + GOOD[4:], what=hex(bits))
            self.refuse_frames(step + GOOD[4:], scheme=("dqsg:levels=3,bucket=5", PACK), what=f"bucket, {bits:#x}")
            self.refuse_frames(step + b"\1" + GOOD[4:], scheme=("dither", PACK), what=f"dither, {bits:#x}")
        for bits in (0x00800000, 0x7E800000):  # the smallest and the largest
            self.ok("info", "--test", self.write(gz.file_of(ONE, [struct.pack("<I", bits) + GOOD[4:]], TERNARY)))

    def test_symbols_beside_a_step_of_zero(self):
        self.refuse_frames(bytes(4) + bytes([120]))
        self.refuse_frames(bytes(4) + b"\1" + GOOD[4:], scheme=("dither", PACK))

    def test_levels_of_dither(self):
        for level in (32768, 2**40):
            self.refuse_frames(GOOD[:4] + varint(level), scheme=("dither", PACK), what=level)
        self.refuse_frames(GOOD[:4] + b"\x81\0" + GOOD[4:], scheme=("dither", PACK), what="not minimal")

    def test_symbols_out_of_the_alphabet(self):
        for byte in (243, 255):  # 3^5 and up
            self.refuse_frames(GOOD[:4] + bytes([byte]), what=byte)
        self.refuse_frames(GOOD[:4] + bytes([9]), tensors=[Tensor("x", F4, (2,))], what="two symbols, 3^2")
        for symbol in (3, 255, 2**40):
            self.refuse_frames({"payload": GOOD[:4] + varint(symbol), "form": CONSTANT}, what=symbol)
        self.refuse_frames({"payload": varint(256), "form": CONSTANT}, scheme=("raw", PACK))
        self.refuse_frames({"payload": GOOD[:4] + b"\1", "form": CONSTANT}, tensors=[Tensor("x", F4, (0,))],
                           what="constant of no elements")

    def test_payloads_of_a_wrong_length(self):
        for payload in (b"", GOOD[:3], GOOD[:4], GOOD + b"\0"):
            self.refuse_frames(payload, what=payload)
        self.refuse_frames({"payload": GOOD[:4] + b"\1\0", "form": CONSTANT}, what="constant, a byte more")
        self.refuse_frames({"payload": GOOD, "form": STORED}, what="stored, though the coder is pack")
        self.refuse_frames(GOOD, tensors=[Tensor("x", F4, (0,))], what="no elements")

    def listed(self, count, *entries, symbols=GOOD[4:], value=np.inf):
        body = varint(count) + b"".join(varint(gap) + struct.pack("<f", value) for gap in entries)
        return {"payload": GOOD[:4] + body + symbols, "exceptions": True}

    def test_exceptions(self):
        path = self.write(gz.file_of(ONE, [self.listed(2, 0, 3)]))  # elements 0 and 4
        got = self.decompress(path, suffix=".npz")["x"]
        self.assertEqual(list(np.isinf(got)), [True, False, False, False, True])
        for what, frame in [("none", self.listed(0)), ("too many", self.listed(6, 0, 0, 0, 0, 0, 0)),
                            ("10^15", self.listed(10**15)), ("past the end", self.listed(1, 5)),
                            ("past the end after another", self.listed(2, 0, 4)),
                            ("far past the end", self.listed(1, 2**62)), ("cut", self.listed(2, 0, symbols=b""))]:
            self.refuse_frames(frame, what=what)
        self.refuse_frames({"payload": b"\1\0" + bytes(4) + bytes(20), "exceptions": True}, scheme=("raw", PACK))

    def test_exceptions_are_as_the_encoder_writes_them(self):
        # So that no two files decode to the same, and what a decoder would ignore can hide nothing.
        self.refuse_frames(self.listed(1, 0, symbols=bytes([122])), what="a symbol under an exception")
        for value in (0, 9, 32767):
            self.refuse_frames(self.listed(1, 0, value=value), what=f"{value} can be a symbol")

    def test_parameters_of_several_chunks(self):
        tensors = [Tensor("x", F4, (5000,))]
        chunks = [bytes(820), bytes(181)]
        packed = gz.file_of(tensors, [GOOD[:4], *chunks], TERNARY, chunk_log2=12)
        self.ok("info", "--test", self.write(packed))
        for first in (GOOD, GOOD[:3], b"", {"payload": GOOD[:4], "form": CONSTANT},
                      {"payload": GOOD[:4], "exceptions": True}):
            self.refuse_all(BAD_INPUT, gz.file_of(tensors, [first, *chunks], TERNARY, chunk_log2=12), "tensor 'x'",
                            what=first)


class Dumps(Hostile):
    def refuse_dump(self, data, code=BAD_INPUT, says="", what=""):
        self.refuse_all(code, data, says, ["compress", self.dir / "hostile", "-o", self.dir / "out"], what)
        self.refuse_all(code, data, says, ["compress", "-", "-o", self.dir / "out"], what)

    def header(self, text, version=(1, 0), length=None):
        text = text.encode() if isinstance(text, str) else text
        size = len(text) if length is None else length
        return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", size) + text

    def test_an_npy_header_said_to_take_4_gib(self):
        self.refuse_dump(self.header("", (2, 0), 0xFFFFFFF0))
        self.refuse_dump(self.header("{", (3, 0), 0xFFFFFFFF))

    def test_an_npy_that_claims_more_than_it_has(self):
        for shape, descr in [((10**18,), "<f4"), ((2**32, 2**32), "<f4"), ((2**63, 2), "<f4"), ((2**61,), "<f8"),
                             ((2**62, 4, 0), "<f8"), ((2,), "<f4")]:
            text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
            self.refuse_dump(self.header(text) + bytes(4), what=text)

    def test_npy_headers_that_are_none(self):
        for text in ("", "{", "{}", "[" * 5000, "{'descr': '<f4'",
                     *[f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ()}}"
                       for descr in ("<ixy", "", "<", "<f")],
                     *[f"{{'descr': '<f4', 'fortran_order': {value}, 'shape': ()}}" for value in ("1", "None", "Tru")],
                     *[f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"
                       for shape in ("(1.5,)", "(-1,)", "(1)", "1", "[1]", "(1,,)")],
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}"):
            self.refuse_dump(self.header(text) + bytes(4), (BAD_INPUT, UNSUPPORTED), what=text[:60])
        self.refuse_dump(self.header("{}", (4, 0)), UNSUPPORTED, "4.0")

    def test_what_is_no_dump(self):
        for data in (b"", b"\0", b"PK", b"PK\3\4", b"\x93NUMPY", b"\x93NUMPY\1", b"hello world" * 100):
            self.refuse_dump(data, what=data[:12])

    def member(self):
        buffer = io.BytesIO()
        np.save(buffer, np.arange(8, dtype=np.float32))
        return buffer.getvalue()

    def zip_of(self, *names, method=zipfile.ZIP_STORED, data=None):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name in names:
                archive.writestr(name, data or self.member())
        return bytearray(buffer.getvalue())

    def entries(self, data):
        """Where the entries of a zip file's directory lie."""
        out, at = [], data.find(b"PK\1\2")
        while at >= 0:
            out.append(at)
            at = data.find(b"PK\1\2", at + 1)
        return out

    def test_npz_members_that_overlap(self):
        data = self.zip_of("a.npy", "b.npy")
        first, second = self.entries(data)
        data[second + 42:second + 46] = data[first + 42:first + 46]  # b's header is said to be a's
        self.refuse_dump(bytes(data))
        shadow = self.zip_of("a.npy", "a.npy")
        self.refuse_dump(bytes(shadow), says="twice")

    def test_npz_members_that_claim_to_grow_more_than_deflate_can(self):
        data = self.zip_of("a.npy", method=zipfile.ZIP_DEFLATED)
        at = self.entries(data)[0]
        packed = struct.unpack_from("<I", data, at + 20)[0]
        struct.pack_into("<I", data, at + 24, packed * 1033)
        self.refuse_dump(bytes(data), says="deflate")

    def test_an_npz_bomb_stays_out_of_memory(self):
        claim = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}"
        bomb = self.zip_of("a.npy", method=zipfile.ZIP_DEFLATED, data=self.header(claim) + bytes(100 * MIB))
        self.refuse_dump(bytes(bomb))

    def test_an_npz_member_of_a_wrong_size_or_check(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for offset, what in [(16, "checksum"), (20, "packed size"), (24, "size"), (42, "place")]:
                data = self.zip_of("a.npy", method=method)
                at = self.entries(data)[0] + offset
                struct.pack_into("<I", data, at, struct.unpack_from("<I", data, at)[0] ^ 1)
                self.refuse_dump(bytes(data), what=f"{what}, method {method}")

    def test_npz_cut_or_with_something_around_it(self):
        data = bytes(self.zip_of("a.npy"))
        for cut in range(4, len(data), 29):
            self.refuse_dump(data[:cut], what=f"cut to {cut}")
        self.refuse_dump(data + b"junk")


if __name__ == "__main__":
    support.main()
