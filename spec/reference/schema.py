"""SCHEMA (container.md, section 6), and how a tensor is cut into chunks (section 10)."""
# SPDX-License-Identifier: Apache-2.0
from reference.numbers import take_type
from reference.reading import Damaged, Limit, Reader, Unsupported, require
from reference.schemes.texts import Text

MOST_SCHEMES = 4096
NPY, NPZ, HDF5 = 1, 2, 3


class Tensor:
    """`scheme` and `coder`: of its Text and the coder's id."""

    def __init__(self, reader, schemes, chunk_log2):
        name = reader.text(65535)
        require(name and b"\0" not in name, "a name")
        try:
            self.name = name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Damaged("a name that is not UTF-8") from error
        self.type = take_type(reader)
        rank = reader.uint(1)
        require(rank <= 32, "rank %d" % rank)
        self.shape = tuple(reader.varint() for _ in range(rank))
        self.size, bytes_at_most = 1, max(self.type.item, 1)
        for dim in self.shape:
            self.size, bytes_at_most = self.size * dim, bytes_at_most * max(dim, 1)
        require(bytes_at_most < 2**63, "a tensor of 2^63 bytes or more")
        index = reader.varint()
        require(index < len(schemes), "a scheme that is not in the list")
        self.scheme_index, (self.scheme, self.coder) = index, schemes[index]
        is_raw = self.scheme.text == "raw"
        require(is_raw or self.type.is_float or not self.scheme.known, "a scheme for floats, of other elements")
        if self.type.item == 0:
            self.chunk_length = max(1, self.size)
        else:
            self.chunk_length = max(1, min(1 << chunk_log2, (32 << chunk_log2) // self.type.item))

    def chunk_count(self):
        return max(1, -(-self.size // self.chunk_length))

    def chunks(self):
        """How many elements each; none of a tensor of no elements, though it has a frame."""
        if self.size == 0:
            return []
        whole, rest = divmod(self.size, self.chunk_length)
        return [self.chunk_length] * whole + ([rest] if rest else [])


class Schema:
    def __init__(self, body):
        reader = Reader(body)
        self.chunk_log2, alignment, self.origin = reader.uint(1), reader.uint(1), reader.uint(1)
        require(12 <= self.chunk_log2 <= 22, "chunks of 2^%d elements" % self.chunk_log2)
        require(alignment == 0, "alignment %d" % alignment, Unsupported)
        require(1 <= self.origin <= 3, "origin %d" % self.origin, Unsupported)
        count = reader.varint()
        require(count <= MOST_SCHEMES, "%d schemes" % count, Limit)
        self.schemes = [(Text(reader.text(1024)), reader.uint(2)) for _ in range(count)]
        pairs = [(text.text, coder) for text, coder in self.schemes]
        require(len(set(pairs)) == len(pairs), "a scheme that is listed twice")
        self.tensors = [Tensor(reader, self.schemes, self.chunk_log2) for _ in range(reader.varint())]
        reader.end("SCHEMA")
        require(self.origin != NPY or len(self.tensors) == 1, "an .npy of another number of tensors than one")
        names = [tensor.name for tensor in self.tensors]
        require(len(set(names)) == len(names), "a name that is there twice")
        first_uses = list(dict.fromkeys(tensor.scheme_index for tensor in self.tensors))
        require(first_uses == list(range(count)), "schemes that are not used, or not in the order of their use")
        self.texts = [text for text, _ in self.schemes]

    def draws(self):
        """None where a text is not known, so that nobody can tell."""
        if not all(text.known for text in self.texts):
            return None
        return any(text.draws() for text in self.texts)
