// Shows and copies dumps, for tests that compare with NumPy and h5py.
//   dump_tool list IN                     NAME DTYPE (SHAPE), a line a tensor
//   dump_tool cat IN NAME                 the elements, C order, little-endian
//   dump_tool copy IN OUT [--part=BYTES]  through a sink, which gets about BYTES at a time
// Options: --drop, --bf16. What is dropped is said on stderr.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "codec/error.h"
#include "format/dumps/open.h"

using namespace gradcodec;

namespace {

void for_each_part(const TensorInfo& info, const TensorData& data, uint64_t part_size,
                   const std::function<void(ByteView)>& visit) {
  const uint64_t item_size = info.dtype.item_size(), size = item_size == 0 ? 0 : info.size();
  const uint64_t part = std::max<uint64_t>(1, part_size / std::max<uint64_t>(1, item_size));
  Bytes buffer;
  for (uint64_t first = 0; first < size; first += part) {
    const uint64_t count = std::min(part, size - first);
    buffer.resize(count * item_size);
    data.read({first, count}, buffer);
    visit(buffer);
  }
}

int list(Source& source) {
  for (const TensorInfo& info : source.tensors()) {
    std::printf("%s %s (", escaped(info.name).c_str(), info.dtype.name().c_str());
    for (const uint64_t dim : info.shape) std::printf("%llu,", static_cast<unsigned long long>(dim));
    std::printf(")\n");
  }
  return 0;
}

int cat(Source& source, const std::string& name, uint64_t part_size) {
  const auto& tensors = source.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != name) continue;
    for_each_part(tensors[i], *source.open(i), part_size,
                  [](ByteView bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); });
    return std::fflush(stdout) == 0 ? 0 : 4;
  }
  std::fprintf(stderr, "no tensor '%s'\n", name.c_str());
  return 2;
}

int copy(Source& source, const std::string& path, uint64_t part_size) {
  OutputFile output(path, true, {});
  const Bytes tree = source.tree();
  const auto sink = make_sink(dump_kind_of(path).value(), output, source.tensors(), tree);
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    sink->begin(info);
    for_each_part(info, *source.open(i), part_size, [&](ByteView bytes) { sink->write(bytes); });
    sink->end();
  }
  sink->finish();
  return 0;
}

int run(const std::vector<std::string>& words, const SourceOptions& options, uint64_t part_size) {
  if (words.size() < 2) return 2;
  std::vector<std::string> dropped;
  const auto source = open_source(words[1], options, &dropped);
  for (const std::string& line : dropped) std::fprintf(stderr, "dropped: %s\n", line.c_str());
  if (words[0] == "list" && words.size() == 2) return list(*source);
  if (words[0] == "cat" && words.size() == 3) return cat(*source, words[2], part_size);
  if (words[0] == "copy" && words.size() == 3) return copy(*source, words[2], part_size);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  SourceOptions options;
  uint64_t part_size = uint64_t{1} << 20;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--drop") {
      options.drop_unsupported = true;
    } else if (word == "--bf16") {
      options.as_bf16 = true;
    } else if (word.starts_with("--part=")) {
      part_size = std::stoull(word.substr(7));
    } else {
      words.push_back(word);
    }
  }
  try {
    return run(words, options, part_size);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const ClosedPipe&) {
    return 141;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "out of memory\n");
    return 99;
  }
}
