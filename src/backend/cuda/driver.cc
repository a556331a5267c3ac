#include "backend/cuda/driver.h"

#include <dlfcn.h>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr int kVersionMin = 13000;  // that of the toolkit's major version, whose code it must run
constexpr const char* kLibrary = "libcuda.so.1";

Result<Driver> Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status(StatusCode::kDevice, StrCat(kLibrary, ", NVIDIA's driver, was not found"));
  }
  Driver driver;
  // An old driver lacks functions: its version says more than the name of the first.
  auto version_of =
      reinterpret_cast<decltype(driver.cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != CUDA_SUCCESS) {
    return Status(StatusCode::kDevice, StrCat(kLibrary, " is no driver of NVIDIA's"));
  }
  if (version < kVersionMin) {
    return Status(StatusCode::kDevice,
                  StrCat("NVIDIA's driver here supports CUDA ", VersionText(version),
                         ", this program needs ", VersionText(kVersionMin), ": update the driver"));
  }
  const char* missing = nullptr;
#define SLUICE_CUDA_FIND(name)                                                  \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name)); \
  if (driver.name == nullptr) missing = #name;
  SLUICE_CUDA_FUNCTIONS(SLUICE_CUDA_FIND)
#undef SLUICE_CUDA_FIND
  if (missing != nullptr) {
    return Status(StatusCode::kDevice, StrCat(kLibrary, " lacks ", missing));
  }
  return driver;
}

const Result<Driver>& Loaded() {
  static const Result<Driver> loaded = Load();
  return loaded;
}

}  // namespace

Result<const Driver*> LoadDriver() {
  const Result<Driver>& loaded = Loaded();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

const Driver& TheDriver() {
  CHECK(Loaded().ok(), "the CUDA driver is used before it was found");
  return *Loaded();
}

std::string VersionText(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

Status ErrorOf(CUresult result, std::string_view what) {
  const char *name = nullptr, *text = nullptr;
  TheDriver().cuGetErrorName(result, &name);
  TheDriver().cuGetErrorString(result, &text);
  const StatusCode code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::kOutOfMemory : StatusCode::kDevice;
  return Status(code, StrCat(what, ": ", name == nullptr ? "an unknown CUDA error" : name, " (",
                             text == nullptr ? "no description" : text, ")"));
}

Status MakeCurrent(CUcontext context) {
  thread_local CUcontext current = nullptr;
  if (current == context) return OkStatus();
  SLUICE_RETURN_IF_ERROR(Check(TheDriver().cuCtxSetCurrent(context), "cuCtxSetCurrent"));
  current = context;
  return OkStatus();
}

}  // namespace sluice::cuda
