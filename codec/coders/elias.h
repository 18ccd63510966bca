// Coder "elias": QSGD's, Elias omega codes of the gaps between non-zeros and of magnitudes; spec/coders/elias.md is the
// definition. Source: Alistarh et al., QSGD, NIPS 2017, arXiv 1610.02132, section 3; the code: Elias 1975.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"

namespace gradcodec {

constexpr uint32_t kMaxOmegaWidth = 40;  // bits of the largest numbers coded

// The omega code of one number: the `length` lowest of `bits`, the first of them highest.
struct OmegaWord {
  uint64_t bits;
  uint32_t length;
};

// `number` is 1 to 2^40 - 1; its word has at most 52 bits.
OmegaWord omega_word(uint64_t number);

struct OmegaNumber {
  uint64_t value;
  uint32_t length;  // bits of its word
};

// The number whose word begins at the highest bit of `window`; length 0 if that is a number of more than 40 bits. Of a
// word longer than what is known of the window, the value is wrong, but the number of its bits is right if the word's
// part before it is known.
OmegaNumber read_omega(uint64_t window);

const Coder& elias_coder();

}  // namespace gradcodec
