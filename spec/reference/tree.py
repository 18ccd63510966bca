"""tree.md: what of an HDF5 dump stands beside its tensors. Nothing is made of it here; it is checked."""
# SPDX-License-Identifier: Apache-2.0
import re

from reference import cbor
from reference.reading import require

MOST_GROUPS, MOST_RANK, MOST_TYPE, MOST_TAG = 500, 32, 1048576, 255
INTEGERS = {"%s%d" % (sign, size): size for sign in "iu" for size in (1, 2, 4, 8)}
SIZES = {**INTEGERS, "f2": 2, "f4": 4, "f8": 8, "bf16": 2, "bool": 1, "c8": 8, "c16": 16}
VARIABLE = None  # the size of a string of variable length


def check(data):
    record = keyed(cbor.decode(data, floats=False), {"groups": groups, "tensors": tensors})
    return record


def keyed(value, checks):
    """A map, all keys of which are known; each value passes the check of its key."""
    require(isinstance(value, dict), "a map is expected in TREE")
    for key, item in value.items():
        require(key in checks, "an unknown key '%s' in TREE" % key)
        checks[key](item)
    return value


def text(value, empty=False):
    require(isinstance(value, str) and "\0" not in value and (empty or value), "a text in TREE")
    return value


def array(value, size=None):
    require(isinstance(value, list) and size in (None, len(value)), "an array in TREE")
    return value


def whole(value, most=2**63 - 1, least=0):
    require(type(value) is int and least <= value <= most, "a number in TREE")
    return value


def is_component(value):
    """Of a path."""
    return isinstance(value, str) and value not in ("", ".") and not set(value) & {"/", "\0"}


def path(value):
    text(value, empty=True)
    names = value.split("/") if value else []
    require(all(is_component(name) for name in names), "the path '%s'" % value)
    require(len(names) <= MOST_GROUPS, "a path of more than %d groups" % MOST_GROUPS)
    return value


def groups(value):
    require(isinstance(value, dict), "groups in TREE")
    for name, group in value.items():
        path(name)
        keyed(group, {"order": order, "attr_order": order, "attrs": attributes, "links": links})


def tensors(value):
    require(isinstance(value, dict), "tensors in TREE")
    for name, dataset in value.items():
        text(name)
        keyed(dataset, {"type": type_of_tensor, "path": path, **OF_DATASETS})


def type_of_tensor(value):
    require(element_type(value) is not VARIABLE, "a tensor of strings of variable length in TREE")


def order(value):
    whole(value, 2, 1)


def attributes(value):
    names = [text(array(attribute, 2)[0]) for attribute in array(value)]
    require(names and len(set(names)) == len(names), "attributes in TREE")
    for _, its_value in value:
        check_value(its_value)


def links(value):
    names = [link if isinstance(link, str) else (array(link) or [None])[0] for link in array(value)]
    require(names and all(is_component(name) for name in names), "links in TREE")
    require(len(set(names)) == len(names), "two links of one name in TREE")
    for link in value:
        if isinstance(link, str):
            continue
        require(len(link) >= 3, "a link in TREE")
        if link[1] == "soft":
            text(array(link, 3)[2])
        elif link[1] == "hard":
            path(array(link, 3)[2])
        else:
            require(link[1] == "data", "a link in TREE")
            check_value(array(link, 4)[2])
            keyed(link[3], OF_DATASETS)


def largest(value):
    require(len(array(value)) <= MOST_RANK, "largest dimensions in TREE")
    for dim in value:
        if dim is not None:
            whole(dim)


def fill(value):
    name, data = array(value, 2)
    require(isinstance(name, str) and (name in SIZES or re.fullmatch("[SV][0-9]{1,7}", name)), "a fill value in TREE")
    size = SIZES.get(name) or int(name[1:])
    require(isinstance(data, bytes) and len(data) == size, "a fill value of another size in TREE")


OF_DATASETS = {"max": largest, "fill": fill, "attr_order": order, "attrs": attributes}


def check_value(value):
    """[type, null], [type, dims, bytes] or [type, dims, texts]."""
    require(isinstance(value, list) and len(value) in (2, 3), "a value in TREE")
    size = element_type(value[0])
    if len(value) == 2:
        require(value[1] is None, "a value in TREE")
        return
    require(len(array(value[1])) <= MOST_RANK, "dimensions in TREE")
    count = 1
    for dim in value[1]:
        count *= whole(dim)
    if size is VARIABLE:
        require(len(array(value[2])) == count, "strings of another number in TREE")
        for item in value[2]:
            require(isinstance(item, (str, bytes)) and (b"\0" if isinstance(item, bytes) else "\0") not in item,
                    "a string in TREE")
    else:
        require(isinstance(value[2], bytes) and len(value[2]) == count * size, "elements of another size in TREE")


def element_type(value, member=False):
    """Its size in bytes; VARIABLE."""
    if isinstance(value, str):
        require(value in SIZES, "the type '%s' in TREE" % value)
        return SIZES[value]
    require(isinstance(value, dict), "a type in TREE")
    if "enum" in value:
        return enum(value)
    if "text" in value:
        return string(value, member)
    if "opaque" in value:
        keyed(value, {"opaque": lambda size: whole(size, MOST_TYPE, 1), "tag": lambda tag: text(tag, empty=True)})
        require("tag" in value and len(value["tag"].encode()) <= MOST_TAG, "an opaque type in TREE")
        return value["opaque"]
    require(not member, "a compound in a compound in TREE")
    return compound(value)


def enum(value):
    keyed(value, {"enum": array, "base": text})
    require(value.get("base") in INTEGERS, "the base of an enum in TREE")
    size, signed = INTEGERS[value["base"]], value["base"][0] == "i"
    for pair in value["enum"]:
        text(array(pair, 2)[0])
        low = -(2 ** (8 * size - 1)) if signed else 0
        whole(pair[1], low + 2 ** (8 * size) - 1, low)
    for column in zip(*value["enum"]):
        require(len(set(column)) == len(column), "an enum in TREE")
    return size


def string(value, member):
    keyed(value, {"text": lambda size: size is None or whole(size, MOST_TYPE, 1), "pad": text,
                  "utf8": lambda utf8: require(utf8 is True, "utf8 in TREE")})
    require(value.get("pad") in ("nullterm", "nullpad", "spacepad"), "a string's pad in TREE")
    require(value["text"] is not VARIABLE or not member, "strings of variable length in a compound in TREE")
    return value["text"]


def compound(value):
    keyed(value, {"compound": lambda size: whole(size, MOST_TYPE, 1), "members": array})
    require("compound" in value and value.get("members"), "a compound in TREE")
    names, spans = set(), []
    for member in value["members"]:
        name, offset, its_type = array(member, 3)
        require(text(name) not in names, "a member that is there twice in TREE")
        names.add(name)
        spans.append((whole(offset), whole(offset) + element_type(its_type, member=True)))
    spans.sort()
    require(all(a[1] <= b[0] for a, b in zip(spans, spans[1:])) and spans[-1][1] <= value["compound"],
            "members that overlap, in TREE")
    return value["compound"]
