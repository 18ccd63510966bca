#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--state: what schemes remember from step to step, whatever happens between the steps."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

import support
from support import BAD_INPUT, IO_FAILURE, LIMIT, OK, PROGRAM, USAGE, run

SCHEMES = ("ef/topk:k=2%", "ec-qsgd:s=4", "dgc:k=2%", "diana/qsgd:s=4", "qsparse:k=2%", "onebit-ef", "sign-ef",
           "diana/randk:k=10%")


def gradient(step, sizes=(("a", (60, 50)), ("b", (11,)))):
    rng = np.random.default_rng(step)
    return {name: rng.standard_normal(shape).astype("f4") for name, shape in sizes}


class StateTest(support.CliTest):
    def dump(self, step, **changes):
        path = self.dir / f"g{step}.npz"
        np.savez(path, **{**gradient(step), **changes})
        return path

    def compress(self, step, scheme, *options, state="w.state", out=None, code=OK, dump=None):
        out = self.dir / (out or f"m{step}.gradz")
        result = run("compress", dump or self.dump(step), "-o", out, "-f", "--scheme", scheme, "--state",
                     self.dir / state, *options)
        self.assertEqual(result.code, code, result.err)
        return result.err if code else out

    def decompress(self, message, *options, code=OK):
        out = self.dir / "decoded.npz"
        result = run("decompress", message, "-o", out, "-f", *options)
        self.assertEqual(result.code, code, result.err)
        if code:
            return result.err
        with np.load(out) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def vectors(self, state):
        return self.decompress(self.dir / state)

    def info(self, path):
        return json.loads(self.ok("info", "--json", path).out)


class State(StateTest):
    def test_all_that_was_sent_and_is_remembered_is_all_there_was(self):
        for scheme in ("ef/topk:k=2%", "qsparse:k=2%", "onebit-ef", "sign-ef:axis=row"):
            with self.subTest(scheme=scheme):
                total = {name: 0 for name in gradient(0)}
                sent = dict(total)
                (self.dir / "w.state").unlink(missing_ok=True)
                for step in range(5):
                    decoded = self.decompress(self.compress(step, scheme))
                    for name, values in gradient(step).items():
                        total[name] = total[name] + values.astype("f8")
                        sent[name] = sent[name] + decoded[name].astype("f8")
                left = self.vectors("w.state")
                for name in total:
                    np.testing.assert_allclose(total[name] - sent[name], left["e/" + name], rtol=0, atol=1e-12)

    def test_resuming_from_any_step_is_as_never_having_stopped(self):
        for scheme in SCHEMES:
            with self.subTest(scheme=scheme):
                (self.dir / "w.state").unlink(missing_ok=True)
                self.compress(0, scheme, "--worker", 3)
                messages, states = [(self.dir / "m0.gradz").read_bytes()], []
                for step in range(1, 5):
                    states.append((self.dir / "w.state").read_bytes())
                    messages.append(self.compress(step, scheme).read_bytes())
                for step, state in enumerate(states, 1):
                    (self.dir / "again.state").write_bytes(state)
                    for later in range(step, 5):
                        message = self.compress(later, scheme, "-T1", state="again.state", out="again.gradz")
                        self.assertEqual(message.read_bytes(), messages[later])
                self.assertEqual((self.dir / "again.state").read_bytes(), (self.dir / "w.state").read_bytes())

    def test_a_decoder_with_memory_follows_and_refuses_what_does_not_follow(self):
        scheme = "diana/qsgd:s=4"
        messages = [self.compress(step, scheme, "--worker", 1, "--step", step + 10) for step in range(4)]
        state = ["--state", self.dir / "d.state"]
        self.decompress(messages[0], *state)
        self.assertIn("steps 11 to 12 are missing", self.decompress(messages[3], *state, code=BAD_INPUT))
        self.assertIn("step 11 is missing", self.decompress(messages[2], *state, code=BAD_INPUT))
        self.decompress(messages[1], *state)
        self.assertIn("expects step 12 next, not 11", self.decompress(messages[1], *state, code=BAD_INPUT))
        self.decompress(messages[2], *state)
        self.decompress(messages[3], *state)
        encoder, decoder = self.vectors("w.state"), self.vectors("d.state")
        self.assertEqual(set(encoder), {"h/a", "h/b"})
        for name in encoder:
            self.assertEqual(encoder[name].tobytes(), decoder[name].tobytes())
        self.assertIn("--state", self.decompress(messages[2], code=USAGE))
        self.assertIn("does not exist", self.decompress(messages[2], "--state", self.dir / "none", code=BAD_INPUT))
        self.assertFalse((self.dir / "none").exists())
        self.assertIn("--only", self.decompress(messages[3], *state, "--only", "a", code=USAGE))
        # One that was made from another past, at the same step.
        shutil.copy(self.dir / "w.state", self.dir / "x.state")
        self.compress(7, scheme, state="x.state", out="other.gradz")
        self.decompress(self.dir / "other.gradz", *state)
        message = self.compress(4, scheme)
        self.assertIn("expects step 15 next", self.decompress(message, *state, code=BAD_INPUT))
        message = self.compress(5, scheme)
        self.assertIn("another message came in between", self.decompress(message, *state, code=BAD_INPUT))

    def test_means_are_of_messages_that_need_no_state(self):
        first, second = self.compress(0, "diana/qsgd:s=4"), self.compress(1, "diana/qsgd:s=4")
        self.ok("aggregate", first, first, "-o", self.dir / "m.npz", "-q")
        self.refused(USAGE, "aggregate", first, second, "-f", "-o", self.dir / "m.npz", says="remembers")
        self.refused(USAGE, "aggregate", self.dir / "w.state", "-f", "-o", self.dir / "m.npz", says="state")
        self.ok("aggregate", self.compress(0, "ef/sign", state="e.state"), self.compress(1, "ef/sign", state="e.state"),
                "-f", "-o", self.dir / "m.npz", "-q")

    def test_the_first_message_needs_no_state_to_be_decoded(self):
        message = self.compress(0, "diana/qsgd:s=4")
        self.decompress(message)
        self.assertIn("every check and digest is right", self.ok("info", "--test", message).out.decode())

    def test_a_later_one_is_tested_but_for_its_values(self):
        self.compress(0, "diana/qsgd:s=4")
        message = self.compress(1, "diana/qsgd:s=4")
        self.assertIn("not decoded", self.ok("info", "--test", message).err)
        for command in ("verify", "stats"):
            self.refused(USAGE, command, message, "--against", self.dir / "g1.npz", says="remembers")

    def test_what_contradicts_the_state_is_refused_by_name(self):
        scheme = "ef/topk:k=2%"
        self.compress(0, scheme, "--worker", 3, "--seed", 7)
        before = (self.dir / "w.state").read_bytes()
        for options, says in ((("--worker", 4), "worker 3, not of worker 4"), (("--seed", 8), "seed 7, not 8"),
                              (("--step", 3), "steps 1 to 2 are missing"), (("--step", 2), "step 1 is missing"),
                              (("--step", 0), "expects step 1 next, not 0")):
            self.assertIn(says, self.compress(1, scheme, *options, code=BAD_INPUT))
        for changes, says in (({"a": np.zeros((50, 60), "f4")}, "60x50"), ({"c": np.zeros(3, "f4")}, "'c'")):
            self.assertIn(says, self.compress(1, scheme, code=BAD_INPUT, dump=self.dump(1, **changes)))
        np.savez(self.dir / "less.npz", a=gradient(1)["a"])
        self.assertIn("e/b", self.compress(1, scheme, code=BAD_INPUT, dump=self.dir / "less.npz"))
        self.assertIn("'ef' remembers", self.compress(1, "diana/qsgd:s=4", code=BAD_INPUT))
        self.assertIn("remember", self.compress(1, "qsgd:s=4", code=USAGE))
        self.assertIn("encoder", self.decompress(self.first_diana(), "--state", self.dir / "w.state", code=BAD_INPUT))
        self.assertEqual((self.dir / "w.state").read_bytes(), before)
        self.assertFalse((self.dir / "m1.gradz").exists())
        self.compress(1, scheme, "--worker", 3, "--seed", 7, "--step", 1)

    def first_diana(self):
        return self.compress(0, "diana/qsgd:s=4", state="fresh.state", out="fresh.gradz")

    def test_tensors_that_go_by_raw_are_not_remembered(self):
        self.compress(0, "ef/topk:k=2%", "--min-elements", 100)
        self.assertEqual(set(self.vectors("w.state")), {"e/a"})

    def test_a_state_in_use_is_refused(self):
        import fcntl
        self.compress(0, "ef/sign")
        with open(self.dir / "w.state", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertIn("in use", self.compress(1, "ef/sign", code=IO_FAILURE))
        self.compress(1, "ef/sign")

    def test_a_damaged_state_is_refused_and_kept(self):
        self.compress(0, "ef/sign")
        whole = (self.dir / "w.state").read_bytes()
        rng = random.Random(5)
        for _ in range(60):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            (self.dir / "w.state").write_bytes(damaged)
            result = run("compress", self.dump(1), "-o", self.dir / "m1.gradz", "--scheme", "ef/sign", "--state",
                         self.dir / "w.state")
            self.assertIn(result.code, (BAD_INPUT, 6), result.err)
            self.assertEqual((self.dir / "w.state").read_bytes(), damaged)
        for size in (0, 1, 15, 16, 40, len(whole) - 1):
            (self.dir / "w.state").write_bytes(whole[:size])
            self.compress(1, "ef/sign", code=BAD_INPUT)
        self.assertFalse((self.dir / "m1.gradz").exists())

    def test_other_files_are_no_states(self):
        message = self.compress(0, "ef/sign")
        shutil.copy(message, self.dir / "copy")
        self.assertIn("not a state", self.compress(1, "ef/sign", state="copy", code=USAGE))
        self.assertIn("not a .gradz", self.compress(1, "ef/sign", state="g0.npz", code=BAD_INPUT))
        self.compress(1, "ef/sign", state=".", code=USAGE)
        self.compress(1, "ef/sign", state="/dev/null", code=USAGE)
        result = run("compress", self.dump(1), "-o", self.dir / "x.gradz", "--scheme", "ef/sign", "--state", "-")
        self.assertEqual(result.code, USAGE, result.err)
        self.assertIn("is one of the files that are read", self.compress(1, "ef/sign", out="w.state", code=USAGE))

    def test_a_step_that_fails_leaves_no_new_state(self):
        (self.dir / "there.gradz").write_bytes(b"kept")
        command = lambda *args: ["compress", self.dump(0), "--state", self.dir / "new.state", *args]  # noqa: E731
        self.refused(USAGE, *command("--scheme", "ef/sign", "-o", self.dir / "there.gradz"), says="exists already")
        self.refused(IO_FAILURE, *command("--scheme", "ef/sign", "-o", self.dir / "no" / "x.gradz"))
        self.refused(USAGE, *command("--scheme", "ef/countsketch:rows=1,cols=5", "-o", self.dir / "x.gradz"))
        self.refused(BAD_INPUT, "compress", self.dump(0, a=np.full(5, np.nan, "f4")), "--scheme", "ef/sign", "--state",
                     self.dir / "new.state", "-o", self.dir / "x.gradz")
        first = self.first_diana().read_bytes()
        (self.dir / "cut.gradz").write_bytes(first[:-20])
        self.refused(BAD_INPUT, "decompress", self.dir / "cut.gradz", "--state", self.dir / "new.state", "-o",
                     self.dir / "y.npz")
        self.assertFalse((self.dir / "new.state").exists())
        self.compress(0, "ef/sign", "--worker", 4, "--seed", 5, state="new.state")

    def test_what_is_no_file_is_not_waited_for(self):
        os.mkfifo(self.dir / "pipe")
        self.refused(USAGE, "compress", self.dump(0), "-o", self.dir / "x.gradz", "--scheme", "ef/sign", "--state",
                     self.dir / "pipe", says="regular file", timeout=20)

    def test_a_name_that_leaves_no_room_for_a_vectors(self):
        import h5py
        with h5py.File(self.dir / "long.h5", "w") as file:
            file["n" * 65534] = np.ones(3, "f4")
        self.refused(LIMIT, "compress", self.dir / "long.h5", "-o", self.dir / "x.gradz", "--scheme", "ef/sign", "--state",
                     self.dir / "new.state", says="name so long")
        self.assertFalse((self.dir / "new.state").exists())

    def test_the_message_stands_before_the_state_is_replaced(self):
        import resource
        self.compress(0, "ef/topk:k=2%")
        before = (self.dir / "w.state").read_bytes()
        command = [PROGRAM, "compress", self.dump(1), "-o", self.dir / "m1.gradz", "-f", "-q", "--scheme", "ef/topk:k=2%",
                   "--state", self.dir / "w.state"]
        # Enough for the message, not for the state.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
        done = subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=limit, check=False)
        self.assertEqual(done.returncode, IO_FAILURE, done.stderr)
        message = (self.dir / "m1.gradz").read_bytes()
        self.assertEqual((self.dir / "w.state").read_bytes(), before)
        subprocess.run(command, check=True)
        self.assertEqual((self.dir / "m1.gradz").read_bytes(), message)
        self.assertEqual(self.info(self.dir / "w.state")["step"], 2)

    def test_without_a_state_it_is_said(self):
        result = self.ok("compress", self.dump(0), "-o", self.dir / "x.gradz", "--scheme", "ef/sign")
        self.assertIn("remembers nothing without --state", result.err)
        self.assertEqual(self.info(self.dir / "x.gradz")["previous"], "0" * 16)

    def test_messages_name_the_one_before(self):
        first, second = self.compress(0, "ef/sign"), self.compress(1, "ef/sign")
        self.assertEqual(self.info(second)["previous"], self.info(first)["check"])
        self.assertEqual(self.info(self.dir / "w.state")["previous"], self.info(second)["check"])
        self.assertEqual(self.info(self.dir / "w.state")["kind"], "state")

    def test_to_a_closed_pipe_nothing_is_remembered(self):
        self.compress(0, "ef/sign")
        before = (self.dir / "w.state").read_bytes()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PROGRAM, "compress", self.dump(1), "-c", "--scheme", "ef/sign", "--state",
                               self.dir / "w.state"], stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertNotEqual(done.returncode, OK)
        self.assertEqual((self.dir / "w.state").read_bytes(), before)
        done = run("compress", self.dump(1), "-c", "--scheme", "ef/sign", "--state", self.dir / "w.state")
        self.assertEqual(done.code, OK)
        self.assertNotEqual((self.dir / "w.state").read_bytes(), before)

    def test_memory_is_limited(self):
        self.assertIn("--memory", self.compress(0, "ef/sign", "--memory", "20k", code=LIMIT))
        self.assertFalse((self.dir / "w.state").exists())

    def test_bare_messages_have_no_room_for_it(self):
        message = self.compress(0, "ef/sign")
        self.ok("info", message, "--schema-out", self.dir / "s")
        self.refused(6, "compress", self.dump(1), "-o", self.dir / "x.bare", "--bare", "--schema", self.dir / "s",
                     "--scheme", "ef/sign", says="container")


class Killed(StateTest):
    """SIGKILL at random moments: the state is there and whole, and no step is lost or taken twice."""
    SIZES = (("a", (700, 500)), ("b", (1000,)))
    KILLS = 50

    def test_no_moment_tears_a_state(self):
        scheme, steps = "ef/topk:k=1%/qsgd:s=4", 8
        for step in range(steps):
            np.savez(self.dir / f"g{step}.npz", **gradient(step, self.SIZES))
        command = lambda step, state, out: [  # noqa: E731
            PROGRAM, "compress", self.dir / f"g{step}.npz", "-o", self.dir / out, "-f", "-q", "--scheme", scheme,
            "--state", self.dir / state, "--step", str(step)]
        expected, begin = [], time.monotonic()
        for step in range(steps):
            subprocess.run(command(step, "w.state", "m.gradz"), check=True)
            if step == 0:  # the seed is the state's from here on
                shutil.copy(self.dir / "w.state", self.dir / "first")
            expected.append((self.dir / "m.gradz").read_bytes())
        one = (time.monotonic() - begin) / steps
        rng, kills, hit = random.Random(11), 0, {"before": 0, "between": 0, "after": 0}
        while kills < self.KILLS:
            shutil.copy(self.dir / "first", self.dir / "k.state")
            for step in range(1, steps):
                (self.dir / "k.gradz").unlink(missing_ok=True)
                while kills < self.KILLS:
                    process = subprocess.Popen(command(step, "k.state", "k.gradz"))
                    time.sleep(rng.uniform(0, 1.2 * one))
                    process.send_signal(signal.SIGKILL)
                    code = process.wait()
                    kills += 1
                    at = self.info(self.dir / "k.state")["step"]  # whole, or info fails
                    self.assertIn(at, (step, step + 1))
                    there = (self.dir / "k.gradz").exists()
                    hit["after" if at > step else "between" if there else "before"] += 1
                    if there:
                        self.assertEqual((self.dir / "k.gradz").read_bytes(), expected[step])
                    if at > step:
                        self.assertTrue(there)
                        break
                    self.assertNotEqual(code, OK)
                else:
                    subprocess.run(command(step, "k.state", "k.gradz"), check=True)
                self.assertEqual((self.dir / "k.gradz").read_bytes(), expected[step])
            self.assertEqual((self.dir / "k.state").read_bytes(), (self.dir / "w.state").read_bytes())
        self.assertGreater(hit["before"], 0)
        self.assertGreater(hit["after"], 0)

    def test_a_first_step_that_is_killed_keeps_its_seed(self):
        scheme = "ef/topk:k=1%/qsgd:s=4"
        np.savez(self.dir / "g.npz", **gradient(0, self.SIZES))
        rng, outputs = random.Random(3), set()
        command = [PROGRAM, "compress", self.dir / "g.npz", "-o", self.dir / "m.gradz", "-f", "-q", "--scheme", scheme,
                   "--state", self.dir / "w.state"]
        for _ in range(20):
            process = subprocess.Popen(command)
            time.sleep(rng.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (self.dir / "m.gradz").exists():
                outputs.add((self.dir / "m.gradz").read_bytes())
            if (self.dir / "w.state").exists() and self.info(self.dir / "w.state")["step"] > 0:
                break
        else:
            subprocess.run(command, check=True)
            outputs.add((self.dir / "m.gradz").read_bytes())
        self.assertEqual(len(outputs), 1)


if __name__ == "__main__":
    unittest.main()
