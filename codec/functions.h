// Elementary functions of float64 for encoders: the same bits on every machine, which libm's are not. Only +, -, *, /,
// sqrt and operations on bits, in a written order.
//
// The errors named here are relative, and those of results that are normal numbers; tests/codec/functions_test.cc
// holds them. A result below 2^-1022 is right to 2^-1074 as well. Nothing here throws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gradcodec::functions {

// e^x, to 5e-16. 0 below -745.14, infinite above 709.78.
double natural_exp(double x);

// The logarithm of x to base e, to 5e-16. -infinity for 0, not a number for x < 0.
double natural_log(double x);

// x^y for x >= 0: to 1e-15 + 5e-16 |y ln x|, so to 4e-13 at the ends of the range. 1 where y is 0.
double power(double x, double y);

// The density of the standard normal law, exp(-x^2 / 2) / sqrt(2 pi), to 2e-15.
double normal_density(double x);

// The probability that a standard normal variable is at most x, to 2e-14. 0 below -38.5; the upper tail is
// normal_cdf(-x), with all of its digits.
double normal_cdf(double x);

// The inverse: normal_cdf(normal_quantile(p)) = p, for p from 0 (-infinity) to 1 (infinity), to 2e-14; odd about p =
// 1/2 to the bit where 1 - p is exact. Not a number outside.
double normal_quantile(double p);

}  // namespace gradcodec::functions
