#include "cli/version.h"

#include "base/str_cat.h"
#include "device/backend.h"

namespace sluice::cli {

std::string VersionText() {
  std::string backends;
  for (const device::Backend* backend : device::LinkedBackends()) {
    backends += StrCat(" ", device::ToString(backend->kind()));
  }
  return StrCat("sluice ", SLUICE_VERSION, " (", SLUICE_COMMIT, "), ", SLUICE_COMPILER,
                ", backends:", backends);
}

}  // namespace sluice::cli
