#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of every release decode to the same values, and are written again byte for byte (zstd's payloads aside).

tests/golden/cases.py lists them. The files are vectors, in spec/vectors: tests/spec/vectors_test.py holds them to their
manifest. An input that is missing, changed or unknown is a failure: nothing is skipped.
"""
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]
GOLDEN, VECTORS = ROOT / "tests/golden", ROOT / "spec/vectors"
sys.path.insert(0, str(GOLDEN))
import cases  # noqa: E402


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Golden(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.manifest = json.loads((GOLDEN / "manifest.json").read_text())
        cls.cases = cls.manifest["cases"]
        assert cls.cases

        cls.folders = {path.name[5:]: path for path in VECTORS.iterdir() if path.is_dir()}

    def vector(self, name):
        """The paths and values of a vector: `file`, `schema`, `expected`."""
        folder = self.folders[name]
        said = json.loads((folder / "vector.json").read_text())
        return {key: folder / value for key, value in said.items() if key not in ("shows", "dtype")}

    def schema(self, vector):
        return ["--schema", vector["schema"]] if "schema" in vector else []

    def side(self, case):
        if "side" not in case:
            return []
        path = GOLDEN / "inputs" / case["side"]
        return ["--side-info", path if path.exists() else self.vector(case["side"])["expected"]]

    def test_every_input_is_there_and_as_it_was(self):
        there = {str(path.relative_to(GOLDEN)) for path in (GOLDEN / "inputs").glob("*")}
        self.assertEqual(there, set(self.manifest["sha256"]))
        for name, digest in self.manifest["sha256"].items():
            self.assertEqual(hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest(), digest, name)

    def test_every_case_of_the_list_is_there_and_no_other(self):
        self.assertEqual({c["name"]: c for c in cases.CASES}, {c["name"]: c for c in self.cases})

    def test_files_are_written_again_to_the_byte(self):
        for case in self.cases:
            if not case["same_bytes"]:
                continue
            with self.subTest(case["name"]):
                source, vector = GOLDEN / "inputs" / case["input"], self.vector(case["name"])
                bare = ["--bare", *self.schema(vector)] if case["bare"] else []
                side = self.side(case) if case.get("noted") else []
                made = self.ok("compress", source, "-q", "-o", "-", *case["options"], *bare, *side).out
                self.assertTrue(made == vector["file"].read_bytes(), "the file differs")

    def test_files_decode_to_the_same_bytes(self):
        for case in self.cases:
            for name, options in cases.outputs(case):
                with self.subTest(name):
                    vector = self.vector(name)
                    expected = vector["expected"].read_bytes()
                    decoded = self.ok("decompress", vector["file"], "-q", "-o", "-", *self.schema(vector), *options,
                                      *self.side(case)).out
                    if vector["expected"].suffix != ".npz":
                        self.assertTrue(decoded == expected, "decoded bytes differ")
                        continue
                    # Another version of the zip library may lay an archive out in another way: the members count.
                    got, wanted = members_of(decoded), members_of(expected)
                    self.assertEqual(list(got), list(wanted))
                    for member, data in wanted.items():
                        self.assertTrue(got[member] == data, f"{member} differs")

    def test_schemas_are_written_again_to_the_byte(self):
        bare = [case for case in self.cases if case["bare"]]
        self.assertTrue(bare)
        for case in bare:
            made = self.dir / "made.schema"
            self.ok("info", self.vector(case["bare"])["file"], "-f", "--schema-out", made)
            self.assertEqual(made.read_bytes(), self.vector(case["name"])["schema"].read_bytes(), case["name"])


if __name__ == "__main__":
    support.main()
