// Numbers as users write and read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradcodec {

// A whole number from `min` to `max`, digits only. Throws Error(usage) naming `option`.
uint64_t parse_count(std::string_view text, std::string_view option, uint64_t min, uint64_t max);

// A decimal number above `min` and below `max`. Throws Error(usage) naming `option`.
double parse_real(std::string_view text, std::string_view option, double min, double max);

// Bytes: a whole number, or one followed by K, M, G or T (powers of 1024; an i and a B may follow).
uint64_t parse_size(std::string_view text, std::string_view option);

std::string with_commas(uint64_t n);                 // 1,066,440
std::string fixed(double value, int decimals);       // 1.609, with a point in every locale
std::string short_number(double value, int digits);  // significant digits: 0.0123, 1.2e-09; "-" if not a number
std::string size_text(uint64_t bytes);               // 52.4 KiB

}  // namespace gradcodec
