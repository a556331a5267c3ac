// The ops of the CPU backend, each from its own folder.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

// Adds every implementation to `table`, best first, references last.
void RegisterCpuOps(ops::OpTable& table);

}  // namespace sluice::cpu
