// The bits of a recurrence don't depend on how a sequence's tokens are divided into calls, nor on
// what is computed beside it, on any device.
#include <algorithm>
#include <limits>

#include "op_contract_fixture.h"
#include "ops/recurrent.h"

namespace sluice::device {
namespace {

using ops::Array;

constexpr int kTokens = 150, kBlockTokens = 64, kNeighbour = 3;  // tokens of a neighbour
constexpr int kRows = kTokens + kNeighbour;

// Tokens [first, end) of the sequence, alone, or between padding and a neighbour.
struct Step {
  int first, end;
  bool neighbour;
};

// Steps of at most `tokens` tokens that end at borders between blocks. Within a block the last
// `taken_back` of them are computed again.
std::vector<Step> StepsOf(int tokens, bool neighbour, int taken_back = 0) {
  std::vector<Step> steps;
  for (int first = 0; first < kTokens;) {
    const int border = std::min((first / kBlockTokens + 1) * kBlockTokens, kTokens);
    const int end = std::min(first + tokens, border);
    steps.push_back({first, end, neighbour});
    first = end == border ? end : end - taken_back;
  }
  return steps;
}

void TakeRows(ops::ShortConv::Args& args, int first, int count) {
  args.x = args.x.Rows(first, count);
  args.out = args.out.Rows(first, count);
}
void TakeRows(ops::GatedDelta::Args& args, int first, int count) {
  args.qkv = args.qkv.Rows(first, count);
  args.ba = args.ba.Rows(first, count);
  args.out = args.out.Rows(first, count);
}
void TakeRows(ops::SelectiveScan::Args& args, int first, int count) {
  args.x = args.x.Rows(first, count);
  args.dt = args.dt.Rows(first, count);
  args.bc = args.bc.Rows(first, count);
  args.out = args.out.Rows(first, count);
}
void TakeRows(ops::Ssd::Args& args, int first, int count) {
  args.vkq = args.vkq.Rows(first, count);
  args.dt = args.dt.Rows(first, count);
  args.out = args.out.Rows(first, count);
}

class RecurrentContract : public OpContractTest {
 protected:
  Array Noise(DType dtype, std::vector<int64_t> dims, float scale = 1.0f) {
    Array array(dtype, std::move(dims));
    noise_.Fill(array, scale);
    return array;
  }
  // What the steps leave in the sequence's rows of `out` and in its blocks. A state has four
  // blocks, the last of which is the neighbour's.
  template <class Op>
  std::vector<std::byte> After(const typename Op::Desc& desc, typename Op::Args all,
                               const std::vector<Step>& steps, const Array& out, Array state) {
    state.Fill(std::numeric_limits<float>::quiet_NaN());
    all.state = Upload(state);
    all.out = Upload(out);
    const bool neighbour = steps.front().neighbour;
    const int64_t sequences = neighbour ? 3 : 1;
    all.query_start = Upload(Array(DType::kI32, {sequences + 1}));
    all.context = Upload(Array(DType::kI32, {sequences}));
    all.block_table = Upload(neighbour ? Array::Ints({3, 3}, {-1, -1, -1, 2, 0, 1, 3, -1, -1})
                                       : Array::Ints({1, 3}, {2, 0, 1}));
    for (const Step& step : steps) {
      const int count = step.end - step.first;
      typename Op::Args args = all;
      TakeRows(args, step.first, count + (neighbour ? kNeighbour : 0));
      const Array start =
          neighbour ? Array::Ints({0, 0, count, count + kNeighbour}) : Array::Ints({0, count});
      const Array context =
          neighbour ? Array::Ints({0, step.end, kNeighbour}) : Array::Ints({step.end});
      EXPECT_TRUE(Copy({{DeviceView(all.query_start, start), HostView(start)},
                        {DeviceView(all.context, context), HostView(context)}})
                      .ok());
      const Status status = Run<Op>(desc, args);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    const Array rows = ReadArray(all.out, out), blocks = ReadArray(all.state, state);
    std::vector<std::byte> left(rows.bytes().begin(),
                                rows.bytes().begin() + (rows.bytes().size() - 1) / kRows * kTokens);
    left.insert(left.end(), blocks.bytes().begin(),
                blocks.bytes().begin() + (blocks.bytes().size() - 1) / 4 * 3);
    return left;
  }
  template <class Op>
  void ExpectAlike(const typename Op::Desc& desc, const typename Op::Args& all, const Array& out,
                   const Array& state) {
    const auto whole = After<Op>(desc, all, StepsOf(kTokens, false), out, state);
    EXPECT_EQ(After<Op>(desc, all, StepsOf(1, false), out, state), whole) << desc.ToString();
    EXPECT_EQ(After<Op>(desc, all, StepsOf(17, true), out, state), whole) << desc.ToString();
    EXPECT_EQ(After<Op>(desc, all, StepsOf(kTokens, true), out, state), whole) << desc.ToString();
    typename Op::Desc drafting = desc;
    drafting.states = 5;
    const ops::Tensor shape = state.tensor();
    std::vector<int64_t> dims(shape.dims.begin(), shape.dims.begin() + shape.rank);
    dims[1] *= drafting.states;
    const auto rows = [&](std::vector<std::byte> left) {
      left.resize((out.bytes().size() - 1) / kRows * kTokens);
      return left;
    };
    for (const auto& [tokens, taken_back] : {std::pair{5, 3}, {5, 4}, {2, 1}, {17, 0}}) {
      EXPECT_EQ(rows(After<Op>(drafting, all, StepsOf(tokens, true, taken_back), out,
                               Array(DType::kF32, dims))),
                rows(whole))
          << drafting.ToString() << ", " << taken_back << " of " << tokens;
    }
  }

  ops::TestNoise noise_{11};
};
INSTANTIATE_TEST_SUITE_P(Devices, RecurrentContract, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

TEST_P(RecurrentContract, AConvolutionInAnyChunksBesideAnyone) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ops::ShortConv::Desc desc = {
        .activation = type, .channels = 70, .kernel = 4, .block_tokens = kBlockTokens};
    ops::ShortConv::Args args;
    args.x = Upload(Noise(type, {kRows, 70}));
    args.weight = Upload(Noise(DType::kF32, {70, 4}));
    ExpectAlike<ops::ShortConv>(desc, args, Array(type, {kRows, 70}),
                                Array(DType::kF32, {4, 3, 70}));
  }
}

TEST_P(RecurrentContract, ADeltaRuleInAnyChunksBesideAnyone) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& [k_dim, v_dim] : {std::pair{20, 48}, {64, 25}}) {
      const ops::GatedDelta::Desc desc = {.activation = type,
                                          .k_heads = 1,
                                          .v_heads = 2,
                                          .k_head_dim = k_dim,
                                          .v_head_dim = v_dim,
                                          .block_tokens = kBlockTokens};
      ops::GatedDelta::Args args;
      args.qkv = Upload(Noise(type, {kRows, 2 * k_dim + 2 * v_dim}));
      args.ba = Upload(Noise(type, {kRows, 4}, 3.0f));
      args.dt_bias = Upload(Noise(DType::kF32, {2}));
      args.a_log = Upload(Noise(DType::kF32, {2}));
      ExpectAlike<ops::GatedDelta>(desc, args, Array(type, {kRows, 2 * v_dim}),
                                   Array(DType::kF32, {4, 2, k_dim, v_dim}));
    }
  }
}

TEST_P(RecurrentContract, ARecurrenceOfMambaInAnyChunksBesideAnyone) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& [k_dim, v_dim] : {std::pair{20, 48}, {66, 25}}) {
      const ops::Ssd::Desc desc = {.activation = type,
                                   .k_heads = 1,
                                   .v_heads = 2,
                                   .k_head_dim = k_dim,
                                   .v_head_dim = v_dim,
                                   .block_tokens = kBlockTokens,
                                   .steps = true,
                                   .skip = true};
      Array rates = Noise(DType::kF32, {2});
      for (size_t i = 0; i < 2; ++i) rates.Set(i, -0.2f * static_cast<float>(i + 1));
      ops::Ssd::Args args;
      args.vkq = Upload(Noise(type, {kRows, 2 * k_dim + 2 * v_dim}));
      args.dt = Upload(Noise(type, {kRows, 2}, 3.0f));
      args.dt_bias = Upload(Noise(DType::kF32, {2}));
      args.a = Upload(rates);
      args.skip = Upload(Noise(DType::kF32, {2}));
      ExpectAlike<ops::Ssd>(desc, args, Array(type, {kRows, 2 * v_dim}),
                            Array(DType::kF32, {4, 2, k_dim, v_dim}));
    }
  }
}

TEST_P(RecurrentContract, ASelectiveScanInAnyChunksBesideAnyone) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& [channels, size] : {std::pair{75, 16}, {32, 21}}) {
      const ops::SelectiveScan::Desc desc = {.activation = type,
                                             .channels = channels,
                                             .state_size = size,
                                             .block_tokens = kBlockTokens};
      Array rates = Noise(DType::kF32, {channels, size});
      for (size_t i = 0; i < rates.Count(); ++i)
        rates.Set(i, -0.2f * static_cast<float>(i % 5 + 1));
      ops::SelectiveScan::Args args;
      args.x = Upload(Noise(type, {kRows, channels}));
      args.dt = Upload(Noise(type, {kRows, channels}, 3.0f));
      args.bc = Upload(Noise(type, {kRows, 2 * size}));
      args.dt_bias = Upload(Noise(DType::kF32, {channels}));
      args.a = Upload(rates);
      args.skip = Upload(Noise(DType::kF32, {channels}));
      ExpectAlike<ops::SelectiveScan>(desc, args, Array(type, {kRows, channels}),
                                      Array(DType::kF32, {4, size, channels}));
    }
  }
}

}  // namespace
}  // namespace sluice::device
