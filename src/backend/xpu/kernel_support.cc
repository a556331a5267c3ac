#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {

std::string ClName(DType dtype) {
  std::string name(Name(dtype));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

}  // namespace sluice::xpu
