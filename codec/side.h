// Side information: what a decoder has beside the message, and how near it must be to the values (Wyner and Ziv 1976).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codec/error.h"

namespace gradcodec {

// Thrown by Decoder::decode, once all of `out` is there, if the chunk has not become what was encoded: its side
// information is another one, or too far.
class Overload final : public Error {
 public:
  explicit Overload(const std::string& text) : Error(Exit::bad_input, text) {}
};

// What to do with such a chunk: refuse the message, keep what was decoded, or put zeros or the side information in its
// place.
enum class OnOverload : uint8_t { refuse, keep, zero, side };

// What the decoder of a tensor needs of side information y for values x: that |x - y| is at most limit(). Then decoded
// - x is shift() (x - y), and up to half a cell() more or less; else it may be a multiple of alpha rho step off.
struct SideNeed {
  double step = 0;  // 0: all values are 0, and any y will do
  uint32_t rho = 2;
  double alpha = 1;
  bool is_exact = false;  // the encoder rounds x itself, and not float32(alpha x)

  double limit() const;  // (rho - 1) step / (2 alpha), less what float32 adds to that
  double shift() const { return alpha * alpha - 1; }
  double cell() const { return alpha * step; }

  // Of what was decoded. A wrong value is at least 1.5 cells from where a right one may be.
  bool is_right(double x, double y, double decoded) const;

  // The smallest rho at this step whose limit is at least `distance`.
  double rho_for(double distance) const;
};

// As a decoder takes a float32 of side information: what is not regular counts as 0.
float side_value(float y);

}  // namespace gradcodec
