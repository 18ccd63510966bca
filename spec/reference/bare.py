"""Bare messages (container.md, section 16)."""
# SPDX-License-Identifier: Apache-2.0
from reference.container import Frames, read_schema_file, require_frames, require_little, xxh3
from reference.random import Keys
from reference.reading import Reader, Unsupported, Usage, require
from reference.schemes.parts import Exceptions
from reference.tensors import Context, Decoder, take_exceptions

MAGIC = b"\x89GRb"
WORKER, STEP, EXCEPTIONS = 1, 2, 4
MOST_SHORT, MOST_SHORT_BYTES = 2**22, 2**27


class BareMessage:
    """`decoders`, `memory` and `header.keys` as a File has them."""
    memory = None

    def __init__(self, data, schema_data, sides):
        require(schema_data is not None, "a bare message is decoded with its schema file", Usage)
        self.schema, schema_check = read_schema_file(schema_data)
        reader = Reader(data)
        require(reader.take(4) == MAGIC, "the magic")
        major, flags = reader.uint(1), reader.uint(1)
        require(major == 1, "version %d" % major, Unsupported)
        require(flags < 8, "flags %d" % flags, Unsupported)
        require(reader.uint(8) == schema_check, "a bare message of another schema", Unsupported)
        size = sum(tensor.size for tensor in self.schema.tensors)
        size_in_bytes = sum(tensor.size * tensor.type.item for tensor in self.schema.tensors)
        self.is_short = size <= MOST_SHORT and size_in_bytes <= MOST_SHORT_BYTES
        if self.is_short:
            check = int.from_bytes(data[-8:], "little")
            require(len(data) >= 8 and check == xxh3(data[:-8], schema_check), "the check")
        self.keys = self.take_keys(reader, flags)
        for text in self.schema.texts:
            require(text.memory() is None and text.names[0] != "at",
                    "'%s': a bare message does not say what it needs" % text.text, Unsupported)
            require("sum" not in text.names, "a sum in a message")
        self.decoders = {}
        base = xxh3(data[:reader.at], schema_check)
        if self.is_short:
            self.take_short(reader, flags & EXCEPTIONS, Context(sides))
            covered, seed = data[:-8], schema_check
        else:
            require(not flags & EXCEPTIONS, "exceptions in the flags of a long bare message")
            frames = Frames(reader, base, 0)
            require_frames(self.schema.tensors, reader)
            require_little(self.schema.tensors)
            for ordinal, tensor in enumerate(self.schema.tensors):
                self.decoders[tensor.name] = frames.decode(tensor, ordinal, self.keys, Context(sides))
            covered, seed = data[reader.at:reader.at + 4], base + frames.count
        digest = reader.uint(4)
        require(reader.uint(8) == xxh3(covered, seed), "the last check")
        reader.end("a bare message")
        digests = b"".join(decoder.digest().to_bytes(4, "little") for decoder in self.decoders.values())
        require(digest == xxh3(digests) & 0xFFFFFFFF, "the digest")

    @staticmethod
    def take_keys(reader, flags):
        seed = reader.uint(8)
        worker = reader.varint() if flags & WORKER else None
        require(worker is None or worker < 2**32, "a worker of 2^32 or more")
        return Keys(seed, worker, reader.varint() if flags & STEP else None)

    def take_short(self, reader, has_exceptions, context):
        any_exceptions = False
        for ordinal, tensor in enumerate(self.schema.tensors):
            decoder = Decoder(tensor, ordinal, self.keys, context, one_chunk=True)
            decoder.take_stored(reader)
            exceptions = take_exceptions(reader, tensor.size) if has_exceptions else Exceptions()
            any_exceptions |= len(exceptions.places) > 0
            size = decoder.fixed_size()
            payload = Reader(reader.take(reader.uint(4) if size is None else size))
            decoder.take_chunk(payload, 0, exceptions, 0)
            payload.end("a tensor")
            self.decoders[tensor.name] = decoder
        require(not has_exceptions or any_exceptions, "exceptions in the flags of a message that has none")
