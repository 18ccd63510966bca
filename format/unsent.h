// What a worker of Sketched-SGD has sketched and not sent yet: v, which momentum/countsketch keeps in its state, from
// the sketch of a step until the server has said what it took (Ivkin et al., arXiv 1903.04488, algorithm 3, lines 7 to
// 10; spec/rounds.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "format/dumps/source.h"
#include "format/index_set.h"
#include "format/state.h"

namespace gradcodec {

// Throws Error(usage) for what is not a worker's momentum, Error(bad_input) naming step or tensor unless the set is of
// the step that the state was brought to last, and of its tensors, by name and shape: neither more nor fewer.
void check_round(const StateFacts& facts, const Remembered& remembered, const IndexSet& set);

// v as float32, to nearest: what was sketched.
std::vector<float> unsent_values(const std::vector<double>& v);

// v of all tensors, with their names and shapes, as a dump of float32. `remembered` outlives it.
std::unique_ptr<Source> unsent(const Remembered& remembered);

// What was taken is no longer remembered: all vectors are 0 there. Tensors are found by name; the set has none that is
// not remembered. Doing it again changes nothing.
void forget_taken(Remembered& remembered, const IndexSet& taken);

}  // namespace gradcodec
