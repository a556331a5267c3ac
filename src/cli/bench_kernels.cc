#include "cli/bench_kernels.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/signals.h"
#include "cli/work.h"
#include "device/ceilings.h"
#include "exec/kernel_profile.h"
#include "files/model_files.h"

namespace sluice::cli {
namespace {

using exec::KernelFigure;

// What times are held against; 0: not measured.
struct Ceilings {
  double bytes_per_second = 0;
  std::string_view of_bytes;  // what that is: "reads" or "copies"
  double flops_per_second = 0;
  std::string instruction;  // which that is the peak of: that of most weights' products
};

Result<Ceilings> MeasureCeilings(exec::KernelProfiler& profiler, const files::ModelFiles& files) {
  Ceilings ceilings;
  auto meter = profiler.device().MakeCeilingMeter({.runs = 5, .seconds_per_run = 0.005});
  if (!meter.ok() && meter.status().code() != StatusCode::kUnimplemented) return meter.status();
  if (!meter.ok()) {
    ceilings.bytes_per_second = profiler.copied_per_second();
    ceilings.of_bytes = "copies";
    return ceilings;
  }
  const files::ModelConfig& config = files.config;
  const auto weights = static_cast<size_t>(WorkOf(config, *files.tensors, 0).weight_bytes);
  SLUICE_ASSIGN_OR_RETURN(const device::Spread reads, (*meter)->ReadBandwidth(weights));
  ceilings.bytes_per_second = reads.max;
  ceilings.of_bytes = "reads";
  ceilings.instruction = (*meter)->LinearInstruction(LayerFormat(config, *files.tensors),
                                                     config.intermediate_size, config.hidden_size);
  if (ceilings.instruction.empty()) return ceilings;
  SLUICE_ASSIGN_OR_RETURN(const device::Spread peak, (*meter)->Peak(ceilings.instruction));
  ceilings.flops_per_second = 2 * peak.max;
  return ceilings;
}

struct Shares {
  double bytes = 0, flops = 0;  // of the ceilings; 0: unknown
};

Shares SharesOf(const KernelFigure& figure, const Ceilings& ceilings) {
  const double call_s = figure.total_s / static_cast<double>(figure.calls);
  Shares shares;
  shares.bytes = ShareOfCeiling(figure.bytes, call_s, ceilings.bytes_per_second);
  if (figure.op == "linear" || figure.op == "grouped_linear") {
    shares.flops = ShareOfCeiling(figure.flops, call_s, ceilings.flops_per_second);
  }
  return shares;
}

double TotalOf(const std::vector<KernelFigure>& figures) {
  return std::accumulate(figures.begin(), figures.end(), 0.0,
                         [](double sum, const KernelFigure& f) { return sum + f.total_s; });
}

std::string ShareText(const Shares& shares, const Ceilings& ceilings) {
  const auto part = [](double share, std::string_view of) {
    return share > 0 ? StrCat(std::lround(share * 100), " % of ", of) : std::string();
  };
  std::string text = part(shares.bytes, ceilings.of_bytes);
  const std::string flops = part(shares.flops, ceilings.instruction);
  if (!flops.empty()) text += (text.empty() ? "" : ", ") + flops;
  return text.empty() ? "-" : text;
}

void PrintTable(const std::string& title, const std::vector<KernelFigure>& figures,
                const Ceilings& ceilings) {
  const double total_s = TotalOf(figures);
  int64_t calls = 0;
  for (const KernelFigure& figure : figures) calls += figure.calls;
  char line[512];
  std::snprintf(line, sizeof line, "\n%s: %.3f ms in %lld calls\n", title.c_str(), total_s * 1e3,
                static_cast<long long>(calls));
  std::cout << line
            << "op                     implementation                calls   total ms  share  "
               "median us       MB   MFLOP    GB/s  GFLOP/s  share of the ceiling; shape\n";
  for (const KernelFigure& figure : figures) {
    const double call_s = figure.total_s / static_cast<double>(figure.calls);
    const double rate = call_s > 0 ? 1e-9 / call_s : 0;
    std::snprintf(
        line, sizeof line, "%-22s %-28s %6lld %10.3f %4.0f %% %10.1f %8.2f %7.0f %7.1f %8.0f  %s; ",
        figure.op.c_str(), figure.implementation.c_str(), static_cast<long long>(figure.calls),
        figure.total_s * 1e3, total_s > 0 ? figure.total_s / total_s * 100 : 0,
        figure.median_s * 1e6, figure.bytes * 1e-6, figure.flops * 1e-6, figure.bytes * rate,
        figure.flops * rate, ShareText(SharesOf(figure, ceilings), ceilings).c_str());
    std::cout << line << figure.shape << "\n";
  }
  std::cout << std::flush;
}

Json KernelsJson(const std::vector<KernelFigure>& figures, const Ceilings& ceilings) {
  Json rows = Json::array();
  const auto unless_0 = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  for (const KernelFigure& figure : figures) {
    const Shares shares = SharesOf(figure, ceilings);
    rows.push_back({{"op", figure.op},
                    {"implementation", figure.implementation},
                    {"shape", figure.shape},
                    {"calls", figure.calls},
                    {"total_seconds", figure.total_s},
                    {"median_seconds", figure.median_s},
                    {"bytes", figure.known ? Json(figure.bytes) : Json(nullptr)},
                    {"flops", figure.known ? Json(figure.flops) : Json(nullptr)},
                    {"read_share", unless_0(shares.bytes)},
                    {"compute_share", unless_0(shares.flops)}});
  }
  return rows;
}

Json CeilingsJson(const Ceilings& ceilings) {
  Json json = Json::object();
  if (ceilings.bytes_per_second > 0) {
    json["bytes_per_second"] = ceilings.bytes_per_second;
    json["bytes_of"] = ceilings.of_bytes;
  }
  if (ceilings.flops_per_second > 0) {
    json["flops_per_second"] = ceilings.flops_per_second;
    json["instruction"] = ceilings.instruction;
  }
  return json;
}

std::string_view ClockOf(const exec::KernelProfiler& profiler) {
  return profiler.by_device() ? "events on the device around each op" : "the host's clock";
}

// A figure as it is asked for.
struct Asked {
  int prompt_tokens = 0;
  std::vector<int> contexts;  // empty: the prompt is prefilled

  int64_t context() const {
    if (contexts.empty()) return 0;
    return std::accumulate(contexts.begin(), contexts.end(), int64_t{0}) /
           static_cast<int64_t>(contexts.size());
  }
  std::string Title() const {
    if (contexts.empty()) return StrCat("prefill of ", prompt_tokens, " tokens");
    return StrCat("a decode step of ", contexts.size(), " sequences behind ", context(), " tokens");
  }
};

std::vector<Asked> AllAsked(const KernelBenchOptions& options) {
  std::vector<Asked> all;
  for (const int tokens : options.prompt_tokens) all.push_back({tokens, {}});
  for (const std::vector<int>& contexts : options.decodes) all.push_back({0, contexts});
  return all;
}

}  // namespace

Status RunKernelBench(const EngineOptions& engine, const KernelBenchOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(engine.model));
  SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, files::OpenModel(path));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<exec::KernelProfiler> profiler,
                          exec::KernelProfiler::Open(files, engine));
  SLUICE_ASSIGN_OR_RETURN(const Ceilings ceilings, MeasureCeilings(*profiler, files));
  InterruptGuard interrupt;
  const exec::RunnerInfo& info = profiler->Info();
  if (!options.json) {
    std::cout << Quote(engine.model) << " on " << info.device_id << " (" << Quote(info.device_name)
              << "), op by op without graphs, times by " << ClockOf(*profiler) << "\n";
    if (ceilings.bytes_per_second > 0) {
      std::cout << ceilings.of_bytes << ": " << std::lround(ceilings.bytes_per_second * 1e-9)
                << " GB/s\n";
    }
  }
  Json results = Json::array();
  for (const Asked& asked : AllAsked(options)) {
    if (InterruptRaised()) return Status(StatusCode::kCancelled, "stopped by the user");
    SLUICE_ASSIGN_OR_RETURN(const std::vector<KernelFigure> figures,
                            asked.contexts.empty()
                                ? profiler->Prefill(asked.prompt_tokens, options.runs)
                                : profiler->Decode(asked.contexts, options.runs));
    if (!options.json) PrintTable(asked.Title(), figures, ceilings);
    results.push_back({{"kind", asked.contexts.empty() ? "prefill" : "decode"},
                       {"prompt_tokens", asked.prompt_tokens},
                       {"context", asked.context()},
                       {"batch", asked.contexts.empty() ? 1 : asked.contexts.size()},
                       {"total_seconds", TotalOf(figures)},
                       {"kernels", KernelsJson(figures, ceilings)}});
  }
  if (!options.json) return OkStatus();
  std::cout << DumpJson(Json{{"machine",
                              {{"cpu", info.device_name},
                               {"isa", info.isa},
                               {"threads", info.threads},
                               {"device", info.device_id}}},
                             {"model", engine.model},
                             {"clock", ClockOf(*profiler)},
                             {"graphs", false},
                             {"ceilings", CeilingsJson(ceilings)},
                             {"results", results}})
            << "\n";
  return OkStatus();
}

}  // namespace sluice::cli
