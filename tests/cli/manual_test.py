"""The manual page and the shells' completions say what --help says."""
# SPDX-License-Identifier: Apache-2.0
import functools
import os
import re
import shlex
import shutil
import subprocess
import unittest

import support
from support import DATA, USAGE, run

ROFF = {r"\-": "-", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\&": "", r"\e": "\\"}


def help_of(*command):
    return run(*command, "--help").out.decode()


@functools.cache
def commands():
    """{command: its options, as --help has them}"""
    names = re.findall(r"^  (\w+) ", help_of().split("Subcommands:")[1].split("\n\n")[0], re.M)
    return {name: options_of(help_of(name)) for name in names}


def options_of(text):
    lines = text.split("\nOptions:\n")[1].split("\n\n")[0].splitlines()
    words = [line.split()[0] for line in lines if line.startswith("  -")]  # -h,--help or --salvage{zero}
    return [name for word in words for name in re.sub(r"\{.*", "", word).split(",")]


@functools.cache
def script(shell):
    return run("completions", shell).out.decode()


class Table(support.CliTest):
    def test_the_help_is_understood(self):
        self.assertIn("compress", commands())
        self.assertLessEqual({"-o", "--output", "--scheme", "--state", "-T", "--threads"}, set(commands()["compress"]))
        self.assertIn("--salvage", commands()["decompress"])


class Manual(support.CliTest):
    def text(self):
        page = self.ok("man").out.decode()
        page = re.sub(r"\\f[BIR]", "", page)
        return re.sub(r"\\-|\\\(..|\\&|\\e", lambda m: ROFF[m[0]], page)

    def test_every_command_and_option_is_there(self):
        parts = re.split(r"^\.SS (.*)\n", self.text(), flags=re.M)
        sections = dict(zip(parts[1::2], parts[2::2]))
        self.assertEqual(list(sections), list(commands()))
        for command, options in commands().items():
            tags = re.findall(r"^\.TP\n(.*)", sections[command], re.M)
            names = {name for tag in tags for name in re.findall(r"(?<![^\s,])--?\w[\w-]*", tag)}
            self.assertLessEqual(set(options), names, command)

    def test_texts_codes_and_examples_are_those_of_help(self):
        text = self.text()
        self.assertIn("  gradcodec decompress grads.gradz -o part.h5 --only 'fc1.*'\n", text)
        self.assertIn("as float32 [error]; one of error, keep\n", text)
        for code, meaning in re.findall(r"(\d+) ([^,.]+)", help_of().split("Exit codes:")[1]):
            self.assertIn(f".TP\n{code}\n{meaning.strip()}\n", text)
        for what in ("TMPDIR", "GRADCODEC_KERNELS", "gradcodec-hdf5", "dqsg:levels=N", "rans-dither"):
            self.assertIn(what, text)

    @unittest.skipUnless(shutil.which("groff"), "groff is not here")
    def test_troff_has_nothing_to_warn_of(self):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=self.ok("man").out, capture_output=True)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        self.assertIn("gradcodec", done.stdout.decode())


class Bash(support.CliTest):
    def complete(self, *lines):
        """What bash makes of each line: the words of its last one that may stand there, as bash would have it say."""
        calls = [script("bash")]
        for line in lines:
            words = [piece for word in re.split(r" +", line) for piece in re.findall(r"[:=]+|[^:=]+", word) or [""]]
            calls.append(f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; COMPREPLY=()"
                         "; IFS=e; _gradcodec; IFS=' '; printf '%s\\n' \"${COMPREPLY[*]}\"")
        done = subprocess.run(["bash", "-u", "-c", "\n".join(calls)], capture_output=True, text=True, cwd=DATA)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        replies = [line.split() for line in done.stdout.splitlines()]
        return replies if len(lines) > 1 else replies[0]

    def test_every_command_and_option_is_there(self):
        self.assertEqual(set(self.complete("gradcodec ")), {"-h", "--help", "--version", *commands()})
        replies = self.complete(*(f"gradcodec {command} -" for command in commands()))
        for (command, options), reply in zip(commands().items(), replies):
            self.assertEqual(set(reply), set(options), command)

    def test_words_of_options(self):
        for line, reply in {"compress --nonfinite ": "error keep", "compress --nonfinite=k": "keep",
                            "decompress --to n": "npy npz", "decompress --salvage=": "zero omit",
                            "compress --coder ra": "rans rans-dither", "completions ": "bash zsh",
                            "decompress --dtype f": "f2 f4 f8", "compress --seed ": ""}.items():
            self.assertEqual(self.complete("gradcodec " + line), reply.split(), line)

    def test_schemes(self):
        # Of a word that bash has split, the last piece is replaced.
        for line, reply in {"--scheme dq": "dqsg:", "--scheme=dq": "dqsg:", "--scheme dqsg:": "levels= bucket= clip=",
                            "--scheme dqsg:levels=5,": "5,bucket= 5,clip=", "--scheme qsgd:s=4,norm=": "l2 max",
                            "--scheme ef/to": "ef/topk:", "--scheme topk:k=1%/qsgd:no": "norm=",
                            "--scheme onebit": "onebit onebit-ef"}.items():
            found = self.complete("gradcodec compress " + line)
            self.assertLessEqual(set(reply.split()), set(found), line)
            self.assertEqual([word for word in found if not any(w.startswith(word[:3]) for w in reply.split())], [])
        heads = {word.rstrip(":/") for word in self.complete("gradcodec compress --scheme ")}
        listed = {line.split()[0] for line in self.ok("schemes").out.decode().split("coders (")[0].splitlines()
                  if re.match(r"  \w", line)}
        self.assertEqual(heads, listed)

    def test_files_by_their_suffix(self):
        for suffix in ("h5", "npz", "gradz", "txt"):
            (self.dir / f"x.{suffix}").touch()
        for line, reply in {"compress ": ["x.h5", "x.npz"], "info ": ["x.gradz"], "replay --csv ": None,
                            "compress --scheme dqsg:levels=5 ": ["x.h5", "x.npz"]}.items():
            found = [os.path.basename(word) for word in self.complete(f"gradcodec {line}{self.dir}/x.")]
            everything = ["x.gradz", "x.h5", "x.npz", "x.txt"]  # where there is none of that kind
            self.assertEqual(sorted(found), reply or everything, line)


class Zsh(support.CliTest):
    def test_every_command_and_option_is_there(self):
        text = script("zsh")
        self.assertTrue(text.startswith("#compdef gradcodec\n"))
        for command, options in commands().items():
            self.assertRegex(text, rf"(?m)^    '{command}:")
            part = re.search(rf"(?ms)^        {command}\)\n(.*?)^          ;;$", text)[1]
            for option in options:
                self.assertRegex(part, rf"[')*]{option}[\[=+]", command)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not here")
    def test_zsh_can_parse_it(self):
        done = subprocess.run(["zsh", "-n"], input=script("zsh"), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Usage(support.CliTest):
    def test_other_shells_are_refused(self):
        self.refused(USAGE, "completions", "csh", says="csh")
        self.refused(USAGE, "completions", says="shell")

    def test_the_list_of_commands_is_whole(self):
        self.refused(USAGE, "compres", says=", ".join(commands()))


if __name__ == "__main__":
    support.main()
