#include "backend/cuda/architecture.h"

#include <charconv>

#include "base/str_cat.h"

namespace sluice::cuda {

bool ArchitectureRuns(std::string_view built, int major, int minor) {
  int version = 0;
  const char* const end = built.data() + built.size();
  const auto [stop, error] = std::from_chars(built.data(), end, version);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  if (error != std::errc() || version / 10 != major) return false;
  if (suffix.empty() || suffix == "f") return version % 10 <= minor;
  return suffix == "a" && version % 10 == minor;
}

std::string WhyNoKernels(std::span<const std::string_view> built, std::string_view device,
                         int major, int minor) {
  std::string all;
  for (std::string_view architecture : built) {
    if (ArchitectureRuns(architecture, major, minor)) return "";
    all += StrCat(all.empty() ? "" : ", ", "sm_", architecture);
  }
  return StrCat(device, " is sm_", major, minor, ", for which this program has no kernels (it has ",
                all, "): build with SLUICE_CUDA_ARCHITECTURES=", major, minor);
}

}  // namespace sluice::cuda
