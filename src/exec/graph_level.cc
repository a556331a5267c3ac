#include "exec/graph_level.h"

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::exec {

Result<device::GraphSupport> ParseGraphLevel(std::string_view text) {
  if (text == "none") return device::GraphSupport::kNone;
  if (text == "piecewise") return device::GraphSupport::kPiecewise;
  if (text == "full") return device::GraphSupport::kFull;
  return InvalidArgument(
      StrCat("--graphs ", Quote(text), " is no level; choose none, piecewise or full"), "graphs");
}

}  // namespace sluice::exec
