// The end of a simd file: hands out its kTable, for each instruction set. The file defines GRADCODEC_SIMD_TABLE, the
// table's type, and GRADCODEC_SIMD_CHOSEN, the function of simd.h; where a target has no table of it,
// GRADCODEC_SIMD_NONE too. Included once for each target.
// SPDX-License-Identifier: Apache-2.0
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {
namespace {

// It is the end of one source, and no header. NOLINTNEXTLINE(misc-definitions-in-headers)
const GRADCODEC_SIMD_TABLE* get_table() {
#if HWY_TARGET == HWY_SCALAR || defined(GRADCODEC_SIMD_NONE)
  return nullptr;
#else
  return &kTable;
#endif
}

}  // namespace
}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradcodec::kernels {

HWY_EXPORT(get_table);

// NOLINTNEXTLINE(misc-definitions-in-headers)
const GRADCODEC_SIMD_TABLE* GRADCODEC_SIMD_CHOSEN() { return HWY_DYNAMIC_DISPATCH(get_table)(); }

}  // namespace gradcodec::kernels
#endif

#undef GRADCODEC_SIMD_TABLE
#undef GRADCODEC_SIMD_CHOSEN
#undef GRADCODEC_SIMD_NONE
