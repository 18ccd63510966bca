#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoded values are what the formulas say, bit for bit: a second implementation, from the definitions alone."""
import unittest

import numpy as np

import support

U32, F32, F64 = np.uint32, np.float32, np.float64
ROUNDING = 1  # purpose byte
MESSAGE_SCOPE = 0x6D736731  # "msg1"
MIN_STEP, MAX_STEP, MAX_LEVEL = 2.0**-126, 2.0**126, 32767
SEED = 0x0123456789ABCDEF


def philox(key, counter):
    """Philox4x32-10 of Salmon et al. 2011. Each of the four counter words may be an array."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k0, k1 = key
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [word.astype(U32) for word in c]


def words_of(value):
    return value & 0xFFFFFFFF, value >> 32


def message_key(seed, worker=None, step=None):
    if worker is None and step is None:
        return words_of(seed)
    first, second, _, _ = philox(words_of(seed), (*words_of(step or 0), worker or 0, MESSAGE_SCOPE))
    return int(first), int(second)


def dither_v(key, ordinal, count):
    """v of the first `count` elements of a tensor, in (0, 1)."""
    quads = np.arange((count + 3) // 4, dtype=np.uint64)
    words = np.stack(philox(key, (quads & np.uint64(0xFFFFFFFF), quads >> np.uint64(32), ordinal, ROUNDING << 16)), 1)
    return ((words.reshape(-1)[:count] >> U32(9)).astype(F32) + F32(0.5)) * F32(2.0**-23)


def clamp_step(step):
    return F32(min(max(step, MIN_STEP), MAX_STEP))


def ordered_square_sum(x):
    """16 interleaved float64 sums, then halves onto halves."""
    sums = np.zeros(16)
    whole = len(x) // 16 * 16
    squares = x.astype(F64) * x.astype(F64)
    if whole:  # accumulate adds row after row; sum() would not
        sums = np.add.accumulate(squares[:whole].reshape(-1, 16), axis=0)[-1].copy()
    sums[:len(x) - whole] += squares[whole:]
    for half in (8, 4, 2, 1):
        sums[:half] += sums[half:2 * half]
    return sums[0]


def range_step(x, top):
    """The smallest float32 step with top * step >= max |x|."""
    largest = float(np.abs(x).max(initial=0))
    if largest == 0:
        return F32(0)
    step = clamp_step(largest / top)
    return step if top * float(step) >= largest else np.nextafter(step, F32(np.inf))


def nmse_step(squares, count, nmse):
    return clamp_step(np.sqrt(12.0 * nmse * (squares / count))) if squares else F32(0)


def levels_needed(x, step):
    return 0 if step == 0 else min(int(np.ceil(float(np.abs(x).max(initial=0)) / float(step))), MAX_LEVEL)


def quantize(x, v, step, top):
    """The rounding primitive: q. The exact remainder in float64 above 255 levels, float32 below."""
    if step == 0:
        return np.zeros(len(x), np.int32)
    wide = F64 if 2 * top + 1 > 255 else F32
    a, s = np.abs(x.astype(wide)), wide(step)
    k = np.floor(np.minimum(a / s, wide(top)))
    threshold = np.where(x >= 0, F32(1) - v, v)
    if wide is F64:
        up = a - k * s > threshold.astype(F64) * s
    else:
        up = np.minimum(a / s, wide(top)) - k > threshold
    q = np.minimum(k + up, top).astype(np.int32)
    return np.where(x >= 0, q, -q)


def restore(q, v, step):
    return (q.astype(F32) - (v - F32(0.5))) * F32(step) if step else np.zeros(len(q), F32)


class Decoded:
    """What a tensor decodes to, and the step of each of its elements."""

    def __init__(self, x, ordinal, key, chunk, bucket, step_of, top_of):
        flat = x.reshape(-1).astype(F32)
        v = dither_v(key, ordinal, flat.size)
        runs = [(0, flat.size)]
        if bucket:
            ends = {*range(chunk, flat.size, chunk), flat.size}
            runs = [(at, min(at + bucket, end)) for start, end in zip([0, *sorted(ends)], sorted(ends))
                    for at in range(start, end, bucket)]
        steps = [step_of(flat[a:b]) for a, b in runs]
        top = top_of([(flat[a:b], s) for (a, b), s in zip(runs, steps)])
        values = [restore(quantize(flat[a:b], v[a:b], s, top), v[a:b], s) for (a, b), s in zip(runs, steps)]
        self.values = np.concatenate(values).reshape(x.shape) if runs else flat.reshape(x.shape)
        self.steps = np.concatenate([np.full(b - a, s) for (a, b), s in zip(runs, steps)]).reshape(x.shape)


def decode_dqsg(x, ordinal, key, levels, bucket=0, chunk=1 << 18):
    top = levels // 2
    return Decoded(x, ordinal, key, chunk, bucket, lambda run: range_step(run, top), lambda runs: top)


def decode_dither(x, ordinal, key, nmse=None, step=None, bucket=0, chunk=1 << 18):
    def step_of(run):
        if step is not None:
            return clamp_step(step) if np.any(run) else F32(0)
        pieces = [run] if bucket else [run[at:at + chunk] for at in range(0, len(run), chunk)]
        total = 0.0
        for piece in pieces:
            total += ordered_square_sum(piece)
        return nmse_step(total, len(run), nmse)
    return Decoded(x, ordinal, key, chunk, bucket, step_of, lambda runs: max(levels_needed(r, s) for r, s in runs))


def error_bound(x, step):
    """step / 2 + eta: eta is what float32 costs."""
    x, step = np.abs(x.astype(F64)), step.astype(F64)
    y = np.divide(x, step, out=np.zeros_like(x), where=step > 0)
    return step / 2 + step * (2.0**-23 + y * 2.0**-24) + 2.0**-23 * (x + step)


class Philox(unittest.TestCase):
    def test_known_answers_of_random123(self):
        ones = 0xFFFFFFFF
        pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
        for counter, key, answer in [
                ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
                ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
                (*pi, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1))]:
            self.assertEqual(tuple(int(word) for word in philox(key, counter)), answer)


class Formula(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.tensors = support.real_gradient()

    def check(self, scheme, decode, *options, seed=SEED, worker=None, step=None, tensors=None, chunk_log2=18):
        tensors = tensors or self.tensors
        keys = [f"--seed={seed}"]
        keys += [f"--worker={worker}"] if worker is not None else []
        keys += [f"--step={step}"] if step is not None else []
        packed = self.compress(self.npz(tensors), "--scheme", scheme, *keys, f"--chunk-log2={chunk_log2}", *options)
        decoded = self.decompress(packed, "--dtype=f4", suffix=".npz")
        self.assertEqual(list(decoded), list(tensors))
        key = message_key(seed, worker, step)
        for ordinal, (name, x) in enumerate(tensors.items()):
            expected = decode(x, ordinal, key, chunk=1 << chunk_log2)
            self.assert_same_bits(decoded[name], expected.values, f"{scheme} {keys} {name}")
            error = np.abs(decoded[name].astype(F64) - x.astype(F32).astype(F64))
            self.assertTrue(np.all(error <= error_bound(x.astype(F32), expected.steps)), f"{scheme} {keys} {name}")

    def check_dqsg(self, levels, bucket=0, **options):
        text = f"dqsg:levels={levels}" + (f",bucket={bucket}" if bucket else "")
        self.check(text, lambda *a, **k: decode_dqsg(*a, levels, bucket, **k), **options)

    def check_dither(self, bucket=0, nmse=None, width=None, **options):
        text = f"dither:nmse={nmse!r}" if width is None else f"dither:step={width!r}"
        text += f",bucket={bucket}" if bucket else ""
        self.check(text, lambda *a, **k: decode_dither(*a, nmse, width, bucket, **k), **options)

    def test_dqsg_at_every_kind_of_level_count(self):
        for levels in (3, 5, 255, 257, 65535):
            self.check_dqsg(levels)

    def test_dqsg_with_buckets_also_such_as_do_not_divide(self):
        for levels, bucket in [(3, 512), (5, 77), (255, 512), (257, 1000), (65535, 512)]:
            self.check_dqsg(levels, bucket)

    def test_dither_with_its_step_from_the_error_wanted(self):
        for nmse in (0.3, 0.1, 0.001):
            self.check_dither(nmse=nmse)

    def test_dither_with_buckets(self):
        for nmse, bucket in [(0.3, 512), (0.1, 77), (0.001, 1000)]:
            self.check_dither(nmse=nmse, bucket=bucket)

    def test_dither_with_a_step_given(self):
        for width in (0.25, 1e-3, 1.7e-5):
            self.check_dither(width=width)

    def test_multiples_of_the_step_stay_where_they_are(self):
        # Dividing by a rounded reciprocal instead moves some of them.
        step = F32(4067 / 8192)  # its reciprocal puts nearly every multiple beside an integer
        for top in (127, 4000):
            k = np.arange(1 << 21, dtype=np.int32) % (2 * top + 1) - top
            x = k.astype(F32) * step  # exact: few bits each
            got = self.there_and_back(x, f"--scheme=dither:step={float(step)!r}", f"--seed={SEED}")
            self.assert_same_bits(got, restore(k, dither_v(message_key(SEED), 0, x.size), step), f"M = {top}")

    def test_chunks_do_not_change_a_draw(self):
        for levels, bucket in [(3, 0), (257, 0), (5, 512), (5, 1000)]:
            self.check_dqsg(levels, bucket, chunk_log2=12)
        self.check_dither(nmse=0.1, chunk_log2=12)
        self.check_dither(nmse=0.1, bucket=1000, chunk_log2=12)

    def test_message_keys(self):
        few = {name: x for name, x in self.tensors.items() if x.size < 2000}
        for seed in (0, 1, 2**32, 2**64 - 1):
            for worker, step in [(None, None), (0, None), (None, 0), (7, 1), (2**32 - 1, 2**40 + 3), (0, 2**63 - 1)]:
                self.check_dqsg(5, seed=seed, worker=worker, step=step, tensors=few)

    def test_absent_worker_and_step_differ_from_zero(self):
        self.assertNotEqual(message_key(SEED), message_key(SEED, 0, 0))

    def test_float64_and_float16_inputs(self):
        for dtype in (np.float64, np.float16):
            tensors = {name: x.astype(dtype) for name, x in self.tensors.items()}
            if dtype == np.float64:  # not float32 values, so that the conversion matters
                tensors = {name: x * (1 + 2.0**-26) / 3 for name, x in tensors.items()}
            self.check_dqsg(5, tensors=tensors)
            self.check_dqsg(65535, 512, tensors=tensors, chunk_log2=12)
            self.check_dither(nmse=0.1, tensors=tensors)


if __name__ == "__main__":
    support.main()
