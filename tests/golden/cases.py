# SPDX-License-Identifier: Apache-2.0
"""The golden files: which dumps are compressed, and with which options.

They are the format: what this version writes, every later one must read to the same values and (but for zstd's
payloads) write again, byte for byte. The files, and what they decode to, are vectors in spec/vectors; the dumps are in
inputs/. tools/make-vectors makes what is missing of either, and never replaces anything: to add a case after a release,
add it to CASES.
"""
import io
import zipfile

import numpy as np

import support

PACK = ["--coder=pack", "--seed=72623859790382856"]


def case(name, source, *options, decode=((),), coder=PACK, bare=None, side=None, noted=False):
    """`bare`: the case whose file has the schema. `decode`: options of decompress, once for each output. `side`: the
    input that is side information, or the case whose first output is; `noted`: compress has it too."""
    return {"name": name, "input": source, "options": [*coder, *options], "decode": [list(d) for d in decode],
            "bare": bare, "same_bytes": "--coder=zstd" not in coder,
            **({"side": side, "noted": noted} if side else {})}


NARROW = ([], ["--dtype=f2"], ["--dtype=bf16"], ["--dtype=f8"])
KEEP = "--nonfinite=keep"
NEAR = "dither-0.001"  # to real.npz
ZSTD = ["--coder=zstd", PACK[1]]
RANS, RANS_DITHER, ELIAS = (["--coder=" + name, PACK[1]] for name in ("rans", "rans-dither", "elias"))
MODEL = ["--coder=model", PACK[1]]
CODERS = {"pack": PACK, "zstd": ZSTD, "elias": ELIAS, "rans": RANS, "rans-dither": RANS_DITHER}
# By every coder.
EVERY = [("raw", "raw"), ("dqsg", "dqsg:levels=3"), ("dqsg-bucket", "dqsg:levels=257,bucket=100"),
         ("dither", "dither:nmse=0.1"),
         ("dither-bucket", "dither:nmse=0.5,bucket=64"), ("choose", "choose:bits=1"),
         ("lattice-a2", "lattice:kind=a2,nmse=0.1"),
         ("lattice-d4", "lattice:kind=d4,nmse=0.01"), ("lattice-e8", "lattice:nmse=0.3"), ("qsgd", "qsgd:s=4"),
         ("terngrad", "terngrad"), ("natural", "natural"), ("maxnorm", "maxnorm"), ("multiscale", "multiscale"),
         ("nuqsgd", "nuqsgd:s=3"), ("alq", "alq:s=3"), ("amq", "amq:s=2,bucket=0"), ("tqsgd", "tqsgd:bits=3"),
         ("tnqsgd", "tnqsgd:bits=2"),
         ("tbqsgd", "tbqsgd:bits=4"), ("adaquant", "adaquant:s0=2,loss0=2,loss=0.5"), ("grid", "grid:step=0.001"),
         ("uniform", "uniform:bits=5"), ("sign", "sign"), ("sign-row", "sign:axis=row"), ("onebit", "onebit"),
         ("onebit-row", "onebit:axis=row"), ("topk", "topk:k=10%"), ("randk", "randk:k=20%"),
         ("threshold", "threshold:t=0.001"),
         ("topk-dqsg", "topk:k=20%/dqsg:levels=5"), ("rotate-dqsg", "rotate:block=64/dqsg:levels=5"),
         ("drive", "drive"),
         ("eden", "eden:bits=2"), ("rotq", "rotq:bits=2"), ("ndqsg", "ndqsg:fine=3,coarse=1,check=yes"),
         ("mask", "mask"), ("lowrank", "lowrank:rank=2,nmse=0.001"),
         ("ef", "ef/topk:k=10%"), ("ec", "ec/qsgd:s=4"), ("momentum", "momentum/topk:k=5%/qsgd:s=2"),
         ("diana", "diana/dqsg:levels=5"), ("shrink", "shrink/qsgd:s=1")]
# For dumps that are at some edge, the coders in turn.
EDGES = [("raw", "raw", "rans"), ("dqsg", "dqsg:levels=3", "pack"),
         ("buckets", "dqsg:levels=257,bucket=1000", "rans-dither"),
         ("dither", "dither:nmse=0.1", "elias"), ("lattice", "lattice:kind=d4,nmse=0.1", "pack"),
         ("qsgd", "qsgd:s=4", "zstd"),
         ("natural", "natural", "rans-dither"), ("multiscale", "multiscale", "rans"), ("nuqsgd", "nuqsgd:s=3", "elias"),
         ("tnqsgd", "tnqsgd:bits=2", "pack"), ("onebit", "onebit:axis=row", "rans"), ("topk", "topk:k=1%", "pack"),
         ("randk", "randk:k=5%", "rans-dither"), ("rotation", "rotate:block=64/dqsg:levels=5", "rans-dither"),
         ("eden", "eden:bits=2", "pack"), ("countsketch", "countsketch:rows=3,cols=5%", "pack"),
         ("ndqsg", "ndqsg:fine=3,coarse=1,check=yes", "rans-dither")]
CASES = [
    *[case(f"dqsg-{n}", "real.npz", f"--scheme=dqsg:levels={n}", decode=NARROW) for n in (3, 5, 255, 257, 65535)],
    *[case(f"dqsg-{n}-bucket-{b}", "real.npz", f"--scheme=dqsg:levels={n},bucket={b}")
      for n, b in [(3, 512), (5, 7), (257, 100), (65535, 1)]],
    *[case(f"levels-{n}", "real.npz", f"--scheme={s}")
      for n, s in [("nuqsgd", "nuqsgd:s=3"), ("nuqsgd-whole", "nuqsgd:s=30,bucket=0"), ("alq", "alq:s=3"),
                   ("alq-many", "alq:s=126,bucket=100"), ("amq", "amq:s=6"), ("amq-whole", "amq:s=2,bucket=0")]],
    case("levels-exceptions", "special.npz", "--scheme=alq:s=2,bucket=3", KEEP),
    case("levels-bare", "real.npz", "--scheme=alq:s=3", bare="levels-alq"),
    case("levels-rans-dither", "real.npz", "--scheme=nuqsgd:s=3", coder=RANS_DITHER),
    case("dqsg-5-clip", "real.npz", "--scheme=dqsg:levels=5,clip=2.5"),
    *[case(f"dither-{t}", "real.npz", f"--scheme=dither:nmse={t}") for t in ("0.3", "0.1", "0.001", "1e-8")],
    case("dither-bucket", "real.npz", "--scheme=dither:nmse=0.1,bucket=100"),
    case("dither-step", "real.npz", "--scheme=dither:step=0.002"),
    case("worker", "real.npz", "--scheme=dqsg:levels=3", "--worker=4294967295"),
    case("step", "real.npz", "--scheme=dqsg:levels=3", "--step=9223372036854775807"),
    case("worker-and-step", "real.npz", "--scheme=dqsg:levels=3", "--worker=0", "--step=0"),
    case("some-raw", "real.npz", "--scheme=dqsg:levels=3", "--include=*.bias", "--min-elements=50"),
    case("metadata", "real.npz", "--scheme=raw", "--metadata", '{"a": [1, -2, 0.5], "b": null}'),
    *[case(f"exceptions-{n}", "special.npz", f"--scheme={s}", KEEP, decode=([], ["--dtype=f8"]))
      for n, s in [("dqsg", "dqsg:levels=5"), ("bucket", "dqsg:levels=257,bucket=3"), ("dither", "dither:nmse=0.1")]],
    case("raw-special", "special.npz", "--scheme=raw"),
    case("raw-types", "types.npz", "--scheme=raw"),
    case("floats-dqsg", "types.npz", "--scheme=dqsg:levels=255"),
    case("floats-dither", "types.npz", "--scheme=dither:nmse=0.01"),
    case("bfloat16", "bits.npy", "--scheme=dqsg:levels=5", "--as-bf16"),
    case("empty", "empty.npz", "--scheme=dqsg:levels=3"),
    case("none", "none.npz", "--scheme=dqsg:levels=3"),
    case("scalar", "scalar.npy", "--scheme=dqsg:levels=3"),
    case("fortran", "fortran.npy", "--scheme=dqsg:levels=3"),
    case("big-endian", "big-endian.npy", "--scheme=dqsg:levels=3"),
    case("zeros", "zeros.npy", "--scheme=dqsg:levels=3", "--chunk-log2=12"),
    *[case(f"chunks-{n}", "long.npy", f"--scheme={s}", "--chunk-log2=12")
      for n, s in [("dqsg", "dqsg:levels=3"), ("bucket", "dqsg:levels=5,bucket=1000"), ("dither", "dither:nmse=0.1"),
                   ("raw", "raw")]],
    case("bare", "real.npz", "--scheme=dqsg:levels=3", bare="dqsg-3"),
    case("bare-keys", "real.npz", "--scheme=dqsg:levels=3", "--worker=3", "--step=300", bare="dqsg-3"),
    case("bare-bucket", "real.npz", "--scheme=dqsg:levels=257,bucket=100", bare="dqsg-257-bucket-100"),
    case("bare-exceptions", "special.npz", "--scheme=dqsg:levels=5", KEEP, bare="exceptions-dqsg"),
    case("bare-raw", "types.npz", "--scheme=raw", bare="raw-types"),
    case("zstd-dqsg", "real.npz", "--scheme=dqsg:levels=3", coder=ZSTD),
    case("zstd-raw", "types.npz", "--scheme=raw", coder=ZSTD),
    case("zstd-chunks", "long.npy", "--scheme=dqsg:levels=5,bucket=1000", "--chunk-log2=12", coder=ZSTD),
    case("zstd-bare", "real.npz", "--scheme=dqsg:levels=3", coder=ZSTD, bare="zstd-dqsg"),
    case("rans-dqsg", "real.npz", "--scheme=dqsg:levels=3", coder=RANS),
    case("rans-dither-dqsg", "real.npz", "--scheme=dqsg:levels=3", coder=RANS_DITHER),
    case("rans-dither-nmse", "real.npz", "--scheme=dither:nmse=0.1", coder=RANS_DITHER),
    case("rans-dither-chunks", "long.npy", "--scheme=dqsg:levels=5,bucket=1000", "--chunk-log2=12", coder=RANS_DITHER),
    *[case(f"model-{n}", s, "--scheme=" + t, *o, coder=MODEL)
      for n, s, t, o in [("dqsg", "real.npz", "dqsg:levels=3", ()), ("nmse", "real.npz", "dither:nmse=0.1", ()),
                         ("fine", "real.npz", "dither:nmse=1e-5", ()), ("half", "real.npz", "qsgd:s=4", ()),
                         ("rows", "matrix.npy", "dither:nmse=0.1", ("--chunk-log2=12",)),
                         ("special", "special.npz", "dither:nmse=0.1", (KEEP,)),
                         ("without-scales", "real.npz", "nuqsgd:s=3", ()),
                         ("below", "real.npz", "topk:k=20%/dqsg:levels=5", ()),
                         ("class", "matrix.npy", "dither:nmse=0.03,steps=class", ("--chunk-log2=12",)),
                         ("class-special", "special.npz", "dither:nmse=0.1,steps=class", (KEEP,)),
                         ("heavy", "heavy.npz", "dither:nmse=1e-4", ()),
                         ("heavy-class", "heavy.npz", "dither:nmse=1e-3,steps=class", ("--chunk-log2=12",))]],
    case("class-pack", "matrix.npy", "--scheme=dither:nmse=0.5,steps=class"),
    case("model-bare", "real.npz", "--scheme=dqsg:levels=3", coder=MODEL, bare="model-dqsg"),
    *[case("choose-" + n, "real.npz", "--scheme=choose:" + s, coder=RANS_DITHER)
      for n, s in [("nmse", "nmse=0.1"), ("large-nmse", "nmse=4"), ("bits", "bits=2"), ("few-bits", "bits=0.3")]],
    case("choose-rows", "rows.npy", "--scheme=choose:nmse=0.01", "--chunk-log2=12", coder=RANS_DITHER),
    case("rans-large", "real.npz", "--scheme=dqsg:levels=4097", coder=RANS_DITHER),
    case("rans-raw", "types.npz", "--scheme=raw", coder=RANS),
    case("rans-bare", "real.npz", "--scheme=dqsg:levels=3", coder=RANS_DITHER, bare="rans-dither-dqsg"),
    case("elias-dqsg", "real.npz", "--scheme=dqsg:levels=3", coder=ELIAS),
    case("elias-wide", "real.npz", "--scheme=dqsg:levels=257", coder=ELIAS),
    *[case(f"lattice-{kind}-{t}", "real.npz", f"--scheme=lattice:kind={kind},nmse={t}", coder=RANS)
      for kind in ("a2", "d4", "e8") for t in ("1", "0.01", "1e-6")],
    case("lowrank", "components.npz", "--scheme=lowrank:rank=3,nmse=0.001", coder=RANS_DITHER),
    case("lowrank-model", "components.npz", "--scheme=lowrank:rank=3,nmse=1e-4", coder=MODEL),
    case("lowrank-dither", "components.npz", "--scheme=lowrank:rank=3+dither:nmse=0.1", coder=RANS_DITHER),
    case("lowrank-class-model", "components.npz", "--scheme=lowrank:rank=2+dither:nmse=0.01,steps=class", coder=MODEL),
    case("lowrank-ef", "components.npz", "--scheme=ef/lowrank:rank=1+sign", coder=RANS_DITHER),
    case("sum-of-two", "real.npz", "--scheme=sign+qsgd:s=4"),
    case("sum-of-three", "real.npz", "--scheme=topk:k=9%/qsgd:s=4+sign+dither:nmse=0.1", coder=RANS_DITHER),
    case("sum-exceptions", "special.npz", "--scheme=sign+dither:nmse=0.1", KEEP, coder=RANS_DITHER),
    case("lattice-pack", "real.npz", "--scheme=lattice:nmse=0.1"),
    case("lattice-chunks", "long.npy", "--scheme=lattice:kind=d4,step=0.01", "--chunk-log2=12", coder=RANS_DITHER),
    case("lattice-exceptions", "special.npz", "--scheme=lattice:kind=a2,nmse=0.1", KEEP, decode=([], ["--dtype=f8"])),
    case("lattice-bare", "real.npz", "--scheme=lattice:kind=e8,nmse=0.1", coder=RANS, bare="lattice-e8-0.01"),
    *[case("truncated-" + n, "real.npz", "--scheme=" + s)
      for n, s in [("laplace", "tnqsgd:bits=3"), ("power-law", "tnqsgd:bits=4,density=powerlaw"),
                   ("exact", "tnqsgd:bits=8,density=powerlaw,rule=exact"), ("equal", "tqsgd:bits=2,rule=mse"),
                   ("equal-laplace", "tqsgd:bits=1,density=laplace"), ("two-scales", "tbqsgd:bits=4"),
                   ("two-scales-exact", "tbqsgd:bits=8,rule=exact")]],
    case("truncated-chunks", "long.npy", "--scheme=tbqsgd:bits=3", "--chunk-log2=12", coder=RANS_DITHER),
    case("truncated-zeros", "zeros.npy", "--scheme=tqsgd:bits=3", "--chunk-log2=12"),
    case("truncated-exceptions", "special.npz", "--scheme=tnqsgd:bits=2", KEEP, decode=([], ["--dtype=f8"])),
    *[case("rotated-" + n, "real.npz", "--scheme=" + s)
      for n, s in [("dqsg", "rotate/dqsg:levels=5"), ("buckets", "rotate:block=64/dither:nmse=0.1,bucket=64"),
                   ("twice", "rotate:block=8/rotate:block=2/dqsg:levels=255"), ("drive", "drive"),
                   ("drive-ls", "drive:scale=ls,block=32"), ("eden-1", "eden:bits=1"), ("eden-2", "eden:bits=2"),
                   ("eden-3", "eden:bits=3,scale=ls"), ("eden-4", "eden:bits=4,block=512"), ("rotq-2", "rotq:bits=2"),
                   ("rotq-3", "rotq:bits=3,block=128"), ("rotq-4", "rotq:bits=4")]],
    case("rotated-shared", "real.npz", "--scheme=eden:bits=2,shared=yes", "--worker=3", "--step=300"),
    case("rotated-chunks", "long.npy", "--scheme=rotq:bits=2,block=262144", "--chunk-log2=12", coder=RANS_DITHER),
    case("rotated-zeros", "zeros.npy", "--scheme=eden:bits=3", "--chunk-log2=12"),
    case("rotated-exceptions", "special.npz", "--scheme=rotate:block=4/dither:nmse=0.1", KEEP),
    case("rotated-drive-exceptions", "special.npz", "--scheme=drive", KEEP, decode=([], ["--dtype=f8"])),
    case("rotated-bare", "real.npz", "--scheme=rotate/dqsg:levels=5", bare="rotated-dqsg"),
    *[case("rounded-" + n, "real.npz", "--scheme=" + s)
      for n, s in [("qsgd", "qsgd:s=4"), ("qsgd-max", "qsgd:s=200,norm=max"), ("qsgd-tensor", "qsgd:s=3,bucket=0"),
                   ("adaquant", "adaquant:s0=2,loss0=2.3,loss=0.4"), ("terngrad", "terngrad:clip=2.5"),
                   ("natural", "natural"), ("maxnorm", "maxnorm:bits=6"), ("multiscale", "multiscale:bits=2-5-9"),
                   ("grid", "grid:step=0.001"), ("uniform", "uniform:bits=5,bucket=100"), ("sign", "sign"),
                   ("sign-row", "sign:axis=row"), ("onebit", "onebit"), ("onebit-row", "onebit:axis=row")]],
    case("rounded-shared-scale", "real.npz", "--scheme=maxnorm:bits=3", "--shared-scale=0.5", "--worker=7"),
    *[case("rounded-chunks-" + n, "long.npy", "--scheme=" + s, "--chunk-log2=12", coder=c)
      for n, s, c in [("qsgd", "qsgd:s=1,bucket=1000", RANS_DITHER), ("natural", "natural", RANS_DITHER),
                      ("multiscale", "multiscale", RANS_DITHER), ("onebit", "onebit:axis=row", RANS)]],
    *[case("rounded-exceptions-" + n, "special.npz", "--scheme=" + s, KEEP)
      for n,
      s in [("qsgd", "qsgd:s=2"), ("natural", "natural"), ("multiscale", "multiscale"), ("grid", "grid:step=1e-9"),
                   ("onebit", "onebit:axis=row"), ("uniform", "uniform:bits=2")]],
    case("rounded-bare-multiscale", "real.npz", "--scheme=multiscale:bits=2-5-9", bare="rounded-multiscale"),
    case("rounded-bare-natural", "real.npz", "--scheme=natural", bare="rounded-natural"),
    *[case("sparse-" + n, "real.npz", "--scheme=" + s)
      for n, s in [("topk", "topk:k=1%"), ("topk-all", "topk:k=100%"), ("topk-dense", "topk:k=70%"),
                   ("threshold", "threshold:t=0.001"), ("randk", "randk:k=10%"),
                   ("topk-dqsg", "topk:k=10%/dqsg:levels=5,bucket=7"),
                   ("threshold-dither", "threshold:t=1e-4/dither:nmse=0.1"),
                   ("randk-dqsg", "randk:k=20%/dqsg:levels=255")]],
    case("sparse-randk-shared", "real.npz", "--scheme=randk:k=10%,shared=yes", "--worker=4", "--step=9"),
    case("sparse-randk-topk", "real.npz", "--scheme=randk:k=50%/topk:k=10%/dither:nmse=0.01"),
    *[case("sparse-chunks-" + n, "long.npy", "--scheme=" + s, "--chunk-log2=12", coder=c)
      for n, s, c in [("topk", "topk:k=200", RANS), ("topk-dqsg", "topk:k=5%/dqsg:levels=3", RANS_DITHER),
                      ("randk", "randk:k=5%/dither:nmse=0.1", ELIAS),
                      ("zeros", "threshold:t=1000/dqsg:levels=3", PACK)]],
    *[case("sparse-exceptions-" + n, "special.npz", "--scheme=" + s, KEEP, decode=([], ["--dtype=f8"]))
      for n, s in [("topk", "topk:k=3"), ("topk-all", "topk:k=100%/dqsg:levels=5"), ("randk", "randk:k=50%"),
                   ("threshold", "threshold:t=0.1")]],
    case("sparse-empty", "empty.npz", "--scheme=topk:k=1%/dqsg:levels=3"),
    case("sparse-zeros", "zeros.npy", "--scheme=topk:k=1%", "--chunk-log2=12"),
    *[case("binomial-" + n, "real.npz", "--scheme=bq:" + s + ",noise=test")
      for n, s in [("small", "clip=0.001,bits=1,m=1"), ("noise", "clip=0.01,bits=4,m=2000"),
                   ("large", "clip=0.1,bits=15,m=32768")]],
    case("binomial-chunks", "long.npy", "--scheme=bq:clip=0.01,bits=2,m=12,noise=test", "--chunk-log2=12",
         "--worker=3"),
    case("binomial-floats", "types.npz", "--scheme=bq:clip=0.01,bits=8,m=99,noise=test"),
    case("binomial-bare", "real.npz", "--scheme=bq:clip=0.01,bits=4,m=2000,noise=test", bare="binomial-noise"),
    *[case("nested-" + n, "real.npz", "--scheme=ndqsg:" + s, coder=c, side=NEAR, noted=n == "noted")
      for n, s, c in [("odd", "fine=3,coarse=1", PACK), ("even", "fine=8,coarse=2,check=yes", RANS_DITHER),
                      ("alpha", "fine=16,coarse=4,alpha=0.8,range=1.5", RANS_DITHER),
                      ("noted", "fine=3,coarse=1", PACK)]],
    case("nested-chunks", "long.npy", "--scheme=ndqsg:fine=3,coarse=1,check=yes", "--chunk-log2=12", coder=RANS_DITHER,
         side="long.npy"),
    case("nested-exceptions", "special.npz", "--scheme=ndqsg:fine=4,coarse=1,check=yes", KEEP,
         decode=([], ["--dtype=f8"]), side="special.npz"),
    case("nested-bare", "real.npz", "--scheme=ndqsg:fine=3,coarse=1", bare="nested-odd", side=NEAR),
    *[case(f"every-{n}-{c}", "small.npz", "--scheme=" + s, coder=CODERS[c],
           side="small.npz" if n.startswith("ndqsg") else None) for n, s in EVERY for c in CODERS],
    *[case(f"preset-{n}", "small.npz", "--scheme=" + s)
      for n,
      s in [("ec-qsgd", "ec-qsgd:s=4"), ("qsparse", "qsparse:k=10%"), ("qsparse-plain", "qsparse:k=10%,variant=plain"),
                   ("qsparse-sign", "qsparse:k=10%,variant=sign"), ("onebit-ef", "onebit-ef"),
                   ("sign-ef", "sign-ef:axis=row"),
                   ("dgc", "dgc:k=10%")]],
    *[case(f"sketch-{n}", "small.npz", "--scheme=countsketch:" + s, "--step=5", "--worker=2")
      for n,
      s in [("table", "rows=5,cols=50%"), ("whole", "rows=3,cols=20%,value=i64,exp=20"),
            ("run", "rows=1,cols=90%,scope=run")]],
    *[case(f"{n}-{e}", e + ".npz", "--scheme=" + s, *o, coder=CODERS[c], side=e + ".npz" if n == "ndqsg" else None)
      for e, o in [("edges", ["--chunk-log2=12"]), ("plain", []), ("extremes", [KEEP]), ("dims", [])] for n, s,
      c in EDGES],
    *[case(f"bfloat16-{n}", "halves.npz", "--scheme=" + s, "--as-bf16", decode=((), ("--dtype=f4",)))
      for n,
      s in [("raw", "raw"), ("dqsg", "dqsg:levels=255"), ("natural", "natural"), ("topk", "topk:k=20%"),
            ("rotq", "rotq:bits=4")]],
    *[case(f"integers-{c}", "integers.npz", "--scheme=raw", coder=CODERS[c]) for c in CODERS],
    *[case(f"names-{n}", "names.npz", "--scheme=" + s) for n, s in [("raw", "raw"), ("dqsg", "dqsg:levels=3")]],
    *[case(f"seed-{n}", "small.npz", "--scheme=qsgd:s=4", coder=["--coder=rans-dither", f"--seed={s}"])
      for n, s in [("0", 0), ("largest", 2**64 - 1)]],
    case("keys-largest", "small.npz", "--scheme=rotq:bits=2", "--worker=4294967295", "--step=9223372036854775807"),
    case("chunk-largest", "small.npz", "--scheme=dqsg:levels=3", "--chunk-log2=22"),
    case("some-others", "small.npz", "--scheme=topk:k=10%/dqsg:levels=5", "--include=w"),
    case("metadata-deep", "scalar.npy", "--scheme=raw", "--metadata",
         '{"\u00fc": [[[[[[[[[[[[1.5]]]]]]]]]]]], "big": 18446744073709551615, "low": -9223372036854775808, '
         '"x": [true, {}, []]}'),
    *[case(f"lanes-{c}", "long.npy", "--scheme=dqsg:levels=4097", coder=CODERS[c]) for c in ("rans", "rans-dither")],
    *[case(f"rows-over-chunks-{n}", "matrix.npy", "--scheme=" + s, "--chunk-log2=12", coder=RANS_DITHER)
      for n, s in [("sign", "sign:axis=row"), ("onebit", "onebit:axis=row"), ("buckets", "qsgd:s=2,bucket=100")]],
    case("nested-of-message", "real.npz", "--scheme=ndqsg:fine=8,coarse=2,check=yes", side=NEAR),
    *[case(f"bare-{n}", "small.npz", "--scheme=" + s, coder=CODERS[c], bare=f"every-{n}-{c}")
      for n, s,
      c in [("topk", "topk:k=10%", "pack"), ("randk", "randk:k=20%", "elias"),
            ("onebit-row", "onebit:axis=row", "pack"),
                      ("eden", "eden:bits=2", "rans"), ("tnqsgd", "tnqsgd:bits=2", "zstd"),
                      ("lattice-a2", "lattice:kind=a2,nmse=0.1", "pack"),
                      ("shrink", "shrink/qsgd:s=1", "rans-dither")]],
]


def outputs(case):
    """Of each output of a case: the name of its vector, and the options of decompress."""
    return [(case["name"] + "".join(option.replace("--dtype=", "-as-") for option in options), options)
            for options in case["decode"]]


def inputs():
    """Name -> bytes. Values are a real gradient's, or written down here as bits."""
    real = support.real_gradient()
    weights = real["fc2.weight"].reshape(-1)
    pixels = real["fc1.weight"][:40]
    special = np.array([0x7FC00000, 0x7F800001, 0xFF800000, 0x7F800000, 0x7F7FFFFF, 0xFE800001, 0x7E800000, 0x80000000,
                        0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF000000, 0x2B8CBCCC], np.uint32)
    half = np.array([0x3C00, 0x7C00, 0xFC00, 0x7E01, 0x0001, 0x8000, 0x5640], np.uint16).view(np.float16)
    arrays = {
        "real.npz": {name: real[name] for name in ("fc1.bias", "fc2.bias", "fc3.bias", "fc3.weight")},
        "special.npz": {"all": special.view(np.float32), "small": special[5:].view(np.float32), "half": half},
        "types.npz": {"f8": weights[:60].astype(np.float64) / 3, "f2": weights[:60].astype(np.float16),
                      "f4": weights[:60],
                      "i1": np.arange(-3, 4, dtype=np.int8), "u2": np.arange(65530, 65536, dtype=np.uint16),
                      "i8": np.array([[-2**63, 2**63 - 1]]), "bool": np.array([True, False, True]),
                      "c8": np.array([1 + 2j, -0.5j], np.complex64), "text": np.array(["a", "\u00fc\u20ac"]),
                      "bytes": np.array([b"ab", b"c"]), "time": np.array(["2020-01-01"], "M8[D]")},
        "empty.npz": {"a": np.zeros((0, 3), np.float32), "b": np.zeros((2, 0), np.int32), "c": np.float32(2.5)},
        "none.npz": {},
        "bits.npy": (weights[:200].view(np.uint32) >> 16).astype(np.uint16),
        "scalar.npy": np.float32(-3.25),
        "fortran.npy": np.asfortranarray(weights[:60].reshape(6, 10)),
        "big-endian.npy": weights[:60].astype(">f8"),
        "zeros.npy": np.zeros(5000, np.int8).astype(np.float16),
        # Rows of one magnitude each.
        "rows.npy": np.copysign(np.arange(8, 15, dtype=np.float32).repeat(600) / 8, weights[:4200]).reshape(7, 600),
        "long.npy": weights[:4500].astype(np.float16),
        "small.npz": {"w": weights[1000:1300].reshape(12, 25), "h": weights[1300:1340].astype(np.float16),
                      "s": np.float32(0.75)},
        "edges.npz": {f"n{n}": weights[n:2 * n].astype(np.float16) for n in (0, 1, 2, 3, 8, 9, 4095, 4096, 4097)},
        "plain.npz": {"zeros": np.zeros(70, np.float32), "minus": np.full((3, 3), -0.0, np.float32),
                      "same": np.full(70, 0.25, np.float32), "one": np.float32([0] * 40 + [-3] + [0] * 9)},
        "extremes.npz": {"subnormal": (np.arange(20, dtype=np.uint32) * 440403 + 1).view(np.float32),
                         "huge": np.array([0x7E800000, 0xFE800000, 0x7E7FFFFF, 0x7E000000, 0xFD800000],
                                          np.uint32).view(np.float32),
                         "both": np.float32([2.0**126, 0, 1e-38, -1, -2.0**-126, 2.0**-149]),
                         "kept": np.array([0x7FC01234, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x3F800000],
                                          np.uint32).view(np.float32)},
        "dims.npz": {"rank-32": np.float32([0.5]).reshape((1,) * 32), "rank-5": weights[:12].reshape(2, 1, 3, 1, 2),
                     "rank-0": np.float64(-0.1), "empty": np.zeros((4, 0, 2), np.float32),
                     "row": weights[:9].reshape(1, 9),
                     "column": weights[:9].reshape(9, 1)},
        "halves.npz": {"b": (weights[:90].view(np.uint32) >> 16).astype(np.uint16).reshape(9, 10),
                       "h": weights[:21].astype(np.float16)},
        "integers.npz": {"u1": np.arange(0, 256, 5, dtype=np.uint8), "i2": np.int16([[-2**15, 0], [1, 2**15 - 1]]),
                         "i4": np.int32([-2**31, -1, 2**31 - 1]), "u4": np.arange(40, dtype=np.uint32) ** 5,
                         "u8": np.uint64([2**64 - 1]),
                         "c16": np.array([1j, -0.0]), "m8": np.array([5, -7], "m8[ms]"),
                         "V3": np.array([b"abc", b"xyz"], "V3"),
                         "S0": np.zeros(3, "S0"), "bools": np.arange(9) % 3 == 0},
        "matrix.npy": weights[:5000].astype(np.float16).reshape(50, 100),
        # Of rows, zero columns and heavy tails: coded by `model`, all its forms, laws and escapes, offsets from -4 to 4.
        "heavy.npz": {"rows": (pixels * np.abs(pixels) * 1000).astype(np.float16),
                      "spikes": (weights[1000:1600] * np.where(np.arange(600) % 32, 1, 100)).astype(np.float16)},
        "names.npz": {name: np.float32([i, -i]) for i, name in enumerate(
            ("a/b.c", "\u00fc\u20ac\U0001f600", "with space", "'\"`$\\", "line\nbreak\ttab", "x" * 200, "..", "-o",
             "%s{in}", "e\u0301"))},
    }
    for name, value in arrays.items():
        out = io.BytesIO()
        if name.endswith(".npz"):
            with zipfile.ZipFile(out, "w") as archive:  # numpy.savez writes the time of day
                for member, array in value.items():
                    data = io.BytesIO()
                    np.save(data, array, allow_pickle=False)
                    archive.writestr(zipfile.ZipInfo(member + ".npy"), data.getvalue())
        else:
            np.save(out, value, allow_pickle=False)
        yield name, out.getvalue()
