// How many files and connections the process may have open.
#pragma once

namespace sluice::cli {

// Raises the limit as far as the system lets it, up to 65,536: each connection is a file
// descriptor, and the usual limit of 1,024 is soon used up. Main thread.
void RaiseFileLimit();

}  // namespace sluice::cli
