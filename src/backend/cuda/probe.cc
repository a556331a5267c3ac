#include "backend/cuda/probe.h"

#include <mutex>

#include "backend/cuda/architecture.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/modules.h"
#include "base/str_cat.h"
#include "device/visible_devices.h"

namespace sluice::cuda {
namespace {

using device::DeviceFacts;

// Of the device's memory, for plans, as measured on an H200 (bench/results): a launch in a graph,
// and all kernels of a model with their stacks and the libraries'.
constexpr size_t kGraphLaunchBytes = size_t{16} << 10, kCodeBytes = size_t{256} << 20;

int Attribute(CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  if (TheDriver().cuDeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS) return 0;
  return value;
}

std::vector<std::string> Capabilities(CUdevice device, int major, int minor) {
  const int shared = Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return {StrCat("compute capability ", major, ".", minor),
          StrCat(shared >> 10, " KiB of shared memory for a block"),
          StrCat(Attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), " multiprocessors")};
}

DeviceFacts FactsOfDevice(CUdevice device, int index, const std::string& driver) {
  const int major = Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  char name[256] = "NVIDIA GPU";
  TheDriver().cuDeviceGetName(name, sizeof name, device);
  DeviceFacts facts;
  facts.id = {device::DeviceKind::kCuda, index};
  facts.name = name;
  facts.architecture = StrCat("sm", major, minor);
  facts.capabilities = Capabilities(device, major, minor);
  facts.driver = driver;
  facts.compute_units = Attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.kv_dtype = DType::kBF16;
  facts.activation = DType::kBF16;
  TheDriver().cuDeviceTotalMem(&facts.memory_bytes, device);
  facts.cache_bytes = static_cast<size_t>(Attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  facts.device_memory = facts.runs_beside_host = true;
  facts.pinned_memory = true;
  facts.graphs = device::GraphSupport::kFull;
  facts.captures_host_calls = true;
  facts.graph_launch_bytes = kGraphLaunchBytes;
  facts.code_bytes = kCodeBytes;
  return facts;
}

// Adds the device, or to the reason why not.
void AddDevice(int index, const std::string& driver, ProbeResult* result) {
  CUdevice device = 0;
  const Status found = Check(TheDriver().cuDeviceGet(&device, index), StrCat("cuda:", index));
  std::string why = found.message();
  if (found.ok()) {
    DeviceFacts facts = FactsOfDevice(device, index, driver);
    why = WhyNoKernels(Architectures(), StrCat("cuda:", index, " (", facts.name, ")"),
                       Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                       Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    if (why.empty()) result->devices.push_back(std::move(facts));
  }
  if (why.empty()) return;
  result->left_out += StrCat(result->left_out.empty() ? "" : "; ", why);
}

ProbeResult Probe(const device::VisibleDevices& visible) {
  device::ExportToDriver(device::DeviceKind::kCuda, visible);
  const Result<const Driver*> loaded = LoadDriver();
  if (!loaded.ok()) return {{}, loaded.status().message()};
  const Driver& driver = **loaded;
  const CUresult started = driver.cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) return {{}, "NVIDIA's driver sees no device"};
  if (started != CUDA_SUCCESS) {
    return {{}, ErrorOf(started, "NVIDIA's driver did not start").message()};
  }
  int version = 0, count = 0;
  driver.cuDriverGetVersion(&version);
  const CUresult counted = driver.cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS) return {{}, ErrorOf(counted, "cuDeviceGetCount").message()};
  ProbeResult result;
  const std::string text = StrCat("CUDA ", VersionText(version));
  for (int index = 0; index < count; ++index) AddDevice(index, text, &result);
  if (count == 0) result.left_out = "NVIDIA's driver sees no device";
  return result;
}

// The one probe of the process.
struct Once {
  std::mutex mutex;
  bool done = false;
  ProbeResult result;
};
Once& TheProbe() {
  static Once once;
  return once;
}

}  // namespace

ProbeResult ProbeDevices(const device::VisibleDevices& visible) {
  Once& once = TheProbe();
  const std::lock_guard<std::mutex> lock(once.mutex);
  if (!once.done) once.result = Probe(visible);
  once.done = true;
  return once.result;
}

ProbeResult LastProbe() {
  Once& once = TheProbe();
  const std::lock_guard<std::mutex> lock(once.mutex);
  return once.result;
}

}  // namespace sluice::cuda
