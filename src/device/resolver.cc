#include "device/resolver.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>

#include "base/ascii.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "device/kinds.h"

namespace sluice::device {
namespace {

constexpr std::string_view kOption = "--device (SLUICE_DEVICE)";

constexpr std::string_view kOnlyByNumber =
    " is used only by its number while SLUICE_XPU_ANY_VENDOR is set";

// "cuda, xpu, cpu"
std::string Order() {
  std::string out;
  for (const KindName& known : kKinds) out += StrCat(out.empty() ? "" : ", ", known.name);
  return out;
}

std::string Normalize(std::string_view text) { return Lower(Trimmed(text)); }

const Backend* FindBackend(DeviceKind kind, std::span<const Backend* const> backends) {
  for (const Backend* backend : backends) {
    if (backend->kind() == kind) return backend;
  }
  return nullptr;
}

std::string Named(const DeviceFacts& facts) {
  return StrCat(ToString(facts.id), " (", facts.name, ")");
}

// " (CUDA_VISIBLE_DEVICES="7")"; empty for a kind without variables.
std::string Masks(DeviceKind kind, const VisibleDevices& visible) {
  const std::string masks = Describe(kind, visible);
  return masks.empty() ? "" : StrCat(" (", masks, ")");
}

// The first device that is hardware of its own and need not be asked for by its number.
const DeviceFacts* FirstReal(const Survey& survey) {
  if (survey.visible->any_vendor) return nullptr;
  for (const DeviceFacts& facts : survey.devices) {
    if (!facts.on_host_processor) return &facts;
  }
  return nullptr;
}

// Why a backend shows no device to "auto", as "no cuda GPU (libcuda.so.1 was not found)".
std::string WhyNot(const Survey& survey) {
  const std::string_view kind = ToString(survey.backend->kind());
  if (!survey.devices.empty()) {
    const DeviceFacts& first = survey.devices.front();
    return StrCat(ToString(first.id), survey.visible->any_vendor
                                          ? kOnlyByNumber
                                          : " runs on the CPU and is used only by name");
  }
  return StrCat("no ", kind, " GPU (", survey.absent_reason, ")");
}

// The document names the preset that has it.
std::string NotBuilt(std::string_view kind) {
  return StrCat("this program was built without ", kind, " (docs/devices.md)");
}

Survey SurveyOne(const Backend& backend, const Environment& environment, bool only_gpus = false) {
  const DeviceKind kind = backend.kind();
  Survey survey{&backend, ReadVisibleDevices(kind, environment), {}, ""};
  if (!survey.visible.ok()) {
    survey.absent_reason = survey.visible.status().message();
    return survey;
  }
  if (only_gpus) survey.absent_reason = backend.WhyNoGpu();
  if (!survey.absent_reason.empty()) return survey;
  survey.devices = backend.Probe(*survey.visible);
  if (!survey.devices.empty()) return survey;
  const std::string reason = backend.AbsentReason();
  const VisibleDevices& visible = *survey.visible;
  const bool masked = visible.restricted || !visible.terms.empty();
  const char* none = masked ? "none of what its driver shows is left" : "its driver shows none";
  survey.absent_reason = reason.empty() ? none : reason;
  if (masked) survey.absent_reason += StrCat("; ", Describe(kind, visible));
  return survey;
}

// Looks at every backend, so that a choice among several is told, and a malformed list is an error
// even where another backend would have been taken.
Result<Resolution> ResolveAuto(std::span<const Backend* const> backends,
                               const Environment& environment) {
  Resolution chosen;
  std::string chosen_name, others, passed_over;
  for (const KindName& known : kKinds) {
    const DeviceKind kind = known.kind;
    const Backend* backend = FindBackend(kind, backends);
    if (backend == nullptr) {
      passed_over += StrCat(passed_over.empty() ? "" : ", ", NotBuilt(known.name));
      continue;
    }
    const Survey survey = SurveyOne(*backend, environment, true);
    if (!survey.visible.ok()) {
      const Status& status = survey.visible.status();
      return Status(status.code(),
                    StrCat(status.message(), "; correct it, unset it or choose by ", kOption),
                    status.field());
    }
    const DeviceFacts* facts = FirstReal(survey);
    if (facts == nullptr) {
      passed_over += StrCat(passed_over.empty() ? "" : ", ", WhyNot(survey));
    } else if (chosen.backend == nullptr) {
      chosen.backend = backend;
      chosen.index = facts->id.index;
      chosen.visible = *survey.visible;
      chosen_name = Named(*facts);
    } else if (kind != DeviceKind::kCpu) {
      others += StrCat(others.empty() ? "" : ", ", Named(*facts));
    }
  }
  if (chosen.backend == nullptr) {
    return Status(StatusCode::kDevice,
                  StrCat("no device was found: ",
                         passed_over.empty() ? "this program has no backend" : passed_over));
  }
  chosen.reason = StrCat(chosen_name, ": the first found in the order ", Order());
  if (!passed_over.empty()) chosen.reason += StrCat("; ", passed_over);
  if (!others.empty()) {
    chosen.notice =
        StrCat(others, " is present as well as ", chosen_name, ", and nothing chose: using ",
               ToString(chosen.backend->kind()), "; choose by ", kOption, ": ", LegalDevices());
  }
  return chosen;
}

struct Wanted {
  DeviceKind kind = DeviceKind::kCpu;
  int index = -1;  // -1: any
};

// False when `name` is not a device's name.
bool Parse(std::string_view name, Wanted* wanted) {
  const size_t colon = name.find(':');
  const std::string_view kind_name = name.substr(0, colon);
  const auto known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const KindName& one) { return one.name == kind_name; });
  if (known == std::end(kKinds)) return false;
  wanted->kind = known->kind;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = name.substr(colon + 1);
  if (wanted->kind == DeviceKind::kCpu) return false;
  // Of a number without a sign "-0" is none.
  const auto index = ParseNumber<uint32_t>(digits, 0, std::numeric_limits<int>::max());
  wanted->index = index ? static_cast<int>(*index) : -1;
  return index.has_value();
}

Status NotAvailable(std::string_view name, const std::string& why) {
  return Status(
      StatusCode::kDevice,
      StrCat("device ", Quote(name), ", asked for by ", kOption, ", is not available: ", why),
      "device");
}

// What the backend showed instead of the device that was asked for.
Status NotVisible(std::string_view name, const Survey& survey) {
  const DeviceKind kind = survey.backend->kind();
  if (survey.devices.empty()) {
    const std::string reason = survey.backend->AbsentReason();
    return NotAvailable(
        name, StrCat("no ", ToString(kind), " device is visible", reason.empty() ? "" : ": ",
                     reason, Masks(kind, *survey.visible)));
  }
  std::string found;
  for (const DeviceFacts& facts : survey.devices) {
    found += StrCat(found.empty() ? "" : ", ", Named(facts));
  }
  if (survey.visible->any_vendor) found += StrCat("; an xpu", kOnlyByNumber);
  const size_t count = survey.devices.size();
  return NotAvailable(name,
                      StrCat(count, " ", ToString(kind), count == 1 ? " device is" : " devices are",
                             " visible: ", found, Masks(kind, *survey.visible)));
}

}  // namespace

std::string LegalDevices() {
  std::string out = "auto, cpu";
  for (const KindName& known : kKinds) {
    if (known.kind != DeviceKind::kCpu) out += StrCat(", ", known.name, ", ", known.name, ":N");
  }
  return out;
}

std::vector<std::string_view> KindsNotBuilt(std::span<const Backend* const> backends) {
  std::vector<std::string_view> names;
  for (const KindName& known : kKinds) {
    if (FindBackend(known.kind, backends) == nullptr) names.push_back(known.name);
  }
  return names;
}

Result<Resolution> ResolveDevice(std::string_view wanted_name,
                                 std::span<const Backend* const> backends,
                                 const Environment& environment) {
  const std::string name = Normalize(wanted_name);
  if (name.empty() || name == "auto") return ResolveAuto(backends, environment);

  Wanted wanted;
  if (!Parse(name, &wanted)) {
    return InvalidArgument(StrCat("device ", Quote(name), ", asked for by ", kOption,
                                  ", is unknown; use one of ", LegalDevices()),
                           "device");
  }
  const Backend* backend = FindBackend(wanted.kind, backends);
  if (backend == nullptr) {
    std::string built;
    for (const Backend* one : backends) {
      built += StrCat(built.empty() ? "" : ", ", ToString(one->kind()));
    }
    return NotAvailable(name, StrCat(NotBuilt(ToString(wanted.kind)), "; it has ",
                                     built.empty() ? "no backend" : built));
  }
  const Survey survey = SurveyOne(*backend, environment);
  if (!survey.visible.ok()) return survey.visible.status();
  const DeviceFacts* chosen = nullptr;
  if (wanted.index < 0) {
    chosen = FirstReal(survey);
    if (chosen == nullptr && !survey.devices.empty() && !survey.visible->any_vendor)
      chosen = &survey.devices.front();
  }
  for (const DeviceFacts& facts : survey.devices) {
    if (facts.id.index == wanted.index) chosen = &facts;
  }
  if (chosen == nullptr) return NotVisible(name, survey);
  return Resolution{backend, chosen->id.index, Named(*chosen) + ": asked for by name", "",
                    *survey.visible};
}

void LogNoticeOnce(const Resolution& resolution) {
  static std::once_flag once;
  if (resolution.notice.empty()) return;
  std::call_once(once, [&] { LogWarning(resolution.notice); });
}

std::vector<Survey> SurveyBackends(std::span<const Backend* const> backends,
                                   const Environment& environment) {
  std::vector<Survey> surveys;
  surveys.reserve(backends.size());
  for (const Backend* backend : backends) surveys.push_back(SurveyOne(*backend, environment));
  return surveys;
}

}  // namespace sluice::device
