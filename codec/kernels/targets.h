// Which of Highway's targets are not wanted: what each simd file includes before Highway.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// NEON on 32-bit ARM flushes subnormals and divides approximately. The scalable vectors of SVE and RISC-V have no size
// at compile time, which this code wants; NEON serves the former, the scalar kernels the latter.
#ifndef HWY_DISABLED_TARGETS
#if defined(__arm__)
#define HWY_DISABLED_TARGETS HWY_NEON
#else
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#endif
