#include "backend/cuda/linear/cublaslt_library.h"

#include <dlfcn.h>

#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

// Those whose objects and constants are as declared in the header, the best first.
constexpr const char* kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr size_t kVersionMin = 120000;

std::string VersionText(size_t version) {
  return StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

Result<LtFunctions> OpenOne(const LibraryLoader& loader, const char* name) {
  const auto no = [&](const std::string& why) { return Status(StatusCode::kDevice, why); };
  void* library = loader.open(name);
  if (library == nullptr) return no(StrCat(name, " was not found"));
  LtFunctions functions;
  const char* missing = nullptr;
#define SLUICE_CUBLASLT_FIND(function, ...)                                            \
  functions.function =                                                                 \
      reinterpret_cast<decltype(functions.function)>(loader.find(library, #function)); \
  if (functions.function == nullptr && missing == nullptr) missing = #function;
  SLUICE_CUBLASLT_FUNCTIONS(SLUICE_CUBLASLT_FIND)
#undef SLUICE_CUBLASLT_FIND
  // An old library lacks functions: its version says more than the name of the first.
  if (functions.cublasLtGetVersion == nullptr) return no(StrCat(name, " lacks ", missing));
  const size_t version = functions.cublasLtGetVersion();
  if (version < kVersionMin) {
    return no(StrCat(name, " has version ", VersionText(version), ", this program needs ",
                     VersionText(kVersionMin)));
  }
  if (missing != nullptr) return no(StrCat(name, " lacks ", missing));
  functions.name = StrCat(name, ", version ", VersionText(version));
  return functions;
}

}  // namespace

Result<LtFunctions> OpenCublasLt(const LibraryLoader& loader) {
  std::string reasons;
  for (const char* name : kLibraries) {
    Result<LtFunctions> opened = OpenOne(loader, name);
    if (opened.ok()) return opened;
    reasons += StrCat(reasons.empty() ? "" : "; ", opened.status().message());
  }
  return Status(StatusCode::kDevice, std::move(reasons));
}

Result<const LtFunctions*> LoadCublasLt() {
  // Never destroyed: a device may outlive this file's statics.
  static const Result<LtFunctions>& loaded = *new Result<LtFunctions>(
      OpenCublasLt({[](const char* library) { return dlopen(library, RTLD_NOW | RTLD_LOCAL); },
                    [](void* library, const char* function) { return dlsym(library, function); }}));
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

std::string DescribeCublasLt() {
  const Result<const LtFunctions*> loaded = LoadCublasLt();
  return loaded.ok() ? StrCat("cuBLASLt: ", (*loaded)->name)
                     : StrCat("no cuBLASLt: ", loaded.status().message());
}

}  // namespace sluice::cuda
