"""Are the vectors sharp? Faults are put into a decoder, one at a time, and at least one vector must show each.

    python3 tests/spec/seeded_faults_test.py
"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import functools
import io
import json
import pathlib
import signal
import sys
import types
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "spec/vectors"
MOST_SECONDS = 10  # for a vector
FILES = ["xxh3.py", "page_numbers.py", "page_lattice.py", "page_rotation.py", "page_sum.py", "page_schemes.py",
         "page_decoder.py"]  # each uses only those before it

# (what is wrong, file, text that is there once, text in its place, vectors of which one shows it)
FAULTS = [
    ("the dither has the other sign", "page_schemes.py", "(F4(q) - u) * step", "(F4(q) + u) * step", "every-dqsg-pack"),
    ("the dither is not in the middle of its cell", "page_schemes.py",
     "u = (F4(self.place.word(1, code.first + i) >> 9) + F4(0.5))", "u = F4(self.place.word(1, code.first + i) >> 9)",
     "every-dqsg-pack"),
    ("the counter is off by one", "page_numbers.py", "stage << 24 | purpose << 16 | sub))[i % 4]",
     "stage << 24 | purpose << 16 | sub))[(i + 1) % 4]", "every-dqsg-pack"),
    ("nine rounds of Philox", "page_numbers.py", "range(10)", "range(9)", "every-dqsg-pack"),
    ("draws begin anew in each chunk", "page_schemes.py", "u = (F4(self.place.word(1, code.first + i)",
     "u = (F4(self.place.word(1, i)", "chunks-dqsg"),
    ("the last bucket of a chunk has no step", "page_schemes.py",
     "return [take_step(reader) for _ in range(-(-code.count // self.bucket))]",
     "return [take_step(reader) for _ in range(code.count // self.bucket)]", "every-dqsg-bucket-pack"),
    ("buckets go on over the end of a chunk", "page_schemes.py", "step, q = steps[i // run], symbol - self.m",
     "step, q = steps[((code.first + i) // run - code.first // run) % len(steps)], symbol - self.m",
     "rows-over-chunks-buckets"),
    ("big-endian numbers", "page_numbers.py", 'int.from_bytes(self.take(size), "little")',
     'int.from_bytes(self.take(size), "big")', "made-plain"),
    ("steps' bytes in another order", "page_numbers.py", "return float_of(reader.uint(4))",
     'return float_of(int.from_bytes(reader.take(4), "big"))', "every-alq-pack"),
    ("words of the step's key are swapped", "page_numbers.py", "step & 0xFFFFFFFF, step >> 32, worker or 0, 0x6D736731",
     "step >> 32, step & 0xFFFFFFFF, worker or 0, 0x6D736731", "step"),
    ("a worker 0 and a step 0 count as none", "page_numbers.py", "if worker is None and step is None:",
     "if not worker and not step:", "worker-and-step"),
    ("what is shared is drawn by the message's key", "page_schemes.py", "self.step_key if shared else self.key",
     "self.key if shared else self.key", "rotated-shared"),
    ("a scheme below draws by the same stage", "page_schemes.py", "self.stage + 1)", "self.stage)",
     "every-rotate-dqsg-pack"),
    ("an exception counts twice in the next one's gap", "page_decoder.py", "        index += 1\n    return out",
     "        index += 2\n    return out", "made-exceptions"),
    ("exceptions below take places of the whole", "page_schemes.py",
     "values[code.params] = self.inner.values(code.below)",
     "values[code.params] = self.inner.values(code.below)\n            code.exceptions += code.below.exceptions",
     "made-below-exception"),
    ("an exception may stand without need", "page_schemes.py", "require(is_zero(index) and not magnitude",
     "require(is_zero(index) or not magnitude", "refused-exception-needless"),
    ("-0 is a step", "page_schemes.py", "require(bits == 0 or 0x00800000 <= bits <= 0x7E800000, \"step\")",
     "require(bits % 2**31 == 0 or 0x00800000 <= bits <= 0x7E800000, \"step\")", "refused-step-minus-zero"),
    ("narrowing rounds up half as often", "page_numbers.py", "rest * 2**32 >> dropped", "rest * 2**31 >> dropped",
     "every-dqsg-pack"),
    ("narrowing draws begin anew in each chunk", "page_decoder.py", "2, 255, first + i)", "2, 255, i)", "chunks-dqsg"),
    ("narrowing draws by stage 0", "page_decoder.py", "2, 255, first + i)", "2, 0, first + i)", "every-dqsg-pack"),
    ("narrowing makes one NaN of all", "page_numbers.py", "kept or (1 << width - 1 if fraction else 0)",
     "(1 << width - 1 if fraction else 0)", "exceptions-dqsg"),
    ("digits of a group in another order", "page_decoder.py", "out.append(value % alphabet)",
     "out.insert(len(out) - _, value % alphabet)", "every-dqsg-pack"),
    ("the sign of elias is the other one", "page_decoder.py", "negative = bits.take(1)", "negative = 1 - bits.take(1)",
     "every-dqsg-elias"),
    ("32 lanes are 16", "page_decoder.py", "{1: 1, 2: 8, 3: 32}", "{1: 1, 2: 8, 3: 16}", "lanes-rans"),
    ("contexts without a mirror", "page_decoder.py", "alphabet - 1 - symbol if mirrored", "symbol if mirrored",
     "rans-dither-chunks"),
    ("another class of contexts", "page_schemes.py", "- 4 + 28)", "- 4 + 27)", "rans-dither-dqsg"),
    ("an exponent too many", "page_schemes.py", "self.lowest + j - 1)", "self.lowest + j)", "every-natural-pack"),
    ("the padding of a lattice's last vector is drawn as elements are", "page_schemes.py", "place % self.size, sub=1)",
     "place % self.size, sub=0)", "every-lattice-*-pack"),
    ("the chamber of a lattice without its last sign", "page_lattice.py", "signs[-1] = -signs[-1]", "pass",
     "every-lattice-e8-pack"),
    ("signs of a rotation from the highest bit", "page_schemes.py", ">> place % 32 & 1", ">> 31 - place % 32 & 1",
     "every-drive-pack"),
    ("a rotation without its limit", "page_rotation.py", "np.clip(values, F4(-2.0**108), F4(2.0**108))",
     "values.copy()",
     "made-rotated-large"),
    ("a rotation by another factor where blocks are odd powers", "page_rotation.py", "if m % 2 else F4(1)",
     "if m % 2 == 0 else F4(1)",
     "every-drive-pack"),
    ("the word that is the last is left out", "page_schemes.py", "sorted(places + equal[:kept - len(places)])",
     "places",
     "every-randk-pack"),
    ("gaps of places without their low bits' order", "page_schemes.py", "sum(next(bits) << i for i in range(count))",
     "sum(next(bits) << count - 1 - i for i in range(count))", "every-topk-pack"),
    ("pieces of rows begin with the chunk", "page_schemes.py",
     "(code.first + i) // self.row - code.first // self.row if",
     "i // self.row if", "rows-over-chunks-sign"),
    ("a mean in float32", "page_sum.py", "values[i] = F4(total * self.factor)",
     "values[i] = F4(total) * F4(self.factor)",
     "sum-grid-weighted-mean-pack"),
    ("side information rounds toward 0", "page_schemes.py", "np.floor(z)", "np.trunc(z)", "nested-dump"),
    ("side information that is not finite is used", "page_schemes.py", "y = y if abs(y) <= REGULAR else 0.0",
     "y = y if abs(y) < float('inf') else 0.0", "nested-not-finite"),
    ("buckets of hashes with the sign's bit", "page_schemes.py", "(2 * word & 0xFFFFFFFF) * self.cols",
     "word * self.cols",
     "sketch-table"),
    ("what was remembered is not added", "page_schemes.py", "(h[finite] + moved).astype", "moved.astype",
     "remembers-dqsg-2"),
    ("the check of a frame is not made", "page_decoder.py",
     'require(self.reader.uint(8) == xxh3(covered, self.base + self.k), "frame %d" % self.k)', "self.reader.uint(8)",
     "refused-check-frame"),
    ("checks of frames without their number", "page_decoder.py",
     'require(self.reader.uint(8) == xxh3(covered, self.base + self.k), "frame %d" % self.k)',
     'require(self.reader.uint(8) in [xxh3(covered, self.base + k) for k in range(8)], "frame")',
     "refused-frames-swapped"),
    ("digests are not compared", "page_decoder.py", 'require([end.uint(4) for _ in digests] == digests, "digests")',
     "[end.uint(4) for _ in digests]", "refused-digest"),
    ("what follows the tail is not seen", "page_decoder.py",
     'reader.take(4) == b"GZnd" and reader.left() == 0, "tail")',
     'reader.take(4) == b"GZnd", "tail")', "refused-junk"),
    ("varints need not be shortest", "page_numbers.py", 'require(byte > 0 or i == 0, "varint not minimal")', "pass",
     "refused-dither-m-not-shortest"),
]


def load(fault=None):
    """The module page_decoder of these sources, apart from those that are loaded already."""
    kept = {name: sys.modules.pop(name, None) for name in (file[:-3] for file in FILES)}
    try:
        for file in FILES:
            text = (HERE / file).read_text()
            if fault and fault[1] == file:
                if text.count(fault[2]) != 1:
                    raise AssertionError("%s has this %d times, not once: %s" % (file, text.count(fault[2]), fault[2]))
                text = text.replace(fault[2], fault[3])
            module = sys.modules[file[:-3]] = types.ModuleType(file[:-3])
            exec(compile(text, file, "exec"), module.__dict__)
        return module
    finally:
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@functools.lru_cache(None)
def read(folder, name):
    return (folder / name).read_bytes()


def arrays_of(data):
    """Of an .npz, or of an .npy, whose array is called `array`."""
    loaded = np.load(io.BytesIO(data))
    return {"array": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}


def decode(decoder, folder, vector):
    """{name: bytes} as this decoder has it."""
    data = read(folder, vector["file"])
    sides = arrays_of(read(folder, vector["side"])) if "side" in vector else {}
    if "schema" in vector:
        return decoder.decode_bare(read(folder, vector["schema"]), data, sides)
    memory = index_set = None
    if "state" in vector:
        remembered = decoder.decode_message(read(folder, vector["state"]))
        memory = {name: np.frombuffer(values, "<f8").copy() for name, values in remembered.items()}
    if "at" in vector:
        index_set = decoder.read_index_set(read(folder, vector["at"]))
    return decoder.decode_message(data, sides, memory, index_set)


def shows(decoder, folder, vector):
    """Whether the vector shows that something is wrong with the decoder."""
    signal.alarm(MOST_SECONDS)  # a faulty decoder may not end
    try:
        with np.errstate(all="ignore"):
            got = decode(decoder, folder, vector)
    except Exception:  # however a decoder fails
        return "exit" not in vector
    finally:
        signal.alarm(0)
    if "exit" in vector:
        return True
    expected = arrays_of(read(folder, vector["expected"]))
    return got != {name: array.tobytes() for name, array in expected.items()}


def too_long(*_):
    raise TimeoutError


class SeededFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        signal.signal(signal.SIGALRM, too_long)
        cls.right = load()
        cls.vectors = {path.parent: json.loads(path.read_text()) for path in sorted(VECTORS.glob("*/vector.json"))}

    def matching(self, glob):
        found = [(folder, vector) for folder, vector in self.vectors.items() if fnmatch.fnmatch(folder.name[5:], glob)]
        self.assertTrue(found, glob)
        return found

    def test_the_decoder_itself_is_right(self):
        seen = {folder: vector for fault in FAULTS for folder, vector in self.matching(fault[4])}
        for folder, vector in seen.items():
            self.assertFalse(shows(self.right, folder, vector), folder.name)

    def test_a_vector_shows_each_fault(self):
        self.assertGreaterEqual(len(FAULTS), 20)
        for fault in FAULTS:
            with self.subTest(fault[0]):
                faulty = load(fault)
                self.assertTrue(any(shows(faulty, folder, vector) for folder, vector in self.matching(fault[4])),
                                "no vector of %s shows it" % fault[4])

    def test_a_text_that_is_not_there_once_is_an_error(self):
        for text in ("no such text", "require("):
            with self.assertRaises(AssertionError):
                load(("", "page_schemes.py", text, "", ""))


if __name__ == "__main__":
    unittest.main()
