// Levels for values of the standard normal law, which is about that of a rotated block's values over their root mean
// square. Tables are symmetric about 0 and have no level there: the magnitudes are given, ascending.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace gradcodec::normal {

inline constexpr unsigned kMaxBits = 4;

// The 2^(bits - 1) magnitudes of the 2^bits levels that have the least expected squared distance to the nearest of them
// (Lloyd 1982; Max 1960), as DRIVE (Vargaftik et al., arXiv 2105.08339; bits = 1) and EDEN (arXiv 2108.08842) take
// them: each is the mean of the law between the midpoints about it. bits is 1 to 4. The distances are .363380, .117482,
// .034548 and .009501.
std::span<const float> centroids(unsigned bits);

// Magnitudes below the top one, 2^(bits - 1) - 1 of them, for stochastic rounding to the two levels around a value:
// those of least expected variance beside a top level of kTop. bits is 2 to 4. Variances are .7445, .1119 and .0229, of
// a top level from 3 to 5 within 9 % of the best for that one.
std::span<const float> rounding_levels(unsigned bits);

// The largest magnitude among 4096 values is this on average.
inline constexpr double kTop = 3.8;

}  // namespace gradcodec::normal
