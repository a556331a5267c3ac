// predict_streams, correct_streams and level_streams on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterStreams(ops::OpTable& table);

}  // namespace sluice::xpu
