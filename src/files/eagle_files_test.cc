#include "files/eagle_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/str_cat.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsBytes;
using testing::TempFolder;

// A folder of a head that guesses three of eight tokens; a test spoils what it is about.
struct Head {
  Json config = {{"architectures", {"LlamaForCausalLMEagle3"}},
                 {"vocab_size", 8},
                 {"draft_vocab_size", 3},
                 {"hidden_size", 4},
                 {"target_hidden_size", 6},
                 {"intermediate_size", 8},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"max_position_embeddings", 16},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", false}};
  std::vector<int64_t> d2t = {1, 1, 5};
  std::string more;  // tensors of the header, of no bytes that count

  Result<EagleFiles> Open() const {
    TempFolder folder;
    folder.Write("config.json", DumpJson(config));
    const size_t ids = d2t.size() * sizeof(int64_t);
    auto bytes = SafetensorsBytes(
        StrCat(R"({"d2t":{"dtype":"I64","shape":[)", d2t.size(), R"(],"data_offsets":[0,)", ids,
               R"(]},"t2d":{"dtype":"BOOL","shape":[8],"data_offsets":[)", ids, ",", ids + 8, "]}",
               more, "}"),
        ids + 8 + (more.empty() ? 0 : 16));
    const size_t tail = ids + 8 + (more.empty() ? 0 : 16);
    std::memcpy(bytes.data() + bytes.size() - tail, d2t.data(), ids);
    folder.Write("model.safetensors", bytes);
    EXPECT_EQ(IsEagle(folder.path()), config["architectures"][0] == "LlamaForCausalLMEagle3");
    return OpenEagle(folder.path());
  }
  std::string Error() const {
    const auto opened = Open();
    if (opened.ok()) return "no error";
    EXPECT_EQ(opened.status().code(), StatusCode::kBadModel);
    return opened.status().message();
  }
};

TEST(EagleFiles, AHeadIsReadAsItIsPublished) {
  Head head;
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 14, 25}},
                                 {"use_aux_hidden_state", true}};
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const EagleConfig& config = opened->config;
  EXPECT_EQ(config.target_hidden_size, 6);
  EXPECT_EQ(config.draft_vocab_size, 3);
  EXPECT_EQ(config.layer.vocab_size, 8);
  EXPECT_EQ(config.layer.num_layers, 0);
  EXPECT_THAT(config.target_ids, ElementsAre(1, 2, 7));
  EXPECT_THAT(config.hidden_layers, ElementsAre(1, 14, 25));
  EXPECT_FALSE(config.own_embedding);
}

TEST(EagleFiles, WhatTheFileDoesNotSayIsThatOfTheModel) {
  Head head;
  head.config.erase("target_hidden_size");
  head.config.erase("draft_vocab_size");
  head.d2t = {0, 0, 0, 0, 0, 0, 0, 0};
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.target_hidden_size, 4);
  EXPECT_EQ(opened->config.draft_vocab_size, 8);
  EXPECT_TRUE(opened->config.hidden_layers.empty());
}

TEST(EagleFiles, AnEmbeddingOfItsOwnIsFound) {
  Head head;
  head.more = R"(,"embed_tokens.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[32,48]})";
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(opened->config.own_embedding);
}

// The map of tokens may lie in each of three ways.
TEST(EagleFiles, IdsThatLieAreNamed) {
  Head head;
  head.d2t = {1, 1};
  EXPECT_THAT(head.Error(), HasSubstr("\"d2t\" has 2 tokens, and \"draft_vocab_size\" is 3"));
  head.d2t = {1, 1, 6};
  EXPECT_THAT(head.Error(), HasSubstr("puts guess 2 6 further, outside of the vocabulary of 8"));
  head.d2t = {-1, 1, 1};
  EXPECT_THAT(head.Error(), HasSubstr("puts guess 0 -1 further"));
  head.d2t = {1, INT64_MAX, 1};
  EXPECT_THAT(head.Error(), HasSubstr("puts guess 1 9223372036854775807 further"));
  head.d2t = {2, 1, 1};
  EXPECT_THAT(head.Error(), HasSubstr("gives the guesses 0 and 1 the same token 2"));
}

TEST(EagleFiles, WhatIsWrongIsSaid) {
  Head head;
  head.config["num_hidden_layers"] = 2;
  EXPECT_THAT(head.Error(), HasSubstr("\"num_hidden_layers\" is 2; heads of one layer"));
  head = Head();
  head.config["draft_vocab_size"] = 9;
  EXPECT_THAT(head.Error(), HasSubstr("\"draft_vocab_size\" is 9"));
  head = Head();
  head.config["architectures"] = {"Qwen3ForCausalLM"};
  EXPECT_THAT(head.Error(), HasSubstr("names no head of EAGLE-3's form but \"Qwen3ForCausalLM\""));
  head = Head();
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 14}}};
  EXPECT_THAT(head.Error(), HasSubstr("has 2 layers; a head reads 3"));
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 14, 14}}};
  EXPECT_THAT(head.Error(), HasSubstr("which do not ascend"));
  head = Head();
  head.config["hidden_size"] = 12;
  head.config["target_hidden_size"] = 4;
  EXPECT_THAT(head.Error(), HasSubstr("\"hidden_size\" 12 is that of 3 hidden states"));
  head = Head();
  head.more = R"(,"fc.bias":{"dtype":"F32","shape":[4],"data_offsets":[32,48]})";
  EXPECT_THAT(head.Error(), HasSubstr("\"fc\" has a bias"));
}

TEST(EagleFiles, AFolderThatIsNotThereIsNone) {
  EXPECT_FALSE(IsEagle("/nowhere"));
  EXPECT_EQ(OpenEagle("/nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::files
