"""From a scheme's text and a tensor's stored parameters to what decodes its chunks."""
# SPDX-License-Identifier: Apache-2.0
from reference.reading import require
from reference.schemes.countsketch import Sketch
from reference.schemes.grid import HALF, NEAREST, SUBTRACTIVE, Binomial, Grid, Multiscale, Natural, choose
from reference.schemes.lattice import Lattice
from reference.schemes.levels import Means, Scaled, Truncated
from reference.schemes.lowrank import LowRank
from reference.schemes.memory import Diana, Shrink
from reference.schemes.nested import Nested
from reference.schemes.plus import Plus
from reference.schemes.rotation import NormalLevels, Rotation
from reference.schemes.sparsifier import Sparsifier
from reference.schemes.sum import SymbolSum, TableSum, ValueSum


def build(parts, stored, place):
    """`parts`: (name, {key: value}) of a scheme and those behind it."""
    (name, values), *behind = parts
    below = (lambda stored, place: build(behind, stored, place)) if behind else None
    if name == "+":
        return summed(values, stored, place)
    if name in ("ef", "ec", "momentum"):
        return remembered(name, below(stored, place))
    if name in WITH_BELOW:
        return WITH_BELOW[name](stored, place, values, below)
    return ALONE[name](stored, place, **values)


def remembered(name, behind):
    require(behind.digested or name == "momentum",
            "%s over a sketch, of which no encoder knows what it decodes to" % name)
    return behind


def summed(parts, stored, place):
    """Of each part the list of its schemes."""
    whole = build(parts[0], stored, place.part(0))
    for number, part in enumerate(parts[1:], 1):
        whole = Plus(place, whole, build(part, stored, place.part(number)))
    return whole


def sparsifier(name):
    return lambda stored, place, values, below: Sparsifier(stored, place, name, values.get("shared") == "yes", below)


def sum_of(stored, place, values, below):
    require((values["of"] == "tables") == (below is not None), "a sum of tables has a sketch behind it, no other has")
    if below is None:
        return (ValueSum if values["of"] == "values" else SymbolSum)(stored, place)
    require(place.stage == 0, "a sum of tables behind another scheme")
    summed = TableSum(stored, place, below)
    require(isinstance(summed.behind, Sketch), "a sum of tables of something else")
    return summed


def rotated(bits_of, rounds=False):
    """A rotation over levels of the normal law."""
    def make(stored, place, **values):
        def below(stored, place):
            return NormalLevels(stored, place, bits_of(values), values["block"], rounds)
        return Rotation(stored, place, values["block"], values["shared"] == "yes", below)
    return make


WITH_BELOW = {
    "topk": sparsifier("topk"), "threshold": sparsifier("threshold"), "randk": sparsifier("randk"),
    "at": sparsifier("at"), "mask": sparsifier("mask"), "sum": sum_of,
    "rotate": lambda stored, place, values, below:
        Rotation(stored, place, values["block"], values["shared"] == "yes", below),
    "shrink": lambda stored, place, values, below: Shrink(stored, place, below),
    "diana": lambda stored, place, values, below: remembered("diana", Diana(stored, place, below)),
}
ALONE = {
    "dqsg": lambda stored, place, levels, bucket: Grid(stored, place, SUBTRACTIVE, bucket, levels // 2),
    "dither": lambda stored, place, bucket, steps:
        Grid(stored, place, SUBTRACTIVE, bucket, sets_aside=True, by_class=steps == "class"),
    "choose": choose,
    "qsgd": lambda stored, place, s, bucket: Grid(stored, place, HALF, bucket, s),
    "terngrad": lambda stored, place: Grid(stored, place, HALF, 0, 1),
    "maxnorm": lambda stored, place, bits: Grid(stored, place, HALF, 0, 2**bits - 1),
    "adaquant": lambda stored, place, bucket: Grid(stored, place, HALF, bucket),
    "grid": lambda stored, place: Grid(stored, place, HALF, sets_aside=True),
    "uniform": lambda stored, place, bits, bucket: Grid(stored, place, NEAREST, bucket, 2 ** (bits - 1) - 1),
    "multiscale": Multiscale,
    "natural": Natural,
    "ndqsg": lambda stored, place, check: Nested(stored, place, check == "yes"),
    "lattice": Lattice,
    "lowrank": LowRank,
    "bq": lambda stored, place, bits, m, noise: Binomial(stored, place, bits, m),
    "nuqsgd": lambda stored, place, s, bucket: Scaled(stored, place, "nuqsgd", s, bucket),
    "alq": lambda stored, place, s, bucket: Scaled(stored, place, "alq", s, bucket),
    "amq": lambda stored, place, s, bucket: Scaled(stored, place, "amq", s, bucket),
    "tqsgd": lambda stored, place, bits: Truncated(stored, place, "tqsgd", bits),
    "tnqsgd": lambda stored, place, bits: Truncated(stored, place, "tnqsgd", bits),
    "tbqsgd": lambda stored, place, bits: Truncated(stored, place, "tbqsgd", bits),
    "sign": lambda stored, place, axis: Means(stored, place, False, axis == "row"),
    "onebit": lambda stored, place, axis: Means(stored, place, True, axis == "row"),
    "countsketch": lambda stored, place, rows, value, exp, scope: Sketch(stored, place, rows, exp, scope),
    "drive": rotated(lambda values: 1),
    "eden": rotated(lambda values: values["bits"]),
    "rotq": rotated(lambda values: values["bits"], rounds=True),
}
