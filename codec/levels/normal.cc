// The conditions that make these levels the best are held by tests/codec/levels/normal_test.cc, to the last digit.
// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/normal.h"

#include <array>
#include <string>

#include "codec/error.h"

namespace gradcodec::normal {
namespace {

constexpr std::array kCentroids1 = {0.7978846F};
constexpr std::array kCentroids2 = {0.45278004F, 1.5104176F};
constexpr std::array kCentroids3 = {0.24509416F, 0.7560052F, 1.3439093F, 2.1519456F};
constexpr std::array kCentroids4 = {0.12839502F, 0.38804823F, 0.656759F,  0.94234025F,
                                    1.256231F,   1.618046F,   2.0690167F, 2.7325888F};

constexpr std::array kRounding2 = {0.8285143F};
constexpr std::array kRounding3 = {0.31801653F, 1.0003355F, 1.8847173F};
constexpr std::array kRounding4 = {0.14317425F, 0.43349558F, 0.73654723F, 1.0639938F, 1.4345206F, 1.88489F, 2.5125089F};

[[noreturn]] void no_table(unsigned bits) {
  throw Error(Exit::bug, "no levels of the normal law for " + std::to_string(bits) + " bits");
}

}  // namespace

std::span<const float> centroids(unsigned bits) {
  switch (bits) {
    case 1:
      return kCentroids1;
    case 2:
      return kCentroids2;
    case 3:
      return kCentroids3;
    case 4:
      return kCentroids4;
    default:
      no_table(bits);
  }
}

std::span<const float> rounding_levels(unsigned bits) {
  switch (bits) {
    case 2:
      return kRounding2;
    case 3:
      return kRounding3;
    case 4:
      return kRounding4;
    default:
      no_table(bits);
  }
}

}  // namespace gradcodec::normal
