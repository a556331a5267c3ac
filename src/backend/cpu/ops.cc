#include "backend/cpu/ops.h"

namespace sluice::cpu {

void RegisterCpuOps(ops::OpTable& table) { (void)table; }

}  // namespace sluice::cpu
