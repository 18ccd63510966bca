"""The pages of schemes/, each as a class: what is stored of a tensor and of a chunk, and what values it stands for."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import page_lattice
import page_rotation
import page_sum
from page_numbers import Damaged, F4, float_of, require, take_float, word_of
from xxh3 import xxh3

REGULAR = 2.0**126


def dither_context(word):
    t = word >> 9
    z = 2 * min(t, 2**23 - 1 - t) + 1
    e = z.bit_length() - 1
    return 2 * max(0, 4 * (e - 22) + (4 * z >> e) - 4 + 28) + (1 if t < 2**22 else 0)


class Place:
    """Where a scheme stands: whose draws, which tensor, which chunks (how many elements each), which stage. `side`: its
    side information."""

    def __init__(self, key, step_key, run_key, ordinal, shape, chunks, stage=0, side=None, mask=None):
        self.key, self.step_key, self.run_key = key, step_key, run_key
        self.ordinal, self.shape, self.stage = ordinal, shape, stage
        self.side = side
        self.chunks, self.mask = chunks, mask  # mask: of the index set that the message answers

    def below(self, shape=None, chunks=None):
        return Place(self.key, self.step_key, self.run_key, self.ordinal, self.shape if shape is None else shape,
                     self.chunks if chunks is None else chunks, self.stage + 1)

    def word(self, purpose, i, sub=0, shared=False, run=False):
        key = self.run_key if run else self.step_key if shared else self.key
        return word_of(key, self.ordinal, purpose, self.stage, i, sub)

    def contexts(self, first, count):
        return [dither_context(self.word(1, first + i)) for i in range(count)]


class Stream:
    """Contexts, if it has some, are classes of the dither, made when a coder asks for them."""

    def __init__(self, alphabet, count, contexts=None, classes=32):
        self.alphabet, self.count, self.contexts, self.classes = alphabet, count, contexts, classes


class Code:
    """Of one chunk: parameters, streams and their symbols, exceptions, and the code below."""

    def __init__(self, first, count, exceptions):
        self.first, self.count, self.exceptions = first, count, exceptions
        self.params, self.streams, self.symbols, self.below = None, [], [], None


class Scheme:
    """A tensor's, from its stored parameters."""
    inner = None
    digested = True  # whether a chunk's digest is of its values
    streams_vary = False  # with more than the number of elements
    digested = True  # whether the encoder knows what is decoded

    def fixed_params(self, count):
        """Bytes of a chunk's parameters, if they are the same for all of `count` elements."""
        return 0

    def take_params(self, reader, code):
        return None

    def contexts(self, code):
        return lambda: self.place.contexts(code.first, code.count)


def take_step(reader):
    bits = reader.uint(4)
    require(bits == 0 or 0x00800000 <= bits <= 0x7E800000, "step")
    return float_of(bits)


def put_back(values, exceptions, is_zero, limit=lambda index: REGULAR):
    bits = values.view(np.uint32)
    for index, its_bits in exceptions:
        magnitude = abs(float(float_of(its_bits)))
        require(is_zero(index) and not magnitude <= min(limit(index), REGULAR), "exception without need")
        bits[index] = its_bits
    return values


class Grid(Scheme):
    """grid_quantizer.md"""

    def __init__(self, stored, place, rounding, bucket=0, levels=None):
        self.place, self.rounding, self.bucket, self.stores_level = place, rounding, bucket, levels is None
        self.step = F4(0) if bucket else take_step(stored)
        self.m = stored.varint() if levels is None else levels
        require(self.m <= 32767, "M")
        require(bucket or self.step or not self.m or not self.stores_level, "M beside a step of 0")

    def fixed_params(self, count):
        return 4 * -(-count // self.bucket) if self.bucket else 0

    def take_params(self, reader, code):
        if not self.bucket:
            return [self.step]
        return [take_step(reader) for _ in range(-(-code.count // self.bucket))]

    def streams(self, code):
        contexts = None if self.rounding == "nearest" else self.contexts(code)
        return [Stream(2 * self.m + 1, code.count, contexts)]

    def values(self, code):
        (symbols,), steps, run = code.symbols, code.params, self.bucket or max(code.count, 1)
        values = np.zeros(code.count, F4)
        for i, symbol in enumerate(symbols):
            step, q = steps[i // run], symbol - self.m
            require(step or q == 0, "symbol where the step is 0")
            if step and self.rounding == "subtractive":
                u = (F4(self.place.word(1, code.first + i) >> 9) + F4(0.5)) * F4(2**-23) - F4(0.5)
                values[i] = (F4(q) - u) * step
            elif q:
                values[i] = F4(q) * step

        def limit(index):
            step = float(steps[index // run])
            return 32767 * step if self.stores_level and step else REGULAR
        return put_back(values, code.exceptions, lambda index: symbols[index] == self.m, limit)


class Nested(Scheme):
    """ndqsg.md"""

    def __init__(self, stored, place, checked):
        self.place, self.checked, self.step, self.rho = place, checked, take_step(stored), stored.varint()
        self.alpha, self.a, self.b = np.frombuffer(stored.take(24), "<f8")
        require(2 <= self.rho <= 32767 and 0.001 <= self.alpha <= 1, "rho, alpha")
        require(self.a == (self.alpha / (self.rho * float(self.step)) if self.step else 0), "A")
        require(self.b == 1 / self.rho, "B")
        self.half, self.digested = self.rho // 2, bool(self.alpha == 1)

    def fixed_params(self, count):
        return 4 if self.checked else 0

    def take_params(self, reader, code):
        return reader.uint(4) if self.checked else None

    def streams(self, code):
        if self.rho % 2:
            return [Stream(self.rho, code.count, self.contexts(code))]
        plain = self.contexts(code)
        signed = lambda: [2 * (context // 2 + 32 * (context % 2)) for context in plain()]
        return [Stream(self.rho, code.count, signed, 64)]

    def values(self, code):
        symbols, = code.symbols
        require(self.place.side is not None, "side information")
        sides = np.asarray(self.place.side, F4).reshape(-1)[code.first:code.first + code.count]
        values, fine, most = np.zeros(code.count, F4), np.zeros(code.count, np.int32), 32767 // self.rho + 1
        keep, cell = 1 - self.alpha * self.alpha, self.alpha * float(self.step)
        for i, symbol in enumerate(symbols):
            require(self.step or symbol == self.half, "symbol where the step is 0")
            if not self.step:
                continue
            v = (F4(self.place.word(1, code.first + i) >> 9) + F4(0.5)) * F4(2**-23)
            u, y, k = float(v) - 0.5, float(sides[i]), symbol - self.half
            y = y if abs(y) <= REGULAR else 0.0
            z = (y * self.a + (u - k) * self.b) + 0.5
            fine[i] = k + self.rho * int(max(-most, min(most, np.floor(z))))
            if self.alpha == 1:
                values[i] = (F4(fine[i]) - F4(u)) * self.step
            else:
                values[i] = F4(y * keep + cell * (int(fine[i]) - u))
        limit = 32767 * float(self.step) if self.step else REGULAR
        put_back(values, code.exceptions, lambda index: symbols[index] == self.half, lambda index: limit)
        fine[[index for index, _ in code.exceptions]] = 0
        require(not self.checked or code.params == xxh3(fine.tobytes()) & 0xFFFFFFFF, "side information")
        return values


class Binomial(Scheme):
    """bq.md"""

    def __init__(self, stored, bits, m):
        self.top, self.step = 2**bits - 1 + m, take_step(stored)
        require(self.top <= 65535 and 2.0**-114 <= self.step <= 2.0**101, "bq")

    def streams(self, code):
        return [Stream(self.top + 1, code.count)]

    def values(self, code):
        require(not code.exceptions, "exceptions of bq")
        return np.array([self.step / F4(2) * F4(2 * y - self.top) for y in code.symbols[0]], F4)


class Levels(Scheme):
    """level_quantizer.md, with no scales: of truncated.md and its presets."""

    def __init__(self, stored, place, name, bits):
        self.place, self.levels = place, [F4(0)]
        floats = [take_float(stored)]
        if floats[0].view(np.uint32) == 0:
            return
        if name == "tqsgd":
            require(2.0**-126 <= floats[0] <= 2.0**127, "half an interval")
            floats = [F4(j) * floats[0] for j in range(1, 2**bits, 2)]
            require(floats[-1] <= 2.0**127, "largest level")
        else:
            floats += [take_float(stored) for _ in range(2**(bits - 1) - 1)]
            require(2.0**-126 <= floats[0] and floats[-1] <= 2.0**126, "levels")
            require(all(float(b) >= float(a) * (1 + 2.0**-16) for a, b in zip(floats, floats[1:])), "levels")
        self.levels = [-x for x in reversed(floats)] + floats

    def streams(self, code):
        return [Stream(len(self.levels), code.count, self.contexts(code))]

    def values(self, code):
        symbols, = code.symbols
        values = np.array([self.levels[symbol] for symbol in symbols], F4)
        return put_back(values, code.exceptions, lambda index: symbols[index] == 0)


class ScaledLevels(Scheme):
    """level_quantizer.md, with scales: of nuqsgd.md, alq.md and amq.md."""

    def __init__(self, stored, place, name, s, bucket):
        self.place, self.bucket = place, bucket
        if name == "nuqsgd":
            inner = [F4(2.0 ** -j) for j in range(s, 0, -1)]
        else:
            inner = [take_float(stored) for _ in range(s)]
            require(inner[0] >= 2.0**-60, "the first level")
            for low, high in zip(inner, [*inner[1:], F4(1)]):
                require(float(high) >= float(low) * (1 + 2**-16), "levels")
        magnitudes = [*inner, F4(1)]
        self.levels = [-level for level in magnitudes[::-1]] + [F4(0)] + magnitudes
        self.least = F4(2.0**-126 / float(inner[0]))
        if float(self.least) * float(inner[0]) < 2.0**-126:
            self.least = np.nextafter(self.least, F4(1))
        self.scale = None if bucket else self.take_scale(stored)

    def take_scale(self, reader):
        bits = reader.uint(4)
        require(bits == 0 or bits < 2**31 and self.least <= float_of(bits) <= REGULAR, "scale")
        return float_of(bits)

    def fixed_params(self, count):
        return 4 * -(-count // self.bucket) if self.bucket else 0

    def take_params(self, reader, code):
        if not self.bucket:
            return [self.scale]
        return [self.take_scale(reader) for _ in range(-(-code.count // self.bucket))]

    def streams(self, code):
        return [Stream(len(self.levels), code.count, self.contexts(code))]

    def values(self, code):
        (symbols,), scales, run = code.symbols, code.params, self.bucket or max(code.count, 1)
        zero, values = len(self.levels) // 2, np.zeros(code.count, F4)
        for i, symbol in enumerate(symbols):
            scale = scales[i // run]
            require(scale or symbol == zero, "symbol where the scale is 0")
            if symbol != zero:
                values[i] = scale * self.levels[symbol]
        return put_back(values, code.exceptions, lambda index: symbols[index] == zero)


class Natural(Scheme):
    """natural.md"""

    def __init__(self, stored, place):
        self.place = place
        self.k = stored.varint()
        lowest = stored.varint() if self.k else 0
        require(lowest + self.k <= 276, "exponents")
        self.lowest = lowest - 149

    def streams(self, code):
        return [Stream(2 * self.k + 1, code.count, self.contexts(code))]

    def values(self, code):
        symbols, = code.symbols
        values = np.zeros(code.count, F4)
        for i, symbol in enumerate(symbols):
            j = abs(symbol - self.k)
            if j:
                values[i] = F4(np.sign(symbol - self.k) * 2.0 ** (self.lowest + j - 1))
        return put_back(values, code.exceptions, lambda index: symbols[index] == self.k)


class Multiscale(Scheme):
    """multiscale.md"""

    def __init__(self, stored, place, bits):
        self.place, self.m = place, 2 ** bits[0] - 1
        self.steps = [take_step(stored) for _ in bits]
        for a, b in zip(self.steps, self.steps[1:]):
            require(a > b or a == b <= 2.0**-126, "steps that do not fall")
        require(bool(self.steps[0]) == bool(self.steps[-1]), "a step of 0 beside others")

    def streams(self, code):
        return [Stream(len(self.steps), code.count), Stream(2 * self.m + 1, code.count, self.contexts(code))]

    def values(self, code):
        scales, symbols = code.symbols
        values = np.zeros(code.count, F4)
        for i, symbol in enumerate(symbols):
            require(self.steps[0] or (symbol == self.m and scales[i] == 0), "symbol where the step is 0")
            if symbol != self.m:
                values[i] = F4(symbol - self.m) * self.steps[scales[i]]
        finest = len(self.steps) - 1 if self.steps[0] else 0
        return put_back(values, code.exceptions,
                        lambda index: symbols[index] == self.m and scales[index] == finest)


class Sum(Scheme):
    """sum.md"""
    streams_vary = True

    def __init__(self, stored, place, of):
        self.sum = page_sum.Sum(stored, of, below=place.stage > 0)

    def streams(self, code):
        return [Stream(alphabet, code.count * of_each) for alphabet, of_each in self.sum.streams()]

    def values(self, code):
        require(not code.exceptions, "exceptions of a sum")
        return self.sum.values(code.symbols, code.count)


class Means(Scheme):
    """two_means.md"""

    def __init__(self, stored, place, two, axis):
        self.place, self.two, self.by_row = place, two, axis == "row"
        self.row = stored.varint() if self.by_row else 0
        if self.by_row:
            elements = sum(place.chunks)
            require(self.row and (place.stage or elements % self.row == 0), "rows")
        self.means = None if self.by_row else self.take_means(stored)

    def take_means(self, reader):
        plus = take_float(reader)
        minus = take_float(reader) if self.two else (-plus if plus else F4(0))
        require(0 <= plus <= REGULAR and not np.signbit(plus), "mean")
        require(-REGULAR <= minus <= 0 and (minus < 0 or not np.signbit(minus)), "mean")
        return plus, minus

    def pieces(self, first, count):
        return 0 if count == 0 else (first + count - 1) // self.row - first // self.row + 1

    def fixed_params(self, count):
        return 0 if not self.by_row else self.pieces(0, count) * (8 if self.two else 4)

    def take_params(self, reader, code):
        if not self.by_row:
            return [self.means]
        return [self.take_means(reader) for _ in range(self.pieces(code.first, code.count))]

    def streams(self, code):
        return [Stream(2, code.count)]

    def values(self, code):
        symbols, = code.symbols
        values = np.zeros(code.count, F4)
        for i, symbol in enumerate(symbols):
            piece = (code.first + i) // self.row - code.first // self.row if self.by_row else 0
            require(symbol == 0 or code.params[piece][1] != 0, "a mean that there is not")
            values[i] = code.params[piece][symbol]
        return put_back(values, code.exceptions, lambda index: symbols[index] == 0)


def rice_list(reader, k, n):
    """indices.md"""
    missing = k > n // 2
    written = n - k if missing else k
    if written == 0:
        return list(range(n)) if missing else []
    bits = (byte >> i & 1 for byte in iter(lambda: reader.uint(1), None) for i in range(8))
    taken = 0

    def take(count):
        nonlocal taken
        taken += count
        return sum(next(bits) << i for i in range(count))
    r, place, gaps, places = take(5), 0, [], []
    for _ in range(written):
        high = 0
        while take(1) == 0:
            high += 1
        gaps.append(high << r | take(r))
        place += gaps[-1]
        require(place < n, "place")
        places.append(place)
        place += 1
    require(take(-taken % 8) == 0, "bits after the list")
    sizes = [sum((gap >> s) + 1 + s for gap in gaps) for s in range(32)]
    require(sizes.index(min(sizes)) == r, "not the shortest list")
    return sorted(set(range(n)) - set(places)) if missing else places


class Sparse(Scheme):
    """sparsifier.md"""
    streams_vary = True

    def __init__(self, stored, place, drawn, shared, below, given=False, ones=False):
        self.place, self.drawn, self.shared, self.given, self.ones = place, drawn, shared, given, ones
        if given:  # at.md: the places of the set, or all
            starts = np.cumsum([0, *place.chunks])
            marks = np.ones(starts[-1]) if place.mask is None else place.mask
            self.places = [np.flatnonzero(marks[a:b]).tolist() for a, b in zip(starts, starts[1:])]
        self.counts = [len(places) for places in self.places] if given else [stored.varint() for _ in place.chunks]
        require(all(kept <= count for kept, count in zip(self.counts, place.chunks)), "kept counts")
        self.size, self.total = sum(place.chunks), sum(self.counts)
        self.last = 0
        if drawn and self.size:
            require(self.total > 0, "nothing drawn")
            self.last = stored.uint(4)
        if below:
            self.inner = scheme_of(below, stored, place.below((self.total,), self.counts))

    def fixed_params(self, count):
        return 0 if self.drawn or self.given else None

    def chunk_of(self, code):
        """Which of the chunks that are not empty begins there."""
        starts = np.cumsum([0, *self.place.chunks])
        return next((i for i, count in enumerate(self.place.chunks) if count and starts[i] == code.first), None)

    def inner_range(self, code):
        i = self.chunk_of(code)
        return (0, 0) if code.count == 0 else (sum(self.counts[:i]), self.counts[i])

    def take_params(self, reader, code):
        kept = self.inner_range(code)[1]
        if self.given:
            return self.places[self.chunk_of(code)] if code.count else []
        if not self.drawn:
            return rice_list(reader, kept, code.count)
        words = [self.place.word(3, code.first + i, shared=self.shared) for i in range(code.count)]
        places = [i for i, word in enumerate(words) if word < self.last]
        equal = [i for i, word in enumerate(words) if word == self.last]
        require(len(places) <= kept <= len(places) + len(equal), "another number was drawn")
        return sorted(places + equal[:kept - len(places)])

    def streams(self, code):
        return [] if self.inner or self.ones else [Stream(256, len(code.params)), Stream(0, 3 * len(code.params))]

    def values(self, code):
        k, values = len(code.params), np.zeros(code.count, F4)
        if self.inner:
            values[code.params] = self.inner.values(code.below)
        elif self.ones:
            values[code.params] = 1
        else:
            high, low = code.symbols
            bits = [high[j] << 24 | low[2 * k + j] << 16 | low[k + j] << 8 | low[j] for j in range(k)]
            kept = np.array(bits, np.uint32).view(F4)
            require(all(abs(float(x)) <= REGULAR for x in kept), "a kept value")
            values[code.params] = kept

        def needless(bits):
            scaled = abs(float(float_of(bits))) * (self.size if self.drawn else 1)
            drawn = self.total if self.drawn else 1
            return scaled == 0 or (2.0**-126 * drawn if self.drawn else 0) <= scaled <= REGULAR * drawn
        for index, bits in code.exceptions:
            require(not needless(bits) and (self.inner or values.view(np.uint32)[index] == 0), "exception without need")
            values.view(np.uint32)[index] = bits
        return values


class Sketch(Scheme):
    """countsketch.md"""
    digested = False

    def __init__(self, stored, place, params):
        self.rows, self.place, self.run = int(params["rows"]), place, params.get("scope") == "run"
        self.exp = int(params["exp"]) if "exp" in params else None
        require(self.rows % 2 == 1 and (self.exp is None) == (params.get("value", "f32") == "f32"), "parameters")
        size = sum(place.chunks)
        self.cols = stored.varint()
        require((self.cols == 0) == (size == 0) and self.cols <= size, "columns")
        require(self.rows * self.cols <= 2**26, "cells")
        self.table = [self.take_row(stored) for _ in range(self.rows)] if self.exp is None else self.take_whole(stored)

    def take_row(self, stored):
        row = np.frombuffer(stored.take(4 * self.cols), "<f4")
        require(np.all(np.isfinite(row)) and not np.any((row == 0) & np.signbit(row)), "cells")
        return row

    def take_whole(self, stored):
        if self.cols == 0:
            return [[]] * self.rows
        width = stored.uint(1)
        require(1 <= width <= 8, "width")
        table = [[int.from_bytes(stored.take(width), "little", signed=True) for _ in range(self.cols)]
                 for _ in range(self.rows)]
        most = max(max(cell, ~cell) for row in table for cell in row)
        require(most.bit_length() // 8 + 1 == width and min(map(min, table)) > -2**63, "width")
        return table

    def streams(self, code):
        return []

    def estimate(self, j):
        said = []
        for row in range(self.rows):
            word = self.place.word(6, j, row, shared=not self.run, run=self.run)
            cell = self.table[row][(2 * word & 0xFFFFFFFF) * self.cols >> 32]
            said.append(-cell if word >> 31 else cell)
        middle = sorted(said)[self.rows // 2]
        return F4(middle) + F4(0) if self.exp is None else F4(middle) * F4(2.0**-self.exp)

    def values(self, code):
        values = np.array([self.estimate(code.first + i) for i in range(code.count)], F4)
        return put_back(values, code.exceptions, lambda index: True)


class Lattice(Scheme):
    """lattice.md"""

    def __init__(self, stored, place, kind):
        self.place, self.kind, self.size = place, kind, page_lattice.DIMENSION[kind]
        self.scale = take_step(stored)

    def fixed_params(self, count):
        return None

    def vectors(self, code):
        return -(-code.count // self.size)

    def take_params(self, reader, code):
        vectors = self.vectors(code)
        escapes, joint = reader.varint(), reader.varint()
        others, first = (reader.varint(), reader.varint()) if escapes else (0, 0)
        require(escapes <= vectors and max(joint, others, first) <= 32767, "levels")
        require(joint == 0 if escapes == vectors else joint > 0 or escapes == 0, "J")
        require(self.scale or joint == escapes == 0, "points where the scale is 0")
        return escapes, joint, others, first

    def streams(self, code):
        escapes, joint, others, first = code.params
        out = []
        if escapes == 0 or escapes < self.vectors(code):
            out.append(Stream(2 * joint + 1, self.vectors(code)))
        if escapes and page_lattice.HALVES[self.kind]:
            out.append(Stream(2, escapes))
        if escapes:
            out += [Stream(2 * others + 1, escapes * (self.size - 1)), Stream(2 * first + 1, escapes)]
        return out

    def words(self, code, vector):
        def word(place):
            if place < code.count:
                return self.place.word(5, code.first + place)
            return self.place.word(5, 8 * (code.first + code.count) + place % self.size, sub=1)
        return [word(vector * self.size + j) for j in range(self.size)]

    def values(self, code):
        values = np.zeros(code.count, F4)
        if self.scale:
            vectors = self.vectors(code)
            values[:] = page_lattice.decode(self.kind, self.scale, lambda vector: self.words(code, vector), vectors,
                                            list(code.symbols), code.params)[:code.count]
        return put_back(values, code.exceptions, lambda index: True, lambda index: 16384 * float(self.scale) or REGULAR)


class NormalLevels(Scheme):
    """nearest_normal.md, rounded_normal.md"""

    def __init__(self, place, bits, bucket, rounds):
        self.place, self.bits, self.bucket, self.rounds = place, bits, bucket, rounds

    def fixed_params(self, count):
        return (8 if self.rounds else 4) * -(-count // self.bucket)

    def take_params(self, reader, code):
        return [page_rotation.take_table(reader, self.bits, self.rounds) for _ in range(-(-code.count // self.bucket))]

    def streams(self, code):
        return [Stream(2**self.bits, code.count, self.contexts(code) if self.rounds else None)]

    def values(self, code):
        (symbols,), values = code.symbols, np.zeros(code.count, F4)
        require(not code.exceptions, "exception without need")
        for i, symbol in enumerate(symbols):
            table = code.params[i // self.bucket]
            require(table or symbol == 2**(self.bits - 1), "symbol where the scale is 0")
            values[i] = table[symbol] if table else 0
        return values


class Rotation(Scheme):
    """rotation.md"""

    def __init__(self, stored, place, name, params, below):
        self.place, self.shared, self.block = place, params.get("shared") == "yes", int(params.get("block", 4096))
        chunks = [page_rotation.padded(count, self.block) for count in place.chunks]
        its_place = place.below((sum(chunks),), chunks)
        if name == "rotate":
            self.inner = scheme_of(below, stored, its_place)
        else:
            bits = 1 if name == "drive" else int(params["bits"])
            self.inner = NormalLevels(its_place, bits, self.block, name == "rotq")

    def inner_range(self, code):
        before, first = 0, 0
        for count in self.place.chunks:
            if before == code.first and count == code.count:
                break
            before, first = before + count, first + page_rotation.padded(count, self.block)
        return first, page_rotation.padded(code.count, self.block)

    def streams(self, code):
        return []

    def values(self, code):
        for _, bits in code.below.exceptions:
            require(abs(float(float_of(bits))) <= 2.0**108, "exception below")

        def is_negative(i):
            place = code.first + i
            return self.place.word(4, place // 32, shared=self.shared) >> place % 32 & 1

        rotated = self.inner.values(code.below)
        values = page_rotation.rotate_back(rotated, code.count, self.block, is_negative)
        return put_back(values, code.exceptions, lambda index: True, lambda index: 2.0**96)


class Through:
    """Of shrink.md and diana.md: what they have of the scheme behind them, as if it stood there alone."""

    def __init__(self, behind):
        self.behind = behind

    def __getattr__(self, name):
        return getattr(self.behind, name)


class Shrink(Through):
    """shrink.md"""

    def __init__(self, stored, place, below):
        self.factor = float_of(stored.uint(4))
        require(2.0**-64 <= self.factor <= 1, "factor")
        super().__init__(scheme_of(below, stored, place))

    def values(self, code):
        values = self.behind.values(code) * np.float32(self.factor)
        for index, bits in code.exceptions:
            values.view(np.uint32)[index] = bits
        return values


class TableSum(Through):
    """sum.md, of tables"""

    def __init__(self, stored, place, of, below):
        require(of == "tables" and below.partition(":")[0] == "countsketch" and place.stage == 0, "a sum of tables")
        self.factor = page_sum.take_head(stored)
        super().__init__(scheme_of(below, stored, place))

    def values(self, code):
        require(not code.exceptions, "exceptions of a sum")
        return np.array([float(value) * self.factor for value in self.behind.values(code)]).astype(F4)


class Diana(Through):
    """diana.md"""

    def __init__(self, stored, place, below):
        self.alpha = np.frombuffer(stored.take(8), "<f8")[0]
        require(2.0**-64 <= self.alpha <= 1, "alpha")
        self.h = place.memory()
        super().__init__(scheme_of(below, stored, place))

    def values(self, code):
        values = self.behind.values(code)
        h = self.h[code.first:code.first + code.count]
        finite = np.isfinite(values)
        moved = values.astype("f8")[finite]
        values[finite] = (h[finite] + moved).astype("f4")
        h[finite] += self.alpha * moved
        return values


def scheme_of(text, stored, place):
    """From a scheme's text and the tensor's stored parameters."""
    text, _, below = text.partition("/")
    name, _, params = text.partition(":")
    params = dict(item.split("=") for item in params.split(",")) if params else {}
    bucket = int(params.get("bucket", 0))
    if name in ("ef", "ec", "momentum"):
        return scheme_of(below, stored, place)
    if name == "shrink":
        return Shrink(stored, place, below)
    if name == "diana":
        return Diana(stored, place, below)
    if name == "dqsg":
        return Grid(stored, place, "subtractive", bucket, int(params["levels"]) // 2)
    if name == "dither":
        return Grid(stored, place, "subtractive", bucket)
    if name == "choose":
        half, bucket = stored.uint(1), stored.varint()
        require(half <= 1 and bucket <= 2**22 and not (half and bucket), "rounding and bucket")
        return Grid(stored, place, "half" if half else "subtractive", bucket)
    if name == "ndqsg":
        return Nested(stored, place, params.get("check") == "yes")
    if name == "bq":
        return Binomial(stored, int(params["bits"]), int(params["m"]))
    if name == "lattice":
        return Lattice(stored, place, params.get("kind", "e8"))
    if name == "qsgd":
        return Grid(stored, place, "half", bucket, int(params["s"]))
    if name == "adaquant":
        return Grid(stored, place, "half", int(params.get("bucket", 512)))
    if name == "terngrad":
        return Grid(stored, place, "half", 0, 1)
    if name == "maxnorm":
        return Grid(stored, place, "half", 0, 2 ** int(params.get("bits", 4)) - 1)
    if name == "grid":
        return Grid(stored, place, "half")
    if name == "uniform":
        return Grid(stored, place, "nearest", bucket, 2 ** (int(params["bits"]) - 1) - 1)
    if name in ("tqsgd", "tnqsgd", "tbqsgd"):
        return Levels(stored, place, name, int(params["bits"]))
    if name in ("nuqsgd", "alq", "amq"):
        bucket = int(params.get("bucket", 512 if name == "nuqsgd" else 8192))
        return ScaledLevels(stored, place, name, int(params["s"]), bucket)
    if name == "natural":
        return Natural(stored, place)
    if name == "multiscale":
        return Multiscale(stored, place, [int(b) for b in params.get("bits", "4-8").split("-")])
    if name == "countsketch":
        return Sketch(stored, place, params)
    if name in ("at", "mask"):
        return Sparse(stored, place, False, False, below, name == "at", name == "mask")
    if name in ("topk", "threshold", "randk"):
        return Sparse(stored, place, name == "randk", params.get("shared") == "yes", below)
    if name in ("rotate", "drive", "eden", "rotq"):
        return Rotation(stored, place, name, params, below)
    if name in ("sign", "onebit"):
        return Means(stored, place, name == "onebit", params.get("axis", "tensor"))
    if name == "sum" and below:
        return TableSum(stored, place, params.get("of"), below)
    if name == "sum":
        return Sum(stored, place, params.get("of", "symbols"))
    raise Damaged("scheme " + name)
