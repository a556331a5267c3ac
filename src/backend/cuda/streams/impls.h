// predict_streams, correct_streams and level_streams on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterStreams(ops::OpTable& table);

}  // namespace sluice::cuda
