"""Are the vectors sharp? Faults are put into copies of the reference decoder, one into each, and a vector must show it.

    python3 tests/spec/seeded_faults_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parents[1] / "spec/reference"
MEMORY, SECONDS = 2 << 30, 20  # a faulty decoder may know no end

# (what is wrong, file, text that is there once, text in its place, vectors that are tried first)
FAULTS = [
    ("the dither has the other sign", "schemes/grid.py", "(q.astype(F4) - u) * steps", "(q.astype(F4) + u) * steps",
     "every-dqsg-pack"),
    ("the dither is not in the middle of its cell", "random.py", "((words >> 9).astype(F4) + F4(0.5))",
     "(words >> 9).astype(F4)", "every-dqsg-pack"),
    ("the counter is off by one", "random.py", "(places & 3)", "(places + np.uint64(1) & 3)", "every-dqsg-pack"),
    ("nine rounds of Philox", "random.py", "range(10)", "range(9)", "every-dqsg-pack"),
    ("draws begin anew in each chunk", "schemes/grid.py",
     "u = draws.u_of(self.place.words(draws.ROUNDING, code.places()))",
     "u = draws.u_of(self.place.words(draws.ROUNDING, np.arange(code.count)))", "chunks-dqsg"),
    ("the last bucket of a chunk has no step", "schemes/parts.py", "return -(-count // bucket)",
     "return count // bucket", "every-dqsg-bucket-pack"),
    ("buckets go on over the end of a chunk", "schemes/parts.py", "values[np.arange(code.count) // bucket]",
     "values[(code.places() // bucket - code.first // bucket) % len(values)]", "rows-over-chunks-buckets"),
    ("big-endian numbers", "reading.py", 'int.from_bytes(self.take(size), "little")',
     'int.from_bytes(self.take(size), "big")', "made-plain"),
    ("steps' bytes in another order", "schemes/parts.py", 'np.frombuffer(reader.take(4 * count), "<f4")',
     'np.frombuffer(reader.take(4 * count), ">f4")', "every-alq-pack"),
    ("words of the step are swapped in the message's key", "random.py", "self.message = derived(self.run, (low, high,",
     "self.message = derived(self.run, (high, low,", "step"),
    ("a worker 0 and a step 0 count as none", "random.py", "if worker is not None or step is not None:",
     "if worker or step:", "worker-and-step"),
    ("what is shared is drawn by the message's key", "schemes/parts.py",
     "return self.keys.step if shared else self.keys.message", "return self.keys.message", "rotated-shared"),
    ("a scheme below draws by the same stage", "schemes/parts.py", "self.stage + 1,", "self.stage,",
     "every-rotate-dqsg-pack"),
    ("an exception counts twice in the next one's gap", "tensors.py", "        at += 1\n", "        at += 2\n",
     "made-exceptions"),
    ("exceptions below take places of the whole", "schemes/sparsifier.py",
     "        values.view(np.uint32)[places] = code.exceptions.bits\n",
     "        for put in [code.exceptions] + ([code.below.exceptions] if code.below else []):\n"
     "            values.view(np.uint32)[put.places] = put.bits\n", "made-below-exception"),
    ("an exception may stand without need", "schemes/parts.py",
     'require(not np.any(magnitudes <= limit), "an exception without need")', "pass", "refused-exception-needless"),
    ("-0 is a step", "schemes/parts.py", "(bits == 0) |", "(bits << 1 == 0) |", "refused-step-minus-zero"),
    ("narrowing rounds up half as often", "numbers.py", "rest << 32 >> dropped", "rest << 31 >> dropped",
     "dqsg-3-as-f2"),
    ("narrowing draws begin anew in each chunk", "numbers.py",
     "np.arange(first, first + len(values), dtype=np.uint64)",
     "np.arange(first, first + len(values), dtype=np.uint64) % 4096", "chunks-dqsg"),
    ("narrowing draws by stage 0", "random.py", "NARROWING_STAGE = 255", "NARROWING_STAGE = 0", "dqsg-3-as-f2"),
    ("narrowing makes one NaN of all", "numbers.py", "np.where(is_nan & (payload == 0), np.uint64(top), payload)",
     "np.where(is_nan, np.uint64(top), payload)", "exceptions-dqsg"),
    ("digits of a group in another order", "coders/pack.py", "out[:, i] = numbers", "out[:, digits - 1 - i] = numbers",
     "every-dqsg-pack"),
    ("the sign of elias is the other one", "coders/elias.py", "if bits.take(1):\n            return middle",
     "if not bits.take(1):\n            return middle", "every-dqsg-elias"),
    ("32 lanes are 16", "coders/rans.py", "{1: 1, 2: 8, 3: 32}", "{1: 1, 2: 8, 3: 16}", "lanes-rans"),
    ("contexts without a mirror", "coders/rans.py", "np.where(mirrored, alphabet - 1 - symbols, symbols)", "symbols",
     "rans-dither-chunks"),
    ("another class of contexts", "schemes/parts.py", "- 4 + 28)", "- 4 + 27)", "rans-dither-dqsg"),
    ("an exponent too many", "schemes/grid.py", "+ self.lowest - 149)", "+ self.lowest - 148)", "every-natural-pack"),
    ("the padding of a lattice's last vector is drawn as elements are", "schemes/lattice.py",
     "behind % self.size, 1)", "behind % self.size, 0)", "every-lattice-*-pack"),
    ("the chamber of a lattice without its last sign", "schemes/lattice.py",
     "signs[:, -1] *= np.where(np.sum(z < 0, axis=1) % 2 == 1, -1, 1)", "pass", "every-lattice-e8-pack"),
    ("signs of a rotation from the highest bit", "schemes/rotation.py", "(places & 31)", "(31 - (places & 31))",
     "every-drive-pack"),
    ("a rotation without its limit", "schemes/rotation.py",
     "np.clip(self.inner.values(code.below), F4(-MOST), F4(MOST))", "self.inner.values(code.below)",
     "made-rotated-large"),
    ("a rotation by another factor where blocks are odd powers", "schemes/rotation.py", "ROOT_HALF if m % 2 else",
     "ROOT_HALF if m % 2 == 0 else", "every-drive-pack"),
    ("the word that is the last is left out", "schemes/sparsifier.py", "equal[:kept - len(lower)]", "equal[:0]",
     "every-randk-pack"),
    ("gaps of places without their low bits' order", "indices.py", "bit << i for i, bit",
     "bit << size - 1 - i for i, bit", "every-topk-pack"),
    ("pieces of rows begin with the chunk", "schemes/levels.py",
     "code.places() // self.row - code.first // self.row if", "np.arange(code.count) // self.row if",
     "rows-over-chunks-sign"),
    ("a mean in float32", "schemes/sum.py", "scaled = totals * factor", "scaled = totals.astype(F4) * F4(factor)",
     "sum-grid-weighted-mean-pack"),
    ("side information rounds toward 0", "schemes/nested.py", "np.floor(z)", "np.trunc(z)", "nested-dump"),
    ("side information that is not regular is used", "schemes/nested.py", "y[~(np.abs(y) <= REGULAR)] = 0",
     "y[~np.isfinite(y)] = 0", "nested-not-finite"),
    ("buckets of hashes with the sign's bit", "schemes/countsketch.py", "(2 * words & draws.LOW)", "words",
     "sketch-table"),
    ("what was remembered is not added", "schemes/memory.py", "(h + m).astype(F4)", "m", "remembers-dqsg-2"),
    ("of equally heavy elements the last are taken", "rounds.py",
     'np.argsort(-magnitudes.astype(np.int64), kind="stable")[:count]',
     'np.argsort(magnitudes.astype(np.int64), kind="stable")[::-1][:count]', "top-ties"),
    ("the check of a frame is not made", "container.py",
     'require(self.reader.uint(8) == check, "the check of frame %d" % len(self.lengths))', "self.reader.uint(8)",
     "refused-check-frame"),
    ("checks of frames without their number", "container.py",
     'require(self.reader.uint(8) == check, "the check of frame %d" % len(self.lengths))',
     "covered, stored = self.reader.data[start:self.reader.at], self.reader.uint(8)\n"
     '        require(stored in [xxh3(covered, self.base + k) for k in range(8)], "a check")',
     "refused-frames-swapped"),
    ("digests are not compared", "container.py",
     "self.compare_digests([end.uint(4) for _ in self.header.schema.tensors])",
     "[end.uint(4) for _ in self.header.schema.tensors]", "refused-digest"),
    ("what follows the tail is not seen", "container.py", "    if reader.left():\n", "    if False:\n", "refused-junk"),
    ("a bare message of any schema is taken", "bare.py", "require(reader.uint(8) == schema_check,",
     "require(reader.uint(8) is not None,", "refused-bare-*"),
    ("varints need not be shortest", "reading.py", 'require(byte > 0 or i == 0, "a varint that is not the shortest")',
     "pass", "refused-dither-m-not-shortest"),
    ("escapes of model may be left over", "coders/model.py", "require(not escapes,", "require(True,", "*model-escape*"),
    ("an escape of model has raw bits", "coders/model.py",
     "                q.append(escapes.pop())\n                continue",
     "                lanes.raw(i - first, raw_count(scales[i]))\n                q.append(escapes.pop())\n"
     "                continue", "model-heavy"),
    ("steps by class may have buckets", "schemes/texts.py", 'values["steps"] == "one" or', "True or", "*text-bucket-*"),
    ("a default may be spelled out", "schemes/texts.py",
     """require(values[key] != default, "'%s': a default that is spelled out" % part)""", "pass",
     "refused-text-default"),
    ("a mirrored symbol is none, to `model`", "coders/model.py", "np.where(contexts & 1, -np.array(q), q)",
     "np.array(q)", "model-*"),
    ("scales are moved the other way", "coders/model.py", "scales + offset", "scales - offset", "model-*"),
    ("escapes are taken from the end", "coders/model.py", "for z in reversed(escapes)]", "for z in escapes]", "model-*"),
    ("a row's class counts twice", "schemes/line_scales.py", "8 * (row + col)", "8 * (2 * row + col)", "model-*"),
    ("steps by class are whole octaves apart", "schemes/line_scales.py", "d0 * ROOTS[d % 16]", "d0 * ROOTS[0]",
     "*class*"),
    ("both parts of a sum draw by one stage", "schemes/parts.py", "self.stage + 16 * number", "self.stage",
     "*lowrank*"),
    ("a sum is its first part", "schemes/plus.py", " + self.rest.values(code.rest)", "", "*lowrank*"),
    ("a zero byte may stand in a name", "schema.py", 'name and b"\\0" not in name', "name", "refused-name-zero-byte"),
]

# In a process of its own: the names of vectors as they are tried, a line each, then what was found.
SCRIPT = """
import fnmatch, sys
sys.path[:0] = sys.argv[1:3]
import vectors
all_vectors = vectors.all_vectors()
is_likely = lambda name: fnmatch.fnmatch(name[5:], sys.argv[3])
for name in sorted(all_vectors, key=lambda name: not is_likely(name)):
    print(name, flush=True)
    mistake = vectors.mistake(all_vectors[name])
    if mistake is not None:
        sys.exit(print("wrong:", mistake))
print("right")
"""


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def with_fault(text, old, new):
    if text.count(old) != 1:
        raise AssertionError("there %d times, not once: %s" % (text.count(old), old))
    return text.replace(old, new)


class SeededFaults(unittest.TestCase):
    def found(self, likely, file=None, old=None, new=None):
        """What the first vector shows of a copy of the decoder that shows anything, the likely ones tried first;
        "right" if there is none."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "reference"
            shutil.copytree(REFERENCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
            (copy.parent / "coders").mkdir()
            shutil.copy(REFERENCE.parent / "coders/model-laws.txt", copy.parent / "coders")
            if file:
                (copy / file).write_text(with_fault((copy / file).read_text(), old, new))
            done = subprocess.run([sys.executable, "-c", SCRIPT, folder, HERE, likely], capture_output=True, text=True,
                                  check=False, preexec_fn=limit,
                                  env={"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        last = (done.stdout.splitlines() or [""])[-1]
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and last:
            return "wrong: no end of " + last
        self.assertTrue(last == "right" or last.startswith("wrong: "), done.stderr)
        return last

    def test_the_decoder_itself_is_right(self):
        self.assertEqual(self.found("*"), "right")

    def test_a_vector_shows_each_fault(self):
        self.assertGreaterEqual(len(FAULTS), 20)
        for what, file, old, new, likely in FAULTS:
            with self.subTest(what):
                found = self.found(likely, file, old, new)
                self.assertNotEqual(found, "right", "no vector shows it")
                self.assertNotIn("NameError", found, "a fault that is no Python")

    def test_a_text_that_is_not_there_once_is_an_error(self):
        for text in ("no such text", "require("):
            with self.assertRaises(AssertionError):
                self.found("*", "tensors.py", text, "")


if __name__ == "__main__":
    unittest.main()
