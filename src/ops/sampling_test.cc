// The sampling op's contract, on every implementation that the device lists.
#include "ops/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "device/resolver.h"
#include "ops/host_array.h"
#include "ops/op_fixture.h"
#include "ops/sampling_rules.h"

namespace sluice::ops {
namespace {

constexpr int kTopMax = 5;

using Logits = std::vector<std::vector<float>>;

struct Top {
  int32_t id;
  float logprob;
  friend bool operator==(const Top&, const Top&) = default;
};

// One call of the op; the test reads the results.
struct SamplingCall {
  Logits logits;
  std::vector<SampleRow> rows;
  std::vector<LogitEdit> edits;
  std::vector<std::vector<uint32_t>> masks;
  std::vector<std::vector<uint32_t>> counts;  // each of the vocabulary's length

  std::vector<SampleOutput> outputs;
  std::vector<Top> tops;             // [rows, kTopMax + 1]
  std::vector<float> distributions;  // [rows that asked, vocab]

  const Top& top(size_t row, int i) const { return tops[row * (kTopMax + 1) + i]; }
};

bool SameBits(const SampleOutput& a, const SampleOutput& b) {
  const auto bits = [](float x) {
    uint32_t word;
    std::memcpy(&word, &x, sizeof(word));
    return word;
  };
  return a.token == b.token && a.degenerate == b.degenerate && a.rank == b.rank &&
         bits(a.logprob) == bits(b.logprob) &&
         bits(a.processed_logprob) == bits(b.processed_logprob);
}

std::vector<double> Softmax(const std::vector<float>& logits, double temperature = 1.0) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) p.push_back(std::exp((x - max) / temperature));
  for (const double x : p) sum += x;
  for (double& x : p) x /= sum;
  return p;
}

// What the filters leave of `p`, renormalised: top-k, renormalise, top-p, min-p; ties by lowest id.
std::vector<double> Filtered(const std::vector<double>& p, int top_k, double top_p, double min_p) {
  std::vector<int> order(p.size());
  for (size_t i = 0; i < p.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return p[a] > p[b]; });
  if (top_k > 0 && top_k < static_cast<int>(order.size())) order.resize(top_k);
  double total = 0, kept = 0, sum = 0;
  for (const int id : order) total += p[id];
  std::vector<double> out(p.size(), 0.0);
  for (const int id : order) {
    if (kept >= top_p * total || p[id] < min_p * p[order[0]]) break;
    kept += p[id];
    out[id] = p[id];
    sum += p[id];
  }
  for (double& x : out) x /= sum;
  return out;
}

// One struct per row, as bytes.
template <class T>
Tensor Structs(std::vector<T>& values) {
  return Dense({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), {}, {}},
               DType::kU8, {static_cast<int64_t>(values.size()), int64_t{sizeof(T)}});
}

class SampleTest : public ::testing::TestWithParam<std::string> {
 protected:
  SampleTest() {
    const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
    device_ = std::move(resolved->Open({}).value());
    stream_ = std::move(device_->CreateStream().value());
  }

  void Run(SamplingCall* call) {
    const int64_t vocab = static_cast<int64_t>(call->logits.front().size());
    const int64_t rows = static_cast<int64_t>(call->rows.size());
    Sample::Desc desc{vocab, kTopMax};
    for (const SampleRow& row : call->rows) desc.filtered |= row.filtered;
    Array logits(DType::kF32, {rows, vocab});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < vocab; ++i) logits.Set(r * vocab + i, call->logits[r][i]);
    }
    const int64_t words = (vocab + 31) / 32;
    Array masks(DType::kI32, {static_cast<int64_t>(call->masks.size()), words});
    for (size_t m = 0; m < call->masks.size(); ++m) {
      for (int64_t w = 0; w < words; ++w) {
        masks.Int(m * words + w) = static_cast<int32_t>(call->masks[m][w]);
      }
    }
    Array counts(DType::kI32, {static_cast<int64_t>(call->counts.size()), vocab});
    for (size_t i = 0; i < counts.Count(); ++i) {
      counts.Int(i) = static_cast<int32_t>(call->counts[i / vocab][i % vocab]);
    }
    int64_t asked = 0;
    for (const SampleRow& row : call->rows) asked += row.distribution_row >= 0;
    Array ids(DType::kI32, {rows, kTopMax + 1}), logprobs(DType::kF32, {rows, kTopMax + 1});
    Array distributions(DType::kF32, {asked, vocab});
    const Array logits_before = logits, masks_before = masks;
    call->outputs.assign(rows, {});
    Sample::Args args;
    args.logits = logits.tensor();
    args.rows = Structs(call->rows);
    if (!call->edits.empty()) args.edits = Structs(call->edits);
    if (!call->counts.empty()) args.counts = counts.tensor();
    if (!call->masks.empty()) args.masks = masks.tensor();
    args.outputs = Structs(call->outputs);
    args.top_ids = ids.tensor();
    args.top_logprobs = logprobs.tensor();
    if (asked > 0) args.distributions = distributions.tensor();
    const Implementation<Sample>* found = nullptr;
    for (const auto& one : device_->ops().List<Sample>()) {
      if (one.name == GetParam()) found = &one;
    }
    ASSERT_NE(found, nullptr);
    ASSERT_TRUE(found->supports(desc, device_->facts()).ok);
    const Status status = found->run(*stream_, desc, args);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(logits.bytes() == logits_before.bytes()) << "the caller's logits changed";
    EXPECT_TRUE(masks.bytes() == masks_before.bytes()) << "the caller's masks changed";
    call->tops.clear();
    for (int64_t i = 0; i < rows * (kTopMax + 1); ++i) {
      call->tops.push_back({ids.Int(i), logprobs.At(i)});
    }
    call->distributions.clear();
    for (int64_t i = 0; i < asked * vocab; ++i) call->distributions.push_back(distributions.At(i));
  }

  // One row.
  SampleOutput One(const std::vector<float>& logits, SampleRow row,
                   const std::vector<LogitEdit>& edits = {},
                   const std::vector<uint32_t>& mask = {}) {
    SamplingCall call{.logits = {logits}, .rows = {}, .edits = edits};
    row.edit_count = static_cast<int32_t>(edits.size());
    if (!mask.empty()) {
      row.mask_row = 0;
      call.masks = {mask};
    }
    call.rows = {row};
    Run(&call);
    return call.outputs.front();
  }

  // How often each token is drawn at `count` positions.
  std::vector<int> Draws(const std::vector<float>& logits, SampleRow row, int count) {
    SamplingCall call;
    for (int i = 0; i < count; ++i) {
      row.position = i;
      call.logits.push_back(logits);
      call.rows.push_back(row);
    }
    Run(&call);
    std::vector<int> counts(logits.size(), 0);
    for (const SampleOutput& output : call.outputs) ++counts[output.token];
    return counts;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
};

std::vector<std::string> Implementations() {
  std::vector<std::string> names = {"any_f32_sample", "ref_sample"};
  for (const std::string& set : UsableInstructionSets()) {
    if (set == "avx2" || set == "avx512") names.push_back(set + "_f32_sample");
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, SampleTest, ::testing::ValuesIn(Implementations()),
                         [](const auto& name) { return name.param; });

TEST_P(SampleTest, TemperatureZeroAndTopKOneGiveTheArgmax) {
  const std::vector<float> logits = {0.5f, 3.0f, -1.0f, 3.0f, 2.0f};  // a tie: the lower id
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(One(logits, {.temperature = 0.0f, .seed = seed}).token, 1);
    EXPECT_EQ(One(logits, {.temperature = 5.0f, .top_k = 1, .seed = seed}).token, 1);
    EXPECT_EQ(One(logits, {.temperature = 0.0f, .seed = seed, .top_logprobs = 2}).token, 1);
  }
}

TEST(UnfilteredTest, ADraftIsDrawnFromAllOfTheSoftmaxAtTheRowsTemperature) {
  const SampleRow row = Unfiltered({.temperature = 0.5f,
                                    .top_k = 7,
                                    .top_p = 0.5f,
                                    .min_p = 0.1f,
                                    .seed = 3,
                                    .choice = -2,
                                    .repetition_penalty = 2.0f,
                                    .presence_penalty = 1.0f,
                                    .frequency_penalty = 1.0f,
                                    .slot = 4});
  EXPECT_EQ(row.temperature, 0.5f);
  EXPECT_EQ(row.seed, 3u);
  EXPECT_EQ(row.choice, -2);
  EXPECT_EQ(row.slot, 4);
  EXPECT_EQ(row.top_k, 0);
  EXPECT_EQ(row.top_p, 1.0f);
  EXPECT_EQ(row.min_p, 0.0f);
  EXPECT_EQ(row.repetition_penalty, 1.0f);
  EXPECT_EQ(row.presence_penalty, 0.0f);
  EXPECT_EQ(row.frequency_penalty, 0.0f);
  EXPECT_TRUE(Unfiltered({.temperature = 0.5f, .top_k = 1}).greedy());
}

TEST_P(SampleTest, TopKKeepsExactlyKTokensOnTies) {
  const std::vector<int> counts =
      Draws(std::vector<float>(8, 1.5f), {.temperature = 1.0f, .top_k = 3, .seed = 4}, 600);
  for (int id = 0; id < 3; ++id) EXPECT_GT(counts[id], 100) << id;
  for (int id = 3; id < 8; ++id) EXPECT_EQ(counts[id], 0) << id;
}

TEST_P(SampleTest, TopKOfZeroOrBelowAndOfTheVocabularyIsOff) {
  const std::vector<float> logits = {0.1f, 0.2f, 0.3f, 0.4f};
  const std::vector<int> off = Draws(logits, {.seed = 9}, 400);
  for (const int32_t k : {-1, std::numeric_limits<int32_t>::min(), 4, 1 << 30}) {
    EXPECT_EQ(Draws(logits, {.top_k = k, .seed = 9}, 400), off) << k;
  }
  for (const int count : off) EXPECT_GT(count, 0);
}

TEST_P(SampleTest, PenaltiesComeBeforeTemperature) {
  // 3 - 1 = 2 < 2.5, but 3 / 0.25 - 1 = 11 > 2.5 / 0.25 = 10.
  EXPECT_EQ(
      One({3.0f, 2.5f}, {.temperature = 0.25f, .top_k = 1}, {{.id = 0, .subtract = 1.0f}}).token,
      1);
}

TEST_P(SampleTest, BiasComesBeforeTheRepetitionPenalty) {
  // (-1 + 2) / 2 = 0.5 > 0.25, but -1 * 2 + 2 = 0 < 0.25.
  EXPECT_EQ(
      One({-1.0f, 0.25f}, {.temperature = 0.0f}, {{.id = 0, .bias = 2.0f, .repetition = 2.0f}})
          .token,
      0);
}

TEST_P(SampleTest, TheRepetitionPenaltyComesBeforeTheSubtractedOnes) {
  // 3 / 2 - 1 = 0.5 < 0.75, but (3 - 1) / 2 = 1 > 0.75.
  EXPECT_EQ(
      One({3.0f, 0.75f}, {.temperature = 0.0f}, {{.id = 0, .repetition = 2.0f, .subtract = 1.0f}})
          .token,
      1);
}

TEST_P(SampleTest, TheRepetitionPenaltyLowersLogitsOfEitherSign) {
  EXPECT_EQ(One({-1.0f, -1.5f}, {.temperature = 0.0f}, {{.id = 0, .repetition = 2.0f}}).token, 1);
  EXPECT_EQ(One({2.0f, 1.5f}, {.temperature = 0.0f}, {{.id = 0, .repetition = 2.0f}}).token, 1);
}

TEST_P(SampleTest, NoBiasBringsABannedOrMaskedTokenBack) {
  EXPECT_EQ(
      One({1.0f, 0.5f}, {.temperature = 0.0f}, {{.id = 0, .bias = 100.0f, .banned = true}}).token,
      1);
  EXPECT_EQ(
      One({1.0f, 0.5f, 0.25f}, {.temperature = 0.0f}, {{.id = 0, .bias = 100.0f}}, {0b110u}).token,
      1);
}

TEST_P(SampleTest, TopPSeesTheProbabilitiesRenormalisedAfterTopK) {
  // 0.4 and 0.3 become 0.57 and 0.43: the first alone reaches 0.55.
  std::vector<float> logits;
  for (const double p : {0.4, 0.3, 0.2, 0.1}) logits.push_back(static_cast<float>(std::log(p)));
  const std::vector<int> counts = Draws(logits, {.top_k = 2, .top_p = 0.55f, .seed = 1}, 200);
  EXPECT_EQ(counts[0], 200);
}

TEST_P(SampleTest, TopPIsReachedByExactlyItsShare) {
  // Two of one half each, and two that cannot come: the first reaches 0.5.
  const std::vector<float> logits = {2.0f, 2.0f, -1e9f, -1e9f};
  EXPECT_EQ(Draws(logits, {.top_p = 0.5f, .seed = 3}, 100)[0], 100);
  EXPECT_GT(Draws(logits, {.top_p = 0.51f, .seed = 3}, 100)[1], 0);
}

TEST_P(SampleTest, TopPAndMinPSeeTheTemperature) {
  const std::vector<float> logits = {5.0f, 0.0f, -0.1f, -0.2f};
  const std::vector<int> top_p = Draws(logits, {.temperature = 100.0f, .top_p = 0.5f}, 400);
  EXPECT_GT(top_p[1], 0);
  EXPECT_EQ(top_p[2] + top_p[3], 0);
  const std::vector<int> min_p = Draws(logits, {.temperature = 100.0f, .min_p = 0.9f}, 400);
  for (const int count : min_p) EXPECT_GT(count, 0);
  EXPECT_EQ(Draws(logits, {.temperature = 1.0f, .min_p = 0.9f}, 400)[0], 400);
}

TEST_P(SampleTest, MasksLeaveOnlyTheirTokens) {
  std::vector<float> logits(70, 1.0f);
  logits[3] = 50.0f;
  const std::vector<uint32_t> mask = {1u << 7, 1u << 1, 1u << 5};  // 7, 33, 69
  std::set<int32_t> seen;
  for (int position = 0; position < 100; ++position) {
    seen.insert(One(logits, {.position = position}, {}, mask).token);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(7, 33, 69));
}

TEST_P(SampleTest, EditsOutsideTheVocabularyAreIgnored) {
  SamplingCall call{
      .logits = {{1, 2, 3}, {3, 2, 1}},
      .rows = {{.temperature = 0.0f, .edit_begin = 0, .edit_count = 3}, {.temperature = 0.0f}},
      .edits = {{.id = -1, .bias = 50.0f}, {.id = 3, .bias = 50.0f}, {.id = 1 << 30}}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 2);
  EXPECT_EQ(call.outputs[1].token, 0);
}

TEST_P(SampleTest, DegenerateRowsReportTheArgmaxAndLeaveTheirNeighboursAlone) {
  struct Bad {
    std::vector<float> logits;
    int32_t argmax;
    bool masked = false;
  };
  const std::vector<Bad> bad = {{{0, 0, 0, 0}, 0},
                                {{-0.0f, 0, -0.0f, 0}, 0},
                                {{1, kNan, 3, 2}, 2},
                                {{kNan, kNan, kNan, kNan}, 0},
                                {{1, kInfinity, 3, kInfinity}, 1},
                                {{kNan, -kInfinity, kInfinity, 0}, 2},
                                {{-kInfinity, -kInfinity, -kInfinity, -kInfinity}, 0},
                                {{-kInfinity, 0, 0, -kInfinity}, 1},
                                {{1, 2, 4, 3}, 2, true}};
  const std::vector<float> good = {0.5f, 1.0f, -2.0f, 0.75f};
  for (const float temperature : {0.0f, 1.0f}) {
    for (const Bad& one : bad) {
      const SampleRow neighbour{.temperature = 0.8f, .top_p = 0.9f, .seed = 3, .top_logprobs = 2};
      SamplingCall alone{.logits = {good}, .rows = {neighbour}};
      Run(&alone);
      SampleRow row{.temperature = temperature, .seed = 12, .top_logprobs = 3};
      if (one.masked) row.mask_row = 0;
      SamplingCall call{.logits = {good, one.logits, good}, .rows = {neighbour, row, neighbour}};
      if (one.masked) call.masks = {{0u}};
      Run(&call);
      SCOPED_TRACE(::testing::PrintToString(one.logits));
      EXPECT_TRUE(call.outputs[1].degenerate);
      EXPECT_EQ(call.outputs[1].token, one.argmax);
      EXPECT_TRUE(std::isfinite(call.outputs[1].logprob));
      EXPECT_TRUE(std::isfinite(call.outputs[1].processed_logprob));
      EXPECT_EQ(call.top(1, 0).id, one.argmax);
      EXPECT_TRUE(std::isfinite(call.top(1, 0).logprob));
      for (const size_t r : {0u, 2u}) {
        EXPECT_TRUE(SameBits(call.outputs[r], alone.outputs[0]));
        for (int i = 0; i < 2; ++i) EXPECT_EQ(call.top(r, i), alone.top(0, i));
      }
    }
  }
}

TEST_P(SampleTest, ARowWithSomeInfinitelyUnlikelyTokensIsNotDegenerate) {
  const SampleOutput output = One({-kInfinity, 1.0f, -kInfinity, -2.0f}, {.top_logprobs = 4});
  EXPECT_FALSE(output.degenerate);
  EXPECT_TRUE(output.token == 1 || output.token == 3);
}

TEST_P(SampleTest, TheBestOfWhatAMaskAllowsHaveTheirRawLogprobs) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 2.0f, -1.0f, 0.0f};
  const std::vector<double> p = Softmax(logits);
  SamplingCall call{
      .logits = {logits, logits},
      .rows = {{.top_allowed = true, .temperature = 0.0f, .mask_row = 0, .top_logprobs = 2},
               {.top_allowed = true, .temperature = 0.0f, .mask_row = 1, .top_logprobs = 4}},
      .masks = {{1u << 0 | 1u << 3 | 1u << 4}, {1u << 4 | 1u << 2}}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 3);
  EXPECT_EQ(call.outputs[0].rank, 0);  // of the three
  EXPECT_NEAR(call.outputs[0].logprob, std::log(p[3]), 1e-5);
  EXPECT_EQ(call.top(0, 0).id, 3);
  EXPECT_EQ(call.top(0, 1).id, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(call.top(0, i).logprob, std::log(p[call.top(0, i).id]), 1e-5);
  }
  // Where less than was asked for is allowed, what stands behind it is told apart.
  EXPECT_EQ(call.top(1, 0).id, 2);
  EXPECT_EQ(call.top(1, 1).id, 4);
  for (int i = 2; i < 4; ++i) EXPECT_EQ(call.top(1, i).logprob, kZeroProbability);
}

TEST_P(SampleTest, LogprobsAreOfTheRawLogitsAndHoldTheChosenToken) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 2.0f, -1.0f, 0.0f};
  const std::vector<double> p = Softmax(logits);
  // Only id 4, the least likely, is allowed; and everything about the draw is changed.
  SamplingCall call{.logits = {logits, logits},
                    .rows = {{.temperature = 0.3f, .top_k = 4, .mask_row = 0, .top_logprobs = 2},
                             {.temperature = 0.0f, .top_logprobs = 3}},
                    .masks = {{1u << 4}}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 4);
  EXPECT_NEAR(call.outputs[0].logprob, std::log(p[4]), 1e-5);
  EXPECT_EQ(call.outputs[0].rank, 5);
  EXPECT_NEAR(call.outputs[0].processed_logprob, 0.0, 1e-6);  // it is all that the mask left
  EXPECT_EQ(call.top(0, 0).id, 1);
  EXPECT_EQ(call.top(0, 1).id, 2);  // a tie with 3
  EXPECT_EQ(call.top(0, 2).id, 4);  // outside the two best, still there
  EXPECT_EQ(call.top(0, 2).logprob, call.outputs[0].logprob);
  EXPECT_EQ(call.outputs[1].rank, 0);
  EXPECT_EQ(call.top(1, 2).id, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(call.top(1, i).logprob, std::log(p[call.top(1, i).id]), 1e-5);
  }
}

TEST_P(SampleTest, ProcessedLogprobIsAfterPenaltiesMasksAndTemperatureBeforeTheFilters) {
  const std::vector<float> logits = {1.0f, 2.0f, 0.5f, 1.5f};
  // 2 - 1.5 = 0.5 for id 1; id 0 is masked.
  const std::vector<double> p = Softmax({-kInfinity, 0.5f, 0.5f, 1.5f}, 0.5);
  const SampleOutput output =
      One(logits, {.temperature = 0.5f, .top_k = 1, .top_p = 0.1f, .top_logprobs = 0},
          {{.id = 1, .subtract = 1.5f}}, {0b1110u});
  EXPECT_EQ(output.token, 3);
  EXPECT_NEAR(output.processed_logprob, std::log(p[3]), 1e-5);
}

TEST_P(SampleTest, AVanishingTemperatureIsGreedyAndItsLogprobFinite) {
  for (const float temperature : {1e-30f, 1e-40f, std::numeric_limits<float>::denorm_min()}) {
    const SampleOutput output =
        One({7.0f, 900.0f, 3.0f}, {.temperature = temperature, .top_logprobs = 0});
    EXPECT_EQ(output.token, 1);
    EXPECT_NEAR(output.processed_logprob, 0.0f, 1e-6);
  }
}

TEST_P(SampleTest, ScoresOfKnownTokensDrawNothing) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -kInfinity};
  const std::vector<double> p = Softmax(logits);
  const SampleOutput second =
      One(logits, {.draw = false, .target = 2, .temperature = 0.0f, .top_logprobs = 0});
  EXPECT_EQ(second.token, 2);
  EXPECT_EQ(second.rank, 1);
  EXPECT_NEAR(second.logprob, std::log(p[2]), 1e-5);
  EXPECT_TRUE(std::isfinite(One(logits, {.draw = false, .target = 3, .top_logprobs = 0}).logprob));
}

TEST_P(SampleTest, DistributionsAreTheRawLogSoftmaxWhateverTheFilters) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f};
  SamplingCall call{.logits = {logits, logits, std::vector<float>(4, kNan)},
                    .rows = {{.temperature = 0.2f, .top_k = 2, .seed = 5},
                             {.temperature = 0.2f, .top_k = 2, .seed = 5, .distribution_row = 0},
                             {.distribution_row = 1}}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, call.outputs[1].token);
  const std::vector<double> p = Softmax(logits);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(call.distributions[i], std::log(p[i]), 1e-5);
  // A degenerate row has no distribution; what comes back is defined all the same.
  for (int i = 4; i < 8; ++i) EXPECT_LT(call.distributions[i], -1000.0f);
}

TEST_P(SampleTest, FilteredDistributionsAreWhatTokensAreDrawnFrom) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f, 0.5f};
  const auto told = [&](SampleRow row, std::vector<LogitEdit> edits = {},
                        std::vector<uint32_t> mask = {}) {
    SamplingCall call{.logits = {logits, logits}, .edits = edits};
    row.edit_count = static_cast<int32_t>(edits.size());
    if (!mask.empty()) {
      call.masks = {mask};
      row.mask_row = 0;
    }
    row.seed = 5;
    SampleRow plain = row;
    row.distribution_row = 0;
    row.filtered = true;
    call.rows = {plain, row};
    Run(&call);
    EXPECT_EQ(call.outputs[0].token, call.outputs[1].token);
    EXPECT_EQ(call.outputs[0].degenerate, call.outputs[1].degenerate);
    std::vector<double> p;
    for (const float logprob : call.distributions) p.push_back(std::exp(logprob));
    return p;
  };
  const auto near = [](const std::vector<double>& p, const std::vector<double>& expected) {
    ASSERT_EQ(p.size(), expected.size());
    for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], expected[i], 1e-5) << i;
  };
  near(told({}), Softmax(logits));
  near(told({.temperature = 0.5f}), Softmax(logits, 0.5));
  // Of the likeliest two the others' share is theirs.
  const double two = std::exp(3.0) + std::exp(2.0);
  near(told({.top_k = 2}), {0, std::exp(3.0) / two, std::exp(2.0) / two, 0, 0});
  near(told({.top_p = 0.8f}), {0, std::exp(3.0) / two, std::exp(2.0) / two, 0, 0});
  near(told({.min_p = 0.3f}), {0, std::exp(3.0) / two, std::exp(2.0) / two, 0, 0});
  near(told({.temperature = 0.0f}), {0, 1, 0, 0, 0});
  near(told({.top_k = 1}), {0, 1, 0, 0, 0});
  // Edits and masks come first.
  std::vector<float> edited = logits;
  edited[0] += 4.0f;
  near(told({}, {{.id = 0, .bias = 4.0f}}), Softmax(edited));
  near(told({.temperature = 0.0f}, {{.id = 0, .bias = 4.0f}}), {1, 0, 0, 0, 0});
  near(told({.top_k = 2}, {}, {0b10101}), {std::exp(1.0) / (std::exp(1.0) + std::exp(2.0)), 0,
                                           std::exp(2.0) / (std::exp(1.0) + std::exp(2.0)), 0, 0});
  near(told({}, {}, {0}), {0, 0, 0, 0, 0});  // nothing may be drawn
}

TEST_P(SampleTest, EqualKeysDrawEqualTokensAndEveryPartOfTheKeyCounts) {
  const std::vector<float> logits(64, 1.0f);
  const auto tokens = [&](uint64_t seed, int32_t choice, int64_t first) {
    SamplingCall call;
    for (int64_t i = 0; i < 32; ++i) {
      call.logits.push_back(logits);
      call.rows.push_back({.seed = seed, .choice = choice, .position = first + i});
    }
    Run(&call);
    std::vector<int32_t> drawn;
    for (const SampleOutput& output : call.outputs) drawn.push_back(output.token);
    return drawn;
  };
  const std::vector<int32_t> base = tokens(7, 0, 0);
  EXPECT_EQ(tokens(7, 0, 0), base);
  EXPECT_NE(tokens(8, 0, 0), base);
  EXPECT_NE(tokens(uint64_t{7} | uint64_t{1} << 60, 0, 0), base);
  EXPECT_NE(tokens(7, 1, 0), base);
  EXPECT_NE(tokens(7, 0, 1000), base);
  EXPECT_GT(std::set<int32_t>(base.begin(), base.end()).size(), 10u);
}

TEST_P(SampleTest, DrawsFollowTheFilteredSoftmax) {
  TestNoise noise(11);
  std::vector<float> logits;
  for (int i = 0; i < 40; ++i) logits.push_back(2.0f * noise.Value());
  struct Filter {
    float temperature;
    int top_k;
    float top_p, min_p;
  };
  for (const Filter& f : {Filter{1.0f, 0, 1.0f, 0.0f}, Filter{0.7f, 25, 1.0f, 0.0f},
                          Filter{1.3f, 0, 0.8f, 0.0f}, Filter{1.0f, 30, 0.9f, 0.1f}}) {
    constexpr int kDraws = 20000;
    const std::vector<int> counts = Draws(logits,
                                          {.temperature = f.temperature,
                                           .top_k = f.top_k,
                                           .top_p = f.top_p,
                                           .min_p = f.min_p,
                                           .seed = 77},
                                          kDraws);
    const std::vector<double> p =
        Filtered(Softmax(logits, f.temperature), f.top_k, f.top_p, f.min_p);
    double chi = 0;
    int cells = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0.0) {
        EXPECT_EQ(counts[i], 0) << i;
        continue;
      }
      const double expected = p[i] * kDraws;
      chi += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++cells;
    }
    // Five standard deviations above the mean of the chi-square distribution.
    EXPECT_LT(chi, cells + 5.0 * std::sqrt(2.0 * cells)) << "top_p " << f.top_p;
  }
}

TEST_P(SampleTest, TopPOverAVocabularyLargerThanAnyPartialSort) {
  TestNoise noise(5);
  std::vector<float> logits;
  for (int i = 0; i < 3000; ++i) logits.push_back(0.5f * noise.Value());
  const std::vector<double> p = Filtered(Softmax(logits), 0, 0.6, 0.0);
  const std::vector<int> counts = Draws(logits, {.top_p = 0.6f, .seed = 2}, 3000);
  int outside = 0, inside = 0;
  for (size_t i = 0; i < p.size(); ++i) (p[i] > 0 ? inside : outside) += counts[i];
  EXPECT_LE(outside, 3);  // at the very edge the sums may round another way
  EXPECT_GE(inside, 2997);
}

TEST_P(SampleTest, ARowGivesTheSameBitsAloneAndInAnyBatch) {
  TestNoise noise(21);
  SamplingCall batch;
  for (int r = 0; r < 48; ++r) {
    std::vector<float> logits;
    for (int i = 0; i < 300; ++i) logits.push_back(4.0f * noise.Value());
    if (r % 11 == 5) logits[r] = kNan;
    SampleRow row{.temperature = r % 5 == 0 ? 0.0f : 0.5f + 0.1f * static_cast<float>(r % 7),
                  .top_k = static_cast<int32_t>(noise.Below(40)) - 5,
                  .top_p = r % 3 == 0 ? 1.0f : 0.85f,
                  .min_p = r % 4 == 0 ? 0.05f : 0.0f,
                  .seed = noise.Next(),
                  .choice = r % 3,
                  .position = noise.Below(1000),
                  .top_logprobs = static_cast<int32_t>(noise.Below(kTopMax + 2)) - 1};
    row.edit_begin = static_cast<int32_t>(batch.edits.size());
    row.edit_count = r % 4;
    for (int e = 0; e < row.edit_count; ++e) {
      batch.edits.push_back({.id = 10 * e + r, .bias = 1.0f, .repetition = 1.2f, .subtract = 0.3f});
    }
    if (r % 6 == 1) {
      row.mask_row = static_cast<int32_t>(batch.masks.size());
      batch.masks.push_back(std::vector<uint32_t>(10, static_cast<uint32_t>(noise.Next()) | 1u));
    }
    batch.logits.push_back(std::move(logits));
    batch.rows.push_back(row);
  }
  Run(&batch);
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    SampleRow row = batch.rows[r];
    SamplingCall alone{.logits = {batch.logits[r]}, .rows = {}};
    alone.edits.assign(batch.edits.begin() + row.edit_begin,
                       batch.edits.begin() + row.edit_begin + row.edit_count);
    row.edit_begin = 0;
    if (row.mask_row >= 0) alone.masks = {batch.masks[row.mask_row]};
    if (row.mask_row >= 0) row.mask_row = 0;
    alone.rows = {row};
    Run(&alone);
    EXPECT_TRUE(SameBits(alone.outputs[0], batch.outputs[r])) << r;
    const int tops = batch.outputs[r].degenerate ? 1 : row.top_logprobs;
    for (int i = 0; row.top_logprobs >= 0 && i < tops; ++i) {
      EXPECT_EQ(alone.top(0, i), batch.top(r, i)) << r;
    }
  }
}

// What the counts of id 0 take from its logit of 8 shows in which of the others is the best.
TEST_P(SampleTest, CountsArePenalisedByWhereAndHowOften) {
  const std::vector<float> logits = {8.0f, 7.5f, 6.5f, 5.5f, 4.5f, 3.5f, 2.5f, 1.5f};
  const auto best = [&](uint32_t count, SampleRow row) {
    row.temperature = 0.0f;
    row.counts_row = 1;
    SamplingCall call{.logits = {logits}, .rows = {row}};
    call.counts = {{9, 9, 9, 9, 9, 9, 9, 9}, {count, 0, 0, 0, 0, 0, 0, 0}};
    Run(&call);
    return call.outputs[0].token;
  };
  const SampleRow repetition = {.repetition_penalty = 2.0f};  // 8 / 2 = 4
  EXPECT_EQ(best(0, repetition), 0);
  EXPECT_EQ(best(1, repetition), 1);
  EXPECT_EQ(best(kInPrompt, repetition), 1);
  const SampleRow presence = {.presence_penalty = 1.0f};
  EXPECT_EQ(best(kInPrompt, presence), 0);
  EXPECT_EQ(best(kInPrompt + 1, presence), 1);
  const SampleRow frequency = {.frequency_penalty = 0.2f};
  EXPECT_EQ(best(kInPrompt, frequency), 0);
  EXPECT_EQ(best(2, frequency), 0);  // 7.6
  EXPECT_EQ(best(3, frequency), 1);  // 7.4
}

TEST_P(SampleTest, CountsAndEditsOfOneIdAreOneEdit) {
  // (-1 + 2) / 2 - 0.25 = 0.25 > 0.125; in any other order it is below.
  const SampleRow row = {.temperature = 0.0f,
                         .edit_count = 1,
                         .counts_row = 0,
                         .repetition_penalty = 2.0f,
                         .presence_penalty = 0.25f};
  SamplingCall call{.logits = {{-1.0f, 0.125f}}, .rows = {row}, .edits = {{.id = 0, .bias = 2.0f}}};
  call.counts = {{1, 0}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 0);
  call.edits[0].banned = true;
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 1);
}

TEST_P(SampleTest, DraftsBeforeARowCountAsDrawn) {
  const std::vector<float> logits = {4.0f, 3.5f, 2.5f, 1.5f};
  SamplingCall call;
  for (int32_t drafts = 0; drafts < 4; ++drafts) {
    call.logits.push_back(logits);
    call.rows.push_back({.target = drafts == 1 ? 1 : 0,
                         .temperature = 0.0f,
                         .counts_row = 0,
                         .frequency_penalty = 1.0f,
                         .drafts = drafts});
  }
  call.counts = {{0, 0, 0, 0}};
  Run(&call);  // before the rows: nothing; 0; 0 and 1; 0 twice and 1
  const int32_t expected[] = {0, 1, 0, 1};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(call.outputs[i].token, expected[i]) << i;
  EXPECT_EQ(call.counts[0], std::vector<uint32_t>(4, 0u));
}

TEST_P(SampleTest, ARowWithoutCountsHasNoPenalties) {
  const SampleRow row = {.temperature = 0.0f,
                         .repetition_penalty = 9.0f,
                         .presence_penalty = 2.0f,
                         .frequency_penalty = 2.0f};
  SamplingCall call{.logits = {{2.0f, 1.0f}}, .rows = {row}};
  call.counts = {{7, 0}};
  Run(&call);
  EXPECT_EQ(call.outputs[0].token, 0);
}

}  // namespace
}  // namespace sluice::ops
