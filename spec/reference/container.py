"""container.md: files, and the order in which they are checked."""
# SPDX-License-Identifier: Apache-2.0
import xxhash

from reference import cbor
from reference import tree
from reference.coders import zstd
from reference.random import Keys
from reference.reading import Damaged, Limit, Reader, Unsupported, Usage, require
from reference.schema import HDF5, Schema
from reference.schemes.parts import Exceptions
from reference.tensors import Context, Decoder, take_exceptions

MAGIC, TAIL_MAGIC = b"\x89GRA\r\n\x1a\n", b"GZnd"
MESSAGE_FILE, SCHEMA_FILE, STATE_FILE, INDEX_SET, SUM = range(1, 6)
SCHEMA, MESSAGE, TREE, STATE, END, METADATA = 1, 2, 3, 4, 0x7F, 0x81
ENCODERS, DECODERS = 1, 2  # roles of states
SEED, WORKER, STEP, DIGESTS, PREVIOUS, SIDE = 1, 2, 4, 8, 16, 32
MOST_BODY = 2**28 - 1
MOST_CONTENT = {TREE: 2**26, METADATA: 2**24}
MOST_ELEMENTS = 2**32  # bytes of elements that this reader is willing to hold


def xxh3(data, seed=0):
    return xxhash.xxh3_64_intdigest(data, seed % 2**64)


def is_skippable(tag):
    return tag >= 0x80 and tag != METADATA


# --- sections 3 to 5, 7, 8

def take_prologue(reader):
    """The kind of file."""
    head = reader.take(min(12, reader.left()))
    require(head[:8] == MAGIC, "the magic")
    require(len(head) == 12 and reader.uint(4) == xxh3(head) & 0xFFFFFFFF, "the check of the prologue")
    major, _, kind, flags = head[8:]
    require(major == 1, "version %d" % major, Unsupported)
    require(MESSAGE_FILE <= kind <= SUM, "kind %d" % kind, Unsupported)
    require(flags == 0, "critical flags", Unsupported)
    return kind


def take_block(reader, seed):
    """(tag, body, check)"""
    start = reader.at
    tag, size = reader.uint(1), reader.varint()
    require(size <= MOST_BODY, "a block of %d bytes" % size)
    body = reader.take(size)
    check = xxh3(reader.data[start:reader.at], seed)
    require(reader.uint(8) == check, "the check of block %02X" % tag)
    return tag, body, check


def unwrapped(body, tag):
    """The content of TREE or METADATA."""
    reader, most = Reader(body), MOST_CONTENT[tag]
    packing = reader.uint(1)
    require(packing <= 1, "packing %d" % packing, Unsupported)
    size = reader.varint() if packing else reader.left()
    require(size <= most, "content of %d bytes, at most %d are allowed" % (size, most), Limit)
    require(size > 0, "a block with nothing in it")
    data = reader.take(reader.left())
    return zstd.content(data, size) if packing else data


def take_state(reader):
    """state.md, section 2: (role, memory)"""
    role, memory = reader.uint(1), reader.text(1024)
    require(role in (ENCODERS, DECODERS) and memory, "the role or the memory of a state")
    reader.end("STATE")
    return role, memory.decode("latin-1")


class Header:
    """All that stands before the frames. `check` and `count`: S, and the number of blocks."""

    def __init__(self, reader):
        self.kind = take_prologue(reader)
        require(self.kind != SCHEMA_FILE, "a schema file, where a message is expected", Usage)
        self.tree = self.metadata = self.state = None
        tag, body, self.check = take_block(reader, 0)
        require(tag == SCHEMA, "a file that does not begin with SCHEMA")
        self.schema, self.count = Schema(body), 1
        while tag != MESSAGE:
            tag, body, self.check = take_block(reader, self.check)
            self.take_body(tag, body)
            self.count += 1
        require((self.state is not None) == (self.kind == STATE_FILE), "STATE of a state, and of nothing else")
        self.check_schemes()
        self.take_message(Reader(body))

    def take_body(self, tag, body):
        if tag == TREE:
            require(self.tree is None, "a second TREE")
            content = unwrapped(body, TREE)
            require(self.schema.origin == HDF5, "TREE of a dump that is not HDF5")
            self.tree = tree.check(content)
        elif tag == METADATA:
            require(self.metadata is None, "a second METADATA")
            self.metadata = cbor.checked_metadata(unwrapped(body, METADATA))
        elif tag == STATE:
            require(self.state is None and self.kind == STATE_FILE, "STATE")
            self.state = take_state(Reader(body))
        else:
            require(tag not in (SCHEMA, END), "block %02X before MESSAGE" % tag)
            require(tag == MESSAGE or is_skippable(tag), "a critical block %02X" % tag, Unsupported)

    def check_schemes(self):
        """Section 3: sums stand in files of kind 5 and in no other, whether all of a text is known or not."""
        if self.kind == STATE_FILE:
            return
        if self.kind == INDEX_SET:
            require(all(text.text == "mask" for text in self.schema.texts), "an index set of another scheme than mask")
            return
        for tensor in self.schema.tensors:
            text = tensor.scheme
            is_other = self.kind == SUM and text.text == "raw" and not tensor.type.is_float
            require(("sum" in text.names) == (self.kind == SUM) or is_other, "sums of a sum, and of nothing else")

    def take_message(self, reader):
        self.flags = flags = reader.varint()
        require(flags < 64, "message flags %d" % flags, Unsupported)
        self.seed = reader.uint(8) if flags & SEED else None
        self.worker = reader.varint() if flags & WORKER else None
        require(self.worker is None or self.worker < 2**32, "a worker of 2^32 or more")
        self.step = reader.varint() if flags & STEP else None
        self.previous = reader.uint(8) if flags & PREVIOUS else None
        self.side = reader.uint(8) if flags & SIDE else None
        reader.end("MESSAGE")
        self.check_flags()
        self.keys = Keys(self.seed or 0, self.worker, self.step)

    def check_flags(self):
        texts, draws = self.schema.texts, self.schema.draws()
        memories = [text.memory() for text in texts if text.memory()]
        self.answers = any(text.known and text.names[0] == "at" for text in texts)
        self.takes_side = any(text.known and text.names[0] == "ndqsg" for text in texts)
        if self.kind == STATE_FILE:
            require(self.flags & (SEED | STEP | PREVIOUS) == SEED | STEP | PREVIOUS,
                    "a state without a seed, a step or the check of a message")
            return
        require(draws is None or draws == (self.seed is not None), "a seed goes with schemes that draw")
        require(len(set(memories)) <= 1, "two schemes that remember")
        require(draws is None and not memories or bool(memories) == (self.previous is not None),
                "the message before goes with schemes that remember")
        require(self.side is None or self.answers or self.takes_side or draws is None, "side information of nothing")
        require(self.side is not None or not self.answers, "an answer to no set")
        require(self.kind == MESSAGE_FILE or self.worker is None, "the worker of a sum or an index set")


# --- sections 10 to 14

def frame_count(tensor):
    chunks = tensor.chunk_count()
    return chunks + (chunks > 1)


def require_frames(tensors, reader):
    """Before a list of chunks is made."""
    require(12 * sum(map(frame_count, tensors)) <= reader.left(), "fewer frames than SCHEMA asks for")


class Frames:
    """Frames of a file or of a long bare message, from number `count` on."""

    def __init__(self, reader, base, count):
        self.reader, self.base, self.count, self.lengths = reader, base, count, []

    def next(self):
        """(payload, form, whether there are exceptions)"""
        start = self.reader.at
        head = self.reader.uint(4)
        self.reader.take(head & MOST_BODY)
        check = xxh3(self.reader.data[start:self.reader.at], self.base + self.count)
        require(self.reader.uint(8) == check, "the check of frame %d" % len(self.lengths))
        self.count += 1
        self.lengths.append(head & MOST_BODY)
        form = head >> 28 & 3
        require(form < 3 and head >> 31 == 0, "a form or a bit of a frame", Unsupported)
        return Reader(self.reader.data[start + 4:self.reader.at - 8]), form, head >> 30 & 1

    def pass_over(self, tensor):
        for _ in range(frame_count(tensor)):
            self.next()

    def decode(self, tensor, ordinal, keys, context):
        decoder, has_parameter_frame = Decoder(tensor, ordinal, keys, context), tensor.chunk_count() > 1
        if has_parameter_frame:
            stored, form, has_exceptions = self.next()
            require(form == 0 and not has_exceptions, "the form of a parameter frame")
            decoder.take_stored(stored)
            stored.end("a parameter frame")
        for index in range(tensor.chunk_count()):
            payload, form, has_exceptions = self.next()
            if not has_parameter_frame:
                decoder.take_stored(payload)
            count = decoder.place.chunks[index] if decoder.place.chunks else 0
            exceptions = take_exceptions(payload, count) if has_exceptions else Exceptions()
            require(not has_exceptions or len(exceptions.places), "an empty list of exceptions")
            decoder.take_chunk(payload, form, exceptions, index)
            payload.end("a frame")
        return decoder


class File:
    """A whole file. `decoders`: of the tensors, by name, in order; `end_check`: what names it."""

    def __init__(self, reader, beside, only=None):
        """`beside(header)`: a Context. `only`: names of the tensors that are wanted; None for all."""
        self.header = Header(reader)
        tensors = self.header.schema.tensors
        wanted = [tensor for tensor in tensors if only is None or tensor.name in only]
        frames = Frames(reader, self.header.check, self.header.count)
        require_frames(tensors, reader)
        require_little(wanted)
        context = beside(self.header)
        self.decoders = {}
        for ordinal, tensor in enumerate(tensors):
            if tensor in wanted:
                self.decoders[tensor.name] = frames.decode(tensor, ordinal, self.header.keys, context)
            else:
                frames.pass_over(tensor)
        self.memory = context.memory
        self.take_end(reader, frames)

    def take_end(self, reader, frames):
        check, start, after = frames.base + frames.count, reader.at, 0
        while reader.left() and is_skippable(reader.data[reader.at]):
            after += 1
            take_block(reader, check + after)
        skipped, start = reader.at - start, reader.at
        tag, body, self.end_check = take_block(reader, check)
        require(tag == END, "block %02X after the frames" % tag)
        end, size = Reader(body), reader.at - start
        if self.header.flags & DIGESTS:
            self.compare_digests([end.uint(4) for _ in self.header.schema.tensors])
        for length in frames.lengths:
            require(end.varint() == length, "END's lengths")
        require(skipped == 0 or end.varint() == skipped, "END's skippable bytes")
        end.end("END")
        require(reader.uint(4) == size and reader.take(4) == TAIL_MAGIC, "the tail")

    def compare_digests(self, digests):
        for tensor, digest in zip(self.header.schema.tensors, digests):
            decoder = self.decoders.get(tensor.name)
            require(decoder is None or decoder.digest() == digest, "the digest of '%s'" % tensor.name)


def require_little(tensors):
    """Before anything of that size is allocated."""
    size = sum(tensor.size * max(tensor.type.item, 4) for tensor in tensors if tensor.type.item)
    require(size <= MOST_ELEMENTS, "%d bytes of elements, this reader takes at most %d" % (size, MOST_ELEMENTS), Limit)


def nothing_beside(header):
    """The context of what stands beside another message itself, so that there is no chain."""
    remembers = any(text.memory() == "diana" for text in header.schema.texts) and header.previous
    needs = header.kind != STATE_FILE and (header.answers or header.takes_side or remembers)
    require(not needs, "a file that needs more than itself to be decoded", Usage)
    return Context(memory={})


def read_file(data, beside=nothing_beside, only=None):
    """One file and nothing behind it."""
    reader = Reader(data)
    file = File(reader, beside, only)
    if reader.left():
        second = "; a second file begins there" if reader.data[reader.at:reader.at + 8] == MAGIC else ""
        raise Damaged("bytes behind the end, at byte %d%s" % (reader.at, second))
    return file


def read_stream(data, beside=nothing_beside, only=None):
    """Section 15: files, one after another."""
    reader, files = Reader(data), []
    while reader.left() or not files:
        files.append(File(reader, beside, only))
    return files


# --- section 16

def read_schema_file(data):
    """(schema, its digest)"""
    reader = Reader(data)
    require(take_prologue(reader) == SCHEMA_FILE, "not a schema file")
    tag, body, check = take_block(reader, 0)
    require(tag == SCHEMA, "a schema file without SCHEMA")
    reader.end("a schema file")
    return Schema(body), check
