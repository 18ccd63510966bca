// SPDX-License-Identifier: Apache-2.0
#include "codec/lattice/lattices.h"

namespace gradcodec::lattice {

Cell cell_of(Kind kind) {
  switch (kind) {
    case Kind::a2:
      return {2, 5.0 / 72, 1 / std::sqrt(3.0)};
    case Kind::d4:
      return {4, 13.0 / 120, 1};
    default:
      return {8, 929.0 / 12960, 1};
  }
}

}  // namespace gradcodec::lattice
