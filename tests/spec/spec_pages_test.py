"""The pages of spec/ against the code: every scheme and coder has its page and every page its code; numbers in tables
are those of the headers; schemes draw if their pages say so. And their form: every page is linked, links lead somewhere,
tables are whole, lines are not long.

    GRADCODEC=build/release/gradcodec python3 tests/spec/spec_pages_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

import examples
from program import PROGRAM, ROOT, SPEC
from reference import container
from reference.reading import Reader
from reference.schema import Schema
from reference.schemes.texts import NO_DRAWS

CONTAINER = (SPEC / "container.md").read_text()
COLUMNS = 120
SECTIONS = ["Parameters", "Stored", "Decoding", "Refused", "The encoder", "Promises"]


def code(path):
    return (ROOT / path).read_text()


def section(text, title):
    """What stands under `## title`, or `### title`, up to the next heading of the same rank or a higher one."""
    found = re.search(r"^(##+) (?:\d+\. )?%s[^\n]*\n(.*?)(?=^##?\1? |\Z)" % re.escape(title), text, re.M | re.S)
    if found is None:
        raise AssertionError("no section " + title)
    return found.group(2)


def without_fences(text):
    """The lines outside of fenced blocks, each with its number from 1 on."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def is_code(line):
    return line.startswith("    ")


def tables(text):
    """All rows of all tables, as lists of cells without backquotes."""
    rows = [line.strip("|\n").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in row] for row in rows if not set("".join(row)) <= set("- ")]


def enum(path, name):
    """{enumerator: number}, each with a number of its own."""
    body = re.search(r"enum (?:class )?%s[^{]*\{(.*?)\}" % name, code(path), re.S).group(1)
    return {key: int(value, 0) for key, value in re.findall(r"(\w+)\s*=\s*(\w+)", re.sub(r"//.*", "", body))}


def constant(path, name):
    """Of `name = EXPRESSION`, or of one in a list of several."""
    text = re.search(r"\b%s = ([^,;]+)[,;]" % name, code(path)).group(1)
    return eval(re.sub(r"uint64_t\{(\d+)\}", r"\1", text), {})  # of our own header


def number(text):
    power = re.fullmatch(r"(10|2)\^(-?\d+)", text)
    return float(power.group(1)) ** int(power.group(2)) if power else float(text.replace(",", ""))


class Pages(unittest.TestCase):
    def test_code_and_pages_pair(self):
        pages = {page.stem for page in (SPEC / "schemes").glob("*.md")} - {"TEMPLATE"}
        self.assertEqual(pages, {file.stem for file in (ROOT / "codec/schemes").glob("*.cc")})
        # One file may hold more than one coder; that each has its page is test_coders_of_the_program.
        for file in (ROOT / "codec/coders").glob("*.cc"):
            self.assertTrue((SPEC / "coders" / (file.stem + ".md")).exists(), file.name)

    def test_schemes_of_the_program(self):
        out = subprocess.run([PROGRAM, "schemes", "--json"], capture_output=True, text=True, check=True).stdout
        for scheme in json.loads(out):
            with self.subTest(scheme=scheme["name"]):
                page = (SPEC / "schemes" / (scheme["name"] + ".md")).read_text()
                self.assertTrue(page.startswith("# Scheme `%s`" % scheme["name"]))
                rows = tables(section(page, "Parameters"))[1:]
                self.assertEqual([row[0] for row in rows], [param["name"] for param in scheme["params"]])
                for row, param in zip(rows, scheme["params"]):
                    if param["kind"] == "choice":
                        self.assertEqual(row[1].split(", "), param["choices"].split("|"))
                        continue
                    low, high = re.search(r"([^ ]+) to ([^ ,]+(?:,\d{3})*)", row[1]).groups()
                    if param["kind"] == "list":  # so many numbers, in the range that is said behind
                        low, high = re.search(r"from ([^ ]+) to ([^ ,]+)", row[1]).groups()
                    self.assertAlmostEqual(number(low) / (param["min"] or 1), 1 if param["min"] else 0)
                    self.assertAlmostEqual(number(high) / param["max"], 1)

    def test_pages_of_schemes_follow_the_template(self):
        for page in (SPEC / "schemes").glob("*.md"):
            text = page.read_text()
            titles = [title for title in re.findall(r"^## (.*)$", text, re.M) if title != "Contexts"]
            shared = text.count("Not a scheme by itself:") == 1  # what several schemes are presets of
            wanted = SECTIONS + (["Example", "Changes"] if not shared else ["Changes"])
            self.assertEqual(titles, wanted, page.name)

    def test_pages_of_coders_follow_the_template(self):
        for page in (SPEC / "coders").glob("*.md"):
            titles = [title for title in re.findall(r"^## (.*)$", page.read_text(), re.M) if title != "The encoder"]
            wanted = [title for title in SECTIONS if title != "The encoder"] + ["Example", "Changes"]
            self.assertEqual(titles, wanted, page.name)

    def test_what_draws(self):
        """Pages of schemes have the line that says whether there is a seed, and the program's messages are so."""
        names = [scheme["name"] for scheme in json.loads(self.run_program("schemes", "--json"))]
        said = {page.stem: re.findall(r"^Draws: (yes|no)$", page.read_text(), re.M)
                for page in (SPEC / "schemes").glob("*.md")}
        in_files = [*names, "sum"]  # no dump is compressed by that
        self.assertEqual({name: len(lines) for name, lines in said.items()}, {name: name in in_files for name in said})
        self.assertEqual({name for name in in_files if said[name] == ["no"]}, set(NO_DRAWS))
        commands = {example.page: example.commands[0] for example in examples.read_examples().values()}
        for name in names:
            with self.subTest(scheme=name):
                command = commands["schemes/%s.md" % name]
                text = command[command.index("--scheme") + 1].partition("/")[0]
                if name in ("shrink", "diana"):
                    continue  # they have to stand over an unbiased scheme, and all of these draw
                if name in ("rotate", "ef", "ec", "momentum"):
                    text += "/uniform:bits=4"  # they have to have one, and this one does not draw
                self.assertEqual(self.has_seed(text), said[name] == ["yes"])
        for text, draws in (("topk:k=2/uniform:bits=4", False), ("topk:k=2/dither:step=1", True),
                            ("topk:k=2/threshold:t=1/qsgd:s=4", True)):
            self.assertEqual(self.has_seed(text), draws, text)

    def has_seed(self, scheme):
        with tempfile.TemporaryDirectory() as folder:
            dump, out = pathlib.Path(folder) / "x.npy", pathlib.Path(folder) / "x.gradz"
            np.save(dump, np.float32([1, 2, -3]))
            self.run_program("compress", dump, "-o", out, "-q", "--scheme", scheme)
            return "seed" in json.loads(self.run_program("info", "--json", out))

    @staticmethod
    def run_program(*arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout

    def test_coders_of_the_program(self):
        """Each has a page, which says the id that stands in a file."""
        with tempfile.TemporaryDirectory() as folder:
            dump, out = pathlib.Path(folder) / "x.npy", pathlib.Path(folder) / "x.gradz"
            np.save(dump, np.float32([1]))
            command = [PROGRAM, "compress", dump, "-o", out, "-f", "-q", "--scheme", "dqsg:levels=3", "--coder"]
            refusal = subprocess.run([*command, "none"], capture_output=True, text=True, check=False).stderr
            names = re.search(r"there are ([\w, -]+)", refusal).group(1).split(", ")
            pages = {page.stem for page in (SPEC / "coders").glob("*.md")} - {"TEMPLATE"}
            self.assertEqual(set(names), pages)
            for name in names:
                subprocess.run([*command, name], check=True)
                reader = Reader(out.read_bytes())
                container.take_prologue(reader)
                (_, its_id), = Schema(container.take_block(reader, 0)[1]).schemes
                page = (SPEC / "coders" / (name + ".md")).read_text()
                self.assertTrue(page.startswith("# Coder `%s` (id %d)" % (name, its_id)), name)

    def test_links(self):
        for page in SPEC.rglob("*.md"):
            text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)]+)\)", text):
                if not target.startswith("http"):
                    self.assertTrue((page.parent / target.partition("#")[0]).exists(), "%s: %s" % (page, target))

    def test_every_page_is_linked(self):
        """From README.md, by itself or with its whole folder."""
        linked = {(SPEC / target.partition("#")[0]).resolve()
                  for target in re.findall(r"\]\(([^)]+)\)", (SPEC / "README.md").read_text())}
        for page in SPEC.rglob("*.md"):
            if page != SPEC / "README.md":
                self.assertTrue({page, page.parent} & linked, "README.md does not link to %s" % page.relative_to(SPEC))

    def test_lines_are_not_long(self):
        for page in SPEC.rglob("*.md"):
            for number, line in without_fences(page.read_text()):
                if not line.startswith("|") and not is_code(line):
                    self.assertLessEqual(len(line), COLUMNS, "%s, line %d" % (page.relative_to(SPEC), number))

    def test_tables_are_whole(self):
        """A line that begins with | is a row, and all rows of a table have as many cells: no bare | in prose."""
        for page in SPEC.rglob("*.md"):
            rows = 0
            for number, line in without_fences(page.read_text()):
                if not line.startswith("|"):
                    rows = 0
                    continue
                where = "%s, line %d" % (page.relative_to(SPEC), number)
                bars = len(re.findall(r"(?<!\\)\|", line))
                if rows == 1:
                    self.assertRegex(line, r"^[|:\- ]+$", where)
                if rows > 0:
                    self.assertEqual(bars, width, where)
                self.assertTrue(line.endswith("|"), where)
                rows, width = rows + 1, bars


class Numbers(unittest.TestCase):
    def test_dtypes(self):
        rows = [row for row in tables((SPEC / "numbers.md").read_text()) if re.fullmatch(r"\d+", row[0])]
        self.assertEqual({row[1] if row[1] != "bool" else "boolean": int(row[0]) for row in rows[1:]},
                         {key: value for key, value in enum("codec/tensor.h", "Code").items() if value > 0})
        plain = re.findall(r'\{"(\w+)", (\d+), (\d+)\}', code("codec/tensor.cc"))
        self.assertEqual([tuple(row[1:4]) for row in rows[1:]], plain)

    def test_tags(self):
        rows = tables(section(CONTAINER, "Blocks"))
        tags = {row[1].lower(): int(row[0], 16) for row in rows if re.fullmatch(r"[0-9A-F]{2}", row[0])}
        self.assertEqual(tags, enum("format/layout.h", "Tag"))
        self.assertIn("tag >= 0x80", code("format/layout.h"))

    def test_kinds_forms_origins(self):
        whole = {row[1]: row[2] for row in tables(CONTAINER) if len(row) == 3}
        self.assertEqual(whole["origin"].split(": ")[1], "1 .npy, 2 .npz, 3 HDF5")
        self.assertEqual(enum("format/dumps/source.h", "DumpKind"), {"npy": 1, "npz": 2, "hdf5": 3})
        kinds = next(row[3] for row in tables(CONTAINER) if row[2] == "kind")
        self.assertEqual(kinds, "1 message, 2 schema file, 3 state, 4 index set, 5 sum")
        self.assertEqual(enum("format/layout.h", "FileKind"),
                         {"message": 1, "schema": 2, "state": 3, "indices": 4, "sum": 5})
        forms = [row[0].split() for row in tables(section(CONTAINER, "Forms"))[1:]]
        self.assertEqual({form[1]: int(form[0]) for form in forms if len(form) == 2}, enum("format/layout.h", "Form"))

    def test_flags(self):
        flags = {row[1]: row[2] for row in tables(section(CONTAINER, "MESSAGE")) if len(row) == 3}["flags"]
        for flag, name in re.findall(r"(\d+) (\w+)", flags.partition(";")[0]):
            name = {"digests": "digest"}.get(name, name)
            self.assertEqual(constant("format/layout.cc", "k%sFlag" % name.capitalize()), int(flag))
        flags = {row[1]: row[2] for row in tables(section(CONTAINER, "Schema files")) if len(row) == 3}["flags"]
        for flag, name in re.findall(r"(\d) (\w+)", flags.partition("(")[0]):
            self.assertEqual(constant("format/bare.cc", "k%sFlag" % name.capitalize()), int(flag))

    def test_limits(self):
        layout = "format/layout.h"
        self.assertEqual(constant(layout, "kMaxBody"), 2**28 - 1)
        self.assertEqual([constant(layout, "k%sChunkLog2" % which) for which in ("Min", "Max")], [12, 22])
        self.assertEqual(constant(layout, "kMaxSchemeText"), 1024)
        self.assertEqual([constant(layout, "kMax" + which) for which in ("Tree", "Metadata")], [2**26, 2**24])
        self.assertEqual(constant("codec/tensor.h", "kMaxRank"), 32)
        self.assertEqual(constant("codec/tensor.h", "kMaxNameSize"), 65535)
        self.assertEqual(constant("format/bare.h", "kMaxShortBare"), 2**22)
        self.assertEqual(constant("codec/schemes/grid_quantizer.h", "kMaxLevel"), 32767)
        self.assertEqual(constant("codec/schemes/grid_quantizer.h", "kMaxBucket"), 2**22)
        self.assertEqual(constant("codec/random.cc", "kMessageScope"), 0x6D736731)
        limits = {row[0]: row[1] for row in tables((SPEC / "limits.md").read_text())}
        self.assertEqual(limits["body of a block, payload of a frame"], "2^28 - 1 bytes")
        self.assertEqual(limits["chunk size"], "2^12 to 2^22 elements")
        self.assertEqual((limits["content of TREE"], limits["content of METADATA"]), ("64 MiB", "16 MiB"))
        self.assertEqual((limits["rank"], limits["name of a tensor"]), ("32", "65,535 bytes"))
        self.assertEqual((limits["scheme text"], limits["scheme texts of a file"]), ("1,024 bytes", "4,096"))
        self.assertEqual(limits["short bare message"], "2^22 elements and 2^27 bytes of elements")
        self.assertEqual(constant("format/bare.h", "kMaxShortBareBytes"), 2**27)
        # The reference decoder has the same.
        self.assertEqual(container.MOST_CONTENT, {container.TREE: 2**26, container.METADATA: 2**24})
        self.assertEqual(container.MOST_BODY, constant(layout, "kMaxBody"))

    def test_purposes(self):
        self.assertEqual(enum("codec/random.h", "Purpose"),
                         {"rounding": 1, "narrowing": 2, "subset": 3, "rotation": 4, "cell": 5, "hash": 6, "fill": 7,
                          "start": 8})
        self.assertIn("1 for rounding, 2 for narrowing, 3 for subsets, 4 for rotations, 5 for the cells of lattices, 6 for "
                      "the hashes of sketches, 7 for what fills up a choice ([rounds.md](rounds.md)), 8 for the start of a power",
                      " ".join((SPEC / "random.md").read_text().split()))
        self.assertIn("purpose 1 (rounding)", (SPEC / "schemes/grid_quantizer.md").read_text())
        self.assertIn("stage 255, purpose 2", (SPEC / "numbers.md").read_text())


if __name__ == "__main__":
    unittest.main()
