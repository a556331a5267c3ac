// sluice_conformance [--device KIND] [--only PREFIX] [cases] [seed]: holds every implementation of
// every op, on every built backend and on every instruction set that this CPU has, against the
// plain-loop references. With --device KIND on that backend alone, and its absence is a failure;
// with --only just the implementations whose names begin so, and that no device or instruction set
// runs one is a failure. Exits with 1 when one fails.
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
  using namespace sluice::device;
  const auto visible = ReadVisibleDevices(backend.kind(), ProcessEnvironment());
  auto device = visible.ok() ? backend.Open(*visible, 0, {.instruction_set = set})
                             : sluice::Result<std::unique_ptr<Device>>(visible.status());
  if (device.ok()) return std::move(device).value();
  std::printf("%s %s: not run: %s\n\n",
              std::string(sluice::device::ToString(backend.kind())).c_str(), set.c_str(),
              device.status().message().c_str());
  return nullptr;
}

struct Tally {
  int run = 0;  // implementations, over all devices and instruction sets
  int failed = 0;
};

void Verify(sluice::device::Device& device, const sluice::ops::ConformanceOptions& options,
            Tally& tally) {
  const auto results = sluice::ops::RunConformance(device, options);
  if (!results.ok()) {
    std::printf("FAILED: %s\n", results.status().message().c_str());
    ++tally.failed;
    return;
  }
  std::printf("%s: %s\n%s\n", sluice::device::ToString(device.facts().id).c_str(),
              device.facts().name.c_str(), sluice::ops::FormatConformance(*results).c_str());
  for (const auto& result : *results) {
    tally.run += result.excluded.empty() ? 1 : 0;
    tally.failed += result.ok() ? 0 : 1;
  }
}

bool ParseNumber(const char* text, auto* value) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, *value);
  return error == std::errc() && stop == end;
}

// False where this machine lacks the backend's devices.
bool VerifyBackend(const Backend& backend, const sluice::ops::ConformanceOptions& options,
                   Tally& tally) {
  const bool cpu = backend.kind() == DeviceKind::kCpu;
  bool found = false;
  for (const char* set : {"ref", "avx2", "avx512", "amx"}) {
    if (!cpu && std::strcmp(set, "ref") != 0) continue;  // only the CPU has sets
    const auto device = Open(backend, cpu ? set : "");
    if (device == nullptr) continue;
    found = true;
    const int run_before = tally.run;
    Verify(*device, options, tally);
    if (options.only.empty() && tally.run == run_before) ++tally.failed;
  }
  return found;
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
                 "usage: sluice_conformance [--device KIND] [--only PREFIX] [cases per "
                 "implementation, from 1; default 100] [seed; default 1]\n");
    return 2;
  }
  Tally tally;
  int backends = 0;
  for (const Backend* backend : sluice::device::LinkedBackends()) {
    if (!kind.empty() && sluice::device::ToString(backend->kind()) != kind) continue;
    ++backends;
    if (!VerifyBackend(*backend, options, tally) && !kind.empty()) ++tally.failed;
  }
  if (backends == 0) {
    std::fprintf(stderr, "this program was built without a backend \"%s\"\n",
                 std::string(kind).c_str());
    return 2;
  }
  if (tally.run == 0) {
    std::printf("conformance: FAILED: no implementation ran\n");
    return 1;
  }
  if (tally.failed > 0) std::printf("conformance: %d implementations FAILED\n", tally.failed);
  if (tally.failed == 0)
    std::printf("conformance: all implementations agree with the references\n");
  return tally.failed == 0 ? 0 : 1;
}
