#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradcodec conform: its own decoder passes all vectors, and each way of being wrong is reported as what it is."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import numpy as np

import support
from support import BAD_INPUT, CHECK_FAILED, IO_FAILURE, OK, USAGE

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "spec/vectors"
GOOD = f"{shlex.quote(support.PROGRAM)} decompress {{in}} -q -o {{out}}"


class OwnDecoder(support.CliTest):
    def test_it_passes_all_vectors(self):
        result = support.run("conform", VECTORS, "--json", "--timeout=60", timeout=800)
        said = json.loads(result.out)
        self.assertEqual([row for row in said["vectors"] if row["result"] != "pass"], [])
        self.assertEqual(result.code, OK)
        self.assertEqual(said["passed"], len(list(VECTORS.glob("*/vector.json"))))


class Made(support.CliTest):
    """Vectors that are made here: a valid one called `valid`, and one to be refused called `wrong`."""

    def setUp(self):
        super().setUp()
        self.vectors = self.dir / "vectors"
        self.arrays = {"a": np.float32([1, 2, 3]), "b": np.arange(4, dtype="<i4").reshape(2, 2)}
        packed = self.compress(self.npz(self.arrays), "--scheme=raw", "--coder=pack")
        self.vector("valid", packed.read_bytes(), {"expected": "expected.npz"}, self.arrays)
        self.vector("wrong", b"no message", {"exit": 3})

    def vector(self, name, data, keys, arrays=None):
        folder = self.vectors / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file.gradz").write_bytes(data)
        if arrays:
            np.savez(folder / "expected.npz", **arrays)
        (folder / "vector.json").write_text(json.dumps({"shows": "what " + name + " is", "file": "file.gradz", **keys}))

    def decoder(self, body):
        """A decoder: Python with `source` and `out`, the paths, and `arrays`, what the valid vector has."""
        arrays = self.npz(self.arrays, "arrays.npz")
        script = self.dir / "decoder.py"
        script.write_text(
            "import os, signal, subprocess, sys, time\nimport numpy as np\n"
            f"source, out = sys.argv[1:3]\narrays = dict(np.load({str(arrays)!r}))\n" + body)
        return f"{sys.executable} {shlex.quote(str(script))} {{in}} {{out}}"

    def conform(self, decoder, *options, code=CHECK_FAILED):
        result = support.run("conform", self.vectors, "--json", "--decoder", decoder, *options)
        self.assertEqual(result.code, code, result.err)
        return {row["name"]: row for row in json.loads(result.out)["vectors"]}

    def fault(self, body, *options, vector="valid"):
        row = self.conform(self.decoder(body), "--only", vector, *options)[vector]
        self.assertEqual(row["result"], "FAIL")
        return row["why"]

    def saving(self, change):
        return self.fault(f"{change}\nnp.savez(out, **arrays)\n")

    def test_a_right_decoder_passes(self):
        right = self.decoder("if 'wrong' in source: sys.exit(3)\nnp.savez_compressed(out, **arrays)\n")
        self.assertEqual({row["result"] for row in self.conform(right, code=OK).values()}, {"pass"})

    def test_byte_order_layout_and_the_order_of_tensors_are_free(self):
        free = self.decoder("np.savez(out, b=np.asfortranarray(arrays['b'].astype('>i4')), a=arrays['a'])\n")
        self.conform(free, "--only=valid", code=OK)

    def test_wrong_values(self):
        why = self.saving("arrays['b'][1, 0] = -1")
        self.assertEqual(why, "tensor 'b': element 2 [1, 0] has bits ffffffff, expected 00000002")
        self.assertIn("element 0 has bits bf800000, expected 3f800000", self.saving("arrays['a'][0] = -1"))

    def test_a_wrong_payload_of_nan(self):
        self.arrays["a"] = np.array([0x7FC00001], np.uint32).view(np.float32)
        packed = self.compress(self.npz(self.arrays), "--scheme=raw")
        self.vector("valid", packed.read_bytes(), {"expected": "expected.npz"}, self.arrays)
        self.assertIn("has bits 7fc00000, expected 7fc00001", self.saving("arrays['a'] = np.float32([np.nan])"))

    def test_a_wrong_type_or_shape(self):
        self.assertEqual(self.saving("arrays['a'] = arrays['a'].astype('f8')"), "tensor 'a' is of type f8, expected f4")
        self.assertEqual(self.saving("arrays['b'] = arrays['b'].reshape(4)"),
                         "tensor 'b' has the shape 4, expected 2x2")
        self.assertEqual(self.saving("arrays['b'] = arrays['b'].view('u4')"), "tensor 'b' is of type u4, expected i4")

    def test_a_tensor_that_is_missing_or_too_many(self):
        self.assertEqual(self.saving("del arrays['a']"), "tensor 'a' is missing")
        self.assertEqual(self.saving("arrays['c'] = arrays['a']"), "tensor 'c' is not expected")

    def test_no_output_and_one_that_is_no_dump(self):
        self.assertIn("the output cannot be read: ", self.fault(""))
        self.assertIn("the output cannot be read: ", self.fault("open(out, 'w').write('x')"))

    def test_an_output_whose_reading_would_never_end(self):
        for made in ("os.mkfifo(out)", "os.symlink('/dev/zero', out)", "os.mkdir(out)"):
            self.assertEqual(self.fault(made), "the output is no file")

    def test_a_program_that_says_much(self):
        why = self.fault("sys.stderr.write('x' * (1 << 20) + '\\nthe reason'); sys.exit(3)")
        self.assertEqual(why, "exit code 3, expected exit code 0; it said: the reason")
        many = shlex.quote(f"head -c {1 << 30} /dev/zero >&2; exit 3")
        result = support.run("conform", self.vectors, "--only=wrong", "--decoder", f"sh -c {many} sh {{in}} {{out}}",
                             memory=support.start_up_memory() + 256 * support.MIB)
        self.assertEqual(result.code, OK, result.out)

    def test_the_signal_of_ended_processes_is_ignored(self):
        """So a program may be started; it is told how its own ended all the same."""
        ignoring = [sys.executable, "-c", "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                    "os.execv(sys.argv[1], sys.argv[1:])"]
        command = [support.PROGRAM, "conform", self.vectors, "--only=wrong", "--decoder", self.decoder("sys.exit(3)")]
        done = subprocess.run([*ignoring, *map(str, command)], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, OK, done.stdout)

    def test_exit_codes(self):
        why = self.fault("sys.stderr.write('first\\nthe reason\\n\\n'); sys.exit(3)")
        self.assertEqual(why, "exit code 3, expected exit code 0; it said: the reason")
        self.assertEqual(self.fault("sys.exit(4)", vector="wrong"), "exit code 4, expected exit code 3")
        self.assertEqual(self.fault("", vector="wrong"), "exit code 0, expected exit code 3")

    def test_any_code(self):
        for code in (1, 4, 70, 255):
            wanted = OK if code <= 128 else CHECK_FAILED
            self.conform(self.decoder(f"sys.exit({code})"), "--only=wrong", "--any-code", code=wanted)
        self.assertEqual(self.fault("", "--any-code", vector="wrong"), "exit code 0, expected a failure")
        self.assertIn("expected exit code 0", self.fault("sys.exit(1)", "--any-code"))

    def test_a_decoder_of_some_schemes(self):
        self.vector("unsupported", b"no message", {"exit": 6})
        six = self.decoder("sys.stderr.write('no such scheme'); sys.exit(6)\n")
        rows = self.conform(six, "--partial", code=OK)
        self.assertEqual({name: row["result"] for name, row in rows.items()},
                         {"valid": "skipped", "wrong": "skipped", "unsupported": "pass"})
        self.assertEqual(rows["valid"]["why"], "the decoder does not support it; it said: no such scheme")
        self.assertEqual(self.conform(six)["valid"]["result"], "FAIL")
        self.assertIn("exit code 3, expected exit code 0", self.fault("sys.exit(3)", "--partial"))
        for vector in ("valid", "wrong"):
            self.fault("open(out, 'w'); sys.exit(6)", "--partial", vector=vector)

    def test_crashes(self):
        for vector in ("valid", "wrong"):
            why = self.fault("os.kill(os.getpid(), signal.SIGSEGV)", "--any-code", vector=vector)
            self.assertIn("signal 11 (Segmentation fault)", why)
        self.assertIn("exit code 139", self.fault("sys.exit(139)", "--any-code", vector="wrong"))  # as a shell tells it

    def test_a_hang_and_what_it_started(self):
        pid = self.dir / "pid"
        child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
        why = self.fault(f"open({str(pid)!r}, 'w').write(str({child}.pid))\ntime.sleep(60)", "--timeout=2")
        self.assertEqual(why, "it had not ended in time, expected exit code 0")
        self.assert_gone(int(pid.read_text()))
        left = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\nos.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(60)"
        self.assertEqual(self.fault(left, "--timeout=2"), why)
        self.assert_gone(int(pid.read_text()))

    def assert_gone(self, pid):
        for _ in range(100):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except FileNotFoundError:
                return
            time.sleep(0.05)
        self.fail(f"process {pid} is still there")

    def test_an_output_of_a_file_that_is_refused(self):
        self.assertEqual(self.fault("open(out, 'w'); sys.exit(3)", vector="wrong"),
                         "exit code 3, but an output was written")

    def test_either(self):
        """A vector with both keys may be decoded or refused, but not decoded to something else."""
        packed = (self.vectors / "valid/file.gradz").read_bytes()
        self.vector("either", packed, {"expected": "expected.npz", "exit": 3}, self.arrays)
        self.conform(self.decoder("sys.exit(3)"), "--only=either", code=OK)
        self.conform(self.decoder("np.savez(out, **arrays)"), "--only=either", code=OK)
        self.assertIn("is missing", self.fault("np.savez(out, b=arrays['b'])", vector="either"))
        self.assertIn("exit code 4, expected exit code 3", self.fault("sys.exit(4)", vector="either"))

    def test_inputs_and_brackets(self):
        (self.vectors / "valid/the schema").write_bytes(b"x")
        self.vector("valid", b"", {"expected": "expected.npz", "schema": "the schema", "top": "7"}, self.arrays)
        check = ("folder = os.path.dirname(source)\n"
                 "assert sys.argv[3:] == ['--schema=' + folder + '/the schema', '-k', '7 of'], sys.argv\n"
                 "np.savez(out, **arrays)\n")
        rest = " [--schema={schema}] [--state {state}] [-k '{top} of']"
        self.conform(self.decoder(check) + rest, "--only=valid", code=OK)

    def test_what_the_command_lacks_is_skipped(self):
        self.vector("valid", b"", {"expected": "expected.npz", "top": "7"}, self.arrays)
        rows = self.conform(self.decoder("sys.exit(3)"), code=OK)
        self.assertEqual({name: row["result"] for name, row in rows.items()}, {"valid": "skipped", "wrong": "pass"})
        self.assertEqual(rows["valid"]["why"], "needs {top}, which the command has not")
        rows = self.conform(self.decoder("sys.exit(3)") + " {schema}", code=OK)
        self.assertEqual(rows["wrong"]["why"], "has no {schema}, which the command needs")

    def test_a_state_is_a_copy(self):
        state = self.vectors / "valid/state"
        state.write_bytes(b"as it was")
        self.vector("valid", b"", {"expected": "expected.npz", "state": "state"}, self.arrays)
        write = ("assert open(sys.argv[3]).read() == 'as it was'\nopen(sys.argv[3], 'w').write('new')\n"
                 "np.savez(out, **arrays)\n")
        self.conform(self.decoder(write) + " {state}", "--only=valid", code=OK)
        self.assertEqual(state.read_bytes(), b"as it was")

    def test_quotes_as_in_a_shell(self):
        check = ("assert sys.argv[3:] == ['a b', 'c\"d', \"e'f\", 'g\\\\', '', '[h]', 'x[', 'i$j'], sys.argv[3:]\n"
                 "sys.exit(3)\n")
        words = """ 'a b' "c\\"d" e\\'f "g\\\\" '' \\[h] x[ 'i$j'"""
        self.conform(self.decoder(check) + words, "--only=wrong", code=OK)

    def test_what_is_no_command(self):
        for command, says in [("x {in}", "no {out}"), ("x {out}", "no {in}"), ("x {in} {out} {file}", "{file}"),
                              ("x {in} [{out}]", "no {out}"), ("x {in} {out} [", "[ without"),
                              ("x {in} {out} [a]", "without a name"),
                              ("x {in} {out} [a [{top}]]", "brackets in brackets"), ("x {in} {out} 'a", "quote"),
                              ("x {in} {out} {top", "without its }"), ("[{top}] {in} {out}", "names no program"),
                              ("/no/such/program {in} {out}", "cannot be run")]:
            self.refused(USAGE, "conform", self.vectors, "--decoder", command, says=says)

    def test_what_are_no_vectors(self):
        self.refused(IO_FAILURE, "conform", self.dir / "none", says="cannot be read")
        self.refused(USAGE, "conform", self.dir, says="no folders with a vector.json")
        self.refused(USAGE, "conform", self.vectors, "--only=x*", says="no vector named like 'x*'")
        for text, says in [("{", "is no JSON"), ('"\x1b', "is no JSON"), ("[]", "no object"), ('{"file": 1}', "'file' is no text"),
                           ("{}", "no 'file'"), ('{"file": "file.gradz"}', "neither"),
                           ('{"file": "file.gradz", "exit": 0}', "'exit'"),
                           ('{"file": "file.gradz", "exit": 3, "later": "x"}', "'later' is not known"),
                           ('{"file": "file.gradz", "exit": 3, "state": "none"}', "'state' names "),
                           ('{"file": "file.gradz", "expected": "none.npz"}', "none.npz, which is not there")]:
            (self.vectors / "valid/vector.json").write_text(text)
            self.refused(BAD_INPUT, "conform", self.vectors, says=says)

    def test_a_decoder_that_removes_too_much(self):
        greedy = self.decoder("import shutil\nshutil.rmtree(os.path.dirname(os.path.dirname(out)))\nsys.exit(3)\n")
        self.refused(IO_FAILURE, "conform", self.vectors, "-j1", "--decoder", greedy, says="cannot be used")

    def test_what_lies_among_them(self):
        (self.vectors / "loop").symlink_to("loop")
        (self.vectors / "README.md").write_text("x")
        self.assertEqual(set(self.conform(self.decoder("sys.exit(3)"), "--only=*")), {"valid", "wrong"})

    def test_where_the_ends_of_processes_are_ignored(self):
        """A parent may have left SIGCHLD so; then how a decoder ended would be lost."""
        done = subprocess.run([support.PROGRAM, "conform", self.vectors, "--only=wrong", "--decoder",
                               self.decoder("sys.exit(3)")], capture_output=True,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, OK, done.stdout)

    def test_a_table_for_people(self):
        bad = self.decoder("arrays['a'][1] = 0\nnp.savez(out, **arrays)")
        for options, lines in (((), 4), (["-q"], 4), (["--only=valid"], 3)):
            said = support.run("conform", self.vectors, "--decoder", bad, *options).out.decode().splitlines()
            self.assertEqual(len(said), lines, said)
        self.assertRegex(said[1], r"^valid +FAIL +tensor 'a': element 1 .* \(what valid is\)$")
        self.assertEqual(said[-1], "0 passed, 1 failed, 0 skipped")
        said = support.run("conform", self.vectors, "-q", "--decoder", self.decoder("sys.exit(3)"),
                           "--only=wrong").out.decode()
        self.assertEqual(said, "1 passed, 0 failed, 0 skipped\n")

    def test_nothing_is_left_behind(self):
        scratch = self.dir / "scratch"
        scratch.mkdir()
        environment = {"TMPDIR": str(scratch)}
        private = self.decoder("folder = os.path.dirname(os.path.dirname(out))\n"
                               "assert os.stat(folder).st_mode & 0o77 == 0\nsys.exit(3)\n")
        result = support.run("conform", self.vectors, "--only=wrong", "--decoder", private, env=environment)
        self.assertEqual(result.code, OK, result.out)
        self.assertEqual(list(scratch.iterdir()), [])
        for number in (signal.SIGINT, signal.SIGTERM):
            self.interrupt(number, scratch, environment)

    def interrupt(self, number, scratch, environment):
        """Ended by a signal, it ends its decoders and removes its folder before it dies of it."""
        pid = self.dir / "pid"
        pid.unlink(missing_ok=True)
        slow = self.decoder(f"open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
        child = subprocess.Popen([support.PROGRAM, "conform", self.vectors, "--only=valid", "--decoder", slow],
                                 env={**os.environ, **environment}, stderr=subprocess.PIPE)
        for _ in range(200):
            if pid.exists() and pid.read_text():
                break
            time.sleep(0.05)
        child.send_signal(number)
        _, said = child.communicate(timeout=30)
        self.assertEqual(child.returncode, -number, said)
        self.assertEqual(list(scratch.iterdir()), [])
        self.assert_gone(int(pid.read_text()))


if __name__ == "__main__":
    support.main()
