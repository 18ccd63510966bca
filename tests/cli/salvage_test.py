#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decompress --salvage: what is recovered of damaged files, what is listed, and the exit codes."""
import numpy as np

import container
import support
from support import BAD_INPUT, CHECK_FAILED, LIMIT, OK, UNSUPPORTED, USAGE, run


class Salvage(support.CliTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        self.arrays = {"w": random.standard_normal((3, 4096)).astype("f4"), "b": random.standard_normal(9).astype("f4"),
                       "n": np.arange(10)}
        self.file = self.compress(self.npz(self.arrays), "--scheme", "dqsg:levels=5", "--seed", "3", "--chunk-log2=12")
        self.sound = self.decompress(self.file, suffix=".npz")
        self.frames = [(part.start, part.end - part.start) for part in container.parts(self.file.read_bytes(), 6)
                       if part.name.startswith("frame")]  # of w parameters and three chunks, b, n

    def damaged(self, *places):
        data = bytearray(self.file.read_bytes())
        for place in places:
            data[place] ^= 1
        return self.write(data, "damaged.gradz")

    def salvage(self, file, code, *options, name="rest.npz"):
        out = self.dir / name
        result = run("decompress", file, "-f", "-o", out, *options)
        self.assertEqual(result.code, code, result.err)
        with np.load(out) as loaded:
            return {key: loaded[key] for key in loaded.files}, result.err

    def test_a_chunk_is_lost_and_the_rest_is_as_it_was(self):
        file = self.damaged(self.frames[2][0] + 20)  # parameters, chunk 1, chunk 2
        self.refused(BAD_INPUT, "decompress", file, "-o", self.dir / "no.npz", says="chunk 2 of 3")
        self.refused(BAD_INPUT, "decompress", file, "-o", self.dir / "no.npz", says="--salvage recovers what is intact")
        rest, said = self.salvage(file, CHECK_FAILED, "--salvage")
        expected = self.sound["w"].copy()
        expected[1] = 0
        self.assertEqual(rest["w"].tobytes(), expected.tobytes())
        for name in ("b", "n"):
            self.assertEqual(rest[name].tobytes(), self.sound[name].tobytes())
        self.assertIn("tensor 'w' lost chunk 2 of 3, elements 4096 to 8191 of 12288: not in the file as written", said)
        self.assertEqual(self.salvage(file, CHECK_FAILED, "--salvage=zero")[0].keys(), self.arrays.keys())
        rest, said = self.salvage(file, CHECK_FAILED, "--salvage=omit")
        self.assertEqual(set(rest), {"b", "n"})
        self.assertIn("left out", said)

    def test_parameters_lost_are_a_tensor_lost(self):
        rest, said = self.salvage(self.damaged(self.frames[0][0] + 4), CHECK_FAILED, "--salvage")
        self.assertFalse(rest["w"].any())
        self.assertIn("tensor 'w' lost all of it, elements 0 to 12287 of 12288: parameters", said)

    def test_losses_in_a_row_are_one_line(self):
        file = self.damaged(self.frames[1][0], self.frames[2][0])
        self.assertIn("lost chunks 1 to 2 of 3, elements 0 to 8191", self.salvage(file, CHECK_FAILED, "--salvage")[1])

    def test_other_damage_loses_nothing(self):
        size = len(self.file.read_bytes())
        for place, says in ((3, "prologue"), (size - 1, "end of the file"), (size - 12, "END was not found")):
            rest, said = self.salvage(self.damaged(place), OK, "--salvage")
            self.assertEqual({k: v.tobytes() for k, v in rest.items()}, {k: v.tobytes() for k, v in self.sound.items()})
            self.assertIn(says, said)
        rest, said = self.salvage(self.file, OK, "--salvage")
        self.assertEqual(rest["w"].tobytes(), self.sound["w"].tobytes())
        self.assertNotIn("lost", said)

    def test_a_file_that_was_cut(self):
        place, size = self.frames[3]
        file = self.write(self.file.read_bytes()[:place + size], "cut.gradz")
        rest, said = self.salvage(file, CHECK_FAILED, "--salvage")
        self.assertEqual(rest["w"].tobytes(), self.sound["w"].tobytes())
        self.assertIn("tensor 'b' lost all of it", said)
        self.assertIn("tensor 'n' lost all of it", said)
        data = self.file.read_bytes()
        piped = run("decompress", "-", "--salvage", "-o", "-", "--to", "npz", stdin=data[:place + size])
        self.assertEqual((piped.code, piped.out[:2]), (CHECK_FAILED, b"PK"))

    def test_bytes_missing_in_the_middle_cost_the_chunks_they_touch(self):
        place, size = self.frames[1]
        data = self.file.read_bytes()
        file = self.write(data[:place + 10] + data[place + size - 10:], "hole.gradz")
        rest, said = self.salvage(file, CHECK_FAILED, "--salvage")
        self.assertEqual(rest["w"][1:].tobytes(), self.sound["w"][1:].tobytes())
        self.assertFalse(rest["w"][0].any())
        self.assertEqual(rest["b"].tobytes(), self.sound["b"].tobytes())
        self.assertEqual(said.count(" lost "), 1, said)

    def test_only_and_dtype(self):
        file = self.damaged(self.frames[2][0] + 20)
        rest, said = self.salvage(file, OK, "--salvage", "--only=b", "--dtype=f8")
        self.assertEqual((set(rest), rest["b"].dtype), ({"b"}, np.float64))
        self.assertNotIn("'w'", said)

    def test_what_cannot_be_salvaged(self):
        out = self.dir / "out.npz"
        out.write_bytes(b"before")
        for place in (20, self.frames[0][0] - 1):
            self.refused(BAD_INPUT, "decompress", self.damaged(place), "--salvage", "-f", "-o", out)
        self.refused(BAD_INPUT, "decompress", self.write(b"", "empty.gradz"), "--salvage", "-f", "-o", out)
        self.refused(BAD_INPUT, "decompress", self.npy(np.zeros(9), "dump.npy"), "--salvage", "-f", "-o", out)
        for options in (["--stream"], ["--state", "s"], ["--top", "5"], ["--schema", "s"]):
            self.refused(USAGE, "decompress", self.file, "--salvage", "-f", "-o", out, *options)
        self.assertEqual(out.read_bytes(), b"before")

    def test_a_damaged_message_without_frames(self):
        """What is wrong is MESSAGE, even where END's check happens to follow from the damaged one."""
        sound = self.compress(self.npz({}), "--scheme", "dqsg:levels=3", "--coder", "pack").read_bytes()
        place = container.parts(sound, 0)[2].end - 8
        for bit in range(8):
            data = bytearray(sound)
            data[place] ^= 1 << bit
            file = self.write(data, "damaged.gradz")
            self.refused(BAD_INPUT, "decompress", file, "--salvage", "-o", self.dir / "out.npz", says="MESSAGE")

    def test_a_header_that_claims_much(self):
        """A tensor of 2^50 elements is a small header, of which no dump of zeros is made."""
        file = self.write(container.file_of([container.Tensor("x", container.F4, (1 << 50,))], []), "claims.gradz")
        self.refused(BAD_INPUT, "decompress", file, "--salvage", "-o", self.dir / "out.npz", says="too little is left")
        self.refused(LIMIT, "decompress", self.file, "--salvage", "-o", self.dir / "out.npz", "--max-output=9K")

    def test_what_is_intact_and_wrong_is_refused_as_ever(self):
        worker = container.varint(container.HAS_WORKER) + container.varint(1)
        file = self.write(container.Writer(kind=4).block(container.SCHEMA, container.schema(
            [container.Tensor("x", container.F4, (3,))], (("mask", container.PACK),))).block(
                container.MESSAGE, worker).frame(b"\x02\x40").end(), "worker.gradz")
        for salvage in ([], ["--salvage"]):
            self.refused(BAD_INPUT, "decompress", file, "-o", self.dir / "out.npz", *salvage, says="of one worker")

    def test_many_places_where_the_end_could_be(self):
        """20 MB of heads of END, of a size that it may have: the search gives up."""
        sound = container.file_of([container.Tensor("x", container.F4, (3,))], [b"\0\0\0\x40\x0d"])
        end = container.parts(sound, 1)[-2]
        file = self.write(sound[:end.start] + b"\x7f\x05" * 10_000_000, "ends.gradz")
        result = run("decompress", file, "-o", self.dir / "out.npz", "--salvage", cpu=None if support.SANITIZED else 2)
        self.assertEqual(result.code, OK, result.err)
        self.assertIn("END was not found", result.err)

    def test_a_tensor_of_an_unknown_scheme_is_lost(self):
        w, b = container.Tensor("w", container.F4, (2,), 0), container.Tensor("b", container.F4, (2,), 1)
        file = self.write(container.file_of([w, b], [b"what", b"\0\0\0\0\x80\0\x3f\x40"],
                                            schemes=(("later:k=1", container.PACK), ("raw", container.PACK))))
        self.refused(UNSUPPORTED, "decompress", file, "-o", self.dir / "no.npz", says="later")
        rest, said = self.salvage(file, CHECK_FAILED, "--salvage")
        self.assertEqual((rest["w"].tolist(), rest["b"].tolist()), ([0, 0], [1, 2]))
        self.assertIn("later", said)


if __name__ == "__main__":
    support.unittest.main()
