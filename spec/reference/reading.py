"""The conventions of container.md, section 2, and the ways in which an input is refused."""
# SPDX-License-Identifier: Apache-2.0


class Refused(Exception):
    """What a reader says instead of values. `code` is the exit code that container.md, section 17, gives it."""
    code = 70


class Usage(Refused):
    """Something that has to stand beside the input is missing."""
    code = 2


class Damaged(Refused):
    """Something that the pages forbid."""
    code = 3


class Limit(Refused):
    """More than this reader is willing to hold, or a value beyond the type it goes to."""
    code = 5


class Unsupported(Refused):
    """Something that a later version may define."""
    code = 6


def require(condition, what, kind=Damaged):
    if not condition:
        raise kind(what)


class Reader:
    """Takes bytes from the front, never more than there are."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        require(count <= self.left(), "the input ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def uint(self, size):
        return int.from_bytes(self.take(size), "little")

    def uint_big(self, size):
        """Big-endian, as CBOR has it."""
        return int.from_bytes(self.take(size), "big")

    def varint(self):
        value = 0
        for i in range(9):
            byte = self.uint(1)
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                require(byte > 0 or i == 0, "a varint that is not the shortest")
                return value
        raise Damaged("a varint of more than nine bytes")

    def text(self, most):
        """A length and so many bytes."""
        size = self.varint()
        require(size <= most, "a text of %d bytes, at most %d are allowed" % (size, most))
        return self.take(size)

    def end(self, what):
        require(self.left() == 0, "%d bytes behind the end of %s" % (self.left(), what))
