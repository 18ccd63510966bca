#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes what, and that nothing a byte depends on comes from libm, <random> or the locale; and that the
reference decoder needs no more than it says.

    tools/check_layers.py [ROOT]

Reads every C++ file of codec/, format/ and cli/, and spec/reference/; prints FILE:LINE: what is wrong; exit code 1 if anything is."""
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

LAYERS = ("codec", "format", "cli")
OURS = LAYERS + ("tests", "tools")

# (files, what they must not include, why). "a !b !c" means a, but neither b nor c; `*` crosses slashes.
NEVER = [
    ("codec/*", "format/*", "arrows point one way: cli -> format -> codec"),
    ("codec/*", "cli/*", "arrows point one way: cli -> format -> codec"),
    ("format/*", "cli/*", "arrows point one way: cli -> format -> codec"),
    ("*", "tests/*", "nothing uses the tests"),
    ("*", "tools/*", "nothing uses the tools"),
    ("codec/schemes/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("codec/coders/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("codec/rans/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("codec/model/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("* !codec/rans/* !codec/coders/rans.cc !codec/coders/model.cc !codec/model/*", "codec/rans/*",
     "the parts of the coders by rANS"),
    ("* !codec/model/* !codec/coders/model.cc !codec/schemes/*", "codec/model/*",
     "scales of values: of one coder and of steps that follow them"),
    ("codec/kernels/*", "* !codec/kernels/* !codec/float16.h !codec/little_endian.h",
     "kernels know nothing of ours but kernels"),
    ("* !codec/schemes/* !codec/registry.cc", "codec/schemes/*", "only codec/registry.cc knows the schemes"),
    ("* !codec/coders/* !codec/registry.cc !codec/schemes/choose.cc !codec/schemes/lowrank.cc "
     "!codec/model/line_scales.cc", "codec/coders/*",
     "only codec/registry.cc knows the coders, and choose, which weighs by one, and classes of lines and factors, stored by them"),
    ("codec/levels/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("codec/lattice/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("* !codec/lattice/* !codec/schemes/lattice.cc", "codec/lattice/*", "the parts of one scheme"),
    ("codec/lowrank/*", "codec/checks/*", "what decides bytes uses no statistics of libm"),
    ("* !codec/lowrank/* !codec/schemes/lowrank.cc", "codec/lowrank/*", "the parts of one scheme"),
    ("* !codec/levels/* !codec/schemes/*", "codec/levels/*", "the levels of schemes"),
    ("* !format/hdf5/*", "format/hdf5/*", "the parts of another program, which alone has the HDF5 library"),
    ("format/layout.*", "codec/scheme.h", "to the container a scheme is text and bytes"),
    ("format/writer.*", "codec/scheme.h", "to the container a scheme is text and bytes"),
    ("format/reader.*", "codec/scheme.h", "to the container a scheme is text and bytes"),
]

# A library's header shows up in few files. One that is not listed here (and is not C++'s, C's or POSIX's) is an error.
LIBRARIES = {
    "zstd*.h": ["codec/coders/zstd.cc"],
    "sodium*.h": ["codec/secret.cc"],
    "xxh*.h": ["codec/checksum.*"],
    "hdf5*.h": ["format/hdf5/*"],
    "H5*.h": ["format/hdf5/*"],
    "seccomp.h": ["format/hdf5/confine.cc"],
    "archive*.h": ["format/dumps/npz*.cc"],
    "hwy/*": ["codec/kernels/simd*"],
    "nlohmann/*": ["format/cbor.*", "format/metadata*", "cli/*"],
    "CLI/*": ["cli/*"],
    "Random123/*": [],
    "catch2/*": [],
    "benchmark/*": [],
    "Eigen/*": [],
    "random": ["format/*", "cli/*"],
}
REFERENCE_IMPORTS = ("reference", "numpy", "xxhash", "zstandard")
SYSTEM = re.compile(r"[a-z_]+|(fcntl|poll|pthread|signal|spawn|termios|unistd)\.h|(sys|linux)/\w+\.h")

LIBM = r"(?:exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sinh|cosh|tanh|asin|acos|atan|atan2|asinh|acosh|atanh" \
       r"|cbrt|hypot|erf|erfc|lgamma|tgamma)[fl]?"
PARSES = r"(?:strto(?:[dflu]\w*|imax)|stof|stod|stold|atof)"
# Not a member, not one of our own (`kernels::log2(x)`), but `std::log2(x)` and `::log2(x)` are meant.
CALL = r"(?:(?<![\w.:])(?<!->)|(?<=std::)|(?<=__builtin_)|(?<![\w:])::)%s\s*\("
# (files, pattern, why)
BANNED = [
    # (The statistics of codec/checks decide no byte.)
    ("codec/* !codec/checks/*", CALL % LIBM, "libm differs between machines"),
    ("codec/* !codec/checks/*", r"\bstd::%s\b(?!\s*\()" % LIBM, "libm differs between machines"),
    ("codec/* !codec/checks/*", r"#[ \t]*pragma[ \t]+omp", "sums have a written order where a byte may depend on them"),
    ("codec/*", r"\bsetlocale\b|\bstd::locale\b", "results never depend on the locale"),
    ("codec/*", r"\b\w*printf\s*\([^;]*?%[-+ #0-9.*']*[lL]?[aAeEfFgG]", "the locale decides how floats are printed"),
    ("*", r"(?<![\w.])%s\b" % PARSES, "the locale decides what this parses; use from_chars"),
]

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)


def matches(name, patterns):
    first, *excepted = patterns.split(" !")
    return fnmatchcase(name, first) and not any(fnmatchcase(name, e) for e in excepted)


def include_faults(file, header, quoted):
    if header.split("/")[0] in OURS:
        for files, target, why in NEVER:
            if matches(file, files) and matches(header, target):
                yield f"includes {header}: {why}"
        return
    for library, allowed in LIBRARIES.items():
        if fnmatchcase(header, library):
            if not any(fnmatchcase(file, a) for a in allowed):
                yield f"includes {header}: allowed only in {', '.join(allowed) or 'tests/ and tools/'}"
            return
    if quoted:
        yield f"includes \"{header}\": paths start at the root (codec/, format/, cli/)"
    elif not SYSTEM.fullmatch(header):
        yield f"includes {header}: an unknown library; tools/check_layers.py says where each may appear"


def faults(file, text):
    """Yields (line, what) for the C++ source `text` that lies at `file`."""
    def blank(keep_texts):
        return lambda m: m[0] if keep_texts and m[0][0] in '"R' else re.sub(r"[^\n]", " ", m[0])

    with_texts = COMMENT_OR_TEXT.sub(blank(True), text)
    code = COMMENT_OR_TEXT.sub(blank(False), text)
    found = []
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', with_texts, re.M):
        found += [(m.start(1), what) for what in include_faults(file, m[2], m[1] == '"')]
    for files, pattern, why in BANNED:
        if matches(file, files):
            for m in re.finditer(pattern, with_texts if "printf" in pattern else code):
                found.append((m.start(), f"{m[0].split('(')[0].strip()} is not allowed here: {why}"))
    for at, what in sorted(found):
        yield text.count("\n", 0, at) + 1, what


def reference_faults(text):
    """Yields (line, what) for a module of spec/reference/, which is of the pages alone."""
    for m in re.finditer(r"^[ \t]*(?:from|import)[ \t]+(\w+)", text, re.M):
        if m[1] not in REFERENCE_IMPORTS and m[1] not in sys.stdlib_module_names:
            yield text.count("\n", 0, m.start()) + 1, f"imports {m[1]}: the reference decoder has {REFERENCE_IMPORTS}"


def main(root):
    files = [p for layer in LAYERS for p in sorted((root / layer).rglob("*")) if p.suffix in (".h", ".cc", ".inc")]
    if not files:
        sys.exit(f"check_layers: no C++ files in {', '.join(LAYERS)} under {root}")
    files += sorted((root / "spec/reference").rglob("*.py"))
    count = 0
    for path in files:
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        for line, what in reference_faults(text) if path.suffix == ".py" else faults(name, text):
            print(f"{name}:{line}: {what}")
            count += 1
    print(f"check_layers: {len(files)} files, {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)))
