"""Scheme texts (container.md, section 6): their grammar, and the parameters that stand in files."""
# SPDX-License-Identifier: Apache-2.0
import re

from reference.reading import Damaged, require

SCHEME = r"[a-z0-9_.-]+(?::[a-z0-9_.-]+=[a-z0-9_.-]+(?:,[a-z0-9_.-]+=[a-z0-9_.-]+)*)?"
TEXT = re.compile(r"%s(?:[/+]%s)*" % (SCHEME, SCHEME))
MOST_SCHEMES = 8
MUST = object()  # in the place of a default: the key must be there
BUCKET, BLOCK = ("bucket", 0, 2**22), ("block", 2, 2**18)

# name: keys in their order, each (key, least, largest, default) or (key, (words), default).
PARAMETERS = {
    "raw": [], "choose": [], "terngrad": [], "grid": [], "natural": [],
    "topk": [], "threshold": [], "at": [], "mask": [],
    "ef": [], "ec": [], "momentum": [], "diana": [], "shrink": [],
    "dqsg": [("levels", 3, 65535, MUST), (*BUCKET, 0)],
    "dither": [(*BUCKET, 0), ("steps", ("one", "class"), "one")],
    "qsgd": [("s", 1, 32767, MUST), (*BUCKET, MUST)],
    "maxnorm": [("bits", 1, 15, 4)],
    "adaquant": [(*BUCKET, 512)],
    "uniform": [("bits", 2, 16, MUST), (*BUCKET, 0)],
    "multiscale": [("bits", [1, 15], [4, 8])],
    "ndqsg": [("check", ("no", "yes"), "no")],
    "lattice": [("kind", ("a2", "d4", "e8"), "e8")],
    "bq": [("bits", 1, 15, MUST), ("m", 1, 65534, MUST), ("noise", ("secret", "test"), "secret")],
    "nuqsgd": [("s", 1, 30, MUST), (*BUCKET, 512)],
    "alq": [("s", 1, 126, MUST), (*BUCKET, 8192)],
    "amq": [("s", 1, 126, MUST), (*BUCKET, 8192)],
    "tqsgd": [("bits", 1, 8, MUST)], "tnqsgd": [("bits", 1, 8, MUST)], "tbqsgd": [("bits", 2, 8, MUST)],
    "sign": [("axis", ("tensor", "row"), "tensor")], "onebit": [("axis", ("tensor", "row"), "tensor")],
    "randk": [("shared", ("no", "yes"), "no")],
    "lowrank": [],
    "countsketch": [("rows", 1, 63, MUST), ("value", ("f32", "i64"), "f32"), ("exp", 0, 149, None),
                    ("scope", ("step", "run"), "step")],
    "sum": [("of", ("symbols", "values", "tables"), "symbols")],
    "rotate": [(*BLOCK, 4096), ("shared", ("no", "yes"), "no")],
    "drive": [(*BLOCK, 4096), ("shared", ("no", "yes"), "no")],
    "eden": [("bits", 1, 4, MUST), (*BLOCK, 4096), ("shared", ("no", "yes"), "no")],
    "rotq": [("bits", 2, 4, MUST), (*BLOCK, 4096), ("shared", ("no", "yes"), "no")],
}
MEMORIES = ("ef", "ec", "momentum", "diana")
NO_DRAWS = ("raw", "bq", "uniform", "sign", "onebit", "topk", "threshold", "sum", "at", "mask", "shrink", *MEMORIES)
MUST_STAND_OVER = ("rotate", "shrink", *MEMORIES)
MAY_STAND_OVER = ("topk", "threshold", "randk", "at", "sum", *MUST_STAND_OVER)
NEVER_BELOW = ("raw", "bq", "ndqsg", "at", "mask", *MEMORIES)


class Text:
    """`schemes`: a list of (name, {key: value}), the first first; None if some part is not known. A sum is the last of
    its list, ("+", [such a list of each part])."""

    def __init__(self, data):
        require(1 <= len(data) <= 1024 and all(0x21 <= byte <= 0x7E for byte in data), "a scheme text")
        self.text = data.decode("ascii")
        require(TEXT.fullmatch(self.text), "the scheme text '%s'" % self.text)
        parts = re.split("[/+]", self.text)
        names = [part.partition(":")[0] for part in parts]
        self.known = len(parts) <= MOST_SCHEMES and all(name in PARAMETERS for name in names) \
            and self.is_sum_known()
        self.names = names
        self.schemes = None
        if self.known:
            self.schemes = self.schemes_of(self.text)

    def is_sum_known(self):
        """plus.md: what may be part of a sum."""
        first, _, behind = self.text.partition("/")
        text = behind if first.partition(":")[0] in MEMORIES else self.text
        names = [re.split("[:/]", part)[0] for part in text.split("+")]
        return len(names) == 1 or not any(name in NEVER_BELOW + ("sum",) for name in names)

    def schemes_of(self, text):
        first, slash, behind = text.partition("/")
        if "+" in behind and "+" not in first and first.partition(":")[0] in MEMORIES:
            inner = self.schemes_of(behind)
            require(inner[0][0] not in MEMORIES, "'%s': a memory behind another" % text)
            return [(first.partition(":")[0], values_of(first.partition(":")[0], first))] + inner
        stacks = [self.stack_of(part) for part in text.split("+")]
        if len(stacks) == 1:
            return stacks[0]
        return [("+", stacks)]

    def stack_of(self, text):
        parts = text.split("/")
        names = [part.partition(":")[0] for part in parts]
        for name, below in zip(names, names[1:]):
            require(name in MAY_STAND_OVER, "'%s': nothing stands behind %s" % (text, name))
            require(below not in NEVER_BELOW, "'%s': %s stands behind nothing" % (text, below))
            require(below != "lowrank" or name in MEMORIES, "'%s': lowrank behind another" % text)
        require(names[-1] not in MUST_STAND_OVER, "'%s': something must stand behind" % text)
        return [(name, values_of(name, part)) for name, part in zip(names, parts)]

    def draws(self):
        return any(name not in NO_DRAWS for name in self.names)

    def memory(self):
        return self.names[0] if self.known and self.names[0] in MEMORIES else None


def values_of(name, part):
    """{key: value} of one scheme, defaults filled in."""
    given = [item.split("=") for item in part.partition(":")[2].split(",")] if ":" in part else []
    values, left = {}, list(given)
    for key, *allowed, default in PARAMETERS[name]:
        if left and left[0][0] == key:
            values[key] = value_of(left.pop(0)[1], allowed)
            require(values[key] != default, "'%s': a default that is spelled out" % part)
        else:
            require(default is not MUST, "'%s': without %s" % (part, key))
            values[key] = default
    require(not left, "'%s': a key that is not known, not in its place or there twice" % part)
    check_together(name, values, part)
    return values


def value_of(text, allowed):
    if isinstance(allowed[0], tuple):
        require(text in allowed[0], "the word '%s'" % text)
        return text
    numbers = [number_of(item) for item in (text.split("-") if isinstance(allowed[0], list) else [text])]
    if not isinstance(allowed[0], list):
        require(allowed[0] <= numbers[0] <= allowed[1], "%s is not from %d to %d" % (text, *allowed))
        return numbers[0]
    least, most = allowed[0]
    require(2 <= len(numbers) <= 8 and least <= numbers[0] and numbers[-1] <= most, "the list '%s'" % text)
    require(all(a < b for a, b in zip(numbers, numbers[1:])), "the list '%s' does not rise" % text)
    return numbers


def number_of(text):
    if not re.fullmatch("0|[1-9][0-9]{0,18}", text):
        raise Damaged("the number '%s'" % text)
    return int(text)


def check_together(name, values, part):
    """What the pages say of several keys, or of a value beyond its range."""
    if name == "dither":
        require(values["steps"] == "one" or not values["bucket"], "'%s': a bucket beside steps by class" % part)
    if name == "dqsg":
        require(values["levels"] % 2 == 1, "'%s': an even number of levels" % part)
    if name == "bq":
        require(2 ** values["bits"] - 1 + values["m"] <= 65535, "'%s': s + m is above 65,535" % part)
    if name == "countsketch":
        require(values["rows"] % 2 == 1, "'%s': an even number of rows" % part)
        require((values["exp"] is not None) == (values["value"] == "i64"), "'%s': exp goes with value=i64" % part)
    if "block" in values:
        require(values["block"].bit_count() == 1, "'%s': a block that is no power of two" % part)
