#include "files/sentence_transformers.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class SentenceTransformers : public ::testing::Test {
 protected:
  SentenceTransformers()
      : folder_(::testing::TempDir() + "/sluice_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/1_Pooling");
    config_.context_length = 512;
  }
  ~SentenceTransformers() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  // Modules of these types, in folders that are called as sentence-transformers calls them.
  void WriteModules(const std::vector<std::string>& types) {
    std::string text;
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string path = i == 0 ? "" : std::to_string(i) + "_" + types[i];
      text += std::string(i == 0 ? "[" : ",") +
              R"({"idx": 0, "type": "sentence_transformers.models.)" + types[i] +
              R"(", "path": ")" + path + "\"}";
    }
    Write("modules.json", text + "]");
  }
  void WritePooling(const std::string& switches) { Write("1_Pooling/config.json", switches); }
  std::string Error() { return ReadSentenceTransformers(folder_, &config_).message(); }

  const std::string folder_;
  ModelConfig config_;
};

TEST_F(SentenceTransformers, AFolderWithoutModulesIsLeftAlone) {
  EXPECT_EQ(Error(), "");
  EXPECT_FALSE(config_.pooling.has_value());
}

TEST_F(SentenceTransformers, PoolingsAndNorms) {
  const std::pair<const char*, PoolingKind> kinds[] = {
      {R"({"pooling_mode_cls_token": true})", PoolingKind::kFirst},
      {R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})",
       PoolingKind::kMean},
      {R"({"pooling_mode_lasttoken": true})", PoolingKind::kLast}};
  for (const auto& [switches, kind] : kinds) {
    WritePooling(switches);
    WriteModules({"Transformer", "Pooling"});
    ASSERT_EQ(Error(), "");
    EXPECT_EQ(config_.pooling->kind, kind);
    EXPECT_FALSE(config_.pooling->normalize);
    WriteModules({"Transformer", "Pooling", "Normalize"});
    ASSERT_EQ(Error(), "");
    EXPECT_TRUE(config_.pooling->normalize);
  }
}

TEST_F(SentenceTransformers, TextsMayBeShorterThanTheModelTakesButNotLonger) {
  WritePooling(R"({"pooling_mode_mean_tokens": true})");
  WriteModules({"Transformer", "Pooling"});
  Write("sentence_bert_config.json", R"({"max_seq_length": 256})");
  ASSERT_EQ(Error(), "");
  EXPECT_EQ(config_.context_length, 256);
  Write("sentence_bert_config.json", R"({"max_seq_length": 1000})");
  ASSERT_EQ(Error(), "");
  EXPECT_EQ(config_.context_length, 256);
  Write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(Error(), "");
}

TEST_F(SentenceTransformers, WhatIsNotSupportedIsNamed) {
  WritePooling(R"({"pooling_mode_mean_tokens": true})");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"Transformer"}, "names no pooling"},
      {{"Pooling"}, "\"Pooling\" in place 0"},
      {{"Transformer", "Pooling", "Dense", "Normalize"}, "\"Dense\" in place 2"},
      {{"Transformer", "Pooling", "Normalize", "Normalize"}, "\"Normalize\" in place 2"}};
  for (const auto& [types, message] : cases) {
    WriteModules(types);
    EXPECT_THAT(Error(), HasSubstr(message));
  }
  WriteModules({"Transformer", "Pooling"});
  for (const char* switches :
       {R"({})", R"({"pooling_mode_max_tokens": true})",
        R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})",
        R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"}) {
    WritePooling(switches);
    EXPECT_THAT(Error(), HasSubstr("the pooling is not one of")) << switches;
  }
  fs::remove(folder_ + "/1_Pooling/config.json");
  EXPECT_THAT(Error(), HasSubstr("has no config.json"));
}

TEST_F(SentenceTransformers, FilesThatAreNoneAreRefused) {
  for (const char* text : {"{}", "[", "[1]", "5", R"([]}, {"a": [1)"}) {
    Write("modules.json", text);
    EXPECT_NE(Error(), "") << text;
  }
  Write("modules.json",
        R"([{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "../x"}])");
  EXPECT_THAT(Error(), HasSubstr("a folder beside the file is needed"));
  Write("modules.json",
        R"([{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": ".."}])");
  EXPECT_THAT(Error(), HasSubstr("a folder beside the file is needed"));
}

}  // namespace
}  // namespace sluice::files
