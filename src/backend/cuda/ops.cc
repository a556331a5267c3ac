#include "backend/cuda/ops.h"

namespace sluice::cuda {

void RegisterCudaOps(ops::OpTable&) {}

}  // namespace sluice::cuda
