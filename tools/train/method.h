// How a run exchanges what it learns, by name:
//   SCHEME                     each worker's gradient by a scheme, which may remember: dqsg:levels=5, ef/topk:k=1%
//   ndqsg:fine=..,coarse=..    the first half of the workers by dqsg of the same step, the others nested
//   adaquant:s0=..             AdaQuantFL: with the losses of the run
//   local:h=H/SCHEME           Qsparse-local-SGD: what H local steps have changed, every H steps
//   svrg/SCHEME                gradients of L-SVRG; over diana it is VR-DIANA
//   gossip:eps=E/SCHEME        QuanTimed-DSGD: models, to the two neighbours on a ring
//   sketched-sgd:cols=..,k=..  Sketched-SGD: two rounds
//   fetch-sgd:cols=..,k=..     FetchSGD: one round, the error in the table
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "codec/params.h"

namespace gradcodec::train {

struct Method {
  enum Kind : uint8_t { scheme, nested, local, svrg, gossip, sketched, fetch } kind = scheme;
  Params params;            // of the protocol
  std::string scheme_text;  // what stands behind; of scheme and nested all of it
};

// Throws Error(usage) saying what is wrong and what is possible; the scheme is not looked at.
Method parse_method(std::string_view text);

}  // namespace gradcodec::train
