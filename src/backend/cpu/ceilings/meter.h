// The CPU's ceilings, measured on its device's thread pool: as many threads, on the same
// processors, as the ops run on.
#pragma once

#include <memory>

#include "device/device.h"

namespace sluice::cpu {

class ThreadPool;

// The instruction set and operands that start a kernel's name: "avx512_int8" of
// "avx512_int8_linear". Empty for a name without two underscores.
std::string InstructionOf(std::string_view implementation);

// `device` and `pool` must outlive the meter.
std::unique_ptr<device::CeilingMeter> MakeCpuMeter(device::Device& device, ThreadPool& pool,
                                                   const device::MeterOptions& options);

}  // namespace sluice::cpu
