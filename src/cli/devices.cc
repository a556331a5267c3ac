// sluice devices: what was found, and which device would be used.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "device/backend.h"

namespace sluice::cli {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Status Devices(const std::string& wanted, bool json) {
  const auto backends = device::LinkedBackends();
  Json list = Json::array();
  for (const device::Backend* backend : backends) {
    for (const device::DeviceFacts& facts : backend->Probe({})) {
      list.push_back({{"id", device::ToString(facts.id)},
                      {"name", facts.name},
                      {"architecture", facts.architecture},
                      {"capabilities", facts.capabilities},
                      {"compute_units", facts.compute_units},
                      {"memory_bytes", facts.memory_bytes},
                      {"cache_bytes", facts.cache_bytes}});
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const device::Resolution chosen, device::ResolveDevice(wanted, backends));
  const std::string id = device::ToString({chosen.backend->kind(), chosen.index});
  if (json) {
    std::cout << DumpJson(Json{{"devices", list}, {"chosen", id}, {"reason", chosen.reason}})
              << "\n";
    return OkStatus();
  }
  for (const Json& entry : list) {
    std::cout << entry["id"].get<std::string>() << "\n"
              << "  name          " << entry["name"].get<std::string>() << "\n"
              << "  kernels       " << entry["architecture"].get<std::string>() << "\n"
              << "  capabilities  " << Joined(entry["capabilities"].get<std::vector<std::string>>())
              << "\n"
              << "  units         " << entry["compute_units"] << "\n"
              << "  memory        " << FormatBytes(entry["memory_bytes"].get<uint64_t>()) << "\n"
              << "  last cache    " << FormatBytes(entry["cache_bytes"].get<uint64_t>()) << "\n";
  }
  std::cout << "would use " << id << ": " << chosen.reason << "\n";
  return OkStatus();
}

}  // namespace

Action SetUpDevices(CLI::App& app) {
  auto wanted = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  app.add_option("--device", *wanted, "which one to choose: auto, cpu, cuda[:i] or xpu[:i]");
  app.add_flag("--json", *json, "print one JSON object");
  return [wanted, json] { return Devices(*wanted, *json); };
}

}  // namespace sluice::cli
