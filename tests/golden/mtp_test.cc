// Heads that guess tokens against the log-probs of their references (tools/golden/mimo.py and
// mimo_heads.py): along a prompt beside the model's hidden states, a second head beside what the
// first one gave, and behind the prompt applied to what they give themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "model/load/load_model.h"
#include "model_runner.h"

namespace sluice::golden {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;
// With activations in 16 bits, by root of the mean square: 0.02 in BF16 and 0.002 in F16.
constexpr double kBf16Tolerance = 0.04, kF16Tolerance = 0.005;

class MtpGolden : public ::testing::Test {
 protected:
  explicit MtpGolden(const std::string& name = "models/mimo", int heads = 1)
      : folder_(SourceDir() + "/tests/golden/" + name), heads_(heads) {
    const Json expected = *ParseJson(Read("expected.json"), "expected.json");
    prompt_ = expected["prompt"].get<std::vector<int>>();
    next_.assign(prompt_.begin() + 1, prompt_.end());
    next_.push_back(expected["drawn"].get<int>());
    drafts_ = expected["drafts"].get<std::vector<int>>();
    const std::string bytes = Read("draft_logprobs.bin");
    log_probs_.resize(bytes.size() / sizeof(float));
    std::memcpy(log_probs_.data(), bytes.data(), bytes.size());
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  model::ModelOptions Options(DType type) const {
    model::ModelOptions options;
    options.max_tokens = options.max_logits_rows = 128;
    options.max_model_len = 64;
    options.activation = options.kv_dtype = type;
    options.kernel_block_tokens = 8;
    options.mtp_heads = heads_;
    return options;
  }
  std::unique_ptr<ModelRunner> Open(DType type = DType::kF32) const {
    auto runner =
        ModelRunner::Open(files::OpenModel(folder_).value(), Options(type), 2, {.threads = 1});
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return runner.ok() ? std::move(runner).value() : nullptr;
  }
  // What the head gives at every position of the prompt, `chunk` tokens at a time.
  std::vector<float> AlongThePrompt(ModelRunner* runner, size_t chunk) {
    runner->Reset();
    std::vector<float> logits;
    for (size_t at = 0; at < prompt_.size(); at += chunk) {
      const size_t end = std::min(at + chunk, prompt_.size());
      EXPECT_TRUE(runner->Step({{0, {prompt_.begin() + at, prompt_.begin() + end}}}, false).ok());
      const auto rows = runner->Draft({{0, {next_.begin() + at, next_.begin() + end}}}, true);
      EXPECT_TRUE(rows.ok()) << rows.status().message();
      logits.insert(logits.end(), rows->begin(), rows->end());
    }
    return logits;
  }
  // What it gives behind the prompt, of one draft after another.
  std::vector<float> BehindThePrompt(ModelRunner* runner) {
    runner->Reset();
    EXPECT_TRUE(runner->Step({{1, prompt_}}, false).ok());
    std::vector<float> logits = runner->Draft({{1, next_}}, false).value();
    for (size_t i = 0; i + 1 < drafts_.size(); ++i) {
      const auto row = runner->Draft({{1, {drafts_[i]}}}, false);
      EXPECT_TRUE(row.ok()) << row.status().message();
      logits.insert(logits.end(), row->begin(), row->end());
    }
    return logits;
  }
  double ErrorOf(std::vector<float> logits, size_t first_row, bool mean_square) const {
    LogSoftmax(&logits, kVocab);
    EXPECT_LE(first_row * kVocab + logits.size(), log_probs_.size());
    double largest = 0.0, sum = 0.0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double off = std::abs(double{logits[i]} - log_probs_[first_row * kVocab + i]);
      largest = off <= largest ? largest : off;  // NaN stays
      sum += off * off;
    }
    return mean_square ? std::sqrt(sum / static_cast<double>(logits.size())) : largest;
  }

  static constexpr int kVocab = 128;
  const std::string folder_;
  const int heads_;
  std::vector<int> prompt_, next_, drafts_;
  std::vector<float> log_probs_;
};

TEST_F(MtpGolden, LogProbsOfDraftsAreThoseOfTheReference) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  EXPECT_LE(ErrorOf(AlongThePrompt(runner.get(), prompt_.size()), 0, false), kTolerance);
  const std::vector<float> behind = BehindThePrompt(runner.get());
  ASSERT_EQ(behind.size(), drafts_.size() * kVocab);
  EXPECT_LE(ErrorOf(behind, prompt_.size() - 1, false), kTolerance);
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const auto row = behind.begin() + static_cast<int64_t>(i * kVocab);
    EXPECT_EQ(std::max_element(row, row + kVocab) - row, drafts_[i]) << i;
  }
}

TEST_F(MtpGolden, LogProbsIn16BitsAreNearThem) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    // OpenCL's kernels have no residual in F32 beside activations in F16.
    if (type == DType::kF16 && TestDevice().starts_with("xpu")) continue;
    auto runner = Open(type);
    ASSERT_NE(runner, nullptr);
    const double along = ErrorOf(AlongThePrompt(runner.get(), prompt_.size()), 0, true);
    const double behind = ErrorOf(BehindThePrompt(runner.get()), prompt_.size() - 1, true);
    std::printf("%s: %.2e along the prompt, %.2e behind it\n", std::string(Name(type)).c_str(),
                along, behind);
    EXPECT_LE(std::max(along, behind), type == DType::kF16 ? kF16Tolerance : kBf16Tolerance);
  }
}

TEST_F(MtpGolden, ChunksGiveTheSameBits) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  const std::vector<float> at_once = AlongThePrompt(runner.get(), prompt_.size());
  for (const size_t chunk : {1, 5, 16}) {
    runner->padding = chunk == 5 ? 0 : 3;
    EXPECT_TRUE(AlongThePrompt(runner.get(), chunk) == at_once) << chunk;
  }
}

TEST_F(MtpGolden, AModelWithoutItsHeadTakesNoMemoryForIt) {
  const files::ModelFiles files = files::OpenModel(folder_).value();
  EXPECT_EQ(files.config.mtp_heads, 1);
  auto with = Open();
  model::ModelOptions options = Options(DType::kF32);
  options.mtp_heads = 0;
  auto without = ModelRunner::Open(files, options, 2, {.threads = 1});
  ASSERT_TRUE(with != nullptr && without.ok());
  const size_t hidden = 64,
               head = 2 * hidden + 4 * hidden + 4 * 96 + hidden;  // a row of each matrix
  EXPECT_GT(with->model().parameters().bytes(),
            (*without)->model().parameters().bytes() + head * hidden / 2 * sizeof(float));
  EXPECT_EQ(with->model().groups()[0].layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ((*without)->model().groups()[0].layers, (std::vector<int>{0, 1}));
}

// Of two heads.
class MtpHeadsGolden : public MtpGolden {
 protected:
  MtpHeadsGolden() : MtpGolden("drafts/mimo_heads", 2) {}
  // What both give at every position of the prompt, `chunk` tokens at a time, one behind the other.
  std::vector<float> OfBothHeads(ModelRunner* runner, size_t chunk) {
    runner->Reset();
    std::vector<int> behind = {next_.begin() + 1, next_.end()};
    behind.push_back(drafts_[0]);
    std::vector<float> logits[2];
    for (size_t at = 0; at < prompt_.size(); at += chunk) {
      const size_t end = std::min(at + chunk, prompt_.size());
      const auto part = [&](const std::vector<int>& ids) {
        return std::vector<Chunk>{{0, {ids.begin() + at, ids.begin() + end}}};
      };
      EXPECT_TRUE(runner->Step(part(prompt_), false).ok());
      for (int head = 0; head < 2; ++head) {
        const auto rows = runner->Draft(part(head == 0 ? next_ : behind), true, head);
        EXPECT_TRUE(rows.ok()) << rows.status().message();
        logits[head].insert(logits[head].end(), rows->begin(), rows->end());
      }
    }
    logits[0].insert(logits[0].end(), logits[1].begin(), logits[1].end());
    return logits[0];
  }
};

TEST_F(MtpHeadsGolden, EachHeadGivesTheLogProbsOfTheReference) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  EXPECT_LE(ErrorOf(OfBothHeads(runner.get(), prompt_.size()), 0, false), kTolerance);
}

TEST_F(MtpHeadsGolden, TheLastOneIsAppliedAgain) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  EXPECT_TRUE(runner->Step({{1, prompt_}}, false).ok());
  EXPECT_TRUE(runner->Draft({{1, next_}}, false, 0).ok());
  std::vector<int> behind = {next_.begin() + 1, next_.end()};
  behind.push_back(drafts_[0]);
  std::vector<float> logits = runner->Draft({{1, behind}}, false, 1).value();
  for (size_t i = 1; i + 1 < drafts_.size(); ++i) {
    const auto row = runner->Draft({{1, {drafts_[i]}}}, false, 1);
    EXPECT_TRUE(row.ok()) << row.status().message();
    logits.insert(logits.end(), row->begin(), row->end());
  }
  EXPECT_LE(ErrorOf(logits, 2 * prompt_.size() - 1, false), kTolerance);
}

TEST_F(MtpHeadsGolden, ChunksGiveTheSameBits) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  const std::vector<float> at_once = OfBothHeads(runner.get(), prompt_.size());
  for (const size_t chunk : {1, 5, 16}) {
    runner->padding = chunk == 5 ? 0 : 3;
    EXPECT_TRUE(OfBothHeads(runner.get(), chunk) == at_once) << chunk;
  }
}

}  // namespace
}  // namespace sluice::golden
