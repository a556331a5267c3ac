// Tokenizers of folders without tokenizer.json give the ids of the official programs
// (tools/golden/folder_tokenizers.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "files/model_files.h"
#include "text/tokenizer.h"

namespace sluice::text {
namespace {

std::string FolderOf(const std::string& name) {
  return SourceDir() + "/tests/golden/tokenizers/" + name;
}

std::shared_ptr<const Tokenizer> Open(const std::string& name) {
  auto files = files::OpenText(FolderOf(name));
  EXPECT_TRUE(files.ok()) << files.status().message();
  if (!files.ok()) return nullptr;
  auto tokenizer = Tokenizer::Make(std::move(files->tokenizer));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

class FolderTokenizerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FolderTokenizerTest, GivesTheOfficialIds) {
  const auto tokenizer = Open(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream stream(FolderOf(GetParam()) + "/expected.json");
  std::stringstream text;
  text << stream.rdbuf();
  const Json cases = Json::parse(text.str());
  ASSERT_GT(cases.size(), 10u);
  for (const Json& expected : cases) {
    EncodeOptions options;
    options.add_special = expected["special"].get<bool>();
    const auto ids = tokenizer->Encode(expected["text"].get<std::string>(), options);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(Json(*ids), expected["ids"]) << expected["text"] << options.add_special;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FolderTokenizerTest,
                         ::testing::Values("llama", "gemma", "t5", "unigram_bytes", "gpt2", "qwen2",
                                           "roberta", "bert", "bert_cased", "qwen", "kimi"));

TEST(FolderTokenizersTest, DecodeAndEndAnswersAsTheirModelsDo) {
  const auto llama = Open("llama"), gemma = Open("gemma"), qwen = Open("qwen");
  ASSERT_TRUE(llama != nullptr && gemma != nullptr && qwen != nullptr);
  for (const auto& tokenizer : {llama, gemma, qwen}) {
    const std::string text = "The word: \xE6\xBC\xA2 twice  two";
    EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode(text, {}), false), text);
    EXPECT_FALSE(tokenizer->data().end_of_generation_ids.empty());
  }
  EXPECT_TRUE(llama->IsSpecial(llama->Find("</s>")));
  EXPECT_FALSE(gemma->IsSpecial(gemma->Find("<special>")));
  EXPECT_TRUE(qwen->IsSpecial(qwen->Find("<|extra_204|>")));
}

}  // namespace
}  // namespace sluice::text
