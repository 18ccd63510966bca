// Parameters and tensors at the edges of what schemes take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "codec/kernels/kernels.h"
#include "codec/scheme.h"

namespace gradcodec {

// Texts that exercise each parameter's ends.
inline std::vector<std::string> edge_texts(const Scheme& scheme) {
  const std::map<std::string, std::vector<std::string>, std::less<>> known = {
      {"dqsg",
       {"dqsg:levels=3", "dqsg:levels=255", "dqsg:levels=257", "dqsg:levels=65535", "dqsg:levels=5,bucket=1",
        "dqsg:levels=5,bucket=100", "dqsg:levels=9,clip=2.5", "dqsg:levels=3,bucket=4194304"}},
      {"dither",
       {"dither:nmse=0.1", "dither:nmse=1e-8", "dither:nmse=1e4", "dither:nmse=0.001,bucket=100",
        "dither:nmse=0.3,bucket=1", "dither:step=0.01", "dither:step=1e-37", "dither:step=1e37"}},
      // Test noise, as secret noise is never the same: bq_test has that.
      {"bq",
       {"bq:clip=0.5,bits=4,m=32,noise=test", "bq:clip=1e-30,bits=1,m=1,noise=test",
        "bq:clip=1e30,bits=15,m=32768,noise=test", "bq:clip=1,bits=1,m=65534,noise=test",
        "bq:clip=1,bits=15,m=1,noise=test"}}};
  const auto found = known.find(scheme.name());
  INFO("add edge texts for " << scheme.name());
  REQUIRE(found != known.end());
  return found->second;
}

inline std::vector<float> varied(size_t n) {
  std::vector<float> x(n);
  const kernels::Draws draws{{1, 2}, 0, 0};
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words(draws, 0, n, words.data());
  for (size_t i = 0; i < n; ++i) {
    const float magnitude = std::ldexp(1.0F, -static_cast<int>(words[i] >> 28));
    const float part = static_cast<float>(static_cast<int32_t>(words[i] << 8) >> 8) * 0x1p-23F;
    x[i] = i % 7 == 0 ? 0.0F : magnitude * part;
  }
  return x;
}

inline std::vector<std::vector<float>> edge_tensors() {
  std::vector<float> outlier(5000, 0.0F);
  outlier[4321] = 1e6F;
  return {{},
          {0.0F},
          {-0.0F},
          {1.0F},
          {-3e38F, 1e-45F, 1.0F},
          {0x1p126F, -0x1p126F, 0x1p-149F},
          {0x1.000002p126F, 1.0F},
          std::vector<float>(4097, 0.0F),
          std::vector<float>(300, -0.25F),
          std::vector<float>(300, 1e-31F),
          std::vector<float>(300, 1e-45F),
          outlier,
          varied(4096),
          varied(10001)};
}

}  // namespace gradcodec
