// Index sets: which elements of a message's tensors the server took, or asks for. A .gradz file of kind 4, whose
// tensors go by the scheme `mask`; its name is END's check, which an answer to it says. spec/container.md, "Index
// sets".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/dumps/source.h"
#include "format/files.h"
#include "format/layout.h"

namespace gradcodec {

struct IndexSet {
  using Places = std::vector<uint64_t>;
  struct Entry {
    TensorInfo info;                                      // of the tensor that the places are of; of a float type
    std::shared_ptr<const std::vector<uint64_t>> places;  // rising
  };

  DumpKind origin = DumpKind::npz;
  uint8_t chunk_log2 = kDefaultChunkLog2;
  std::optional<uint64_t> step;
  std::vector<Entry> tensors;
  std::map<std::string, size_t, std::less<>> by_name;  // where each stands among them
  uint64_t check = 0;                                  // END's, of a set that was read
  std::string file;                                    // its name, for messages

  void add(const TensorInfo& info, Places places);  // one more tensor, of another name than those before
  uint64_t count() const;
  const Entry* find(std::string_view name) const;  // null if it has no places of such a tensor

  // 1 at the places, 0 elsewhere: Inputs::side of the scheme `at`. Null if the set has no such tensor; throws
  // Error(bad_input) if it has one of another shape.
  std::shared_ptr<const Tensor> mask_of(const TensorInfo& info) const;
};

// Throws Error naming the file: as StoredMessage does.
IndexSet read_index_set(std::shared_ptr<const RandomFile> file, unsigned threads, uint64_t memory);
inline IndexSet read_index_set(const std::string& path, unsigned threads, uint64_t memory) {
  return read_index_set(RandomFile::open(path), threads, memory);
}

void write_index_set(const IndexSet& set, OutputFile& output, unsigned threads, uint64_t memory);

// The tensors of a dump that a set asks for, in the dump's order; the others are left out. Throws Error(usage) for one
// that the dump has not, or has of another shape or of no float type.
std::unique_ptr<Source> asked_for(std::unique_ptr<Source> dump, const IndexSet& set);

// Throws Error(bad_input) unless the message answers that set; `set` null: Error(usage) if it answers one.
void check_answer(const Schema& schema, const Message& message, const IndexSet* set);

}  // namespace gradcodec
