// What the machine gives this process, as Linux's proc and sys files tell it at the call.
// Thread-safe. `root` stands in front of every path, so that a test can show another machine.
#pragma once

#include <string>

#include "device/device.h"

namespace sluice::cpu {

// Logical processors in this process's affinity mask; at least 1.
int AllowedCpus();

// The lesser of the machine's memory and the limits of the control group and of those above it.
// Free counts what the kernel can reclaim (page cache) as free.
device::MemoryInfo HostMemory(const std::string& root = "");

}  // namespace sluice::cpu
