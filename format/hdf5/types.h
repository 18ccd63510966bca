// Types: the library's and ours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "format/dumps/tree.h"
#include "format/hdf5/library.h"

namespace gradcodec::hdf5 {

// A run of bytes in an element that has to be reversed.
struct Word {
  uint64_t offset, size;
};

// A type found in a file. Elements are read as this very type, so that the library converts nothing (its conversions
// to and from 16-bit floats are known to be wrong), and then swapped by swap_words.
struct FileType {
  Handle id;
  TypeSpec spec;
  std::vector<Word> swapped;  // in each element; empty for little-endian types
};

// Throws Error(unsupported), whose text goes on from the name of the dataset or attribute ("has elements that are
// references, which are not supported").
FileType read_type(Handle type, const Place& place);

// The little-endian type.
Handle make_type(const TypeSpec& spec, const Place& place);

// The size of the words if all of an element are alike and nothing is between them; else 0.
size_t uniform_word(uint64_t item_size, const std::vector<Word>& swapped);

// `elements`: whole elements of `item_size` bytes.
void swap_words(std::span<std::byte> elements, uint64_t item_size, const std::vector<Word>& swapped);

}  // namespace gradcodec::hdf5
