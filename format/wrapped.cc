// SPDX-License-Identifier: Apache-2.0
#include "format/wrapped.h"

#include "codec/registry.h"

namespace gradcodec {

Bytes wrap_body(ByteView body) {
  Stream stream;
  stream.bytes.assign(body.begin(), body.end());
  Bytes packed;
  coder_named("zstd").shrink(stream, packed);
  Bytes out;
  const bool smaller = packed.size() < body.size();
  put(out, static_cast<uint8_t>(smaller));
  if (smaller) put_varint(out, body.size());
  put_bytes(out, smaller ? ByteView(packed) : body);
  return out;
}

Bytes unwrap_body(ByteView wrapped, std::string_view what, uint64_t most) {
  ByteReader in(wrapped, what);
  const auto flag = in.get<uint8_t>();
  if (flag > 1) throw Error(Exit::unsupported, std::string(what) + " is packed in a way not known to this version");
  const uint64_t size = flag == 0 ? in.left() : in.get_varint();
  if (size == 0) in.fail("is empty");
  if (size > most) {
    throw Error(Exit::limit, std::string(what) + " takes " + std::to_string(size) + " bytes, more than the limit of " +
                                 std::to_string(most));
  }
  const ByteView body = in.get_bytes(in.left());
  if (flag == 0) return {body.begin(), body.end()};
  Stream stream;
  coder_named("zstd").expand(body, size, stream);
  return std::move(stream.bytes);
}

}  // namespace gradcodec
