// Numbers outside their tables, as the contracts of src/ops promise: refused where the host can
// read them, else never followed, and what comes of them is the same on every device.
#include <cmath>
#include <limits>

#include "op_contract_fixture.h"
#include "ops/attention.h"
#include "ops/draft_tokens.h"
#include "ops/embedding.h"
#include "ops/recurrent.h"
#include "ops/rope_kv.h"
#include "ops/sampling.h"
#include "ops/token_counts.h"

namespace sluice::device {
namespace {

using ops::Array;

constexpr int32_t kFar = 2000000000;
constexpr float kLeft = -77.0f;  // what was there before
const float kNan = std::numeric_limits<float>::quiet_NaN();

class OpBounds : public OpContractTest {
 protected:
  Array Left(DType dtype, std::vector<int64_t> dims) {
    Array array(dtype, std::move(dims));
    array.Fill(kLeft);
    return array;
  }
  template <class T>
  static Array Structs(const std::vector<T>& values) {
    Array array(DType::kU8, {static_cast<int64_t>(values.size()), sizeof(T)});
    std::memcpy(const_cast<std::byte*>(array.bytes().data()), values.data(),
                values.size() * sizeof(T));
    return array;
  }
  // NaN equals NaN.
  void ExpectNumbers(const ops::Tensor& tensor, const Array& like, std::vector<float> expected) {
    const Array got = ReadArray(tensor, like);
    ASSERT_EQ(got.Count(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(got.At(i))) << i << ": " << got.At(i);
      } else {
        EXPECT_NEAR(got.At(i), expected[i], 1e-6f) << i;
      }
    }
  }
  // Whether it ran: a device whose kernels are the CPU's refuses.
  template <class Op>
  bool Follows(const typename Op::Desc& desc, const typename Op::Args& args) {
    const bool refuses = BackendOf(GetParam()) == nullptr || !device_->facts().device_memory;
    const Status status = Run<Op>(desc, args);
    EXPECT_EQ(status.code(), refuses ? StatusCode::kInvalidArgument : StatusCode::kOk)
        << status.message();
    return !refuses;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OpBounds, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

TEST_P(OpBounds, AnIdOutsideGivesNotANumber) {
  const Array out = Left(DType::kF32, {5, 2});
  ops::Embedding::Args args;
  args.ids = Upload(Array::Ints({1, 2, -1, kFar, 0}));
  args.table = Upload(Array::Floats(DType::kF32, {2, 2}, {1, 2, 3, 4}));
  args.out = Upload(out);
  const std::vector<float> left(10, kLeft),
      followed = {3, 4, kNan, kNan, kNan, kNan, kNan, kNan, 1, 2};
  const bool follows = Follows<ops::Embedding>({.vocab = 2, .hidden = 2}, args);
  ExpectNumbers(args.out, out, follows ? followed : left);
}

TEST_P(OpBounds, AGatheredRowOutsideIsNotANumber) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t width : {1, 3, 8}) {
      Array x(type, {2, width});
      for (size_t i = 0; i < x.Count(); ++i) x.Set(i, static_cast<float>(i));
      const Array out = Left(type, {4, width});
      ops::GatherRows::Args args;
      args.x = Upload(x);
      args.rows = Upload(Array::Ints({1, 2, -1, kFar}));
      args.out = Upload(out);
      std::vector<float> expected(out.Count(), kLeft);
      if (Follows<ops::GatherRows>({.activation = type, .width = width}, args)) {
        for (size_t i = 0; i < expected.size(); ++i)
          expected[i] = i < x.Count() / 2 ? x.At(x.Count() / 2 + i) : kNan;
      }
      ExpectNumbers(args.out, out, expected);
    }
  }
}

TEST_P(OpBounds, ATokenOfARowThatIsNotThereStays) {
  const Array ids = Array::Ints({5, -1, -2, -3, -kFar});
  ops::ResolveTokens::Args args;
  args.ids = Upload(ids);
  args.previous = Upload(Array::Ints({70, 80}));
  const bool follows = Follows<ops::ResolveTokens>({}, args);
  EXPECT_EQ(ReadArray(args.ids, ids), follows ? Array::Ints({5, 70, 80, -3, -kFar}) : ids);
}

TEST_P(OpBounds, APositionOutsideRotatesByNotANumberAndASlotOutsideIsNotWritten) {
  ops::RopeKv::Desc desc = {.q_heads = 1, .kv_heads = 1, .head_dim = 2, .rotary_dims = 2};
  desc.kv = {DType::kF32, 1, 2, 2, 2};
  const Array cache = Left(DType::kF32, {1, 1, 2, 2}), q_out = Left(DType::kF32, {4, 2});
  Array qkv(DType::kF32, {4, 6});
  for (size_t i = 0; i < 24; ++i) qkv.Set(i, static_cast<float>(i));
  ops::RopeKv::Args args;
  args.qkv = Upload(qkv);
  args.positions = Upload(Array::Ints({0, 0, kFar, -1}));
  args.table = Upload(Array::Floats(DType::kF32, {1, 2}, {1, 0}));
  args.slots = Upload(Array::Ints({1, kFar, 0, -1}));
  args.q_out = Upload(q_out);
  args.kv.k = Upload(cache);
  args.kv.v = Upload(cache);
  if (!Follows<ops::RopeKv>(desc, args)) {
    ExpectNumbers(args.q_out, q_out, std::vector<float>(8, kLeft));
    ExpectNumbers(args.kv.k, cache, std::vector<float>(4, kLeft));
    return;
  }
  ExpectNumbers(args.q_out, q_out, {0, 1, 6, 7, kNan, kNan, kNan, kNan});
  ExpectNumbers(args.kv.k, cache, {kNan, kNan, 2, 3});
  ExpectNumbers(args.kv.v, cache, {16, 17, 4, 5});
}

TEST_P(OpBounds, ABlockOutsideCountsAsZeros) {
  constexpr int kDim = 16;
  ops::Attention::Desc desc = {.q_heads = 1, .kv_heads = 1, .head_dim = kDim};
  desc.kv = {DType::kF32, 1, kDim, kDim, 2};
  const Array out = Left(DType::kF32, {3, kDim});
  Array keys(DType::kF32, {2, 1, 2, kDim}), values(DType::kF32, {2, 1, 2, kDim});
  for (size_t i = 0; i < keys.Count(); ++i) {
    keys.Set(i, 1.0f + static_cast<float>(i % 5));
    values.Set(i, static_cast<float>(1 + i / kDim));  // 1 and 2 in block 0, 3 and 4 in block 1
  }
  ops::Attention::Args args;
  args.q = Upload(Array(DType::kF32, {3, kDim}));  // zeros, so that all positions weigh the same
  args.query_start = Upload(Array::Ints({0, 1, 2, 3}));
  args.context = Upload(Array::Ints({4, 4, 4}));
  args.block_table = Upload(Array::Ints({3, 2}, {1, kFar, -5, 0, 1, 0}));
  args.kv.k = Upload(keys);
  args.kv.v = Upload(values);
  args.out = Upload(out);
  std::vector<float> expected(3 * kDim, kLeft);
  if (Follows<ops::Attention>(desc, args)) {
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = i < kDim ? 7.0f / 4 : i < 2 * kDim ? 3.0f / 4 : 10.0f / 4;
  }
  ExpectNumbers(args.out, out, expected);
}

// Sequences of one token each over blocks of two: one that is right, then a block to write, a block
// to read, and contexts that are nowhere.
struct Astray {
  Array start = Array::Ints({0, 1, 2, 3, 4, 5}), context = Array::Ints({1, 1, 3, 5, 0});
  Array table = Array::Ints({5, 2}, {0, kFar, kFar, kFar, kFar, 1, 1, 1, 1, 1});
};

TEST_P(OpBounds, AConvolutionLeavesStatesAloneWhereItsBlocksAreNowhere) {
  const Astray astray;
  const Array out = Left(DType::kF32, {5, 1}), state = Left(DType::kF32, {2, 1, 1});
  Array x(DType::kF32, {5, 1});
  x.Fill(1.0f);
  ops::ShortConv::Args args;
  args.x = Upload(x);
  args.weight = Upload(Array::Floats(DType::kF32, {1, 2}, {3, 1}));
  args.state = Upload(state);
  args.query_start = Upload(astray.start);
  args.context = Upload(astray.context);
  args.block_table = Upload(astray.table);
  args.out = Upload(out);
  const bool follows =
      Follows<ops::ShortConv>({.channels = 1, .kernel = 2, .block_tokens = 2}, args);
  const float silu = 1.0f / (1.0f + std::exp(-1.0f));
  ExpectNumbers(args.out, out,
                follows ? std::vector<float>{silu, 0, 0, 0, 0} : std::vector<float>(5, kLeft));
  ExpectNumbers(args.state, state,
                follows ? std::vector<float>{1, kLeft} : std::vector<float>(2, kLeft));
}

TEST_P(OpBounds, ADeltaRuleLeavesStatesAloneWhereItsBlocksAreNowhere) {
  const Astray astray;
  const Array out = Left(DType::kF32, {5, 1}), state = Left(DType::kF32, {2, 1, 1, 1});
  Array qkv(DType::kF32, {5, 3});
  qkv.Fill(100.0f);
  ops::GatedDelta::Args args;
  args.qkv = Upload(qkv);
  args.ba = Upload(Array(DType::kF32, {5, 2}));  // zeros: half is learnt
  args.dt_bias = Upload(Array(DType::kF32, {1}));
  args.a_log = Upload(Array(DType::kF32, {1}));
  args.state = Upload(state);
  args.query_start = Upload(astray.start);
  args.context = Upload(astray.context);
  args.block_table = Upload(astray.table);
  args.out = Upload(out);
  const bool follows = Follows<ops::GatedDelta>(
      {.k_heads = 1, .v_heads = 1, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 2}, args);
  ExpectNumbers(args.out, out,
                follows ? std::vector<float>{50, 0, 0, 0, 0} : std::vector<float>(5, kLeft));
  ExpectNumbers(args.state, state,
                follows ? std::vector<float>{50, kLeft} : std::vector<float>(2, kLeft));
}

TEST_P(OpBounds, ARecurrenceOfMambaLeavesStatesAloneWhereItsBlocksAreNowhere) {
  const Astray astray;
  const Array out = Left(DType::kF32, {5, 1}), state = Left(DType::kF32, {2, 1, 1, 1});
  Array vkq(DType::kF32, {5, 3});
  vkq.Fill(10.0f);
  ops::Ssd::Args args;
  args.vkq = Upload(vkq);
  args.a = Upload(Array(DType::kF32, {1}));
  args.state = Upload(state);
  args.query_start = Upload(astray.start);
  args.context = Upload(astray.context);
  args.block_table = Upload(astray.table);
  args.out = Upload(out);
  const bool follows = Follows<ops::Ssd>(
      {.k_heads = 1, .v_heads = 1, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 2}, args);
  ExpectNumbers(args.out, out,
                follows ? std::vector<float>{1000, 0, 0, 0, 0} : std::vector<float>(5, kLeft));
  ExpectNumbers(args.state, state,
                follows ? std::vector<float>{100, kLeft} : std::vector<float>(2, kLeft));
}

TEST_P(OpBounds, ASelectiveScanLeavesStatesAloneWhereItsBlocksAreNowhere) {
  const Astray astray;
  const Array out = Left(DType::kF32, {5, 1}), state = Left(DType::kF32, {2, 1, 1});
  Array numbers(DType::kF32, {5, 1}), pairs(DType::kF32, {5, 2});
  numbers.Fill(100.0f);
  pairs.Fill(10.0f);
  ops::SelectiveScan::Args args;
  args.x = args.dt = Upload(numbers);
  args.bc = Upload(pairs);
  args.dt_bias = args.skip = Upload(Array(DType::kF32, {1}));
  args.a = Upload(Array(DType::kF32, {1, 1}));
  args.state = Upload(state);
  args.query_start = Upload(astray.start);
  args.context = Upload(astray.context);
  args.block_table = Upload(astray.table);
  args.out = Upload(out);
  const bool follows =
      Follows<ops::SelectiveScan>({.channels = 1, .state_size = 1, .block_tokens = 2}, args);
  ExpectNumbers(args.out, out,
                follows ? std::vector<float>{1e6, 0, 0, 0, 0} : std::vector<float>(5, kLeft));
  ExpectNumbers(args.state, state,
                follows ? std::vector<float>{1e5, kLeft} : std::vector<float>(2, kLeft));
}

TEST_P(OpBounds, WhatASampledRowNamesOutsideIsAsIfItDidNot) {
  constexpr int kVocab = 8, kRows = 9, kTop = 2;
  std::vector<ops::SampleRow> rows(kRows, ops::SampleRow{.temperature = 0.0f, .top_logprobs = 1});
  rows[1].edit_begin = kFar, rows[1].edit_count = 5;
  rows[2].edit_begin = -kFar, rows[2].edit_count = 3;
  rows[3].mask_row = kFar;
  rows[4].distribution_row = kFar;
  rows[5].draw = rows[6].draw = false;
  rows[5].target = kFar, rows[6].target = -5;
  rows[7].target = 6;  // a draft of the row behind it, if that had any
  rows[7].counts_row = kFar, rows[8].counts_row = 0, rows[8].drafts = kFar;
  rows[7].presence_penalty = rows[8].presence_penalty = 2.5f;
  Array logits(DType::kF32, {kRows, kVocab});
  for (size_t i = 0; i < logits.Count(); ++i) logits.Set(i, i % kVocab == 6 ? 3.0f : 1.0f);
  const Array top = Left(DType::kF32, {kRows, kTop + 1}), full = Left(DType::kF32, {1, kVocab});
  const Array outputs = Structs(std::vector<ops::SampleOutput>(kRows));
  ops::Sample::Args args;
  args.logits = Upload(logits);
  args.rows = Upload(Structs(rows));
  args.edits = Upload(Structs(std::vector<ops::LogitEdit>{{.id = 6, .banned = true}}));
  args.counts = Upload(Array::Ints({1, kVocab}, {0, 0, 0, 0, 0, 0, 0, 1}));
  args.masks = Upload(Array::Ints({1, 1}, {1}));  // only token 0
  args.outputs = Upload(outputs);
  args.top_ids = Upload(Array::Ints({kRows, kTop + 1}, std::vector<int32_t>(kRows * (kTop + 1))));
  args.top_logprobs = Upload(top);
  args.distributions = Upload(full);
  const ops::Sample::Desc desc = {.vocab = kVocab, .top_logprobs_max = kTop};
  const bool follows = Follows<ops::Sample>(desc, args);
  ExpectNumbers(args.distributions, full, std::vector<float>(kVocab, kLeft));
  if (!follows) return;
  const Array read = ReadArray(args.outputs, outputs);
  std::vector<ops::SampleOutput> got(kRows);
  std::memcpy(got.data(), read.bytes().data(), kRows * sizeof(ops::SampleOutput));
  for (const size_t i : {0, 1, 2, 3, 4, 7, 8}) EXPECT_EQ(got[i].token, 6) << i;
  for (const size_t i : {5, 6}) {
    EXPECT_EQ(got[i].logprob, -9999.0f) << i;
    EXPECT_EQ(got[i].rank, kVocab) << i;
  }
}

TEST_P(OpBounds, CountsOfWhatIsNotThereAreNotSet) {
  const Array counts = Array::Ints({2, 3}, std::vector<int32_t>(6, 5));
  ops::SetCounts::Args args;
  args.rows = Upload(Array::Ints({3, 3}, {kFar, 0, 1, 1, -kFar, kFar, -1, 0, 1}));
  args.words = Upload(Array::Ints({3, 2}, {2, 7, kFar, 8, -1, 9}));
  args.counts = Upload(counts);
  const bool follows = Follows<ops::SetCounts>({.vocab = 3}, args);
  EXPECT_EQ(ReadArray(args.counts, counts),
            follows ? Array::Ints({2, 3}, {5, 5, 5, 0, 0, 7}) : counts);
}

TEST_P(OpBounds, TokensOfWhatIsNotThereAreNotCountedNorKept) {
  const Array counts = Array::Ints({2, 3}, std::vector<int32_t>(6, 5));
  const Array lengths = Array::Ints({20, 21}), tokens = Array::Ints({2, 2}, {5, 6, 7, 8});
  const std::vector<ops::SampleRow> rows = {{.position = 9, .counts_row = kFar, .slot = kFar},
                                            {.position = 9, .counts_row = 0},
                                            {.position = 9, .counts_row = 1, .slot = 1},
                                            {.counts_row = 0, .drafts = 7, .slot = 0}};
  ops::KeepDrawn::Args args;
  args.rows = Upload(Structs(rows));
  args.outputs = Upload(Structs(
      std::vector<ops::SampleOutput>{{.token = 0}, {.token = kFar}, {.token = 2}, {.token = 1}}));
  args.counts = Upload(counts);
  args.lengths = Upload(lengths);
  args.tokens = Upload(tokens);
  const bool follows = Follows<ops::KeepDrawn>({.vocab = 3}, args);
  EXPECT_EQ(ReadArray(args.counts, counts),
            follows ? Array::Ints({2, 3}, {5, 5, 5, 5, 5, 6}) : counts);
  EXPECT_EQ(ReadArray(args.lengths, lengths), follows ? Array::Ints({20, 9}) : lengths);
  EXPECT_EQ(ReadArray(args.tokens, tokens), follows ? Array::Ints({2, 2}, {5, 6, 2, 8}) : tokens);
}

TEST_P(OpBounds, ARowOfWhatIsNotThereIsNotResolved) {
  const Array rows = Structs(std::vector<ops::SampleRow>{{.position = -1, .slot = kFar},
                                                         {.target = -kFar, .slot = 1},
                                                         {.target = -2, .position = -1, .slot = 1},
                                                         {.target = -2, .position = -1}});
  ops::ResolveRows::Args args;
  args.rows = Upload(rows);
  args.lengths = Upload(Array::Ints({20, 21}));
  args.tokens = Upload(Array::Ints({2, 2}, {5, 6, 7, 8}));
  Array expected = rows;
  if (Follows<ops::ResolveRows>({}, args)) {
    auto* const row = expected.tensor().ptr<ops::SampleRow>();
    row[2].target = 8, row[2].position = 22;
  }
  EXPECT_EQ(ReadArray(args.rows, rows), expected);
}

// Of the drafts, one is of no sequence, and of the slots, two are none.
TEST_P(OpBounds, WhatIsNotThereGuessesNothing) {
  const Array ids = Array::Ints({-5, -5, -5, -5}), rows = Array::Ints({-5, -5});
  const Array first = Array::Ints({-5, -5}), known = Array::Ints({2, 2}, {5, 6, 7, 8});
  ops::NextTokens::Args next;
  next.token_ids = Upload(Array::Ints({1, 2, 3, 4}));
  next.query_start = Upload(Array::Ints({0, 2, 4}));
  next.positions = Upload(Array::Ints({8, 9, 3, 4}));
  next.slots = Upload(Array::Ints({kFar, 1}));
  next.next = Upload(Array::Ints({-1, -1}));
  next.drafting = Upload(Array::Ints({kFar, 1}));
  next.lengths = Upload(Array::Ints({20, 4}));
  next.known = Upload(known);
  next.ids = Upload(ids);
  next.rows = Upload(rows);
  next.first = Upload(first);
  ASSERT_TRUE(Run<ops::NextTokens>({}, next).ok());
  EXPECT_EQ(ReadArray(next.ids, ids), Array::Ints({2, 0, 7, 7}));
  EXPECT_EQ(ReadArray(next.rows, rows), Array::Ints({0, 2}));
  EXPECT_EQ(ReadArray(next.first, first), Array::Ints({0, 4}));
  ops::KeepGuesses::Args keep;
  keep.outputs = Upload(Structs(std::vector<ops::SampleOutput>{{.token = 1}, {.token = 2}}));
  keep.slots = Upload(Array::Ints({kFar, 0}));
  keep.known = Upload(known);
  keep.ids = Upload(rows);
  keep.first = Upload(first);
  ASSERT_TRUE(Run<ops::KeepGuesses>({}, keep).ok());
  EXPECT_EQ(ReadArray(keep.known, known), Array::Ints({2, 2}, {5, 2, 7, 8}));
  EXPECT_EQ(ReadArray(keep.ids, rows), Array::Ints({0, 2}));
  keep.target_ids = Upload(Array::Ints({6, 9}));  // 2 is beyond them
  ASSERT_TRUE(Run<ops::KeepGuesses>({}, keep).ok());
  EXPECT_EQ(ReadArray(keep.ids, rows), Array::Ints({0, 0}));
}

}  // namespace
}  // namespace sluice::device
