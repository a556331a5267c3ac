#include "ops/attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conformance_case.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

struct Sequence {
  int queries = 1, context = 1;
};

// A batch whose K, V and Q are known per (sequence, position); the cache is paged in a shuffled
// order and everything that no row may see is NaN.
class Batch {
 public:
  Batch(Attention::Desc d, std::vector<Sequence> s, uint64_t seed = 1)
      : desc(d), sequences(std::move(s)), noise_(seed) {
    desc.kv.kv_heads = desc.kv_heads;
    desc.kv.k_head_dim = desc.kv.v_head_dim = desc.head_dim;
    int tokens = 0, blocks = 0, blocks_max = 1;
    std::vector<int32_t> start = {0}, lengths;
    for (const Sequence& sequence : sequences) {
      start.push_back(tokens += sequence.queries);
      lengths.push_back(sequence.context);
      const int need = (sequence.context - 1) / desc.kv.kernel_block_tokens + 1;
      blocks += need;
      blocks_max = std::max(blocks_max, need);
    }
    query_start = Array::Ints(start);
    context = Array::Ints(lengths);
    const int64_t count = static_cast<int64_t>(sequences.size());
    block_table = Array::Ints({count, blocks_max},
                              std::vector<int32_t>(static_cast<size_t>(count * blocks_max), -1));
    k = v = Array(desc.kv.dtype,
                  {blocks + 2, desc.kv_heads, desc.kv.kernel_block_tokens, desc.head_dim});
    k_scale = v_scale =
        Array(DType::kF32, {blocks + 2, desc.kv_heads, desc.kv.kernel_block_tokens});
    for (Array* array : {&k, &v, &k_scale, &v_scale}) array->Fill(kNan);
    q = Array(DType::kF32, {tokens, desc.q_heads * desc.head_dim});
    out = q;
    noise_.Fill(q, 2.0f);
    out.Fill(kNan);
    if (desc.bias_buckets > 0) {
      bias = Array(DType::kF32, {desc.bias_buckets, desc.q_heads});
      noise_.Fill(bias, 3.0f);
    }
    FillHistory(blocks + 2, blocks_max);
  }

  Attention::Args args() {
    Attention::Args a{.q = q.tensor(),
                      .query_start = query_start.tensor(),
                      .context = context.tensor(),
                      .block_table = block_table.tensor()};
    a.kv.k = k.tensor();
    a.kv.v = v.tensor();
    if (KvHasScales(desc.kv.dtype)) a.kv.k_scale = k_scale.tensor();
    if (KvHasScales(desc.kv.dtype)) a.kv.v_scale = v_scale.tensor();
    if (desc.bias_buckets > 0) a.bias = bias.tensor();
    a.out = out.tensor();
    if (desc.alibi) a.slopes = slopes_array.tensor();
    return a;
  }
  void SetSlopes(std::vector<float> values) {
    desc.alibi = true;
    slopes = std::move(values);
    slopes_array = Array::Floats(DType::kF32, {desc.q_heads}, slopes);
  }

  // Softmax over the dense history, in double. `bf16`: by products of bf16.
  void ExpectRight(bool bf16 = false, double tolerance = 2e-5) {
    bf16_error_ = bf16 ? AttentionBf16Error(desc) : 0.0;
    const int group = desc.q_heads / desc.kv_heads;
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (int i = 0; i < sequences[s].queries; ++i) {
        const int position = sequences[s].context - sequences[s].queries + i;
        for (int h = 0; h < desc.q_heads; ++h) {
          const int64_t row = (int64_t{query_start.Int(s) + i} * desc.q_heads + h) * desc.head_dim;
          slope_ = slopes.empty() ? 0.0 : slopes[h];
          ExpectHead(s, position, h, h / group, row, tolerance);
        }
      }
    }
  }

  int First(int position) const {
    if (desc.chunked) return position / desc.window * desc.window;
    return desc.window > 0 ? std::max(0, position - desc.window + 1) : 0;
  }

  Attention::Desc desc;
  std::vector<Sequence> sequences;
  Array query_start, context, block_table, k, v, k_scale, v_scale, bias, q, out;
  std::vector<std::vector<float>> dense_k, dense_v;  // [sequence][position, kv head, dim]
  std::vector<float> slopes;                         // by head; empty: none
  Array slopes_array{DType::kF32, {0}};

 private:
  // Writes noise to row `at` of a cache and what is kept of it to `dense`.
  void FillRow(Array& cache, Array& scales, size_t at, float* dense) {
    std::vector<float> values(static_cast<size_t>(desc.head_dim));
    for (float& value : values) value = noise_.Value();
    StoreKvRow(desc.kv.dtype, values.data(), desc.head_dim, cache.tensor().data,
               static_cast<int64_t>(at) * desc.head_dim, scales.tensor().ptr<float>() + at);
    const float scale = KvHasScales(desc.kv.dtype) ? scales.At(at) : 1.0f;
    for (int i = 0; i < desc.head_dim; ++i) dense[i] = cache.At(at * desc.head_dim + i) * scale;
  }

  void FillHistory(int total_blocks, int blocks_max) {
    std::vector<int> free;
    for (int b = 0; b < total_blocks; ++b) free.push_back(b);
    for (int b = total_blocks - 1; b > 0; --b) std::swap(free[b], free[noise_.Below(b + 1)]);
    const int block_tokens = desc.kv.kernel_block_tokens;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const int first = First(sequences[s].context - sequences[s].queries);
      const size_t row = static_cast<size_t>(desc.kv_heads) * desc.head_dim;
      dense_k.emplace_back(sequences[s].context * row);
      dense_v.emplace_back(sequences[s].context * row);
      for (int p = first; p < sequences[s].context; ++p) {
        int32_t& block = block_table.Int(s * blocks_max + p / block_tokens);
        if (block < 0) {
          block = free.back();
          free.pop_back();
        }
        for (int h = 0; h < desc.kv_heads; ++h) {
          const size_t at =
              (static_cast<size_t>(block) * desc.kv_heads + h) * block_tokens + p % block_tokens;
          FillRow(k, k_scale, at, &dense_k[s][p * row + h * desc.head_dim]);
          FillRow(v, v_scale, at, &dense_v[s][p * row + h * desc.head_dim]);
        }
      }
    }
  }

  int End(size_t s, int position) const {
    if (desc.causal) return position + 1;
    const int all = sequences[s].context;
    return desc.window > 0 ? std::min(all, position + desc.window) : all;
  }

  void ExpectHead(size_t s, int position, int head, int kv_head, int64_t row, double tolerance) {
    const int end = End(s, position);
    double scale = desc.scale.value_or(1 / std::sqrt(static_cast<double>(desc.head_dim)));
    if (desc.growth_tokens > 0) {
      const double steps = std::floor((position + 1.0) / desc.growth_tokens);
      scale *= 1.0 + desc.growth_scale * std::log1p(steps);
    }
    std::vector<double> sums(static_cast<size_t>(desc.head_dim));
    double total = 0, largest = -1e300, squares = 0;
    std::vector<double> scores;
    for (int p = First(position); p < end; ++p) {
      double score = 0;
      for (int i = 0; i < desc.head_dim; ++i)
        score +=
            double{q.At(row + i)} * dense_k[s][(p * desc.kv_heads + kv_head) * desc.head_dim + i];
      score *= scale;
      if (desc.bias_buckets > 0) {
        const int bucket = BiasBucket(desc.bias_buckets, p - position);
        score += bias.At(static_cast<size_t>(bucket * desc.q_heads + head));
      }
      if (desc.soft_cap) score = *desc.soft_cap * std::tanh(score / *desc.soft_cap);
      score += slope_ * (p - position);
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    for (int p = First(position); p < end; ++p) {
      const double weight = std::exp(scores[p - First(position)] - largest);
      total += weight;
      squares += weight * weight;
      for (int i = 0; i < desc.head_dim; ++i)
        sums[i] += weight * dense_v[s][(p * desc.kv_heads + kv_head) * desc.head_dim + i];
    }
    tolerance += bf16_error_ * std::sqrt(squares) / total;
    for (int i = 0; i < desc.head_dim; ++i)
      ASSERT_NEAR(out.At(row + i), sums[i] / total, tolerance)
          << "sequence " << s << " position " << position << " row element " << row + i;
  }

  TestNoise noise_;
  double bf16_error_ = 0.0, slope_ = 0.0;
};

Attention::Desc Describe(int q_heads, int kv_heads, int head_dim, DType kv = DType::kF32,
                         int block_tokens = 16) {
  Attention::Desc desc{.q_heads = q_heads, .kv_heads = kv_heads, .head_dim = head_dim};
  desc.kv.dtype = kv;
  desc.kv.kernel_block_tokens = block_tokens;
  return desc;
}

class AttentionTest : public OpTest {
 protected:
  void ExpectRight(Attention::Desc desc, std::vector<Sequence> sequences) {
    Batch batch(desc, std::move(sequences));
    const Status status = Run<Attention>(batch.desc, batch.args());
    ASSERT_TRUE(status.ok()) << status.message();
    batch.ExpectRight(InBf16(batch));
  }
  bool InBf16(const Batch& batch) {
    const auto bound = Bind<Attention>(device_->ops(), batch.desc);
    return bound.value().arithmetic() == Arithmetic::kBf16;
  }
};
// KV of the machine's own width, of half of it and of codes: they run different kernels.
constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kF8E4M3, DType::kI8};
SLUICE_FOR_EACH_INSTRUCTION_SET(AttentionTest);

// Where all scores are 0, each position has the weight 1 and a sink the exponential of its score.
TEST_P(AttentionTest, ASinkTakesItsShareAndGivesNothing) {
  Attention::Desc desc = {.q_heads = 4, .kv_heads = 2, .head_dim = 32};
  desc.kv.dtype = DType::kF32;
  desc.kv.kernel_block_tokens = 16;
  Batch batch(desc, {{3, 3}, {1, 300}});
  batch.q.Fill(0.0f);
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  const Array without = batch.out;
  batch.desc.sinks = true;
  Array sinks = Array::Floats(DType::kF32, {4}, {-100.0f, 0.0f, 2.0f, 60.0f});
  Attention::Args args = batch.args();
  args.sinks = sinks.tensor();
  ASSERT_TRUE(Run<Attention>(batch.desc, args).ok());
  const int positions[] = {1, 2, 3, 300};  // that each row sees
  for (size_t row = 0; row < 4; ++row) {
    for (size_t head = 0; head < 4; ++head) {
      const double share = positions[row] / (positions[row] + std::exp(double{sinks.At(head)}));
      for (size_t i = (row * 4 + head) * 32; i < (row * 4 + head + 1) * 32; ++i) {
        EXPECT_NEAR(batch.out.At(i), without.At(i) * share, 1e-6) << row << ", " << head;
      }
    }
  }
  EXPECT_FALSE(Run<Attention>(batch.desc, batch.args()).ok()) << "sinks are missing";
}

TEST_P(AttentionTest, ScoresFallWithTheDistanceByEachHeadsSlope) {
  for (const DType kv : kKvTypes) {
    Batch batch(Describe(6, 2, 32, kv), {{40, 40}, {1, 530}, {3, 300}});
    batch.SetSlopes({0.5f, 0.25f, 0.0078125f, 1.0f, 0.0f, 0.0625f});
    ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
    batch.ExpectRight();
    Attention::Args args = batch.args();
    args.slopes = {};
    EXPECT_FALSE(Run<Attention>(batch.desc, args).ok()) << "slopes are missing";
  }
}

TEST_P(AttentionTest, AChunkBeginsAtAMultipleOfTheWindow) {
  for (const int window : {1, 16, 50, 256}) {
    Attention::Desc desc = Describe(4, 2, 32);
    desc.window = window;
    desc.chunked = true;
    ExpectRight(desc, {{100, 100}, {1, 512}, {1, 513}, {70, 530}});
  }
}

TEST_P(AttentionTest, QueriesGrowWithTheirPosition) {
  Attention::Desc desc = Describe(4, 2, 32);
  desc.growth_tokens = 20;
  desc.growth_scale = 0.3f;
  ExpectRight(desc, {{100, 100}, {1, 512}});
}

TEST_P(AttentionTest, AContextOfOneGivesItsOwnV) {
  Batch batch(Describe(2, 1, 16), {{1, 1}});
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 16; ++i) EXPECT_EQ(batch.out.At(h * 16 + i), batch.dense_v[0][i]);
  }
}

TEST_P(AttentionTest, TwoTokensByHand) {
  // Scores 1 and 3 with scale 0.5: weights 1 / (1 + e) and e / (1 + e).
  Attention::Desc desc = Describe(1, 1, 16);
  desc.scale = 0.5f;
  Batch batch(desc, {{1, 2}});
  batch.q.Fill(0.0f);
  batch.q.Set(0, 1.0f);
  const size_t block = static_cast<size_t>(batch.block_table.Int(0)) * 16 * 16;
  for (int i = 0; i < 32; ++i) {
    batch.k.Set(block + i, i == 0 ? 1.0f : i == 16 ? 3.0f : 9.0f);
    batch.v.Set(block + i, i < 16 ? 10.0f : 20.0f);
  }
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  EXPECT_NEAR(batch.out.At(0), 10.0 + 10.0 * M_E / (1 + M_E), 1e-5);
}

TEST_P(AttentionTest, HeadShapes) {
  for (DType kv : kKvTypes) {
    for (int head_dim : {16, 32, 64, 80, 96, 128, 160, 256, 512})
      ExpectRight(Describe(4, 2, head_dim, kv), {{1, 37}, {5, 5}, {3, 70}});
    ExpectRight(Describe(9, 3, 64, kv), {{1, 129}, {40, 40}});
    ExpectRight(Describe(8, 8, 64, kv), {{1, 65}});
    ExpectRight(Describe(14, 1, 32, kv), {{7, 200}});
    ExpectRight(Describe(71, 1, 32, kv), {{3, 70}, {1, 300}});
  }
  ExpectRight(Describe(4, 2, 20), {{2, 20}});
}

TEST_P(AttentionTest, KvTypesAndBlockSizes) {
  for (DType kv : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    for (int block_tokens : {1, 5, 16, 32, 64, 100}) {
      ExpectRight(Describe(6, 2, 32, kv, block_tokens), {{1, 100}, {17, 90}, {1, 1}, {64, 64}});
    }
  }
}

TEST_P(AttentionTest, LengthsAroundEveryBlockEdge) {
  for (int context : {2, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 513}) {
    const std::vector<Sequence> some = {{1, context}, {2, context}, {(context + 1) / 2, context}};
    ExpectRight(Describe(3, 1, 16), some);
    ExpectRight(Describe(3, 1, 32, DType::kF16), some);
  }
}

TEST_P(AttentionTest, PrefillOfSeveralHundredTokens) {
  ExpectRight(Describe(3, 1, 64, DType::kF16), {{300, 300}, {60, 400}});
}

TEST_P(AttentionTest, WindowsShorterAndLongerThanTheContextAndAcrossBlocks) {
  for (int window : {1, 2, 15, 16, 17, 40, 64, 65, 100, 1000}) {
    for (DType kv : kKvTypes) {
      Attention::Desc desc = Describe(4, 2, 32, kv);
      desc.window = window;
      // Blocks that fell out of every row's window are -1 in the table, the rest of a block is NaN.
      ExpectRight(desc, {{1, 200}, {30, 200}, {3, 10}, {64, 64}, {1, 333}});
    }
  }
}

TEST_P(AttentionTest, NonCausalRowsSeeTheWholeContext) {
  for (DType kv : kKvTypes) {
    Attention::Desc desc = Describe(4, 2, 32, kv);
    desc.causal = false;
    ExpectRight(desc, {{33, 33}, {1, 1}, {70, 100}});
  }
}

TEST_P(AttentionTest, WindowsWithoutTheCausalMaskReachToBothSides) {
  for (int window : {1, 5, 65, 200}) {
    for (DType kv : kKvTypes) {
      Attention::Desc desc = Describe(4, 2, 32, kv);
      desc.causal = false;
      desc.window = window;
      ExpectRight(desc, {{33, 33}, {1, 1}, {70, 100}, {333, 333}});
    }
  }
}

TEST_P(AttentionTest, ScoresHaveTheBiasOfTheirDistance) {
  for (int buckets : {4, 32}) {
    for (DType kv : kKvTypes) {
      Attention::Desc desc = Describe(4, 2, 32, kv);
      desc.bias_buckets = buckets;
      desc.causal = false;
      ExpectRight(desc, {{33, 33}, {1, 1}, {300, 300}, {70, 100}});
      desc.window = 20;
      ExpectRight(desc, {{64, 64}, {1, 90}});
      desc.causal = true;
      desc.sinks = false;
      desc.soft_cap = 20.0f;
      ExpectRight(desc, {{64, 64}, {1, 333}});
    }
  }
}

// Of the code that MPNet was published with: the distances at which the bucket changes.
TEST(BiasBuckets, AreThoseOfT5) {
  constexpr std::pair<int, int> kFirstOf[] = {{8, 8},   {12, 9},  {16, 10}, {23, 11},
                                              {32, 12}, {46, 13}, {64, 14}, {91, 15}};
  for (int distance = 0; distance < 8; ++distance) EXPECT_EQ(BiasBucket(32, -distance), distance);
  for (const auto& [distance, bucket] : kFirstOf) {
    EXPECT_EQ(BiasBucket(32, -distance), bucket);
    EXPECT_EQ(BiasBucket(32, distance), bucket + 16);
    EXPECT_EQ(BiasBucket(32, 1 - distance), bucket - 1);
  }
  EXPECT_EQ(BiasBucket(32, 1), 17);
  EXPECT_EQ(BiasBucket(32, -100000), 15);
}

TEST_P(AttentionTest, SoftCapAndScale) {
  for (float scale : {0.0f, 1.0f, 0.03f}) {
    for (DType kv : kKvTypes) {
      Attention::Desc desc = Describe(4, 2, 32, kv);
      desc.scale = scale;
      ExpectRight(desc, {{5, 90}});
      desc.soft_cap = 2.5f;
      ExpectRight(desc, {{5, 90}, {1, 300}});
    }
  }
}

TEST_P(AttentionTest, AnExplicitScaleOfZeroAveragesV) {
  Attention::Desc desc = Describe(1, 1, 16);
  desc.scale = 0.0f;
  Batch batch(desc, {{1, 50}});
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  double mean = 0;
  for (int p = 0; p < 50; ++p) mean += batch.dense_v[0][p * 16] / 50.0;
  EXPECT_NEAR(batch.out.At(0), mean, 1e-6);
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  Attention::Desc desc = Describe(2, 1, 16);
  desc.scale = 400.0f;
  ExpectRight(desc, {{4, 150}});
}

TEST_P(AttentionTest, ScoresFarApartLeaveTheLargestAlone) {
  // Four positions share a score, and the next four top it, in every block; or the other way round.
  for (DType kv : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (float step : {-1.0f, 1.0f}) {
      Attention::Desc desc = Describe(2, 1, 32, kv, 64);
      desc.scale = 1.0f;
      Batch batch(desc, {{4, 602}});
      batch.q.Fill(0.0f);
      for (int row = 0; row < 8; ++row) batch.q.Set(row * 32, 32.0f);
      for (int p = 0; p < 602; ++p) {
        const size_t row = (static_cast<size_t>(batch.block_table.Int(p / 64)) * 64 + p % 64) * 32;
        batch.k.Set(row, step * static_cast<float>(p / 4));
        for (int i = 0; i < 32; ++i) batch.v.Set(row + i, static_cast<float>(p % 256));
      }
      ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
      for (int t = 0; t < 4; ++t) {
        const int position = 598 + t, first = position / 4 * 4;
        const double mean = (first % 256 + position % 256) / 2.0;
        EXPECT_NEAR(batch.out.At(t * 64), step < 0 ? 1.5 : mean, 1e-4)
            << Name(kv) << " step " << step << " token " << t;
      }
    }
  }
}

TEST_P(AttentionTest, NoRowMeetsTheVThatItDoesNotSee) {
  // A later token's V is no number; earlier rows, in the same tiles, must not notice.
  for (DType kv : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int bad : {70, 127, 130, 299}) {
      Batch batch(Describe(6, 2, 32, kv), {{250, 300}});
      ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
      const Array good = batch.out;
      const size_t block = static_cast<size_t>(batch.block_table.Int(bad / 16));
      for (int h = 0; h < 2; ++h) {
        const size_t row = ((block * 2 + h) * 16 + bad % 16) * 32;
        batch.v.Set(row, kNan);
        batch.v.Set(row + 31, std::numeric_limits<float>::infinity());
        batch.k.Set(row + 1, kNan);
      }
      ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
      for (int t = 0; t < 250; ++t) {
        if (50 + t >= bad) {
          EXPECT_TRUE(std::isnan(batch.out.At(t * 192))) << Name(kv) << " token " << t;
          continue;
        }
        for (int i = 0; i < 192; ++i)
          ASSERT_EQ(batch.out.At(t * 192 + i), good.At(t * 192 + i)) << Name(kv) << " token " << t;
      }
    }
  }
}

TEST_P(AttentionTest, FewRowsAreThoseOfAPromptWhateverTheyDoNotSee) {
  // With a group of one, four tokens are four rows; decode and short drafts have kernels for them.
  constexpr int kQueries = 40, kWidth = 2 * 64;
  for (DType kv : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    for (int window : {0, 70}) {
      for (int bad : {-1, 297, 299}) {
        Attention::Desc desc = Describe(2, 2, 64, kv);
        desc.window = window;
        Batch batch(desc, {{kQueries, 300}});
        const size_t block = static_cast<size_t>(batch.block_table.Int(std::max(bad, 0) / 16));
        for (size_t h = 0; bad >= 0 && h < 2; ++h) {
          const size_t row = (block * 2 + h) * 16 + static_cast<size_t>(bad % 16);
          if (KvHasScales(kv)) batch.v_scale.Set(row, kNan);
          if (!KvHasScales(kv)) batch.v.Set(row * 64 + 5, kNan);
        }
        ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
        const Array prompt = batch.out;
        for (int rows : {1, 2, 3, 4}) {
          const int skip = (kQueries - rows) * kWidth;
          Array q(DType::kF32, {rows, kWidth}), out = q, start = Array::Ints({0, rows});
          for (int i = 0; i < rows * kWidth; ++i) q.Set(i, batch.q.At(skip + i));
          Attention::Args args = batch.args();
          args.q = q.tensor(), args.out = out.tensor(), args.query_start = start.tensor();
          ASSERT_TRUE(Run<Attention>(batch.desc, args).ok());
          for (int i = 0; i < rows * kWidth; ++i) {
            const float value = out.At(i), expected = prompt.At(skip + i);
            ASSERT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected)))
                << Name(kv) << " window " << window << " bad " << bad << ", " << i << " of " << rows
                << " rows: " << value << " instead of " << expected;
            const bool sees_bad = bad >= 0 && 300 - rows + i / kWidth >= bad;
            ASSERT_TRUE(sees_bad || !std::isnan(value)) << Name(kv) << " bad " << bad << ", " << i;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, AScaleThatIsNoNumberMeetsOnlyTheRowsThatSeeIt) {
  for (DType kv : {DType::kF8E4M3, DType::kI8}) {
    for (int bad : {70, 127, 130, 299}) {
      Batch batch(Describe(6, 2, 32, kv), {{250, 300}});
      ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
      const Array good = batch.out;
      const size_t block = static_cast<size_t>(batch.block_table.Int(bad / 16));
      for (int h = 0; h < 2; ++h) {
        batch.v_scale.Set((block * 2 + h) * 16 + bad % 16, kNan);
        batch.k_scale.Set((block * 2 + h) * 16 + bad % 16, kNan);
      }
      ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
      for (int t = 0; t < 250; ++t) {
        for (int i = 0; i < 192; ++i) {
          const float value = batch.out.At(t * 192 + i);
          ASSERT_TRUE(50 + t >= bad ? std::isnan(value) : value == good.At(t * 192 + i))
              << Name(kv) << " token " << t << " is " << value;
        }
      }
    }
  }
}

TEST_P(AttentionTest, ARowThatIsNoNumberStaysAlone) {
  for (DType kv : kKvTypes) {
    Batch batch(Describe(6, 2, 32, kv), {{20, 90}});
    ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
    const Array good = batch.out;
    batch.q.Set(7 * 192 + 33, kNan);  // token 7, head 1
    ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
    for (int i = 0; i < 20 * 192; ++i) {
      if (i / 32 == 7 * 6 + 1) {
        EXPECT_TRUE(std::isnan(batch.out.At(i)));
      } else {
        ASSERT_EQ(batch.out.At(i), good.At(i)) << i;
      }
    }
  }
}

TEST_P(AttentionTest, ABlockTableEditedInPlaceIsSeenByTheNextCall) {
  Batch batch(Describe(2, 1, 16), {{1, 40}});
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  const Array before = batch.out;
  std::swap(batch.block_table.Int(0), batch.block_table.Int(1));
  for (int p = 0; p < 16; ++p) {
    for (int i = 0; i < 16; ++i) {
      std::swap(batch.dense_k[0][p * 16 + i], batch.dense_k[0][(p + 16) * 16 + i]);
      std::swap(batch.dense_v[0][p * 16 + i], batch.dense_v[0][(p + 16) * 16 + i]);
    }
  }
  batch.k.Set(static_cast<size_t>(batch.block_table.Int(0)) * 16 * 16, 9.0f);
  batch.dense_k[0][0] = 9.0f;
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  EXPECT_NE(batch.out, before);
  batch.ExpectRight();
}

TEST_P(AttentionTest, SequencesWithoutRowsAndPaddingRowsAreLeftAlone) {
  Batch batch(Describe(2, 1, 16), {{1, 20}, {2, 30}});
  batch.query_start.Int(2) = 1;  // the second has no rows now; two rows of q are padding
  batch.sequences[1].queries = 0;
  batch.context.Int(1) = 1 << 30;
  batch.q.Set(40, kNan);
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  batch.ExpectRight();
  for (int i = 32; i < 96; ++i) EXPECT_TRUE(std::isnan(batch.out.At(i)));
}

TEST_P(AttentionTest, TheEmptyBatchIsFine) {
  Batch batch(Describe(2, 1, 16), {{1, 4}});
  Attention::Args args = batch.args();
  args.q.dims[0] = args.out.dims[0] = args.context.dims[0] = args.block_table.dims[0] = 0;
  args.query_start.dims[0] = 1;
  args.q.data = args.out.data = args.block_table.data = args.context.data = nullptr;
  EXPECT_TRUE(Run<Attention>(batch.desc, args).ok());
}

TEST_P(AttentionTest, QAndOutMayBeRowsOfSomethingWider) {
  Batch batch(Describe(2, 1, 16), {{3, 40}});
  Array wide(DType::kF32, {3, 100});
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 32; ++i) wide.Set(t * 100 + 7 + i, batch.q.At(t * 32 + i));
  }
  ASSERT_TRUE(Run<Attention>(batch.desc, batch.args()).ok());
  const Array dense = batch.out;
  Attention::Args args = batch.args();
  args.q = wide.tensor();
  args.q.data += 7 * sizeof(float);
  args.q.dims[1] = 32;
  ASSERT_TRUE(Run<Attention>(batch.desc, args).ok());
  EXPECT_EQ(batch.out, dense);
}

TEST_P(AttentionTest, WhatMakesNoSenseIsAnErrorAndNothingIsWritten) {
  Batch batch(Describe(2, 1, 16), {{2, 40}, {1, 20}});
  const auto refused = [&](const Attention::Args& args, const char* why) {
    EXPECT_THAT(Run<Attention>(batch.desc, args).message(), HasSubstr(why));
    EXPECT_TRUE(std::isnan(batch.out.At(0)));
  };
  Attention::Args args = batch.args();
  args.query_start = Tensor();
  refused(args, "query_start is missing");
  args = batch.args();
  args.out = args.q;
  refused(args, "overlap");
  args = batch.args();
  args.kv.v = Tensor();
  refused(args, "v is missing");
  const auto with = [&](int32_t& value, int32_t bad, const char* why) {
    const int32_t good = std::exchange(value, bad);
    refused(batch.args(), why);
    value = good;
  };
  args = batch.args();
  args.kv.k_scale = batch.q.tensor();
  refused(args, "k_scale is given");
  with(batch.query_start.Int(0), 1, "query_start[0] is 1");
  with(batch.query_start.Int(2), 1, "query_start falls from 2 to 1");
  with(batch.query_start.Int(2), 4, "q has 3 rows");
  with(batch.context.Int(0), 1, "2 query tokens in a context of 1");
  with(batch.context.Int(0), -3, "in a context of -3");
  with(batch.context.Int(1), 49, "does not fit 3 blocks of 16");
  with(batch.block_table.Int(1), -1, "block_table[0][1] is -1");
  with(batch.block_table.Int(2), 99, "block_table[0][2] is 99");
  batch.desc.query_tokens_max = 1;
  refused(batch.args(), "bound for at most 1");
}

TEST_P(AttentionTest, UnsupportedDescriptorsSayWhy) {
  const Batch batch(Describe(4, 2, 16), {{1, 1}});
  const auto reason = [&](auto&& change) {
    Attention::Desc desc = batch.desc;
    change(desc);
    return Bind<Attention>(device_->ops(), desc).status().message();
  };
  EXPECT_THAT(reason([](auto& d) { d.q_heads = 3; }), HasSubstr("no multiple of 2 KV heads"));
  EXPECT_THAT(reason([](auto& d) { d.kv.dtype = DType::kI32; }), HasSubstr("KV of I32"));
  EXPECT_THAT(reason([](auto& d) { d.kv.v_head_dim = 8; }), HasSubstr("differ"));
  EXPECT_THAT(reason([](auto& d) { d.bias_buckets = 3; }), HasSubstr("even number from 4 on"));
  EXPECT_THAT(reason([](auto& d) { d.soft_cap = 0.0f; }), HasSubstr("soft_cap is 0"));
}

}  // namespace
}  // namespace sluice::ops
