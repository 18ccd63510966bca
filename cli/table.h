// Tables for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gradcodec {

// Prints rows of equally many cells on stdout, columns as wide as what is in them: the first `left` aligned left, the
// others right. The first row is the heading; there is at least that.
void print_table(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace gradcodec
