// SPDX-License-Identifier: Apache-2.0
#include "tools/train/data.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "codec/error.h"
#include "tools/train/random.h"

namespace gradcodec::train {
namespace {

struct Closed {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// A file of IDX, big-endian: magic, the number of items, `more` other dimensions, one byte an element.
std::vector<uint8_t> read_idx(const std::string& path, uint32_t magic, std::initializer_list<uint32_t> more) {
  const std::unique_ptr<gzFile_s, Closed> file(gzopen(path.c_str(), "rb"));
  if (!file) {
    throw Error(Exit::io, "cannot be opened: it is in Debian's package dataset-fashion-mnist (tools/install)")
        .in_file(path);
  }
  const auto word = [&] {
    uint8_t bytes[4] = {};
    if (gzread(file.get(), bytes, 4) != 4) throw Error(Exit::bad_input, "ends in its header").in_file(path);
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  };
  if (word() != magic) throw Error(Exit::bad_input, "is no IDX file of bytes").in_file(path);
  size_t size = word();
  if (size > 1'000'000) throw Error(Exit::limit, "has more than a million items").in_file(path);
  for (const uint32_t expected : more) {
    if (word() != expected) throw Error(Exit::bad_input, "is not of 28 x 28 images").in_file(path);
    size *= expected;
  }
  std::vector<uint8_t> out(size);
  if (gzread(file.get(), out.data(), static_cast<unsigned>(size)) != static_cast<int>(size)) {
    throw Error(Exit::bad_input, "is cut, or damaged").in_file(path);
  }
  return out;
}

Dataset read_part(const std::string& folder, const std::string& part) {
  Dataset data;
  data.pixels = read_idx(folder + "/" + part + "-images-idx3-ubyte.gz", 0x803, {28, 28});
  data.labels = read_idx(folder + "/" + part + "-labels-idx1-ubyte.gz", 0x801, {});
  const bool fits = data.pixels.size() == kPixels * data.labels.size() && !data.labels.empty();
  if (!fits || *std::max_element(data.labels.begin(), data.labels.end()) >= kClasses) {
    throw Error(Exit::bad_input, "its labels are not those of its images").in_file(folder);
  }
  return data;
}

Dataset make_part(size_t size, uint64_t purpose) {
  Numbers numbers(1, purpose);
  Dataset data;
  for (size_t i = 0; i < size; ++i) {
    const uint64_t label = numbers.below(kClasses);
    data.labels.push_back(static_cast<uint8_t>(label));
    const double row = 5 + 5 * static_cast<double>(label / 3) + 1.3 * numbers.normal();
    const double column = 6 + 7 * static_cast<double>(label % 3) + 1.3 * numbers.normal();
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        const double square = (y - row) * (y - row) + (x - column) * (x - column);
        const double value = 200 * std::exp(-square / 18) + 25 * numbers.normal();
        data.pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return data;
}

}  // namespace

void Dataset::gather(std::span<const uint32_t> images, std::vector<float>& rows, std::vector<uint8_t>& classes) const {
  rows.resize(images.size() * kPixels);
  classes.resize(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const uint8_t* const from = pixels.data() + size_t{images[i]} * kPixels;
    for (size_t j = 0; j < kPixels; ++j) rows[i * kPixels + j] = static_cast<float>(from[j]) / 255;
    classes[i] = labels[images[i]];
  }
}

Data load_data(const std::string& folder) {
  if (folder == "synthetic") return {make_part(4000, 1), make_part(1000, 2)};
  return {read_part(folder, "train"), read_part(folder, "t10k")};
}

}  // namespace gradcodec::train
