// SPDX-License-Identifier: Apache-2.0
#include "format/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "codec/registry.h"
#include "codec/utf8.h"
#include "format/pipeline.h"
#include "format/reader.h"
#include "format/writer.h"

namespace gradcodec {
namespace {

constexpr int kMostTries = 100;  // to lock a file that others replace
constexpr uint64_t kMostSteps = (uint64_t{1} << 63) - 1;

std::string number(uint64_t n) { return std::to_string(n); }

std::string role_text(StateRole role) { return role == StateRole::encoder ? "an encoder" : "a decoder"; }

std::string vector_name(const Remembered& remembered, size_t vector, const TensorInfo& info) {
  return remembered.vectors()[vector] + "/" + info.name;
}

}  // namespace

// The vectors as a dump: NAME of VECTOR is the tensor VECTOR/NAME, of float64.
class StateFile::Values final : public Source {
 public:
  explicit Values(const Remembered& remembered) {
    for (size_t tensor = 0; tensor < remembered.tensors(); ++tensor) {
      for (size_t i = 0; i < remembered.vectors().size(); ++i) {
        const TensorInfo& info = remembered.info(tensor);
        tensors_.push_back({vector_name(remembered, i, info), {DType::f8, ""}, info.shape});
        vectors_.push_back(&remembered.values(tensor, i));
      }
    }
  }
  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override { return std::make_unique<Data>(*vectors_[ordinal]); }

 private:
  class Data final : public TensorData {
   public:
    explicit Data(const std::vector<double>& values) : values_(values) {}
    void read(Range range, std::span<std::byte> out) const override {
      store_little(std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count)),
                   out.data());
    }

   private:
    const std::vector<double>& values_;
  };

  std::vector<TensorInfo> tensors_;
  std::vector<const std::vector<double>*> vectors_;
};

namespace {

// The way back.
class Receiver final : public Sink {
 public:
  explicit Receiver(Remembered& remembered) {
    for (size_t tensor = 0; tensor < remembered.tensors(); ++tensor) {
      for (size_t i = 0; i < remembered.vectors().size(); ++i) {
        vectors_.emplace(vector_name(remembered, i, remembered.info(tensor)), &remembered.values(tensor, i));
      }
    }
  }
  void begin(const TensorInfo& info) override {
    vector_ = vectors_.at(info.name);
    at_ = 0;
  }
  void write(ByteView elements) override {
    const size_t count = elements.size() / sizeof(double);
    load_little(elements.data(), std::span(*vector_).subspan(at_, count));
    at_ += count;
  }
  void end() override {}
  void finish() override {}

 private:
  std::map<std::string, std::vector<double>*, std::less<>> vectors_;
  std::vector<double>* vector_ = nullptr;
  size_t at_ = 0;
};

// What stands before the vectors.
StateFacts begin_state(ContainerReader& reader) {
  if (!reader.begin()) throw Error(Exit::bad_input, "is empty; a state was expected");
  if (reader.kind() != FileKind::state) {
    throw Error(Exit::usage, "is a .gradz file, but not a state");
  }
  const Message& message = reader.message();
  StateFacts found;
  found.role = static_cast<StateRole>(reader.state().role);
  found.memory = reader.state().memory;
  found.seed = *message.seed;
  found.worker = message.worker;
  found.step = *message.step;
  found.previous = *message.previous;
  return found;
}

// The vectors, and all that stands behind them; the tensors have been compared.
void take_vectors(const InputStream& input, ContainerReader& reader, Remembered& remembered, uint64_t memory) {
  check_claims(input, reader.schema());
  DecompressOptions options;
  options.wanted = [](const TensorInfo&) { return true; };
  options.memory = memory;
  Receiver receiver(remembered);
  Progress progress;
  const std::vector<uint32_t> decoded = decompress(reader, reader.schema(), {}, options, &receiver, progress);
  const std::vector<uint32_t> stored = reader.finish();
  reader.expect_end_of_input();
  compare_digests(reader.schema(), options, stored, decoded);
}

// Names and shapes must be those of the tensors that are to be remembered, neither more nor fewer.
void check_tensors(const Schema& schema, const Remembered& remembered) {
  std::map<std::string_view, const TensorInfo*> found;
  for (const SchemaTensor& tensor : schema.tensors) found.emplace(tensor.info.name, &tensor.info);
  for (size_t tensor = 0; tensor < remembered.tensors(); ++tensor) {
    const TensorInfo& info = remembered.info(tensor);
    for (size_t i = 0; i < remembered.vectors().size(); ++i) {
      const auto it = found.find(vector_name(remembered, i, info));
      if (it == found.end()) {
        throw Error(Exit::bad_input,
                    "the state knows no tensor of this name: was it renamed, or left out before (--exclude, --include, "
                    "--min-elements)?")
            .in_tensor(info.name);
      }
      if (it->second->shape != info.shape || it->second->dtype != DType{DType::f8, ""}) {
        throw Error(Exit::bad_input, "has the shape " + shape_text(info.shape) + ", and in the state " +
                                         shape_text(it->second->shape) + " " + it->second->dtype.name())
            .in_tensor(info.name);
      }
      found.erase(it);
    }
  }
  for (const StoredScheme& scheme : schema.schemes) {
    if (scheme.text != "raw") throw Error(Exit::bad_input, "is a state whose vectors are not kept exactly");
  }
  if (found.empty()) return;
  throw Error(Exit::bad_input, "remembers '" + escaped(found.begin()->first) +
                                   "', a tensor that the step does not have: was it renamed, or left out (--exclude, "
                                   "--include, --min-elements)?");
}

// Those that the file says, where nobody else does: the tensors of the first vector.
Remembered room_for(const StateFacts& facts, const Schema& schema, uint64_t memory) {
  const Scheme* const scheme = find_scheme(facts.memory);
  if (scheme == nullptr || scheme->vectors().empty()) {
    throw Error(Exit::unsupported,
                "is what '" + escaped(facts.memory) + "' remembers, a scheme that this version does not know");
  }
  std::vector<std::string> vectors;
  for (const std::string_view vector : scheme->vectors()) vectors.emplace_back(vector);
  const std::string first = vectors[0] + "/";
  std::vector<TensorInfo> tensors;
  for (const SchemaTensor& tensor : schema.tensors) {
    if (!tensor.info.name.starts_with(first)) continue;
    tensors.push_back(tensor.info);
    tensors.back().name.erase(0, first.size());
  }
  Remembered remembered(vectors, tensors, memory);
  check_tensors(schema, remembered);
  return remembered;
}

}  // namespace

StoredState read_state(const std::shared_ptr<const RandomFile>& file, uint64_t memory) {
  try {
    InputStream input(file);
    ContainerReader reader(input, memory);
    StoredState state;
    state.facts = begin_state(reader);
    check_claims(input, reader.schema());  // before room is made for what they say
    state.remembered = room_for(state.facts, reader.schema(), memory);
    take_vectors(input, reader, state.remembered, memory);
    return state;
  } catch (Error& error) {
    error.in_file(file->name());
    throw;
  }
}

StateFile::StateFile(const std::string& path, const StateDemand& demand, uint64_t fresh_seed, mode_t mode,
                     uint64_t memory)
    : path_(path), mode_(mode) {
  try {
    facts_ = {demand.role,   demand.memory,           demand.seed.value_or(fresh_seed),
              demand.worker, demand.step.value_or(0), demand.previous.value_or(0)};
    remembered_ = Remembered(demand.vectors, demand.tensors, memory);
    open_locked(demand.previous.value_or(0));
    read(memory);
    check(demand);
  } catch (Error& error) {
    error.in_file(path);
    throw;
  }
}

StateFile::StateFile(const std::string& path, const StateDemand& demand, uint64_t memory) : path_(path) {
  try {
    if (path == "-") throw Error(Exit::usage, "is read as a file: name the state's");
    facts_.role = demand.role;
    facts_.memory = demand.memory;
    remembered_ = Remembered(demand.vectors, demand.tensors, memory);
    read(memory);
    check(demand);
  } catch (Error& error) {
    error.in_file(path);
    throw;
  }
}

std::unique_ptr<StateFile> StateFile::look(const std::string& path, const StateDemand& demand, uint64_t memory) {
  return std::unique_ptr<StateFile>(new StateFile(path, demand, memory));
}

StateFile::~StateFile() {
  if (created_) ::unlink(path_.c_str());
}

StateFile::StateFile(const std::string& path, uint64_t memory) : path_(path) {
  try {
    if (path == "-") throw Error(Exit::usage, "is no file that could be replaced: name the state's");
    for (int tries = 0; !lock(); ++tries) {
      if (lock_.get() < 0) throw Error(Exit::io, "does not exist");
      if (tries == kMostTries) throw Error(Exit::io, "is replaced by others again and again");
    }
    StoredState found = read_state(RandomFile::open(path), memory);
    facts_ = std::move(found.facts);
    remembered_ = std::move(found.remembered);
  } catch (Error& error) {
    error.in_file(path);
    throw;
  }
}

// Opens and locks the file. False if there is none (lock_ is none either), or if it was replaced meanwhile by another
// process, under a lock of its own.
bool StateFile::lock() {
  lock_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe is refused, not waited for
  if (lock_.get() < 0 && errno == ENOENT) return false;
  if (lock_.get() < 0) throw Error(Exit::io, "cannot be opened: " + std::string(std::strerror(errno)));
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Error(Exit::io, "is in use by another process: every worker has a state of its own");
  }
  struct stat ours = {}, now = {};
  if (fstat(lock_.get(), &ours) != 0) throw Error(Exit::io, "cannot be examined: " + std::string(strerror(errno)));
  if (!S_ISREG(ours.st_mode)) throw Error(Exit::usage, "is not a regular file, which a state must be");
  mode_ = ours.st_mode & 0777;
  return stat(path_.c_str(), &now) == 0 && ours.st_dev == now.st_dev && ours.st_ino == now.st_ino;
}

void StateFile::open_locked(uint64_t previous) {
  if (path_ == "-") throw Error(Exit::usage, "is no file that could be kept: name one for the state");
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (lock()) return;
    if (lock_.get() >= 0) continue;
    if (previous != 0) {
      throw Error(Exit::bad_input,
                  "does not exist, and the message is not the first of its worker: the state of the step before it "
                  "is needed");
    }
    try {
      write(false);
      created_ = true;
    } catch (const Error& error) {
      if (error.code() != Exit::usage) throw;  // another process has made it meanwhile
    }
  }
  throw Error(Exit::io, "is replaced by others again and again, or cannot be kept where it is");
}

void StateFile::read(uint64_t memory) {
  InputStream input(RandomFile::open(path_));
  ContainerReader reader(input, memory);
  const StateFacts found = begin_state(reader);
  if (found.role != facts_.role) {
    throw Error(Exit::bad_input, "is the state of " + role_text(found.role) + ", not of " + role_text(facts_.role));
  }
  if (found.memory != facts_.memory) {
    throw Error(Exit::bad_input,
                "is what '" + escaped(found.memory) + "' remembers, and the scheme is '" + facts_.memory + "/...'");
  }
  check_tensors(reader.schema(), remembered_);
  take_vectors(input, reader, remembered_, memory);
  facts_ = found;
  if (facts_.previous != 0) created_ = false;  // another process has used it since
}

void StateFile::check(const StateDemand& demand) const {
  const auto fail = [](const std::string& text) { throw Error(Exit::bad_input, text); };
  if (demand.worker != facts_.worker && demand.worker) {
    fail("is the state of " + (facts_.worker ? "worker " + number(*facts_.worker) : "a worker without a number") +
         ", not of worker " + number(*demand.worker));
  }
  if (demand.role == StateRole::decoder && !demand.worker && facts_.worker) {
    fail("is the state of worker " + number(*facts_.worker) + ", and the message is of no numbered worker");
  }
  if (demand.seed && *demand.seed != facts_.seed) {
    fail("has the seed " + number(facts_.seed) + ", not " + number(*demand.seed) + ": another run's state?");
  }
  if (demand.step && *demand.step > facts_.step) {
    fail("expects step " + number(facts_.step) + " next, not " + number(*demand.step) + ": " +
         (*demand.step == facts_.step + 1
              ? "step " + number(facts_.step) + " is"
              : "steps " + number(facts_.step) + " to " + number(*demand.step - 1) + " are") +
         " missing");
  }
  if (demand.step && *demand.step < facts_.step) {
    fail("expects step " + number(facts_.step) + " next, not " + number(*demand.step) +
         ": that one is remembered already, and cannot be made again from this state");
  }
  if (demand.previous && *demand.previous != facts_.previous) {
    fail("is not the state before this message: another message came in between, or was made from another state");
  }
}

void StateFile::commit(uint64_t message) {
  if (facts_.step == kMostSteps) throw Error(Exit::limit, "has counted 2^63 steps").in_file(path_);
  ++facts_.step;
  facts_.previous = message;
  write(true);
}

void StateFile::write(bool replace) const {
  Values values(remembered_);
  CompressOptions options;
  options.scheme = parse_scheme("raw");
  options.coders = coders_for_level(1);
  const Schema schema = plan_schema(values, options);
  Message message;
  message.seed = facts_.seed;
  message.worker = facts_.worker;
  message.step = facts_.step;
  message.previous = facts_.previous;
  message.digests = true;
  Origin origin;
  origin.mode = mode_;
  OutputFile output(path_, replace, origin);
  ContainerWriter writer(output);
  writer.begin(schema, {}, {}, message, FileKind::state,
               write_state_block({static_cast<uint8_t>(facts_.role), facts_.memory}));
  Progress progress;
  compress(values, schema, std::vector<SchemeChoice>(schema.schemes.size(), options.scheme), options, writer, progress);
  output.be_durable();
  output.commit();
}

}  // namespace gradcodec
