#!/usr/bin/env python3
"""A second decoder of .gradz files, written from the pages of spec/: slow, plain, one module a chapter.

    python3 spec/reference/decode.py IN -o OUT.npz
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys

if __name__ == "__main__":  # `reference` is the package; its folder must not hide numbers and random of Python
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import argparse
import tempfile

import numpy as np

from reference import bare
from reference import container
from reference import dumps
from reference import rounds
from reference import side_info
from reference import state as states
from reference.numbers import from_lossy, from_raw
from reference.reading import Refused, Usage, require
from reference.tensors import Context

DTYPES = ("f2", "bf16", "f4", "f8")


class Beside:
    """What a reader is given beside the message, each as bytes or None."""

    def __init__(self, schema=None, side=None, at=None, state=None):
        self.schema, self.side, self.at, self.state = schema, side, at, state

    def __call__(self, header):
        """The context of a file: checked against what its MESSAGE says before a frame is decoded."""
        sides = index_set = None
        require(header.answers or self.at is None, "an index set has no place here: nothing answers one", Usage)
        if header.answers:
            require(self.at is not None, "an answer is decoded with its index set", Usage)
            index_set, name = rounds.read_index_set(self.at)
            require(name == header.side, "another index set than the one that is answered")
        require(header.takes_side or self.side is None, "side information has no place here", Usage)
        if self.side is not None:
            sides, digest = side_info.read_sides(self.side, header.schema)
            require(header.side in (None, digest), "other side information than the encoder saw")
        return Context(sides, index_set, states.memory_for(header, self.state))


def decode(data, schema=None, side=None, at=None, state=None, top=None, heavymix=False, dtype=None, only=None):
    """{name: (dtype, shape, bytes)} of one message, all in memory. Raises reading.Refused.

    `data`, `schema`, `side`, `at` and `state` are the bytes of files. `top` is a text, a number of elements or a
    percentage. `dtype`: of float tensors. `only`: names of the tensors that are wanted."""
    with np.errstate(all="ignore"):
        return tensors_of(read(data, Beside(schema, side, at, state), only), top, heavymix, dtype)


def decode_stream(data, beside, top=None, heavymix=False, dtype=None):
    """The same of each message of a stream."""
    with np.errstate(all="ignore"):
        return [tensors_of(file, top, heavymix, dtype) for file in container.read_stream(data, beside)]


def read(data, beside, only=None):
    if data[:4] != bare.MAGIC:
        require(beside.schema is None, "not a bare message, though a schema file is given")
        return container.read_file(data, beside, only)
    require(beside.schema is not None, "a bare message is decoded with its schema file", Usage)
    schema, _ = container.read_schema_file(beside.schema)
    sides = side_info.read_sides(beside.side, schema)[0] if beside.side is not None else None
    return bare.BareMessage(data, beside.schema, sides)


def tensors_of(file, top, heavymix, dtype):
    if top is not None:
        rounds.take_top(file.decoders, top, file.header if heavymix else None)
    return {name: (output_type(decoder.tensor, dtype), decoder.tensor.shape, output_bytes(decoder, dtype))
            for name, decoder in file.decoders.items()}


def output_type(tensor, dtype):
    return dtype if dtype and tensor.type.is_float else tensor.type.name


def output_bytes(decoder, dtype):
    wanted = output_type(decoder.tensor, dtype)
    if decoder.is_raw:
        elements = b"".join(decoder.parts)
        return from_raw(elements, decoder.tensor.type.name, wanted) if decoder.tensor.type.is_float else elements
    values = np.concatenate(decoder.parts)
    return from_lossy(values, wanted, decoder.place.keys.message, decoder.place.ordinal, 0)


# --- the command

def arguments():
    parser = argparse.ArgumentParser(description="Decodes a .gradz file to an .npz.")
    parser.add_argument("input", help="a .gradz file or a bare message; - is standard input")
    parser.add_argument("-o", "--output", required=True, help="the .npz; {} in it is a message's number")
    parser.add_argument("--schema", help="the schema file of a bare message")
    parser.add_argument("--side-info", help="side information: .npy, .npz or .gradz")
    parser.add_argument("--at", help="the index set that the message answers")
    parser.add_argument("--state", help="what a decoder of diana remembers; it is read and stays as it is")
    parser.add_argument("--top", help="only so many elements, or so many in a hundred (5%%), of the largest magnitudes")
    parser.add_argument("--heavymix", action="store_true", help="with --top: what is heavy, and others at random")
    parser.add_argument("--dtype", choices=DTYPES, help="of float tensors")
    parser.add_argument("--stream", action="store_true", help="message after message")
    return parser.parse_args()


def file_bytes(path):
    if path is None:
        return None
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def write(path, tensors):
    """Beside its place first, so that nobody sees a part of it."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as file:
        try:
            dumps.write_npz(file, tensors)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def main():
    asked = arguments()
    beside = Beside(*map(file_bytes, (asked.schema, asked.side_info, asked.at, asked.state)))
    data = file_bytes(asked.input)
    if asked.stream:
        results = decode_stream(data, beside, asked.top, asked.heavymix, asked.dtype)
        for i, tensors in enumerate(results):
            write(asked.output.replace("{}", str(i)), tensors)
    else:
        with np.errstate(all="ignore"):
            write(asked.output, tensors_of(read(data, beside), asked.top, asked.heavymix, asked.dtype))


def exit_code():
    try:
        main()
        return 0
    except Refused as refusal:
        what, code = refusal, refusal.code
    except OSError as error:
        what, code = error, 4
    except MemoryError:
        what, code = "not enough memory", 5
    print("decode.py: %s" % what, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(exit_code())
