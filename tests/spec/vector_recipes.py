"""Vectors that take more than one command, and those of the worked examples."""
# SPDX-License-Identifier: Apache-2.0
import h5py
import numpy as np

import examples


class Box:
    """A folder, in which the program is run."""

    def __init__(self, path, run):
        self.path, self.run_in = path, run

    def run(self, *arguments):
        self.run_in(self.path, *arguments)

    def save(self, name, **arrays):
        np.savez(self.path / name, **arrays)

    def read(self, name):
        return (self.path / name).read_bytes()


def gradients(seed, size=300):
    """Like a gradient's: a few large values. Small float32 of 12 bits, which no library rounds in another way."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-2048, 2048, size) * 2.0 ** -rng.integers(11, 17, size)
    return {"w": values.reshape(20, -1).astype("<f4"), "b": values[:7].astype("<f4"), "s": np.float32(0.5)}


SUMS = [("maxnorm", "maxnorm:bits=3", ["--shared-scale=9"]),
        ("multiscale", "multiscale:bits=2-4-6", ["--shared-scale=9"]),
        ("grid", "grid:step=0.01", []), ("randk", "randk:k=20%,shared=yes", []),
        ("randk-maxnorm", "randk:k=20%,shared=yes/maxnorm", ["--shared-scale=90"]),
        ("sketch", "countsketch:rows=3,cols=5%", []),
        ("sketch-whole", "countsketch:rows=3,cols=9,value=i64,exp=16", []),
        ("rotate-maxnorm", "rotate:block=64,shared=yes/maxnorm", ["--shared-scale=90"]),
        ("rotate-randk", "rotate:block=16,shared=yes/randk:k=30%,shared=yes", [])]
AGGREGATED = {"mean": [], "weighted-mean": ["--weights=2,1"], "weighted-sum": ["--sum", "--weights=2,1"]}


def sum_of(scheme, shared, coder, options):
    def make(box):
        for worker in "12":
            box.save("x.npz", **gradients(int(worker)), n=np.arange(4, dtype="<i4"))
            box.run("compress", "x.npz", "-o", worker, "--scheme", scheme, *shared, "--seed=5", "--step=3", "--worker",
                    worker)
        box.run("aggregate", "1", "2", "-o", "x.gradz", "--coder", coder, *options)
        return {"file": box.read("x.gradz")}
    return make


def all_sums():
    for name, scheme, shared in SUMS:
        for how, options in AGGREGATED.items():
            for coder in ("pack", "rans"):
                yield f"sum-{name}-{how}-{coder}", \
                    f"The {how.replace('-', ' ')} of two messages of `{scheme}`, by `{coder}`.", \
                    sum_of(scheme, shared, coder, options)


def sketched(box, scheme="countsketch:rows=3,cols=20%"):
    box.save("x.npz", **gradients(3), h=gradients(4)["b"].astype("<f2"), empty=np.zeros((0, 2), "<f4"))
    box.run("compress", "x.npz", "-o", "x.gradz", "--scheme", scheme, "--seed=5", "--step=2", "--coder=pack")


def top_of(scheme, top):
    def make(box):
        sketched(box, scheme)
        return {"file": box.read("x.gradz"), "top": top}
    return make


def answer_by(scheme, coder):
    def make(box):
        sketched(box)
        box.run("decompress", "x.gradz", "--top", "60", "--indices", "x.indices")
        box.run("compress", "x.npz", "-o", "y.gradz", "--at", "x.indices", "--scheme", scheme, "--seed=5", "--coder",
                coder)
        return {"file": box.read("y.gradz"), "at": ("set.gradz", box.read("x.indices"))}
    return make


def index_set(box):
    sketched(box)
    box.run("decompress", "x.gradz", "--top", "10%", "--indices", "x.indices")
    return {"file": box.read("x.indices")}


def all_rounds():
    for name, scheme, top in [("sketch", "countsketch:rows=3,cols=20%", "60"),
                              ("percent", "countsketch:rows=3,cols=20%", "4%"),
                              ("all", "countsketch:rows=1,cols=50%", "100%"),
                              ("whole", "countsketch:rows=5,cols=9,value=i64,exp=16", "9"),
                              ("dqsg", "dqsg:levels=5", "20"), ("ties", "sign", "5")]:
        yield "top-" + name, f"The {top} heaviest elements of a message of `{scheme}`.", top_of(scheme, top)
    yield "set", "An index set, decoded as a dump.", index_set
    for scheme in ("at", "at/dqsg:levels=5,bucket=50", "at/topk:k=30%/qsgd:s=4", "at/rotate:block=16/dither:nmse=0.1"):
        for coder in ("pack", "zstd", "elias", "rans", "rans-dither") if scheme == "at" else ("pack", "rans-dither"):
            name = scheme.partition(":")[0].replace("/", "-")
            yield f"answer-{name}-{coder}", f"An answer to an index set by `{scheme}`, by `{coder}`.", \
                answer_by(scheme, coder)


def steps_by(scheme, steps, coder="pack"):
    """The last of some messages, with what its decoder remembers before it."""
    def make(box):
        for step in range(steps):
            box.save("x.npz", **gradients(10 + step))
            box.run("compress", "x.npz", "-o", f"{step}.gradz", "-f", "--scheme", scheme, "--state", "w.state",
                    "--seed=5",
                    "--worker=3", "--coder", coder)
            if step + 1 < steps and scheme.startswith("diana"):
                box.run("decompress", f"{step}.gradz", "-o", "y.npz", "-f", "--state", "d.state")
        out = {"file": box.read(f"{steps - 1}.gradz")}
        return {**out, "state": ("decoder.state", box.read("d.state"))} if scheme.startswith("diana") else out
    return make


def state_after(scheme):
    def make(box):
        steps_by(scheme, 2)(box)
        return {"file": box.read("d.state" if scheme.startswith("diana") else "w.state")}
    return make


def refused_with(state_of, code, change=None):
    """The second message of diana, with a state that is not its own."""
    def make(box):
        out = steps_by("diana/dqsg:levels=5", 3)(box)
        del out["state"]
        if state_of is None:
            return {**out, "exit": code}
        for step in range(3):
            box.save("x.npz", **gradients(10 + step, 320 if change == "shape" else 300))
            box.run("compress", "x.npz", "-o", f"{step}.gradz", "-f", "--scheme", "diana/" + state_of, "--state",
                    "o.state",
                    "--seed", "6" if change == "seed" else "5", "--worker", "4" if change == "worker" else "3")
            if step < (1 if change == "step" else 2):
                box.run("decompress", f"{step}.gradz", "-o", "y.npz", "-f", "--state", "e.state")
        return {**out, "state": ("other.state", box.read("o.state" if change == "of-encoder" else "e.state")),
                "exit": code}
    return make


def all_memories():
    for name, scheme in [("dqsg", "diana/dqsg:levels=5"), ("randk", "diana:alpha=0.5/randk:k=20%/dqsg:levels=5"),
                         ("rotate", "diana/rotate:block=8/dqsg:levels=5")]:
        for steps, coder in ((2, "pack"), (3, "rans-dither")):
            yield f"remembers-{name}-{steps}", f"Message {steps} of `{scheme}`, with what the decoder remembers.", \
                steps_by(scheme, steps, coder)
    for name, scheme in [("ef", "ef/topk:k=10%"), ("ec", "ec/qsgd:s=4"), ("momentum", "momentum/topk:k=5%/qsgd:s=2"),
                         ("sketch", "momentum/countsketch:rows=3,cols=10%")]:
        yield f"remembers-{name}", f"The second message of `{scheme}`, whose decoder remembers nothing.", \
            steps_by(scheme, 2)
    for name, scheme in [("ef", "ef/topk:k=10%"), ("momentum", "momentum/topk:k=5%"), ("diana", "diana/dqsg:levels=5")]:
        yield f"state-{name}", f"A state of `{scheme}`, decoded as a dump.", state_after(scheme)
    yield "refused-state-missing", "A message that needs what its decoder remembers, without a state.", \
        refused_with(None, 2)
    for name, what in [("worker", "of another worker"), ("seed", "of another seed"), ("step", "of a step before"),
                       ("of-encoder", "of an encoder"), ("shape", "of a tensor of another shape")]:
        yield "refused-state-" + name, f"A message of diana with a state {what}.", \
            refused_with("dqsg:levels=5", 3, name)


def nested(options, side, noted=False, code=None, scheme="ndqsg:fine=9,coarse=3"):
    """`side`: the arrays of a dump, or options of a message of near values."""
    def make(box):
        x = gradients(5)
        box.save("x.npz", **x)
        box.save("near.npz", **{name: (array * 1.0625).astype("<f4") for name, array in x.items()})
        name = "side.npz"
        if isinstance(side, list):
            name = "side.gradz"
            box.run("compress", "near.npz", "-o", name, "--seed=9", *side)
        else:
            box.save(name, **side(x))
        given = ["--side-info", name] if noted is True else ["--side-info", "near.npz"] if noted else []
        box.run("compress", "x.npz", "-o", "x.gradz", "--scheme", scheme, "--seed=5", *options, *given)
        return {"file": box.read("x.gradz"), "side": (name, box.read(name)), **({"exit": code} if code else {})}
    return make


def near(x):
    return {name: (array * 1.0625).astype("<f4") for name, array in x.items()}


def far(x):
    return {name: array + np.float32(50) for name, array in x.items()}


SHRUNK = "ndqsg:fine=16,coarse=4,alpha=0.75"  # decoded values have no digests


def all_nested():
    message = ["--scheme=dither:nmse=0.001"]
    yield "nested-dump", "ndqsg beside a dump.", nested(["--coder=pack"], near)
    yield "nested-dump-noted", "ndqsg beside a dump whose digest MESSAGE has.", nested([], near, True)
    yield "nested-more", "ndqsg beside a dump that has a tensor more.", \
        nested([], lambda x: {**near(x), "more": np.arange(3)})
    yield "nested-wide", "ndqsg beside a dump of float64.", \
        nested([], lambda x: {name: array.astype("<f8") + 1e-12 for name, array in near(x).items()})
    yield "nested-not-finite", "ndqsg beside a dump with infinities, NaN and values above 2^126, which count as 0.", \
        nested([], lambda x: {**near(x), "b": np.float32([np.inf, np.nan, 2.0**126 * 1.5, -np.inf, 1, 0, -0.0])},
               scheme=SHRUNK)
    yield "nested-message", "ndqsg beside a message.", nested(["--coder=pack"], message)
    yield "nested-message-noted", "ndqsg beside a message whose END's check MESSAGE has.", nested([], message, True)
    yield "nested-far", "ndqsg beside a dump that is too far, which nothing tells.", nested([], far, scheme=SHRUNK)
    yield "nested-dump-alpha", "ndqsg with an alpha below 1, beside a dump.", nested([], near, scheme=SHRUNK)
    yield "refused-side-digest", "Side information of another digest than MESSAGE has.", \
        nested([], lambda x: {name: array * np.float32(1.5) for name, array in x.items()}, "near.npz", 3)
    yield "refused-side-message", "A message as side information, and MESSAGE has the digest of a dump.", \
        nested([], message, "near.npz", 3)
    yield "refused-side-tensor", "Side information without a tensor.", \
        nested([], lambda x: {"w": x["w"], "b": x["b"]}, code=3)
    yield "refused-side-shape", "Side information of another shape.", \
        nested([], lambda x: {**x, "b": x["b"][:6]}, code=3)
    yield "refused-side-integers", "Side information of integers.", \
        nested([], lambda x: {**x, "b": np.arange(7)}, code=3)
    yield "refused-side-far", "Side information that is too far, which check=yes tells.", \
        nested([], far, code=3, scheme="ndqsg:fine=9,coarse=3,check=yes")
    yield "refused-side-far-digest", "Side information that is too far, which the digests tell.", \
        nested([], far, code=3)


def tree(options):
    def make(box):
        with h5py.File(box.path / "x.h5", "w") as out:
            group = out.create_group("layer/one")
            group.create_dataset("weight", data=gradients(6)["w"])
            group.create_dataset("steps", data=np.arange(3))
            group.attrs["note"] = "kept"
            out["again"] = h5py.SoftLink("/layer/one/weight")
            out.create_group("empty")
        box.run("compress", "x.h5", "-o", "x.gradz", "--seed=5", *options)
        return {"file": box.read("x.gradz")}
    return make


def long_bare(box):
    box.save("x.npz", a=np.zeros(2**22 + 1, np.int8), b=np.float32([1, 2, 3]))
    options = ["--scheme=dqsg:levels=5", "--seed=5", "--coder=pack"]
    box.run("compress", "x.npz", "-o", "x.gradz", "--chunk-log2=22", *options)
    box.run("info", "x.gradz", "--schema-out", "x.schema")
    box.run("compress", "x.npz", "-o", "x.bare", "--bare", "--schema", "x.schema", *options)
    return {"file": box.read("x.bare"), "schema": ("schema", box.read("x.schema"))}


def all_others():
    yield "tree", "A message made from HDF5, with a TREE; only the tensors are compared.", \
        tree(["--scheme=dqsg:levels=5", "--coder=pack"])
    yield "tree-raw", "A message made from HDF5, by raw.", tree(["--scheme=raw", "--coder=rans"])
    yield "bare-long", "A bare message in its long form: more than 2^22 elements.", long_bare


def of_example(example, name):
    files = example.files

    def beside(suffix, key, as_name):
        found = [data for other, data in files.items() if other.endswith(suffix) and other != name]
        return {key: (as_name, found[0])} if found else {}

    def make(box):
        out = {"file": files[name]}
        if name.endswith(".bare"):
            out.update(beside(".schema", "schema", "schema"))
        if name.endswith(".gradz"):
            out.update(beside(".indices", "at", "set.gradz"))
        if example.sides:
            box.save("side.npz", **example.sides)
            out["side"] = ("side.npz", box.read("side.npz"))
        if not name.endswith(".indices"):
            out["decoded"] = example.decoded_of(name)
        return out
    return make


def all_examples():
    for key, example in examples.read_examples().items():
        names = [name for name in example.files if not name.endswith(".schema")]
        for name in names:
            its = f"page-{key}" if len(names) == 1 else f"page-{key}-{name.partition('.')[2]}"
            yield its, f"The worked example `{key}` of {example.page}: {name}.", of_example(example, name)


def all_recipes():
    for group in (all_examples, all_sums, all_rounds, all_memories, all_nested, all_others):
        yield from group()
