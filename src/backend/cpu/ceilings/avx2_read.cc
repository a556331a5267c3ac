#include "backend/cpu/ceilings/read_kernel.h"

namespace sluice::cpu {
namespace {

using Vector = uint64_t __attribute__((vector_size(32), may_alias));

}  // namespace

const ReadKernels kAvx2ReadKernels = MakeReadKernels<Vector>();

}  // namespace sluice::cpu
