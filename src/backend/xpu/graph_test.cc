// Captured work replayed with other block tables, lengths, positions and slots gives what the same
// ops give when they run at once, by both mechanisms.
#include "backend/xpu/graph.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "backend/xpu/xpu_fixture.h"
#include "ops/attention.h"
#include "ops/host_array.h"
#include "ops/linear.h"
#include "ops/rope_kv.h"

namespace sluice::xpu {
namespace {

using device::CopyItem;
using device::MemoryKind;
using device::ReplayParams;
using ::testing::HasSubstr;

constexpr int kGraphHeads = 3, kGraphDim = 16, kBlockTokens = 4, kGraphBlocks = 9, kGraphRows = 2,
              kTableBlocks = 4;
constexpr int kGraphWidth = 3 * kGraphHeads * kGraphDim;

// What a step of two sequences, one token each, refreshes.
struct Step {
  std::vector<float> qkv;
  std::vector<int32_t> positions, slots, context, table;
};

Step MakeStep(ops::TestNoise& noise, int32_t context0, int32_t context1) {
  Step step;
  for (int i = 0; i < kGraphRows * kGraphWidth; ++i) step.qkv.push_back(noise.Value());
  step.context = {context0, context1};
  std::vector<int32_t> free = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (int s = 0; s < kGraphRows; ++s) {
    for (int b = 0; b < kTableBlocks; ++b) {
      const bool used = b * kBlockTokens < step.context[s];
      const size_t at = noise.Below(static_cast<int64_t>(free.size()));
      step.table.push_back(used ? free[at] : -1);
      if (used) free.erase(free.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const int32_t position = step.context[s] - 1;
    step.positions.push_back(position);
    step.slots.push_back(step.table[s * kTableBlocks + position / kBlockTokens] * kBlockTokens +
                         position % kBlockTokens);
  }
  return step;
}

class GraphTest : public XpuTest, public ::testing::WithParamInterface<GraphMechanism> {
 protected:
  void SetUp() override {
    Open({.graphs = GetParam(), .cache_folder = TestCache()});
    if (device_->graph_mechanism() != GetParam()) GTEST_SKIP() << "no command buffers here";
    ops::TestNoise noise(5);
    const size_t cache = size_t{kGraphBlocks} * kGraphHeads * kBlockTokens * kGraphDim;
    for (auto* side : {&k_, &v_}) {
      std::vector<float> values(cache);
      for (float& value : values) value = noise.Value();
      *side = Upload(values);
    }
    std::vector<float> angles(64 * kGraphDim);
    for (float& value : angles) value = noise.Value();
    angles_ = Upload(angles);
    start_ = Upload(std::vector<int32_t>{0, 1, 2});
    qkv_ = Upload(std::vector<float>(kGraphRows * kGraphWidth));
    positions_ = Upload(std::vector<int32_t>(kGraphRows));
    slots_ = Upload(std::vector<int32_t>(kGraphRows));
    context_ = Upload(std::vector<int32_t>(kGraphRows));
    table_ = Upload(std::vector<int32_t>(kGraphRows * kTableBlocks));
    q_ = Upload(std::vector<float>(kGraphRows * kGraphHeads * kGraphDim));
    out_ = Upload(std::vector<float>(kGraphRows * kGraphHeads * kGraphDim));
    copy_ = Upload(std::vector<float>(kGraphRows * kGraphHeads * kGraphDim));
    MakeWeight(noise);
  }

  void MakeWeight(ops::TestNoise& noise) {
    linear_ = {.n = kGraphHeads * kGraphDim, .k = kGraphHeads * kGraphDim, .residual = true};
    std::vector<float> rows(static_cast<size_t>(linear_.n * linear_.k));
    for (float& value : rows) value = noise.Value();
    const auto& packing = ops::PackingOf(device_->ops(), "any_f32_linear");
    std::vector<std::byte> packed(packing.packed_bytes(linear_));
    ASSERT_TRUE(packing.pack(linear_, 0, std::as_bytes(std::span(rows)), packed).ok());
    packed_ = Upload(packed);
    weight_ = {ops::Dense(packed_.view(), DType::kU8, {static_cast<int64_t>(packed.size())}),
               DType::kF32, packing.layout, linear_.n, linear_.k};
  }

  // A layer's worth: RoPE and KV write, attention, a linear over its own input, and a copy.
  Status Body(device::Stream& stream) {
    const ops::KvDesc kv = {DType::kF32, kGraphHeads, kGraphDim, kGraphDim, kBlockTokens};
    ops::PagedKv cache;
    cache.k =
        ops::Dense(k_.view(), DType::kF32, {kGraphBlocks, kGraphHeads, kBlockTokens, kGraphDim});
    cache.v =
        ops::Dense(v_.view(), DType::kF32, {kGraphBlocks, kGraphHeads, kBlockTokens, kGraphDim});
    const ops::Tensor q = ops::Dense(q_.view(), DType::kF32, {kGraphRows, kGraphHeads * kGraphDim});
    const ops::Tensor out =
        ops::Dense(out_.view(), DType::kF32, {kGraphRows, kGraphHeads * kGraphDim});
    const ops::RopeKv::Desc rope = {.form = ops::RopeKvForm::kDecode,
                                    .q_heads = kGraphHeads,
                                    .kv_heads = kGraphHeads,
                                    .head_dim = kGraphDim,
                                    .rotary_dims = kGraphDim,
                                    .kv = kv};
    SLUICE_RETURN_IF_ERROR(
        Run<ops::RopeKv>(stream, rope,
                         {.qkv = ops::Dense(qkv_.view(), DType::kF32, {kGraphRows, kGraphWidth}),
                          .positions = ops::Dense(positions_.view(), DType::kI32, {kGraphRows}),
                          .table = ops::Dense(angles_.view(), DType::kF32, {64, kGraphDim}),
                          .slots = ops::Dense(slots_.view(), DType::kI32, {kGraphRows}),
                          .q_out = q,
                          .kv = cache}));
    const ops::Attention::Desc attention = {
        .q_heads = kGraphHeads, .kv_heads = kGraphHeads, .head_dim = kGraphDim, .kv = kv};
    SLUICE_RETURN_IF_ERROR(Run<ops::Attention>(
        stream, attention,
        {.q = q,
         .query_start = ops::Dense(start_.view(), DType::kI32, {kGraphRows + 1}),
         .context = ops::Dense(context_.view(), DType::kI32, {kGraphRows}),
         .block_table = ops::Dense(table_.view(), DType::kI32, {kGraphRows, kTableBlocks}),
         .kv = cache,
         .out = out}));
    SLUICE_RETURN_IF_ERROR(Run<ops::Linear>(
        stream, linear_, {.x = q, .weight = &weight_, .residual = out, .out = out}));
    const CopyItem item{copy_.view(), out_.view()};
    return device_->Copy(stream, {&item, 1});
  }
  template <class Op>
  Status Run(device::Stream& stream, const typename Op::Desc& desc, const typename Op::Args& args) {
    SLUICE_ASSIGN_OR_RETURN(const auto bound, ops::Bind<Op>(device_->ops(), desc));
    return bound(stream, args);
  }

  ReplayParams Params(Step& step) {
    return {{{"qkv", Host(step.qkv), qkv_.view()},
             {"positions", Host(step.positions), positions_.view()},
             {"slots", Host(step.slots), slots_.view()},
             {"context", Host(step.context), context_.view()},
             {"table", Host(step.table), table_.view()}}};
  }
  std::vector<float> Eager(Step& step) {
    for (const auto& value : Params(step).values) {
      const CopyItem item{value.destination, value.source};
      EXPECT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    }
    EXPECT_TRUE(Body(*stream_).ok());
    return Download<float>(copy_);
  }
  Result<std::unique_ptr<device::Graph>> Capture() {
    return device_->Capture(*stream_, nullptr, [&](device::Stream& s) { return Body(s); });
  }

  device::Buffer k_, v_, angles_, start_, qkv_, positions_, slots_, context_, table_, q_, out_,
      copy_, packed_;
  ops::Linear::Desc linear_;
  ops::PackedWeight weight_;
};

INSTANTIATE_TEST_SUITE_P(
    Xpu, GraphTest, ::testing::Values(GraphMechanism::kCommandBuffer, GraphMechanism::kLaunchList),
    [](const auto& mechanism) {
      return mechanism.param == GraphMechanism::kCommandBuffer ? "CommandBuffer" : "LaunchList";
    });

TEST_P(GraphTest, ReplaysReadFreshParameters) {
  ops::TestNoise noise(7);
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const auto& [a, b] : {std::pair{1, 16}, {5, 3}, {16, 1}, {9, 9}}) {
    Step step = MakeStep(noise, a, b);
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(step)).ok());
    const std::vector<float> replayed = Download<float>(copy_);
    // The same KV is written again, so running at once finds the same memory.
    EXPECT_EQ(replayed, Eager(step)) << a << " " << b;
  }
}

TEST_P(GraphTest, ReplaysMayFollowOneAnotherWithoutWaiting) {
  ops::TestNoise noise(8);
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  Step step = MakeStep(noise, 4, 4);
  for (int round = 0; round < 50; ++round) {
    step = MakeStep(noise, 1 + round % 16, 1 + round % 7);
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(step)).ok());
  }
  const std::vector<float> replayed = Download<float>(copy_);
  EXPECT_EQ(replayed, Eager(step));
}

TEST_P(GraphTest, KernelsAreCountedAndACommandBufferIsOneCall) {
  ops::TestNoise noise(10);
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  Step step = MakeStep(noise, 4, 4);
  const device::SubmitCounts before = stream_->counts();
  ASSERT_TRUE((*graph)->Replay(*stream_, Params(step)).ok());
  const device::SubmitCounts after = stream_->counts();
  EXPECT_EQ(after.kernels - before.kernels, 4u);
  const uint64_t calls = GetParam() == GraphMechanism::kCommandBuffer ? 1 : 4;
  EXPECT_EQ(after.host_calls - before.host_calls, 5 + calls);  // a copy per parameter
}

TEST_P(GraphTest, ADriverThatRefusesACommandBufferGetsSingleLaunches) {
  if (GetParam() != GraphMechanism::kCommandBuffer) return;
  ops::TestNoise noise(11);
  const CommandBufferApi real = AsXpu(*stream_).context()->command_buffers();
  CommandBufferApi no_create = real, no_finalize = real;
  no_create.create = [](cl_uint, const cl_command_queue*, const cl_command_buffer_properties_khr*,
                        cl_int* error) -> cl_command_buffer_khr {
    *error = CL_OUT_OF_RESOURCES;
    return nullptr;
  };
  no_finalize.finalize = [](cl_command_buffer_khr) -> cl_int { return CL_INVALID_OPERATION; };
  for (const CommandBufferApi& api : {no_create, no_finalize}) {
    AsXpu(*stream_).context()->UseCommandBuffers(api);
    const auto graph = Capture();
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    Step step = MakeStep(noise, 5, 3);
    const device::SubmitCounts before = stream_->counts();
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(step)).ok());
    EXPECT_EQ(stream_->counts().host_calls - before.host_calls, 9u);  // five copies, four kernels
    const std::vector<float> replayed = Download<float>(copy_);
    EXPECT_EQ(replayed, Eager(step));
  }
  AsXpu(*stream_).context()->UseCommandBuffers(real);
}

TEST_P(GraphTest, ScratchMemoryStaysTheGraphsWhenTheStreamsGrows) {
  constexpr size_t kBytes = size_t{1} << 20;
  const auto from = Upload(std::vector<int>(kBytes / sizeof(int), 7));
  const auto to = Upload(std::vector<int>(kBytes / sizeof(int)));
  const auto scratch = [&](size_t bytes) {
    auto memory = AsXpu(*stream_).Scratch(bytes);
    EXPECT_TRUE(memory.ok());
    return device::View{memory.ok() ? *memory : nullptr, bytes, MemoryKind::kDevice,
                        device_->facts().id};
  };
  const size_t before = device_->allocated_bytes();
  scratch(kBytes);
  auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& stream) {
    const device::View between = scratch(kBytes);
    const CopyItem items[] = {{between, from.view()}, {to.view(), between}};
    return device_->Copy(stream, items);
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  scratch(64 * kBytes);
  ASSERT_EQ(device_->allocated_bytes() - before, 65 * kBytes) << "the graph's and the stream's";
  // Whoever gets memory now does not get the graph's.
  std::vector<device::Buffer> others;
  for (int i = 0; i < 16; ++i) others.push_back(Upload(std::vector<int>(from.bytes() / 4, i)));
  ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
  EXPECT_EQ(Download<int>(to), Download<int>(from));
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(Download<int>(others[i]), std::vector<int>(from.bytes() / 4, i));
  others.clear();
  graph->reset();
  EXPECT_EQ(device_->allocated_bytes() - before, 64 * kBytes) << "goes with the graph";
}

// Rows that several work-groups copy, each a piece; eager copies are the driver's.
TEST_P(GraphTest, CopiesRowsOfSeveralPieces) {
  constexpr size_t kCopied = 3;
  // Moved as 16, 4 and single bytes.
  for (const size_t row_bytes : {size_t{9600}, size_t{8196}, size_t{12289}}) {
    const size_t from_stride = row_bytes + 32, to_stride = row_bytes + 16;
    std::vector<uint8_t> source(kCopied * from_stride), expected(kCopied * to_stride, 0x5a);
    ops::TestNoise noise(12);
    for (uint8_t& byte : source) byte = static_cast<uint8_t>(noise.Next());
    const device::Buffer from = Upload(source), to = Upload(expected);
    const CopyItem item{to.view(), from.view(), kCopied, row_bytes, from_stride, to_stride};
    const auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& stream) {
      return device_->Copy(stream, {&item, 1});
    });
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
    for (size_t row = 0; row < kCopied; ++row)
      std::copy_n(&source[row * from_stride], row_bytes, &expected[row * to_stride]);
    EXPECT_EQ(Download<uint8_t>(to), expected) << row_bytes;
  }
}

TEST_P(GraphTest, ScratchMemoryThatGrowsIsRefused) {
  const auto grows = device_->Capture(*stream_, nullptr, [&](device::Stream& stream) {
    return AsXpu(stream).Scratch(size_t{64} << 20).status();
  });
  EXPECT_EQ(grows.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(grows.status().message(), HasSubstr("largest shape"));
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(Body(*stream_).ok());  // the stream is usable again
}

}  // namespace
}  // namespace sluice::xpu
