#include "cli/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace sluice::cli {
namespace {

constexpr rlim_t kFilesMax = 1u << 16;

}  // namespace

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kFilesMax);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice::cli
