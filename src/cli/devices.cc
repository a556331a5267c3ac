// sluice devices: what was found, which device would be used and why, and whether its kernels are
// right.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "device/resolver.h"
#include "exec/verify_kernels.h"

namespace sluice::cli {
namespace {

struct DevicesOptions {
  EngineOptions engine;  // device and isa
  bool json = false;
  bool verify = false;
  int cases = 100;
  uint64_t seed = 1;
};

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The variables that narrow what a backend sees, as they are set; empty for one without.
std::string MasksOf(const device::Survey& survey) {
  if (!survey.visible.ok()) return "";  // the reason names them
  return device::Describe(survey.backend->kind(), *survey.visible);
}

Json ToJson(const device::DeviceFacts& facts) {
  return {{"id", device::ToString(facts.id)},
          {"name", facts.name},
          {"architecture", facts.architecture},
          {"capabilities", facts.capabilities},
          {"driver", facts.driver},
          {"compute_units", facts.compute_units},
          {"memory_bytes", facts.memory_bytes},
          {"cache_bytes", facts.cache_bytes},
          {"only_by_name", facts.on_host_processor}};
}

Json ToJson(const std::vector<device::Survey>& surveys) {
  Json devices = Json::array(), backends = Json::array();
  for (const device::Survey& survey : surveys) {
    for (const device::DeviceFacts& facts : survey.devices) devices.push_back(ToJson(facts));
    backends.push_back({{"name", device::ToString(survey.backend->kind())},
                        {"devices", survey.devices.size()},
                        {"masks", MasksOf(survey)},
                        {"libraries", survey.backend->Libraries()},
                        {"absent_reason", survey.absent_reason}});
  }
  return {{"devices", devices},
          {"backends", backends},
          {"not_built", device::KindsNotBuilt(device::LinkedBackends())}};
}

void Print(const device::DeviceFacts& facts) {
  std::cout << device::ToString(facts.id) << "\n"
            << "  name          " << facts.name << "\n"
            << "  kernels       " << facts.architecture << "\n"
            << "  capabilities  " << Joined(facts.capabilities) << "\n";
  if (!facts.driver.empty()) std::cout << "  driver        " << facts.driver << "\n";
  std::cout << "  units         " << facts.compute_units << "\n"
            << "  memory        " << FormatBytes(facts.memory_bytes) << "\n"
            << "  last cache    " << FormatBytes(facts.cache_bytes) << "\n";
  if (facts.on_host_processor) std::cout << "  runs on the CPU: used only by name\n";
}

void Print(const std::vector<device::Survey>& surveys) {
  for (const device::Survey& survey : surveys) {
    for (const device::DeviceFacts& facts : survey.devices) Print(facts);
    const std::string_view kind = device::ToString(survey.backend->kind());
    if (survey.devices.empty()) std::cout << kind << ": " << survey.absent_reason << "\n";
    const std::string masks = MasksOf(survey);
    if (!masks.empty() && !survey.devices.empty()) std::cout << kind << ": " << masks << "\n";
    for (const std::string& library : survey.backend->Libraries()) {
      std::cout << kind << ": " << library << "\n";
    }
  }
  for (const std::string_view kind : device::KindsNotBuilt(device::LinkedBackends())) {
    std::cout << kind << ": not built into this program (docs/devices.md)\n";
  }
}

// What was found is shown even where nothing can be chosen.
Status Show(const DevicesOptions& options) {
  const auto backends = device::LinkedBackends();
  const std::vector<device::Survey> surveys = device::SurveyBackends(backends);
  const auto chosen = device::ResolveDevice(options.engine.device, backends);
  if (options.json) {
    Json json = ToJson(surveys);
    json["chosen"] = nullptr;
    if (chosen.ok()) {
      json["chosen"] = device::ToString({chosen->backend->kind(), chosen->index});
    }
    json["reason"] = chosen.ok() ? chosen->reason : chosen.status().message();
    json["notice"] = chosen.ok() ? chosen->notice : "";
    std::cout << DumpJson(json) << "\n";
    return chosen.status();
  }
  const bool wrong_usage = !chosen.ok() && chosen.status().code() == StatusCode::kInvalidArgument;
  if (!wrong_usage) Print(surveys);
  if (!chosen.ok()) return chosen.status();
  std::cout << "would use " << chosen->reason << "\n";
  if (!chosen->notice.empty()) std::cout << chosen->notice << "\n";
  return OkStatus();
}

Status Verify(const DevicesOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const exec::Verification verification,
                          exec::VerifyKernels(options.engine, options.cases, options.seed));
  const std::string device = device::ToString(verification.device);
  const size_t count = verification.results.size();
  const auto excluded =
      std::count_if(verification.results.begin(), verification.results.end(),
                    [](const ops::ConformanceResult& result) { return !result.excluded.empty(); });
  if (options.json) {
    Json rows = Json::array();
    for (const auto& result : verification.results) {
      rows.push_back({{"op", result.op},
                      {"implementation", result.implementation},
                      {"cases", result.cases},
                      {"declined", result.declined},
                      {"excluded", result.excluded},
                      {"error_max", result.error_max},
                      {"error_limit", result.error_limit},
                      {"failures", result.failures},
                      {"first_failure", result.first_failure}});
    }
    std::cout << DumpJson(Json{{"device", device},
                               {"implementations", count},
                               {"failed", verification.failed},
                               {"not_run", excluded},
                               {"seed", options.seed},
                               {"results", rows}})
              << "\n";
  } else {
    std::cout << device << "\n"
              << verification.table << count << " implementations, " << verification.failed
              << " failed, " << excluded << " not for this device\n";
  }
  if (verification.failed == 0) return OkStatus();
  return Status(StatusCode::kInternal,
                StrCat(verification.failed, " of ", count, " implementations failed on ", device,
                       "; --force-op chooses others, --seed ", options.seed, " shows this again"));
}

}  // namespace

Action SetUpDevices(CLI::App& app) {
  auto options = std::make_shared<DevicesOptions>();
  app.add_option("--device", options->engine.device,
                 "which one to choose: " + device::LegalDevices());
  app.add_option("--isa", options->engine.isa,
                 "CPU instruction set to verify: auto (the best), ref, avx2, avx512 or amx");
  app.add_flag("--json", options->json, "print one JSON object");
  app.add_flag("--verify", options->verify,
               "run every kernel of the device against the references; 1 when one fails");
  app.add_option("--cases", options->cases, "cases to verify each kernel on")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", options->seed, "seed of the cases")->capture_default_str();
  return [options] { return options->verify ? Verify(*options) : Show(*options); };
}

}  // namespace sluice::cli
