#include "cli/version.h"

#include "base/str_cat.h"
#include "device/resolver.h"

namespace sluice::cli {

std::string VersionText() {
  std::string backends, missing;
  for (const device::Backend* backend : device::LinkedBackends()) {
    backends += StrCat(" ", device::ToString(backend->kind()));
  }
  for (const std::string_view kind : device::KindsNotBuilt(device::LinkedBackends())) {
    missing += StrCat(missing.empty() ? ", built without " : " and ", kind);
  }
  return StrCat("sluice ", SLUICE_VERSION, " (", SLUICE_COMMIT, "), ", SLUICE_COMPILER,
                ", backends:", backends, missing);
}

}  // namespace sluice::cli
