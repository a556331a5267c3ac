// The program.
#include <malloc.h>

#include "cli/cli.h"

namespace {

// glibc raises the size from which a block is given back to the system to that of the largest one
// freed so far, so that a server would keep the memory of its largest bodies. Fixed sizes stay.
constexpr int kReturnedBlockBytes = 1 << 20;
constexpr int kKeptBytes = 8 << 20;

}  // namespace

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, kReturnedBlockBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  return sluice::cli::Run(argc, argv);
}
