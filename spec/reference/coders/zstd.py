"""coders/zstd.md, and the packed content of blocks (container.md, section 7)."""
# SPDX-License-Identifier: Apache-2.0
import zstandard

from reference.coders import pack
from reference.reading import Damaged, Reader, require

WINDOW = 2**27


def decode(data, alphabet, count):
    if alphabet == 0:
        return pack.decode(content(data, count), 0, count)
    group = (1, pack.digits_in(alphabet, 1)) if 2 <= alphabet <= 256 else (2, 1)
    return pack.decode(content(data, pack.packed_size(alphabet, count, group)), alphabet, count, group)


def content(data, size):
    """Of one frame that says that it has `size` bytes."""
    reader = Reader(data)
    check_header(reader, size)
    walk_blocks(reader)
    reader.end("a Zstandard frame")
    try:
        # One byte more than there may be, so that the frame is read to its end.
        out = zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(data).read(size + 1)
    except zstandard.ZstdError as error:
        raise Damaged("a damaged Zstandard frame: %s" % error) from error
    require(len(out) == size, "a Zstandard frame of another content than it says")
    return out


def check_header(reader, size):
    require(reader.take(4) == b"\x28\xB5\x2F\xFD", "not a Zstandard frame")
    descriptor = reader.uint(1)
    single_segment, size_code = descriptor >> 5 & 1, descriptor >> 6
    require(descriptor & 0b00011111 == 0, "a dictionary, a checksum or reserved bits in a Zstandard frame")
    if not single_segment:
        window = reader.uint(1)
        require((8 + window % 8) << (window >> 3) + 7 <= WINDOW, "a Zstandard window of more than 2^27 bytes")
    require(size_code or single_segment, "a Zstandard frame that does not say its size")
    stated = reader.uint(1 << size_code) + (256 if size_code == 1 else 0)
    require(stated == size, "a Zstandard frame of %d bytes where there must be %d" % (stated, size))
    require(not single_segment or stated <= WINDOW, "a Zstandard window of more than 2^27 bytes")


def walk_blocks(reader):
    last = 0
    while not last:
        head = reader.uint(3)
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        require(kind < 3, "a reserved Zstandard block")
        reader.take(1 if kind == 1 else size)
