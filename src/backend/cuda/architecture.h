// Which machine code runs where. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::cuda {

// Whether code for sm_<built> ("90a", "90", "120f") runs on a device of compute capability
// major.minor: of the same major version and no later minor one; with "a" exactly that version.
bool ArchitectureRuns(std::string_view built, int major, int minor);

// Empty if one of `built` runs there, else one sentence about the device.
std::string WhyNoKernels(std::span<const std::string_view> built, std::string_view device,
                         int major, int minor);

}  // namespace sluice::cuda
