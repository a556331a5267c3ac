#include "backend/cuda/kernels.h"

#include <algorithm>

#include "backend/cuda/modules.h"
#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

// What every kernel may use without asking.
constexpr unsigned kSharedBytes = 48 << 10;
// The compute capability whose kernels can wait for the ones before them.
constexpr int kEarlyStartMajor = 9;

}  // namespace

unsigned SharedPercent(unsigned block_bytes, unsigned unit_bytes) {
  // Kernels that follow each other should agree, since a multiprocessor that changes its share has
  // to be empty. On an H200 shares of 18 to 50 % are equally good for products of few tokens.
  constexpr uint64_t kAtLeast = 64 << 10, kReserved = 1 << 10;
  const uint64_t bytes = std::max(kAtLeast, 2 * (block_bytes + kReserved));
  if (bytes >= unit_bytes) return 100;
  return static_cast<unsigned>((bytes * 100 + unit_bytes - 1) / unit_bytes);
}

Kernels::Kernels(CUdevice device) : device_(device) {
  int major = 0;
  starts_early_ =
      TheDriver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                       device) == CUDA_SUCCESS &&
      major >= kEarlyStartMajor;
  int bytes = 0;
  if (TheDriver().cuDeviceGetAttribute(&bytes,
                                       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                                       device) == CUDA_SUCCESS) {
    unit_shared_bytes_ = static_cast<unsigned>(bytes);
  }
}

Kernels::~Kernels() {
  for (const auto& [name, loaded] : modules_) TheDriver().cuLibraryUnload(loaded.code);
}

Result<Kernels::Loaded*> Kernels::Load(std::string_view name) {
  const auto found = modules_.find(name);
  if (found != modules_.end()) return &found->second;
  for (const Module& module : Modules()) {
    if (module.name != name) continue;
    CUlibrary library = nullptr;
    SLUICE_RETURN_IF_ERROR(
        Check(TheDriver().cuLibraryLoadData(&library, module.fatbin.data(), nullptr, nullptr, 0,
                                            nullptr, nullptr, 0),
              StrCat("loading the kernels of ", name)));
    Loaded& loaded = modules_[std::string(name)];
    loaded.code = library;
    return &loaded;
  }
  return Status(StatusCode::kInternal, StrCat("this program has no CUDA module ", name));
}

Result<Kernel*> Kernels::Make(Loaded& loaded, std::string_view module, std::string_view function) {
  const Driver& driver = TheDriver();
  auto kernel = std::make_unique<Kernel>();
  kernel->name = StrCat(module, "/", function);
  const std::string terminated(function);
  const CUresult result =
      driver.cuLibraryGetKernel(&kernel->handle, loaded.code, terminated.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    return Status(StatusCode::kInternal, StrCat("there is no CUDA kernel ", kernel->name));
  }
  SLUICE_RETURN_IF_ERROR(Check(result, kernel->name));
  size_t offset = 0, bytes = 0;
  while (driver.cuKernelGetParamInfo(kernel->handle, kernel->param_bytes.size(), &offset, &bytes) ==
         CUDA_SUCCESS) {
    kernel->param_bytes.push_back(bytes);
  }
  SLUICE_RETURN_IF_ERROR(Check(
      driver.cuKernelGetAttribute(&kernel->static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                  kernel->handle, device_),
      kernel->name));
  Kernel* const made = kernel.get();
  loaded.kernels[terminated] = std::move(kernel);
  return made;
}

Status Kernels::OptIn(Kernel& kernel, unsigned shared_bytes) {
  const unsigned all = shared_bytes + static_cast<unsigned>(kernel.static_shared_bytes);
  const int bytes = static_cast<int>(shared_bytes);
  if (all <= kSharedBytes || bytes <= kernel.dynamic_shared_bytes) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes,
                                             kernel.handle, device_),
            StrCat(kernel.name, " with ", shared_bytes, " bytes of shared memory")));
  kernel.dynamic_shared_bytes = bytes;
  return OkStatus();
}

Result<const Kernel*> Kernels::Find(std::string_view module, std::string_view function,
                                    std::span<const size_t> param_bytes, unsigned shared_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  SLUICE_ASSIGN_OR_RETURN(Loaded* const loaded, Load(module));
  const auto found = loaded->kernels.find(function);
  Kernel* kernel = nullptr;
  if (found != loaded->kernels.end()) {
    kernel = found->second.get();
  } else {
    SLUICE_ASSIGN_OR_RETURN(kernel, Make(*loaded, module, function));
  }
  if (!std::equal(param_bytes.begin(), param_bytes.end(), kernel->param_bytes.begin(),
                  kernel->param_bytes.end())) {
    return Status(StatusCode::kInternal,
                  StrCat("the CUDA kernel ", kernel->name, " has ", kernel->param_bytes.size(),
                         " parameters and is given ", param_bytes.size(), ", or of other sizes"));
  }
  SLUICE_RETURN_IF_ERROR(OptIn(*kernel, shared_bytes));
  return kernel;
}

size_t KnownKernels::PlaceOf(std::string_view function) {
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(function.data()));
  return address * 0x9e3779b97f4a7c15u >> 56;
}

const Kernel* KnownKernels::Find(std::string_view module, std::string_view function,
                                 std::span<const size_t> param_bytes, unsigned shared_bytes) const {
  const Entry& entry = entries_[PlaceOf(function)];
  if (entry.kernel == nullptr || shared_bytes > entry.shared_bytes) return nullptr;
  const std::string_view name = entry.kernel->name;
  if (entry.module_bytes != module.size() || !name.starts_with(module) ||
      name.substr(module.size() + 1) != function)
    return nullptr;
  const std::vector<size_t>& bytes = entry.kernel->param_bytes;
  const bool same = std::equal(param_bytes.begin(), param_bytes.end(), bytes.begin(), bytes.end());
  return same ? entry.kernel : nullptr;
}

void KnownKernels::Add(std::string_view module, std::string_view function, unsigned shared_bytes,
                       const Kernel* kernel) {
  entries_[PlaceOf(function)] = {kernel, module.size(), shared_bytes};
}

}  // namespace sluice::cuda
