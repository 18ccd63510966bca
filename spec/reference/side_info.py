"""Side information (container.md, section 12): float32 values beside the message, and the digest that names them."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import container
from reference import dumps
from reference.numbers import FLOATS, as_float32
from reference.reading import Usage, require
from reference.tensors import digest_of


def read_sides(data, schema):
    """({name: (shape, float32 values)}, digest) for the tensors of `schema` that take side information."""
    if data[:8] == container.MAGIC:
        file = container.read_file(data)
        require(file.header.kind in (container.MESSAGE_FILE, container.SUM), "a message or a dump is expected", Usage)
        sides = {tensor.name: (tensor.shape, float32_of(file.decoders[tensor.name]))
                 for tensor in file.header.schema.tensors if tensor.type.is_float}
        return sides, file.end_check
    names = [tensor.name for tensor in schema.tensors if takes_side(tensor)]
    sides = {}
    for name, (descr, shape, body) in dumps.read_dump(data, names).items():
        require(descr and descr[1:] in FLOATS, "side information for '%s' that is not of floats" % name)
        elements = np.frombuffer(body, descr).astype("<" + descr[1:]).tobytes() if descr[0] == ">" else body
        sides[name] = shape, as_float32(elements, descr[1:])
    return sides, digest_of_dump(sides, schema)


def takes_side(tensor):
    return tensor.scheme.known and tensor.scheme.names[0] == "ndqsg"


def float32_of(decoder):
    """All values of a tensor of a float type, before they are narrowed."""
    if decoder.is_raw:
        return as_float32(b"".join(decoder.parts), decoder.tensor.type.name)
    return np.concatenate(decoder.parts)


def digest_of_dump(sides, schema):
    digests = []
    for tensor in schema.tensors:
        if takes_side(tensor):
            require(tensor.name in sides, "side information without the tensor '%s'" % tensor.name)
            values, length = sides[tensor.name][1], tensor.chunk_length
            digests.append(digest_of([container.xxh3(values[at:at + length].tobytes())
                                      for at in range(0, max(len(values), 1), length)]))
    return digest_of(digests)
