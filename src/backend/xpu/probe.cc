#include "backend/xpu/probe.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

constexpr cl_version kVersion = CL_MAKE_VERSION(3, 0, 0);
constexpr cl_uint kIntel = 0x8086;  // vendor number

template <class T>
T InfoOf(cl_device_id device, cl_device_info what) {
  T value{};
  Cl().GetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

template <class Get>
std::string TextOf(const Get& get) {
  size_t size = 0;
  if (get(0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  return text;
}

std::string DeviceText(cl_device_id device, cl_device_info what) {
  return TextOf([&](size_t size, char* text, size_t* needed) {
    return Cl().GetDeviceInfo(device, what, size, text, needed);
  });
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::optional<FoundDevice> Describe(cl_platform_id platform, cl_device_id device) {
  const auto svm = InfoOf<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES);
  const auto type = InfoOf<cl_device_type>(device, CL_DEVICE_TYPE);
  if (InfoOf<cl_version>(device, CL_DEVICE_NUMERIC_VERSION) < kVersion ||
      (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0 ||
      !InfoOf<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) ||
      !InfoOf<cl_bool>(device, CL_DEVICE_AVAILABLE)) {
    return std::nullopt;
  }
  const bool ours = IsXpu(type, InfoOf<cl_uint>(device, CL_DEVICE_VENDOR_ID));
  if (!ours && (type & CL_DEVICE_TYPE_GPU) == 0) return std::nullopt;
  FoundDevice found;
  found.platform = platform;
  found.device = device;
  found.exact_division = (InfoOf<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) &
                          CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  const std::string version = TextOf([&](size_t size, char* text, size_t* needed) {
    return Cl().GetPlatformInfo(platform, CL_PLATFORM_VERSION, size, text, needed);
  });
  found.driver = StrCat(version, ", driver ", DeviceText(device, CL_DRIVER_VERSION));
  device::DeviceFacts& facts = found.facts;
  facts.id.kind = device::DeviceKind::kXpu;
  facts.name = DeviceText(device, CL_DEVICE_NAME);
  facts.architecture = "any";
  facts.capabilities = Words(DeviceText(device, CL_DEVICE_EXTENSIONS));
  facts.driver = found.driver;
  facts.compute_units =
      static_cast<int>(std::max(1u, InfoOf<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS)));
  facts.memory_bytes = InfoOf<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  // Allocate takes some more to align what it gives.
  facts.allocation_bytes_max =
      std::max<cl_ulong>(InfoOf<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE), kAlignment) -
      kAlignment;
  facts.cache_bytes = InfoOf<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  facts.device_memory = facts.runs_beside_host = true;
  // Any host memory: the driver copies it while the host goes on.
  facts.pinned_memory = true;
  found.other_maker = !ours;
  facts.on_host_processor = (type & CL_DEVICE_TYPE_CPU) != 0;
  facts.shares_host_memory =
      facts.on_host_processor || InfoOf<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY);
  facts.graphs = device::GraphSupport::kFull;
  // A replay may be put on the queue while the one before still runs, which not every device lets
  // a command buffer do.
  found.has_command_buffers = std::find(facts.capabilities.begin(), facts.capabilities.end(),
                                        "cl_khr_command_buffer") != facts.capabilities.end() &&
                              (InfoOf<cl_device_command_buffer_capabilities_khr>(
                                   device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR) &
                               CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0;
  return found;
}

// As Intel's driver divides a GPU into its tiles.
constexpr cl_device_partition_property kByTile[] = {CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN,
                                                    CL_DEVICE_AFFINITY_DOMAIN_NUMA, 0};

std::vector<FoundDevice> Ask() {
  std::vector<FoundDevice> found;
  if (!LoadOpenCl().ok()) return found;
  // Intel's driver reads the mask when it is asked first; the numbers of masks count without it.
  const device::HiddenFromDriver hidden(device::DeviceKind::kXpu);
  cl_uint count = 0;
  if (Cl().GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return found;
  std::vector<cl_platform_id> platforms(count);
  if (Cl().GetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return found;
  for (cl_platform_id platform : platforms) {
    if (Cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    if (Cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) !=
        CL_SUCCESS) {
      continue;
    }
    for (cl_device_id device : devices) {
      auto described = Describe(platform, device);
      if (!described) continue;
      if (!described->facts.on_host_processor) described->tiles = PartsOf(device, kByTile);
      found.push_back(*std::move(described));
    }
  }
  const auto place = [](const FoundDevice& device) {
    return std::pair(device.facts.on_host_processor, device.other_maker);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const FoundDevice& a, const FoundDevice& b) { return place(a) < place(b); });
  for (size_t i = 0; i < found.size(); ++i) found[i].facts.id.index = static_cast<int>(i);
  return found;
}

}  // namespace

bool IsXpu(cl_device_type type, cl_uint maker) {
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return maker == kIntel;
  return (type & CL_DEVICE_TYPE_CPU) != 0;
}

const std::vector<FoundDevice>& AllDevices() {
  static const std::vector<FoundDevice> devices = Ask();
  return devices;
}

std::vector<cl_device_id> PartsOf(cl_device_id device, const cl_device_partition_property* how) {
  cl_uint count = 0;
  if (Cl().CreateSubDevices(device, how, 0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_device_id> parts(count);
  if (Cl().CreateSubDevices(device, how, count, parts.data(), nullptr) != CL_SUCCESS) return {};
  return parts;
}

std::vector<FoundDevice> SelectDevices(const std::vector<FoundDevice>& all,
                                       const device::VisibleDevices& visible) {
  std::vector<const FoundDevice*> taken;
  std::vector<device::FoundDevice> listed;
  for (const FoundDevice& found : all) {
    if (found.other_maker && !visible.any_vendor) continue;
    taken.push_back(&found);
    listed.push_back({.on_host_processor = found.facts.on_host_processor,
                      .tiles = std::max(1, static_cast<int>(found.tiles.size()))});
  }
  std::vector<FoundDevice> seen;
  for (const auto& [found, tile] : device::SelectVisible(visible, listed)) {
    const FoundDevice& whole = *taken[static_cast<size_t>(found)];
    std::optional<FoundDevice> chosen = whole;
    if (tile >= 0) {
      chosen = Describe(whole.platform, whole.tiles[tile]);
      if (!chosen) continue;
      chosen->facts.name += StrCat(", tile ", tile);
    }
    chosen->facts.id.index = static_cast<int>(seen.size());
    seen.push_back(*std::move(chosen));
  }
  return seen;
}

Result<FoundDevice> ChooseDevice(const device::VisibleDevices& visible, int index) {
  const std::vector<FoundDevice> devices = SelectDevices(AllDevices(), visible);
  if (index >= 0 && static_cast<size_t>(index) < devices.size()) {
    FoundDevice device = devices[static_cast<size_t>(index)];
    if (visible.gpu_kernels) device.facts.on_host_processor = false;
    return device;
  }
  const std::string why = WhyNoDevices();
  return Status(StatusCode::kDevice,
                StrCat("xpu:", index, " does not exist; ", devices.size(),
                       devices.size() == 1 ? " device is" : " devices are", " visible",
                       why.empty() ? "" : ": ", why),
                "device");
}

std::string WhyNoGpu(const std::string& dev) {
  std::error_code error;
  // Of Windows' subsystem for Linux, where there is no other.
  if (std::filesystem::exists(dev + "/dxg", error)) return "";
  for (const auto& node : std::filesystem::directory_iterator(dev + "/dri", error)) {
    if (node.path().filename().string().starts_with("renderD")) return "";
  }
  return StrCat("the system shows no GPU: neither ", dev, "/dri/renderD* nor ", dev, "/dxg");
}

std::string WhyNoDevices() {
  const auto loaded = LoadOpenCl();
  if (!loaded.ok()) return loaded.status().message();
  if (!SelectDevices(AllDevices(), {}).empty()) return "";
  cl_uint platforms = 0;
  Cl().GetPlatformIDs(0, nullptr, &platforms);
  std::vector<cl_platform_id> ids(platforms);
  if (platforms > 0) Cl().GetPlatformIDs(platforms, ids.data(), nullptr);
  cl_uint devices = 0;
  for (cl_platform_id platform : ids) {
    cl_uint count = 0;
    if (Cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) == CL_SUCCESS) {
      devices += count;
    }
  }
  return WhyNoneOf(platforms, devices);
}

std::string WhyNoneOf(unsigned drivers, unsigned devices) {
  if (drivers == 0) {
    return "libOpenCL.so.1 found no driver; install Debian's intel-opencl-icd or pocl-opencl-icd";
  }
  const std::string shown = StrCat(drivers, drivers == 1 ? " OpenCL driver" : " OpenCL drivers");
  if (devices == 0) {
    return StrCat(
        shown, drivers == 1 ? " shows" : " show",
        " no device: Intel's shows GPUs whose /dev/dri/renderD* this user may open, PoCL the "
        "processor where it may write to $POCL_CACHE_DIR or to .cache in $HOME");
  }
  return StrCat(devices == 1 ? "the device" : StrCat("none of the ", devices, " devices"), " of ",
                shown, devices == 1 ? " is not" : " is",
                " an Intel GPU or a CPU with OpenCL 3.0, shared virtual memory and a compiler");
}

}  // namespace sluice::xpu
