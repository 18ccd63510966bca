// State files: what a worker, or whoever decodes its messages, remembers between steps. spec/state.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/files.h"
#include "format/layout.h"
#include "format/remembered.h"

namespace gradcodec {

enum class StateRole : uint8_t { encoder = 1, decoder = 2 };  // the numbers are on disk

// Whose state it is, and of what.
struct StateFacts {
  StateRole role = StateRole::encoder;
  std::string memory;  // the scheme that remembers: "ef"
  uint64_t seed = 0;
  std::optional<uint64_t> worker = {};
  uint64_t step = 0;      // of the next message
  uint64_t previous = 0;  // END's check of the last message; 0 before the first
};

// What the next message is, as far as the caller knows; the rest is as the state says. A state that contradicts it is
// refused.
struct StateDemand {
  StateRole role = StateRole::encoder;
  std::string memory;
  std::vector<std::string> vectors;
  std::vector<TensorInfo> tensors;  // those that are remembered; names and shapes count
  std::optional<uint64_t> seed = {}, worker = {}, step = {}, previous = {};
};

// What is in a state file, whosever it is.
struct StoredState {
  StateFacts facts;
  Remembered remembered;
};

// Reads one that is there, to look at it. `memory`: most bytes that the vectors may take. Throws Error naming the file:
// usage (another kind of file), bad_input, limit, unsupported (a memory that this version does not know).
StoredState read_state(const std::shared_ptr<const RandomFile>& file, uint64_t memory);

// A state file in use. Order of events: it is read; the message (or the dump) is made, synced and renamed; the new
// state is written beside the old one, synced and renamed over it. A process that ends between leaves an old state with
// which the same step gives the same bytes again.
class StateFile {
 public:
  // Opens `path`, and locks it against others until destruction. If there is none, one of zeros is created first, with
  // what `demand` says (seed `fresh_seed` and step 0 where it does not), readable as `mode` says. `memory`: most bytes
  // that the vectors may take. Throws Error naming the file: bad_input (damage; not what was demanded, which is named),
  // io (also: in use by another process), limit, unsupported.
  StateFile(const std::string& path, const StateDemand& demand, uint64_t fresh_seed, mode_t mode, uint64_t memory);

  // Only to be looked at: it must be there, others may use it, and it is never written. Throws likewise.
  static std::unique_ptr<StateFile> look(const std::string& path, const StateDemand& demand, uint64_t memory);

  // One that was created is removed again, unless `keep` was called.
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // One that is there already, whosever it is, locked likewise. Throws Error(io) if there is none, and what read_state
  // throws.
  StateFile(const std::string& path, uint64_t memory);

  const StateFacts& facts() const { return facts_; }

  // What is remembered; it may be updated in place.
  Remembered& remembered() { return remembered_; }

  // What was made from it is about to be in its place: from now on the seed must not be lost.
  void keep() { created_ = false; }

  // Writes the state after the message with this END check. Throws Error(io).
  void commit(uint64_t message);

  // Replaces the file by what is remembered now, of the same step as before. Throws Error(io).
  void rewrite() const { write(true); }

 private:
  class Values;

  StateFile(const std::string& path, const StateDemand& demand, uint64_t memory);

  bool lock();
  void open_locked(uint64_t previous);
  void read(uint64_t memory);
  void check(const StateDemand& demand) const;
  void write(bool replace) const;

  std::string path_;
  mode_t mode_ = 0;
  bool created_ = false;
  Fd lock_;
  StateFacts facts_;
  Remembered remembered_;
};

}  // namespace gradcodec
