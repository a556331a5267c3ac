// What every device's ops have in common beyond their numbers, which the conformance cases hold:
// how they are chosen, and that a captured one sees what changed.
#include "op_contract_fixture.h"

#include <map>

#include "ops/attention.h"
#include "ops/rope_kv.h"

namespace sluice::device {
namespace {

using ops::Array;
using ops::RopeKvForm;

using OpContract = OpContractTest;
INSTANTIATE_TEST_SUITE_P(Devices, OpContract, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

// The first that takes a model is its default, so that a new one in between changes what users run.
TEST_P(OpContract, AttentionIsChosenInThisOrder) {
  const Backend* const backend = BackendOf(GetParam());
  if (backend == nullptr) GTEST_SKIP() << "not a backend's device";
  const std::map<DeviceKind, std::vector<std::string>> orders = {
      {DeviceKind::kCpu,
       {"amx_bf16_attention", "avx512_f32_attention", "avx2_f32_attention", "ref_attention"}},
      {DeviceKind::kCuda, {"sm80_bf16_attention", "sm80_f16_attention", "any_f32_attention"}},
      {DeviceKind::kXpu, {"any_f32_attention"}}};
  std::vector<std::string> names;
  for (const auto& one : device_->ops().List<ops::Attention>()) names.emplace_back(one.name);
  EXPECT_EQ(names, orders.at(backend->kind()));
}

// A call of RopeKv with what it reads and writes on the device.
struct RopeKvCall {
  static constexpr int64_t kTokens = 3, kHeadDim = 16, kPositions = 12, kSlots = 16;

  explicit RopeKvCall(RopeKvForm form)
      : desc{.form = form,
             .q_heads = 2,
             .kv_heads = 1,
             .head_dim = kHeadDim,
             .rotary_dims = kHeadDim,
             .kv = {.dtype = DType::kF32,
                    .kv_heads = 1,
                    .k_head_dim = kHeadDim,
                    .v_head_dim = kHeadDim,
                    .kernel_block_tokens = 4}} {}
  bool in_place() const { return desc.form == RopeKvForm::kPrefillQkvOut; }

  ops::RopeKv::Desc desc;
  ops::RopeKv::Args args;
  Array qkv = Array(DType::kF32, {kTokens, 4 * kHeadDim});
  Array q_out = Array(DType::kF32, {kTokens, 2 * kHeadDim});
  Array cache = Array(DType::kF32, {kSlots / 4, 1, 4, kHeadDim});
};

class RopeKvGraph : public OpContractTest {
 protected:
  RopeKvCall MakeCall(RopeKvForm form) {
    RopeKvCall call(form);
    ops::TestNoise noise(5);
    Array table(DType::kF32, {RopeKvCall::kPositions, RopeKvCall::kHeadDim});
    noise.Fill(table);
    call.args.qkv = Upload(call.qkv);
    call.args.positions = Upload(Array::Ints({0, 0, 0}));
    call.args.slots = Upload(Array::Ints({-1, -1, -1}));
    call.args.table = Upload(table);
    if (!call.in_place()) call.args.q_out = Upload(call.q_out);
    call.args.kv.k = Upload(call.cache);
    call.args.kv.v = Upload(call.cache);
    return call;
  }
  // Everything that the op may have written.
  std::vector<Array> Written(const RopeKvCall& call) {
    std::vector<Array> arrays = {ReadArray(call.args.kv.k, call.cache),
                                 ReadArray(call.args.kv.v, call.cache)};
    arrays.push_back(call.in_place() ? ReadArray(call.args.qkv, call.qkv)
                                     : ReadArray(call.args.q_out, call.q_out));
    return arrays;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, RopeKvGraph, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

TEST_P(RopeKvGraph, EveryFormReplayedGivesTheBitsOfCallsWithItsNewPositionsAndSlots) {
  if (device_->facts().graphs == GraphSupport::kNone) GTEST_SKIP() << "this device has no graphs";
  for (const RopeKvForm form :
       {RopeKvForm::kPrefillQkvOut, RopeKvForm::kPrefillQOut, RopeKvForm::kDecode}) {
    RopeKvCall captured = MakeCall(form), called = MakeCall(form);
    const auto bound = ops::Bind<ops::RopeKv>(device_->ops(), captured.desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    // Scratch memory and programs come with the first call, not within a capture.
    ASSERT_TRUE((*bound)(*stream_, captured.args).ok());
    const auto graph = device_->Capture(
        *stream_, nullptr, [&](Stream& stream) { return (*bound)(stream, captured.args); });
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    ops::TestNoise noise(9);
    const std::pair<std::vector<int32_t>, std::vector<int32_t>> steps[] = {
        {{3, 4, 5}, {0, 7, 12}}, {{11, 0, 2}, {15, -1, 3}}, {{6, 6, 1}, {8, 9, 0}}};
    for (const auto& [positions, slots] : steps) {
      const Array new_positions = Array::Ints(positions), new_slots = Array::Ints(slots);
      noise.Fill(captured.qkv);
      const auto inputs_of = [&](const RopeKvCall& call) {
        return std::vector<ReplayParams::Value>{
            {"qkv", HostView(captured.qkv), DeviceView(call.args.qkv, captured.qkv)},
            {"positions", HostView(new_positions), DeviceView(call.args.positions, new_positions)},
            {"slots", HostView(new_slots), DeviceView(call.args.slots, new_slots)}};
      };
      const Status replayed = (*graph)->Replay(*stream_, {inputs_of(captured)});
      ASSERT_TRUE(replayed.ok()) << replayed.message();
      for (const ReplayParams::Value& value : inputs_of(called)) {
        ASSERT_TRUE(Copy({{value.destination, value.source}}).ok());
      }
      ASSERT_TRUE(Run<ops::RopeKv>(called.desc, called.args).ok());
      EXPECT_EQ(Written(captured), Written(called)) << static_cast<int>(form);
    }
  }
}

}  // namespace
}  // namespace sluice::device
