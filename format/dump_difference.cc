// SPDX-License-Identifier: Apache-2.0
#include "format/dump_difference.h"

#include <algorithm>
#include <map>

namespace gradcodec {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;  // bytes that are compared at once
constexpr size_t kMaxShown = 16;                // bytes of an element

// Of an element, the highest byte first, as numbers are written.
std::string bits_text(ByteView element) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = element.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned>(element[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out.size() <= 2 * kMaxShown ? out : "..." + out.substr(out.size() - 2 * kMaxShown);
}

// "17 [1, 7]", or "17" where that says it all.
std::string place_text(uint64_t index, std::span<const uint64_t> shape) {
  std::string place;
  uint64_t left = index;
  for (size_t i = shape.size(); i-- > 0;) {
    place = std::to_string(left % shape[i]) + (place.empty() ? "" : ", ") + place;
    left /= shape[i];
  }
  return std::to_string(index) + (shape.size() > 1 ? " [" + place + "]" : "");
}

std::string first_element(const TensorInfo& info, const TensorData& expected, const TensorData& got) {
  const uint64_t item = info.dtype.item_size();
  if (item == 0) return {};
  const uint64_t step = std::max<uint64_t>(1, kPiece / item);
  Bytes wanted, found;
  for (uint64_t first = 0; first < info.size(); first += step) {
    const Range range = {first, std::min(step, info.size() - first)};
    wanted.resize(range.count * item);
    found.resize(range.count * item);
    expected.read(range, wanted);
    got.read(range, found);
    const auto differ = std::mismatch(wanted.begin(), wanted.end(), found.begin());
    if (differ.first == wanted.end()) continue;
    const auto at = static_cast<uint64_t>(differ.first - wanted.begin()) / item;
    const auto bits = [&](const Bytes& bytes) { return bits_text(ByteView(bytes).subspan(at * item, item)); };
    return "element " + place_text(first + at, info.shape) + " has bits " + bits(found) + ", expected " + bits(wanted);
  }
  return {};
}

}  // namespace

std::string first_difference(Source& expected, Source& got) {
  std::map<std::string, size_t> there;
  for (size_t i = 0; i < got.tensors().size(); ++i) there[got.tensors()[i].name] = i;
  for (size_t i = 0; i < expected.tensors().size(); ++i) {
    const TensorInfo& wanted = expected.tensors()[i];
    const std::string name = "tensor '" + escaped(wanted.name) + "'";
    const auto found = there.find(wanted.name);
    if (found == there.end()) return name + " is missing";
    const TensorInfo& info = got.tensors()[found->second];
    if (info.dtype != wanted.dtype) {
      return name + " is of type " + info.dtype.name() + ", expected " + wanted.dtype.name();
    }
    if (info.shape != wanted.shape) {
      return name + " has the shape " + shape_text(info.shape) + ", expected " + shape_text(wanted.shape);
    }
    const std::string differs = first_element(wanted, *expected.open(i), *got.open(found->second));
    if (!differs.empty()) return name + ": " + differs;
    there.erase(found);
  }
  return there.empty() ? "" : "tensor '" + escaped(there.begin()->first) + "' is not expected";
}

}  // namespace gradcodec
