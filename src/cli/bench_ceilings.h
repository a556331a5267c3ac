// The ceilings of the device that an engine would run on: what `sluice bench --ceilings` prints,
// and the shares of them that stand beside the figures of `sluice bench`. Main thread only.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "cli/work.h"
#include "device/ceilings.h"
#include "device/device.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::cli {

// Measures and prints them; reads over the model's size only where options.model names one.
Status RunCeilings(const EngineOptions& options, bool json);

// The ceilings beside one figure, and the shares of them that it reaches; 0: not measured.
struct FigureShares {
  double ceiling_share = 0;  // prefill: of the instruction's peak; decode: of the read bandwidth
  double compute_share = 0;
  double read_share = 0;
  std::string instruction;         // that the linear kernel of most weights uses; may be empty
  device::Spread macs_per_second;  // its peak
  device::Spread read_bytes_per_second;

  // No figure can be: the ceiling was measured lower, or the figure higher, than they are.
  bool AboveCeiling() const { return compute_share > 1 || read_share > 1; }
};
Json ToJson(const FigureShares& shares);
// "62 % of avx512_int8" and "85 % of reads, 10 % of avx512_int8".
std::string ToText(const FigureShares& shares);

class FigureCeilings {
 public:
  // Opens the device again beside the engine's: the same processors, threads and kernels.
  static Result<std::unique_ptr<FigureCeilings>> Open(const EngineOptions& options);

  // Each measures the ceilings, in about a tenth of a second, while the engine is idle.
  Result<FigureShares> Prefill(int prompt_tokens, double tokens_per_second);
  // `tokens_per_second`: of all `batch` sequences, with `context` tokens each on average.
  Result<FigureShares> Decode(double context, int batch, double tokens_per_second);

 private:
  FigureCeilings() = default;
  Status MeasurePeak(FigureShares* shares);

  ModelWork work_;
  std::string instruction_;
  std::unique_ptr<device::Device> device_;
  // Null: the device has none, or the model has experts.
  std::unique_ptr<device::CeilingMeter> meter_;
};

}  // namespace sluice::cli
