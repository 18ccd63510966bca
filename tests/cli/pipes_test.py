#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams, terminals, files that exist, permissions, signals, and where options may stand."""
import io
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time

import h5py
import numpy as np

import support
from support import BAD_INPUT, IO_FAILURE, LIMIT, OK, PROGRAM, UNSUPPORTED, USAGE

CLOSED_PIPE = 128 + signal.SIGPIPE
DQSG = ["--scheme=dqsg:levels=5", "--seed=1"]


def shell(line, **options):
    """A line of bash; $G is the program, $D may be used for a folder."""
    env = {**os.environ, "G": PROGRAM, **options.pop("env", {})}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, timeout=60, env=env, **options)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return support.Result(code, done.stdout, done.stderr.decode(errors="replace"))


def load(data):
    return np.load(io.BytesIO(data))


class Streams(support.CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100)
        self.npy(self.x, "g.npy")
        self.packed = self.compress(self.dir / "g.npy", *DQSG, to=self.dir / "g.gradz")

    def sh(self, line, code=OK):
        result = shell(line, cwd=self.dir)
        self.assertEqual(result.code, code, f"{line}\n{result.err}")
        return result

    def test_an_input_that_changes_while_it_is_read_leaves_no_whole_message_on_a_pipe(self):
        path = self.npy(np.random.default_rng(1).standard_normal(4_000_000).astype(np.float32), "changing.npy")
        with subprocess.Popen([PROGRAM, "compress", path, "-o", "-", "--scheme=raw", "--coder=pack"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            data = process.stdout.read(1000)
            with open(path, "r+b") as file:
                file.seek(-4, os.SEEK_END)
                file.write(b"else")
            data += process.stdout.read()
            said = process.stderr.read().decode()
        self.assertEqual(process.returncode, IO_FAILURE, said)
        self.assertIn("changed while it was read", said)
        self.refused(BAD_INPUT, "info", "-", stdin=data)

    def test_a_pipeline(self):
        self.sh("cat g.npy | $G compress - --scheme dqsg:levels=5 --seed 1 | $G decompress - > h.npy")
        self.assert_same_bits(np.load(self.dir / "h.npy"), self.decompress(self.packed))

    def test_files_pipes_and_redirections_give_the_same_bytes(self):
        options, expected = " ".join(DQSG), self.packed.read_bytes()
        for line in (f"cat g.npy | $G compress - {options}", f"$G compress - {options} < g.npy",
                     f"$G compress g.npy {options} -o -", f"$G compress g.npy {options} -o /dev/stdout | cat",
                     f"(head -c 7; cat) < g.npy | $G compress - {options}"):
            self.assertEqual(self.sh(line).out, expected, line)
        decoded = self.sh("$G decompress g.gradz -o -").out
        for line in ("cat g.gradz | $G decompress -", "$G decompress - < g.gradz",
                     "$G decompress g.gradz -o h.npy && cat h.npy"):
            self.assertEqual(self.sh(line).out, decoded, line)

    def test_npz_through_pipes(self):
        self.npz({"a": self.x, "b": np.arange(3)}, "g.npz")
        self.sh("cat g.npz | $G compress - --scheme raw | $G decompress - > h.npz")
        loaded = np.load(self.dir / "h.npz")
        self.assert_same_bits(loaded["a"], self.x)
        self.assert_same_bits(loaded["b"], np.arange(3))

    def test_hdf5_through_pipes(self):
        self.sh(f"cat {support.DATA}/fc.h5 | $G compress - --scheme raw | $G decompress - > h.h5")
        with h5py.File(self.dir / "h.h5") as file:
            for name, x in support.real_gradient().items():
                self.assert_same_bits(file[name][()], x, name)

    def test_hdf5_into_a_closed_pipe_leaves_no_temporary_file(self):
        (self.dir / "tmp").mkdir()
        self.sh(f"export TMPDIR=$PWD/tmp; $G compress {support.DATA}/fc.h5 --scheme raw -o r.gradz -q &&"
                " { $G decompress r.gradz --to h5 -o - -q; echo $? > status; } | head -c1")
        self.assertEqual((self.dir / "status").read_text().strip(), str(CLOSED_PIPE))
        self.assertEqual(list((self.dir / "tmp").iterdir()), [])

    def test_a_full_disk(self):
        for line in ("$G compress g.npy --scheme raw -o - > /dev/full", "$G compress g.npy -o /dev/full",
                     "$G decompress g.gradz -o - > /dev/full", "$G decompress g.gradz -o - --to npz > /dev/full",
                     "$G decompress g.gradz -o /dev/full", "$G info g.gradz > /dev/full",
                     "$G info --json g.gradz > /dev/full", "$G schemes > /dev/full", "$G schemes --json > /dev/full",
                     "$G schemes dqsg > /dev/full"):
            result = self.sh(line, IO_FAILURE)
            self.assertIn("cannot be written", result.err, line)
        self.assert_no_leftovers()

    def test_a_full_disk_when_help_is_asked_for(self):
        for line in ("$G --help > /dev/full", "$G --version > /dev/full", "$G compress --help > /dev/full"):
            self.sh(line, IO_FAILURE)

    def test_no_room_for_the_file(self):
        # The shell's limit of file size stands for a full disk.
        self.sh("ulimit -f 8; $G compress g.npy --scheme raw --coder pack -o big.gradz", IO_FAILURE)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["g.gradz", "g.npy"])

    def test_standard_input_and_output_are_files_too(self):
        before = (self.dir / "g.npy").read_bytes()
        self.sh("$G compress g.npy -c >> g.npy", USAGE)
        self.sh("$G compress - -f -o g.npy < g.npy", USAGE)
        self.assertEqual((self.dir / "g.npy").read_bytes(), before)

    def test_a_closed_pipe_is_quiet(self):
        self.npy(np.zeros(1 << 20, np.int32), "big.npy")
        for ignored in ("", "trap '' PIPE; "):
            for line in ("$G compress big.npy --scheme raw --coder pack -o - -q", "$G schemes --json",
                         "$G info g.gradz",
                         "$G decompress - -q < <($G compress big.npy --scheme raw -q -o -)"):
                # The reader is gone before the program starts to write.
                result = self.sh(f"{ignored}{{ sleep 0.05; {line}; echo $? > status; }} | true")
                status = (self.dir / "status").read_text().strip()
                self.assertEqual((status, result.err), (str(CLOSED_PIPE), ""), ignored + line)

    def test_logs_have_no_carriage_returns(self):
        for line in ("$G compress g.npy -o a.gradz -v", "$G decompress a.gradz -v -o b.npy", "$G info --test a.gradz"):
            self.assertNotIn("\r", self.sh(line).err, line)

    def test_what_is_said_goes_to_stderr_and_quiet_is_quiet(self):
        loud = self.sh("$G compress g.npy -o a.gradz")
        self.assertEqual(loud.out, b"")
        self.assertIn("dither:nmse=0.1", loud.err)
        self.assertRegex(loud.err, r"a\.gradz: 5,000 values, 20,000 -> [\d,]+ bytes, [\d.]+ times smaller, [\d.]+ bits")
        self.assertEqual(self.sh("$G compress g.npy -q -f -o a.gradz").err, "")
        self.assertEqual(self.sh("$G decompress a.gradz -q -o b.npy").err, "")
        self.assertIn("seed 5", self.sh("$G compress g.npy -v -f -o a.gradz --seed 5").err)

    def test_two_messages_in_a_stream(self):
        self.npy(-self.x, "h.npy")
        self.compress(self.dir / "h.npy", "--scheme=raw", to=self.dir / "h.gradz")
        self.sh("cat g.gradz h.gradz | $G decompress - --stream -o 'm{}.npy'")
        self.assert_same_bits(np.load(self.dir / "m0.npy"), self.decompress(self.packed))
        self.assert_same_bits(np.load(self.dir / "m1.npy"), -self.x)
        both = self.sh("cat g.gradz h.gradz | $G decompress - --stream -o -").out
        self.assertEqual(both, (self.dir / "m0.npy").read_bytes() + (self.dir / "m1.npy").read_bytes())
        self.sh("cat g.gradz h.gradz | $G info - --stream --test")
        size = self.packed.stat().st_size
        told = self.sh("cat g.gradz h.gradz | $G decompress - -o x.npy", BAD_INPUT).err
        self.assertIn(f"byte {size}: a second file begins here (--stream", told)
        self.assertFalse((self.dir / "x.npy").exists())

    def test_a_stream_that_is_cut_or_has_junk(self):
        size = self.packed.stat().st_size
        for line in (f"(cat g.gradz; head -c {size - 1} g.gradz)", "(cat g.gradz; echo junk)",
                     "(cat g.gradz; head -c 30 /dev/zero)", "(cat g.gradz; head -c 7 g.gradz)"):
            err = self.sh(line + " | $G decompress - --stream -o 'm{}.npy' -f", BAD_INPUT).err
            self.assertRegex(err, f"byte {size}|byte [0-9]{{4,}}", line)
        self.sh("$G decompress - --stream -o 'm{}.npy' < /dev/null", BAD_INPUT)
        self.sh("$G decompress - < /dev/null", BAD_INPUT)

    def test_messages_of_a_stream_never_share_a_file(self):
        for line in ("cat g.gradz g.gradz | $G decompress - --stream -f -o one.npy",
                     "$G decompress g.gradz --stream -o one.npy"):
            self.assertIn("{}", self.sh(line, USAGE).err)
            self.assertFalse((self.dir / "one.npy").exists())

    def test_an_input_that_is_not_there(self):
        for line in ("$G compress none.npy", "$G decompress none.gradz", "$G info none.gradz"):
            self.assertIn("none.", self.sh(line, IO_FAILURE).err)
        for line in ("$G compress .", "$G info .", "$G compress g.npy -o ."):
            self.assertIn("is a directory", self.sh(line, USAGE).err)
        self.sh("$G compress g.npy -o none/x.gradz", IO_FAILURE)


class Files(support.CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100)
        self.source = self.npy(self.x, "g.npy")
        self.packed = self.compress(self.source, *DQSG, to=self.dir / "g.gradz")

    def test_an_existing_output_is_kept(self):
        old = self.write(b"old", "old")
        for call in (["compress", self.source], ["decompress", self.packed], ["info", self.packed]):
            option = "--schema-out" if call[0] == "info" else "-o"
            self.refused(USAGE, *call, option, old, says="-f")
            self.assertEqual(old.read_bytes(), b"old")
            self.ok(*call, option, old, "-f")
            self.assertNotEqual(old.read_bytes(), b"old")
            old.write_bytes(b"old")
        self.assert_no_leftovers()

    def test_force_keeps_the_output_when_the_source_is_missing_or_bad(self):
        old = self.write(b"old", "old.npz")
        bad = self.write(self.packed.read_bytes()[:-9], "bad.gradz")
        nan = self.npy(np.array([1, np.nan], np.float32), "nan.npy")
        for call, code in [(["compress", self.dir / "none"], IO_FAILURE),
                           (["decompress", self.dir / "none"], IO_FAILURE),
                           (["compress", bad], BAD_INPUT), (["compress", nan], BAD_INPUT),
                           (["decompress", bad], BAD_INPUT), (["decompress", self.source], BAD_INPUT),
                           (["decompress", self.packed, "--dtype=f3"], USAGE),
                           (["decompress", self.packed, "--only=none"], USAGE),
                           (["decompress", self.packed, "--max-output=10"], LIMIT),
                           (["compress", self.source, "--scheme=nope"], USAGE)]:
            self.refused(code, *call, "-f", "-o", old)
            self.assertEqual(old.read_bytes(), b"old", call)
        self.assert_no_leftovers()

    def test_the_input_is_kept(self):
        before = self.source.read_bytes(), self.packed.read_bytes()
        self.ok("compress", self.source)
        self.ok("decompress", self.packed, "-o", self.dir / "h.npy")
        self.assertEqual((self.source.read_bytes(), self.packed.read_bytes()), before)

    def test_an_output_is_never_an_input(self):
        link, before = self.dir / "link", self.packed.read_bytes()
        link.symlink_to(self.packed)
        schema = self.dir / "s.schema"
        self.ok("info", self.packed, "--schema-out", schema)
        for call in (["decompress", self.packed, "-o", self.packed], ["decompress", self.packed, "-o", link],
                     ["decompress", link, "-o", self.packed], ["info", self.packed, "--schema-out", self.packed]):
            self.refused(USAGE, *call, "-f", says="is one of the files that are read")
        self.assertEqual(self.packed.read_bytes(), before)
        self.refused(USAGE, "compress", self.source, "-f", "-o", self.source, says="is one of the files that are read")
        self.refused(USAGE, "compress", self.source, *DQSG[:1], "--bare", "--schema", schema, "-f", "-o", schema,
                     says="is one of the files that are read")
        bare = self.dir / "m.bare"
        self.ok("compress", self.source, *DQSG, "--bare", "--schema", schema, "-o", bare)
        for output in (bare, schema):
            self.refused(USAGE, "decompress", bare, "--schema", schema, "--to=npy", "-f", "-o", output,
                         says="is one of the files that are read")

    def test_an_output_through_a_link_replaces_what_it_points_to(self):
        target, link = self.write(b"old", "target"), self.dir / "link"
        link.symlink_to("target")
        self.refused(USAGE, "decompress", self.packed, "-o", link)
        self.ok("decompress", self.packed, "-f", "-o", link, "--to=npy")
        self.assertTrue(link.is_symlink())
        self.assertEqual(np.load(target).shape, self.x.shape)

    def test_default_names(self):
        def made(*call):
            before = set(self.dir.iterdir())
            self.ok(*call)
            return [p.name for p in set(self.dir.iterdir()) - before]
        self.npz({"a": self.x}, "n.npz")
        self.assertEqual(made("compress", self.dir / "n.npz"), ["n.npz.gradz"])
        (self.dir / "n.npz").unlink()
        self.assertEqual(made("decompress", self.dir / "n.npz.gradz"), ["n.npz"])
        (self.dir / "g.npy").unlink()
        self.assertEqual(made("decompress", self.packed), ["g.npy"])
        self.assertEqual(made("decompress", self.packed, "--to=npz"), ["g.npz"])
        (self.dir / "g.npz").unlink()
        (self.dir / "g.npy").unlink()
        self.packed.rename(self.dir / "other.name")
        self.refused(USAGE, "decompress", self.dir / "other.name", says="-o")

    def test_permissions(self):
        def mode_of(path):
            return stat.S_IMODE(path.stat().st_mode)
        for mask, source_mode, expected in [(0o022, 0o644, 0o644), (0o077, 0o644, 0o600), (0o022, 0o600, 0o600),
                                            (0o077, 0o600, 0o600), (0o022, 0o666, 0o644), (0, 0o640, 0o640)]:
            self.source.chmod(source_mode)
            line = (f"umask {mask:o}; $G compress g.npy -f -o a.gradz && $G decompress a.gradz -f -o b.npy &&"
                    " $G info a.gradz -f --schema-out c.schema && cat g.npy | $G compress - -f -o d.gradz")
            self.assertEqual(shell(line, cwd=self.dir).code, OK)
            told = f"umask {mask:o}, source {source_mode:o}"
            for name in ("a.gradz", "b.npy", "c.schema"):
                self.assertEqual(oct(mode_of(self.dir / name)), oct(expected), f"{told}: {name}")
            self.assertEqual(oct(mode_of(self.dir / "d.gradz")), oct(0o666 & ~mask), told)

    def test_a_signal_leaves_no_hidden_file(self):
        big = self.npy(np.random.default_rng(1).standard_normal(1 << 23, np.float32), "big.npy")
        packed = self.compress(big, "--scheme=raw", "--coder=pack")
        old = self.write(b"old", "old.npy")
        for call in (["compress", big, "--scheme=raw", "--level=9", "-T1"], ["decompress", packed, "-T1"]):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                process = subprocess.Popen([PROGRAM, *call, "-f", "-o", old])
                deadline = time.monotonic() + 20
                while process.poll() is None and not any(p.name.startswith(".") for p in self.dir.iterdir()):
                    self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)  # the file is there an instant before the signals are caught
                process.send_signal(number)
                code = process.wait(20)
                self.assert_no_leftovers()
                if code == -number:
                    self.assertEqual(old.read_bytes(), b"old")
                    break
            self.assertEqual(code, -number, call)
            old.write_bytes(b"old")


class Options(support.CliTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"fc1.weight": np.linspace(-1, 1, 600, dtype=np.float32).reshape(20, 30),
                        "fc1.bias": np.linspace(-2, 1, 20, dtype=np.float32),
                        "fc2.weight": np.linspace(-1, 3, 200, dtype=np.float64), "step": np.arange(4)}
        self.source = self.npz(self.tensors)

    def schemes(self, *options):
        packed = self.compress(self.source, *DQSG, *options)
        return {t["name"]: t["scheme"].split(":")[0] for t in self.info(packed)["tensors"]}

    def test_options_stand_before_between_and_after_paths(self):
        out, results = self.dir / "o.gradz", set()
        options = ["--seed=1", "-q", "-f", "--scheme", "dqsg:levels=3", "--include", "fc*", "-T", "2"]
        for call in ([*options, self.source, "-o", out], [self.source, *options, "-o", out],
                     ["-o", out, self.source, *options], ["-o", out, *options, self.source],
                     [*options, "-o", out, self.source]):
            self.ok("compress", *call)
            results.add(out.read_bytes())
        self.assertEqual(len(results), 1)
        for call in (["--only", "fc*", out, "-o", "-"], [out, "--only", "fc*", "-o", "-"],
                     ["-o", "-", "--only", "fc*", out]):
            self.assertEqual(list(load(self.ok("decompress", *call).out)), ["fc1.weight", "fc1.bias", "fc2.weight"])

    def test_a_list_option_takes_one_value_and_not_the_path_after_it(self):
        out = self.dir / "o.gradz"
        self.ok("compress", "--include", "fc*", self.source, "-o", out)
        self.ok("compress", "--exclude", "fc*", self.source, "-f", "-o", out)
        self.ok("compress", "-f", "--include", "fc*", "--include", "s*", self.source, "-o", out)

    def test_include_exclude_min_elements(self):
        raw = dict.fromkeys(self.tensors, "raw")
        self.assertEqual(self.schemes(), {**dict.fromkeys(self.tensors, "dqsg"), "step": "raw"})
        self.assertEqual(self.schemes("--include=fc1.*"), {**raw, "fc1.weight": "dqsg", "fc1.bias": "dqsg"})
        self.assertEqual(self.schemes("--include=fc1.*", "--include=*2*", "--exclude=*bias"),
                         {**raw, "fc1.weight": "dqsg", "fc2.weight": "dqsg"})
        self.assertEqual(self.schemes("--min-elements=21"), {**raw, "fc1.weight": "dqsg", "fc2.weight": "dqsg"})
        self.assertEqual(self.schemes("--min-elements=20", "--exclude=fc?.weight"), {**raw, "fc1.bias": "dqsg"})
        self.assertEqual(self.schemes("--exclude=fc*"), raw)

    def test_raw_tensors_come_back_beside_lossy_ones(self):
        decoded = self.decompress(self.compress(self.source, *DQSG, "--include=fc1.*"), suffix=".npz")
        self.assert_same_bits(decoded["fc2.weight"], self.tensors["fc2.weight"])
        self.assert_same_bits(decoded["step"], self.tensors["step"])
        self.assertFalse(np.array_equal(decoded["fc1.bias"], self.tensors["fc1.bias"]))

    def test_only(self):
        packed = self.compress(self.source, *DQSG)
        whole = self.decompress(packed, suffix=".npz")
        for glob, names in [("fc1.*", ["fc1.weight", "fc1.bias"]), ("*.weight", ["fc1.weight", "fc2.weight"]),
                            ("step", ["step"]), ("*", list(self.tensors))]:
            part = self.decompress(packed, "--only", glob, suffix=".npz")
            self.assertEqual(list(part), names, glob)
            for name in names:
                self.assert_same_bits(part[name], whole[name], name)
        one = self.decompress(packed, "--only", "fc1.bias")
        self.assert_same_bits(one, whole["fc1.bias"])
        self.refused(USAGE, "decompress", packed, "-o", self.dir / "o.npz", "--only", "nothing", says="nothing")
        self.refused((USAGE, UNSUPPORTED), "decompress", packed, "-o", self.dir / "o.npy")

    def test_dtype(self):
        packed = self.compress(self.source, *DQSG)
        f4 = self.decompress(packed, "--dtype=f4", suffix=".npz")
        f8 = self.decompress(packed, "--dtype=f8", suffix=".npz")
        for name, x in f4.items():
            if name == "step":
                self.assertEqual((x.dtype, f8[name].dtype), (np.int64, np.int64))
                continue
            self.assertEqual((x.dtype, f8[name].dtype), (np.float32, np.float64))
            self.assert_same_bits(f8[name], x.astype(np.float64), name)
        own = self.decompress(packed, suffix=".npz")
        self.assertEqual({n: x.dtype for n, x in own.items()}, {n: x.dtype for n, x in self.tensors.items()})
        for bad in ("i4", "f16", "float", ""):
            result = support.run("decompress", packed, "-o", self.dir / "o.npz", "--dtype", bad)
            self.assertIn(result.code, (USAGE, UNSUPPORTED) if bad else (USAGE, UNSUPPORTED, OK), bad)

    def test_max_output(self):
        packed = self.compress(self.source, *DQSG)
        size = sum(x.nbytes for x in self.tensors.values())
        output = self.dir / "o.npz"
        self.refused(LIMIT, "decompress", packed, "-o", output, f"--max-output={size - 1}", says="--max-output")
        self.assertFalse(output.exists())
        self.ok("decompress", packed, "-o", output, f"--max-output={size}")

    def test_metadata_comes_back(self):
        text = '{"b": [1, -2, 2.5, 1e300, true, null, "\u00fc"], "a": {"deep": [[[1]]]}, "n": 18446744073709551615}'
        packed = self.compress(self.source, "--metadata", text)
        kept = self.info(packed)["metadata"]
        self.assertEqual(kept["user"], json.loads(text))
        self.assertIn("gradcodec", kept["program"])
        self.assertNotIn("metadata", self.info(self.compress(self.source)))
        for bad in ("{", "nan", "{'a': 1}", "[" * 100 + "]" * 100, '"\\ud800"', "1 2", '{"a": 1e999}'):
            call = ["compress", self.source, "-f", "-o", self.dir / "o", "--metadata", bad]
            self.refused(USAGE, *call, says="--metadata")
        self.ok("info", packed)

    def test_levels_are_real(self):
        options = ["--scheme=dither:nmse=0.1", "--seed=1"]
        sizes = [self.compress(support.DATA / "fc.h5", *options, f"-{level}", to=self.dir / "o").stat().st_size
                 for level in (1, 2, 5)]
        self.assertEqual(sizes, sorted(set(sizes), reverse=True))

    def test_every_level_decodes_to_the_same_values(self):
        decoded = [self.decompress(self.compress(self.source, *DQSG, f"--level={level}"), suffix=".npz")
                   for level in range(1, 10)]
        for other in decoded[1:]:
            for name, x in decoded[0].items():
                self.assert_same_bits(other[name], x, name)
        for bad in ("0", "10", "-1", "x", "1.5"):
            self.refused(USAGE, "compress", self.source, "--level", bad, "-o", self.dir / "o")
        self.assertEqual(support.run("compress", self.source, "--level=1", "--coder=pack", "-o", "-").code, USAGE)

    def test_more_threads_than_elements(self):
        source = self.npy(np.array([1, 2, 3], np.float32))
        alone = self.compress(source, *DQSG, "-T1").read_bytes()
        self.assertEqual(self.compress(source, *DQSG, "-T64").read_bytes(), alone)
        self.assertEqual(self.decompress(self.dir / "x.npy.gradz", "-T64").shape, (3,))

    def test_wrong_usage(self):
        for call in ([], ["nope"], ["compress"], ["compress", self.source, "more"], ["compress", self.source, "--nope"],
                     ["decompress"], ["info"], ["schemes", "nope"]):
            self.assertEqual(support.run(*call).code, USAGE, call)
        for option in ("--seed=-1", "--seed=18446744073709551616", "--seed=1.0", "--seed=x", "--worker=4294967296",
                       "--step=-1", "-T=-1", "-T=x", "--chunk-log2=11", "--chunk-log2=23", "--chunk-log2=x",
                       "--min-elements=-1", "--nonfinite=maybe", "--coder=nope", "--scheme=nope", "--memory=x",
                       "--memory=99999999T", "--bare", "--schema=x"):
            (self.dir / "o").unlink(missing_ok=True)
            result = support.run("compress", self.source, "-o", self.dir / "o", option)
            self.assertEqual(result.code, USAGE, f"{option}: {result.err}")
            self.assertFalse((self.dir / "o").exists(), option)

    def test_wrong_scheme_parameters(self):
        for scheme in ("dqsg", "dqsg:", "dqsg:levels=0", "dqsg:levels=1", "dqsg:levels=2", "dqsg:levels=4",
                       "dqsg:levels=65537", "dqsg:levels=-3", "dqsg:levels=3.0", "dqsg:levels=x",
                       "dqsg:levels=3,levels=3",
                       "dqsg:levels=3,bucket=-1", "dqsg:levels=3,bucket=18446744073709551616",
                       "dqsg:levels=3,bucket=1000000000", "dqsg:levels=3,clip=0", "dqsg:levels=3,clip=-1",
                       "dqsg:levels=3,clip=nan", "dqsg:levels=3,clip=inf", "dqsg:levels=3,nope=1", "dqsg:levels=3,",
                       "dqsg:levels=3:bucket=1", "dqsg:levels=3,clip=0x1", "dqsg:levels=3,clip=1,5", "raw:a=1", "raw:",
                       "dither", "dither:nmse=0", "dither:nmse=-1", "dither:nmse=nan", "dither:nmse=1e9",
                       "dither:nmse=0.1,step=1", "dither:step=0", "dither:step=1,bucket=5", "dither:step=1e-46",
                       "dither:nmse=", "dither:nmse=0.1 ", ":", "raw/raw", "raw+raw", "DQSG:levels=3"):
            self.refused(USAGE, "compress", self.source, "-o", self.dir / "o", "--scheme", scheme, says="scheme")

    def test_schemes_lists_what_there_is(self):
        listed = {s["name"]: s for s in json.loads(self.ok("schemes", "--json").out)}
        self.assertLessEqual({"raw", "dqsg", "dither"}, set(listed))
        text = self.ok("schemes").out.decode()
        for name, scheme in listed.items():
            self.assertIn(name, text)
            page = self.ok("schemes", name).out.decode()
            for value in (*(scheme[key] for key in ("summary", "state", "source", "example", "specification")),
                          f"promises ({scheme['promise']})\n", *[f"\n  {p['name']} " for p in scheme["params"]]):
                self.assertIn(value, page)
            self.assertEqual(json.loads(self.ok("schemes", name, "--json").out), [scheme])

    def test_list_of_schemes_has_aligned_columns(self):
        text = self.ok("schemes").out.decode()
        self.assertLessEqual(max(map(len, text.splitlines())), 110)
        listed = json.loads(self.ok("schemes", "--json").out)
        names, words = (max(len(s[key]) for s in listed) for key in ("name", "promise"))
        expected = []
        for s in listed:
            expected.append(f"  {s['name']:{names}}  {s['promise']:{words}}  {s['summary']}")
            if s["short_params"]:
                expected.append(f"  {'':{names}}  {s['short_params']}")
        self.assertIn("\n" + "\n".join(expected) + "\n\n", text)
        coders = text.split("coders (--coder)\n")[1].splitlines()
        starts = {re.match(r"  \S+ +", line).end() for line in coders}
        self.assertEqual(len(starts), 1, coders)

    def test_examples_and_pages_of_schemes_are_there(self):
        self.ok("compress", support.DATA / "fc.h5", "-q", "-o", self.dir / "some", "--scheme", "topk:k=1%")
        self.ok("decompress", self.dir / "some", "-q", "--top=1%", "--indices", self.dir / "round.indices")
        for scheme in json.loads(self.ok("schemes", "--json").out):
            command = scheme["example"].split()
            self.assertEqual(command[:3], ["gradcodec", "compress", "grads.h5"])
            self.ok("compress", support.DATA / "fc.h5", "-f", "-q", "-o", "o", *command[3:], cwd=self.dir)
            self.assertTrue((support.DATA.parents[1] / scheme["specification"]).is_file(), scheme["specification"])

    def test_help_and_version(self):
        for call in (["--help"], ["compress", "--help"], ["decompress", "--help"], ["info", "--help"],
                     ["schemes", "--help"]):
            self.assertIn(b"Examples:" if len(call) > 1 else b"Exit codes", self.ok(*call).out)
        self.assertRegex(self.ok("--version").out, rb"^gradcodec \d+\.\d+\.\d+ \(format 1\.0\)\n$")


class Terminal(support.CliTest):
    def on_terminal(self, *args, stdout=True, stderr=False, stdin=None):
        """Runs with stdout and/or stderr on a terminal; returns the code and what it showed."""
        leader, follower = pty.openpty()
        try:
            process = subprocess.Popen([PROGRAM, *map(str, args)], stdin=stdin or subprocess.DEVNULL,
                                       stdout=follower if stdout else subprocess.DEVNULL,
                                       stderr=follower if stderr else subprocess.PIPE)
            os.close(follower)
            shown, deadline = b"", time.monotonic() + 60
            while time.monotonic() < deadline:
                if select.select([leader], [], [], 0.2)[0]:
                    try:
                        piece = os.read(leader, 65536)
                    except OSError:  # closed on the other side
                        break
                    if not piece:
                        break
                    shown += piece
                elif process.poll() is not None:
                    break
            err = process.stderr.read() if process.stderr else b""
            return process.wait(60), shown.decode(errors="replace"), err.decode(errors="replace")
        finally:
            os.close(leader)

    def test_binary_is_not_written_to_a_terminal(self):
        source = self.npy(np.ones(3, np.float32))
        packed = self.compress(source)
        for call in (["compress", source, "-o", "-"], ["decompress", packed, "-o", "-"],
                     ["decompress", packed, "-o", "-", "--to=npz"], ["compress", source, "-f", "-o", "-"]):
            code, shown, err = self.on_terminal(*call)
            self.assertEqual((code, shown), (USAGE, ""), call)
            self.assertIn("terminal", err)

    def test_tables_are_written_to_a_terminal(self):
        code, shown, _ = self.on_terminal("info", self.compress(self.npy(np.ones(3, np.float32))))
        self.assertEqual(code, OK)
        self.assertIn("where the bytes went", shown)

    def test_no_progress_for_quick_work(self):
        source = self.npy(np.ones(3, np.float32))
        _, shown, _ = self.on_terminal("compress", source, stdout=False, stderr=True)
        self.assertNotIn("%", shown)

    def slow_pipe(self, data, seconds):
        """A file object whose reader gets the last byte only after a while."""
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            os.write(write, data[:-1])
            time.sleep(seconds)
            os.write(write, data[-1:])
            os._exit(0)
        os.close(write)
        self.addCleanup(os.wait)
        return os.fdopen(read, "rb")

    def test_progress_shows_after_a_second_and_is_cleared(self):
        packed = self.compress(self.npy(np.ones(20_000, np.float32)), *DQSG, "--chunk-log2=12").read_bytes()
        calls = [["decompress", "-", "-o", self.dir / "o.npy", "-f"], ["info", "--test", "-"],
                 ["decompress", "-", "-o", self.dir / "o.npy", "-f", "--dtype=f2"]]
        for call in calls:
            with self.subTest(call=call):
                with self.slow_pipe(packed, 1.6) as stdin:
                    code, shown, _ = self.on_terminal(*call, stdout=False, stderr=True, stdin=stdin)
                self.assertEqual(code, OK, call)
                self.assertRegex(shown, r"\r\[[# ]{30}\] +\d+ %", call)
                self.assertNotRegex(shown, r"-\d+ s left", call)
                percents = [int(p) for p in re.findall(r"(\d+) %", shown)]
                self.assertTrue(all(0 < p <= 100 for p in percents), f"{call}: {percents}")
                after = shown[shown.rindex("%"):]
                self.assertIn("\r\x1b[K", after, f"{call}: the line is cleared before what follows")
                with self.slow_pipe(packed, 1.3) as stdin:
                    _, shown, _ = self.on_terminal(*call, "-q", stdout=False, stderr=True, stdin=stdin)
                self.assertEqual(shown, "", call)

    def test_an_error_stands_on_its_own_line_after_progress(self):
        packed = self.compress(self.npy(np.ones(20_000, np.float32)), *DQSG, "--chunk-log2=12").read_bytes()
        with self.slow_pipe(packed[:-1] + b"\0", 1.3) as stdin:
            code, shown, _ = self.on_terminal("info", "-", stdout=False, stderr=True, stdin=stdin)
        self.assertEqual(code, BAD_INPUT)
        self.assertRegex(shown, "\r\x1b\\[Kgradcodec: ")


if __name__ == "__main__":
    support.main()
