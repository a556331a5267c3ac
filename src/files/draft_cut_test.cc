#include "files/draft_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/source_dir_fixture.h"
#include "files/eagle_files.h"
#include "files/model_files.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::TempFolder;

std::string Golden(const std::string& name) { return SourceDir() + "/tests/golden/" + name; }

bool SameRow(const FileTensor& a, size_t row_a, const FileTensor& b, size_t row_b) {
  const size_t bytes = a.data.size() / static_cast<size_t>(a.shape[0]);
  return bytes == b.data.size() / static_cast<size_t>(b.shape[0]) &&
         std::memcmp(a.data.data() + row_a * bytes, b.data.data() + row_b * bytes, bytes) == 0;
}

// All but the output matrix and what says which rows it has.
void ExpectTheRestIsTheSame(const TensorSource& cut, const TensorSource& whole,
                            const std::string& output) {
  for (const FileTensor& tensor : whole.tensors()) {
    if (tensor.name == output || tensor.name == "d2t" || tensor.name == "t2d") continue;
    const FileTensor* same = cut.Find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(same->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(std::memcmp(same->data.data(), tensor.data.data(), tensor.data.size()), 0)
        << tensor.name;
  }
}

const std::vector<int32_t> kRows = {0, 2, 3, 50, 100};

TEST(DraftCut, AModelKeepsTheRowsThatAreChosen) {
  const TempFolder folder;
  const std::string out = folder.path() + "/deep/cut";
  for (const char* const name : {"models/qwen3", "models/llama_tied"}) {
    const auto source = OpenDraftSource(Golden(name));
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ(source->ids.size(), 128u);
    EXPECT_THAT(source->end_ids, ElementsAre(2));
    ASSERT_TRUE(WriteCutDraft(*source, kRows, out, true).ok());
    const auto cut = OpenModel(out);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    EXPECT_THAT(cut->config.target_ids, ElementsAreArray(kRows));
    EXPECT_EQ(cut->config.vocab_size, 128);
    EXPECT_EQ(cut->tokenizer.pieces.size(), OpenModel(Golden(name))->tokenizer.pieces.size());
    const FileTensor* output = cut->tensors->Find("lm_head.weight");
    ASSERT_NE(output, nullptr);
    for (size_t i = 0; i < kRows.size(); ++i)
      EXPECT_TRUE(SameRow(*output, i, *source->output, static_cast<size_t>(kRows[i]))) << i;
    ExpectTheRestIsTheSame(*cut->tensors, *source->tensors, "lm_head.weight");
  }
}

TEST(DraftCut, AGgufFileStaysOne) {
  const TempFolder folder;
  const std::string out = folder.path() + "/cut.gguf";
  for (const char* const name : {"gguf/llama-Q4_0.gguf", "gguf/llama_tied-F32.gguf"}) {
    const auto source = OpenDraftSource(Golden(name));
    ASSERT_TRUE(source.ok()) << source.status().message();
    ASSERT_TRUE(WriteCutDraft(*source, kRows, out, true).ok());
    const auto cut = OpenModel(out);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    EXPECT_THAT(cut->config.target_ids, ElementsAreArray(kRows));
    const FileTensor* output = cut->tensors->Find("output.weight");
    ASSERT_NE(output, nullptr);
    EXPECT_EQ(output->dtype, source->output->dtype);
    for (size_t i = 0; i < kRows.size(); ++i)
      EXPECT_TRUE(SameRow(*output, i, *source->output, static_cast<size_t>(kRows[i]))) << i;
    ExpectTheRestIsTheSame(*cut->tensors, *source->tensors, "output.weight");
  }
}

// A second cut chooses among what the first has left.
TEST(DraftCut, AHeadIsCutToSomeOfWhatItGuesses) {
  const TempFolder folder;
  const auto source = OpenDraftSource(Golden("drafts/eagle3"));
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->ids.size(), 112u);
  EXPECT_EQ(source->ids[5], 6);
  const std::vector<int32_t> rows = {1, 5, 111};
  ASSERT_TRUE(WriteCutDraft(*source, rows, folder.path() + "/cut", false).ok());
  const auto cut = OpenEagle(folder.path() + "/cut");
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_EQ(cut->config.draft_vocab_size, 3);
  EXPECT_THAT(cut->config.target_ids, ElementsAre(1, 6, 127));
  ExpectTheRestIsTheSame(*cut->tensors, *source->tensors, "lm_head.weight");
  const auto again = OpenDraftSource(folder.path() + "/cut");
  ASSERT_TRUE(again.ok()) << again.status().message();
  const std::vector<int32_t> last = {2};
  ASSERT_TRUE(WriteCutDraft(*again, last, folder.path() + "/one", false).ok());
  EXPECT_THAT(OpenEagle(folder.path() + "/one")->config.target_ids, ElementsAre(127));
}

TEST(DraftCut, WhatIsThereIsNotReplacedUnasked) {
  const TempFolder folder;
  const auto source = OpenDraftSource(Golden("models/qwen3"));
  ASSERT_TRUE(source.ok());
  const std::string out = folder.path() + "/cut";
  ASSERT_TRUE(WriteCutDraft(*source, kRows, out, false).ok());
  EXPECT_EQ(WriteCutDraft(*source, kRows, out, false).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(WriteCutDraft(*source, kRows, out, true).ok());
  EXPECT_EQ(WriteCutDraft(*source, kRows, "/proc/nowhere/cut", false).code(), StatusCode::kIo);
}

TEST(DraftCut, WhatIsNotThereIsNamed) {
  const auto source = OpenDraftSource(Golden("models/none"));
  EXPECT_EQ(source.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(source.status().message(), HasSubstr("models/none"));
}

}  // namespace
}  // namespace sluice::files
