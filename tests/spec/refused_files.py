"""Files that are wrong in one way each, with right checks around it: what container.md refuses, and the pages of coders
and schemes."""
# SPDX-License-Identifier: Apache-2.0
import collections
import struct

from made_files import (MAGIC, NAN, ONE, REST, SEED, STEP, SYMBOLS, bare, bits, block, by, doubles, exceptions, file,
                        floats, one_frame, packed, prologue, remembers, schema, schema_file, scheme_text, starts, sums,
                        tensor, text, varint)

# `shows`: what is wrong. `beside`: further inputs of the decoder, bytes of files or text of values. `may_pass`: a
# reader need not look there, and then decodes what is right.
Refused = collections.namedtuple("Refused", "name shows exit data beside may_pass", defaults=({}, False))

USAGE, BAD, LIMIT, UNSUPPORTED = 2, 3, 5, 6
RAW = schema(schemes=((b"raw", 0),))
EMPTY = schema(tensors=(tensor(dims=(0,)),))
DITHER = schema(schemes=((b"dither", 0),))
CHUNKED = schema(head=b"\x0c\x00\x02", tensors=(tensor(dims=(5000,)),))
FROM_HDF5 = schema(head=b"\x12\x00\x03")
TWO = schema(tensors=(tensor(), tensor(name=b"b")))
TWO_FRAMES = ((0, STEP + SYMBOLS), (0, STEP + REST))
BIG, TINY, MINUS_ZERO, INFINITE = 0x7E800001, 0x007FFFFF, 0x80000000, 0x7F800000
HALF_BIG = 0x7E800000  # 2^126, the largest step
WRONG_STEPS = [("minus-zero", "-0", MINUS_ZERO), ("negative", "negative", 0xC0000000), ("subnormal", "subnormal", TINY),
               ("nan", "not a number", NAN), ("large", "above 2^126", BIG), ("infinite", "infinite", INFINITE)]


def in_container():
    """Sections 3 to 16, but for blocks' contents."""
    good = file()
    yield "empty", "An empty file.", BAD, b""
    yield "magic", "Another magic number.", BAD, file(start=prologue(magic=b"\x89GRX" + MAGIC[4:]))
    _, message, frame, end = starts(good, 1)
    for name, behind, what in [("prologue", 16, "the prologue"), ("schema", message, "SCHEMA"),
                               ("message", frame, "MESSAGE"),
                               ("frame", end, "the frame"), ("end", len(good) - 8, "END")]:
        yield "check-" + name, "A bit of the check of %s is flipped." % what, BAD, flipped(good, behind - 1)
    yield "bit-in-payload", "A bit of a payload is flipped.", BAD, flipped(good, frame + 4)
    yield "cut", "The last byte is missing.", BAD, good[:-1]
    yield "cut-frame", "The file ends within a frame.", BAD, good[:frame + 7]
    yield "cut-before-end", "The file ends where END should begin.", BAD, good[:end]
    yield "cut-prologue", "The file ends within the prologue.", BAD, good[:9]
    yield "junk", "A byte follows the tail.", BAD, good + b"x"
    yield "second-file", "Another message follows the tail, and no stream was asked for.", BAD, good + good
    two = file(schema=TWO, frames=TWO_FRAMES)
    _, _, first, second, end = starts(two, 2)
    before, one, other, after = two[:first], two[first:second], two[second:end], two[end:]
    yield "frames-swapped", "The frames of two tensors have changed places.", BAD, before + other + one + after
    yield "frame-repeated", "A frame stands in the place of the next one too.", BAD, before + one + one + after
    foreign = file(schema=TWO, frames=TWO_FRAMES, message=b"\x01" + bytes(8))
    yield "frame-of-another", "A frame is of another message.", BAD, before + one + foreign[second:end] + after
    yield "end-before-message", "END stands before MESSAGE.", BAD, file(between=((0x7F, b""),))
    yield "second-schema", "A second SCHEMA.", BAD, file(between=((1, schema()),))
    yield "two-metadata", "Two METADATA blocks.", BAD, file(between=((0x81, metadata(b"\xf6")),) * 2)
    yield "empty-tree", "A TREE of no content.", BAD, file(schema=FROM_HDF5, between=((3, b"\x00"),))
    yield "tree-of-npz", "A TREE in a message that was made from .npz.", BAD, file(between=((3, b"\x00\xa0"),))
    yield "two-trees", "Two TREE blocks.", BAD, file(schema=FROM_HDF5, between=((3, b"\x00\xa0"),) * 2)
    yield "state-block", "A STATE block in a message.", BAD, file(between=((4, b"\x01\x02ef"),))
    yield "no-schema", "MESSAGE is the first block.", BAD, prologue() + block(2, b"\x01" + SEED, 0)[0]
    yield "block-unannounced", "A skippable block before END, which END does not count.", BAD, \
        file(after=((0x82, b""),))
    yield "lengths", "END says another length of the payload.", BAD, file(lengths=[6])
    yield "lengths-many", "END has more lengths than there are frames.", BAD, file(lengths=[5, 5])
    yield "lengths-none", "END has no lengths.", BAD, file(lengths=[])
    yield "length-not-shortest", "A length in END is not in its shortest form.", BAD, not_shortest_length()
    yield "digest", "The digest of the decoded values is another one.", BAD, \
        file(message=b"\x09" + SEED, digests=bytes(4))
    yield "digests-short", "END has no room for the digests that MESSAGE announces.", BAD, file(message=b"\x09" + SEED)
    yield "end-size", "The tail says another size of END.", BAD, file(end_size=14)
    yield "tail-magic", "Another magic number in the tail.", BAD, file(tail=b"GZne")
    yield "version", "A major number of 2.", UNSUPPORTED, file(start=prologue(major=2))
    yield "version-0", "A major number of 0.", UNSUPPORTED, file(start=prologue(major=0))
    yield "kind", "Kind 9.", UNSUPPORTED, file(start=prologue(kind=9))
    yield "kind-0", "Kind 0.", UNSUPPORTED, file(start=prologue(kind=0))
    yield "critical-flag", "A critical flag.", UNSUPPORTED, file(start=prologue(flags=1))
    yield "critical-block", "A critical block that is not known.", UNSUPPORTED, file(between=((5, b""),))
    yield "critical-block-0", "A critical block of tag 0.", UNSUPPORTED, file(between=((0, b""),))
    yield "schema-file", "A schema file where a message is expected.", USAGE, schema_file()


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def not_shortest_length():
    good = file()
    _, _, frame, end = starts(good, 1)
    base = int.from_bytes(good[frame - 8:frame], "little")
    return good[:end] + block(0x7F, b"\x85\x00", base + 3)[0] + struct.pack("<I", 12) + b"GZnd"


def in_schema():
    def field(**of):
        return file(schema=schema(**of))

    def one(**of):
        return field(tensors=(tensor(**of),))
    yield "chunk-11", "Chunks of 2^11 elements.", BAD, field(head=b"\x0b\x00\x02")
    yield "chunk-23", "Chunks of 2^23 elements.", BAD, field(head=b"\x17\x00\x02")
    yield "alignment", "An alignment of 1.", UNSUPPORTED, field(head=b"\x12\x01\x02")
    yield "origin", "Made from a dump of kind 4.", UNSUPPORTED, field(head=b"\x12\x00\x04")
    yield "origin-0", "Made from a dump of kind 0.", UNSUPPORTED, field(head=b"\x12\x00\x00")
    yield "npy-of-none", "No tensor in a message made from .npy.", BAD, \
        file(schema=schema(head=b"\x12\x00\x01", schemes=(), tensors=()), frames=())
    yield "npy-of-two", "Two tensors in a message made from .npy.", BAD, \
        file(schema=schema(head=b"\x12\x00\x01", tensors=(tensor(), tensor(name=b"b"))), frames=TWO_FRAMES)
    yield "schema-long", "SCHEMA has a byte more than its fields.", BAD, field(more=b"x")
    yield "schema-short", "SCHEMA ends within a tensor.", BAD, file(schema=schema()[:-1])
    yield "scheme-index", "A tensor of scheme 1 where there is one.", BAD, one(scheme=1)
    yield "scheme-twice", "The same scheme and coder twice.", BAD, field(schemes=((b"dither", 0), (b"dither", 0)))
    yield "scheme-unused", "A scheme that no tensor has.", BAD, field(schemes=((b"dqsg:levels=3", 0), (b"dither", 0)))
    yield "scheme-order", "Schemes not in the order of their first use.", BAD, \
        field(schemes=((b"raw", 0), (b"dqsg:levels=3", 0)), tensors=(tensor(scheme=1), tensor(name=b"b", scheme=0)))
    yield "name-twice", "Two tensors of one name.", BAD, \
        file(schema=schema(tensors=(tensor(), tensor())), frames=TWO_FRAMES)
    yield "name-empty", "A tensor without a name.", BAD, one(name=b"")
    yield "name-zero-byte", "A zero byte in a name.", BAD, one(name=b"a\0")
    yield "name-overlong", "A name with an overlong form, which is no UTF-8.", BAD, one(name=b"\xc0\x80")
    yield "name-surrogate", "A name with a surrogate, which is no UTF-8.", BAD, one(name=b"\xed\xa0\x80")
    yield "name-beyond", "A name with a code point above 10FFFF.", BAD, one(name=b"\xf4\x90\x80\x80")
    yield "name-half", "A name that ends within a character.", BAD, one(name=b"a\xe2\x82")
    yield "name-long", "A name of 65,536 bytes.", BAD, one(name=b"a" * 65536)
    yield "rank-33", "Rank 33.", BAD, one(dims=(1,) * 33)
    yield "bytes-2-63", "A tensor of 2^63 bytes, each 0 counted as 1.", BAD, one(dims=(0, 2**31, 2**30))
    yield "product-wraps", "Dims whose product is 2^64.", BAD, one(dims=(2**32, 2**32))
    yield "dim-2-63", "A dim of 2^63, which no varint holds.", BAD, \
        field(tensors=(text(b"a") + b"\x02\x01" + b"\x80" * 9 + b"\x01" + b"\x00",))
    yield "frames-impossible", "More elements than the frames behind can hold.", BAD, one(dims=(2**60,))
    yield "tensors-10-9", "A thousand million tensors, of which one is there.", BAD, \
        file(schema=b"\x12\x00\x02\x01" + text(b"dqsg:levels=3") + b"\0\0" + varint(10**9) + tensor())
    yield "dtype-spelled", "A descriptor of an element type that has a code.", BAD, one(dtype=b"\x00\x02f4")
    yield "dtype-16", "An element type that has no name.", UNSUPPORTED, one(dtype=b"\x10")
    yield "descriptor", "A descriptor of nothing that is known.", UNSUPPORTED, one(dtype=b"\x00\x01Q")
    yield "integers", "A scheme for floats, of integers.", BAD, one(dtype=b"\x07")
    yield "schemes-4097", "4,097 schemes.", LIMIT, field(schemes=[(b"x%d" % i, 0) for i in range(4097)])
    yield "coder", "A coder that is not known.", UNSUPPORTED, scheme_text(b"dqsg:levels=3", coder=99)


def in_scheme_texts():
    for code, name, data, what in [
            (BAD, "empty", b"", "of no byte"), (BAD, "space", b"dqsg: levels=3", "with a space"),
            (BAD, "long", b"a" * 1025, "of 1,025 bytes"), (BAD, "latin", b"dqs\xe9", "with a byte above 7E"),
            (BAD, "default", b"dqsg:levels=3,bucket=0", "that spells out a default"),
            (BAD, "leading-zero", b"dqsg:levels=03", "with a leading zero"),
            (BAD, "even", b"dqsg:levels=4", "with an even number of levels"),
            (BAD, "levels-65537", b"dqsg:levels=65537", "with more levels than there can be"),
            (BAD, "bucket-large", b"dqsg:levels=3,bucket=4194305", "with a bucket above 2^22"),
            (BAD, "order", b"dqsg:bucket=5,levels=3", "with keys in another order"),
            (BAD, "key-twice", b"dqsg:levels=3,levels=3", "with a key twice"),
            (BAD, "key-unknown", b"dqsg:levels=3,x=1", "with a key that the scheme has not"),
            (BAD, "bucket-of-class", b"dither:bucket=512,steps=class", "with a bucket beside steps by class"),
            (BAD, "steps-one", b"dither:steps=one", "that spells out the default of steps"),
            (BAD, "key-of-encoder", b"dither:nmse=1", "with a key that only the encoder needs"),
            (BAD, "key-missing", b"dqsg", "without a key that must be there"),
            (BAD, "value-missing", b"later:x", "with a key that has no value"),
            (BAD, "word", b"sign:axis=column", "with a word that is none of the page's"),
            (BAD, "list-falls", b"multiscale:bits=8-4", "with a list that falls"),
            (BAD, "comma-last", b"dqsg:levels=3,", "that ends in a comma"),
            (BAD, "name-missing", b"later/", "that ends in /"), (BAD, "capital", b"Later", "with a capital letter"),
            (BAD, "nothing-below", b"rotate", "without the scheme that must stand below"),
            (BAD, "raw-below", b"topk/raw", "with raw below another scheme"),
            (BAD, "private-below", b"topk/bq:bits=1,m=1", "with a private scheme below another"),
            (BAD, "below-none", b"dither/dqsg:levels=3", "with a scheme below one that takes none"),
            (BAD, "key-of-another", b"topk/dqsg:levels=3,block=8", "with a key of another scheme"),
            (BAD, "memory-below", b"topk/ef/topk", "with a memory that is not the first"),
            (BAD, "memory-twice", b"ef/ec/topk", "with two memories"),
            (UNSUPPORTED, "unknown", b"later:x=1", "with a scheme that is not known"),
            (UNSUPPORTED, "composition", b"later/dither", "with one over a known scheme"),
            (UNSUPPORTED, "below-unknown", b"topk/later:x=007", "with one below a known scheme"),
            (UNSUPPORTED, "above-raw", b"later/raw", "with one above raw"),
            (UNSUPPORTED, "nine", b"topk/" * 8 + b"dither", "of nine schemes"),
            (UNSUPPORTED, "plus", b"raw+dither", "with a sum of schemes"),
            (BAD, "lowrank-below", b"topk/lowrank", "with lowrank below a sparsifier")]:
        yield "text-" + name, "A scheme text %s." % what, code, scheme_text(data)


def in_message():
    yield "worker-2-32", "Worker 2^32.", BAD, file(message=b"\x03" + SEED + varint(2**32))
    yield "step-2-63", "Step 2^63, which no varint holds.", BAD, file(message=b"\x05" + SEED + b"\x80" * 9 + b"\x01")
    yield "no-seed", "No seed, though a scheme draws.", BAD, file(message=b"\x00")
    yield "seed-of-raw", "A seed, though no scheme draws.", BAD, file(schema=RAW, frames=((0, bytes(12)),))
    yield "message-long", "MESSAGE has a byte more than its fields.", BAD, file(message=b"\x01" + SEED + b"x")
    yield "message-short", "MESSAGE ends within the seed.", BAD, file(message=b"\x01" + SEED[:-1])
    yield "varint", "Flags that are not in their shortest form.", BAD, file(message=b"\x81\x00" + SEED)
    yield "message-flag", "A message flag that is not known.", UNSUPPORTED, file(message=b"\x41" + SEED)
    yield "side-of-none", "A digest of side information, which no scheme takes.", BAD, \
        file(message=b"\x21" + SEED + bytes(8))
    yield "previous-of-none", "A check of the message before, though nothing remembers.", BAD, \
        file(message=b"\x11" + SEED + bytes(8))
    yield "no-previous", "No check of the message before, though a scheme remembers.", BAD, \
        by("ef/dqsg:levels=3", STEP + REST)
    both = schema(schemes=((b"ef/grid", 0), (b"ec/grid", 0)), tensors=(tensor(), tensor(name=b"b", scheme=1)))
    yield "two-memories", "Texts that begin with two memories.", BAD, \
        file(schema=both, message=b"\x11" + SEED + bytes(8), frames=((0, STEP + b"\1" + SYMBOLS),) * 2)
    yield "at-without-set", "An answer that names no index set.", BAD, by("at", b"", draws=False)


def in_frames():
    yield "form-3", "A frame of form 3.", UNSUPPORTED, one_frame(STEP + SYMBOLS, form=3)
    yield "bit-31", "Bit 31 of a frame's head.", UNSUPPORTED, one_frame(STEP + SYMBOLS, form=8)
    yield "stored-by-pack", "Form 2, though the coder is pack.", BAD, one_frame(STEP + SYMBOLS, form=2)
    yield "constant-3", "A constant symbol beyond its alphabet.", BAD, one_frame(STEP + b"\x03", form=1)
    yield "constant-of-none", "A constant of no elements.", BAD, one_frame(STEP + b"\x01", form=1, schema=EMPTY)
    yield "constant-long", "A byte behind a constant.", BAD, one_frame(STEP + b"\x01\x00", form=1)
    yield "constant-256", "A constant byte of 256.", BAD, by("raw", varint(256), form=1, draws=False)
    yield "payload-long", "A payload of a byte too many.", BAD, one_frame(STEP + SYMBOLS + b"\x00")
    yield "payload-short", "A payload without symbols.", BAD, one_frame(STEP)
    yield "payload-none", "A payload of no byte.", BAD, one_frame(b"")
    yield "raw-long", "A byte too many for raw.", BAD, by("raw", bytes(13), draws=False)
    yield "raw-short", "A byte too few for raw.", BAD, by("raw", bytes(11), draws=False)
    yield "exceptions-none", "A list of no exceptions.", BAD, one_frame(STEP + b"\x00" + SYMBOLS, form=4)
    yield "exceptions-four", "Four exceptions of three elements.", BAD, \
        one_frame(STEP + exceptions(*[(0, NAN)] * 4) + REST, form=4)
    yield "exceptions-many", "More exceptions than the payload can hold.", BAD, \
        one_frame(STEP + varint(10**15) + REST, form=4)
    yield "exception-beyond", "An exception beyond its chunk.", BAD, \
        one_frame(STEP + exceptions((3, NAN)) + REST, form=4)
    yield "exception-far", "An exception whose place is beyond 2^62.", BAD, \
        one_frame(STEP + exceptions((0, NAN), (2**62, NAN)) + REST, form=4)
    yield "exceptions-of-raw", "Exceptions of raw.", BAD, \
        by("raw", exceptions((0, NAN)) + bytes(12), form=4, draws=False)
    chunks = ((1, b"\x01"), (1, b"\x00"))
    yield "parameters-form", "A parameter frame of form 1.", BAD, file(schema=CHUNKED, frames=((1, STEP), *chunks))
    yield "parameters-rest", "A byte behind a tensor's parameters.", BAD, \
        file(schema=CHUNKED, frames=((0, STEP + b"x"), *chunks))
    yield "stored-without-streams", "Form 2 of a chunk without streams, though the coder is pack.", BAD, \
        by("countsketch:rows=1", b"\x01" + STEP, form=2)
    yield "parameters-exceptions", "Exceptions in a parameter frame.", BAD, \
        file(schema=CHUNKED, frames=((4, STEP + exceptions((0, NAN))), *chunks))
    yield "chunk-missing", "A chunk without its frame.", BAD, file(schema=CHUNKED, frames=((0, STEP), chunks[0]))
    yield "chunk-too-many", "A frame more than there are chunks.", BAD, \
        file(schema=CHUNKED, frames=((0, STEP), *chunks, chunks[1]))


def metadata(user, program=b"\x61x"):
    return b"\x00\xa2\x64user" + user + b"\x67program" + program


def in_cbor():
    def of(body):
        return file(between=((0x81, body),))

    def tree(body):
        return file(schema=FROM_HDF5, between=((3, body),))
    yield "tree-large", "A TREE of 64 MiB and a byte.", LIMIT, tree(b"\x01" + varint(2**26 + 1))
    yield "metadata-large", "METADATA of 16 MiB and a byte.", LIMIT, of(b"\x01" + varint(2**24 + 1))
    yield "packing", "A packing that is not known.", UNSUPPORTED, tree(b"\x02x")
    yield "metadata-packing", "A packing of METADATA that is not known.", UNSUPPORTED, of(b"\x02x")
    yield "tree-frame", "Packed content that is no Zstandard frame.", BAD, tree(b"\x01\x01x")
    yield "tree-size", "Packed content of another size than is said.", BAD, \
        tree(b"\x01\x02" + ZSTD + b"\x20\x01\x09\0\0\xa0")
    for name, user, what in [
            ("depth", b"\x81" * 20 + b"\x00", "arrays 20 deep"),
            ("key-order", b"\xa2\x61b\x00\x61a\x00", "keys out of order"),
            ("key-twice", b"\xa2\x61a\x00\x61a\x00", "a key twice"),
            ("key-number", b"\xa1\x00\x00", "a key that is no text"),
            ("not-shortest", b"\x18\x05", "a number that is not in its shortest form"),
            ("length-not-shortest", b"\x78\x01x", "a length that is not in its shortest form"),
            ("not-utf8", b"\x61\xff", "text that is no UTF-8"), ("indefinite", b"\x9f\x00\xff", "an indefinite length"),
            ("tag", b"\xc0\x00", "a tag"), ("undefined", b"\xf7", "the simple value undefined"),
            ("float-long", b"\xfb" + bytes(8), "a float that is not in its shortest form"),
            ("nan-payload", b"\xf9\x7e\x01", "a NaN with a payload"), ("negative", b"\x3b" + b"\xff" * 8, "-2^64"),
            ("cut", b"\x82\x00", "an array that ends early"),
            ("huge", b"\x9b" + b"\x10" + bytes(7), "2^60 items claimed"),
            ("break", b"\xff", "a break")]:
        yield "cbor-" + name, "METADATA with %s." % what, BAD, of(metadata(user)), {}, True
    yield "metadata-no-map", "METADATA that is no map.", BAD, of(b"\x00\x80"), {}, True
    yield "metadata-one-key", "METADATA without `program`.", BAD, of(b"\x00\xa1\x64user\xf6"), {}, True
    yield "metadata-third-key", "METADATA with a third key.", BAD, \
        of(b"\x00\xa3\x61x\x00\x64user\xf6\x67program\x61x"), {}, True
    yield "metadata-program", "METADATA whose `program` is no text.", BAD, of(metadata(b"\xf6", b"\x00")), {}, True
    yield "metadata-rest", "A byte behind the map of METADATA.", BAD, of(metadata(b"\xf6") + b"\x00"), {}, True
    yield "tree-array", "A TREE that is no map.", BAD, tree(b"\x00\x80"), {}, True


ZSTD = bytes.fromhex("28B52FFD")


def in_coders():
    yield "pack-group", "A group of 27 where three symbols of three make less.", BAD, one_frame(STEP + bytes([27]))
    yield "pack-full-group", "A full group of 3^5.", BAD, by("dqsg:levels=3", STEP + bytes([243]), count=5)
    yield "pack-empty", "A byte of no symbols.", BAD, one_frame(STEP + b"\x00", schema=EMPTY)

    def zstd(frame):
        return by("dqsg:levels=3", STEP + frame, coder=1)
    content = b"\x09\0\0" + SYMBOLS  # a last block, raw, of one byte
    frame = ZSTD + b"\x20\x01" + content
    for name, what, data in [
            ("magic", "another magic number", b"\x27" + frame[1:]),
            ("skippable", "a skippable frame", b"\x50\x2a\x4d\x18\x01\0\0\0x"),
            ("rest", "a byte behind the frame", frame + b"x"), ("second", "a second frame", frame + frame),
            ("cut", "a frame that is cut off", frame[:-1]),
            ("no-size", "no content size", ZSTD + b"\x00\x58" + content),
            ("size", "another content size than that of the symbols", ZSTD + b"\x20\x02\x11\0\0" + SYMBOLS + b"\0"),
            ("dictionary", "a dictionary", ZSTD + b"\x21\x01\x01" + content),
            ("checksum", "a checksum", ZSTD + b"\x24\x01" + content + bytes(4)),
            ("window", "a window of 2^28 bytes", ZSTD + b"\x40\x90\x01\x00" + content),
            ("reserved", "the reserved bit", ZSTD + b"\x28\x01" + content),
            ("unused", "the unused bit", ZSTD + b"\x30\x01" + content),
            ("damaged", "a reserved kind of block", ZSTD + b"\x20\x01\x0f\0\0" + SYMBOLS),
            ("short", "less content than it says", ZSTD + b"\x20\x01\x01\0\0"),
            ("long", "more content than it says", ZSTD + b"\x20\x01\x11\0\0" + SYMBOLS * 2),
            ("group", "a group of 27 for three symbols of three", frame[:-1] + bytes([27]))]:
        yield "zstd-" + name, "A Zstandard frame with %s." % what, BAD, zstd(data)

    def elias(string, alphabet=3, count=9):
        string = string.replace(" ", "")
        string += "0" * (-len(string) % 8)
        data = bytes(int(string[i:i + 8], 2) for i in range(0, len(string), 8))
        return by("dqsg:levels=%d" % alphabet, STEP + data, coder=4, count=count)
    for name, what, data in [
            ("early", "a string that ends within its symbols", elias("0 0000100", count=9)),
            ("rest", "a byte behind the string", elias("0 0 0 0 0 10 0 0 0 0 0 0 0000 00000000")),
            ("unused-bit", "a 1 among the unused bits", elias("0 0 0 0 0 100 0 0 0 0 00001")),
            ("sparse", "the sparse form where the dense one is not longer", elias("1 100 101010 0 0")),
            ("dense", "the dense form where the sparse one is shorter", elias("0 0000 100 00000", count=10)),
            ("many", "more levels than symbols", elias("1 101010 0 0 0 0 0 0 0 0 0 0 0 0", count=3)),
            ("gap", "a gap beyond the last place", elias("1 100 1110110 0 0", count=10)),
            ("level", "a level beyond the alphabet", elias("0 0000 1 0 100 0000 0", count=9)),
            ("runaway", "a number of more bits than one can have", elias("1" * 64))]:
        yield "elias-" + name, "By elias, %s." % what, BAD, data
    yield "elias-empty", "By elias, a byte for no symbols.", BAD, by("dqsg:levels=3", STEP + b"\x00", coder=4, count=0)
    yield from in_rans()
    yield from in_model()


def in_rans():
    """From the worked example of coders/rans.md: 64 symbols of 9, form 1, k = 12."""
    head, indices = bytes.fromhex("011c000704"), bytes.fromhex("b9664205")
    state, words = bytes.fromhex("0819a407"), bytes.fromhex("0d238d23e77780f8")

    def of(data, coder=2, levels=9, count=64):
        return by("dqsg:levels=%d" % levels, STEP + data, coder=coder, count=count)

    def with_head(*changed, **more):
        return of(bytes(changed) + indices + state + words, **more)
    one_token = bytes.fromhex("0100010000")  # form 1, k = 8; token 1 alone takes all of 2^8
    for name, what, data in [
            ("half-word", "half a word at the end", of(head + indices + state + words[:-1])),
            ("word-missing", "a word too few", of(head + indices + state + words[:-2])),
            ("words-left", "a word too many", of(head + indices + state + words + b"\0\0")),
            ("empty", "a payload of no byte", of(b"")), ("cut-model", "a model that ends early", of(head)),
            ("end-state", "a last state that is not 2^15", of(one_token + b"\1\x80\0\0", levels=3, count=4)),
            ("state-low", "a first state below 2^15", of(head + indices + b"\xff\x7f\0\0" + words)),
            ("state-high", "a first state of 2^31", of(head + indices + b"\0\0\0\x80" + words)),
            ("form-0-bits", "other bits in the byte of form 0", of(b"\x04\x04")),
            ("form-0-symbol", "a symbol of 9 in form 0", of(b"\x00\x09")),
            ("form-0-rest", "a byte behind form 0", of(b"\x00\x04\x00")),
            ("contexts", "contexts in rans", with_head(0x05, 0x1C, 0, 7, 4)),
            ("one-class", "one class of blocks", with_head(0x01, 0x9C, 0x00, 0, 7, 4)),
            ("nine-classes", "nine classes of blocks", with_head(0x01, 0x9C, 0x20, 0, 7, 4)),
            ("rice", "a Rice parameter of 16", with_head(0x01, 0x9C, 0x04, 16, 0, 7, 4)),
            ("slots", "more slots than 64 symbols allow", with_head(0x01, 0x9F, 0x0C, 3, 0, 7, 4)),
            ("token", "a largest token beyond the alphabet", with_head(0x01, 0x1C, 2, 7, 4)),
            ("rest-token", "a token `rest` beyond the span", with_head(0x01, 0x1C, 0, 7, 8)),
            ("model-bits", "a bit set behind the indices", of(head + indices[:3] + b"\x85" + state + words)),
            ("index", "a negative index", of(head + bytes.fromhex("286042 05") + state + words)),
            ("row", "a row of more than 2^8", with_head(0x01, 0x18, 0, 7, 4)),
            ("centre", "a centre of 257", of(one_token + b"\x01\x01" + b"\0\x80\0\0", levels=257, count=4)),
            ("symbol", "a symbol below 0", of(b"\1\0\2\0\0" + b"\0\0" + b"\0\x80\0\0", levels=257, count=4)),
            ("symbol-high", "a symbol of 257", of(one_token + b"\0\x01" + b"\0\x80\0\0", levels=257, count=4)),
            ("token-223", "a token of 223", of(b"\1\0\xdf\0\0" + b"\x80\0" + b"\0\x80\0\0", levels=257, count=4))]:
        yield "rans-" + name, "By rans, %s." % what, BAD, data
    dither = {"coder": 3}
    for name, what, data in [
            ("groups", "groups of more classes than make one", with_head(0x1D, 0x1C, 0, 7, 4, **dither)),
            ("centre", "contexts about a centre that is not the middle",
             of(b"\5\0\1\0\0" + b"\0\0" + b"\0\x80\0\0", levels=257, count=4, **dither)),
            ("word-missing", "a word too few", of(head + indices + state + words[:-2], **dither)),
            ("no-contexts", "contexts of a stream that has none",
             by("uniform:bits=4", STEP + bytes([0x05]) + head[1:] + indices + state + words, coder=3, count=64,
                draws=False))]:
        yield "rans-dither-" + name, "By rans-dither, %s." % what, BAD, data


def in_model():
    """One symbol of three in form 1, an escape: token 31 has the last of 2^15 slots. And the worked example of
    coders/model.md, 56 symbols."""
    base, head, escaped = varint(2 * 24), b"\x41", b"\xff\x7f\0\x40"

    def one(data, scheme="dqsg:levels=3", params=STEP + base, **more):
        return by(scheme, params + data, coder=5, count=1, **more)
    state, word = bytes.fromhex("8bfe5900"), bytes.fromhex("b359")

    def example(data):
        return by("dqsg:levels=3", floats(1) + b"\x65\x69" + data, coder=5, count=56)
    for name, what, data in [
            ("empty", "a payload of no byte", one(b"")), ("cut", "a payload that ends in its states", one(b"\x41\0\0")),
            ("offset", "an offset of 5", one(b"\x91\x01\0" + escaped)),
            ("form-0-bits", "other bits in the byte of form 0", one(b"\x04\x00\x01")),
            ("form-0-payload", "a payload of rans-dither with other bits in its byte of form 0", one(b"\x00\x04\x01")),
            ("no-scales", "form 1 of a stream that has no scales",
             one(head + b"\x01\0" + escaped, "dqsg:levels=3,bucket=5", STEP)),
            ("escapes-many", "more escapes than symbols", one(head + b"\x02\0\0" + escaped)),
            ("escapes-claimed", "2^60 escapes claimed", one(head + varint(2**60) + escaped)),
            ("escape-missing", "an escape too few", one(head + b"\x00" + escaped)),
            ("escape-left", "an escape too many", example(b"\x01\0" + state + word)),
            ("escape-alphabet", "an escape of 3, of three symbols", one(head + b"\x01\x03" + escaped)),
            ("symbol", "a token of 2, of three symbols", one(head + b"\x00" + b"\xf1\x40\x04\0")),
            ("half-word", "half a word at the end", example(b"\0" + state + word + b"\0")),
            ("word-missing", "a word too few", example(b"\0" + state)),
            ("words-left", "a word too many", example(b"\0" + state + word + b"\0\0")),
            ("state-low", "a first state below 2^15", example(b"\0" + b"\xff\x7f\0\0" + word)),
            ("state-high", "a first state of 2^31", example(b"\0" + b"\0\0\0\x80" + word)),
            ("end-state", "a last state that is not 2^15", one(head + b"\x01\0" + b"\xff\xff\0\x40"))]:
        yield "model-" + name, "By model, %s." % what, BAD, data
    yield "scales-base", "A base of 32,769 as stored.", BAD, \
        one(head + b"\x01\0" + escaped, params=STEP + varint(2**15 + 1))
    yield "scales-none", "No base where the coder is model.", BAD, one(b"", params=STEP)
    yield "scales-of-class", "No base where steps go by class.", BAD, by("dither:steps=class", STEP + b"\x01" + REST)
    yield from in_lines()


def in_lines():
    """32 rows of 32, classes by pack: of 160 bits."""
    classes, zero_first = bytes(20), b"\x1f" + bytes(19)
    rest = packed(3, *[1] * 1024)

    def of(rows, symbols=rest, listed=b"", form=0):
        params = STEP + b"\x01\x00" + rows
        return by("dither:steps=class", params + listed + symbols, form=form, dims=(32, 32), count=1024)

    def lines(data, is_packed=1):
        return varint(2 * len(data) + is_packed) + data
    for name, what, rows in [
            ("none", "no rows and no mark of their absence", None),
            ("rows-few", "classes of rows too few", classes[:-1]),
            ("rows-many", "classes of rows too many", classes + b"\0"),
            ("rows-empty", "classes of rows of no byte", b"")]:
        data = STEP + b"\x01\x00" if rows is None else STEP + b"\x01\x00" + lines(rows) + lines(classes) + rest
        yield "lines-" + name, "Of 32 rows, %s." % what, BAD, \
            by("dither:steps=class", data, dims=(32, 32), count=1024)
    yield "lines-rans", "Classes of rows that rans refuses.", BAD, of(lines(b"\x04" + bytes(4), 0) + lines(classes))
    yield "lines-class", "A row of class 32, constant by rans.", BAD, of(lines(b"\x00\x20", 0) + lines(classes))
    yield "lines-columns-none", "Classes of rows alone.", BAD, of(lines(classes), b"")
    yield "lines-columns-0", "Columns of one class after all, where rows have classes.", BAD, of(lines(classes) + b"\0")
    yield "lines-columns-cut", "Classes of columns beyond the end.", BAD, of(lines(classes) + varint(2**20 + 1))
    zero = lines(zero_first) + lines(classes)
    yield "lines-zero-symbol", "A symbol other than 0's in a row of zeros.", BAD, \
        of(zero, packed(3, 2, *[1] * 1023))
    yield "lines-zero-column", "A symbol other than 0's in a column of zeros.", BAD, \
        of(lines(classes) + lines(zero_first), packed(3, *[1] * 992, 0, *[1] * 31))
    yield "lines-zero-exception", "A regular exception in a row of zeros.", BAD, \
        of(zero, listed=exceptions((0, ONE)), form=4)


def in_steps():
    """Of schemes with one step of a tensor, and of buckets."""
    for name, what, value in WRONG_STEPS:
        yield "step-" + name, "A step that is %s." % what, BAD, one_frame(bits(value) + REST)
        yield "bucket-step-" + name, "A bucket's step that is %s." % what, BAD, \
            by("dqsg:levels=3,bucket=5", bits(value) + REST)
    yield "step-cut", "A step of three bytes.", BAD, one_frame(STEP[:3])
    yield "symbol-step-0", "A symbol other than 0's where the step is 0.", BAD, one_frame(bits(0) + SYMBOLS)
    yield "constant-step-0", "A constant other than 0's where the step is 0.", BAD, one_frame(bits(0) + b"\x02", form=1)
    yield "bucket-missing", "A bucket without its step.", BAD, by("dqsg:levels=3,bucket=2", STEP + REST)
    yield "exception-needless", "An exception of 1, which the scheme quantizes.", BAD, \
        one_frame(STEP + exceptions((0, ONE)) + REST, form=4)
    yield "exception-symbol", "A symbol other than 0's in the place of an exception.", BAD, \
        one_frame(STEP + exceptions((2, NAN)) + SYMBOLS, form=4)
    yield "dither-m", "M of 32,768.", BAD, one_frame(STEP + varint(32768) + bytes(6), schema=DITHER)
    yield "dither-m-not-shortest", "M that is not in its shortest form.", BAD, \
        one_frame(STEP + b"\x81\0" + REST, schema=DITHER)
    yield "dither-m-step-0", "M of 1 beside a step of 0.", BAD, one_frame(bits(0) + b"\x01" + REST, schema=DITHER)
    yield "dither-exception", "An exception of exactly 32,767 steps.", BAD, \
        by("dither", floats(1) + b"\x01" + exceptions((0, 0x46FFFE00)) + REST, form=4)
    yield "adaquant-exception", "A regular exception of adaquant, whose step reaches all.", BAD, \
        by("adaquant:bucket=0", STEP + b"\x01" + exceptions((0, 0x48000000)) + REST, form=4)
    yield "choose-rounding", "A rounding of 2.", BAD, by("choose", b"\x02\x00" + STEP + b"\x01" + REST)
    yield "choose-bucket", "A bucket above 2^22.", BAD, \
        by("choose", b"\x00" + varint(2**22 + 1) + b"\x01" + STEP + REST)
    yield "choose-half-bucket", "A bucket beside stochastic rounding.", BAD, by("choose", b"\x01\x05\x01" + STEP + REST)
    for name, what, value in [*WRONG_STEPS, ("zero", "0", 0), ("small", "below 2^-114", 0x06000000),
                              ("above", "above 2^101", 0x72800001)]:
        yield "bq-step-" + name, "A step of bq that is %s." % what, BAD, \
            by("bq:bits=1,m=1", bits(value) + REST, draws=False)
    bq = {"scheme": "bq:bits=1,m=1", "draws": False}
    yield "bq-top", "s + m above 65,535.", BAD, by("bq:bits=15,m=32769", STEP + bytes(6), draws=False)
    yield "bq-exception", "An exception of a private scheme.", BAD, \
        by(payload=STEP + exceptions((0, NAN)) + REST, form=4, **bq)
    yield "bq-form", "A private scheme in the constant form.", BAD, by(payload=STEP + b"\x01", form=1, **bq)
    yield "bq-coder", "A private scheme by zstd.", BAD, \
        by(payload=STEP + ZSTD + b"\x20\x01\x09\0\0" + REST, coder=1, **bq)


def in_tables():
    """Of levels, exponents, means and several steps."""
    three = packed(31, 15, 15, 15)
    fine = b"\x01" + packed(2, 1, 1, 1)

    def multiscale(first, second, scales=fine, symbols=three, listed=b"", form=0):
        return by("multiscale", bits(first, second) + listed + scales + symbols, form=form)
    yield "multiscale-steps", "Steps that do not fall.", BAD, multiscale(ONE, ONE)
    yield "multiscale-zero", "A step of 0 beside another.", BAD, multiscale(ONE, 0)
    yield "multiscale-nan", "A second step that is not a number.", BAD, multiscale(ONE, NAN)
    yield "multiscale-symbol", "A symbol where all steps are 0.", BAD, \
        multiscale(0, 0, b"\x01\x00", packed(31, 15, 15, 16))
    yield "multiscale-scale", "A scale other than the first where all steps are 0.", BAD, multiscale(0, 0)
    yield "multiscale-exception", "A regular exception.", BAD, \
        multiscale(ONE, 0x3F000000, listed=exceptions((0, ONE)), form=4)
    yield "multiscale-exception-scale", "A scale other than the finest in the place of an exception.", BAD, \
        multiscale(ONE, 0x3F000000, b"\x01" + packed(2, 0, 1, 1), listed=exceptions((0, NAN)), form=4)
    yield "natural-127", "An exponent of 127.", BAD, by("natural", b"\x01" + varint(276) + REST)
    yield "natural-k", "277 exponents.", BAD, by("natural", varint(277) + b"\x00" + packed(555, 277, 277, 277))
    yield "natural-exception", "A regular exception.", BAD, \
        by("natural", b"\x01\x80\x01" + exceptions((0, ONE)) + REST, form=4)
    for name, what, value in [("minus-zero", "-0", MINUS_ZERO), ("negative", "negative", 0xBF800000),
                              ("large", "above 2^126", BIG),
                              ("nan", "not a number", NAN)]:
        yield "sign-mean-" + name, "A mean that is %s." % what, BAD, by("sign", bits(value) + b"\x00", draws=False)
    yield "onebit-mean-positive", "A mean of the negative values that is positive.", BAD, \
        by("onebit", bits(ONE, ONE) + b"\x00", draws=False)
    yield "onebit-mean-zero", "A symbol 1 where there are no negative values.", BAD, \
        by("onebit", bits(ONE, 0) + b"\x01", draws=False)
    yield "sign-symbol-0", "A symbol 1 where the mean is 0.", BAD, by("sign", bits(0) + b"\x04", draws=False)
    yield "sign-exception", "A regular exception.", BAD, \
        by("sign", bits(ONE) + exceptions((0, ONE)) + b"\x00", form=4, draws=False)
    yield "sign-exception-symbol", "A symbol 1 in the place of an exception.", BAD, \
        by("sign", bits(ONE) + exceptions((0, NAN)) + b"\x01", form=4, draws=False)
    yield "sign-row-0", "Rows of no elements.", BAD, by("sign:axis=row", b"\x00" + b"\x00", draws=False)
    yield "sign-row-2", "Rows of 2 of a tensor of 3.", BAD, \
        by("sign:axis=row", b"\x02" + bits(ONE, ONE) + b"\x00", draws=False)
    for name, what, value in [("negative", "negative", 0xC0000000), ("minus-zero", "-0", MINUS_ZERO),
                              ("nan", "not a number", NAN),
                              ("small", "below 2^-126 over the least level", 0x01000000),
                              ("large", "above 2^126", BIG)]:
        yield "nuqsgd-scale-" + name, "A scale that is %s." % what, BAD, \
            by("nuqsgd:s=3", bits(value) + packed(9, 4, 4, 4))
    rest = packed(7, 3, 3, 3)
    yield "nuqsgd-symbol-0", "A symbol where the scale is 0.", BAD, by("nuqsgd:s=3", bits(0) + packed(9, 4, 4, 5))
    yield "nuqsgd-exception", "A regular exception.", BAD, \
        by("nuqsgd:s=3", exceptions((0, ONE)) + bits(ONE) + packed(9, 4, 4, 4), form=4)
    yield "nuqsgd-exception-symbol", "A symbol other than 0's in the place of an exception.", BAD, \
        by("nuqsgd:s=3", exceptions((0, NAN)) + bits(ONE) + packed(9, 5, 4, 4), form=4)
    for name, what, levels in [("order", "that fall", (0.5, 0.25)), ("equal", "that are equal", (0.5, 0.5)),
                               ("negative", "below 0", (-0.5, 0.5)), ("one", "as good as 1", (0.5, 1 - 2**-20)),
                               ("small", "below 2^-60", (2.0**-61, 0.5)),
                               ("nan", "that are no numbers", (float("nan"), 0.5))]:
        yield "alq-levels-" + name, "Levels %s." % what, BAD, by("alq:s=2", floats(*levels, 1) + rest)
    for name, what, value in [("minus-zero", "-0", MINUS_ZERO), ("negative", "negative", 0xBF800000),
                              ("subnormal", "subnormal", TINY),
                              ("nan", "not a number", NAN), ("large", "beyond 2^127 at the last level", 0x7E800000)]:
        yield "tqsgd-d-" + name, "Half an interval that is %s." % what, BAD, \
            by("tqsgd:bits=2", bits(value) + (b"" if value == MINUS_ZERO else packed(4, 0, 0, 0)))
    for name, what, values in [("order", "that fall", (ONE, 0x3F000000)), ("near", "closer than 2^-16", (ONE, ONE + 1)),
                               ("minus-zero", "of which the first is -0", (MINUS_ZERO,)),
                               ("subnormal", "subnormal", (TINY, ONE)),
                               ("large", "above 2^126", (ONE, BIG)), ("zero", "of which the second is 0", (ONE, 0))]:
        yield "tnqsgd-levels-" + name, "Magnitudes %s." % what, BAD, \
            by("tnqsgd:bits=2", bits(*values) + (packed(4, 0, 0, 0) if len(values) == 2 else b""))
    yield "tnqsgd-exception", "A regular exception.", BAD, \
        by("tnqsgd:bits=2", bits(ONE, 0x40000000) + exceptions((0, ONE)) + packed(4, 0, 0, 0), form=4)
    yield "tnqsgd-exception-symbol", "A symbol other than that at rest in the place of an exception.", BAD, \
        by("tnqsgd:bits=2", bits(ONE, 0x40000000) + exceptions((0, NAN)) + packed(4, 1, 0, 0), form=4)
    for name, what, payload in [("flat", "A rank of a tensor of one axis", b"\x01\x01"), ("129", "Rank 129", varint(129))]:
        yield "lowrank-rank-" + name, what + ".", BAD, by("lowrank", payload)
    for name, what, payload in [("0", "A fold of 0", b"\x01\x00"), ("5", "A fold of 5 of rows of 3", b"\x01\x05"),
                                ("weight", "A weight of 0", b"\x01\x01" + bits(0)),
                                ("step", "A step of 2^126", b"\x01\x01" + bits(ONE, 0x7E800000)),
                                ("above", "A rank of 3 of a matrix of two rows", b"\x03\x01")]:
        yield "lowrank-" + name, what + ".", BAD, by("lowrank", payload, dims=(2, 3), count=6)
    for name, what, value in WRONG_STEPS:
        yield "lattice-scale-" + name, "A scale that is %s." % what, BAD, by("lattice", bits(value) + b"\x00\x00")
    yield from in_lattices()


def in_lattices():
    """One vector of E8 in three elements; two of A2 in four."""
    def a2(escapes, *streams, more=b"", joint=0):
        sized = b"".join(text(each) for each in streams[:-1]) + (streams[-1] if streams else b"")
        return by("lattice:kind=a2", STEP + varint(escapes) + varint(joint) + more + sized, count=4)
    yield "lattice-j-scale-0", "J of 1 beside a scale of 0.", BAD, by("lattice", bits(0) + b"\x00\x01" + packed(3, 1))
    yield "lattice-escapes", "More escapes than vectors.", BAD, by("lattice", STEP + b"\x02\x00\x00\x00")
    yield "lattice-j-all-escape", "J of 1 where all vectors escape.", BAD, \
        a2(2, packed(2, 0, 0), b"", b"", more=b"\x00\x00", joint=1)
    yield "lattice-j-0", "J of 0 where a vector escapes and another does not.", BAD, \
        a2(1, b"", packed(2, 0), b"", b"", more=b"\x00\x00", joint=0)
    yield "lattice-j-large", "J of 32,768.", BAD, by("lattice", STEP + b"\x00" + varint(32768) + bytes(3))
    yield "lattice-number", "A number that the table has not.", BAD, \
        by("lattice", STEP + b"\x00" + varint(30000) + packed(60001, 60000))
    yield "lattice-escape-missing", "An escape less than is said.", BAD, \
        a2(1, packed(3, 1, 1), packed(2, 0), packed(1001, 500), packed(1001, 1000), more=varint(500) + varint(500),
           joint=1)
    yield "lattice-escape-more", "An escape, though there are none.", BAD, a2(0, packed(3, 2, 1), joint=1)
    yield "lattice-in-table", "An escaped vector that the table has.", BAD, \
        a2(1, packed(3, 2, 1), packed(2, 0), packed(3, 1), packed(3, 2), more=b"\x01\x01", joint=1)
    yield "lattice-exception", "An exception that is not far enough.", BAD, \
        by("lattice", STEP + exceptions((0, ONE)) + b"\x00\x00", form=4)


def in_sparse():
    one_place, value = b"\x40", b"\x01\x3f\x00\x00\x80"  # place 1 of 3; 1.0

    def topk(kept=b"\x01", places=one_place, values=value, listed=b"", form=0):
        return by("topk", kept + listed + places + values, form=form, draws=False)
    yield "topk-kept", "Four elements kept of three.", BAD, topk(kept=b"\x04")
    yield "topk-list-cut", "A list of places that ends early.", BAD, by("topk", b"\x01", draws=False)
    yield "topk-place", "A place of 3 of three elements.", BAD, topk(places=b"\x00\x01")
    yield "topk-rice", "A list by a parameter that is not the smallest of the best.", BAD, topk(places=b"\x61")
    yield "topk-list-bits", "A bit behind the list of places.", BAD, topk(places=b"\xc0")
    yield "topk-value-nan", "A kept value that is not a number.", BAD, topk(values=b"\x01\x7f\x00\x00\xc0")
    yield "topk-value-large", "A kept value above 2^126.", BAD, topk(values=b"\x01\x7e\x01\x00\x80")
    yield "topk-exception", "A regular exception.", BAD, topk(listed=exceptions((0, ONE)), form=4)
    yield "topk-exception-kept", "An exception in a place that is kept with a value.", BAD, \
        topk(listed=exceptions((1, NAN)), form=4)
    yield "topk-stream", "A stream that ends before it is as long as is said.", BAD, \
        topk(values=b"\x7f\x3f\x00\x00\x80")
    inner = b"\x01" + STEP + one_place
    yield "topk-below-symbol", "A group too large of the scheme below.", BAD, \
        by("topk/dqsg:levels=3", inner + b"\x00" + b"\x03")
    yield "topk-below-exception", "An exception without need of the scheme below.", BAD, \
        by("topk/dqsg:levels=3", inner + exceptions((0, ONE)) + b"\x01")
    yield "topk-below-beyond", "An exception of the scheme below beyond what is kept.", BAD, \
        by("topk/dqsg:levels=3", inner + exceptions((1, NAN)) + b"\x01")
    yield "mask-kept", "Four elements kept of three by a mask.", BAD, by("mask", b"\x04" + b"\x40", draws=False)
    yield "mask-exception", "A regular exception of a mask.", BAD, \
        by("mask", b"\x01" + exceptions((0, ONE)) + one_place, form=4, draws=False)
    yield "mask-exception-kept", "An exception in a place of the mask.", BAD, \
        by("mask", b"\x01" + exceptions((1, NAN)) + one_place, form=4, draws=False)
    three = b"\x03" + b"\x3f" * 3 + b"\x00" * 6 + b"\x80" * 3
    yield "randk-none", "Nothing kept of a tensor that has elements.", BAD, by("randk", b"\x00" + bytes(4))
    yield "randk-few", "Fewer words up to `last` than are kept.", BAD, by("randk", b"\x03" + bits(0) + three)
    yield "randk-many", "More words below `last` than are kept.", BAD, by("randk", b"\x01" + bits(0xFFFFFFFF) + value)
    yield "randk-kept", "Four elements kept of three at random.", BAD, by("randk", b"\x04" + bits(0xFFFFFFFF) + three)
    yield "randk-exception", "An exception that can be scaled.", BAD, \
        by("randk", b"\x03" + bits(0xFFFFFFFF) + exceptions((0, ONE)) + three, form=4)
    yield "rotate-exception", "An exception of 2^96.", BAD, \
        by("rotate/dqsg:levels=3", STEP + exceptions((0, 0x6F800000)) + b"\x00" + b"\x28", form=4)
    yield "rotate-below-nan", "An exception below that is not a number.", BAD, \
        by("rotate/dqsg:levels=3", STEP + exceptions((0, NAN)) + b"\x28")
    yield "rotate-below-large", "An exception below above 2^108.", BAD, \
        by("rotate/dither", floats(1) + b"\x01" + exceptions((0, 0x75800001)) + b"\x28")
    yield "rotate-below-symbol", "A group too large below a rotation.", BAD, \
        by("rotate/dqsg:levels=3", STEP + b"\x00" + b"\x51")
    for name, what, scale in WRONG_STEPS:
        yield "drive-scale-" + name, "A scale of drive that is %s." % what, BAD, \
            by("drive", b"\x00" + bits(scale) + b"\x0f")
    yield "drive-symbol-0", "A symbol other than the middle where the scale is 0.", BAD, \
        by("drive", b"\x00" + bits(0) + b"\x00")
    yield "drive-below-exception", "An exception of the levels below.", BAD, \
        by("drive", exceptions((0, NAN)) + bits(ONE) + b"\x0f")
    rotq = packed(4, 2, 2, 2, 2)
    yield "rotq-top", "A top below the last level.", BAD, by("rotq:bits=2", b"\x00" + bits(ONE, 0x3F000000) + rotq)
    yield "rotq-unit", "A unit below 2^-120.", BAD, by("rotq:bits=2", b"\x00" + bits(0x01000000, ONE) + rotq)
    yield "rotq-unit-0", "A top beside a unit of 0.", BAD, by("rotq:bits=2", b"\x00" + bits(0, ONE) + rotq)
    yield "rotq-symbol-0", "A symbol other than the middle where the unit is 0.", BAD, \
        by("rotq:bits=2", b"\x00" + bits(0, 0) + packed(4, 3, 2, 2, 2))


def in_memories_and_sketches():
    for name, what, alpha in [("zero", "0", 0.0), ("large", "above 1", 1.5), ("nan", "not a number", float("nan"))]:
        yield "diana-alpha-" + name, "An alpha that is %s." % what, BAD, \
            remembers("diana/dqsg:levels=3", doubles(alpha) + STEP + REST)
    for name, what, factor in [("zero", "0", 0.0), ("large", "above 1", 1.5), ("nan", "not a number", float("nan"))]:
        yield "shrink-factor-" + name, "A factor that is %s." % what, BAD, \
            by("shrink/dqsg:levels=3", floats(factor) + STEP + REST)
    yield "ef-sketch", "Error feedback over a sketch, which has no digests.", BAD, \
        remembers("ef/countsketch:rows=1", b"\x01" + bits(ONE))

    def sketch(columns, cells, text="countsketch:rows=1", **more):
        return by(text, varint(columns) + cells, **more)
    yield "sketch-no-columns", "No columns of a tensor that has elements.", BAD, sketch(0, b"")
    yield "sketch-columns", "More columns than elements.", BAD, sketch(4, bits(ONE) * 4)
    yield "sketch-columns-of-none", "A column of a tensor of no elements.", BAD, sketch(1, bits(ONE), count=0)
    yield "sketch-nan", "A cell that is not a number.", BAD, sketch(1, bits(NAN))
    yield "sketch-minus-zero", "A cell of -0.", BAD, sketch(1, bits(MINUS_ZERO))
    yield "sketch-cut", "A table that ends early.", BAD, sketch(2, bits(ONE))
    yield "sketch-exception", "A regular exception.", BAD, \
        by("countsketch:rows=1", b"\x01" + bits(ONE) + exceptions((0, ONE)), form=4)
    whole = "countsketch:rows=1,value=i64,exp=3"
    yield "sketch-width-0", "A width of 0.", BAD, sketch(1, b"\x00", whole)
    yield "sketch-width-9", "A width of 9.", BAD, sketch(1, b"\x09" + bytes(9), whole)
    yield "sketch-width", "A width of which one byte less would do.", BAD, sketch(1, b"\x02\x01\x00", whole)
    yield "sketch-least", "A cell of -2^63.", BAD, sketch(1, b"\x08" + bytes(7) + b"\x80", whole)

    def nested(step=2.0, rho=3, alpha=1.0, a=None, b=None, symbols=packed(3, 1, 1, 1), listed=b"", form=0):
        a = (alpha / (rho * step) if step else 0.0) if a is None else a
        b = (1 / rho if rho else 0.0) if b is None else b
        payload = floats(step) + varint(rho) + doubles(alpha, a, b) + listed + symbols
        return by("ndqsg", payload, form=form)
    for name, what, data in [
            ("rho-1", "A rho of 1.", nested(rho=1, symbols=b"")),
            ("rho-large", "A rho of 32,768.", nested(rho=32768, symbols=bytes(6))),
            ("alpha", "An alpha of 0.", nested(alpha=0.0)), ("alpha-large", "An alpha above 1.", nested(alpha=1.5)),
            ("a", "An A that does not follow from the step.", nested(a=0.25)),
            ("b", "A B that does not follow from rho.", nested(b=0.25)),
            ("a-next", "An A of which the last bit is another.", nested(a=1 / 6 + 2**-55)),
            ("step", "A step that is not a number.", nested(step=float("nan"), a=0.0)),
            ("symbol-step-0", "A symbol where the step is 0.", nested(step=0.0, symbols=packed(3, 1, 1, 2))),
            ("exception", "A regular exception.", nested(listed=exceptions((0, ONE)), form=4)),
            ("exception-symbol", "A symbol in the place of an exception.",
             nested(listed=exceptions((0, NAN)), symbols=packed(3, 2, 1, 1), form=4))]:
        yield "ndqsg-" + name, what, BAD, data, {"side": "dump"}
    yield "ndqsg-no-side", "No side information, which decoding needs.", USAGE, nested()


def in_sums():
    three = packed(7, 3, 3, 3)

    def of(weight=1, factor=1.0, m=3, scales=b"\x01", steps=STEP, symbols=three, scheme="sum", **more):
        return sums(varint(weight) + doubles(factor) + varint(m) + scales + steps + symbols, scheme, **more)
    for name, what, data in [
            ("weight-0", "A weight of 0.", of(weight=0)),
            ("weight-large", "A weight above 2^53.", of(weight=2**53 + 1)),
            ("factor", "A factor that is neither 1 nor 1 / weight.", of(weight=2, factor=0.25)),
            ("m", "M of 32,768.", of(m=32768, symbols=bytes(6))),
            ("no-scales", "No scale.", of(scales=b"\x00", steps=b"")),
            ("nine-scales", "Nine scales.", of(scales=b"\x09", steps=STEP * 9)),
            ("step", "A step that is subnormal.", of(steps=bits(TINY))),
            ("steps", "Steps that do not fall.", of(scales=b"\x02", steps=STEP * 2, symbols=text(three) + three)),
            ("step-0", "A step of 0 beside another.",
             of(scales=b"\x02", steps=STEP + bits(0), symbols=text(three) + three)),
            ("large", "Steps whose largest sum passes 2^127.", of(steps=bits(HALF_BIG))),
            ("symbol-0", "A sum other than 0 where the step is 0.", of(steps=bits(0), symbols=packed(7, 3, 3, 4))),
            ("exceptions", "Exceptions of a sum.",
             sums(varint(1) + doubles(1.0) + b"\x03\x01" + STEP + exceptions((0, NAN)) + three, form=4)),
            ("tables-of-none", "A sum of tables with nothing behind it.", of(scheme="sum:of=tables")),
            ("behind", "Something behind a sum of symbols.", of(scheme="sum/dqsg:levels=3"))]:
        yield "sum-" + name, what, BAD, data

    def values(value):
        data = struct.pack("<d", value)
        return sums(b"\x01" + doubles(1.0) + text(data[7:] * 3) + text(data[6:7] * 3)
                    + b"".join(bytes([byte]) * 3 for byte in data[:6]), "sum:of=values")
    yield "sum-value-minus-zero", "A sum of values that is -0.", BAD, values(-0.0)
    yield "sum-value-large", "A sum of values above 2^127.", BAD, values(2.0**128)
    yield "sum-value-nan", "A sum of values that is not a number.", BAD, values(float("nan"))
    yield "sum-in-message", "A sum in a message.", BAD, \
        by("sum", b"\x01" + doubles(1.0) + b"\x03\x01" + STEP + three, draws=False)
    yield "sum-of-none", "A file of kind 5 without a sum.", BAD, file(start=prologue(kind=5))
    yield "sum-worker", "A worker in a sum.", BAD, \
        by("sum", b"\x01" + doubles(1.0) + b"\x03\x01" + STEP + three, kind=5, message=b"\x02\x05")


def in_kinds():
    mask = b"\x01\x40"
    yield "set-seed", "An index set with a seed.", BAD, by("mask", mask, kind=4, message=b"\x01" + SEED)
    yield "set-worker", "An index set with a worker.", BAD, by("mask", mask, kind=4, message=b"\x02\x00")
    yield "set-scheme", "An index set by another scheme than mask.", BAD, by("dqsg:levels=3", STEP + REST, kind=4)
    with_exception = by("mask", b"\x01" + exceptions((0, NAN)) + b"\x40", form=4, kind=4, draws=False)
    yield "set-exceptions", "An index set with an exception.", BAD, \
        by("at", b"\x01\x3f\0\0\x80", message=b"\x20" + with_exception[-16:-8]), {"at": with_exception}
    of_set = by("mask", mask, kind=4, draws=False)
    answer = b"\x01\x3f\0\0\x80"
    yield "at-another-set", "An answer to another index set.", BAD, by("at", answer, message=b"\x20" + SEED), \
        {"at": of_set}
    yield "at-no-set", "An answer, and no index set is given.", USAGE, \
        by("at", answer, message=b"\x20" + of_set[-16:-8])
    yield "at-tensor-missing", "An answer with a tensor that the set has not.", BAD, \
        file(schema=schema(schemes=((b"at", 0),), tensors=(tensor(name=b"z"),)), message=b"\x20" + of_set[-16:-8],
             frames=((0, answer),)), {"at": of_set}
    yield "at-shape", "An answer whose tensor has another shape in the set.", BAD, \
        by("at", answer, message=b"\x20" + of_set[-16:-8], dims=(3, 1)), {"at": of_set}
    yield "at-short", "An answer with fewer values than the set has places.", BAD, \
        by("at", b"\x00", message=b"\x20" + of_set[-16:-8]), {"at": of_set}
    state = schema(schemes=((b"raw", 0),), tensors=(tensor(name=b"e/a", dtype=b"\x03"),))

    def of(body=b"\x01\x02ef", message=b"\x15" + SEED + b"\x01" + bytes(8), blocks=None, schema=state):
        between = ((4, body),) if blocks is None else blocks
        return file(prologue(kind=3), schema, between, message, ((0, bytes(24)),))
    yield "state-without-block", "A state without STATE.", BAD, of(blocks=())
    yield "state-two-blocks", "A state with two STATE blocks.", BAD, of(blocks=((4, b"\x01\x02ef"),) * 2)
    yield "state-role", "A state of role 3.", BAD, of(b"\x03\x02ef")
    yield "state-no-memory", "A state of a memory of no name.", BAD, of(b"\x01\x00")
    yield "state-rest", "A byte behind the fields of STATE.", BAD, of(b"\x01\x02efx")
    yield "state-no-step", "A state without a step.", BAD, of(message=b"\x11" + SEED + bytes(8))
    yield "state-no-seed", "A state without a seed.", BAD, of(message=b"\x14\x01" + bytes(8))
    yield "state-no-previous", "A state without the check of the last message.", BAD, \
        of(message=b"\x05" + SEED + b"\x01")


def in_bare():
    good_schema = schema()
    beside = {"schema": schema_file(good_schema)}
    zeros = [bytes(12)]
    at_rest = {"tensors": bits(0) + REST, "values": zeros}
    good = bare(**at_rest)
    yield "bare-without-schema", "A bare message without its schema.", USAGE, good
    for name, what, data in [
            ("magic", "Another magic number of a bare message.", bare(magic=b"\x89GRc", **at_rest)),
            ("check", "A bit of a bare message's check is flipped.", flipped(good, len(good) - 1)),
            ("cut", "A bare message without its last byte.", good[:-1]),
            ("rest", "A byte behind a bare message.", good + b"x"),
            ("digest", "A bare message with another digest.", bare(tensors=bits(0) + REST, digest=1)),
            ("group", "A group too large in a bare message.", bare(tensors=STEP + bytes([27]), digest=0)),
            ("short", "A bare message that ends within its tensors.", bare(tensors=STEP, digest=0)),
            ("long", "A byte behind the tensors of a bare message.",
             bare(tensors=bits(0) + REST + b"\0", values=zeros)),
            ("worker", "Worker 2^32 of a bare message.", bare(flags=1, more=varint(2**32), **at_rest)),
            ("exceptions", "The flag of exceptions, and there are none.",
             bare(flags=4, tensors=bits(0) + b"\x00" + REST, values=zeros))]:
        yield "bare-" + name, what, BAD, data, beside
    for name, code in (("ef/grid", UNSUPPORTED), ("diana/grid", UNSUPPORTED), ("at", UNSUPPORTED), ("sum", BAD)):
        its_schema = schema(schemes=((name.encode(), 0),))
        yield "bare-of-" + name.partition("/")[0], "A bare message of `%s`, which none may be." % name, code, \
            bare(its_schema, tensors=bits(0) + REST, values=zeros), {"schema": schema_file(its_schema)}
    yield "bare-version", "A bare message of version 2.", UNSUPPORTED, bare(major=2, **at_rest), beside
    yield "bare-flag", "A flag of a bare message that is not known.", UNSUPPORTED, bare(flags=8, **at_rest), beside
    yield "bare-another-schema", "A bare message of another schema.", UNSUPPORTED, good, {"schema": schema_file(TWO)}
    yield "bare-schema-long", "A byte behind the schema file.", BAD, good, {"schema": beside["schema"] + b"x"}
    yield "bare-schema-check", "A bit of the schema file is flipped.", BAD, good, \
        {"schema": flipped(beside["schema"], 30)}
    yield "bare-schema-message", "A message in the place of the schema file.", BAD, good, {"schema": file()}


def in_narrowing():
    yield "narrowing-f2", "A decoded value of some 131,072, asked for as float16.", LIMIT, \
        one_frame(floats(2.0**17) + SYMBOLS), {"dtype": "f2"}
    yield "narrowing-stored-f2", "A tensor of float16 whose decoded value is beyond its range.", LIMIT, \
        file(schema=schema(tensors=(tensor(dtype=b"\x01"),)), frames=((0, floats(2.0**17) + SYMBOLS),))


def all_refused():
    for group in (in_container, in_schema, in_scheme_texts, in_message, in_frames, in_cbor, in_coders, in_steps,
                  in_tables,
                  in_sparse, in_memories_and_sketches, in_sums, in_kinds, in_bare, in_narrowing):
        for case in group():
            yield Refused(*case)
