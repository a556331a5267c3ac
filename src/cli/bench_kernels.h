// sluice bench --kernels: what each kernel takes of a step, and how near it comes to what the
// device can read and multiply. Main thread only.
#pragma once

#include <vector>

#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::cli {

struct KernelBenchOptions {
  std::vector<int> prompt_tokens;         // of one prompt each
  std::vector<std::vector<int>> decodes;  // contexts of the sequences that decode at once
  int runs = 5;                           // that are measured, after one that warms up
  bool json = false;
};

// Measures and prints, figure by figure.
Status RunKernelBench(const EngineOptions& engine, const KernelBenchOptions& options);

}  // namespace sluice::cli
