#include "device/visible_devices.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>

#include "base/ascii.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::device {
namespace {

using Entry = VisibleDevices::Entry;
using Term = VisibleDevices::Term;

constexpr const char* kCudaList = "CUDA_VISIBLE_DEVICES";
constexpr const char* kXpuList = "ZE_AFFINITY_MASK";
constexpr const char* kXpuSelector = "ONEAPI_DEVICE_SELECTOR";
constexpr const char* kXpuAnyVendor = "SLUICE_XPU_ANY_VENDOR";
constexpr const char* kXpuGpuKernels = "SLUICE_XPU_GPU_KERNELS";
constexpr size_t kEntriesMax = 1024;

constexpr const char* kCudaLegal =
    "legal are device numbers, GPU-... and MIG-... names, separated by commas, each once, and -1, "
    "which ends the list";
constexpr const char* kXpuLegal =
    "legal are device numbers and device.tile, as 0 or 0.1, separated by commas";
constexpr const char* kSelectorLegal =
    "legal are backend:devices terms separated by ; with those that begin with ! last, where "
    "backend "
    "is *, level_zero, opencl, cuda, hip, native_cpu or esimd_emulator, and devices are *, gpu, "
    "cpu, "
    "fpga, numbers or device.tile, separated by commas";

Status Malformed(const char* variable, std::string_view value, const std::string& what,
                 const char* legal) {
  return InvalidArgument(StrCat(variable, "=", Quote(value), ": ", what, "; ", legal), "device");
}

// A number of digits alone; -1 for anything else.
int ParseIndex(std::string_view text) {
  const auto number = ParseNumber<uint32_t>(text, 0, std::numeric_limits<int>::max());
  return number ? static_cast<int>(*number) : -1;
}

// The trimmed pieces between `separator`s, without the empty ones at the end. At most one more than
// kEntriesMax, so that no value makes us hold a longer list.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (pieces.size() <= kEntriesMax) {
    const size_t end = text.find(separator);
    pieces.push_back(Trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  while (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
  return pieces;
}

std::string NotUnderstood(std::string_view piece) {
  return piece.empty() ? "an entry is empty" : StrCat("the entry ", Quote(piece), " is unknown");
}

std::string TooMany() { return StrCat("it has more than ", kEntriesMax, " entries"); }

bool IsCudaName(std::string_view text) {
  const std::string start = Lower(text.substr(0, 4));
  return text.size() > 4 && (start == "gpu-" || start == "mig-") &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '/'; });
}

Status ParseCudaList(std::string_view value, VisibleDevices* visible) {
  const std::vector<std::string_view> pieces = Split(value, ',');
  visible->restricted = !pieces.empty();
  if (pieces.size() > kEntriesMax) return Malformed(kCudaList, value, TooMany(), kCudaLegal);
  for (const std::string_view piece : pieces) {
    // A negative number hides what follows; older Slurm says "none" by a word.
    const bool negative = piece.starts_with('-') && ParseIndex(piece.substr(1)) >= 0;
    if (negative || Lower(piece) == "nodevfiles") break;
    Entry entry;
    entry.device = ParseIndex(piece);
    if (entry.device < 0) {
      if (!IsCudaName(piece)) {
        return Malformed(kCudaList, value, NotUnderstood(piece), kCudaLegal);
      }
      entry.name = piece;
    }
    if (std::find(visible->entries.begin(), visible->entries.end(), entry) !=
        visible->entries.end()) {
      return Malformed(kCudaList, value, StrCat("it names ", Quote(piece), " twice"), kCudaLegal);
    }
    visible->entries.push_back(std::move(entry));
  }
  return OkStatus();
}

// "1" or "1.0". False for anything else.
bool ParseTile(std::string_view text, int* device, int* tile) {
  const size_t dot = text.find('.');
  *device = ParseIndex(text.substr(0, dot));
  *tile = dot == std::string_view::npos ? -1 : ParseIndex(text.substr(dot + 1));
  return *device >= 0 && (dot == std::string_view::npos || *tile >= 0);
}

// Level Zero numbers by device, whatever the order of the mask, and a device takes in its tiles.
Status ParseXpuList(std::string_view value, VisibleDevices* visible) {
  const std::vector<std::string_view> pieces = Split(value, ',');
  visible->restricted = !pieces.empty();
  if (pieces.size() > kEntriesMax) return Malformed(kXpuList, value, TooMany(), kXpuLegal);
  std::vector<Entry>& entries = visible->entries;
  for (const std::string_view piece : pieces) {
    Entry entry;
    if (!ParseTile(piece, &entry.device, &entry.tile)) {
      return Malformed(kXpuList, value, NotUnderstood(piece), kXpuLegal);
    }
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.device != b.device ? a.device < b.device : a.tile < b.tile;
  });
  const auto covered = [](const Entry& kept, const Entry& next) {
    return kept.device == next.device && (kept.tile == next.tile || kept.tile < 0);
  };
  entries.erase(std::unique(entries.begin(), entries.end(), covered), entries.end());
  return OkStatus();
}

// One device of a term, as "gpu", "0" or "0.*", into `term`. False when it is none.
bool ParseTermDevice(const std::string& text, Term* term) {
  if (text == "*") return true;
  if (text == "gpu") {
    term->host_processors = false;
  } else if (text == "cpu") {
    term->accelerators = false;
  } else if (text == "fpga") {
    term->accelerators = term->host_processors = false;
  } else if (text == "*.*") {
    term->each_tile = true;
  } else if (text.ends_with(".*")) {
    term->each_tile = true;
    term->device = ParseIndex(std::string_view(text).substr(0, text.size() - 2));
    return term->device >= 0;
  } else {
    return ParseTile(text, &term->device, &term->tile);
  }
  return true;
}

// What the backend of a term can name. Level Zero lists GPUs alone; the OpenCL devices are the same
// GPUs and the processors. False when there is no such backend.
bool ParseTermBackend(const std::string& name, Term* term) {
  if (name == "*" || name == "opencl") return true;
  term->host_processors = false;
  if (name == "level_zero") return true;
  term->accelerators = false;
  return name == "cuda" || name == "hip" || name == "native_cpu" || name == "esimd_emulator";
}

Status ParseSelectorTerm(std::string_view value, std::string_view piece, VisibleDevices* visible) {
  const auto refuse = [&](const std::string& what) {
    return Malformed(kXpuSelector, value, what, kSelectorLegal);
  };
  Term base;
  base.drops = piece.starts_with('!');
  if (base.drops) piece.remove_prefix(1);
  if (!base.drops && !visible->terms.empty() && visible->terms.back().drops) {
    return refuse(StrCat("the term ", Quote(piece), " stands behind one with !"));
  }
  const size_t colon = piece.find(':');
  if (colon == std::string_view::npos) {
    return refuse(piece.empty() ? "a term is empty"
                                : StrCat("the term ", Quote(piece), " has no colon"));
  }
  const std::string backend = Lower(Trimmed(piece.substr(0, colon)));
  if (!ParseTermBackend(backend, &base)) {
    return refuse(StrCat("the backend ", Quote(backend), " is unknown"));
  }
  const std::vector<std::string_view> devices = Split(piece.substr(colon + 1), ',');
  if (devices.empty()) return refuse(StrCat("the term ", Quote(piece), " names no device"));
  for (const std::string_view device : devices) {
    Term term = base;
    if (!ParseTermDevice(Lower(device), &term)) return refuse(NotUnderstood(device));
    visible->terms.push_back(term);
    if (visible->terms.size() > kEntriesMax) return refuse(TooMany());
  }
  return OkStatus();
}

Status ParseSelector(std::string_view value, VisibleDevices* visible) {
  const std::vector<std::string_view> pieces = Split(value, ';');
  for (const std::string_view piece : pieces) {
    SLUICE_RETURN_IF_ERROR(ParseSelectorTerm(value, piece, visible));
  }
  std::vector<Term>& terms = visible->terms;
  if (terms.empty()) return OkStatus();
  // Terms that only drop leave all others.
  if (terms.front().drops) terms.insert(terms.begin(), Term{});
  const auto takes = [&](bool Term::*kind) {
    const bool taken = std::any_of(terms.begin(), terms.end(),
                                   [&](const Term& term) { return !term.drops && term.*kind; });
    const bool dropped = std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
      return term.drops && term.*kind && term.device < 0 && !term.each_tile;
    });
    return taken && !dropped;
  };
  visible->accelerators = takes(&Term::accelerators);
  visible->host_processors = takes(&Term::host_processors);
  return OkStatus();
}

bool Matches(const Term& term, int number, bool on_host_processor) {
  return (on_host_processor ? term.host_processors : term.accelerators) &&
         (term.device < 0 || term.device == number);
}

const char* ListVariable(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCuda:
      return kCudaList;
    case DeviceKind::kXpu:
      return kXpuList;
    case DeviceKind::kCpu:
      break;
  }
  return nullptr;
}

// A variable that is 1 or 0; blank and absent are 0.
Status ReadSwitch(const char* variable, const Environment& environment, bool* on) {
  const std::optional<std::string> value = environment(variable);
  const std::string_view text = value.has_value() ? Trimmed(*value) : std::string_view();
  if (!text.empty() && text != "0" && text != "1")
    return Malformed(variable, *value, NotUnderstood(text), "legal are 0 and 1");
  *on = text == "1";
  return OkStatus();
}

// The entries as a driver reads them.
std::string Spell(const std::vector<Entry>& entries) {
  std::string out;
  for (const Entry& entry : entries) {
    if (!out.empty()) out += ',';
    out += entry.device < 0 ? entry.name : StrCat(entry.device);
    if (entry.tile >= 0) out += StrCat('.', entry.tile);
  }
  return out.empty() ? "-1" : out;
}

std::optional<std::string> ReadProcess(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  return value;
}

// A variable as it was set, and as ExportToDriver left it.
struct Exported {
  std::optional<std::string> set, given;
};
std::map<std::string, Exported>& AllExported() {
  static auto& exported = *new std::map<std::string, Exported>;
  return exported;
}

void Add(std::vector<SeenDevice>* seen, SeenDevice device) {
  if (std::find(seen->begin(), seen->end(), device) == seen->end()) seen->push_back(device);
}

// What the entries leave of the accelerators, then the host processors.
std::vector<SeenDevice> ApplyEntries(const VisibleDevices& visible,
                                     std::span<const FoundDevice> found) {
  std::vector<SeenDevice> seen;
  std::vector<int> numbered;  // accelerators that the entries count
  for (int i = 0; i < static_cast<int>(found.size()); ++i) {
    if (found[i].on_host_processor) continue;
    if (!visible.restricted) {
      seen.push_back({i});
    } else {
      numbered.push_back(i);
    }
  }
  for (const Entry& entry : visible.entries) {
    if (entry.device < 0 || entry.device >= static_cast<int>(numbered.size())) continue;
    const int index = numbered[static_cast<size_t>(entry.device)];
    const int tiles = found[index].tiles;
    if (entry.tile < std::max(tiles, 1)) Add(&seen, {index, tiles > 1 ? entry.tile : -1});
  }
  for (int i = 0; i < static_cast<int>(found.size()); ++i) {
    if (found[i].on_host_processor) seen.push_back({i});
  }
  return seen;
}

// What the terms take of one device: all of it, some of its tiles, or nothing.
std::vector<SeenDevice> ApplyTerms(std::span<const Term> terms, int number, SeenDevice device,
                                   const FoundDevice& facts) {
  const int tiles = device.tile < 0 ? std::max(facts.tiles, 1) : 1;
  const auto at = [&](int tile) {
    return SeenDevice{device.found, tiles > 1 ? tile : device.tile};
  };
  std::vector<SeenDevice> taken;
  for (const Term& term : terms) {
    if (!Matches(term, number, facts.on_host_processor)) continue;
    if (term.drops) {
      const bool whole = term.tile < 0 && !term.each_tile;
      std::erase_if(taken, [&](const SeenDevice& kept) {
        if (whole) return true;
        return term.each_tile ? kept.tile >= 0 : kept == at(term.tile);
      });
    } else if (term.each_tile) {
      for (int tile = 0; tile < tiles; ++tile) Add(&taken, at(tile));
    } else if (term.tile < tiles) {
      Add(&taken, at(term.tile));
    }
  }
  return taken;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* variable) -> std::optional<std::string> {
    std::optional<std::string> value = ReadProcess(variable);
    const auto exported = AllExported().find(variable);
    if (exported != AllExported().end() && exported->second.given == value) {
      return exported->second.set;
    }
    return value;
  };
}

Result<VisibleDevices> ReadVisibleDevices(DeviceKind kind, const Environment& environment) {
  VisibleDevices visible;
  const char* list = ListVariable(kind);
  if (list == nullptr) return visible;
  if (const auto value = environment(list); value.has_value()) {
    visible.variable = list;
    visible.value = *value;
    SLUICE_RETURN_IF_ERROR(kind == DeviceKind::kCuda ? ParseCudaList(*value, &visible)
                                                     : ParseXpuList(*value, &visible));
  }
  if (kind != DeviceKind::kXpu) return visible;
  SLUICE_RETURN_IF_ERROR(ReadSwitch(kXpuAnyVendor, environment, &visible.any_vendor));
  SLUICE_RETURN_IF_ERROR(ReadSwitch(kXpuGpuKernels, environment, &visible.gpu_kernels));
  if (const auto value = environment(kXpuSelector); value.has_value()) {
    SLUICE_RETURN_IF_ERROR(ParseSelector(*value, &visible));
    if (!visible.terms.empty()) visible.selector = *value;
  }
  return visible;
}

std::string Describe(DeviceKind kind, const VisibleDevices& visible) {
  const char* list = ListVariable(kind);
  if (list == nullptr) return "";
  std::string out;
  if (!visible.variable.empty()) out = StrCat(visible.variable, "=", Quote(visible.value));
  if (!visible.selector.empty()) {
    out += StrCat(out.empty() ? "" : ", ", kXpuSelector, "=", Quote(visible.selector));
  }
  if (!out.empty()) return out;
  return kind == DeviceKind::kXpu ? StrCat("neither ", list, " nor ", kXpuSelector, " is set")
                                  : StrCat(list, " is not set");
}

void ExportToDriver(DeviceKind kind, const VisibleDevices& visible) {
  const char* list = ListVariable(kind);
  if (list == nullptr || visible.variable.empty()) return;
  if (visible.restricted) {
    setenv(list, Spell(visible.entries).c_str(), 1);
  } else {
    unsetenv(list);
  }
  AllExported()[list] = {visible.value, ReadProcess(list)};
}

HiddenFromDriver::HiddenFromDriver(DeviceKind kind) : variable_(ListVariable(kind)) {
  if (variable_ == nullptr) return;
  value_ = ReadProcess(variable_);
  unsetenv(variable_);
}

HiddenFromDriver::~HiddenFromDriver() {
  if (value_.has_value()) setenv(variable_, value_->c_str(), 1);
}

std::vector<SeenDevice> SelectVisible(const VisibleDevices& visible,
                                      std::span<const FoundDevice> found) {
  const std::vector<SeenDevice> before = ApplyEntries(visible, found);
  if (visible.terms.empty()) return before;
  std::vector<SeenDevice> seen;
  for (int number = 0; number < static_cast<int>(before.size()); ++number) {
    const SeenDevice device = before[static_cast<size_t>(number)];
    const FoundDevice& facts = found[static_cast<size_t>(device.found)];
    for (const SeenDevice& taken : ApplyTerms(visible.terms, number, device, facts)) {
      seen.push_back(taken);
    }
  }
  return seen;
}

}  // namespace sluice::device
