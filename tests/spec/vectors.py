"""The conformance vectors of spec/vectors, and whether a decoder is right about one. The decoder is the package
`reference` that is found first: that of spec/, or a copy of it with a fault."""
# SPDX-License-Identifier: Apache-2.0
import io
import json
import pathlib

import numpy as np

from reference import decode, dumps
from reference.reading import Refused

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "spec/vectors"
FILES, VALUES = ("schema", "side", "at", "state"), ("top", "dtype")  # beside the message


def all_vectors():
    """{name: what its vector.json says}, with paths as paths, in the order of their numbers."""
    return {path.parent.name: read(path.parent) for path in sorted(VECTORS.glob("*/vector.json"))}


def read(folder):
    said = json.loads((folder / "vector.json").read_text())
    return {key: folder / value if key in ("file", "expected", *FILES) else value for key, value in said.items()}


def arrays_of(data):
    """{name: (dtype, shape, bytes)}, little-endian and in C order, of an .npz, or an .npy: of the array `array`."""
    loaded = np.load(io.BytesIO(data))
    arrays = {"array": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    little = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in little.items()}


def decoded(vector):
    """The same of what the decoder makes of a vector, by way of the .npz that it writes."""
    beside = {key: vector[key].read_bytes() for key in FILES if key in vector}
    asked = {key: vector[key] for key in VALUES if key in vector}
    out = io.BytesIO()
    dumps.write_npz(out, decode.decode(vector["file"].read_bytes(), **beside, **asked))
    return arrays_of(out.getvalue())


def mistake(vector):
    """What the decoder gets wrong; None if nothing."""
    try:
        got = decoded(vector)
    except Refused as refusal:
        right = refusal.code == vector.get("exit")
        return None if right else "refused with %d, not %s: %s" % (refusal.code, vector.get("exit"), refusal)
    except Exception as error:  # a decoder fails in one way only: it refuses
        return "failed: %r" % error
    if "expected" not in vector:
        return "decoded, though it is to be refused with %d" % vector["exit"]
    expected = arrays_of(vector["expected"].read_bytes())
    if set(got) != set(expected):
        return "the tensors %s, not %s" % (sorted(got), sorted(expected))
    others = [name for name in expected if got[name] != expected[name]]
    return "other elements, another type or shape of " + ", ".join(others) if others else None
