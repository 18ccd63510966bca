#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever was flipped, cut, moved, repeated or from another file is found, and said where; nothing is written."""
import re

import numpy as np

import container
import support
from support import BAD_INPUT, LIMIT, UNSUPPORTED, USAGE

REFUSALS = (BAD_INPUT, LIMIT, UNSUPPORTED)
PLACE = re.compile(r"byte \d+|bytes \d+ to \d+|tensor '|prologue|block|schema|magic|is empty|header")


def tensors(shift=0.0):
    """Four tensors, the first of two chunks at --chunk-log2 12; all but a few of its elements are 0."""
    long = np.zeros(4100, np.float32)
    long[::1000] = 1 + shift
    return {"long": long, "none": np.zeros((0, 3), np.float32), "one": np.float32(2.5 - shift),
            "some": np.linspace(-1, 1 + shift, 24, dtype=np.float32).reshape(4, 6)}


FRAMES = 6  # parameters and two chunks of `long`, one of each other


class Damaged(support.CliTest):
    def setUp(self):
        super().setUp()
        self.count = 0
        options = ["--scheme=dqsg:levels=3", "--coder=zstd", "--chunk-log2=12"]
        source, other = self.npz(tensors()), self.npz(tensors(0.5), "other.npz")
        self.file = self.compress(source, *options, "--seed=1", "--metadata", '{"a": 1}').read_bytes()
        self.other = self.compress(other, *options, "--seed=2", "--metadata", '{"a": 2}').read_bytes()
        self.schema = self.dir / "x.schema"
        self.ok("info", self.dir / "x.npz.gradz", "--schema-out", self.schema)
        bare = ["--bare", "--schema", self.schema, "--worker=3", "--step=300"]
        self.bare = self.compress(source, *options, *bare, "--seed=1", to=self.dir / "bare").read_bytes()
        self.other_bare = self.compress(other, *options, *bare, "--seed=2", to=self.dir / "bare2").read_bytes()
        self.parts = container.parts(self.file, FRAMES)
        self.assertEqual(self.parts[-1].end, len(self.file))
        self.assertLess(len(self.file), 400)

    def forms(self, data, other):
        """Ways to damage bytes, as (what, damaged bytes): all but single bits and cuts."""
        size = len(data)
        yield "doubled", data + data
        yield "with a byte after the end", data + b"\0"
        yield "with junk after the end", data + bytes(range(100))
        yield "with zeros before", bytes(16) + data
        yield "followed by another", data + other
        for width in (1, 3, 16, 64):
            for at in range(0, size - width, max(width, size // 20)):
                if any(data[at:at + width]):
                    yield f"zeroed at {at}, {width} bytes", data[:at] + bytes(width) + data[at + width:]
                yield f"without {width} bytes at {at}", data[:at] + data[at + width:]
                yield f"with {width} bytes twice at {at}", data[:at + width] + data[at:]
        for at in range(1, size, 3):
            if data[:at] != other[:at] and data[at:] != other[at:]:
                yield f"spliced with another at {at}", data[:at] + other[at:]

    def part_forms(self):
        """Whole blocks and frames swapped, repeated, left out, or another file's."""
        others = container.parts(self.other, FRAMES)
        bytes_of = [self.file[p.start:p.end] for p in self.parts]
        for i, part in enumerate(self.parts):
            yield f"without {part.name}", b"".join(bytes_of[:i] + bytes_of[i + 1:])
            yield f"with {part.name} twice", b"".join(bytes_of[:i + 1] + bytes_of[i:])
            foreign = self.other[others[i].start:others[i].end]
            if foreign != bytes_of[i]:
                yield f"with {part.name} of another file", b"".join(bytes_of[:i] + [foreign] + bytes_of[i + 1:])
            for j in range(i + 1, len(self.parts)):
                order = list(bytes_of)
                order[i], order[j] = order[j], order[i]
                if b"".join(order) != self.file:
                    yield f"with {part.name} and {self.parts[j].name} swapped", b"".join(order)

    def flips(self, data, every=1):
        for bit in range(0, 8 * len(data), every):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            yield f"with bit {bit % 8} of byte {bit // 8} flipped", bytes(flipped)

    def cuts(self, data):
        for size in range(len(data)):
            yield f"cut to {size} bytes", data[:size]

    def expect_found(self, forms, *options, command="info", allowed=REFUSALS):
        """Each form is refused, with a place; decompress leaves nothing, and an existing output as it was."""
        def check(form):
            what, data = form
            assert data not in (self.file, self.bare), what
            if command == "info":
                result = support.run("info", "--test", "-T1", "-", *options, stdin=data, timeout=10)
            else:
                folder = self.dir / f"{hash(what)}"
                folder.mkdir()
                damaged, output = folder / "damaged.gradz", folder / "out.npz"
                damaged.write_bytes(data)
                result = support.run("decompress", "-T1", damaged, "-o", output, *options, timeout=10)
                if [p.name for p in folder.iterdir()] != ["damaged.gradz"]:
                    return f"{what}: left {sorted(p.name for p in folder.iterdir())}"
                output.write_bytes(b"as it was")
                again = support.run("decompress", "-T1", damaged, "-f", "-o", output, *options, timeout=10)
                if output.read_bytes() != b"as it was" or len(list(folder.iterdir())) != 2 or again != result:
                    return f"{what}: the existing output was touched, or -f changed {result} into {again}"
            if result.code not in allowed or not result.err.startswith("gradcodec: "):
                return f"{what}: ended with {result.code}, {result.err!r}"
            return None if PLACE.search(result.err) else f"{what}: the message says not where: {result.err!r}"

        forms = list(forms)
        self.assertGreater(len(forms), 10)
        failures = [text for text in support.in_parallel(check, forms) if text]
        self.assertEqual(failures, [], f"{len(failures)} of {len(forms)} damaged forms")

    def test_the_undamaged_files_are_taken(self):
        self.ok("info", "--test", "-", stdin=self.file)
        self.ok("decompress", "-", "--to=npz", stdin=self.file)
        self.ok("decompress", "-", "--to=npz", "--schema", self.schema, stdin=self.bare)


class Damage(Damaged):
    def test_flipped_bits(self):
        self.expect_found(self.flips(self.file, every=3))

    def test_flipped_bits_leave_no_output(self):
        self.expect_found(self.flips(self.file, every=61), command="decompress")

    def test_every_cut(self):
        self.expect_found(self.cuts(self.file))

    def test_cuts_leave_no_output(self):
        self.expect_found(list(self.cuts(self.file))[::13], command="decompress")

    def test_moved_repeated_missing_and_foreign_parts(self):
        self.expect_found(self.part_forms(), command="decompress")

    def test_everything_else(self):
        self.expect_found(self.forms(self.file, self.other))

    def test_a_tensor_comes_out_of_a_file_in_which_another_is_damaged(self):
        part = next(p for p in self.parts if p.name == f"frame {FRAMES - 1}")
        damaged = bytearray(self.file)
        damaged[part.start + 5] ^= 1
        output = self.dir / "out.npz"
        self.ok("decompress", self.write(damaged), "-o", output, "--only=one")
        whole = self.decompress(self.write(self.file, "good.gradz"), suffix=".npz")
        self.assert_same_bits(np.load(output)["one"], whole["one"])
        for only in ("--only=some", "--only=*"):
            self.refused(BAD_INPUT, "decompress", self.write(damaged), "-f", "-o", output, only, says="tensor 'some'")
        self.refused(BAD_INPUT, "info", self.write(damaged), says="tensor 'some'")

    def test_bare_messages(self):
        schema = ["--schema", self.schema]
        forms = [*self.flips(self.bare, every=5), *self.cuts(self.bare), *self.forms(self.bare, self.other_bare)]
        self.expect_found(forms[::4], *schema, command="decompress")

    def test_damage_to_a_bare_header_is_not_taken_for_a_newer_version(self):
        for what, damaged in self.flips(self.bare[:14]):
            result = support.run("decompress", "-", "-T1", "--schema", self.schema, stdin=damaged + self.bare[14:])
            self.assertIn(result.code, (BAD_INPUT, UNSUPPORTED), what)
            self.assertRegex(result.err, "damaged", what)

    def test_schema_files(self):
        data = self.schema.read_bytes()
        # A flipped bit may make the prologue's kind another, which is checked; never a usable schema.
        more = [("doubled", data + data), ("junk", data + b"x")]
        self.expect_found([*self.flips(data, every=3), *list(self.cuts(data))[::2], *more])
        for what, damaged in list(self.flips(data, every=101)):
            path = self.write(damaged, "damaged.schema")
            self.refused(REFUSALS, "decompress", self.write(self.bare), "-o", self.dir / "out.npz", "--schema", path)

    def test_a_schema_file_of_other_tensors_does_not_decode(self):
        other = self.compress(self.npz({"x": np.ones(3, np.float32)}, "y.npz"), "--scheme=raw")
        path = self.dir / "y.schema"
        self.ok("info", other, "--schema-out", path)
        self.refused(UNSUPPORTED, "decompress", self.write(self.bare), "-o", self.dir / "out.npz", "--schema", path,
                     says="another schema")

    def test_kinds_of_files_are_not_confused(self):
        file, bare = self.write(self.file, "f.gradz"), self.write(self.bare, "b.gradz")
        output = self.dir / "out.npz"
        self.refused(USAGE, "decompress", bare, "-o", output, says="--schema")
        self.refused(USAGE, "decompress", self.schema, "-o", output, says="schema")
        self.refused(BAD_INPUT, "decompress", file, "-o", output, "--schema", self.schema)
        self.refused(BAD_INPUT, "decompress", bare, "-o", output, "--schema", file, says="schema")
        self.refused(BAD_INPUT, "decompress", self.dir / "x.npz", "-o", output, says="is a dump")
        self.assertFalse(output.exists())


@support.slow
class Slow(Damaged):
    def test_flipped_bits(self):
        self.expect_found(self.flips(self.file))

    def test_flipped_bits_leave_no_output(self):
        self.expect_found(self.flips(self.file, every=3), command="decompress")

    def test_bare_messages(self):
        forms = [*self.flips(self.bare), *self.cuts(self.bare), *self.forms(self.bare, self.other_bare)]
        self.expect_found(forms, "--schema", self.schema, command="decompress")


if __name__ == "__main__":
    support.main()
