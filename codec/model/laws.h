// Laws of values about their scale, from which the coder `model` has its frequencies: spec/coders/model.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace gradcodec {

inline constexpr uint32_t kLaws = 4;
inline constexpr uint32_t kLawPoints = 1025;  // 64 a unit of x / s, from 0 to 16

// P(x > s i / 64) of each law, in units of 2^-30.
extern const std::array<std::array<uint32_t, kLawPoints>, kLaws> kLawTables;

}  // namespace gradcodec
