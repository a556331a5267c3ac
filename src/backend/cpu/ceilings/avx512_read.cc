#include "backend/cpu/ceilings/read_kernel.h"

namespace sluice::cpu {
namespace {

using Vector = uint64_t __attribute__((vector_size(64), may_alias));

}  // namespace

const ReadKernels kAvx512ReadKernels = MakeReadKernels<Vector>();

}  // namespace sluice::cpu
