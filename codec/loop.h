// Work on numbered pieces that others may help with: codec says what may be done at once, its caller by whom.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace gradcodec {

// Calls job(i) for each i below `count`, once, perhaps by several threads at a time, and returns when all are done.
// Once a job has thrown no further ones begin, and what that of the smallest number threw is thrown. No Loop (empty):
// one after another.
using Job = std::function<void(uint64_t)>;
using Loop = std::function<void(uint64_t count, const Job& job)>;

}  // namespace gradcodec
