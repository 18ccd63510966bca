// What gradcodec and gradcodec-hdf5, the process that has the HDF5 library, say to each other over a socket: messages
// of a header and `size` bytes, numbers little-endian. Each request but `close` is answered by some messages, of which
// the last is `done` or `failed`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "codec/bytes.h"
#include "codec/tensor.h"

namespace gradcodec::hdf5 {

// The first argument of the process: both must have been built from one source. The second is kReads or kWrites.
inline constexpr const char* kProtocol = "1";
inline constexpr const char* kReads = "read";
inline constexpr const char* kWrites = "write";
// How it ends when it is given another protocol.
inline constexpr int kOtherProtocol = 9;

// What it inherits.
inline constexpr int kSocket = 3, kDump = 4;

enum class Message : uint64_t {
  // To a process that reads:
  list = 1,  // u64 the file's size, u8 are unsupported objects dropped? Answered by tensors, dropped, tree
  open,      // u64 the tensor's ordinal. Answered by opened
  read,      // u64 what opened said, u64 first element, u64 elements. Answered by data, together all of them
  close,     // u64 what opened said. Not answered
  // To a process that writes:
  create,  // u64 tensors, the tensors (put_tensor), the rest: the tree record. Answered by places
  write,   // u64 the tensor's ordinal, u64 first element, the rest: elements
  finish,  // nothing

  done = 100,  // nothing
  failed,      // u8 exit code, the rest: the message
  tensors,     // any number of: the tensor (put_tensor), u64 its place, u8 the size of the words to be swapped, or 0
  dropped,     // a line
  tree,        // part of the tree record
  opened,      // u64 a number for read and close
  data,        // elements
  places,      // any number of: u64 the place of the next tensor
};

// In place of the byte of the file where a tensor begins: it is not there as it is, and the process reads or writes it.
inline constexpr uint64_t kNoPlace = ~uint64_t{0};

// No message of an answer is larger; none that is a text.
inline constexpr uint64_t kMaxAnswer = uint64_t{8} << 20, kMaxText = uint64_t{1} << 14;

struct Header {
  Message kind;
  uint64_t size;
};

inline void put_tensor(Bytes& out, const TensorInfo& info) {
  const std::string dtype = info.dtype.name();
  put_varint(out, info.name.size());
  put_bytes(out, as_bytes(info.name));
  put_varint(out, dtype.size());
  put_bytes(out, as_bytes(dtype));
  put_varint(out, info.shape.size());
  for (const uint64_t dim : info.shape) put(out, dim);
}

// Throws Error for what is no tensor; the caller checks it by check_tensor_info.
inline TensorInfo get_tensor(ByteReader& in) {
  TensorInfo info;
  info.name = in.get_text(in.get_varint());
  info.dtype = DType::parse(in.get_text(in.get_varint()));
  const uint64_t rank = in.get_varint();
  if (rank > kMaxRank) in.fail("has a tensor of too many dimensions");
  for (uint64_t d = 0; d < rank; ++d) info.shape.push_back(in.get<uint64_t>());
  return info;
}

}  // namespace gradcodec::hdf5
