#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of tools/check_layers.py fires on the code it is for, and on nothing else."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"

# (file, one line of it, a part of the message expected)
BAD = [
    ("codec/a.h", '#include "format/layout.h"', "one way"),
    ("codec/a.cc", '  # include "cli/command.h"', "one way"),
    ("format/a.cc", '#include "cli/command.h"', "one way"),
    ("cli/a.cc", '#include "tests/a.h"', "nothing uses the tests"),
    ("format/a.cc", '#include "tools/a.h"', "nothing uses the tools"),
    ("codec/kernels/scalar.cc", '#include "codec/error.h"', "kernels know nothing"),
    ("codec/coders/pack.cc", '#include "codec/schemes/raw.h"', "only codec/registry.cc"),
    ("format/pipeline.cc", '#include "codec/schemes/raw.h"', "only codec/registry.cc"),
    ("codec/registry.h", '#include "codec/coders/pack.h"', "only codec/registry.cc"),
    ("codec/schemes/raw.cc", '#include "codec/coders/pack.h"', "only codec/registry.cc"),
    ("format/layout.h", '#include "codec/scheme.h"', "text and bytes"),
    ("format/writer.cc", '#include "codec/scheme.h"', "text and bytes"),
    ("format/reader.cc", '#include "codec/scheme.h"', "text and bytes"),
    ("codec/coders/pack.cc", "#include <zstd.h>", "codec/coders/zstd.cc"),
    ("format/reader.cc", "#include <xxhash.h>", "codec/checksum"),
    ("format/dumps/open.cc", "#include <hdf5.h>", "format/hdf5/"),
    ("format/dumps/hdf5_source.cc", '#include "format/hdf5/reader.h"', "another program"),
    ("format/hdf5/main.cc", "#include <seccomp.h>", "confine.cc"),
    ("format/dumps/npy.cc", "#include <archive_entry.h>", "format/dumps/npz"),
    ("codec/kernels/scalar.cc", '#include "hwy/highway.h"', "codec/kernels/simd*"),
    ("format/layout.cc", "#include <nlohmann/json.hpp>", "format/cbor."),
    ("format/files.cc", "#include <CLI/CLI.hpp>", "cli/*"),
    ("codec/random.cc", "#include <Random123/philox.h>", "tests/ and tools/"),
    ("cli/main.cc", "#include <catch2/catch.hpp>", "tests/ and tools/"),
    ("cli/main.cc", "#include <benchmark/benchmark.h>", "tests/ and tools/"),
    ("codec/random.cc", "#include <random>", "allowed only in"),
    ("cli/main.cc", "#include <boost/any.hpp>", "unknown library"),
    ("codec/a.cc", '#include "error.h"', "start at the root"),
    ("codec/a.cc", "double y = std::exp(x);", "libm"),
    ("codec/a.cc", "double y = powf (x, 2);", "libm"),
    ("codec/a.cc", "double y = ::log2(x);", "libm"),
    ("codec/a.cc", "double y = 2*lgammal(x);", "libm"),
    ("codec/a.cc", "double y = __builtin_cbrt(x);", "libm"),
    ("codec/a.cc", "transform(a, b, a, std::tanh);", "libm"),
    ("codec/a.cc", "return std::hypot(x, y);", "libm"),
    ("codec/a.cc", 'setlocale(LC_ALL, "");', "locale"),
    ("codec/checks/a.cc", 'setlocale(LC_ALL, "");', "locale"),
    ("codec/a.cc", 'snprintf(s, n, "%d %.17g", i, x);', "locale"),
    ("codec/a.cc", "x = std::stof(text);", "from_chars"),
    ("codec/a.cc", "x = atof(text);", "from_chars"),
    ("format/a.cc", "x = strtod(text, nullptr);", "from_chars"),
    ("spec/reference/a.py", "import scipy", "imports scipy"),
    ("spec/reference/coders/a.py", "from h5py import File", "imports h5py"),
    ("cli/a.cc", "n = std::strtoull(text, nullptr, 10);", "from_chars"),
]

GOOD = {
    "codec/checks/a.cc": "double y = std::exp(x) + std::log2(x);\n",
    "codec/registry.cc": '#include "codec/schemes/raw.h"\n#include "codec/coders/pack.h"\n',
    "codec/schemes/top.cc": '#include "codec/schemes/raw.h"\n#include <cmath>\n#include <string_view>\n',
    "codec/coders/zstd.cc": '#include <zstd.h>\n#include "codec/coder.h"\n',
    "codec/kernels/simd.cc": '#include "hwy/highway.h"\n#include "codec/kernels/kernels.h"\n',
    "codec/a.cc": "// std::exp(x), strtod(\n/* pow(x,\n2) */ x = std::sqrt(floor(y)) + model.log(x) + p->exp(x);\n"
                  'auto s = "a \\" exp(x)"; auto r = R"(log(x) " pow(x))"; n = 1\'000\'000; explode(x); ours::log2(x);\n'
                  'snprintf(s, n, "%zu%%", i); f(strtok);\n',
    "codec/checksum.cc": "#include <xxhash.h>\n",
    "spec/reference/a.py": "import os\nimport numpy as np\nfrom reference.random import words\n",
    "format/dumps/npz.cc": "#include <archive.h>\n#include <sys/types.h>\n#include <unistd.h>\ndouble y = std::log10(x);\n",
    "format/hdf5/io.h": "#include <hdf5.h>\n#include \"format/hdf5/library.h\"\n",
    "cli/main.cc": '#include "codec/scheme.h"\n#include <CLI/CLI.hpp>\n#include "format/pipeline.h"\n',
}


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class CheckLayersTest(unittest.TestCase):
    def test_every_rule_fires(self):
        # One tree for all, so that the test is quick; each fault has a line of its own.
        tree = {}
        for i, (name, line, _) in enumerate(BAD):
            tree.setdefault(name, []).append((line, i))
        code, out = check({name: "".join(line + "\n" for line, _ in lines) for name, lines in tree.items()})
        self.assertEqual(code, 1)
        for name, lines in tree.items():
            for at, (line, i) in enumerate(lines, 1):
                found = [o for o in out.splitlines() if o.startswith(f"{name}:{at}: ")]
                self.assertEqual(len(found), 1, f"{name}: {line!r} gave {found}")
                self.assertIn(BAD[i][2], found[0])
        self.assertIn(f"{len(BAD)} faults", out)

    def test_sound_code_passes(self):
        code, out = check(GOOD)
        self.assertEqual((code, out), (0, f"check_layers: {len(GOOD)} files, 0 faults\n"))

    def test_an_empty_tree_is_not_a_pass(self):
        code, out = check({"README.md": ""})
        self.assertEqual(code, 1, out)


if __name__ == "__main__":
    unittest.main()
