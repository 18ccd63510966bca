#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of every release decode to the same values, and are written again byte for byte (zstd's payloads aside).

tests/golden/make.py made them. A file that is missing, changed or unknown is a failure: nothing is skipped.
"""
import hashlib
import io
import json
import os
import runpy
import zipfile
from pathlib import Path

import support

GOLDEN = Path(os.environ.get("GRADCODEC_GOLDEN", Path(__file__).resolve().parents[1] / "golden"))


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Golden(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.manifest = json.loads((GOLDEN / "manifest.json").read_text())
        cls.cases = cls.manifest["cases"]
        assert cls.cases

    def paths(self, case):
        schema = ["--schema", GOLDEN / f"files/{case['bare']}.schema"] if case["bare"] else []
        return GOLDEN / "inputs" / case["input"], GOLDEN / f"files/{case['name']}.gradz", schema

    def side(self, case):
        return ["--side-info", GOLDEN / case["side"]] if "side" in case else []

    def test_every_file_is_there_and_as_it_was(self):
        there = [p for folder in ("inputs", "files", "expected") for p in (GOLDEN / folder).glob("*")]
        self.assertEqual({str(p.relative_to(GOLDEN)) for p in there}, set(self.manifest["sha256"]))
        for name, digest in self.manifest["sha256"].items():
            self.assertEqual(hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest(), digest, name)

    def test_every_case_of_the_generator_is_there(self):
        generator = Path(__file__).resolve().parents[1] / "golden" / "make.py"
        cases = runpy.run_path(str(generator), run_name="golden")["CASES"]
        self.assertEqual({c["name"]: c for c in cases}, {c["name"]: c for c in self.cases})

    def test_files_are_written_again_to_the_byte(self):
        for case in self.cases:
            if not case["same_bytes"]:
                continue
            with self.subTest(case["name"]):
                source, packed, schema = self.paths(case)
                bare = ["--bare", *schema] if schema else []
                side = self.side(case) if case.get("noted") else []
                made = self.ok("compress", source, "-q", "-o", "-", *case["options"], *bare, *side).out
                self.assertTrue(made == packed.read_bytes(), "the file differs")

    def test_files_decode_to_the_same_bytes(self):
        for case in self.cases:
            source, packed, schema = self.paths(case)
            for i, options in enumerate(case["decode"]):
                with self.subTest(case["name"], options=options):
                    expected = (GOLDEN / f"expected/{case['name']}.{i}{source.suffix}").read_bytes()
                    decoded = self.ok("decompress", packed, "-q", "-o", "-", *schema, *options, *self.side(case)).out
                    if source.suffix != ".npz":
                        self.assertTrue(decoded == expected, "decoded bytes differ")
                        continue
                    # Another version of the zip library may lay an archive out in another way: the members count.
                    got, wanted = members_of(decoded), members_of(expected)
                    self.assertEqual(list(got), list(wanted))
                    for name, data in wanted.items():
                        self.assertTrue(got[name] == data, f"{name} differs")

    def test_schemas_are_written_again_to_the_byte(self):
        for name in sorted(n for n in self.manifest["sha256"] if n.endswith(".schema")):
            made = self.dir / "made.schema"
            self.ok("info", GOLDEN / name.replace(".schema", ".gradz"), "-f", "--schema-out", made)
            self.assertEqual(made.read_bytes(), (GOLDEN / name).read_bytes(), name)


if __name__ == "__main__":
    support.main()
