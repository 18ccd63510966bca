"""rounds.md: index sets, and the elements that are taken of a message."""
# SPDX-License-Identifier: Apache-2.0
import fractions
import re

import numpy as np

from reference import container
from reference.random import FILL, words
from reference.reading import Usage, require
from reference.schemes.parts import F4
from reference.side_info import float32_of


def read_index_set(data):
    """({name: (shape, mask)}, the name of the set)."""
    file = container.read_file(data)
    require(file.header.kind == container.INDEX_SET, "an index set is expected", Usage)
    masks = {}
    for name, decoder in file.decoders.items():
        require(np.all(np.isfinite(float32_of(decoder))), "an index set with exceptions")
        masks[name] = decoder.tensor.shape, float32_of(decoder) != 0
    return masks, file.end_check


def is_sketch(decoder):
    """By countsketch, behind momentum or sum or alone."""
    names = decoder.tensor.scheme.names
    return names[-1] == "countsketch" and all(name in ("momentum", "sum") for name in names[:-1])


def looked_at(decoders):
    """Those of sketches; if there are none, all but raw's."""
    return [d for d in decoders if is_sketch(d)] or [d for d in decoders if not d.is_raw]


def count_of(text, elements):
    """K of `--top K` or `--top P%`."""
    what = "not a number of elements: '%s'" % text
    require(re.fullmatch(r"[0-9]{1,16}|[0-9]{1,3}(\.[0-9]{1,30})?%", text), what, Usage)
    share = fractions.Fraction(text.removesuffix("%"))
    count = -(-share * elements // 100) if text.endswith("%") else share
    require(0 < share <= (100 if text.endswith("%") else 2**53), what, Usage)
    return min(int(count), elements)


def heaviest(magnitudes, count):
    """Places of the largest of `magnitudes` (bits without the sign), of equal ones the first."""
    return np.argsort(-magnitudes.astype(np.int64), kind="stable")[:count]


def take_top(decoders, text, header=None):
    """Leaves the K heaviest elements of what is looked at, and 0 elsewhere. With a `header`, HEAVYMIX."""
    looked = looked_at(list(decoders.values()))
    require(looked, "nothing to take the heaviest elements of: every tensor is by raw", Usage)
    values = [float32_of(decoder) for decoder in looked]
    whole = np.concatenate(values)
    count = count_of(text, len(whole))
    require(header is None or all(is_sketch(decoder) for decoder in looked), "HEAVYMIX of what is no sketch", Usage)
    magnitudes = whole.view(np.uint32) & 0x7FFFFFFF
    places = heaviest(magnitudes, count) if header is None else heavymix(looked, whole, magnitudes, count, header)
    kept = np.zeros_like(whole)
    kept[places] = whole[places] + F4(0)
    starts = np.cumsum([0] + [len(part) for part in values])
    for decoder, start, end in zip(looked, starts, starts[1:]):
        decoder.parts = [kept[start:end]]


def heavymix(looked, whole, magnitudes, count, header):
    square = 0.0
    for decoder in looked:
        square = square + squared_norm(decoder.scheme)
    exact = whole.astype(np.float64)
    heavy = np.flatnonzero(~(exact * exact < square / count))
    if len(heavy) > count:
        return heavy[heaviest(magnitudes[heavy], count)]
    drawn = [words(header.keys.step, decoder.place.ordinal, 0, FILL, np.arange(decoder.tensor.size))
             for decoder in looked]
    order = np.argsort(np.concatenate(drawn), kind="stable")
    others = order[~np.isin(order, heavy)][:count - len(heavy)]
    return np.concatenate([heavy, others])


def squared_norm(scheme):
    """The median over rows of the sum of squared cells, in order."""
    table = scheme.table.astype(np.float64)
    if scheme.exp is not None:
        table = table * 2.0**-scheme.exp
    sums = sorted(float(np.cumsum(row * row)[-1]) if len(row) else 0.0 for row in table)
    factor = getattr(scheme, "factor", 1.0)
    return sums[len(sums) // 2] * factor * factor
