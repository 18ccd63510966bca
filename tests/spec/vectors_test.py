"""The conformance vectors of spec/vectors: no published file has changed, is missing or is unknown; each vector of the
lists is there; what they cover.

    GRADCODEC=build/release/gradcodec python3 tests/spec/vectors_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import importlib.machinery
import json
import os
import pathlib
import subprocess
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VECTORS = ROOT / "spec/vectors"
PROGRAM = pathlib.Path(os.environ.setdefault("GRADCODEC", str(ROOT / "build/release/gradcodec"))).resolve()
OF_NO_VECTOR = {"README.md", "manifest.json"}
CODERS = ("pack", "zstd", "elias", "rans", "rans-dither")
MOST = 8 << 20  # bytes of all vectors


def load_maker():
    loader = importlib.machinery.SourceFileLoader("make_vectors", str(ROOT / "tools/make-vectors"))
    module = types.ModuleType(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


make_vectors = load_maker()


class Published(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sums = json.loads((VECTORS / "manifest.json").read_text())["sha256"]
        cls.vectors = {path.parent.name: json.loads(path.read_text()) for path in VECTORS.glob("*/vector.json")}

    def test_every_file_is_there_and_as_it_was(self):
        there = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*") if path.is_file()}
        self.assertEqual(there - OF_NO_VECTOR, set(self.sums))
        for name, digest in self.sums.items():
            self.assertEqual(hashlib.sha256((VECTORS / name).read_bytes()).hexdigest(), digest, name)

    def test_every_vector_of_the_lists_is_there_and_no_other(self):
        maker = make_vectors.Maker(VECTORS)
        listed = [(name, shows) for name, shows, _ in make_vectors.all_vectors(maker)]
        self.assertEqual(len({name for name, _ in listed}), len(listed))
        self.assertEqual({name[5:]: vector["shows"] for name, vector in self.vectors.items()}, dict(listed))

    def test_numbers_are_unique_and_without_gaps(self):
        self.assertEqual(sorted(int(name[:4]) for name in self.vectors), list(range(1, len(self.vectors) + 1)))

    def test_they_are_small(self):
        self.assertLess(sum((VECTORS / name).stat().st_size for name in self.sums), MOST)

    def test_each_has_a_file_and_what_it_names(self):
        for name, vector in self.vectors.items():
            self.assertTrue({"expected", "exit"} & set(vector), name)
            for key in ("file", "expected", "schema", "side", "at", "state"):
                if key in vector:
                    self.assertTrue((VECTORS / name / vector[key]).is_file(), f"{name}: {key}")

    def test_none_is_made_that_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            maker = make_vectors.Maker(pathlib.Path(folder))
            maker.put("0001-x/file", b"old")
            maker.put("0001-x/file", b"old")
            with self.assertRaises(SystemExit):
                maker.put("0001-x/file", b"new")
            maker.folders["x"] = "0001-x"
            self.assertFalse(maker.make("x", "nothing", None))

    def test_info_says_what_it_said(self):
        for name in sorted(self.vectors):
            path = VECTORS / name / "info.json"
            if path.exists():
                said = subprocess.run([PROGRAM, "info", "--json", path.parent / "file.gradz", "-q"],
                                      capture_output=True,
                                      check=True).stdout
                self.assertEqual(json.loads(said), json.loads(path.read_bytes()), name)

    def test_each_scheme_with_each_coder(self):
        """Of those that have symbols to code; a private scheme has pack alone, a sketch none."""
        seen = set()
        for path in VECTORS.glob("*/info.json"):
            for tensor in json.loads(path.read_bytes())["tensors"]:
                seen |= {(part.partition(":")[0], tensor["coder"]) for part in tensor["scheme"].split("/")}
        said = subprocess.run([PROGRAM, "schemes", "--json"], capture_output=True, check=True).stdout
        names = {scheme["name"] for scheme in json.loads(said)}
        single = {"bq", "countsketch"}
        wanted = {(name, coder) for name in names - single for coder in CODERS} | {(name, "pack") for name in single}
        self.assertEqual(wanted - seen, set())


if __name__ == "__main__":
    unittest.main()
