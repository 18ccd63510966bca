#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HDF5 files that crash the library, and a gradcodec-hdf5 that has been taken over: gradcodec ends with a message, and
nothing is left. Both programs are copied, so that one of them can be a fake and their processes are known by their path.

What the fakes say is in format/dumps/hdf5_protocol.h."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import h5py
import numpy as np

import support
from support import BAD_INPUT, IO_FAILURE, LIMIT, OK, UNSUPPORTED

LIST, OPEN, READ, CLOSE, CREATE, WRITE, FINISH = range(1, 8)
DONE, FAILED, TENSORS, DROPPED, TREE, OPENED, DATA, PLACES = range(100, 108)
NO_PLACE = 2**64 - 1

FAKE = """#!{python} -S
import os, signal, socket, struct, time
wire = socket.socket(fileno=3)
NO_PLACE = 2**64 - 1
def get(size):
    out = b""
    while len(out) < size:
        part = wire.recv(size - len(out))
        if not part:
            os._exit(0)
        out += part
    return out
def asked():
    kind, size = struct.unpack("<QQ", get(16))
    return kind, get(size)
def say(kind, body=b"", size=None):
    wire.sendall(struct.pack("<QQ", kind, len(body) if size is None else size) + body)
def tensor(name=b"w", dtype=b"f4", shape=(5,), place=NO_PLACE, word=0):
    head = bytes([len(name)]) + name + bytes([len(dtype)]) + dtype + bytes([len(shape)])
    return head + struct.pack("<%dQQB" % len(shape), *shape, place, word)
def listing():
    say({TENSORS}, tensor())
    say({TREE}, b"\\xa0")
    say({DONE})
def die(number):
    signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
    os.kill(os.getpid(), number)
    time.sleep(60)
asked()
"""


def processes_of(folder):
    """The processes that run a program, or a script, of this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") + [os.fsencode(os.readlink(entry / "exe"))]
            except OSError:
                continue
            if any(word.startswith(os.fsencode(folder)) for word in words):
                found.append(int(entry.name))
    return found


class Copied(support.CliTest):
    def setUp(self):
        super().setUp()
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        self.program = self.bin / "gradcodec"
        shutil.copy(support.PROGRAM, self.program)
        self.dump = self.dir / "in.h5"
        with h5py.File(self.dump, "w") as file:
            file["w"] = np.arange(5, dtype="f4")

    def copy_hdf5(self):
        shutil.copy(Path(support.PROGRAM).with_name("gradcodec-hdf5"), self.bin)

    def run_copy(self, *args, timeout=300, **options):
        return subprocess.run([self.program, *map(str, args)], capture_output=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, **options)

    def compress(self, dump=None, *args, **options):
        return self.run_copy("compress", dump or self.dump, "-q", "--scheme=raw", "-o", self.dir / "out.gradz", "-f", *args,
                             **options)

    def check_nothing_is_left(self, told):
        self.assertFalse((self.dir / "out.gradz").exists(), told)
        self.assertFalse((self.dir / "out.h5").exists(), told)
        self.assertEqual([p for p in self.dir.iterdir() if p.name.startswith(".gradcodec")], [], told)
        self.check_no_process(told)

    def check_no_process(self, told):
        for _ in range(100):
            if not processes_of(self.bin):
                return
            time.sleep(0.05)
        self.fail(f"a process is left: {told}")


class WithFake(Copied):
    """`script`: what the fake does once it has the first request."""

    def fake(self, script):
        names = {name: value for name, value in globals().items() if isinstance(value, int)}
        text = FAKE.format(python=sys.executable, **names)
        for name in ("LIST", "OPENED", "DATA", "DONE", "FAILED", "TENSORS", "DROPPED", "TREE", "PLACES"):
            text += f"{name} = {names[name]}\n"
        path = self.bin / "gradcodec-hdf5"
        path.unlink(missing_ok=True)
        path.write_text(text + script + "\n")
        path.chmod(0o755)

    def refused_by(self, script, code=BAD_INPUT, says="makes no sense", command=None):
        self.fake(script)
        result = command() if command else self.compress()
        told = f"{script}: {result.returncode}, {result.stderr!r}"
        self.assertEqual(result.returncode, code, told)
        self.assertIn(says.encode(), result.stderr, told)
        self.assertTrue(result.stderr.startswith(b"gradcodec: "), told)
        self.assertEqual(result.stderr.count(b"\n"), 1, told)
        self.assertNotIn(b"\x1b", result.stderr, told)
        self.check_nothing_is_left(told)


class Fakes(WithFake):
    def test_the_fake_that_the_others_are_made_from_is_believed(self):
        self.fake("listing()\nasked()\nsay(OPENED, struct.pack('<Q', 7))\nsay(DONE)\nasked()\n"
                  "say(DATA, struct.pack('<2f', 1, 2))\nsay(DATA, struct.pack('<3f', 3, 4, 5))\nsay(DONE)\nasked()")
        result = self.compress()
        self.assertEqual(result.returncode, OK, result.stderr)
        self.ok("decompress", self.dir / "out.gradz", "-o", self.dir / "out.npz")
        self.assertEqual(np.load(self.dir / "out.npz")["w"].tolist(), [1, 2, 3, 4, 5])

    def test_lengths(self):
        for kind in ("TENSORS", "TREE", "DROPPED", "DONE", "12345"):
            self.refused_by(f"say({kind}, b'', 2**62)\ntime.sleep(60)")
        self.refused_by("say(FAILED, b'', 2**62)\ntime.sleep(60)")
        self.refused_by("say(FAILED, b'', 0)\ntime.sleep(60)")
        self.refused_by("say(DONE, b'1')")
        self.refused_by("for i in range(65): say(TREE, bytes(1 << 20))\ntime.sleep(60)")
        self.refused_by("say(DROPPED, bytes(1 << 20))\ntime.sleep(60)")
        self.refused_by("for i in range(1 << 16): say(DROPPED, b'x' * (1 << 13))\ntime.sleep(60)", LIMIT, "too many objects")

    def test_tensors(self):
        for made in ("name=b'\\xff'", "name=b''", "name=b'a\\0'", "dtype=b'x9'", "dtype=b''", "shape=(2**62,)",
                     "shape=(2**62, 0, 8)", "shape=(1,) * 33", "place=0, word=3", "place=0, word=8"):
            self.refused_by(f"say(TENSORS, tensor({made}))\nsay(DONE)")
        self.refused_by("say(TENSORS, tensor()[:-1])\nsay(DONE)")
        self.refused_by("say(TENSORS, b''.join(tensor(b'%d' % i) for i in range(5000)))\nsay(DONE)", says="has room for")
        self.refused_by("say(TENSORS, tensor() + tensor())\nsay(TREE, b'\\xa0')\nsay(DONE)", says="two datasets")

    def test_places_outside_the_file(self):
        for place in (0, 10**6, 2**62, 2**64 - 2):
            shape = "(5,)" if place else "(10**6,)"
            self.refused_by(f"say(TENSORS, tensor(shape={shape}, place={place}))\nsay(DONE)", says="ends before")
        self.refused_by("say(TENSORS, tensor(shape=(2**40,)))\nsay(DONE)", LIMIT, "more than 65536 times")

    def test_trees(self):
        for tree in ("b''", "b'\\xff'", "b'\\xa1'", "b'\\xa0\\xa0'", "b'\\x81' * 100000"):
            self.refused_by(f"say(TENSORS, tensor())\nsay(TREE, {tree})\nsay(DONE)", says="tree record")

    def test_errors(self):
        for code in (0, 1, 2, 7, 70, 255):
            self.refused_by(f"say(FAILED, bytes([{code}]) + b'text')")
        for code in (BAD_INPUT, IO_FAILURE, LIMIT, UNSUPPORTED):
            self.refused_by(f"say(FAILED, bytes([{code}]) + b'one\\x1b[31m\\ntwo \\\\xff')", code, "one\\x1b[31m\\x0atwo \\xff")

    def test_elements(self):
        opened = "listing()\nasked()\nsay(OPENED, bytes(8))\nsay(DONE)\nasked()\n"
        self.refused_by("listing()\nasked()\nsay(OPENED, bytes(7))\nsay(DONE)")
        self.refused_by("listing()\nasked()\nsay(DONE)")
        for answer in ("say(DATA, bytes(24))", "say(DATA, b'')", "say(DATA, bytes(12))\nsay(DONE)", "say(DONE)",
                       "say(DATA, bytes(20))\nsay(DATA, bytes(20))", "say(TENSORS, bytes(20))"):
            self.refused_by(opened + answer, says="'w'")

    def test_deaths(self):
        halves = ("", "say(TENSORS, b'12', 100)\n", "wire.send(b'123')\n",
                  "listing()\nasked()\nsay(OPENED, bytes(8))\nsay(DONE)\nasked()\nsay(DATA, b'1234', 20)\n")
        for half in halves:
            self.refused_by(half + "die(11)", says="crashed on this file (signal 11)")
        for number, code, says in [(6, BAD_INPUT, "signal 6"), (31, BAD_INPUT, "tried what it must not"),
                                   (24, LIMIT, "of processor time"), (9, LIMIT, "memory")]:
            self.refused_by(f"die({number})", code, says)
        self.refused_by("os._exit(0)", says="ended on this file")
        self.refused_by("os._exit(1)", says="ended on this file")
        self.refused_by("os._exit(9)", UNSUPPORTED, "another version")
        self.refused_by("wire.close()\ntime.sleep(60)", says="fell silent")

    def test_a_death_where_the_ends_of_processes_are_ignored(self):
        """A parent may have left SIGCHLD so; then what the process died of would be lost."""
        ignoring = lambda: self.compress(preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.refused_by("die(11)", says="crashed on this file (signal 11)", command=ignoring)

    def test_that_never_stops(self):
        self.refused_by("while True: pass", LIMIT, "of processor time")
        self.refused_by("while True: say(DROPPED)", LIMIT, "")

    def test_writing(self):
        self.fake("listing()\nasked()\nsay(OPENED, bytes(8))\nsay(DONE)\nasked()\nsay(DATA, bytes(20))\nsay(DONE)\nasked()")
        self.assertEqual(self.compress().returncode, OK)
        message = (self.dir / "out.gradz").rename(self.dir / "message.gradz")
        write = lambda: self.run_copy("decompress", message, "-q", "-o", self.dir / "out.h5")
        for places, says in [("say(PLACES, bytes(16))", "makes no sense"), ("say(PLACES, bytes(7))", "makes no sense"),
                             ("say(DONE)", "makes no sense"), ("say(TREE, bytes(8))", "makes no sense"),
                             ("say(PLACES, struct.pack('<Q', 2**63))", "makes no sense"), ("die(11)", "(signal 11)"),
                             ("say(PLACES, bytes(8))\nsay(DONE)\nasked()\ndie(11)", "crashed while it wrote"),
                             ("say(PLACES, struct.pack('<Q', NO_PLACE))\nsay(DONE)\nasked()\nsay(DATA)", "makes no sense")]:
            self.refused_by(places, says=says, command=write)

    def check_time(self, message, seconds):
        """The processor time that the process is given to make the dump of `message`."""
        self.refused_by("import resource\nsay(FAILED, b'\\x05limit %d' % resource.getrlimit(resource.RLIMIT_CPU)[0])",
                        LIMIT, f"limit {seconds}\n",
                        lambda: self.run_copy("decompress", message, "-q", "-o", self.dir / "out.h5"))

    def test_filling_has_its_time(self):
        """The library fills the place of a tensor that has a fill value, before its elements are written."""
        self.copy_hdf5()
        for size, seconds in ((1 << 20, 5), (1 << 26, 9)):
            with h5py.File(self.dump, "w") as file:
                file.create_dataset("w", (size,), "f4", fillvalue=1)
            (self.dir / "bin/gradcodec-hdf5").unlink()
            self.copy_hdf5()
            self.assertEqual(self.compress().returncode, OK)
            message = (self.dir / "out.gradz").rename(self.dir / "message.gradz")
            self.check_time(message, seconds)

    def test_many_tensors_have_their_time(self):
        """Some 30 us each are needed; on a slow machine several times as much."""
        message = self.dir / "message.gradz"
        dump = self.npz({"%04d" % i: np.float32(i) for i in range(5000)})
        self.ok("compress", dump, "-q", "--scheme=raw", "-o", message)
        self.check_time(message, 6)


@support.slow
class Slow(WithFake):
    def test_that_never_answers(self):
        self.refused_by("time.sleep(1000)", LIMIT, "has not answered")


class Real(Copied):
    def test_without_the_other_program(self):
        result = self.compress()
        self.assertEqual(result.returncode, UNSUPPORTED)
        self.assertIn(b"gradcodec-hdf5", result.stderr)
        self.check_nothing_is_left(result.stderr)
        np.save(self.dir / "x.npy", np.ones(5, "f4"))
        self.assertEqual(self.compress(self.dir / "x.npy").returncode, OK)

    def test_a_file_that_is_cut_while_it_is_read(self):
        """What was cut off does not read as zeros."""
        self.copy_hdf5()
        with h5py.File(self.dump, "w") as file:
            file.create_dataset("w", data=np.ones(4_000_000, "f4"), chunks=(100_000,))
        program = subprocess.Popen([self.program, "compress", self.dump, "--scheme=raw", "--coder=pack", "-T1", "-q", "-o",
                                    "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        program.stdout.read(1)
        os.truncate(self.dump, 4_000_000)
        _, said = program.communicate(timeout=60)
        self.assertEqual(program.returncode, BAD_INPUT, said)
        self.assertIn(b"has become shorter", said)

    def test_the_other_program_in_libexec(self):
        place = self.dir / "libexec" / "gradcodec"
        place.mkdir(parents=True)
        shutil.copy(Path(support.PROGRAM).with_name("gradcodec-hdf5"), place)
        result = self.compress()
        self.assertEqual(result.returncode, OK, result.stderr)

    @support.unittest.skipIf(support.SANITIZED, "sanitizers read /proc, which is hidden here")
    def test_a_program_of_its_name_in_the_working_directory(self):
        """Without /proc gradcodec does not know where it lies: then none is run."""
        hidden = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode:
            self.skipTest("/proc cannot be hidden here")
        taken = self.dir / "taken"
        place = self.dir / "gradcodec-hdf5"
        place.write_text(f"#!/bin/sh\necho > {taken}\n")
        place.chmod(0o755)
        self.copy_hdf5()
        result = subprocess.run([*hidden, self.program, "compress", self.dump, "--scheme=raw", "-o", "out.gradz"],
                                cwd=self.dir, capture_output=True, timeout=60)
        self.assertEqual(result.returncode, UNSUPPORTED, result.stderr)
        self.assertIn(b"HDF5 needs /proc", result.stderr)
        self.assertFalse(taken.exists())

    def test_the_other_program_by_hand(self):
        self.copy_hdf5()
        for args in ([], ["1"], ["2", "read"], ["1", "both"]):
            done = subprocess.run([self.bin / "gradcodec-hdf5", *args], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 9)
            self.assertIn(b"started by gradcodec", done.stderr)

    def test_what_it_may(self):
        """While gradcodec waits for its reader, gradcodec-hdf5 waits for gradcodec."""
        self.copy_hdf5()
        with h5py.File(self.dump, "w") as file:
            file.create_dataset("w", data=np.random.default_rng(1).integers(0, 256, 4_000_000, np.uint8), chunks=True)
        program = subprocess.Popen([self.program, "compress", self.dump, "--scheme=raw", "-q", "-o", "-"],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env={**os.environ, "SECRET": "1"})
        try:
            child = None
            for _ in range(200):
                child = next((p for p in processes_of(self.bin) if os.readlink(f"/proc/{p}/exe").endswith("-hdf5")), None)
                if child and "State:\tS" in Path(f"/proc/{child}/status").read_text():
                    break
                time.sleep(0.05)
            self.assertIsNotNone(child)
            self.assertEqual(sorted(os.listdir(f"/proc/{child}/fd")), ["0", "1", "2", "3", "4"])
            self.assertEqual(os.readlink(f"/proc/{child}/fd/4"), str(self.dump))
            self.assertEqual(os.readlink(f"/proc/{child}/fd/2"), "/dev/null")
            flags = Path(f"/proc/{child}/fdinfo/4").read_text().split("flags:")[1].split()[0]
            self.assertEqual(int(flags, 8) & os.O_ACCMODE, os.O_RDONLY)
            self.assertNotIn(b"SECRET", Path(f"/proc/{child}/environ").read_bytes())
            limits = Path(f"/proc/{child}/limits").read_text()
            self.assertRegex(limits, r"Max core file size +0 ")
            self.assertRegex(limits, r"Max file size +0 ")
            if not support.SANITIZED:
                self.assertRegex(limits, r"Max address space +2147483648 ")
                self.assertIn("NoNewPrivs:\t1", Path(f"/proc/{child}/status").read_text())
        finally:
            program.kill()
            program.stdout.close()
            program.wait()
        self.check_no_process("gradcodec was killed")

    def test_other_files_are_never_opened(self):
        """They are pipes without a writer: whoever opens one waits for ever."""
        self.copy_hdf5()
        other, secret = self.dir / "other.h5", self.dir / "secret"
        with h5py.File(self.dump, "w") as file:
            file["w"] = np.ones(1, "f4")
            file["external link"] = h5py.ExternalLink(str(other), "/data")
            file.create_dataset("external", (4,), "f4", external=[(str(secret), 0, 16)])
            layout = h5py.VirtualLayout((4,), "f4")
            layout[:] = h5py.VirtualSource(str(other), "data", shape=(4,))
            file.create_virtual_dataset("virtual", layout)
        for path in (other, secret):
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        result = self.compress(None, "--drop-unsupported")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(self.compress().returncode, UNSUPPORTED)

    def test_mutated_files(self):
        self.copy_hdf5()
        rng = random.Random(7)
        wholes = []
        for options in ({}, {"libver": "latest"}):
            with h5py.File(self.dump, "w", **options) as file:
                file["a/w"] = np.arange(60, dtype="f4")
                file.create_dataset("z", data=np.ones((20, 20)), chunks=(5, 5), compression="gzip", maxshape=(None, 20))
                file["a"].attrs["text"] = ["variable", "strings"]
                file["t"] = np.array(["x", "yy"], dtype=h5py.string_dtype())
                file["soft"] = h5py.SoftLink("a/w")
            wholes.append(self.dump.read_bytes())

        def one(number):
            changed = bytearray(wholes[number % 2])
            for at, value in changes[number]:
                changed[at % len(changed)] = value
            path = self.dir / f"{number}.h5"
            path.write_bytes(changed)
            result = self.run_copy("compress", path, "-q", "--scheme=raw", "--drop-unsupported", "-o", f"{path}.gradz")
            self.assertEqual(result.returncode == OK, Path(f"{path}.gradz").exists())
            path.unlink()
            Path(f"{path}.gradz").unlink(missing_ok=True)
            return result

        changes = [[(rng.randrange(1 << 20), rng.randrange(256)) for _ in range(rng.randint(1, 4))] for _ in range(500)]
        codes = {}
        for result in support.in_parallel(one, range(500)):
            codes[result.returncode] = codes.get(result.returncode, 0) + 1
            self.assertIn(result.returncode, (OK, BAD_INPUT, LIMIT, UNSUPPORTED), result.stderr)
        self.assertGreater(codes.get(OK, 0), 50, codes)
        self.assertGreater(codes.get(BAD_INPUT, 0), 50, codes)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["bin", "in.h5"])
        self.check_no_process("mutated files")


if __name__ == "__main__":
    unittest.main()
