// Elements of a floating-point type as float32, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "codec/bytes.h"
#include "codec/kernels/kernels.h"
#include "codec/law.h"
#include "codec/tensor.h"

namespace gradcodec {

// `in`: out.size() elements of a float type (DType::is_float). float64 is rounded to nearest even (beyond float32:
// infinity); the 16-bit types are exact. `in` may be the last bytes of `out` itself if its elements are not larger.
void widen(const DType& dtype, ByteView in, std::span<float> out);

// float64 to float32, to nearest even, for values that no scheme has touched. Throws a limit where a finite one would
// become infinite. `in` is out.size() float64; `first` is for messages.
void round_doubles(ByteView in, uint64_t first, std::span<float> out);

// float64 to float32, towards zero, and to the odd neighbour if that is not exact: rounded to 16 bits afterwards it
// gives what rounding the float64 would. `in` is out.size() float64.
void widen_to_odd(ByteView in, std::span<float> out);

// float32 to `dtype`, into x.size() elements. float64 is exact. The 16-bit types are rounded at random, so that the
// mean is kept: element i by the draw of coordinate first + i. Throws Error(limit) if a finite value is larger than
// the type's largest; infinities and NaN stay what they are.
void narrow(std::span<const float> x, const DType& dtype, const kernels::Draws& draws, uint64_t first,
            std::span<std::byte> out);

// The laws of what narrow adds to each of x: `two` between its neighbours among the values of f2 or bf16; outside where
// x is beyond the largest of them. Both spans have the same size.
void narrowing_laws(std::span<const float> x, const DType& dtype, std::span<Law> laws);

// As narrow, to nearest even, for values that no scheme has touched. `first` is for messages.
void round_to(std::span<const float> x, const DType& dtype, uint64_t first, std::span<std::byte> out);

}  // namespace gradcodec
