// Experts in slots: a load puts each slot's expert there, and copying a slot's bytes makes what a
// load would have made, whatever the number format and the layout of the kernel.
#include "weights/expert_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "device/resolver.h"
#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::ElementsAre;

constexpr int kSlotExperts = 3;

ParamSpec InSlots(ParamSpec spec, std::vector<int32_t> slots) {
  spec.slot_experts = std::move(slots);
  return spec;
}

std::string BytesOf(const SlotMemory& memory, int slot) {
  const device::View view = memory.Of(slot, 0, memory.slot_bytes);
  return {reinterpret_cast<const char*>(view.data), view.bytes};
}

// What a kernel reads of the parameter, all of it.
std::string AllBytes(const Parameter& parameter) {
  std::string all;
  for (const device::View& part : parameter.slots) {
    all.append(reinterpret_cast<const char*>(part.data), part.bytes);
  }
  return all;
}

TEST(ExpertSlots, HoldWhatTheyShouldHold) {
  FakeSource source;
  source.AddF32("a", {3, 2, 2}, Ramp(12, 0)).AddF32("b", {3, 2}, Ramp(6, 100));
  const auto rows = [](const char* name, int64_t e) {
    return ParamSource{name, 2, {1, 6, 2 * e, 2}};
  };
  ParamSpec matrices;
  matrices.name = "m";
  matrices.role = ParamRole::kExperts;
  matrices.rows = 6;
  matrices.columns = 2;
  matrices.experts = kSlotExperts;
  matrices.hugging_face = {{rows("a", 0), rows("a", 1), rows("a", 2)}};
  ParamSpec biases = matrices;
  biases.name = "b";
  biases.role = ParamRole::kBias;
  biases.columns = 0;
  biases.hugging_face = {{rows("b", 0), rows("b", 1), rows("b", 2)}};
  const std::vector<int32_t> slots = {2, 0, 1, 2};
  FakeDevice device;
  auto map = Place({InSlots(matrices, slots), InSlots(biases, slots)}, source, device, {}, {});
  ASSERT_TRUE(map.ok()) << map.status().message();
  const Parameter& m = *map->Find("m");
  EXPECT_EQ(m.spec.experts, 4);
  EXPECT_EQ(m.parts[0].grouped.desc().experts, 4);
  EXPECT_THAT(Values(m.parts[0].weight.data),
              ElementsAre(8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(Values(map->Find("b")->tensor), ElementsAre(104, 105, 100, 101, 102, 103, 104, 105));
  EXPECT_EQ(SlotMemoryOf(m)[0].slot_bytes, 16u);
  // An update writes what the slots hold by then.
  map->SetSlotExpert("m", 1, 1);
  FakeSource updated;
  updated.AddF32("a", {3, 2, 2}, Ramp(12, 50));
  const auto stream = device.CreateStream().value();
  ASSERT_TRUE(map->Update(device, *stream, "m", updated).ok());
  EXPECT_THAT(Values(m.parts[0].weight.data),
              ElementsAre(58, 59, 60, 61, 54, 55, 56, 57, 54, 55, 56, 57, 58, 59, 60, 61));
  EXPECT_EQ(Unresolved(m.spec).rows, 6);
  EXPECT_EQ(Unresolved(m.spec).experts, kSlotExperts);
}

// All number formats that files have experts in, as every instruction set of this CPU packs them.
TEST(ExpertSlots, BytesOfOneAreAllThatAnExpertIs) {
  constexpr int64_t kRows = 64, kColumns = 512;
  int tried = 0;
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype == DType::kI8 || dtype == DType::kI32 || dtype == DType::kI64 ||
        dtype == DType::kU8 || dtype == DType::kNVFP4) {
      continue;  // no matrices, or such that need scales beside them
    }
    FakeSource source;
    ParamSpec spec;
    spec.name = "m";
    spec.role = ParamRole::kExperts;
    spec.rows = kSlotExperts * kRows;
    spec.columns = kColumns;
    spec.experts = kSlotExperts;
    spec.experts_per_token = 2;
    spec.hugging_face = {{}};
    std::mt19937 noise(static_cast<uint32_t>(number));
    for (int e = 0; e < kSlotExperts; ++e) {
      std::vector<std::byte> bytes(kRows * RowBytes(dtype, kColumns));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(noise() % 256);
      const std::string name = "e" + std::to_string(e);
      source.Add(name, dtype, {kRows, kColumns}, std::move(bytes));
      spec.hugging_face[0].push_back({name, kRows});
    }
    for (const char* isa : {"ref", "avx2", "avx512", "amx"}) {
      const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
      ASSERT_TRUE(resolved.ok());
      auto device = resolved->Open({.threads = 1, .instruction_set = isa});
      if (!device.ok()) continue;  // this CPU has it not
      const auto load = [&](std::vector<int32_t> slots) -> Result<ParameterMap> {
        SLUICE_ASSIGN_OR_RETURN(
            WeightPlan plan, PlanWeights({InSlots(spec, std::move(slots))}, source, **device, {}));
        return Place(std::move(plan), **device, {});
      };
      auto map = load({0, 1, 2, 0, 1}), wanted = load({0, 1, 2, 2, 1});
      if (map.status().code() == StatusCode::kUnimplemented) continue;
      ASSERT_TRUE(map.ok()) << Name(dtype) << ": " << map.status().message();
      ++tried;
      for (const SlotMemory& part : SlotMemoryOf(*map->Find("m"))) {
        EXPECT_EQ(BytesOf(part, 0), BytesOf(part, 3)) << Name(dtype) << " " << isa;
        EXPECT_NE(BytesOf(part, 0), BytesOf(part, 1)) << Name(dtype) << " " << isa;
        const device::CopyItem item{part.Of(3, 0, part.slot_bytes), part.Of(2, 0, part.slot_bytes)};
        const auto stream = (*device)->CreateStream().value();
        ASSERT_TRUE((*device)->Copy(*stream, {&item, 1}).ok());
      }
      EXPECT_EQ(AllBytes(*map->Find("m")), AllBytes(*wanted->Find("m")))
          << Name(dtype) << " " << isa;
    }
  }
  EXPECT_GT(tried, 20);
}

}  // namespace
}  // namespace sluice::weights
