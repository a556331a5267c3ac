// The OpenCL C sources inside this program, what they include put in place. Constant.
#pragma once

#include <span>
#include <string_view>

namespace sluice::xpu {

struct ClSource {
  std::string_view name;  // path below this backend's folder without ".cl": "norm/any_f32_norm"
  std::string_view text;
};
std::span<const ClSource> ClSources();
// Null where there is none of that name.
const ClSource* FindClSource(std::string_view name);

}  // namespace sluice::xpu
