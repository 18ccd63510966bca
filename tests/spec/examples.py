"""The worked examples of spec/: fenced blocks named `example=NAME`, of three kinds.

    json   the dump that goes in, and the bits of its decoded elements; "remembered", those of a state's vectors; "side",
           another dump: side information
    sh     the commands that make the files
    hex    a file (file=NAME), dissected: hex digits, `#` begins a comment
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import pathlib
import re
import shlex

import numpy as np

SPEC = pathlib.Path(__file__).resolve().parents[2] / "spec"
FENCE = re.compile(r"^```(json|sh|hex) example=([a-z0-9-]+)(?: file=([a-z0-9.-]+))?\n(.*?)^```$", re.M | re.S)


class Example:
    def __init__(self):
        self.page, self.input, self.tensors, self.commands, self.files = None, None, {}, [], {}
        self.remembered = {}
        self.side_input, self.sides = None, {}

    def add(self, page, kind, file, text):
        if self.page not in (None, page):
            raise ValueError("an example's name is on two pages: %s, %s" % (page, self.page))
        self.page = page
        if kind == "json":
            whole = json.loads(text)
            self.input, self.tensors = whole["input"], whole["tensors"]
            self.remembered = whole.get("remembered", {})
            if "side" in whole:
                self.side_input = whole["side"]["input"]
                self.sides = {name: filled(tensor, "", float) for name, tensor in whole["side"]["tensors"].items()}
        elif kind == "sh":
            lines = text.replace("\\\n", " ").splitlines()
            self.commands = [shlex.split(line)[1:] for line in lines if line.startswith("gradcodec ")]
            if len(self.commands) != len(lines):
                raise ValueError("%s: only gradcodec's commands" % page)
        else:
            self.files[file] = bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))

    def decoded_of(self, file):
        """{name: bytes} of what a file decodes to: of a state, what is remembered, float64 bits."""
        if not file.endswith(".state"):
            return self.decoded()
        return {name: b"".join(bytes.fromhex(bits)[::-1] for bits in vector)
                for name, vector in self.remembered.items()}

    def write_input(self, folder):
        save(folder / self.input, {name: filled(tensor, "", float) for name, tensor in self.tensors.items()})
        if self.sides:
            save(folder / self.side_input, self.sides)

    def files_beside(self, file):
        """(option, file) of the schema file of a bare message, or the index set that a message answers."""
        if file.endswith(".bare"):
            return [("schema", next(name for name in self.files if name.endswith(".schema")))]
        return [("at", name) for name in self.files if name.endswith(".indices")]

    def side_arguments(self):
        return ["--side-info", self.side_input] if self.sides else []

    def decoded(self):
        """{name: bytes of its elements}, as the page prints them."""
        return {name: filled(tensor, "decoded", lambda text: int(text, 16)).tobytes()
                for name, tensor in self.tensors.items()}


def save(path, arrays):
    if path.suffix == ".npy":
        np.save(path, arrays["array"])
    else:
        np.savez(path, **arrays)


def filled(tensor, key, read):
    dtype = np.dtype(tensor["dtype"])
    if key:
        dtype = np.dtype("<u%d" % dtype.itemsize)
    prefix = key + "_" if key else ""
    if prefix + "fill" in tensor:
        flat = np.full(int(np.prod(tensor["shape"])), read(tensor[prefix + "fill"]), dtype)
        for index, value in tensor[prefix + "set"].items():
            flat[int(index)] = read(value)
    else:
        flat = np.array([read(value) for value in tensor[key or "values"]]).astype(dtype)
    return flat.reshape(tensor["shape"])


def read_examples():
    """{name: Example} of all pages."""
    out = collections.defaultdict(Example)
    for page in sorted(SPEC.rglob("*.md")):
        for kind, name, file, text in FENCE.findall(page.read_text()):
            out[name].add(str(page.relative_to(SPEC)), kind, file, text)
    return dict(out)
