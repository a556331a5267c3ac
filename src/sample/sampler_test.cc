// The sampler over whole plans: entries, slots, verification, scores and what a step result holds.
#include "sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "batch/mask_fixture.h"
#include "device/resolver.h"
#include "ops/op_fixture.h"
#include "ops/queued_device_fixture.h"

namespace sluice::sample {
namespace {

using batch::BatchPlan;
using batch::LogitsRow;
using batch::RowPurpose;
using batch::RowStatus;
using batch::StepResult;

constexpr int64_t kVocab = 40;

// Allows these tokens alone to one sequence.
batch::TestMasks Only(batch::SequenceId sequence, std::vector<int32_t> allowed) {
  batch::TestMasks masks = batch::Allowing(std::move(allowed));
  masks.has = [sequence](const batch::PlanEntry& entry) { return entry.sequence == sequence; };
  return masks;
}

// The parameter is a device: the CPU, or one that the host cannot look into, with memory that can
// be pinned for it or without.
class SamplerTest : public ::testing::TestWithParam<std::string> {
 protected:
  SamplerTest() {
    if (GetParam() == "cpu") {
      const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
      device_ = std::move(resolved->Open({}).value());
    } else {
      ops::QueuedDevice::Options options;
      options.pinned_memory = GetParam() == "pinned";
      device_ = std::make_unique<ops::QueuedDevice>(options);
    }
    stream_ = std::move(device_->CreateStream().value());
    Restart();
  }

  // Without memory for counts half of the slots have some.
  void Restart(size_t counts_bytes_max = 1 << 20) {
    auto sampler = Sampler::Make(*device_, {.vocab = kVocab,
                                            .slots = 8,
                                            .rows_max = 16,
                                            .top_logprobs_max = 4,
                                            .counts_bytes_max = counts_bytes_max});
    ASSERT_TRUE(sampler.ok()) << sampler.status().message();
    sampler_ = std::move(sampler).value();
    built_ = std::move(sampler_->MakeStep().value());
    step_ = 0;
  }

  // An entry of `rows` query tokens, each with logits; row i is one of `rows`.
  void AddEntry(batch::SequenceId sequence, int slot, int first, std::vector<LogitsRow> rows) {
    batch::PlanEntry entry;
    entry.sequence = sequence;
    entry.slot = slot;
    entry.first_position = first;
    entry.query_tokens = static_cast<int32_t>(rows.size());
    entry.token_begin = static_cast<int32_t>(plan_.tokens.size());
    entry.logits_begin = static_cast<int32_t>(plan_.logits_rows.size());
    entry.logits_count = static_cast<int32_t>(rows.size());
    for (LogitsRow row : rows) {
      row.token = static_cast<int32_t>(plan_.tokens.size());
      plan_.tokens.push_back(0);
      plan_.logits_rows.push_back(row);
    }
    plan_.entries.push_back(entry);
  }
  void Start(int slot, const batch::SamplingParams& sampling, std::vector<int32_t> prompt = {0}) {
    batch::SlotStart start;
    start.slot = slot;
    start.sampling = sampling;
    start.prompt_tokens = static_cast<int32_t>(prompt.size());
    start.history = std::move(prompt);
    plan_.starts.push_back(start);
  }

  // `values`, or a copy in the device's memory.
  ops::Tensor OnDevice(const ops::Array& values, device::Buffer* copy) {
    ops::Tensor tensor = values.tensor();
    if (!device_->facts().device_memory || tensor.size() == 0) return tensor;
    const size_t bytes = static_cast<size_t>(tensor.size()) * sizeof(float);
    *copy = std::move(device_->Allocate(bytes, device::MemoryKind::kDevice).value());
    const device::CopyItem item{copy->view(), {tensor.data, bytes}};
    EXPECT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    return ops::Dense(copy->view(), DType::kF32, {tensor.dims[0], tensor.dims[1]});
  }
  // Runs the plan over `logits`, one vector per row, and begins the next.
  Result<StepResult> TryRun(const std::vector<std::vector<float>>& logits,
                            const batch::TestMasks* masks = nullptr) {
    plan_.step = ++step_;
    if (masks != nullptr) batch::MarkMasked(*masks, &plan_);
    ops::Array values(DType::kF32, {static_cast<int64_t>(logits.size()), kVocab});
    for (size_t r = 0; r < logits.size(); ++r) {
      for (int64_t i = 0; i < kVocab; ++i) values.Set(r * kVocab + i, logits[r][i]);
    }
    const ops::Array before = values;
    StepResult result;
    sampler_->Begin(plan_);
    sampler_->Build(plan_, &built_);
    Status status;
    batch::MaskSet set;
    if (built_.waits()) {
      set = batch::MasksOf(*masks, plan_, kVocab);
      if (spoil_masks_) set.words.pop_back();
      status = sampler_->TakeMasks(plan_, set, &built_);
    }
    device::Buffer copy;
    if (status.ok()) status = sampler_->Run(*stream_, OnDevice(values, &copy), &built_);
    if (status.ok()) status = stream_->Synchronize();
    if (status.ok() && lose_results_) status = Status(StatusCode::kDevice, "the results are lost");
    status.ok() ? sampler_->Collect(plan_, built_, &result) : sampler_->Drop(plan_, built_);
    EXPECT_TRUE(values.bytes() == before.bytes()) << "the logits changed";
    plan_ = {};
    if (!status.ok()) return status;
    return result;
  }
  StepResult Run(const std::vector<std::vector<float>>& logits,
                 const batch::TestMasks* masks = nullptr) {
    auto result = TryRun(logits, masks);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : StepResult();
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<Sampler> sampler_;
  Sampler::Step built_;  // of tests that have one step at a time
  BatchPlan plan_;
  uint64_t step_ = 0;
  bool spoil_masks_ = false, lose_results_ = false;
};

// Logits whose argmax is `best` and whose runner-up is `second`.
std::vector<float> Peak(int32_t best, int32_t second = -1) {
  std::vector<float> logits(kVocab, 0.25f);
  logits[best] = 6.0f;
  if (second >= 0) logits[second] = 5.0f;
  return logits;
}

std::vector<float> Noise(uint64_t seed) {
  ops::TestNoise noise(seed);
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocab; ++i) logits.push_back(2.0f * noise.Value());
  return logits;
}

batch::SamplingParams Greedy() {
  batch::SamplingParams params;
  params.temperature = 0.0f;
  return params;
}

LogitsRow Sample() { return {}; }
LogitsRow Verify(int32_t target) { return {.target = target, .purpose = RowPurpose::kVerify}; }
LogitsRow Score(int32_t target) { return {.target = target, .purpose = RowPurpose::kScore}; }

std::vector<int32_t> Ids(const StepResult& result, size_t entry) {
  std::vector<int32_t> ids;
  const batch::ResultEntry& out = result.entries[entry];
  for (int i = 0; i < out.token_count; ++i) ids.push_back(result.tokens[out.token_begin + i].id);
  return ids;
}

TEST_P(SamplerTest, EveryEntryGetsItsOwnRowsAndAChunkWithoutRowsGetsNone) {
  Start(0, Greedy());
  Start(3, Greedy());
  AddEntry(11, 0, 4, {Sample()});
  AddEntry(12, 5, 0, {});
  AddEntry(13, 3, 7, {Sample()});
  const StepResult result = Run({Peak(9), Peak(30)});
  ASSERT_EQ(result.entries.size(), 3u);
  EXPECT_EQ(result.step, 1u);
  EXPECT_EQ(result.entries[1].sequence, 12u);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(9));
  EXPECT_TRUE(Ids(result, 1).empty());
  EXPECT_THAT(Ids(result, 2), ::testing::ElementsAre(30));
}

TEST_P(SamplerTest, AnEmptyPlanGivesAnEmptyResult) {
  const StepResult result = Run({});
  EXPECT_EQ(result.step, 1u);
  EXPECT_TRUE(result.entries.empty());
  EXPECT_TRUE(result.tokens.empty());
}

TEST_P(SamplerTest, DrawnTokensAreCountedByTheNextStepsPenalties) {
  batch::SamplingParams params = Greedy();
  params.frequency_penalty = 2.0f;
  Start(1, params);
  AddEntry(1, 1, 0, {Sample()});
  EXPECT_THAT(Ids(Run({Peak(7, 8)}), 0), ::testing::ElementsAre(7));
  AddEntry(1, 1, 1, {Sample()});  // 6 - 2 < 5
  EXPECT_THAT(Ids(Run({Peak(7, 8)}), 0), ::testing::ElementsAre(8));
}

TEST_P(SamplerTest, LogprobsComeOnlyWhereAskedFor) {
  batch::SamplingParams params = Greedy();
  params.top_logprobs = 2;
  Start(0, params);
  Start(1, Greedy());
  AddEntry(1, 0, 0, {Sample()});
  AddEntry(2, 1, 0, {Sample()});
  const StepResult result = Run({Peak(7, 8), Peak(9)});
  const batch::ResultToken& asked = result.tokens[0];
  ASSERT_EQ(asked.top_count, 2);
  EXPECT_EQ(result.top[asked.top_begin].id, 7);
  EXPECT_EQ(result.top[asked.top_begin].logprob, asked.logprob);
  EXPECT_EQ(result.top[asked.top_begin + 1].id, 8);
  EXPECT_LT(asked.logprob, 0.0f);
  EXPECT_EQ(result.tokens[1].top_count, 0);
  EXPECT_EQ(result.tokens[1].logprob, 0.0f);
  EXPECT_EQ(result.top.size(), 2u);
}

TEST_P(SamplerTest, TheChosenTokenIsAmongTheTopOnesAlsoWhenNoneOfThemWasAllowed) {
  for (const int k : {0, 1, 3, 4, 20}) {  // 20 is cut to the most that the sampler gives
    batch::SamplingParams params = Greedy();
    params.top_logprobs = k;
    Start(0, params);
    AddEntry(5, 0, k, {Sample()});
    const batch::TestMasks mask = Only(5, {33});
    const StepResult result = Run({Peak(7, 8)}, &mask);
    const batch::ResultToken& token = result.tokens[0];
    EXPECT_EQ(token.id, 33);
    ASSERT_EQ(token.top_count, std::min(k, 4) + 1);
    const batch::TokenLogprob& last = result.top[token.top_begin + token.top_count - 1];
    EXPECT_EQ(last.id, 33);
    EXPECT_EQ(last.logprob, token.logprob);
    EXPECT_TRUE(std::isfinite(last.logprob));
    EXPECT_EQ(token.rank, 33);  // 7, 8 and the equal ones of lower ids, which are 31
  }
}

TEST_P(SamplerTest, AMaskTouchesItsSequenceAloneAndWrongOnesAreRefused) {
  Start(0, Greedy());
  Start(1, Greedy());
  AddEntry(5, 0, 0, {Sample()});
  AddEntry(6, 1, 0, {Sample()});
  const batch::TestMasks mask = Only(6, {20});
  const StepResult result = Run({Peak(7), Peak(7)}, &mask);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(7));
  EXPECT_THAT(Ids(result, 1), ::testing::ElementsAre(20));
  spoil_masks_ = true;
  AddEntry(6, 1, 1, {Sample()});
  EXPECT_EQ(TryRun({Peak(7)}, &mask).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(SamplerTest, AMaskThatAllowsNothingEndsItsRequestAlone) {
  Start(0, Greedy());
  Start(1, Greedy());
  AddEntry(5, 0, 0, {Sample()});
  AddEntry(6, 1, 0, {Sample()});
  const batch::TestMasks mask = Only(5, {});
  const StepResult result = Run({Peak(7), Peak(9)}, &mask);
  EXPECT_EQ(result.entries[0].status, RowStatus::kDegenerate);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(7));
  EXPECT_EQ(result.entries[1].status, RowStatus::kOk);
  EXPECT_THAT(Ids(result, 1), ::testing::ElementsAre(9));
}

TEST_P(SamplerTest, ADegenerateRowIsReportedAndItsNeighbourIsNot) {
  Start(0, Greedy());
  Start(1, Greedy());
  AddEntry(5, 0, 0, {Sample()});
  AddEntry(6, 1, 0, {Sample()});
  std::vector<float> bad = Peak(12);
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  const StepResult result = Run({bad, Peak(9)});
  EXPECT_EQ(result.entries[0].status, RowStatus::kDegenerate);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(12));
  EXPECT_EQ(result.entries[1].status, RowStatus::kOk);
}

// What stands in the buffers from the step before is not shown as a log-prob of the failed row.
TEST_P(SamplerTest, ADegenerateRowShowsItsTokenAlone) {
  batch::SamplingParams params = Greedy();
  params.top_logprobs = 3;
  Start(0, params);
  AddEntry(5, 0, 0, {Sample()});
  Run({Peak(7, 8)});
  std::vector<float> bad = Peak(12);
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  AddEntry(5, 0, 1, {Sample()});
  const StepResult result = Run({bad});
  const batch::ResultToken& token = result.tokens[0];
  EXPECT_EQ(token.id, 12);
  ASSERT_EQ(token.top_count, 1);
  EXPECT_EQ(result.top[token.top_begin].id, 12);
  EXPECT_EQ(result.top[token.top_begin].logprob, token.logprob);
  EXPECT_TRUE(std::isfinite(token.logprob));
}

TEST_P(SamplerTest, VerificationKeepsTheAcceptedDraftsAndOneMore) {
  Start(0, Greedy());
  Start(1, Greedy());
  Start(2, Greedy());
  AddEntry(1, 0, 5, {Verify(7), Verify(8), Sample()});  // all accepted
  AddEntry(2, 1, 5, {Verify(7), Verify(8), Sample()});  // the second is refused
  AddEntry(3, 2, 5, {Verify(7), Verify(8), Sample()});  // the first is
  const StepResult result =
      Run({Peak(7), Peak(8), Peak(9), Peak(7), Peak(10), Peak(9), Peak(11), Peak(8), Peak(9)});
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(7, 8, 9));
  EXPECT_THAT(Ids(result, 1), ::testing::ElementsAre(7, 10));
  EXPECT_THAT(Ids(result, 2), ::testing::ElementsAre(11));
}

TEST_P(SamplerTest, RowsPastTheAcceptedLengthDoNotCountDegenerateOrNot) {
  const std::vector<float> bad(kVocab, 0.0f);
  Start(0, Greedy());
  Start(1, Greedy());
  AddEntry(1, 0, 5, {Verify(7), Verify(8), Sample()});
  AddEntry(2, 1, 5, {Verify(7), Verify(0), Sample()});
  const StepResult result = Run({Peak(9), bad, bad, Peak(7), bad, Peak(9)});
  EXPECT_EQ(result.entries[0].status, RowStatus::kOk);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(9));
  // Here the bad row is reached. Its argmax equals the draft, but nothing may follow it.
  EXPECT_EQ(result.entries[1].status, RowStatus::kDegenerate);
  EXPECT_THAT(Ids(result, 1), ::testing::ElementsAre(7, 0));
}

// Drafts that a request refuses must leave no trace in its penalties, and accepted ones must count.
TEST_P(SamplerTest, VerifyingEqualsOneByOneDecoding) {
  batch::SamplingParams params;
  params.temperature = 0.9f;
  params.seed = 31;
  params.frequency_penalty = 1.5f;
  params.repetition_penalty = 1.3f;
  params.no_repeat_ngram = 2;
  params.min_tokens = 4;
  params.end_ids = {1, 2, 3};
  params.top_logprobs = 3;
  constexpr int kTokens = 24;
  std::vector<std::vector<float>> logits;
  for (int i = 0; i < kTokens + 3; ++i) logits.push_back(Noise(100 + i % 4));

  std::vector<batch::ResultToken> one_by_one;
  Start(2, params);
  for (int i = 0; i < kTokens; ++i) {
    AddEntry(1, 2, i, {Sample()});
    const StepResult result = Run({logits[i]});
    one_by_one.push_back(result.tokens.front());
  }

  Restart();
  Start(6, params);
  std::vector<batch::ResultToken> verified;
  size_t steps = 0;
  while (verified.size() < kTokens) {
    const size_t at = verified.size();
    // The first draft is right, the second wrong every other time.
    const auto draft = [&](size_t i) { return i < one_by_one.size() ? one_by_one[i].id : 0; };
    const int32_t second = (draft(at + 1) + static_cast<int32_t>(steps % 2)) % kVocab;
    AddEntry(1, 6, static_cast<int>(at), {Verify(draft(at)), Verify(second), Sample()});
    const StepResult result = Run({logits[at], logits[at + 1], logits[at + 2]});
    verified.insert(verified.end(), result.tokens.begin(), result.tokens.end());
    ++steps;
  }
  EXPECT_LT(steps, static_cast<size_t>(kTokens));
  for (size_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(verified[i].id, one_by_one[i].id) << i;
    EXPECT_EQ(verified[i].logprob, one_by_one[i].logprob) << i;
    EXPECT_EQ(verified[i].rank, one_by_one[i].rank) << i;
  }
}

TEST_P(SamplerTest, ScoresComeBesideTheDrawnToken) {
  batch::SamplingParams params = Greedy();
  params.prompt_top_logprobs = 1;
  params.frequency_penalty = 2.0f;  // prompt scores are of the raw logits
  Start(0, params, {4, 7, 9});
  AddEntry(1, 0, 0, {Score(7), Score(9), Sample()});
  const StepResult result = Run({Peak(7), Peak(20, 9), Peak(30)});
  ASSERT_EQ(result.entries[0].score_count, 2);
  EXPECT_EQ(result.scores[0].id, 7);
  EXPECT_EQ(result.scores[0].rank, 0);
  EXPECT_EQ(result.scores[0].top_count, 1);
  EXPECT_EQ(result.scores[1].id, 9);
  EXPECT_EQ(result.scores[1].rank, 1);
  EXPECT_EQ(result.scores[1].top_count, 2);
  EXPECT_EQ(result.top[result.scores[1].top_begin].id, 20);
  EXPECT_NEAR(result.top[result.scores[1].top_begin].logprob - result.scores[1].logprob, 1.0, 1e-5);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(30));
  // Scored tokens are not drawn ones.
  AddEntry(1, 0, 3, {Sample()});
  EXPECT_THAT(Ids(Run({Peak(7)}), 0), ::testing::ElementsAre(7));
}

TEST_P(SamplerTest, DistributionsComeForTheRowsThatAsk) {
  batch::SamplingParams params = Greedy();
  params.distribution = Distribution::kRaw;
  Start(0, Greedy());
  Start(1, params);
  AddEntry(1, 0, 0, {Sample()});
  AddEntry(2, 1, 0, {Sample()});
  StepResult result = Run({Peak(7), Peak(9)});
  ASSERT_EQ(result.distributions.size(), static_cast<size_t>(kVocab));
  double sum = 0;
  for (const float logprob : result.distributions) sum += std::exp(logprob);
  EXPECT_NEAR(sum, 1.0, 1e-5);
  EXPECT_GT(result.distributions[9], result.distributions[7]);
  EXPECT_EQ(result.tokens[0].distribution, -1);
  EXPECT_EQ(result.tokens[1].distribution, 0);
  AddEntry(1, 0, 1, {Sample()});
  result = Run({Peak(7)});
  EXPECT_TRUE(result.distributions.empty());
  params.distribution = Distribution::kFiltered;
  params.temperature = 1.0f;
  params.top_k = 2;
  Start(1, params);
  AddEntry(2, 1, 0, {Sample()});
  result = Run({Peak(5, 6)});
  EXPECT_EQ(std::ranges::count(result.distributions, -9999.0f), kVocab - 2);
}

TEST_P(SamplerTest, EveryRowMayAskForItsDistribution) {
  batch::SamplingParams params = Greedy();
  params.distribution = Distribution::kRaw;
  std::vector<std::vector<float>> logits;
  for (int i = 0; i < 8; ++i) {
    Start(i, params);
    AddEntry(i + 1, i, 0, {Verify(i), Sample()});
    logits.push_back(Peak(i));
    logits.push_back(Peak(i + 20));
  }
  const std::vector<float> all = Run(logits).distributions;
  ASSERT_EQ(all.size(), static_cast<size_t>(16 * kVocab));
  for (int row = 0; row < 16; ++row) {
    const auto begin = all.begin() + row * kVocab;
    EXPECT_EQ(std::max_element(begin, begin + kVocab) - begin, row / 2 + row % 2 * 20) << row;
  }
}

// The step before still reads its edits when the next one needs room for more.
TEST_P(SamplerTest, AStepWithMoreEditsThanAnyBeforeLeavesTheOneInFlightAlone) {
  BatchPlan plans[2];
  Sampler::Step built[2];
  std::vector<device::Buffer> copies(2);
  std::vector<ops::Array> values;
  for (int step = 0; step < 2; ++step) {
    batch::SamplingParams params = Greedy();
    const int32_t ids = step == 0 ? 1 : static_cast<int32_t>(kVocab);
    for (int32_t id = 0; id < ids; ++id) params.logit_bias.push_back({id, id == 0 ? 9.0f : 0.0f});
    const int entries = step == 0 ? 1 : 8;
    for (int i = 0; i < entries; ++i) {
      Start(i, params);
      AddEntry(i + 1, i, 0, {Verify(0), Sample()});
    }
    plan_.step = step + 1;
    sampler_->Begin(plan_);
    built[step] = std::move(sampler_->MakeStep().value());
    sampler_->Build(plan_, &built[step]);
    values.emplace_back(DType::kF32, std::initializer_list<int64_t>{2 * entries, kVocab});
    for (int row = 0; row < 2 * entries; ++row) values.back().Set(row * kVocab + 1, 1.0f);
    ASSERT_TRUE(sampler_->Run(*stream_, OnDevice(values.back(), &copies[step]), &built[step]).ok());
    plans[step] = std::exchange(plan_, {});
  }
  EXPECT_TRUE(stream_->Synchronize().ok());
  for (int step = 0; step < 2; ++step) {
    const BatchPlan& plan = plans[step];
    StepResult result;
    sampler_->Collect(plan, built[step], &result);
    for (const batch::ResultToken& token : result.tokens) EXPECT_EQ(token.id, 0);
    EXPECT_EQ(result.tokens.size(), plan.logits_rows.size());
  }
}

TEST_P(SamplerTest, DistributionsAndTooManyEditsOrMasksFitNoGraph) {
  using Misfit = Sampler::Misfit;
  const auto misfit = [&](const batch::SamplingParams& params, bool masked = false) {
    Start(0, params);
    AddEntry(5, 0, 0, {Sample()});
    plan_.entries[0].masked = masked;
    plan_.step = ++step_;
    sampler_->Begin(plan_);
    sampler_->Build(plan_, &built_);
    const Misfit result = sampler_->FitsFixed(built_, 2);
    sampler_->Drop(plan_, built_);
    plan_ = {};
    return result;
  };
  batch::SamplingParams params = Greedy();
  params.logit_bias = {{1, 1.0f}, {2, 1.0f}};
  EXPECT_EQ(misfit(params), Misfit::kNone);
  EXPECT_EQ(misfit(params, true), Misfit::kNone);
  params.logit_bias.push_back({3, 1.0f});
  EXPECT_EQ(misfit(params), Misfit::kEdits);
  params = Greedy();
  params.distribution = Distribution::kRaw;
  EXPECT_EQ(misfit(params), Misfit::kDistributions);

  const int many = 80;
  sampler_ = std::move(
      Sampler::Make(*device_, {.vocab = kVocab, .slots = many, .rows_max = many}).value());
  built_ = std::move(sampler_->MakeStep().value());
  for (const int masked :
       {64, 65, many}) {  // those beyond 64 have room only where one waits for it
    for (int i = 0; i < many; ++i) {
      Start(i, Greedy());
      AddEntry(i < masked ? 5 : 6, i, 0, {Sample()});
    }
    const batch::TestMasks some = Only(5, {20, 21});
    const StepResult result = Run(std::vector<std::vector<float>>(many, Peak(7, 21)), &some);
    for (int i = 0; i < many; ++i) {
      EXPECT_EQ(result.tokens[i].id, i < masked ? 21 : 7) << i << " of " << masked;
    }
    EXPECT_EQ(sampler_->FitsFixed(built_, 0), masked > 64 ? Misfit::kMasks : Misfit::kNone);
  }
}

TEST_P(SamplerTest, ALateRowDrawsNothingAndTheOthersDoNotNotice) {
  batch::SamplingParams params = Greedy();
  params.min_tokens = 1;
  params.end_ids = {7};
  Start(0, params);
  Start(1, Greedy());
  Start(2, Greedy());
  AddEntry(5, 0, 0, {Score(3), Sample()});
  AddEntry(6, 1, 0, {Sample()});
  AddEntry(8, 2, 0, {Verify(9), Verify(4), Verify(-1)});
  batch::TestMasks late = {
      .fill = [](const batch::PlanEntry& entry, int row, std::span<uint32_t> allowed) {
        std::fill(allowed.begin(), allowed.end(), ~0u);
        return entry.sequence == 8 && row < 1;
      }};
  late.has = [](const batch::PlanEntry& entry) { return entry.sequence != 6; };
  const StepResult result = Run({Noise(1), Peak(7, 8), Peak(9), Peak(9), Peak(4), Peak(11)}, &late);
  EXPECT_TRUE(Ids(result, 0).empty());
  EXPECT_EQ(result.entries[0].score_count, 1);
  EXPECT_EQ(result.entries[0].status, RowStatus::kOk);
  EXPECT_THAT(Ids(result, 1), ::testing::ElementsAre(9));
  EXPECT_THAT(Ids(result, 2), ::testing::ElementsAre(9));  // up to its first late row
  // A token that was not drawn counts for nothing: the end is still too early.
  AddEntry(5, 0, 0, {Sample()});
  EXPECT_THAT(Ids(Run({Peak(7, 8)}), 0), ::testing::ElementsAre(8));
}

// The same of a step that is built while the one with the late row has not been collected.
TEST_P(SamplerTest, ALateRowCountsForNothingInTheStepBehindIt) {
  batch::SamplingParams params = Greedy();
  params.min_tokens = 1;
  params.end_ids = {7};
  BatchPlan plans[2];
  Sampler::Step built[2];
  std::vector<device::Buffer> copies(2);
  ops::Array values(DType::kF32, {1, kVocab});
  for (int64_t i = 0; i < kVocab; ++i) values.Set(i, Peak(7, 8)[i]);
  for (int step = 0; step < 2; ++step) {
    if (step == 0) Start(0, params);
    AddEntry(5, 0, 0, {Sample()});
    plan_.entries[0].masked = step == 0;
    plan_.step = step + 1;
    sampler_->Begin(plan_);
    built[step] = std::move(sampler_->MakeStep().value());
    sampler_->Build(plan_, &built[step]);
    const batch::MaskSet late{
        .rows = {0}, .words = std::vector<uint32_t>(batch::MaskWords(kVocab), ~0u), .late = {0}};
    if (step == 0) {
      ASSERT_TRUE(sampler_->TakeMasks(plan_, late, &built[0]).ok());
    }
    ASSERT_TRUE(sampler_->Run(*stream_, OnDevice(values, &copies[step]), &built[step]).ok());
    plans[step] = std::exchange(plan_, {});
  }
  EXPECT_TRUE(stream_->Synchronize().ok());
  StepResult result;
  sampler_->Collect(plans[0], built[0], &result);
  EXPECT_TRUE(result.tokens.empty());
  sampler_->Collect(plans[1], built[1], &result);
  EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(8));
}

// min_tokens counts what is being drawn; a step that was refused or dropped draws nothing.
TEST_P(SamplerTest, AStepThatFailedDrewNothing) {
  batch::SamplingParams params = Greedy();
  params.min_tokens = 1;
  params.end_ids = {7};
  for (const bool refused : {true, false}) {
    Start(0, params);
    Start(1, Greedy());
    AddEntry(5, 0, 0, {Sample()});
    AddEntry(6, 1, 0, {Sample()});
    if (refused) {
      const batch::TestMasks mask = Only(6, {20});
      spoil_masks_ = true;
      EXPECT_FALSE(TryRun({Peak(7, 8), Peak(9)}, &mask).ok());
      spoil_masks_ = false;
    } else {
      plan_.step = ++step_;
      sampler_->Begin(plan_);
      sampler_->Build(plan_, &built_);
      sampler_->Drop(plan_, built_);
      plan_ = {};
    }
    AddEntry(5, 0, 0, {Sample()});
    EXPECT_THAT(Ids(Run({Peak(7, 8)}), 0), ::testing::ElementsAre(8)) << refused;
  }
}

TEST_P(SamplerTest, ASequenceThatComesBackAfterPreemptionGoesOnAsBefore) {
  batch::SamplingParams params;
  params.seed = 5;
  params.frequency_penalty = 1.0f;
  params.top_logprobs = 0;
  const auto run = [&](int interrupt_at) {
    Restart();
    std::vector<int32_t> drawn;
    Start(0, params, {3, 4});
    for (int i = 0; i < 12; ++i) {
      int slot = i < interrupt_at ? 0 : 5;
      if (i == interrupt_at) {
        std::vector<int32_t> history = {3, 4};
        history.insert(history.end(), drawn.begin(), drawn.end());
        Start(5, params, history);
        plan_.starts.back().prompt_tokens = 2;
      }
      AddEntry(1, slot, 1 + i, {Sample()});
      drawn.push_back(Run({Noise(i % 3)}).tokens[0].id);
    }
    return drawn;
  };
  EXPECT_EQ(run(6), run(100));
}

TEST_P(SamplerTest, ASequenceDrawsTheSameAloneAndAmongOthers) {
  const auto params = [](int i) {
    batch::SamplingParams p;
    p.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    p.seed = 40 + i;
    p.top_p = 0.95f;
    p.presence_penalty = i % 2 == 0 ? 0.5f : 0.0f;
    p.top_logprobs = i % 2;
    return p;
  };
  std::vector<batch::ResultToken> together;
  for (int i = 0; i < 8; ++i) Start(i, params(i));
  std::vector<std::vector<float>> logits;
  for (int i = 0; i < 8; ++i) {
    AddEntry(i + 1, i, 10 * i, {Sample()});
    logits.push_back(Noise(i));
  }
  together = Run(logits).tokens;
  for (int i = 0; i < 8; ++i) {
    Restart();
    Start(0, params(i));
    AddEntry(99, 0, 10 * i, {Sample()});
    const StepResult alone = Run({logits[i]});
    EXPECT_EQ(alone.tokens[0].id, together[i].id) << i;
    EXPECT_EQ(alone.tokens[0].logprob, together[i].logprob) << i;
    EXPECT_EQ(alone.tokens[0].rank, together[i].rank) << i;
  }
}

batch::SamplingParams AnyPenalties(ops::TestNoise& noise) {
  const auto pick = [&](auto... choices) {
    const float all[] = {choices...};
    return all[noise.Below(sizeof...(choices))];
  };
  batch::SamplingParams params;
  params.temperature = pick(0.0f, 0.3f, 1.0f);
  params.repetition_penalty = pick(1.0f, 1.2f, 0.8f);
  params.presence_penalty = pick(0.0f, 0.7f, -0.5f);
  params.frequency_penalty = pick(0.1f, 0.9f);
  params.seed = noise.Next();
  params.top_logprobs = 2;
  if (noise.Below(3) == 0) params.logit_bias = {{3, 1.5f}, {7, -2.0f}, {20, 1.0f}};
  if (noise.Below(3) == 0) params.no_repeat_ngram = 3;
  if (noise.Below(3) == 0) {
    params.min_tokens = 9;
    params.end_ids = {1, 2, 3};
  }
  return params;
}

int32_t Best(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A sequence in a slot with counts on the device beside the same one in a slot without, through
// drafts, masks that may be late, steps that come to nothing, and preemption.
TEST_P(SamplerTest, CountsOnTheDeviceGiveTheBitsOfEditsByTheHost) {
  Restart(0);
  ASSERT_EQ(sampler_->counted_slots(), 4);
  ops::TestNoise noise(8);
  size_t accepted = 0, late = 0;
  for (int run = 0; run < 40; ++run) {
    const batch::SamplingParams params = AnyPenalties(noise);
    std::vector<int32_t> history;
    for (int64_t i = noise.Below(9); i >= 0; --i)
      history.push_back(static_cast<int32_t>(noise.Below(kVocab)));
    const auto prompt = static_cast<int32_t>(history.size());
    int slot = run % 4;
    const auto start = [&] {
      for (const int of : {slot, slot + 4}) {
        Start(of, params, history);
        plan_.starts.back().prompt_tokens = prompt;
      }
    };
    start();
    for (int step = 0; step < 16; ++step) {
      std::vector<LogitsRow> rows;
      std::vector<std::vector<float>> logits;
      for (int64_t drafts = step % 3 == 1 ? 1 + noise.Below(3) : 0; drafts >= 0; --drafts) {
        logits.push_back(Noise(noise.Next()));
        rows.push_back(drafts > 0 ? Verify(Best(logits.back())) : Sample());
      }
      if (rows.size() > 1) rows.back().purpose = RowPurpose::kVerify;
      const auto first = static_cast<int>(history.size());
      AddEntry(1, slot, first, rows);
      AddEntry(2, slot + 4, first, rows);
      const std::vector<std::vector<float>> same = logits;
      logits.insert(logits.end(), same.begin(), same.end());
      batch::TestMasks masks;
      const int ready = step % 4 == 2 ? static_cast<int>(noise.Below(3)) : 9;
      masks.has = [&](const batch::PlanEntry&) { return step % 4 > 1; };
      masks.fill = [&](const batch::PlanEntry&, int row, std::span<uint32_t> allowed) {
        std::fill(allowed.begin(), allowed.end(), 0xff77ff77u);
        return row < ready;
      };
      if (step % 5 == 3) {  // the results are lost, and the step is computed again
        const BatchPlan again = plan_;
        lose_results_ = true;
        EXPECT_FALSE(TryRun(logits, &masks).ok());
        lose_results_ = false;
        plan_ = again;
        plan_.starts.clear();
      }
      const StepResult result = Run(logits, &masks);
      const std::vector<int32_t> drawn = Ids(result, 0);
      ASSERT_EQ(Ids(result, 1), drawn) << run << " " << step;
      for (size_t i = 0; i < drawn.size(); ++i) {
        const batch::ResultToken &a = result.tokens[i], &b = result.tokens[drawn.size() + i];
        EXPECT_EQ(a.logprob, b.logprob);
        EXPECT_EQ(a.rank, b.rank);
      }
      history.insert(history.end(), drawn.begin(), drawn.end());
      accepted += drawn.empty() ? 0 : drawn.size() - 1;
      late += drawn.empty();
      if (step % 7 == 6) {
        slot = (slot + 1) % 4;
        start();
      }
    }
  }
  EXPECT_GT(accepted, 50u);
  EXPECT_GT(late, 20u);
}

// Nobody has read the first step when the second is put on the stream.
TEST_P(SamplerTest, PenaltiesSeeWhatTheStepInFlightDraws) {
  batch::SamplingParams params = Greedy();
  params.frequency_penalty = 2.0f;
  BatchPlan plans[3];
  Sampler::Step built[3];
  std::vector<device::Buffer> copies(3);
  std::vector<ops::Array> values;
  for (int step = 0; step < 3; ++step) {
    if (step == 0) Start(1, params);
    AddEntry(1, 1, step, {Sample()});
    plan_.step = step + 1;
    sampler_->Begin(plan_);
    built[step] = std::move(sampler_->MakeStep().value());
    sampler_->Build(plan_, &built[step]);
    values.emplace_back(DType::kF32, std::initializer_list<int64_t>{1, kVocab});
    for (int64_t i = 0; i < kVocab; ++i) values.back().Set(i, Peak(7, 8)[i]);
    ASSERT_TRUE(sampler_->Run(*stream_, OnDevice(values.back(), &copies[step]), &built[step]).ok());
    plans[step] = std::exchange(plan_, {});
  }
  EXPECT_TRUE(stream_->Synchronize().ok());
  for (int step = 0; step < 3; ++step) {  // 6, 4 and 4 against 5, 5 and 3
    StepResult result;
    sampler_->Collect(plans[step], built[step], &result);
    EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(step == 1 ? 8 : 7)) << step;
  }
}

// Whichever op of whichever step fails, the step may be computed again.
TEST_P(SamplerTest, AFailedStepLeavesNoCountBehind) {
  if (GetParam() == "cpu") GTEST_SKIP() << "ops on the CPU do not fail on their way";
  batch::SamplingParams params = Greedy();
  params.frequency_penalty = 0.3f;
  params.repetition_penalty = 1.1f;
  const auto run = [&](int failing, std::string_view op) {
    Restart();
    std::vector<int32_t> drawn;
    Start(2, params, {7, 8});
    Start(3, params, {7});
    for (int step = 0; step < 9; ++step) {
      const int first = 2 + static_cast<int>(drawn.size());
      AddEntry(1, 2, first, {Sample()});
      AddEntry(2, 3, first, {Verify(7), Sample()});
      const BatchPlan again = plan_;
      const std::vector<std::vector<float>> logits = {Peak(7, 8), Peak(7, 9), Peak(8, 9)};
      if (step == failing) {
        static_cast<ops::QueuedDevice&>(*device_).FailOp(op);
        EXPECT_EQ(TryRun(logits).ok(), op == "set_counts" && step > 0);
        static_cast<ops::QueuedDevice&>(*device_).FailOp("none");
        if (op == "set_counts" && step > 0) return std::vector<int32_t>();
        plan_ = again;
        plan_.starts.clear();
      }
      const StepResult result = Run(logits);
      for (const batch::ResultToken& token : result.tokens) drawn.push_back(token.id);
    }
    return drawn;
  };
  const std::vector<int32_t> expected = run(-1, "none");
  EXPECT_GT(std::set<int32_t>(expected.begin(), expected.end()).size(), 2u);
  EXPECT_EQ(run(0, "set_counts"), expected);
  for (int step = 0; step < 9; ++step) {
    EXPECT_EQ(run(step, "sample"), expected) << step;
    EXPECT_EQ(run(step, "keep_drawn"), expected) << step;
  }
}

// Longer than any before, while the step before still reads its own.
TEST_P(SamplerTest, AStartMayBeOfAnyLength) {
  constexpr int kLong = 70'000;
  sampler_ =
      std::move(Sampler::Make(*device_, {.vocab = kLong, .slots = 2, .rows_max = 2}).value());
  batch::SamplingParams params = Greedy();
  params.repetition_penalty = 4.0f;
  BatchPlan plans[2];
  Sampler::Step built[2];
  std::vector<device::Buffer> copies(2);
  ops::Array values(DType::kF32, {1, kLong});
  values.Set(kLong - 1, 3.0f);
  values.Set(5, 2.0f);
  for (int step = 0; step < 2; ++step) {
    std::vector<int32_t> prompt = {5};
    if (step == 1) {  // all but 5
      prompt.resize(kLong);
      std::iota(prompt.begin(), prompt.end(), 0);
      prompt.erase(prompt.begin() + 5);
    }
    Start(step, params, prompt);
    AddEntry(step + 1, step, 0, {Sample()});
    plan_.step = step + 1;
    sampler_->Begin(plan_);
    built[step] = std::move(sampler_->MakeStep().value());
    sampler_->Build(plan_, &built[step]);
    device::Buffer& copy = copies[step];
    ops::Tensor logits = values.tensor();
    if (device_->facts().device_memory) {
      copy = std::move(device_->Allocate(kLong * 4, device::MemoryKind::kDevice).value());
      const device::CopyItem item{copy.view(), {logits.data, kLong * 4}};
      ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
      logits = ops::Dense(copy.view(), DType::kF32, {1, kLong});
    }
    ASSERT_TRUE(sampler_->Run(*stream_, logits, &built[step]).ok());
    plans[step] = std::exchange(plan_, {});
  }
  ASSERT_TRUE(stream_->Synchronize().ok());
  for (int step = 0; step < 2; ++step) {
    StepResult result;
    sampler_->Collect(plans[step], built[step], &result);
    EXPECT_THAT(Ids(result, 0), ::testing::ElementsAre(step == 0 ? kLong - 1 : 5)) << step;
  }
}

TEST_P(SamplerTest, TheMemoryPlanCountsWhatMakeTakes) {
  if (!device_->facts().device_memory) GTEST_SKIP() << "the device has no memory of its own";
  for (const int64_t vocab : {4096, 1 << 20}) {  // a row for each slot, and for the first alone
    const Sampler::Options options = {
        .vocab = vocab, .slots = 32, .rows_max = 40, .counts_bytes_max = 3 << 20};
    const size_t before = device_->Memory().value().free_bytes;
    const auto sampler = std::move(Sampler::Make(*device_, options).value());
    const auto taken = static_cast<double>(before - device_->Memory().value().free_bytes);
    EXPECT_EQ(sampler->counted_slots(), vocab == 4096 ? 32 : 4);
    EXPECT_NEAR(static_cast<double>(Sampler::DeviceBytes(options)), taken, 1 << 16);  // whole pages
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplerTest, ::testing::Values("cpu", "pinned", "plain"),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace sluice::sample
