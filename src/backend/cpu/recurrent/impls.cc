#include "backend/cpu/recurrent/impls.h"

#include "ops/recurrent.h"

namespace sluice::cpu {

void RegisterRecurrent(ops::OpTable& table) {
  table.Add<ops::ShortConv>({.name = "ref_short_conv",
                             .supports = &ops::RefShortConvSupports,
                             .run = &ops::RefShortConv,
                             .slow = &ops::PlainLoops<ops::ShortConv>});
  table.Add<ops::GatedDelta>({.name = "ref_gated_delta",
                              .supports = &ops::RefGatedDeltaSupports,
                              .run = &ops::RefGatedDelta,
                              .slow = &ops::PlainLoops<ops::GatedDelta>});
}

}  // namespace sluice::cpu
