// sluice_conformance [--device KIND] [--only PREFIX] [cases per op] [seed]: holds every
// implementation of every op, on every built backend and on every instruction set that this CPU
// has, against the plain-loop references. With --device cpu, cuda or xpu on that backend alone, and
// its absence is a failure; with --only just the implementations whose names begin so, and that
// there are none is a failure. Exits with 1 when one fails.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "device/backend.h"
#include "ops/conformance.h"

namespace {

using sluice::device::Backend;
using sluice::device::DeviceKind;

// Null where this machine has no such device or instruction set.
std::unique_ptr<sluice::device::Device> Open(const Backend& backend, const std::string& set) {
  auto device = backend.Open({}, 0, {.instruction_set = set});
  if (device.ok()) return std::move(device).value();
  std::printf("%s %s: not run: %s\n\n",
              std::string(sluice::device::ToString(backend.kind())).c_str(), set.c_str(),
              device.status().message().c_str());
  return nullptr;
}

// The number of implementations that failed, at least 1 when the device did.
int Verify(sluice::device::Device& device, const sluice::ops::ConformanceOptions& options) {
  const auto results = sluice::ops::RunConformance(device, options);
  if (!results.ok()) {
    std::printf("FAILED: %s\n", results.status().message().c_str());
    return 1;
  }
  std::printf("%s: %s\n%s\n", sluice::device::ToString(device.facts().id).c_str(),
              device.facts().name.c_str(), sluice::ops::FormatConformance(*results).c_str());
  int failed = 0;
  for (const auto& result : *results) failed += result.ok() ? 0 : 1;
  return failed + (results->empty() ? 1 : 0);
}

bool ParseNumber(const char* text, auto* value) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, *value);
  return error == std::errc() && stop == end;
}

// The number of implementations that failed on one backend. `needed`: at least 1 without a device.
int VerifyBackend(const Backend& backend, const sluice::ops::ConformanceOptions& options,
                  bool needed) {
  const bool cpu = backend.kind() == DeviceKind::kCpu;
  int failed = 0, devices = 0;
  for (const char* set : {"ref", "avx2", "avx512", "amx"}) {
    if (!cpu && std::strcmp(set, "ref") != 0) continue;  // only the CPU has sets
    const auto device = Open(backend, cpu ? set : "");
    if (device == nullptr) continue;
    ++devices;
    failed += Verify(*device, options);
  }
  return needed && devices == 0 ? 1 : failed;
}

}  // namespace

int main(int argc, char** argv) {
  sluice::ops::ConformanceOptions options;
  std::string_view kind;
  if (argc > 2 && std::strcmp(argv[1], "--device") == 0) {
    kind = argv[2];
    argv += 2, argc -= 2;
  }
  if (argc > 2 && std::strcmp(argv[1], "--only") == 0) {
    options.only = argv[2];
    argv += 2, argc -= 2;
  }
  if (argc > 3 || (argc > 1 && (!ParseNumber(argv[1], &options.cases) || options.cases < 1)) ||
      (argc > 2 && !ParseNumber(argv[2], &options.seed))) {
    std::fprintf(stderr,
                 "usage: sluice_conformance [--device cpu|cuda|xpu] [--only PREFIX] [cases per op, "
                 "from 1; default 100] [seed; default 1]\n");
    return 2;
  }
  int failed = 0, backends = 0;
  for (const Backend* backend : sluice::device::LinkedBackends()) {
    if (!kind.empty() && sluice::device::ToString(backend->kind()) != kind) continue;
    ++backends;
    failed += VerifyBackend(*backend, options, !kind.empty());
  }
  if (backends == 0) {
    std::fprintf(stderr, "this program was built without a backend \"%s\"\n",
                 std::string(kind).c_str());
    return 2;
  }
  if (failed > 0) std::printf("conformance: %d implementations FAILED\n", failed);
  if (failed == 0) std::printf("conformance: all implementations agree with the references\n");
  return failed == 0 ? 0 : 1;
}
