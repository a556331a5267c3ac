#include "backend/cpu/gate/impls.h"

#include "ops/gate.h"

namespace sluice::cpu {

void RegisterGate(ops::OpTable& table) {
  table.Add<ops::GatedNorm>({.name = "ref_gated_norm",
                             .supports = &ops::RefGatedNormSupports,
                             .run = &ops::RefGatedNorm,
                             .slow = &ops::PlainLoops<ops::GatedNorm>});
  table.Add<ops::SigmoidGate>({.name = "ref_sigmoid_gate",
                               .supports = &ops::RefSigmoidGateSupports,
                               .run = &ops::RefSigmoidGate,
                               .slow = &ops::PlainLoops<ops::SigmoidGate>});
}

}  // namespace sluice::cpu
