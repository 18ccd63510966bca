"""Every worked example of spec/ against the program. (What the reference decoder makes of it: reference_test.py.)

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_examples_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import numpy as np

import examples
from program import Case

EXAMPLES = examples.read_examples()

class Program(Case):
    def for_each_example(self, check):
        for name, example in EXAMPLES.items():
            with self.subTest(example=name, page=example.page):
                check(example)

    def write_files(self, example):
        example.write_input(self.path)
        for name, data in example.files.items():
            (self.path / name).write_bytes(data)

    @staticmethod
    def options_beside(example, file):
        return [part for option, name in example.files_beside(file) for part in ("--" + option, name)]

    def test_there_are_examples(self):
        self.assertGreaterEqual(len(EXAMPLES), 9)

        def check(example):
            self.assertTrue(example.files and example.tensors and example.commands)

        self.for_each_example(check)

    def test_commands_make_the_same_bytes(self):
        def check(example):
            example.write_input(self.path)
            for command in example.commands:
                self.run_program(*command, "-f", "-q")
            for name, data in example.files.items():
                self.assertEqual((self.path / name).read_bytes().hex(" "), data.hex(" "), name)

        self.for_each_example(check)

    def test_decompress_gives_the_printed_values(self):
        def check(example):
            self.write_files(example)
            for name in example.files:
                if name.endswith((".schema", ".indices")):
                    continue
                self.run_program("decompress", name, "-o", "out.npz", "-f", "-q", *self.options_beside(example, name),
                                 *example.side_arguments())
                with np.load(self.path / "out.npz") as arrays:
                    out = {key: arrays[key].tobytes() for key in arrays.files}
                    shapes = {key: list(arrays[key].shape) for key in arrays.files}
                self.assertEqual(out, example.decoded_of(name), name)
                if not name.endswith(".state"):
                    self.assertEqual(shapes, {key: tensor["shape"] for key, tensor in example.tensors.items()})

        self.for_each_example(check)

    def test_accounts_add_up(self):
        def check(example):
            self.write_files(example)
            for name, data in example.files.items():
                if not name.endswith(".gradz"):
                    continue
                tested = [] if self.options_beside(example, name) else ["--test"]  # what it answers is not told to info
                said = json.loads(self.run_program("info", *tested, "--json", name, "-q"))
                self.assertEqual(said["total_bytes"], len(data))
                self.assertEqual(sum(said["parts"].values()), len(data))
                tensors = said["tensors"]
                self.assertEqual(sum(tensor["payload_bytes"] for tensor in tensors), said["parts"]["payloads"])
                self.assertEqual(12 * sum(tensor["frames"] for tensor in tensors),
                                 said["parts"]["frame heads and checks"])

        self.for_each_example(check)

    def test_any_damaged_byte_of_a_bare_message_is_found(self):
        example = EXAMPLES["bare-short"]
        self.write_files(example)
        data = example.files["short.bare"]
        for at in range(len(data)):
            (self.path / "x.bare").write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
            expect = 6 if 4 <= at < 14 else 3  # version, unknown flags, schema digest
            self.run_program("decompress", "x.bare", "--schema", "short.schema", "-o", "x.npz", "-q", expect=expect)

    def test_any_damaged_byte_is_found(self):
        example = EXAMPLES["one"]
        (name, data), = example.files.items()
        for at in range(len(data)):
            damaged = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:]
            (self.path / name).write_bytes(damaged)
            self.run_program("info", "--test", name, "-q", expect=3)


if __name__ == "__main__":
    unittest.main()
