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
      {"choose",
       {"choose:nmse=0.1", "choose:nmse=1e-8", "choose:nmse=1e4", "choose:nmse=2", "choose:bits=1", "choose:bits=0.01",
        "choose:bits=16"}},
      // Test noise, as secret noise is never the same: bq_test has that.
      {"bq",
       {"bq:clip=0.5,bits=4,m=32,noise=test", "bq:clip=1e-30,bits=1,m=1,noise=test",
        "bq:clip=1e30,bits=15,m=32768,noise=test", "bq:clip=1,bits=1,m=65534,noise=test",
        "bq:clip=1,bits=15,m=1,noise=test"}},
      {"lattice",
       {"lattice:nmse=0.1", "lattice:kind=a2,nmse=0.1", "lattice:kind=d4,nmse=0.1", "lattice:nmse=1e-8",
        "lattice:kind=a2,nmse=1e-8", "lattice:kind=d4,nmse=1e4", "lattice:nmse=1e4", "lattice:kind=a2,step=0.01",
        "lattice:kind=d4,step=1e-37", "lattice:step=1e37"}},
      {"qsgd",
       {"qsgd:s=1", "qsgd:s=4", "qsgd:s=32767", "qsgd:s=127,norm=max", "qsgd:s=3,bucket=0",
        "qsgd:s=2,norm=max,bucket=1", "qsgd:s=1,norm=max", "qsgd:s=5,bucket=4194304"}},
      {"adaquant",
       {"adaquant:s0=2,loss0=2.3,loss=0.5", "adaquant:s0=1,loss0=1e-30,loss=1e30",
        "adaquant:s0=32767,loss0=1e30,loss=1e-30,bucket=0"}},
      {"terngrad", {"terngrad", "terngrad:clip=2.5", "terngrad:clip=1e-3"}},
      {"maxnorm", {"maxnorm", "maxnorm:bits=1", "maxnorm:bits=15"}},
      {"multiscale", {"multiscale", "multiscale:bits=6-10", "multiscale:bits=1-15", "multiscale:bits=1-2-3-4-5-6-7-8"}},
      {"natural", {"natural"}},
      {"ndqsg",
       {"ndqsg:fine=3,coarse=1", "ndqsg:fine=2,coarse=1,check=yes", "ndqsg:fine=4,coarse=1,alpha=0.5",
        "ndqsg:fine=32767,coarse=1", "ndqsg:fine=32766,coarse=16383,check=yes",
        "ndqsg:fine=6,coarse=2,alpha=0.001,range=10000", "ndqsg:fine=300,coarse=100,range=0.0001"}},
      {"grid", {"grid:step=0.01", "grid:step=1e-37", "grid:step=1e37"}},
      {"uniform", {"uniform:bits=2", "uniform:bits=4", "uniform:bits=16", "uniform:bits=3,bucket=100"}},
      {"sign", {"sign", "sign:axis=row"}},
      {"onebit", {"onebit", "onebit:axis=row"}},
      {"topk",
       {"topk:k=1", "topk:k=9007199254740992", "topk:k=1%", "topk:k=100%", "topk:k=30%/dqsg:levels=5,bucket=100",
        "topk:k=1%/dither:nmse=0.01", "topk:k=50%/topk:k=10%/dqsg:levels=3", "topk:k=40%/randk:k=7%",
        "topk:k=50%/rotate:block=16/topk:k=100%", "topk:k=50%/rotate:block=16/randk:k=90%"}},
      {"randk",
       {"randk:k=1", "randk:k=9007199254740992,shared=yes", "randk:k=0.1%", "randk:k=100%", "randk:k=10%/dqsg:levels=5",
        "randk:k=3%,shared=yes/dither:nmse=1e-8"}},
      {"threshold",
       {"threshold:t=1e-37", "threshold:t=1e37", "threshold:t=0.25", "threshold:t=0.1/dqsg:levels=255,bucket=1",
        "threshold:t=0.3/randk:k=20%"}},
      {"nuqsgd",
       {"nuqsgd:s=1", "nuqsgd:s=3", "nuqsgd:s=30", "nuqsgd:s=6,bucket=0", "nuqsgd:s=4,bucket=1",
        "nuqsgd:s=4,bucket=100", "nuqsgd:s=2,bucket=4194304"}},
      {"alq",
       {"alq:s=1", "alq:s=3", "alq:s=126", "alq:s=6,bucket=0", "alq:s=4,bucket=1", "alq:s=4,bucket=100",
        "alq:s=2,bucket=4194304"}},
      {"amq",
       {"amq:s=1", "amq:s=3", "amq:s=126", "amq:s=6,bucket=0", "amq:s=4,bucket=1", "amq:s=4,bucket=100",
        "amq:s=2,bucket=4194304"}},
      {"tnqsgd",
       {"tnqsgd:bits=1", "tnqsgd:bits=3,rule=mse", "tnqsgd:bits=8", "tnqsgd:bits=8,density=powerlaw,rule=exact",
        "tnqsgd:bits=2,density=powerlaw"}},
      {"tqsgd", {"tqsgd:bits=1", "tqsgd:bits=8", "tqsgd:bits=4,rule=exact", "tqsgd:bits=3,density=laplace,rule=mse"}},
      {"tbqsgd", {"tbqsgd:bits=2", "tbqsgd:bits=4,rule=mse", "tbqsgd:bits=8,rule=exact"}},
      {"drive", {"drive", "drive:block=2", "drive:block=262144,shared=yes", "drive:scale=ls,block=64"}},
      {"eden", {"eden:bits=1", "eden:bits=2,block=2", "eden:bits=3,block=262144", "eden:bits=4,scale=ls,shared=yes"}},
      {"rotate",
       {"rotate/dither:nmse=0.1", "rotate:block=2/dqsg:levels=3,bucket=100", "rotate:block=262144/dither:nmse=1e-8",
        "rotate:shared=yes,block=64/dqsg:levels=65535", "rotate/rotate:block=16/dither:nmse=0.01", "rotate/drive",
        "rotate/threshold:t=1e-6", "rotate/topk:k=100%", "rotate:block=32768/randk:k=20%",
        "rotate/randk:k=100%/dither:nmse=0.1", "rotate/rotate:block=16/topk:k=100%"}},
      {"shrink",
       {"shrink/qsgd:s=1", "shrink/dqsg:levels=5,bucket=100", "shrink/randk:k=10%", "shrink/rotate:block=16/qsgd:s=1"}},
      {"ef", {"ef/topk:k=1%", "ef/topk:k=10%/shrink/qsgd:s=2,norm=l2,bucket=0", "ef/sign", "ef/onebit:axis=row"}},
      {"ec", {"ec/qsgd:s=4", "ec:alpha=0.25,beta=0.9/dither:nmse=0.1", "ec:beta=0/dqsg:levels=3"}},
      {"momentum", {"momentum/topk:k=1%", "momentum:m=0/topk:k=5%/dqsg:levels=255", "momentum:m=1/threshold:t=0.01"}},
      {"diana",
       {"diana/qsgd:s=4", "diana:alpha=1/randk:k=10%", "diana/rotate:block=16/dqsg:levels=5", "diana/natural"}},
      {"countsketch",
       {"countsketch:rows=1,cols=1", "countsketch:rows=5,cols=10%", "countsketch:rows=63,cols=1%",
        "countsketch:rows=3,cols=100,scope=run"}},
      {"lowrank", {"lowrank:rank=8", "lowrank:rank=1,nmse=1e-8", "lowrank:rank=128,nmse=1e4"}},
      {"at", {"at"}},
      {"mask", {"mask"}},
      {"rotq", {"rotq:bits=2", "rotq:bits=3,block=2", "rotq:bits=4,block=262144,shared=yes"}}};
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
          {1e-45F, 1e-45F, 1e-45F, 1e-45F, 1e-45F, 0, 0, 0},
          {1e-44F, 1e-44F, 1e-44F, 1e-44F, 1e-44F, 0, 0, 0},
          std::vector<float>(1025, 0.1F),
          outlier,
          varied(4096),
          varied(10001)};
}

}  // namespace gradcodec
