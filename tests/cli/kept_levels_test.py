#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compress --levels-from: levels that another file has are kept, and what cannot be kept is said."""
import numpy as np

import support
from support import BAD_INPUT, IO_FAILURE, OK, USAGE, run


def gradient(seed, n=20000):
    return np.random.default_rng(seed).standard_normal(n).astype("f4")


class KeptLevels(support.CliTest):
    def setUp(self):
        super().setUp()
        np.savez(self.dir / "old.npz", a=gradient(1), b=gradient(2) ** 3)
        np.savez(self.dir / "new.npz", a=gradient(3) ** 3, b=gradient(4))
        self.compress("old.npz", "old.gradz", "alq:s=4", OK)

    def compress(self, dump, out, scheme, code, *options):
        result = run("compress", self.dir / dump, "-f", "-o", self.dir / out, "--scheme", scheme, "--seed", 1,
                     *options)
        self.assertEqual(result.code, code, result.err)
        return result.err

    def levels(self, file):
        """What info says of each tensor's parameters."""
        lines = run("info", self.dir / file).out.decode().splitlines()
        return [line[line.index("levels"):line.index(", a scale")] for line in lines if ", a scale" in line]

    def keeping(self, file, scheme, code, dump="new.npz", *options):
        return self.compress(dump, "new.gradz", scheme, code, "--levels-from", self.dir / file, *options)

    def test_levels_are_those_of_the_tensor_of_that_name(self):
        self.compress("new.npz", "fitted.gradz", "alq:s=4", OK)
        self.keeping("old.gradz", "alq:s=4", OK)
        self.assertEqual(self.levels("new.gradz"), self.levels("old.gradz"))
        self.assertNotEqual(self.levels("new.gradz"), self.levels("fitted.gradz"))
        self.assertEqual(len(self.levels("new.gradz")), 2)
        result = run("verify", self.dir / "new.gradz", "--against", self.dir / "new.npz")
        self.assertEqual(result.code, OK, result.out)

    def test_verify_takes_kept_levels_for_what_the_scheme_stores(self):
        for scheme in ("alq:s=4", "amq:s=3"):
            self.compress("old.npz", "old.gradz", scheme, OK)
            self.keeping("old.gradz", scheme, OK)
            result = run("verify", self.dir / "new.gradz", "--against", self.dir / "new.npz", "--scheme", scheme)
            self.assertEqual(result.code, OK, result.out)
        # Other bytes than those of the levels must still be what the dump gives.
        result = run("verify", self.dir / "new.gradz", "--against", self.dir / "old.npz", "--scheme", scheme)
        self.assertEqual(result.code, 1, result.out)

    def test_verify_takes_the_scale_that_was_shared(self):
        self.compress("new.npz", "shared.gradz", "maxnorm:bits=4", OK, "--shared-scale", "200")
        verify = ["verify", self.dir / "shared.gradz", "--against", self.dir / "new.npz", "--scheme", "maxnorm:bits=4"]
        self.assertEqual(run(*verify, "--shared-scale", "200").code, OK)
        result = run(*verify)
        self.assertEqual(result.code, 1, result.out)
        self.assertIn(b"--shared-scale", result.out)
        self.assertEqual(run(*verify, "--shared-scale", "100").code, 1)
        self.assertEqual(run("verify", self.dir / "shared.gradz", "--shared-scale", "200").code, USAGE)

    def test_the_same_levels_kept_are_the_same_bytes(self):
        self.keeping("old.gradz", "alq:s=4", OK, "old.npz")
        self.assertEqual((self.dir / "new.gradz").read_bytes(), (self.dir / "old.gradz").read_bytes())

    def test_what_cannot_be_kept(self):
        for scheme in ("alq:s=3", "amq:s=4", "alq:s=4,bucket=100", "dqsg:levels=3"):
            self.assertIn("is coded by 'alq:s=4', not by '%s'" % scheme, self.keeping("old.gradz", scheme, USAGE))
        self.compress("new.npz", "other.gradz", "nuqsgd:s=4", OK)
        self.assertIn("fits no levels", self.keeping("other.gradz", "nuqsgd:s=4", USAGE))
        np.savez(self.dir / "more.npz", a=gradient(1), c=gradient(2))
        self.assertIn("there is no tensor 'c'", self.keeping("old.gradz", "alq:s=4", USAGE, "more.npz"))
        self.keeping("old.gradz", "alq:s=4", OK, "more.npz", "--include", "a")
        self.assertIn("old.gradz", self.keeping("old.gradz", "amq:s=4", USAGE))

    def test_files_that_are_damaged_or_absent(self):
        good = (self.dir / "old.gradz").read_bytes()
        for cut in (0, 5, len(good) // 2, len(good) - 1):
            (self.dir / "bad.gradz").write_bytes(good[:cut])
            self.assertIn("bad.gradz", self.keeping("bad.gradz", "alq:s=4", BAD_INPUT))
        for at in range(60, len(good), 997):
            (self.dir / "bad.gradz").write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
            self.keeping("bad.gradz", "alq:s=4", BAD_INPUT)
        self.keeping("absent.gradz", "alq:s=4", IO_FAILURE)
        self.assertFalse((self.dir / "new.gradz").exists())


if __name__ == "__main__":
    support.main()
