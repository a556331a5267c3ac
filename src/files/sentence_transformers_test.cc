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
  void WriteModule(const std::string& name, const std::string& config) {
    fs::create_directories(folder_ + "/" + name);
    Write(name + "/config.json", config);
  }
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

TEST_F(SentenceTransformers, NewerFilesNameThePooling) {
  WriteModules({"Transformer", "Pooling"});
  WritePooling(R"({"embedding_dimension": 64, "pooling_mode": "lasttoken"})");
  ASSERT_EQ(Error(), "");
  EXPECT_EQ(config_.pooling->kind, PoolingKind::kLast);
  for (const char* mode : {R"("max")", R"(["cls", "mean"])"}) {
    WritePooling(std::string(R"({"pooling_mode": )") + mode + "}");
    EXPECT_THAT(Error(), HasSubstr("not one of cls, mean and last token"));
  }
}

TEST_F(SentenceTransformers, DenseModulesStandBehindOneAnother) {
  config_.hidden_size = 64;
  WritePooling(R"({"pooling_mode_mean_tokens": true})");
  WriteModules({"Transformer", "Pooling", "Dense", "Dense", "Normalize"});
  WriteModule("2_Dense", R"({"in_features": 64, "out_features": 160})");
  WriteModule("3_Dense", R"({"in_features": 160, "out_features": 24, "bias": false,
                             "activation_function": "torch.nn.modules.linear.Identity"})");
  ASSERT_EQ(Error(), "");
  const std::vector<DenseConfig>& dense = config_.pooling->dense;
  ASSERT_EQ(dense.size(), 2u);
  EXPECT_TRUE(dense[0].tanh && dense[0].bias);
  EXPECT_FALSE(dense[1].tanh || dense[1].bias);
  EXPECT_EQ(dense[1].folder, "3_Dense");
  EXPECT_EQ(config_.vector_size(), 24);
  EXPECT_TRUE(config_.pooling->normalize);
}

TEST_F(SentenceTransformers, WhatADenseModuleMayNotBeIsTold) {
  config_.hidden_size = 64;
  WritePooling(R"({"pooling_mode_mean_tokens": true})");
  WriteModules({"Transformer", "Pooling", "Dense"});
  const std::pair<const char*, const char*> cases[] = {
      {R"({"in_features": 63, "out_features": 8})", "the vector has 64 numbers"},
      {R"({"in_features": 64})", "\"out_features\" 0"},
      {R"({"in_features": 64, "out_features": 0})", "out_features"},
      {R"({"in_features": 64, "out_features": 8, "use_residual": true})", "a residual"},
      {R"({"in_features": 64, "out_features": 8, "activation_function": "torch.nn.ReLU"})", "ReLU"},
      {R"({"in_features": 64, "out_features": 8, "module_input_name": "token_embeddings"})",
       "token_embeddings"}};
  for (const auto& [text, message] : cases) {
    WriteModule("2_Dense", text);
    EXPECT_THAT(Error(), HasSubstr(message)) << text;
  }
  WriteModules({"Transformer", "Pooling", "Normalize", "Dense"});
  EXPECT_THAT(Error(), HasSubstr("as the last one, Normalize"));
}

TEST_F(SentenceTransformers, ALogitScoreNamesTheAnswers) {
  WriteModules({"Transformer", "LogitScore"});
  WriteModule("1_LogitScore", R"({"true_token_id": 9693, "false_token_id": 2152})");
  config_.architecture = Architecture::kQwen3;
  config_.vocab_size = 10000;
  ASSERT_EQ(Error(), "");
  EXPECT_EQ(config_.pooling->answer->yes, 9693);
  EXPECT_EQ(config_.pooling->answer->no, 2152);
  EXPECT_EQ(config_.vector_size(), 2);
  config_.vocab_size = 9693;
  EXPECT_THAT(Error(), HasSubstr("true_token_id"));
  config_.vocab_size = 10000;
  config_.architecture = Architecture::kLlama;
  EXPECT_THAT(Error(), HasSubstr("Qwen3-Reranker's form"));
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
      {{"Transformer", "LayerNorm"}, "\"LayerNorm\" in place 1"},
      {{"Transformer", "Pooling", "LayerNorm"}, "\"LayerNorm\" behind the pooling"},
      {{"Transformer", "Pooling", "Dense", "Normalize"}, "2_Dense has no config.json"},
      {{"Transformer", "Pooling", "Normalize", "Normalize"}, "\"Normalize\" behind the pooling"}};
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
