// Tables and shapes as they are printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "format/dumps/source.h"
#include "format/reader.h"

namespace gradcodec {

// Prints rows of equally many cells on stdout, columns as wide as what is in them: the first `left` aligned left, the
// others right. The first row is the heading; there is at least that.
void print_table(const std::vector<std::vector<std::string>>& rows, size_t left);

// The same of `count` rows that are made twice, for their widths and to be printed, and never kept.
void print_table(size_t count, const std::function<std::vector<std::string>(size_t)>& row_at, size_t left);

// What info and stats call the parts of a file, in its order.
std::vector<std::pair<std::string, uint64_t>> parts_of(const Accounts& accounts);

std::string origin_text(DumpKind kind);  // npy, npz, hdf5

}  // namespace gradcodec
