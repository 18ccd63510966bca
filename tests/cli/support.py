# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: running the program under limits, temporary folders, the real gradient.

The program is the one that the environment variable GRADCODEC names. GRADCODEC_SANITIZED says that it was built with
sanitizers, which need address space without limit. GRADCODEC_SLOW lets the slow tests run.
"""
import collections
import json
import os
import resource
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np

PROGRAM = os.environ["GRADCODEC"]
SANITIZED = bool(os.environ.get("GRADCODEC_SANITIZED"))
DATA = Path(__file__).resolve().parents[1] / "data"
MIB = 1 << 20

OK, CHECK_FAILED, USAGE, BAD_INPUT, IO_FAILURE, LIMIT, UNSUPPORTED = range(7)

slow = unittest.skipUnless(os.environ.get("GRADCODEC_SLOW"), "slow: GRADCODEC_SLOW=1 runs it")

Result = collections.namedtuple("Result", "code out err")


def limiter(memory, cpu):
    """What runs in the child before the program: limits of address space (bytes) and of CPU time (seconds)."""

    def limit():
        if memory and not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if cpu:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))

    return limit if memory or cpu else None


def run(*args, stdin=b"", timeout=60, memory=None, cpu=None, env=None, cwd=None):
    """Runs the program; `stdin` is bytes, through a pipe, or an open file. The code is 128 + n if signal n ended it."""
    source = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=timeout, cwd=cwd,
                          preexec_fn=limiter(memory, cpu), env={**os.environ, **env} if env else None, **source)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Result(code, done.stdout, done.stderr.decode(errors="replace"))


def start_up_memory():
    """Address space that the program needs to say that there is no such file."""
    if SANITIZED:
        return 0
    low, high = MIB, 4096 * MIB
    while high - low > MIB:
        middle = (low + high) // 2
        result = run("info", "-T1", "/nonexistent", memory=middle)
        if result.code == IO_FAILURE and "nonexistent" in result.err:
            high = middle
        else:
            low = middle
    return high


def in_parallel(function, items):
    """function(item) of each, two at a time: most of the time is the program's."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


def real_gradient():
    """The tensors of the 784-300-100-10 network, by name."""
    with h5py.File(DATA / "fc.h5") as file:
        return {name: file[name][()] for name in file}


class CliTest(unittest.TestCase):
    """A test with a folder of its own, self.dir, gone afterwards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gradcodec-test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def ok(self, *args, **options):
        result = run(*args, **options)
        self.assertEqual(result.code, OK, f"gradcodec {' '.join(map(str, args))}\n{result.err}")
        return result

    def refused(self, code, *args, says="", **options):
        """The program ends with this code (or one of these) and a message of one line that holds `says`."""
        codes = code if isinstance(code, tuple) else (code,)
        result = run(*args, **options)
        call = f"gradcodec {' '.join(map(str, args))}\n{result.err}"
        self.assertIn(result.code, codes, call)
        self.assertTrue(result.err.startswith("gradcodec: "), call)
        self.assertIn(says, result.err, call)
        return result

    def npy(self, array, name="x.npy"):
        path = self.dir / name
        np.save(path, array, allow_pickle=False)
        return path

    def npz(self, arrays, name="x.npz"):
        path = self.dir / name
        np.savez(path, **arrays)
        return path

    def write(self, data, name="x.gradz"):
        path = self.dir / name
        path.write_bytes(data)
        return path

    def compress(self, source, *options, to=None):
        """`source` as .gradz, its path."""
        target = to or self.dir / (source.name + ".gradz")
        self.ok("compress", source, "-q", "-f", "-o", target, *options)
        return target

    def decompress(self, source, *options, suffix=".npy"):
        """The arrays of `source`: one for .npy, a dict for .npz."""
        target = self.dir / ("decoded" + suffix)
        self.ok("decompress", source, "-q", "-f", "-o", target, *options)
        loaded = np.load(target)
        return loaded if suffix == ".npy" else {name: loaded[name] for name in loaded.files}

    def there_and_back(self, array, *options, back=()):
        return self.decompress(self.compress(self.npy(array), *options), *back)

    def info(self, source, *options):
        return json.loads(self.ok("info", source, "--json", *options).out)

    def assert_same_bits(self, got, expected, message=None):
        got, expected = np.asarray(got), np.asarray(expected)
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape), message)
        bits = f"u{expected.dtype.itemsize}"
        differ = np.flatnonzero(got.reshape(-1).view(bits) != expected.reshape(-1).view(bits))
        if differ.size:
            i = differ[0]
            self.fail(f"{message}: {differ.size} of {expected.size} differ, first element {i}: "
                      f"{got.reshape(-1)[i]!r} for {expected.reshape(-1)[i]!r}")

    def assert_no_leftovers(self, folder=None):
        self.assertEqual([p.name for p in (folder or self.dir).iterdir() if p.name.startswith(".")], [])


def main():
    unittest.main(verbosity=1)
