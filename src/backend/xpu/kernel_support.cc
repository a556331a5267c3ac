#include "backend/xpu/kernel_support.h"

#include "base/ascii.h"

namespace sluice::xpu {

std::string ClName(DType dtype) { return Lower(Name(dtype)); }

}  // namespace sluice::xpu
