// Heads of EAGLE's, EAGLE-3's and parallel EAGLE's form against the log-probs of their reference
// (tools/golden/eagle1.py, eagle3.py, block.py): along a prompt beside what the model gave, and
// behind it applied to what they gave themselves, or to a block of mask tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "head_golden.h"

namespace sluice::golden {
namespace {

constexpr double kTolerance = 1e-4;
// By root of the mean square: of activations in BF16 0.013, and 0.029 of the head of two layers; in
// F16 0.003.
constexpr double kBf16Tolerance = 0.04, kF16Tolerance = 0.005;
// Where activations are rounded to 8 bits, 0.043.
constexpr double kInt4Tolerance = 0.06;

// By the name of a head. Of EAGLE-3's form one that has learned, with a vocabulary cut short and
// the model's embedding, and one with a width, an embedding and the whole vocabulary of its own; of
// EAGLE's first form one that has learned, with a bias of the product that joins what it reads, and
// one with two layers, biases of attention and an embedding of its own. Of parallel EAGLE's form as
// of EAGLE-3's, but the one that has learned has two layers. And of each form one in the format of
// speculators, with random weights. Of EAGLE's first form in either format one with added norms.
class EagleGolden : public HeadGolden {
 protected:
  EagleGolden() : next_(prompt_.begin() + 1, prompt_.end()) {
    next_.push_back(expected_["drawn"].get<int>());
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
    if (files_.config.form == files::EagleForm::kParallel) {
      const std::vector<int> masks(drafts_.size() - 1, files_.config.mask_token);
      const auto rows = runner->Draft({{1, masks}}, true);
      EXPECT_TRUE(rows.ok()) << rows.status().message();
      logits.insert(logits.end(), rows->begin(), rows->end());
      return logits;
    }
    for (size_t i = 0; i + 1 < drafts_.size(); ++i) {
      const auto row = runner->Draft({{1, {drafts_[i]}}}, false);
      EXPECT_TRUE(row.ok()) << row.status().message();
      logits.insert(logits.end(), row->begin(), row->end());
    }
    return logits;
  }
  double ErrorOf(std::vector<float> logits, size_t first_row, bool mean_square) const {
    LogSoftmax(&logits, guesses());
    EXPECT_LE(first_row * guesses() + logits.size(), log_probs_.size());
    double largest = 0.0, sum = 0.0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double off = std::abs(double{logits[i]} - log_probs_[first_row * guesses() + i]);
      largest = off <= largest ? largest : off;  // NaN stays
      sum += off * off;
    }
    return mean_square ? std::sqrt(sum / static_cast<double>(logits.size())) : largest;
  }
  int guesses() const { return files_.config.draft_vocab_size; }

  std::vector<int> next_;
};

TEST_P(EagleGolden, LogProbsOfDraftsAreThoseOfTheReference) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  EXPECT_LE(ErrorOf(AlongThePrompt(runner.get(), prompt_.size()), 0, false), kTolerance);
  const std::vector<float> behind = BehindThePrompt(runner.get());
  ASSERT_EQ(behind.size(), drafts_.size() * guesses());
  EXPECT_LE(ErrorOf(behind, prompt_.size() - 1, false), kTolerance);
  const std::vector<int32_t>& ids = files_.config.target_ids;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const auto row = behind.begin() + static_cast<int64_t>(i * guesses());
    const auto guess = std::max_element(row, row + guesses()) - row;
    EXPECT_EQ(ids.empty() ? guess : ids[guess], drafts_[i]) << i;
  }
}

TEST_P(EagleGolden, LogProbsIn16BitsAreNearThem) {
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

// What the layers leave in other memory changes nothing of what the model gives.
TEST_P(EagleGolden, ChunksAndPaddingGiveTheSameBits) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  const std::vector<float> at_once = AlongThePrompt(runner.get(), prompt_.size());
  for (const size_t chunk : {1, 5, 16}) {
    runner->padding = chunk == 5 ? 0 : 3;
    EXPECT_TRUE(AlongThePrompt(runner.get(), chunk) == at_once) << chunk;
  }
}

TEST_P(EagleGolden, TheModelsOwnLogitsAreTheSameBits) {
  auto beside = Open();
  ASSERT_NE(beside, nullptr);
  const auto with = beside->Step({{0, prompt_}}, true);
  model::ModelOptions options = beside->model().options();
  auto alone =
      ModelRunner::Open(files::OpenModel(Folder("target")).value(), options, 2, {.threads = 1});
  ASSERT_TRUE(alone.ok() && with.ok());
  EXPECT_TRUE((*alone)->Step({{0, prompt_}}, true).value() == *with);
}

// The matrices of a head in 4 bits, as tools/train_draft saves them, against what these stand for.
using EagleInt4Golden = EagleGolden;

TEST_P(EagleInt4Golden, LogProbsAreNearThoseOfTheDequantizedWeights) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  const std::vector<float> along = AlongThePrompt(runner.get(), prompt_.size());
  EXPECT_LE(ErrorOf(along, 0, true), kInt4Tolerance);
  EXPECT_LE(ErrorOf(BehindThePrompt(runner.get()), prompt_.size() - 1, true), kInt4Tolerance);
  EXPECT_TRUE(AlongThePrompt(runner.get(), 5) == along);
}

INSTANTIATE_TEST_SUITE_P(All, EagleInt4Golden, ::testing::Values("eagle3_int4"),
                         [](const auto& of) { return std::string(of.param); });

INSTANTIATE_TEST_SUITE_P(All, EagleGolden,
                         ::testing::Values("eagle3", "eagle3_own", "eagle1", "eagle1_own", "block",
                                           "block_own", "eagle1_norms", "speculators_eagle",
                                           "speculators_eagle_norms", "speculators_eagle3",
                                           "speculators_peagle"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace sluice::golden
