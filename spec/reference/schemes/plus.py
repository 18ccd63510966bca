"""schemes/plus.md: a+b."""
# SPDX-License-Identifier: Apache-2.0
from reference.reading import require
from reference.schemes.parts import Scheme, put_back


class Plus(Scheme):
    """`inner`: what stands before the last +, decoded from the tensor's parameters already; `rest`: behind it."""

    def __init__(self, place, inner, rest):
        super().__init__(place)
        self.inner, self.rest = inner, rest
        require(inner.digested and rest.digested, "a sum with a part of which no encoder knows what it decodes to")

    def fixed_params(self, count):
        return None

    def values(self, code):
        return put_back(self.inner.values(code.below) + self.rest.values(code.rest), code)
