// Linear's implementations on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

// Adds those that the table's device can run, best first, the reference last, with their packings.
// REQUIRES: table.facts() are those of a CPU device; its streams are CpuStreams.
void RegisterLinear(ops::OpTable& table);

}  // namespace sluice::cpu
