#include "cli/bench_ceilings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/str_cat.h"
#include "exec/kv_dtype.h"
#include "exec/open_device.h"

namespace sluice::cli {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kFarBytesMax = size_t{1} << 30;

Result<files::ModelFiles> OpenFiles(const std::string& model) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(model));
  return files::OpenModel(path);
}

// Several times the last-level cache, as far as memory and patience allow.
size_t FarBytes(const device::DeviceFacts& facts, const device::MemoryInfo& memory) {
  const size_t wanted = std::max(64 * kMiB, 4 * facts.cache_bytes);
  return std::max(kMiB, std::min({wanted, kFarBytesMax, memory.free_bytes / 4}));
}

struct ReadRow {
  const char* what;
  size_t bytes;
  device::Spread rate;
};
struct PeakRow {
  device::CeilingMeter::Instruction instruction;
  device::Spread rate;
};

Json SpreadJson(const device::Spread& spread) {
  return Json{{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

void PrintCeilings(const device::DeviceFacts& facts, const std::vector<ReadRow>& reads,
                   const std::vector<PeakRow>& peaks) {
  char line[256];
  const auto print = [&](const std::string& name, const device::Spread& rate,
                         const std::string& note) {
    std::snprintf(line, sizeof line, "%-24s %10.1f %10.1f %10.1f  %s\n", name.c_str(),
                  rate.median * 1e-9, rate.min * 1e-9, rate.max * 1e-9, note.c_str());
    std::cout << line;
  };
  std::cout << facts.name << ", " << facts.compute_units << " threads, last-level cache "
            << facts.cache_bytes / kMiB << " MiB\n"
            << "reads, GB/s                  median        min        max\n";
  for (const ReadRow& row : reads) print(StrCat(row.bytes / kMiB, " MiB"), row.rate, row.what);
  std::cout << "peaks, GMAC/s                median        min        max\n";
  for (const PeakRow& row : peaks) {
    print(row.instruction.name, row.rate, row.instruction.spelling);
  }
}

void PrintCeilingsJson(const EngineOptions& options, const device::DeviceFacts& facts,
                       const std::vector<ReadRow>& reads, const std::vector<PeakRow>& peaks) {
  Json read_rows = Json::array(), peak_rows = Json::array();
  for (const ReadRow& row : reads) {
    read_rows.push_back(
        {{"what", row.what}, {"bytes", row.bytes}, {"bytes_per_second", SpreadJson(row.rate)}});
  }
  for (const PeakRow& row : peaks) {
    peak_rows.push_back({{"name", row.instruction.name},
                         {"spelling", row.instruction.spelling},
                         {"macs_per_second", SpreadJson(row.rate)}});
  }
  const Json machine = {{"cpu", facts.name},
                        {"isa", facts.architecture},
                        {"threads", facts.compute_units},
                        {"device", options.device},
                        {"cache_bytes", facts.cache_bytes}};
  std::cout << DumpJson(Json{{"machine", machine},
                             {"model", options.model},
                             {"ceilings", {{"reads", read_rows}, {"instructions", peak_rows}}}})
            << "\n";
}

}  // namespace

Status RunCeilings(const EngineOptions& options, bool json) {
  SLUICE_ASSIGN_OR_RETURN(const exec::OpenedDevice opened, exec::OpenDevice(options));
  device::Device* device = opened.device.get();
  SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, device->Memory());
  const device::DeviceFacts& facts = device->facts();
  std::vector<ReadRow> reads;
  if (!options.model.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, OpenFiles(options.model));
    const ModelWork work = WorkOf(files.config, *files.tensors, 0);
    reads.push_back({"the model", static_cast<size_t>(work.weight_bytes), {}});
  }
  reads.push_back({"far beyond the caches", FarBytes(facts, memory), {}});
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::CeilingMeter> meter,
                          device->MakeCeilingMeter({}));
  for (ReadRow& row : reads) {
    SLUICE_ASSIGN_OR_RETURN(row.rate, meter->ReadBandwidth(row.bytes));
  }
  std::vector<PeakRow> peaks;
  for (const device::CeilingMeter::Instruction& instruction : meter->Instructions()) {
    SLUICE_ASSIGN_OR_RETURN(const device::Spread rate, meter->Peak(instruction.name));
    peaks.push_back({instruction, rate});
  }
  if (json) {
    PrintCeilingsJson(options, facts, reads, peaks);
  } else {
    PrintCeilings(facts, reads, peaks);
  }
  return OkStatus();
}

Json ToJson(const FigureShares& shares) {
  const auto share = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  Json json = {{"ceiling_share", share(shares.ceiling_share)},
               {"compute_share", share(shares.compute_share)},
               {"read_share", share(shares.read_share)},
               {"above_ceiling", shares.AboveCeiling()}};
  Json ceilings = Json::object();
  if (!shares.instruction.empty()) {
    ceilings["instruction"] = shares.instruction;
    ceilings["macs_per_second"] = SpreadJson(shares.macs_per_second);
  }
  if (shares.read_bytes_per_second.max > 0) {
    ceilings["read_bytes_per_second"] = SpreadJson(shares.read_bytes_per_second);
  }
  json["ceilings"] = std::move(ceilings);
  return json;
}

std::string ToText(const FigureShares& shares) {
  const auto part = [](double share, std::string_view of) {
    return StrCat(std::lround(share * 100), " % of ", of);
  };
  std::string text;
  if (shares.read_share > 0) text = part(shares.read_share, "reads");
  if (shares.compute_share > 0) {
    text += (text.empty() ? "" : ", ") + part(shares.compute_share, shares.instruction);
  }
  if (text.empty()) return "-";
  return shares.AboveCeiling() ? text + " (above 100 %: measured while other work ran)" : text;
}

Result<std::unique_ptr<FigureCeilings>> FigureCeilings::Open(const EngineOptions& options) {
  std::unique_ptr<FigureCeilings> ceilings(new FigureCeilings());
  SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, OpenFiles(options.model));
  const files::ModelConfig& config = files.config;
  SLUICE_ASSIGN_OR_RETURN(exec::OpenedDevice opened, exec::OpenDevice(options));
  ceilings->device_ = std::move(opened.device);
  const DType automatic = exec::AutomaticKvDtype(*files.tensors, ceilings->device_->facts());
  SLUICE_ASSIGN_OR_RETURN(const DType kv, exec::ParseKvDtype(options.kv_dtype, automatic));
  // Which experts a step reads depends on its tokens, so its figures have no share of a ceiling.
  if (config.experts.count > 0) return ceilings;
  ceilings->work_ = WorkOf(config, *files.tensors, KvTokenBytes(config, kv));
  auto meter = ceilings->device_->MakeCeilingMeter({.runs = 5, .seconds_per_run = 0.005});
  if (!meter.ok() && meter.status().code() != StatusCode::kUnimplemented) return meter.status();
  if (meter.ok()) {
    ceilings->meter_ = std::move(meter).value();
    ceilings->instruction_ = ceilings->meter_->LinearInstruction(
        LayerFormat(config, *files.tensors), config.intermediate_size, config.hidden_size);
  }
  return ceilings;
}

Status FigureCeilings::MeasurePeak(FigureShares* shares) {
  if (instruction_.empty()) return OkStatus();
  shares->instruction = instruction_;
  SLUICE_ASSIGN_OR_RETURN(shares->macs_per_second, meter_->Peak(instruction_));
  return OkStatus();
}

Result<FigureShares> FigureCeilings::Prefill(int prompt_tokens, double tokens_per_second) {
  FigureShares shares;
  if (meter_ == nullptr) return shares;
  SLUICE_RETURN_IF_ERROR(MeasurePeak(&shares));
  shares.compute_share =
      ShareOfCeiling(PrefillMacs(work_, prompt_tokens), prompt_tokens / tokens_per_second,
                     shares.macs_per_second.max);
  shares.ceiling_share = shares.compute_share;
  return shares;
}

Result<FigureShares> FigureCeilings::Decode(double context, int batch, double tokens_per_second) {
  FigureShares shares;
  if (meter_ == nullptr) return shares;
  SLUICE_ASSIGN_OR_RETURN(shares.read_bytes_per_second,
                          meter_->ReadBandwidth(static_cast<size_t>(work_.weight_bytes)));
  const double step = batch / tokens_per_second;
  shares.read_share =
      ShareOfCeiling(DecodeBytes(work_, context, batch), step, shares.read_bytes_per_second.max);
  shares.ceiling_share = shares.read_share;
  return shares;
}

}  // namespace sluice::cli
