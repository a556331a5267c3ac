// predict_streams, correct_streams and level_streams on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterStreams(ops::OpTable& table);

}  // namespace sluice::cpu
