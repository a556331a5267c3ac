// For tests: a fixture that runs an op's best implementation on a device, once per instruction set
// of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "ops/host_array.h"
#include "ops/op.h"

namespace sluice::ops {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline std::vector<int32_t> Ints(Array& array) {
  std::vector<int32_t> values;
  for (size_t i = 0; i < array.Count(); ++i) values.push_back(array.Int(i));
  return values;
}

inline std::vector<std::string> UsableInstructionSets() {
  std::vector<std::string> usable;
  for (const device::Backend* backend : device::LinkedBackends()) {
    if (backend->kind() != device::DeviceKind::kCpu) continue;
    for (const char* set : {"ref", "avx2", "avx512", "amx"}) {
      if (backend->Open({}, 0, {.threads = 1, .instruction_set = set}).ok()) usable.push_back(set);
    }
  }
  return usable;
}

// The parameter is an instruction set.
class OpTest : public ::testing::TestWithParam<std::string> {
 protected:
  OpTest() {
    for (const device::Backend* backend : device::LinkedBackends()) {
      if (backend->kind() != device::DeviceKind::kCpu) continue;
      device_ = std::move(backend->Open({}, 0, {.instruction_set = GetParam()}).value());
    }
    stream_ = std::move(device_->CreateStream().value());
  }
  template <class Op>
  Status Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    auto bound = Bind<Op>(device_->ops(), desc);
    if (!bound.ok()) return bound.status();
    return (*bound)(*stream_, args);
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
};

#define SLUICE_FOR_EACH_INSTRUCTION_SET(Suite)                                          \
  INSTANTIATE_TEST_SUITE_P(Cpu, Suite,                                                  \
                           ::testing::ValuesIn(::sluice::ops::UsableInstructionSets()), \
                           [](const auto& set) { return set.param; })

}  // namespace sluice::ops
