#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay: its figures are those of the files that compress, decompress and aggregate make step by step."""
import csv
import io
import json
import math
import xml.etree.ElementTree as ET

import h5py
import numpy as np

import support
from support import BAD_INPUT, LIMIT, USAGE

SEED = 7


def nmse(y, x):
    y, x = (np.asarray(v, "f8").ravel() for v in (y, x))
    return float(((y - x)**2).sum() / (x**2).sum())


def flat(tensors):
    return np.concatenate([np.asarray(x, "f8").ravel() for x in tensors.values()])


def made(steps=(4, 5, 6), workers=(0, 3), scale=0.3, seed=1, shapes=(("a", (20, 30)), ("b", (50,)))):
    """{step: {worker: {name: values}}}: a gradient that all share, and what is a worker's own."""
    rng = np.random.default_rng(seed)
    common = {name: rng.standard_normal(shape) * np.exp(rng.standard_normal(shape)) for name, shape in shapes}
    return {
        step: {
            worker: {
                name: (x * 0.9**i + scale * rng.standard_normal(x.shape)).astype("f4") for name, x in common.items()
            } for worker in workers
        } for i, step in enumerate(steps)
    }


class ReplayTest(support.CliTest):

    def save(self, trace, layout="step_{step}/worker_{worker}/{param}", name="trace.npz"):
        arrays = {}
        for step, workers in trace.items():
            for worker, tensors in workers.items():
                for param, x in tensors.items():
                    arrays[layout.format(step=step, worker=worker, param=param)] = x
        return self.npz(arrays, name)

    def replay(self, trace, *schemes, options=()):
        args = [item for scheme in schemes for item in ("--scheme", scheme)]
        return json.loads(self.ok("replay", trace, "-q", "--json", f"--seed={SEED}", *args, *options).out)

    def message(self, tensors, scheme, step, worker, *options):
        """One message by compress and decompress: its size, its values, its path."""
        dump, file = self.npz(tensors, "one.npz"), self.dir / f"s{step}w{worker}.gradz"
        state = [] if "/" not in scheme or scheme[0] in "tr" else ["--state", self.dir / f"{worker}.state"]
        self.ok("compress", dump, "-q", "-f", "-o", file, "--scheme", scheme, f"--seed={SEED}", f"--step={step}",
                f"--worker={worker}", *state, *options)
        back = ["--state", self.dir / f"{worker}.back"] if scheme.startswith("diana") else []
        values = self.decompress(file, *back, suffix=".npz")
        return file.stat().st_size, values, file

    def mask_size(self, tensors, step):
        """Of the index set of what is not 0: as large as a message of the scheme mask."""
        dump = self.npz({n: x.astype("f4") for n, x in tensors.items()}, "mask.npz")
        file = self.compress(dump, "--scheme=mask", "-1", f"--step={step}")
        return file.stat().st_size

    def assert_near(self, got, expected, message=None):
        if expected is None or (isinstance(expected, float) and math.isnan(expected)):
            self.assertIsNone(got, message)
        else:
            self.assertAlmostEqual(got, expected, delta=1e-10 + 1e-9 * abs(expected), msg=message)


class FiguresTest(ReplayTest):

    def test_messages_are_those_of_the_command_line(self):
        trace = made()
        path = self.save(trace)
        for scheme in ("dqsg:levels=5", "ef/topk:k=5%", "momentum:m=0.5/topk:k=3%", "diana/qsgd:s=4", "ef/sign", "raw"):
            for file in self.dir.glob("*.[sb][ta]*"):
                file.unlink()
            rows = self.replay(path, scheme)["steps"]
            self.assertEqual([row["step"] for row in rows], [4, 5, 6])
            run_x = run_y = 0
            for row, (step, workers) in zip(rows, trace.items()):
                sizes, values = zip(*(self.message(x, scheme, step, worker)[:2] for worker, x in workers.items()))
                where = f"{scheme}, step {step}"
                self.assertEqual(row["up_bytes"], sum(sizes), where)
                self.assertEqual(row["messages"], 2)
                x = np.mean([flat(tensors) for tensors in workers.values()], axis=0)
                y = np.mean([flat({n: v[n] for n in ("a", "b")}) for v in values], axis=0)
                errors = [nmse(flat(v), flat(t)) for v, t in zip(values, workers.values())]
                self.assert_near(row["worker_nmse"], float(np.mean(errors)), where)
                self.assert_near(row["mean_nmse"], nmse(y, x), where)
                self.assert_near(row["cosine"], float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)), where)
                run_x, run_y = run_x + x, run_y + y
                self.assert_near(row["run_nmse"], nmse(run_y, run_x), where)
                self.assert_near(row["up_bits_per_value"], 8 * sum(sizes) / 2 / x.size, where)
                mean = {"a": y[:600].reshape(20, 30), "b": y[600:]}
                sparse = self.mask_size(mean, step) + 4 * np.count_nonzero(y)
                self.assertEqual(row["down_bytes"], min(sparse, 4 * y.size), where)
                self.assertEqual(row["down"], "sparse" if sparse < 4 * y.size else "dense")

    def test_feedback_telescopes(self):
        """Of one worker what was not sent is what is remembered."""
        trace = made(range(8), (2,))
        report = self.replay(self.save(trace), "ef/topk:k=2%", "topk:k=2%", "momentum:m=0/countsketch:rows=5,cols=20%",
                             options=["--top=3%"])
        run = 0
        for step in range(8):
            run = run + flat(trace[step][2])
            for row in report["steps"][3 * step::2][:2]:
                scheme = row["scheme"]
                self.assertEqual(row["step"], step)
                self.assertAlmostEqual(row["run_nmse"], row["memory_norm"]**2 / (run**2).sum(), delta=1e-6, msg=scheme)
        with_it, without, sketch = report["totals"]
        self.assertIsNone(without["memory_norm"])
        self.assertLess(with_it["run_nmse"], 0.8 * without["run_nmse"])

    def test_nested_is_plain_where_side_information_is_near(self):
        trace = made(workers=(0, 1, 2, 5, 9), scale=0.01, shapes=(("a", (80, 90)), ("b", (50,))))
        nested, plain = (self.replay(self.save(trace), s) for s in ("ndqsg:fine=9,coarse=3", "dqsg:levels=19"))
        for a, b in zip(nested["steps"], plain["steps"]):
            self.assertEqual((a["failures"], a["wrong_values"]), (0, 0))
            for key in ("worker_nmse", "mean_nmse", "cosine", "run_nmse", "down_bytes"):
                self.assertEqual(a[key], b[key], key)
            self.assertLess(a["up_bytes"], b["up_bytes"])
        far = self.replay(self.save(made(workers=(0, 1, 2, 5, 9), scale=3)), "ndqsg:fine=9,coarse=3")
        self.assertEqual(far["totals"][0]["failures"], sum(row["failures"] for row in far["steps"]))
        self.assertGreater(far["totals"][0]["failures"], 0)
        self.assertEqual(far["totals"][0]["checked"], 3 * 2 * 2)  # two nested workers of two chunks, three steps
        self.assertLessEqual(far["totals"][0]["failures"], 3 * 2 * 2)
        plain = self.replay(self.dir / "trace.npz", "dqsg:levels=19")["totals"][0]
        self.assertGreater(far["totals"][0]["worker_nmse"], 2 * plain["worker_nmse"])

    def test_nested_bytes_and_values(self):
        """Three workers: two plain, the third decoded with their mean; near enough, and too far for some values."""
        for scale in (0.05, 2):
            trace = made((0,), (0, 1, 2), scale=scale)
            row, = self.replay(self.save(trace), "ndqsg:fine=12,coarse=4")["steps"]
            sizes, values = zip(*(self.message(trace[0][w], "dqsg:levels=25", 0, w)[:2] for w in (0, 1, 2)))
            side = {n: ((values[0][n].astype("f8") + values[1][n]) / 2).astype("f4") for n in values[0]}
            file = self.compress(self.npz(trace[0][2], "third.npz"), "--scheme=ndqsg:fine=12,coarse=4,check=yes",
                                 f"--seed={SEED}", "--step=0", "--worker=2")
            third = self.decompress(file, "--side-info", self.npz(side, "side.npz"), "--on-overload=keep",
                                    suffix=".npz")
            self.assertEqual(row["up_bytes"], sum(sizes[:2]) + file.stat().st_size)
            errors = [nmse(flat(y), flat(trace[0][w])) for w, y in enumerate([*values[:2], third])]
            self.assert_near(row["worker_nmse"], float(np.mean(errors)))
            # What is wrong is what plain dqsg, whose draws are the same, has otherwise.
            wrong = sum(np.count_nonzero(third[n] != values[2][n]) for n in third)
            self.assertEqual(row["wrong_values"], wrong)
            self.assertEqual(row["failures"], sum(np.any(third[n] != values[2][n]) for n in third))
            self.assertEqual(wrong > 0, scale == 2)

    def test_one_worker_is_never_nested(self):
        trace = made((0, 1), (4,))
        result = self.ok("replay", self.save(trace), "--scheme=ndqsg:fine=9,coarse=3", "--json", f"--seed={SEED}")
        self.assertIn("never nested", result.err)
        self.assertIn("one worker only", result.err)
        plain = self.replay(self.save(trace), "dqsg:levels=19")
        self.assertEqual(json.loads(result.out)["totals"][0]["up_bytes"], plain["totals"][0]["up_bytes"])

    def test_what_adds_up_comes_back_as_a_sum(self):
        trace = made(shapes=(("a", (40, 50)),))
        path = self.save(trace)
        for scheme, agreed in (("maxnorm:bits=3", 4), ("multiscale:bits=2-5", 4), ("randk:k=10%,shared=yes", 0),
                               ("grid:step=0.5", 0)):
            for row, (step, workers) in zip(self.replay(path, scheme)["steps"], trace.items()):
                largest = max(float(np.abs(x["a"]).max()) for x in workers.values())
                shared = [f"--shared-scale={largest!r}"] if agreed else []
                messages = [self.message(x, scheme, step, worker, *shared) for worker, x in workers.items()]
                self.assertEqual(row["up_bytes"], sum(m[0] for m in messages) + 2 * agreed, scheme)
                total = self.dir / "sum.gradz"
                self.ok("aggregate", *(m[2] for m in messages), "-o", total, "-q", "-f")
                self.assertEqual(row["down_bytes"], total.stat().st_size + agreed, scheme)
                self.assertEqual(row["down"], "sum")
                errors = [nmse(m[1]["a"], x["a"]) for m, x in zip(messages, workers.values())]
                self.assert_near(row["worker_nmse"], float(np.mean(errors)))

    def test_scales_are_shared_tensor_by_tensor(self):
        """Two tensors of other scales: each as by itself."""
        trace = made(shapes=(("a", (40, 50)), ("b", (300,))))
        for workers in trace.values():
            for tensors in workers.values():
                tensors["b"] *= np.float32(1e-3)
        whole = self.replay(self.save(trace), "maxnorm:bits=4")["totals"][0]
        self.assertLess(whole["mean_nmse"], 0.2)
        small = {s: {w: {"b": t["b"]} for w, t in workers.items()} for s, workers in trace.items()}
        self.assertLess(self.replay(self.save(small), "maxnorm:bits=4")["totals"][0]["mean_nmse"], 0.2)

    def test_rounds_of_a_sketch(self):
        trace = made((3,), (1,))
        options = ["--top=2%", "--candidates=3"]
        row, = self.replay(self.save(trace), "countsketch:rows=5,cols=20%", options=options)["steps"]
        x, asked, taken = trace[3][1], self.dir / "asked", self.dir / "taken"
        size, _, sketch = self.message(x, "countsketch:rows=5,cols=20%", 3, 1)
        self.ok("decompress", sketch, "--top=39", "--indices", asked, "-q")
        answer, update = self.dir / "answer.gradz", self.dir / "update.npz"
        self.ok("compress", self.dir / "one.npz", "--at", asked, "-o", answer, "-q", "--seed=7", "--step=3",
                "--worker=1")
        self.ok("decompress", answer, "--at", asked, "--top=13", "--indices", taken, "-o", update, "-q")
        self.assertEqual(row["up_bytes"], size + answer.stat().st_size)
        self.assertEqual(row["down_bytes"], asked.stat().st_size + taken.stat().st_size + 4 * 13)
        self.assertEqual(row["down"], "rounds")
        with np.load(update) as y:
            self.assert_near(row["mean_nmse"], nmse(flat({n: y[n] for n in x}), flat(x)))
            self.assert_near(row["worker_nmse"], row["mean_nmse"])

    def test_sketches_are_added(self):
        """With all as candidates the true top k of the mean, whatever the table says; of a good one few are enough."""
        trace = made((0,), (0, 1, 2), scale=0.5)
        mean = np.mean([flat(x) for x in trace[0].values()], axis=0)
        top = np.sort(mean**2)[::-1]
        path = self.save(trace)
        for scheme, candidates in (("countsketch:rows=1,cols=1", 1000), ("countsketch:rows=7,cols=90%,value=i64", 4)):
            row, = self.replay(path, scheme, options=["--top=10", f"--candidates={candidates}"])["steps"]
            self.assertAlmostEqual(row["mean_nmse"], top[10:].sum() / top.sum(), delta=1e-6)

    def test_momentum_is_forgotten_where_it_was_taken(self):
        """All are taken: nothing is left, so each step is as if it were the first."""
        trace = made((0, 1, 2), (0, 1))
        report = self.replay(self.save(trace), "momentum:m=0.9/countsketch:rows=3,cols=10%", options=["--top=100%"])
        for row in report["steps"]:
            self.assertLess(row["worker_nmse"], 1e-12)
            self.assertEqual(row["memory_norm"], 0)

    def test_losses_set_the_levels(self):
        trace = made((10, 20), (0, 1))
        losses = {10: 2.0, 20: 0.5}
        path = self.dir / "trace.h5"
        with h5py.File(path, "w") as file:
            for step, workers in trace.items():
                for worker, tensors in workers.items():
                    for name, x in tensors.items():
                        file[f"step_{step:06}/worker_{worker}/{name}"] = x
                file[f"step_{step:06}"].attrs["loss"] = losses[step]
        rows = self.replay(path, "adaquant:s0=4", "qsgd:s=4", options=["--loss-attribute=loss"])["steps"]
        for row in rows[::2]:
            expected = [self.message(x, f"adaquant:s0=4,loss0=2,loss={losses[row['step']]}", row["step"], worker)
                        for worker, x in trace[row["step"]].items()]
            self.assertEqual(row["up_bytes"], sum(m[0] for m in expected))
        self.assertGreater(rows[2]["up_bytes"], 1.1 * rows[0]["up_bytes"])
        later = self.replay(path, "adaquant:s0=4", options=["--loss-attribute=loss", "--steps=20"])["steps"]
        # The first loss is the trace's, not that of the first step replayed.
        self.assertEqual([row["up_bytes"] for row in later], [rows[2]["up_bytes"]])
        self.refused(USAGE, "replay", path, "--scheme=qsgd:s=4", "--loss-attribute=loss", says="adaquant")
        self.refused(USAGE, "replay", path, "--scheme=adaquant:s0=4", "--loss-attribute=cost", says="cost")

    def test_models(self):
        """Differences to the mean of the models of the step before, as a trace of its own has them."""
        models = made((0, 1, 2, 3), (0, 1, 2))
        steps, differences = list(models), {}
        for before, step in zip(steps, steps[1:]):
            mean = {n: np.mean([x[n].astype("f8") for x in models[before].values()], axis=0) for n in ("a", "b")}
            differences[step] = {w: {n: (mean[n] - x[n]).astype("f4") for n in mean} for w, x in models[step].items()}
        schemes = ("ef/topk:k=5%/shrink/qsgd:s=4", "dqsg:levels=7")
        ours = self.replay(self.save(models), *schemes, options=["--models"])
        theirs = self.replay(self.save(differences), *schemes)
        self.assertEqual(ours["steps"], theirs["steps"])
        self.assertEqual(ours["totals"], theirs["totals"])
        self.refused(USAGE, "replay", self.save({0: models[0]}), "--scheme=sign", "--models", says="two steps")

    def test_gossip(self):
        """Each takes the mean of its own model and of what its neighbours on the ring sent."""
        models = made((0, 1), (0, 1, 2, 7))
        path = self.save(models)
        for row, (step, workers) in zip(
                self.replay(path, "dqsg:levels=65", options=["--models", "--gossip=ring"])["steps"], models.items()):
            sizes, sent, _ = zip(*(self.message(x, "dqsg:levels=65", step, worker) for worker, x in workers.items()))
            self.assertEqual((row["up_bytes"], row["down_bytes"], row["down"]), (2 * sum(sizes), 0, "gossip"))
            own = [flat(x) for x in workers.values()]
            sent = [flat({n: y[n] for n in ("a", "b")}) for y in sent]
            ring = [(3, 1), (0, 2), (1, 3), (2, 0)]
            true = [((own[i] + own[j] + own[k]) / 3).astype("f4") for i, (j, k) in enumerate(ring)]
            had = [((own[i] + sent[j] + sent[k]) / 3).astype("f4") for i, (j, k) in enumerate(ring)]
            self.assert_near(row["worker_nmse"], float(np.mean([nmse(y, x) for x, y in zip(true, had)])))
            self.assert_near(row["mean_nmse"], nmse(np.mean(np.array(had, "f8"), 0), np.mean(np.array(true, "f8"), 0)))
        two = self.replay(self.save(made((0,), (0, 1))), "raw", options=["--models", "--gossip=ring"])["steps"][0]
        self.assertEqual((two["worker_nmse"], two["mean_nmse"]), (0, 0))
        one = self.replay(self.save(made((0,), (0,))), "sign", options=["--models", "--gossip=ring"])["steps"][0]
        self.assertEqual((one["up_bytes"], one["worker_nmse"]), (0, 0))
        self.refused(USAGE, "replay", path, "--scheme=sign", "--gossip=ring", says="--models")
        for scheme in ("ndqsg:fine=9,coarse=3", "countsketch:rows=1,cols=9%"):
            self.refused(USAGE, "replay", path, "--scheme", scheme, "--models", "--gossip=ring", "--top=9",
                         says="server")


class TraceTest(ReplayTest):

    def test_layouts(self):
        trace = made()
        rows = self.replay(self.save(trace), "ef/topk:k=5%")["steps"]
        for layout in ("worker{worker}/Step-{step}/{param}", "run/step_{step}/rank_{worker}/{param}",
                       "{param}/step_{step}/worker_{worker}", "step_{step}/{param}/worker_{worker}"):
            report = self.replay(self.save(trace, layout), "ef/topk:k=5%")
            self.assertEqual(report["steps"], rows, layout)
            self.assertEqual((report["layout"], report["guessed"]), (layout, True))
        for layout in ("g{step}.w{worker}.{param}", "{worker}|{param}|{step}", "{param} of {step}/{worker}!"):
            report = self.replay(self.save(trace, layout), "ef/topk:k=5%", options=["--layout", layout])
            self.assertEqual(report["steps"], rows, layout)
            self.assertEqual(report["guessed"], False)
            self.refused(USAGE, "replay", self.dir / "trace.npz", "--scheme=sign", says="--layout")

    def test_a_part_may_be_missing(self):
        x = made((0, 1, 2), (0,))
        rows = self.replay(self.save(x), "dqsg:levels=5")["steps"]
        self.assertEqual(self.replay(self.save(x, "step_{step}/{param}"), "dqsg:levels=5")["steps"], rows)
        y = made((0,), (0, 1, 2))
        rows = self.replay(self.save(y), "dqsg:levels=5")["steps"]
        self.assertEqual(self.replay(self.save(y, "worker_{worker}/{param}"), "dqsg:levels=5")["steps"], rows)
        one = {s: {w: {"array": t["a"]} for w, t in workers.items()} for s, workers in made().items()}
        rows = self.replay(self.save(one), "dqsg:levels=5")["steps"]
        self.assertEqual(self.replay(self.save(one, "step{step}/worker{worker}"), "dqsg:levels=5")["steps"], rows)

    def test_names_that_do_not_fit(self):
        trace = made()
        rows = self.replay(self.save(trace), "dqsg:levels=5")["steps"]
        arrays = dict(np.load(self.dir / "trace.npz"))
        for name in ("\x1b[2J", "step_5", "step_x/worker_1/a", "step_4/worker_" + "9" * 30 + "/a", "step_4/worker_1/",
                     "{step}"):
            odd = self.npz({**arrays, name: np.zeros(3, "f4")}, "odd.npz")
            result = self.refused(USAGE, "replay", odd, "--scheme=dqsg:levels=5",
                                  "--layout=step_{step}/worker_{worker}/{param}", says="1 of 13 names do not fit")
            self.assertNotIn("\x1b", result.err)
            self.assertEqual(self.replay(odd, "dqsg:levels=5", options=["--drop-unsupported"])["steps"], rows)
        many = self.npz({**arrays, **{f"x{i}": np.zeros(1, "f4") for i in range(40)}}, "odd.npz")
        self.refused(USAGE, "replay", many, "--scheme=sign", says="'x0', 'x1', 'x2' and 37 more")

    def test_layouts_that_say_too_little(self):
        path = self.save(made())
        for layout, why in (("{param}", "neither"), ("{step}{worker}/{param}", "between"),
                            ("{step}/{step}/{param}", "once"), ("{step}0/{param}", "digit"),
                            ("x1{worker}/{param}", "digit"), ("{param}{step}", "between")):
            self.refused(USAGE, "replay", path, "--scheme=sign", "--layout", layout, says=why)
        twice = self.npz({"step_1/a": np.ones(3, "f4"), "step_01/a": np.ones(3, "f4")}, "twice.npz")
        self.refused(USAGE, "replay", twice, "--scheme=sign", says="same tensor")

    def test_tensors_that_differ(self):
        trace = made()
        whole = {s: {w: {"b": t["b"]} for w, t in workers.items()} for s, workers in trace.items()}
        rows = self.replay(self.save(whole), "sign")["steps"]
        trace[5][3]["a"] = trace[5][3]["a"][:10]
        self.refused(BAD_INPUT, "replay", self.save(trace), "--scheme=sign",
                     says="tensor 'a': is of shape 20x30 at step 4, worker 0 and 10x30 at step 5, worker 3")
        report = self.replay(self.dir / "trace.npz", "sign", options=["--drop-unsupported"])
        self.assertEqual(report["steps"], rows)
        self.assertEqual(report["left_out"], ["1 tensor that not all messages have in one shape: 'a'"])
        del trace[5][3]["a"]
        self.refused(BAD_INPUT, "replay", self.save(trace), "--scheme=sign", says="not at step 5, worker 3")
        trace[4][0]["n"] = np.arange(4)
        del trace[5]
        report = self.replay(self.save(trace), "sign")
        self.assertEqual([t["name"] for t in report["tensors"]], ["a", "b"])
        self.assertIn("no float type", report["left_out"][0])

    def test_workers_that_are_missing(self):
        """The mean is of those that are there; what the other one remembers waits for it."""
        trace = made((0, 1, 2), (0, 1))
        absent = trace[1].pop(1)
        result = self.ok("replay", self.save(trace), "--scheme=ef/topk:k=5%", "--json", f"--seed={SEED}")
        self.assertIn("at 1 of 3 steps workers are missing", result.err)
        rows = json.loads(result.out)["steps"]
        self.assertEqual([row["messages"] for row in rows], [2, 1, 2])
        alone = self.replay(self.save({s: {0: trace[s][0]} for s in trace}), "ef/topk:k=5%")["steps"]
        self.assertEqual(rows[1]["worker_nmse"], alone[1]["worker_nmse"])
        self.assertEqual(absent["a"].shape, (20, 30))

    def test_types_are_float32(self):
        trace = made()

        def as_type(trace, dtype):
            return {s: {w: {n: x.astype(dtype) for n, x in t.items()} for w, t in workers.items()}
                    for s, workers in trace.items()}

        half = as_type(trace, "f2")
        rows = self.replay(self.save(half), "dqsg:levels=5")["steps"]
        self.assertEqual(rows, self.replay(self.save(as_type(half, "f4")), "dqsg:levels=5")["steps"])
        self.assertEqual(rows, self.replay(self.save(as_type(half, ">f8")), "dqsg:levels=5")["steps"])

    def test_values_that_no_message_holds(self):
        trace = made()
        trace[5][3]["b"][7] = np.nan
        self.refused(BAD_INPUT, "replay", self.save(trace), "--scheme=sign",
                     says="scheme 'sign', step 5, worker 3: tensor 'b'")

    def test_empty_and_zero(self):
        trace = {s: {w: {"a": np.zeros((0, 3), "f4"), "b": np.zeros(5, "f4")} for w in (0, 1)} for s in (0, 1)}
        for scheme in ("dqsg:levels=3", "ef/sign", "ndqsg:fine=9,coarse=3", "maxnorm:bits=2"):
            for row in self.replay(self.save(trace), scheme)["steps"]:
                self.assertEqual((row["worker_nmse"], row["mean_nmse"], row["cosine"]), (0, 0, None))
        none = {0: {w: {"a": np.zeros((0, 3), "f4")} for w in (0, 1)}}
        self.assertIsNone(self.replay(self.save(none), "sign")["totals"][0]["up_bits_per_value"])
        self.replay(self.save(none), "countsketch:rows=1,cols=5%", options=["--top=1"])


class ReportTest(ReplayTest):
    SCHEMES = ("dqsg:levels=5", "ef/topk:k=5%", "ndqsg:fine=9,coarse=3", "maxnorm:bits=4", "diana/qsgd:s=4",
               "momentum:m=0.5/countsketch:rows=3,cols=30%")

    def test_csv_json_and_plot_agree(self):
        path, out = self.save(made(workers=(0, 1, 2))), self.dir / "rows.csv"
        plot = self.dir / "run.svg"
        report = self.replay(path, *self.SCHEMES, options=["--csv", out, "--plot", plot, "--top=5%"])
        rows = list(csv.DictReader(io.StringIO(out.read_text())))
        self.assertEqual(len(rows), 18)
        for row, parsed in zip(report["steps"], rows):
            self.assertEqual(list(row), list(parsed))
            for key, value in row.items():
                if value is None:
                    self.assertEqual(parsed[key], "")
                else:
                    self.assertEqual(type(value)(parsed[key]), value)
        for total in report["totals"]:
            of = [row for row in report["steps"] if row["scheme"] == total["scheme"]]
            self.assertEqual(total["steps"], 3)
            for key in ("messages", "up_bytes", "checked", "failures", "wrong_values"):
                self.assertEqual(total[key], sum(row[key] for row in of))
            self.assertEqual(total["down_bytes"], sum(row["down_bytes"] * row["messages"] for row in of))
            for key in ("worker_nmse", "mean_nmse", "cosine"):
                self.assert_near(total[key], sum(row[key] for row in of) / 3)
            self.assertEqual(total["run_nmse"], of[-1]["run_nmse"])
        svg = ET.fromstring(plot.read_text())
        lines = [e for e in svg.iter() if e.get("class") == "run"]
        self.assertEqual(len(lines), 3 * len(self.SCHEMES))
        labels = [e.text for e in svg.iter() if e.get("class") == "label"]
        self.assertEqual(labels, list(self.SCHEMES))
        self.refused(USAGE, "replay", path, "--scheme=sign", "--csv", out, says="exists")
        self.refused(USAGE, "replay", path, "--scheme=sign", "--plot", "x.png", says=".svg")
        self.refused(USAGE, "replay", path, "--scheme=sign", "--csv", path, "-f", says="")

    def test_threads_change_nothing(self):
        path = self.save(made(workers=(0, 1, 2), shapes=(("a", (300, 40)), ("b", (9000,)))))
        outs = [
            self.ok("replay", path, "-q", "--json", *(f"--scheme={s}" for s in self.SCHEMES), "--top=5%",
                    "--chunk-log2=12", threads).out for threads in ("-T1", "-T2", "-T5")
        ]
        self.assertEqual(outs[0], outs[1])
        self.assertEqual(outs[0], outs[2])

    def test_tables(self):
        path = self.save(made())
        text = self.ok("replay", path, "--scheme=ef/topk:k=5%", "-v").out.decode()
        self.assertIn("step by step", text)
        self.assertIn("3 steps (4 to 6), 2 workers, 2 tensors, 650 values a message, seed 1", text)
        text = self.ok("replay", path, "--scheme=ef/topk:k=5%", "--steps=5-6").out.decode()
        self.assertNotIn("step by step", text)
        self.assertIn("2 steps (5 to 6)", text)

    def test_steps_and_small_tensors(self):
        path = self.save(made())
        rows = self.replay(path, "dqsg:levels=5")["steps"]
        for steps, part in (("5-", rows[1:]), ("-4", rows[:1]), ("6", rows[2:]), ("4-5", rows[:2])):
            got = self.replay(path, "dqsg:levels=5", options=["--steps", steps])["steps"]
            self.assertEqual([r["up_bytes"] for r in got], [r["up_bytes"] for r in part])
        for bad in ("7-9", "6-5", "-", "a-b", "5-6-7"):
            self.refused(USAGE, "replay", path, "--scheme=sign", f"--steps={bad}")
        few = self.replay(path, "maxnorm:bits=4", options=["--min-elements=100"])["steps"]
        self.assertNotIn("sum", {row["down"] for row in few})  # raw does not add up
        workers = made()[4]
        largest = max(float(np.abs(x["a"]).max()) for x in workers.values())  # b goes by raw, and has no scale
        sizes = [self.message(x, "maxnorm:bits=4", 4, w, "--min-elements=100", f"--shared-scale={largest!r}")[0]
                 for w, x in workers.items()]
        self.assertEqual(few[0]["up_bytes"], sum(sizes) + 2 * 4)
        coded = [self.replay(path, "dqsg:levels=5", options=[o])["totals"][0] for o in ("--coder=pack", "-9")]
        self.assertGreater(coded[0]["up_bytes"], coded[1]["up_bytes"])
        self.assertEqual(coded[0]["mean_nmse"], coded[1]["mean_nmse"])

    def test_refusals(self):
        path = self.save(made())
        self.refused(USAGE, "replay", path)
        self.refused(USAGE, "replay", path, "--scheme=nosuch", says="nosuch")
        self.refused(USAGE, "replay", path, "--scheme=countsketch:rows=1,cols=5%", says="--top")
        self.refused(USAGE, "replay", path, "--scheme=sign", "--top=5", says="sketch")
        out = self.dir / "o.svg"
        self.refused(USAGE, "replay", path, "--scheme=sign", "--csv", out, "--plot", out, says="two outputs")
        self.refused(USAGE, "replay", path, "--scheme=sign", "--csv=-", "--json", says="two outputs")
        far = self.npz({"worker_4294967296/a": np.ones(3, "f4")}, "far.npz")
        self.refused(LIMIT, "replay", far, "--scheme=sign", says="below 2^32")
        self.refused(USAGE, "replay", path, "--scheme=at", says="cannot be replayed")
        self.refused(USAGE, "replay", self.npz({"a": np.ones(3, "f4")}, "no.npz"), "--scheme=sign", says="--layout")
        self.refused(LIMIT, "replay", path, "--scheme=ef/sign", "--memory=10K", says="--memory")
        (self.dir / "no.h5").write_bytes(b"no dump")
        self.refused(BAD_INPUT, "replay", self.dir / "no.h5", "--scheme=sign")
        self.assert_no_leftovers()


if __name__ == "__main__":
    support.main()
