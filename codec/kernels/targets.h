// Which of Highway's targets are not wanted: what each simd file includes before Highway.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The scalable vectors of SVE and RISC-V have no size at compile time, which this code wants; NEON serves the former,
// the scalar kernels the latter.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

// Where integers are big-endian, lanes change places when they are seen as wider ones.
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HWY_COMPILE_ONLY_SCALAR
#endif
