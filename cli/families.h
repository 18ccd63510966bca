// The schemes that `compare` tries unless it is told which.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gradcodec {

// Settings of one scheme, from the largest error and the fewest bits on. Where `asked`, there is one, which has what is
// asked for as its parameter: an error is kept in the mean over its random numbers, and one message may be a little
// off; bits are what it aims at, and the file may have more.
struct Family {
  std::vector<std::string> settings;
  bool asked = false;
};

// For an NMSE of at most `nmse`, and for at most `bits` bits a value. No scheme with memory, with side information,
// with noise for privacy, for sketches, or with a parameter in units of the values (grid, threshold).
std::vector<Family> families_for_nmse(double nmse);
std::vector<Family> families_for_bits(double bits);

}  // namespace gradcodec
