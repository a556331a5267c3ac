// Which OpenCL devices there are, and what they are like. Any thread may call.
#pragma once

#include <vector>

#include "backend/xpu/opencl.h"
#include "device/alignment.h"
#include "device/backend.h"

namespace sluice::xpu {

// Of every allocation. OpenCL promises no more than the size of its largest type, 128 bytes.
using device::kAlignment;

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  bool has_command_buffers = false;  // that may be put on a queue again while they run
  bool exact_division = false;       // can round divisions and square roots correctly
  std::string driver;  // platform and version: with the name what compiled programs fit
  // Of a GPU that has several: each may be opened alone, or the device as a whole.
  std::vector<cl_device_id> tiles;
  device::DeviceFacts facts;  // id.index: as numbered in the list
};

// Every device of OpenCL 3.0 that has shared virtual memory, GPUs first, then CPUs. Drivers are
// asked once in the life of the process.
const std::vector<FoundDevice>& AllDevices();

// Whether a device of that type is one for us: a processor, or a GPU whose maker, by
// CL_DEVICE_VENDOR_ID, is Intel. On an NVIDIA one these kernels failed.
bool IsXpu(cl_device_type type, cl_uint maker);

// What the driver divides a device into, `how` as clCreateSubDevices takes it; empty where it does
// not. They live as long as the process.
std::vector<cl_device_id> PartsOf(cl_device_id device, const cl_device_partition_property* how);

// Those that `visible` lets us see, numbered as it says; tiles that it names are devices.
std::vector<FoundDevice> SelectDevices(const std::vector<FoundDevice>& all,
                                       const device::VisibleDevices& visible);

// Why no GPU can be there, from the nodes that the system shows; empty where one may be. No driver
// is loaded. `dev`: the folder of the nodes.
std::string WhyNoGpu(const std::string& dev = "/dev");

// Why AllDevices is empty, in one sentence; empty when it is not.
std::string WhyNoDevices();
// The same of drivers that show that many devices, none of which fits.
std::string WhyNoneOf(unsigned drivers, unsigned devices);

}  // namespace sluice::xpu
