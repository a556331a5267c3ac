#include <array>
#include <charconv>
#include <cstdlib>

#include "base/str_cat.h"
#include "device/backend.h"

namespace sluice::device {
namespace {

// The order in which "auto" looks.
constexpr std::array kPreference = {DeviceKind::kCuda, DeviceKind::kXpu, DeviceKind::kCpu};

constexpr std::string_view kLegal = "auto, cpu, cuda, cuda:N, xpu, xpu:N";

std::string Normalize(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  std::string out(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// The variable that narrows what a backend sees; null where there is none.
const char* VisibleVariable(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCuda:
      return "CUDA_VISIBLE_DEVICES";
    case DeviceKind::kXpu:
      return "ZE_AFFINITY_MASK";
    case DeviceKind::kCpu:
      return nullptr;
  }
  return nullptr;
}

std::string VisibleMask(DeviceKind kind) {
  const char* variable = VisibleVariable(kind);
  if (variable == nullptr) return "";
  const char* value = std::getenv(variable);
  return value == nullptr ? StrCat(" (", variable, " is not set)")
                          : StrCat(" (", variable, "=\"", value, "\")");
}

std::string Found(std::span<const Backend* const> backends) {
  std::string out;
  for (const Backend* backend : backends) {
    for (const DeviceFacts& facts : backend->Probe({})) {
      if (!out.empty()) out += ", ";
      out += ToString(facts.id);
    }
  }
  return out.empty() ? "none" : out;
}

const Backend* FindBackend(DeviceKind kind, std::span<const Backend* const> backends) {
  for (const Backend* backend : backends) {
    if (backend->kind() == kind) return backend;
  }
  return nullptr;
}

// The first device that is hardware of its own.
const DeviceFacts* FirstReal(const std::vector<DeviceFacts>& devices) {
  for (const DeviceFacts& facts : devices) {
    if (!facts.on_host_processor) return &facts;
  }
  return nullptr;
}

Result<Resolution> ResolveAuto(std::span<const Backend* const> backends) {
  for (DeviceKind kind : kPreference) {
    const Backend* backend = FindBackend(kind, backends);
    if (backend == nullptr) continue;
    const std::vector<DeviceFacts> devices = backend->Probe({});
    const DeviceFacts* facts = FirstReal(devices);
    if (facts == nullptr) continue;
    return Resolution{backend, facts->id.index,
                      StrCat(ToString(facts->id), " (", facts->name,
                             "): the first found in the order cuda, xpu, cpu")};
  }
  return Status(StatusCode::kDevice,
                "no device was found: this program has no backend that sees one");
}

struct Wanted {
  DeviceKind kind = DeviceKind::kCpu;
  int index = -1;  // -1: any
};

// False when `name` is not a device's name.
bool Parse(std::string_view name, Wanted* wanted) {
  const size_t colon = name.find(':');
  const std::string_view kind_name = name.substr(0, colon);
  bool known = false;
  for (DeviceKind kind : kPreference) {
    if (ToString(kind) != kind_name) continue;
    wanted->kind = kind;
    known = true;
  }
  if (!known) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = name.substr(colon + 1);
  if (digits.empty() || digits.front() == '-') return false;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, wanted->index);
  return error == std::errc() && stop == end;
}

}  // namespace

Result<Resolution> ResolveDevice(std::string_view wanted_name,
                                 std::span<const Backend* const> backends) {
  const std::string name = Normalize(wanted_name);
  if (name.empty() || name == "auto") return ResolveAuto(backends);

  Wanted wanted;
  if (!Parse(name, &wanted)) {
    return InvalidArgument(StrCat("device \"", name, "\" is unknown; use one of ", kLegal),
                           "device");
  }
  const Backend* backend = FindBackend(wanted.kind, backends);
  if (backend == nullptr) {
    return Status(StatusCode::kDevice,
                  StrCat("device \"", name, "\" is not available: this program was built without ",
                         ToString(wanted.kind), "; devices found: ", Found(backends)),
                  "device");
  }
  const std::vector<DeviceFacts> devices = backend->Probe({});
  const DeviceFacts* chosen = nullptr;
  if (wanted.index < 0) {
    chosen = FirstReal(devices);
    if (chosen == nullptr && !devices.empty()) chosen = &devices.front();
  }
  for (const DeviceFacts& facts : devices) {
    if (facts.id.index == wanted.index) chosen = &facts;
  }
  if (chosen == nullptr) {
    return Status(
        StatusCode::kDevice,
        StrCat("device \"", name, "\" is not available: ", devices.size(), " ",
               ToString(wanted.kind), devices.size() == 1 ? " device is" : " devices are",
               " visible", VisibleMask(wanted.kind), "; devices found: ", Found(backends)),
        "device");
  }
  return Resolution{backend, chosen->id.index,
                    StrCat(ToString(chosen->id), " (", chosen->name, "): asked for by name")};
}

}  // namespace sluice::device
