// Attention of rows of trees: what lies elsewhere is met in its order, and gives the bits of a row
// whose history lies in place.
#include <gmock/gmock.h>

#include <vector>

#include "ops/attention.h"
#include "ops/op_fixture.h"
#include "ops/paged_kv.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kHeads = 2, kDim = 32, kBlockTokens = 16, kTableBlocks = 40;

// Rows of a root and drafts behind a history. The KV of place i is noise of seed `of[i]`.
struct Rows {
  Rows(DType kv, int window, const std::vector<int>& of, int queries)
      : k(kv, {kTableBlocks, kHeads, kBlockTokens, kDim}),
        k_scale(DType::kF32, {kTableBlocks, kHeads, kBlockTokens}),
        v(k),
        v_scale(k_scale),
        q(DType::kF32, {queries, 2 * kHeads * kDim}),
        out(q) {
    desc = {.q_heads = 2 * kHeads,
            .kv_heads = kHeads,
            .head_dim = kDim,
            .window = window,
            .paths = true};
    desc.kv = {kv, kHeads, kDim, kDim, kBlockTokens};
    std::vector<int32_t> ids;
    for (int i = 0; i < kTableBlocks; ++i) ids.push_back(kTableBlocks - 1 - i);
    table = Array::Ints({1, kTableBlocks}, ids);
    query_start = Array::Ints({0, queries});
    context = Array::Ints({static_cast<int32_t>(of.size())});
    for (size_t i = 0; i < of.size(); ++i) {
      TestNoise noise(static_cast<uint64_t>(of[i]) + 1);
      for (int h = 0; h < kHeads; ++h) {
        const int64_t row = (int64_t{ids[i / kBlockTokens]} * kHeads + h) * kBlockTokens +
                            static_cast<int64_t>(i % kBlockTokens);
        for (auto* pair : {&k, &v}) {
          std::vector<float> values(kDim);
          for (float& value : values) value = noise.Value();
          StoreKvRow(kv, values.data(), kDim, pair->tensor().data, row * kDim,
                     (pair == &k ? k_scale : v_scale).tensor().ptr<float>() + row);
        }
      }
    }
  }
  void SetQuery(int row, uint64_t seed) {
    TestNoise noise(seed);
    for (int i = 0; i < 2 * kHeads * kDim; ++i)
      q.Set(static_cast<size_t>(row) * 2 * kHeads * kDim + i, 2.0f * noise.Value());
  }
  std::vector<float> Out(int row) const {
    std::vector<float> values;
    for (int i = 0; i < 2 * kHeads * kDim; ++i)
      values.push_back(out.At(static_cast<size_t>(row) * 2 * kHeads * kDim + i));
    return values;
  }
  Attention::Args args() {
    Attention::Args a{.q = q.tensor(),
                      .query_start = query_start.tensor(),
                      .context = context.tensor(),
                      .block_table = table.tensor()};
    a.kv.k = k.tensor();
    a.kv.v = v.tensor();
    if (KvHasScales(desc.kv.dtype)) a.kv.k_scale = k_scale.tensor();
    if (KvHasScales(desc.kv.dtype)) a.kv.v_scale = v_scale.tensor();
    a.out = out.tensor();
    return a;
  }

  Attention::Desc desc;
  Array k, k_scale, v, v_scale, q, out;
  Array table{DType::kI32, {0}}, query_start{DType::kI32, {0}}, context{DType::kI32, {0}};
};

class AttentionPaths : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(AttentionPaths);

// Drafts 1 2 3 are a branch, 4 follows 1, 5 follows 4, 6 the root.
TEST_P(AttentionPaths, ARowHasTheBitsOfTheChainThatLeadsToIt) {
  const std::vector<int32_t> parents = {0, 1, 2, 1, 4, 0};
  const std::vector<std::vector<int>> lead = {{0},       {0, 1},       {0, 1, 2}, {0, 1, 2, 3},
                                              {0, 1, 4}, {0, 1, 4, 5}, {0, 6}};
  for (const DType kv : {DType::kF32, DType::kF16, DType::kF8E4M3, DType::kI8}) {
    for (const int window : {0, 3, 40}) {
      // Around ends of blocks and of splits.
      for (const int history : {0, 13, 60, 252, 300}) {
        std::vector<int> places;
        for (int i = 0; i < history; ++i) places.push_back(1000 + i);
        for (int i = 0; i < 7; ++i) places.push_back(i);
        Rows tree(kv, window, places, 7);
        for (int i = 0; i < 7; ++i) tree.SetQuery(i, 50 + i);
        Array paths(DType::kI32, {7, kPathNumbers});
        WritePaths(parents, paths.tensor().ptr<int32_t>());
        Attention::Args args = tree.args();
        args.paths = paths.tensor();
        ASSERT_TRUE(Run<Attention>(tree.desc, args).ok());
        for (int i = 0; i < 7; ++i) {
          places.resize(history);
          places.insert(places.end(), lead[i].begin(), lead[i].end());
          Rows chain(kv, window, places, 1);
          chain.SetQuery(0, 50 + i);
          ASSERT_TRUE(Run<Attention>(chain.desc, chain.args()).ok());
          ASSERT_EQ(tree.Out(i), chain.Out(0))
              << Name(kv) << " " << window << " " << history << " " << i;
        }
      }
    }
  }
}

TEST_P(AttentionPaths, WrongOnesAreRefused) {
  Rows rows(DType::kF16, 0, {0, 1, 2, 3}, 3);
  const auto refused = [&](std::vector<std::vector<int32_t>> numbers) {
    Array paths(DType::kI32, {3, kPathNumbers});
    for (size_t i = 0; i < paths.Count(); ++i) paths.Int(i) = 0;
    for (size_t row = 0; row < numbers.size(); ++row) {
      for (size_t i = 0; i < numbers[row].size(); ++i)
        paths.Int(row * kPathNumbers + i) = numbers[row][i];
    }
    Attention::Args args = rows.args();
    args.paths = paths.tensor();
    const Status status = Run<Attention>(rows.desc, args);
    return status.ok() ? "" : status.message();
  };
  EXPECT_EQ(refused({{0}, {0}, {1, 1}}), "");
  EXPECT_THAT(refused({{0}, {0}, {9}}), HasSubstr("row 2 of paths has 9 positions elsewhere"));
  EXPECT_THAT(refused({{0}, {0}, {-1}}), HasSubstr("has -1 positions elsewhere"));
  EXPECT_THAT(refused({{0}, {1, 0}, {0}}), HasSubstr("row 2 of paths comes behind one"));
  EXPECT_EQ(refused({{0}, {0}, {1, 3}}), "") << "behind what an earlier call has written";
  EXPECT_THAT(refused({{0}, {0}, {1, 4}}), HasSubstr("looks for position -1"));
  EXPECT_THAT(refused({{0}, {0}, {2, 3, 1}}), HasSubstr("looks for position 1 3 places behind it"));
  EXPECT_THAT(refused({{0}, {0}, {2, -1, 1}}), HasSubstr("looks for position"));
}

TEST(WritePaths, TellsWhereThoseThatLeadToARowLie) {
  const std::vector<int32_t> parents = {0, 1, 1, 3, 0};
  std::vector<int32_t> paths(6 * kPathNumbers, -7);
  WritePaths(parents, paths.data());
  const auto row = [&](int i) {
    const auto begin = paths.begin() + i * kPathNumbers;
    return std::vector<int32_t>(begin, begin + 1 + *begin);
  };
  for (const int i : {0, 1, 2}) EXPECT_THAT(row(i), ElementsAre(0)) << i;
  EXPECT_THAT(row(3), ElementsAre(1, 1));
  EXPECT_THAT(row(4), ElementsAre(2, 1, 1));
  EXPECT_THAT(row(5), ElementsAre(1, 4));
}

}  // namespace
}  // namespace sluice::ops
