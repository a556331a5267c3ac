// Where models are that have a name instead of a path. Any thread.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice::files {

// SLUICE_CACHE, else XDG_CACHE_HOME/sluice, else ~/.cache/sluice; it may be missing. kNotFound:
// none of these is set. ResolveModel (model_files.h) looks names up in it.
Result<std::string> ModelCacheFolder();

}  // namespace sluice::files
