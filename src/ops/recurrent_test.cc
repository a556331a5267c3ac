#include "ops/recurrent.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

double Silu(double x) { return x / (1.0 + std::exp(-x)); }

void ExpectNear(const Array& got, const std::vector<float>& expected, float tolerance = 1e-6f) {
  ASSERT_EQ(got.Count(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got.At(i), expected[i], tolerance) << i;
}

// A convolution of two channels with three taps over blocks of four tokens.
class ShortConvTest : public OpTest {
 protected:
  ShortConvTest() {
    state_.Fill(kNan);
    args_.weight = weight_.tensor();
    args_.state = state_.tensor();
  }
  Status Step(Array x, Array start, Array context, Array table) {
    x_ = std::move(x), start_ = std::move(start), context_ = std::move(context);
    table_ = std::move(table);
    out_ = Array(DType::kF32, {x_.tensor().dims[0], 2});
    out_.Fill(7.0f);
    args_.x = x_.tensor();
    args_.query_start = start_.tensor();
    args_.context = context_.tensor();
    args_.block_table = table_.tensor();
    args_.out = out_.tensor();
    return Run<ShortConv>(desc_, args_);
  }
  static Array Rows(const std::vector<float>& values) {
    return Array::Floats(DType::kF32, {static_cast<int64_t>(values.size() / 2), 2}, values);
  }
  std::vector<float> Block(int block) const {
    return {state_.At(block * 4), state_.At(block * 4 + 1), state_.At(block * 4 + 2),
            state_.At(block * 4 + 3)};
  }

  ShortConv::Desc desc_ = {.channels = 2, .kernel = 3, .block_tokens = 4};
  ShortConv::Args args_;
  Array weight_ = Array::Floats(DType::kF32, {2, 3}, {1, 10, 100, 2, 20, 200});
  Array state_ = Array(DType::kF32, {3, 2, 2});
  Array x_, start_, context_, table_, out_;
};
SLUICE_FOR_EACH_INSTRUCTION_SET(ShortConvTest);

TEST_P(ShortConvTest, ASequenceBeginsFromZerosAndGoesOnFromItsState) {
  ASSERT_TRUE(
      Step(Rows({0.01f, 0.02f}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {2}))
          .ok());
  ExpectNear(out_, {static_cast<float>(Silu(1)), static_cast<float>(Silu(4))});
  EXPECT_EQ(Block(2), (std::vector<float>{0, 0, 0.01f, 0.02f}));
  ASSERT_TRUE(Step(Rows({0.02f, -0.01f, 0.05f, 0.03f}), Array::Ints({0, 2}), Array::Ints({3}),
                   Array::Ints({1, 1}, {2}))
                  .ok());
  ExpectNear(out_,
             {static_cast<float>(Silu(0.1 + 2)), static_cast<float>(Silu(0.4 - 2)),
              static_cast<float>(Silu(0.01 + 0.2 + 5)), static_cast<float>(Silu(0.04 - 0.2 + 6))});
  EXPECT_EQ(Block(2), (std::vector<float>{0.02f, -0.01f, 0.05f, 0.03f}));
}

TEST_P(ShortConvTest, BehindABorderAnotherBlockIsReadAndStaysAsItIs) {
  for (int i = 0; i < 4; ++i) state_.Set(4 + i, 0.01f * static_cast<float>(1 + i));
  const std::vector<float> border = Block(1);
  ASSERT_TRUE(
      Step(Rows({0, 0}), Array::Ints({0, 1}), Array::Ints({5}), Array::Ints({1, 2}, {1, 0})).ok());
  ExpectNear(out_, {static_cast<float>(Silu(0.01 + 0.3)), static_cast<float>(Silu(0.04 + 0.8))});
  EXPECT_EQ(Block(0), (std::vector<float>{0.03f, 0.04f, 0, 0}));
  EXPECT_EQ(Block(1), border);
}

// Of a block with two states, the one behind position p is number p % 2.
TEST_P(ShortConvTest, ACallOfFewTokensLeavesTheStateBehindEachAndTheNextGoesOnBehindAny) {
  desc_.states = 2;
  desc_.block_tokens = 16;
  state_ = Array(DType::kF32, {2, 4, 2});
  state_.Fill(kNan);
  args_.state = state_.tensor();
  const auto step = [&](const std::vector<float>& x, int context) {
    const auto tokens = static_cast<int32_t>(x.size() / 2);
    ASSERT_TRUE(
        Step(Rows(x), Array::Ints({0, tokens}), Array::Ints({context}), Array::Ints({1, 1}, {1}))
            .ok());
  };
  step({0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f}, 3);  // more than two: the last alone
  EXPECT_EQ(Block(2), (std::vector<float>{0.03f, 0.04f, 0.05f, 0.06f}));
  EXPECT_TRUE(std::isnan(Block(3)[0]));
  step({0.07f, 0.08f, 0.5f, 0.6f}, 5);
  EXPECT_EQ(Block(3), (std::vector<float>{0.05f, 0.06f, 0.07f, 0.08f}));
  EXPECT_EQ(Block(2), (std::vector<float>{0.07f, 0.08f, 0.5f, 0.6f}));
  step({0.09f, 0.1f}, 5);  // position 4 once more, behind position 3
  ExpectNear(out_,
             {static_cast<float>(Silu(0.05 + 0.7 + 9)), static_cast<float>(Silu(0.12 + 1.6 + 20))},
             1e-5f);
  EXPECT_EQ(Block(2), (std::vector<float>{0.07f, 0.08f, 0.09f, 0.1f}));
  EXPECT_TRUE(std::isnan(Block(0)[0]));
}

TEST_P(ShortConvTest, ABiasIsAddedBeforeTheActivation) {
  const Array bias = Array::Floats(DType::kF32, {2}, {0.5f, -3});
  desc_.bias = true;
  args_.bias = bias.tensor();
  ASSERT_TRUE(
      Step(Rows({0.01f, 0.02f}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {2}))
          .ok());
  ExpectNear(out_, {static_cast<float>(Silu(1.5)), static_cast<float>(Silu(1))});
}

// A row is the gates of what goes in, those of what comes out, and the input.
TEST_P(ShortConvTest, GatesMultiplyWhatGoesInAndWhatComesOut) {
  desc_.gated = true;
  const auto rows = [](const std::vector<float>& values) {
    return Array::Floats(DType::kF32, {static_cast<int64_t>(values.size() / 6), 6}, values);
  };
  ASSERT_TRUE(Step(rows({2, -1, 3, 0.5f, 0.01f, 0.02f, 1, 1, 10, 1, 0.25f, 0.125f}),
                   Array::Ints({0, 2}), Array::Ints({2}), Array::Ints({1, 1}, {2}))
                  .ok());
  ExpectNear(out_, {3 * 2.0f, 0.5f * -4, 10 * (0.2f + 25), -0.4f + 25}, 1e-4f);
  EXPECT_EQ(Block(2), (std::vector<float>{0.02f, -0.02f, 0.25f, 0.125f}));
  // The state already holds products; gates of the tokens that made them are not read again.
  const Array bias = Array::Floats(DType::kF32, {2}, {100, 0});
  desc_.bias = true;
  args_.bias = bias.tensor();
  ASSERT_TRUE(Step(rows({0, 0, kInfinity, 1, 1, 1}), Array::Ints({0, 1}), Array::Ints({3}),
                   Array::Ints({1, 1}, {-1}))
                  .ok());
  ExpectNear(out_, {0, 0});
  ASSERT_TRUE(Step(rows({0, 0, -1, 1, 1, 1}), Array::Ints({0, 1}), Array::Ints({3}),
                   Array::Ints({1, 1}, {2}))
                  .ok());
  ExpectNear(out_, {-(100 + 0.02f + 2.5f), -0.04f + 2.5f}, 1e-4f);
}

TEST_P(ShortConvTest, PaddingIsLeftAloneAndASequenceWithoutABlockGetsZeros) {
  ASSERT_TRUE(Step(Rows({0.01f, 0.02f, 1, 1, kNan, kNan}), Array::Ints({0, 1, 1, 2}),
                   Array::Ints({1, 0, 2}), Array::Ints({3, 1}, {0, -1, -1}))
                  .ok());
  ExpectNear(out_, {static_cast<float>(Silu(1)), static_cast<float>(Silu(4)), 0, 0, 7, 7});
  for (int i = 4; i < 12; ++i) EXPECT_TRUE(std::isnan(state_.At(i))) << i;
}

TEST_P(ShortConvTest, IndicesThatMakeNoSenseAreRefusedAndNothingIsWritten) {
  const Array before = state_;
  const auto refusal = [&](std::vector<int32_t> start, int32_t context,
                           std::vector<int32_t> table) {
    const int64_t width = static_cast<int64_t>(table.size());
    const Status status = Step(Rows({1, 1, 1, 1}), Array::Ints(start), Array::Ints({context}),
                               Array::Ints({1, width}, table));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(state_, before);
    EXPECT_EQ(out_.At(0), 7.0f);
    return status.message();
  };
  EXPECT_THAT(refusal({1, 2}, 2, {0}), HasSubstr("query_start[0] is 1"));
  EXPECT_THAT(refusal({0, -1}, 2, {0}), HasSubstr("query_start falls from 0 to -1"));
  EXPECT_THAT(refusal({0, 3}, 3, {0}), HasSubstr("query_start[1] is 3, the call has 2 rows"));
  EXPECT_THAT(refusal({0, 2}, 1, {0}), HasSubstr("sequence 0 has 2 query tokens of 1"));
  EXPECT_THAT(refusal({0, 2}, 5, {0}), HasSubstr("a context of 5 tokens does not fit 1 blocks"));
  EXPECT_THAT(refusal({0, 2}, 5, {0, 1}), HasSubstr("over a border between blocks of 4"));
  EXPECT_THAT(refusal({0, 2}, 2, {3}), HasSubstr("block_table[0][0] is 3, the state has 3 blocks"));
  EXPECT_THAT(refusal({0, 2}, 6, {-2, 0}), HasSubstr("block_table[0][0] is -2"));
}

TEST_P(ShortConvTest, ShapesAndOptionsAreChecked) {
  desc_.kernel = 9;
  EXPECT_THAT(
      Step(Rows({1, 1}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {0})).message(),
      HasSubstr("a kernel of 9 taps is outside 2 to 8"));
  desc_.kernel = 4;
  EXPECT_THAT(
      Step(Rows({1, 1}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {0})).message(),
      HasSubstr("weight is F32 [2, 3], expected F32 [2, 4]"));
  desc_.kernel = 3;
  desc_.gated = true;
  EXPECT_THAT(
      Step(Rows({1, 1}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {0})).message(),
      HasSubstr("x is F32 [1, 2], expected F32 [1, 6]"));
  desc_ = {.channels = 2, .kernel = 3, .block_tokens = 0};
  EXPECT_THAT(
      Step(Rows({1, 1}), Array::Ints({0, 1}), Array::Ints({1}), Array::Ints({1, 1}, {0})).message(),
      HasSubstr("block_tokens is 0"));
}

class GatedDeltaTest : public OpTest {
 protected:
  // One sequence of `tokens` tokens from position 0, in block 0.
  Status Step(const GatedDelta::Desc& desc, const std::vector<float>& qkv,
              const std::vector<float>& ba, int64_t tokens, float a_log = 0.0f) {
    qkv_ = Array::Floats(DType::kF32, {tokens, static_cast<int64_t>(qkv.size()) / tokens}, qkv);
    ba_ = Array::Floats(DType::kF32, {tokens, 2 * desc.v_heads}, ba);
    dt_bias_ = Array(DType::kF32, {desc.v_heads});
    a_log_ = Array(DType::kF32, {desc.v_heads});
    a_log_.Fill(a_log);
    state_ = Array(DType::kF32, {1, desc.states * desc.v_heads, desc.k_head_dim, desc.v_head_dim});
    state_.Fill(kNan);
    out_ = Array(DType::kF32, {tokens, int64_t{desc.v_heads} * desc.v_head_dim});
    start_ = Array::Ints({0, static_cast<int32_t>(tokens)});
    context_ = Array::Ints({static_cast<int32_t>(tokens)});
    return Run<GatedDelta>(desc, {.qkv = qkv_.tensor(),
                                  .ba = ba_.tensor(),
                                  .dt_bias = dt_bias_.tensor(),
                                  .a_log = a_log_.tensor(),
                                  .state = state_.tensor(),
                                  .query_start = start_.tensor(),
                                  .context = context_.tensor(),
                                  .block_table = table_.tensor(),
                                  .out = out_.tensor()});
  }

  Array qkv_, ba_, dt_bias_, a_log_, state_, out_, start_, context_;
  Array table_ = Array::Ints({1, 1}, {0});
};
SLUICE_FOR_EACH_INSTRUCTION_SET(GatedDeltaTest);

TEST_P(GatedDeltaTest, TwoTokensComputedByHand) {
  const GatedDelta::Desc desc = {
      .k_heads = 1, .v_heads = 1, .k_head_dim = 2, .v_head_dim = 2, .block_tokens = 16};
  // q has length 5, k points along the second row; half is kept and half is learnt.
  const std::vector<float> token = {3, 4, 0, 2, 1, -2};
  std::vector<float> qkv = token;
  qkv.insert(qkv.end(), token.begin(), token.end());
  ASSERT_TRUE(Step(desc, qkv, {0, 0, 0, 0}, 2).ok());
  const float q = 0.8f / std::sqrt(2.0f);
  ExpectNear(out_, {q * 0.5f, q * -1.0f, q * 0.625f, q * -1.25f});
  ExpectNear(state_, {0, 0, 0.625f, -1.25f});
}

// Tokens that are taken back leave no trace: behind five of six, and behind three of them.
TEST_P(GatedDeltaTest, StatesBehindTheLastTokensAreThoseOfShorterCalls) {
  GatedDelta::Desc desc = {
      .k_heads = 2, .v_heads = 4, .k_head_dim = 20, .v_head_dim = 70, .block_tokens = 16};
  constexpr int kTokens = 6, kWidth = 2 * 40 + 4 * 70;
  TestNoise noise(4);
  std::vector<float> qkv(kTokens * kWidth), ba(kTokens * 8);
  for (float& value : qkv) value = noise.Value();
  for (float& value : ba) value = 4 * noise.Value();
  std::vector<Array> behind;
  for (int tokens = 1; tokens <= kTokens; ++tokens) {
    ASSERT_TRUE(Step(desc, {qkv.begin(), qkv.begin() + tokens * kWidth},
                     {ba.begin(), ba.begin() + tokens * 8}, tokens)
                    .ok());
    behind.push_back(state_);
  }
  const Array out = out_;
  desc.states = kTokens;
  ASSERT_TRUE(Step(desc, qkv, ba, kTokens).ok());
  EXPECT_EQ(out_, out);
  const size_t numbers = behind[0].Count();
  for (size_t i = 0; i < state_.Count(); ++i)
    ASSERT_EQ(state_.At(i), behind[i / numbers].At(i % numbers)) << i;
  desc.states = 0;
  EXPECT_THAT(Step(desc, qkv, ba, kTokens).message(), HasSubstr("states is 0"));
}

TEST_P(GatedDeltaTest, ValueHeadsShareKeysOneAfterTheOther) {
  const GatedDelta::Desc desc = {
      .k_heads = 2, .v_heads = 4, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 16};
  ASSERT_TRUE(Step(desc, {5, 5, 3, -3, 2, 4, 6, 8}, std::vector<float>(8, 0.0f), 1).ok());
  ExpectNear(out_, {1, 2, -3, -4}, 1e-5f);
}

TEST_P(GatedDeltaTest, GatesThatAreFarFromZeroKeepAllOrNothing) {
  const GatedDelta::Desc desc = {
      .k_heads = 1, .v_heads = 3, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 16};
  // Two tokens with values 1 and 5. Head 0 forgets everything, head 1 learns nothing from the
  // second token and forgets nothing, head 2 keeps all and learns all.
  const std::vector<float> qkv = {9, 9, 1, 1, 1, 9, 9, 5, 5, 5};
  const std::vector<float> ba = {1000, 1000,  1000, 1000, -1000, -1000,
                                 1000, -1000, 1000, 1000, -1000, -1000};
  ASSERT_TRUE(Step(desc, qkv, ba, 2).ok());
  ExpectNear(out_, {1, 1, 1, 5, 1, 5}, 1e-5f);
  ExpectNear(state_, {5, 1, 5}, 1e-5f);
}

TEST_P(GatedDeltaTest, VectorsWithoutLengthGiveZeros) {
  const GatedDelta::Desc desc = {
      .k_heads = 1, .v_heads = 1, .k_head_dim = 2, .v_head_dim = 1, .block_tokens = 16};
  ASSERT_TRUE(Step(desc, {0, 0, 0, 0, 3}, {0, 0}, 1).ok());
  ExpectNear(out_, {0});
  // A length of 1e-3 is as short as what is added to its square.
  ASSERT_TRUE(Step(desc, {0, 1e-3f, 0, 1e-3f, 2}, {1000, 0}, 1).ok());
  ExpectNear(state_, {0, 2 / std::sqrt(2.0f)}, 1e-5f);
}

TEST_P(GatedDeltaTest, ALongSequenceMatchesDoublePrecision) {
  const GatedDelta::Desc desc = {
      .k_heads = 1, .v_heads = 1, .k_head_dim = 100, .v_head_dim = 70, .block_tokens = 512};
  constexpr int kTokens = 300, kWidth = 2 * 100 + 70;
  TestNoise noise(3);
  std::vector<float> qkv(kTokens * kWidth), ba(kTokens * 2);
  for (float& value : qkv) value = noise.Value();
  for (float& value : ba) value = 4 * noise.Value();
  ASSERT_TRUE(Step(desc, qkv, ba, kTokens, -3.0f).ok());
  std::vector<double> s(100 * 70, 0.0);
  for (int t = 0; t < kTokens; ++t) {
    const float* q = qkv.data() + t * kWidth;
    const float *k = q + 100, *v = k + 100;
    double q_square = 1e-6, k_square = 1e-6;
    for (int i = 0; i < 100; ++i) q_square += q[i] * q[i], k_square += k[i] * k[i];
    const double beta = 1 / (1 + std::exp(-ba[2 * t]));
    const double decay = std::exp(-std::exp(-3.0) * std::log1p(std::exp(ba[2 * t + 1])));
    for (int j = 0; j < 70; ++j) {
      double held = 0, sum = 0;
      for (int i = 0; i < 100; ++i) held += s[i * 70 + j] * decay * k[i] / std::sqrt(k_square);
      for (int i = 0; i < 100; ++i) {
        s[i * 70 + j] = s[i * 70 + j] * decay + k[i] / std::sqrt(k_square) * beta * (v[j] - held);
        sum += s[i * 70 + j] * q[i] / std::sqrt(q_square) / 10;
      }
      EXPECT_NEAR(out_.At(t * 70 + j), sum, 3e-6) << t << " " << j;
    }
  }
}

TEST_P(GatedDeltaTest, ShapesAndOptionsAreChecked) {
  GatedDelta::Desc desc = {
      .k_heads = 2, .v_heads = 3, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 16};
  EXPECT_THAT(Step(desc, std::vector<float>(7), std::vector<float>(6), 1).message(),
              HasSubstr("3 value heads are no multiple of 2 key heads"));
  desc.k_heads = 3;
  EXPECT_THAT(Step(desc, std::vector<float>(7), std::vector<float>(6), 1).message(),
              HasSubstr("qkv is F32 [1, 7], expected F32 [1, 9]"));
  desc.block_tokens = -1;
  EXPECT_THAT(Step(desc, std::vector<float>(9), std::vector<float>(6), 1).message(),
              HasSubstr("block_tokens is -1"));
  desc.block_tokens = 1;
  EXPECT_THAT(Step(desc, std::vector<float>(18), std::vector<float>(12), 2).message(),
              HasSubstr("does not fit 1 blocks of 1"));
}

class SsdTest : public OpTest {
 protected:
  // One sequence of `tokens` tokens from position 0, in block 0.
  Status Step(const Ssd::Desc& desc, const std::vector<float>& vkq, const std::vector<float>& dt,
              int64_t tokens, float a, float skip = 0.0f) {
    vkq_ = Array::Floats(DType::kF32, {tokens, static_cast<int64_t>(vkq.size()) / tokens}, vkq);
    if (desc.steps) dt_ = Array::Floats(DType::kF32, {tokens, desc.v_heads}, dt);
    a_ = Array(DType::kF32, {desc.v_heads});
    a_.Fill(a);
    skip_ = Array(DType::kF32, {desc.v_heads});
    skip_.Fill(skip);
    dt_bias_ = Array(DType::kF32, {desc.v_heads});
    dt_bias_.Fill(bias_);
    state_ = Array(DType::kF32, {1, desc.states * desc.v_heads, desc.k_head_dim, desc.v_head_dim});
    state_.Fill(kNan);
    out_ = Array(DType::kF32, {tokens, int64_t{desc.v_heads} * desc.v_head_dim});
    start_ = Array::Ints({0, static_cast<int32_t>(tokens)});
    context_ = Array::Ints({static_cast<int32_t>(tokens)});
    return Run<Ssd>(desc, {.vkq = vkq_.tensor(),
                           .dt = desc.steps ? dt_.tensor() : Tensor(),
                           .dt_bias = desc.steps ? dt_bias_.tensor() : Tensor(),
                           .a = a_.tensor(),
                           .skip = desc.skip ? skip_.tensor() : Tensor(),
                           .state = state_.tensor(),
                           .query_start = start_.tensor(),
                           .context = context_.tensor(),
                           .block_table = table_.tensor(),
                           .out = out_.tensor()});
  }

  float bias_ = 0.0f;
  Array vkq_, dt_, a_, skip_, dt_bias_, state_, out_, start_, context_;
  Array table_ = Array::Ints({1, 1}, {0});
};
SLUICE_FOR_EACH_INSTRUCTION_SET(SsdTest);

TEST_P(SsdTest, TwoTokensComputedByHand) {
  const Ssd::Desc desc = {
      .k_heads = 1, .v_heads = 1, .k_head_dim = 2, .v_head_dim = 2, .block_tokens = 16};
  // v, k, q. Half of the first token's state is kept.
  ASSERT_TRUE(Step(desc, {3, 5, 1, 2, 10, 1, 1, -1, 4, 0, 1, 100}, {}, 2, std::log(0.5f)).ok());
  ExpectNear(state_, {0.5f * 3 + 4, 0.5f * 5 - 4, 3, 5});
  ExpectNear(out_, {3 * 12, 5 * 12, 5.5f + 300, -1.5f + 500}, 1e-4f);
}

TEST_P(SsdTest, AStepScalesWhatIsLearntAndTheDecayAndNothingOfWhatSkips) {
  const Ssd::Desc desc = {.k_heads = 1,
                          .v_heads = 1,
                          .k_head_dim = 1,
                          .v_head_dim = 1,
                          .block_tokens = 16,
                          .steps = true,
                          .skip = true};
  bias_ = 1.0f;
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const double first = softplus(3.0), second = softplus(-1.0);
  ASSERT_TRUE(Step(desc, {2, 1, 1, 5, 1, 1}, {2, -2}, 2, -0.3f, 10.0f).ok());
  const double behind = first * 2 * std::exp(-0.3 * second) + second * 5;
  ExpectNear(state_, {static_cast<float>(behind)}, 1e-5f);
  ExpectNear(out_, {static_cast<float>(first * 2 + 20), static_cast<float>(behind + 50)}, 1e-4f);
  // Steps that are far from zero are themselves, or nothing.
  ASSERT_TRUE(Step(desc, {2, 1, 1, 5, 1, 1}, {-1000, 1000}, 2, -0.3f).ok());
  ExpectNear(out_, {0, 5 * 1001}, 1e-2f);
}

TEST_P(SsdTest, AStepIsScaledBeforeItsBias) {
  const Ssd::Desc desc = {.k_heads = 1,
                          .v_heads = 1,
                          .k_head_dim = 1,
                          .v_head_dim = 1,
                          .block_tokens = 16,
                          .steps = true,
                          .dt_scale = 0.5f};
  bias_ = 1.0f;
  ASSERT_TRUE(Step(desc, {2, 1, 1}, {-4}, 1, -0.3f).ok());
  ExpectNear(out_, {static_cast<float>(2 * std::log1p(std::exp(-1.0)))}, 1e-6f);
}

TEST_P(SsdTest, ValueHeadsShareKeysOneAfterTheOther) {
  const Ssd::Desc desc = {
      .k_heads = 2, .v_heads = 4, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 16};
  ASSERT_TRUE(Step(desc, {2, 4, 6, 8, 1, 10, 1, 100}, {}, 1, 0.0f).ok());
  ExpectNear(out_, {2, 4, 6000, 8000}, 1e-3f);
}

// Tokens that are taken back leave no trace: behind five of six, and behind three of them.
TEST_P(SsdTest, StatesBehindTheLastTokensAreThoseOfShorterCalls) {
  Ssd::Desc desc = {.k_heads = 2,
                    .v_heads = 4,
                    .k_head_dim = 22,
                    .v_head_dim = 70,
                    .block_tokens = 32,
                    .steps = true,
                    .skip = true};
  constexpr int kTokens = 19, kWidth = 2 * 44 + 4 * 70;
  TestNoise noise(4);
  std::vector<float> vkq(kTokens * kWidth), dt(kTokens * 4);
  for (float& value : vkq) value = noise.Value();
  for (float& value : dt) value = 4 * noise.Value();
  std::vector<Array> behind;
  for (int tokens = 1; tokens <= kTokens; ++tokens) {
    ASSERT_TRUE(Step(desc, {vkq.begin(), vkq.begin() + tokens * kWidth},
                     {dt.begin(), dt.begin() + tokens * 4}, tokens, -0.1f, 0.5f)
                    .ok());
    behind.push_back(state_);
  }
  const Array out = out_;
  desc.states = kTokens;
  ASSERT_TRUE(Step(desc, vkq, dt, kTokens, -0.1f, 0.5f).ok());
  EXPECT_EQ(out_, out);
  const size_t numbers = behind[0].Count();
  for (size_t i = 0; i < state_.Count(); ++i)
    ASSERT_EQ(state_.At(i), behind[i / numbers].At(i % numbers)) << i;
}

TEST_P(SsdTest, ShapesAndOptionsAreChecked) {
  Ssd::Desc desc = {
      .k_heads = 2, .v_heads = 3, .k_head_dim = 1, .v_head_dim = 1, .block_tokens = 16};
  EXPECT_THAT(Step(desc, std::vector<float>(7), {}, 1, 0.0f).message(),
              HasSubstr("3 value heads are no multiple of 2 key heads"));
  desc.v_heads = 4;
  EXPECT_THAT(Step(desc, std::vector<float>(7), {}, 1, 0.0f).message(),
              HasSubstr("vkq is F32 [1, 7], expected F32 [1, 8]"));
  desc.states = 0;
  EXPECT_THAT(Step(desc, std::vector<float>(8), {}, 1, 0.0f).message(), HasSubstr("states is 0"));
  desc.states = 1;
  desc.block_tokens = 1;
  EXPECT_THAT(Step(desc, std::vector<float>(16), {}, 2, 0.0f).message(),
              HasSubstr("does not fit 1 blocks of 1"));
}

class SelectiveScanTest : public OpTest {
 protected:
  // One sequence of `tokens` tokens from position 0, in block 0; numbers by token, A by channel.
  Status Step(const SelectiveScan::Desc& desc, int64_t tokens, const std::vector<float>& x,
              const std::vector<float>& dt, const std::vector<float>& bc,
              const std::vector<float>& a) {
    x_ = Array::Floats(DType::kF32, {tokens, desc.channels}, x);
    dt_ = Array::Floats(DType::kF32, {tokens, desc.channels}, dt);
    bc_ = Array::Floats(DType::kF32, {tokens, static_cast<int64_t>(bc.size()) / tokens}, bc);
    a_ = Array::Floats(DType::kF32, {desc.channels, desc.state_size}, a);
    dt_bias_ = Array(DType::kF32, {desc.channels});
    dt_bias_.Fill(bias_);
    skip_ = Array(DType::kF32, {desc.channels});
    for (int64_t c = 0; c < desc.channels; ++c)
      skip_.Set(static_cast<size_t>(c), skip_factor_ * static_cast<float>(c + 1));
    state_ = Array(DType::kF32, {1, int64_t{desc.states} * desc.state_size, desc.channels});
    state_.Fill(kNan);
    out_ = Array(DType::kF32, {tokens, desc.channels});
    start_ = Array::Ints({0, static_cast<int32_t>(tokens)});
    context_ = Array::Ints({static_cast<int32_t>(tokens)});
    return Run<SelectiveScan>(desc, {.x = x_.tensor(),
                                     .dt = dt_.tensor(),
                                     .bc = bc_.tensor(),
                                     .dt_bias = dt_bias_.tensor(),
                                     .a = a_.tensor(),
                                     .skip = skip_.tensor(),
                                     .state = state_.tensor(),
                                     .query_start = start_.tensor(),
                                     .context = context_.tensor(),
                                     .block_table = table_.tensor(),
                                     .out = out_.tensor()});
  }

  float bias_ = 0.0f, skip_factor_ = 0.0f;
  Array x_, dt_, bc_, a_, skip_, dt_bias_, state_, out_, start_, context_;
  Array table_ = Array::Ints({1, 1}, {0});
};
SLUICE_FOR_EACH_INSTRUCTION_SET(SelectiveScanTest);

// A step of 1 is made of this.
const float kOne = static_cast<float>(std::log(std::exp(1.0) - 1.0));

TEST_P(SelectiveScanTest, TwoTokensComputedByHand) {
  const SelectiveScan::Desc desc = {.channels = 2, .state_size = 2, .block_tokens = 16};
  // Each channel has two numbers, each of which keeps a part of its own.
  const std::vector<float> a = {std::log(0.5f), std::log(0.25f), std::log(0.1f), 0.0f};
  bias_ = kOne;
  ASSERT_TRUE(Step(desc, 2, {3, 5, 4, -2}, {0, 0, 0, 0}, {1, 2, 10, 1, 1, -1, 1, 100}, a).ok());
  // By number, then channel.
  ExpectNear(state_, {0.5f * 3 + 4, 0.1f * 5 - 2, 0.25f * 6 - 4, 10 + 2}, 1e-5f);
  ExpectNear(out_, {30 + 6, 50 + 10, 5.5f + 100 * -2.5f, -1.5f + 100 * 12}, 1e-3f);
}

TEST_P(SelectiveScanTest, AStepOfAChannelScalesWhatItLearnsAndItsDecayAndNothingOfWhatSkips) {
  const SelectiveScan::Desc desc = {.channels = 2, .state_size = 1, .block_tokens = 16};
  bias_ = 1.0f, skip_factor_ = 10.0f;
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  ASSERT_TRUE(Step(desc, 2, {2, 3, 5, 7}, {2, 0, -2, 1}, {1, 1, 1, 1}, {-0.3f, -0.5f}).ok());
  const double first[] = {softplus(3) * 2, softplus(1) * 3};
  const double behind[] = {first[0] * std::exp(-0.3 * softplus(-1)) + softplus(-1) * 5,
                           first[1] * std::exp(-0.5 * softplus(2)) + softplus(2) * 7};
  ExpectNear(state_, {static_cast<float>(behind[0]), static_cast<float>(behind[1])}, 1e-5f);
  ExpectNear(out_,
             {static_cast<float>(first[0] + 20), static_cast<float>(first[1] + 60),
              static_cast<float>(behind[0] + 50), static_cast<float>(behind[1] + 140)},
             1e-4f);
  // Steps that are far from zero are themselves, or nothing.
  skip_factor_ = 0.0f;
  ASSERT_TRUE(Step(desc, 1, {2, 5}, {-1000, 1000}, {1, 1}, {-0.3f, -0.3f}).ok());
  ExpectNear(out_, {0, 5 * 1001}, 1e-2f);
}

// Tokens that are taken back leave no trace: behind each of them.
TEST_P(SelectiveScanTest, StatesBehindTheLastTokensAreThoseOfShorterCalls) {
  SelectiveScan::Desc desc = {.channels = 70, .state_size = 22, .block_tokens = 32};
  constexpr int kTokens = 19, kChannels = 70, kSize = 22;
  TestNoise noise(4);
  const auto numbers = [&](int count, float scale) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = scale * noise.Value();
    return values;
  };
  const std::vector<float> x = numbers(kTokens * kChannels, 1.0f);
  const std::vector<float> dt = numbers(kTokens * kChannels, 4.0f);
  const std::vector<float> bc = numbers(kTokens * 2 * kSize, 1.0f);
  std::vector<float> a = numbers(kChannels * kSize, 0.2f);
  for (float& rate : a) rate = -std::fabs(rate);
  skip_factor_ = 0.1f;
  const auto step = [&](int tokens) {
    return Step(desc, tokens, {x.begin(), x.begin() + tokens * kChannels},
                {dt.begin(), dt.begin() + tokens * kChannels},
                {bc.begin(), bc.begin() + tokens * 2 * kSize}, a);
  };
  std::vector<Array> behind;
  for (int tokens = 1; tokens <= kTokens; ++tokens) {
    ASSERT_TRUE(step(tokens).ok());
    behind.push_back(state_);
  }
  const Array out = out_;
  desc.states = kTokens;
  ASSERT_TRUE(step(kTokens).ok());
  EXPECT_EQ(out_, out);
  const size_t count = behind[0].Count();
  for (size_t i = 0; i < state_.Count(); ++i)
    ASSERT_EQ(state_.At(i), behind[i / count].At(i % count)) << i;
}

TEST_P(SelectiveScanTest, ShapesAndOptionsAreChecked) {
  SelectiveScan::Desc desc = {.channels = 2, .state_size = 3, .block_tokens = 16};
  EXPECT_THAT(Step(desc, 1, {1, 2}, {1, 2}, {1, 2, 3, 4, 5}, std::vector<float>(6)).message(),
              HasSubstr("bc is F32 [1, 5], expected F32 [1, 6]"));
  desc.state_size = 0;
  EXPECT_THAT(Step(desc, 1, {1, 2}, {1, 2}, {}, {}).message(), HasSubstr("state_size is 0"));
}

}  // namespace
}  // namespace sluice::ops
