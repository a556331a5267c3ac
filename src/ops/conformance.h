// Holds every implementation in a device's op table against the plain-loop references, on cases
// generated from a seed. Used by the conformance program and by `sluice devices --verify`. Runs on
// the calling thread; allocates on the device and frees what it took.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/host_array.h"
#include "sluice/status.h"

namespace sluice::ops {

struct ConformanceOptions {
  uint64_t seed = 1;
  int cases = 100;   // per implementation, of descriptors that it takes
  std::string only;  // implementations whose names begin with this, and their ops alone
};

// One implementation over the first cases of its op that it takes.
struct ConformanceResult {
  std::string op, implementation;
  int cases = 0;         // run
  int declined = 0;      // descriptors met before the last of these that it does not support
  std::string excluded;  // why this device cannot run it, whatever the case; empty: it can
  // Of the array that came nearest to its limit: the largest |got - expected| / (1 + |expected|),
  // what is allowed (0: the same bits), and the share of it. A share far below 1 says that the
  // limit says nothing.
  double error_max = 0.0, error_limit = 0.0, share_max = 0.0;
  int failures = 0;
  std::string first_failure;  // the case and what was wrong; empty without
  // What met no case is not shown to be right, unless the device cannot run it.
  bool ok() const { return failures == 0 && (cases > 0 || !excluded.empty()); }
};

// How far `got` is from `expected`. Not-a-numbers match only each other. A limit of 0 asks for the
// same bytes.
struct Comparison {
  double error = 0.0;
  bool ok = true;
  std::string what;  // the first element that differs too much
};
Comparison Compare(const Array& got, const Array& expected, double limit);

// Every implementation of every op in device.ops(). One that takes few
// descriptors is shown more of them, up to 20 times the cases and at least 400. An op of the table
// without generated cases is a failed result. An error is one of the device, not of an
// implementation.
Result<std::vector<ConformanceResult>> RunConformance(device::Device& device,
                                                      const ConformanceOptions& options);

// The same for another table of that device, so that a test can plant a broken implementation.
Result<std::vector<ConformanceResult>> RunConformance(device::Device& device, const OpTable& table,
                                                      const ConformanceOptions& options);

// A table for people: implementation, cases, declined, largest error, limit, the largest share that
// an error had of its case's limit, verdict.
std::string FormatConformance(std::span<const ConformanceResult> results);

}  // namespace sluice::ops
