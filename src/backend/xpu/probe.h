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
  bool other_maker = false;          // a GPU that is not Intel's
  std::string driver;  // platform and version: with the name what compiled programs fit
  // Of a GPU that has several: each may be opened alone, or the device as a whole.
  std::vector<cl_device_id> tiles;
  device::DeviceFacts facts;  // id.index: as numbered in the list
};

// Every device of OpenCL 3.0 that has shared virtual memory: Intel's GPUs first, then those of
// other makers, which are for tests alone, then CPUs. Drivers are asked once
// in the life of the process.
const std::vector<FoundDevice>& AllDevices();

// Whether a device of that type is one for us: a processor, or a GPU whose maker, by
// CL_DEVICE_VENDOR_ID, is Intel. GPUs of other makers have backends of their own, or none that is
// tried regularly.
bool IsXpu(cl_device_type type, cl_uint maker);

// What the driver divides a device into, `how` as clCreateSubDevices takes it; empty where it does
// not. They live as long as the process.
std::vector<cl_device_id> PartsOf(cl_device_id device, const cl_device_partition_property* how);

// Those of AllDevices that `visible` lets us see, numbered as it says; tiles that it names are
// devices.
std::vector<FoundDevice> SelectDevices(const std::vector<FoundDevice>& all,
                                       const device::VisibleDevices& visible);

// The one of that number, to be opened: with `visible.gpu_kernels` its facts are those of a GPU.
// kDevice where there is none.
Result<FoundDevice> ChooseDevice(const device::VisibleDevices& visible, int index);

// Why no GPU can be there, from the nodes that the system shows; empty where one may be. No driver
// is loaded. `dev`: the folder of the nodes.
std::string WhyNoGpu(const std::string& dev = "/dev");

// Why AllDevices is empty, in one sentence; empty when it is not.
std::string WhyNoDevices();
// The same of drivers that show that many devices, none of which fits.
std::string WhyNoneOf(unsigned drivers, unsigned devices);

}  // namespace sluice::xpu
