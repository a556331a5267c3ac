// Heads of DFlash's form against the log-probs of their reference (tools/golden/dflash.py): blocks
// behind beginnings of a prompt, beside what the model gave for these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "head_golden.h"

namespace sluice::golden {
namespace {

constexpr double kTolerance = 1e-4;
// By root of the mean square.
constexpr double kBf16Tolerance = 0.04, kF16Tolerance = 0.005;

// By the name of a head: one that has learned, with two layers, and one with random weights, one
// layer and layers of the model that it does not name.
class DFlashGolden : public HeadGolden {
 protected:
  DFlashGolden() : tokens_(prompt_), lengths_(expected_["lengths"].get<std::vector<int>>()) {
    tokens_.push_back(expected_["drawn"].get<int>());
    EXPECT_EQ(log_probs_.size(), lengths_.size() * drafts_.size() * vocab());
  }
  // The logits of the drafts behind so many tokens of the prompt, `chunk` of which the model and
  // the head compute at a time.
  std::vector<float> BlockBehind(ModelRunner* runner, int length, int chunk) {
    runner->Reset();
    for (int at = 0; at < length; at += chunk) {
      const int end = std::min(at + chunk, length);
      EXPECT_TRUE(runner->Step({{1, {prompt_.begin() + at, prompt_.begin() + end}}}, false).ok());
      const Status kept =
          runner->KeepBesideBlocks({{1, {prompt_.begin() + at, prompt_.begin() + end}}});
      EXPECT_TRUE(kept.ok()) << kept.message();
    }
    std::vector<int> block(1 + drafts_.size(), files_.config.mask_token);
    block[0] = tokens_[static_cast<size_t>(length)];
    const auto rows = runner->Draft({{1, block}}, true);
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    return rows.ok() ? std::vector<float>(rows->begin() + vocab(), rows->end())
                     : std::vector<float>();
  }
  // The largest error of all blocks, or the root of the mean square.
  double ErrorOf(ModelRunner* runner, bool mean_square) {
    double largest = 0.0, sum = 0.0;
    for (size_t n = 0; n < lengths_.size(); ++n) {
      std::vector<float> logits = BlockBehind(runner, lengths_[n], 64);
      LogSoftmax(&logits, vocab());
      EXPECT_EQ(logits.size(), drafts_.size() * vocab());
      for (size_t i = 0; i < logits.size(); ++i) {
        const double off = std::abs(double{logits[i]} - log_probs_[n * logits.size() + i]);
        largest = off <= largest ? largest : off;  // NaN stays
        sum += off * off;
      }
    }
    return mean_square ? std::sqrt(sum / static_cast<double>(log_probs_.size())) : largest;
  }
  int vocab() const { return files_.config.layer.vocab_size; }

  std::vector<int> tokens_, lengths_;
};

TEST_P(DFlashGolden, LogProbsOfBlocksAreThoseOfTheReference) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  EXPECT_LE(ErrorOf(runner.get(), false), kTolerance);
  const auto last = BlockBehind(runner.get(), lengths_.back(), 64);
  ASSERT_EQ(last.size(), drafts_.size() * vocab());
  for (size_t i = 0; i < drafts_.size(); ++i) {
    const auto row = last.begin() + static_cast<int64_t>(i) * vocab();
    EXPECT_EQ(std::max_element(row, row + vocab()) - row, drafts_[i]) << i;
  }
}

TEST_P(DFlashGolden, LogProbsIn16BitsAreNearThem) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    // OpenCL's kernels have no residual in F32 beside activations in F16.
    if (type == DType::kF16 && TestDevice().starts_with("xpu")) continue;
    auto runner = Open(type);
    ASSERT_NE(runner, nullptr);
    const double error = ErrorOf(runner.get(), true);
    std::printf("%s: %.2e\n", std::string(Name(type)).c_str(), error);
    EXPECT_LE(error, type == DType::kF16 ? kF16Tolerance : kBf16Tolerance);
  }
}

TEST_P(DFlashGolden, ChunksAndPaddingGiveTheSameBits) {
  auto runner = Open();
  ASSERT_NE(runner, nullptr);
  const int length = lengths_.back();
  const std::vector<float> at_once = BlockBehind(runner.get(), length, 64);
  for (const int chunk : {1, 5, 16}) {
    runner->padding = chunk == 5 ? 0 : 3;
    EXPECT_TRUE(BlockBehind(runner.get(), length, chunk) == at_once) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DFlashGolden, ::testing::Values("dflash", "dflash_own"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace sluice::golden
