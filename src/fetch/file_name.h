// Names of files as a server gives them. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::fetch {

// Whether a file of that name, which may have folders ("1_Pooling/config.json"), lies below the
// folder that it is written to, on any system: no "..", no absolute path, no backslash, no control
// character, no part that is too long for a file system. kBadModel says what is wrong.
Status CheckFileName(std::string_view name);

// For a URL's path: every byte that may not stand there as it is becomes %XX; slashes stay.
std::string EscapePath(std::string_view path);

}  // namespace sluice::fetch
