#include "base/source_dir_fixture.h"

namespace sluice {

std::string SourceDir() { return SLUICE_SOURCE_DIR; }

}  // namespace sluice
