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
    EXPECT_EQ(IsEagle(folder.path()), config["architectures"][0] != "Qwen3ForCausalLM");
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
  EXPECT_EQ(config.form, EagleForm::kThird);
  EXPECT_EQ(config.layer.num_layers, 1);
  EXPECT_THAT(config.target_ids, ElementsAre(1, 2, 7));
  EXPECT_THAT(config.hidden_layers, ElementsAre(1, 14, 25));
  EXPECT_FALSE(config.own_embedding);
}

TEST(EagleFiles, LayersMayBeCountedByWhatTheyAreGiven) {
  Head head;
  head.config["eagle_aux_hidden_state_layer_ids"] = {2, 15, 26};
  head.config["norm_before_residual"] = true;
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_THAT(opened->config.hidden_layers, ElementsAre(1, 14, 25));
  EXPECT_TRUE(opened->config.norm_before_residual);
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

TEST(EagleFiles, ItMayReadAnyNumberOfLayers) {
  for (const int count : {1, 2, 5}) {
    Head head;
    std::vector<int> layers;
    for (int i = 0; i < count; ++i) layers.push_back(1 + 8 * i);
    head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", layers}};
    const auto opened = head.Open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->config.hidden_layers, layers);
    EXPECT_EQ(opened->config.read_width(), count * 6);
  }
}

// The tensors say whether its layers are Llama's or Qwen3's, whatever its class is called.
TEST(EagleFiles, EachTrainerHasANameForItsClass) {
  for (const char* const name : {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM",
                                 "Qwen3ForCausalLMEagle3", "Eagle3Qwen3ForCausalLM"}) {
    Head head;
    head.config["architectures"] = {name};
    head.config["num_key_value_heads"] = head.config["head_dim"] = 2;
    auto opened = head.Open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->config.form, EagleForm::kThird) << name;
    EXPECT_EQ(opened->config.layer.qk_norm, QkNormKind::kNone) << name;
    head.more =
        R"(,"midlayer.self_attn.q_norm.weight":{"dtype":"F32","shape":[4],"data_offsets":[32,48]})";
    opened = head.Open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->config.layer.qk_norm, QkNormKind::kHead) << name;
  }
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
  EXPECT_THAT(head.Error(),
              HasSubstr("\"d2t\" has 6 for guess 2, which leads out of the vocabulary of 8"));
  head.d2t = {-1, 1, 1};
  EXPECT_THAT(head.Error(), HasSubstr("has -1 for guess 0"));
  head.d2t = {1, INT64_MAX, 1};
  EXPECT_THAT(head.Error(), HasSubstr("has 9223372036854775807 for guess 1"));
  head.d2t = {2, 1, 1};
  EXPECT_THAT(head.Error(), HasSubstr("gives the guesses 0 and 1 the same token 2"));
}

TEST(EagleFiles, WhatIsWrongIsSaid) {
  Head head;
  head.config["draft_vocab_size"] = 9;
  EXPECT_THAT(head.Error(), HasSubstr("\"draft_vocab_size\" is 9"));
  head = Head();
  head.config["architectures"] = {"Qwen3ForCausalLM"};
  EXPECT_THAT(head.Error(), HasSubstr("names no head of EAGLE's form but \"Qwen3ForCausalLM\""));
  head = Head();
  std::vector<int> many(65);
  for (int i = 0; i < 65; ++i) many[static_cast<size_t>(i)] = i;
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", many}};
  EXPECT_THAT(head.Error(), HasSubstr("has 65 layers; a head reads 1 to 64"));
  head = Head();
  head.config["norm_before_fc"] = head.config["fc_norm"] = true;
  EXPECT_THAT(head.Error(), HasSubstr("\"norm_before_fc\" and \"fc_norm\" are both true"));
  head = Head();
  head.config["eagle_aux_hidden_state_layer_ids"] = {0, 14, 25};
  EXPECT_THAT(head.Error(), HasSubstr("\"eagle_aux_hidden_state_layer_ids\""));
  head = Head();
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 14, 14}}};
  EXPECT_THAT(head.Error(), HasSubstr("which do not ascend"));
}

// A head that guesses a block at once.
Head ParallelHead() {
  Head head;
  head.more = R"(,"mask_hidden":{"dtype":"F32","shape":[1,1,4],"data_offsets":[32,48]})";
  head.config["ptd_token_id"] = 5;
  return head;
}

TEST(EagleFiles, AHeadOfTheParallelFormIsKnownByItsMask) {
  for (const char* const key : {"ptd_token_id", "pard_token", "mask_token_id"}) {
    Head head = ParallelHead();
    head.config.erase("ptd_token_id");
    head.config[key] = 5;
    head.config["num_hidden_layers"] = 4;
    const auto opened = head.Open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->config.form, EagleForm::kParallel);
    EXPECT_EQ(opened->config.mask_token, 5);
    EXPECT_EQ(opened->config.layer.num_layers, 4);
  }
}

TEST(EagleFiles, AMaskThatIsMissingIsNamed) {
  Head head = ParallelHead();
  head.config["ptd_token_id"] = nullptr;
  EXPECT_THAT(head.Error(),
              HasSubstr("has the tensor \"mask_hidden\", and config.json names no mask token "
                        "(\"ptd_token_id\", \"pard_token\" or \"mask_token_id\")"));
  head = ParallelHead();
  head.more.clear();
  EXPECT_THAT(head.Error(), HasSubstr("there is no tensor \"mask_hidden\""));
  for (const int id : {-1, 8}) {
    head = ParallelHead();
    head.config["ptd_token_id"] = id;
    EXPECT_THAT(head.Error(), HasSubstr(StrCat("\"ptd_token_id\" is ", id)));
  }
}

// A folder of a head of the first form for a model of eight tokens; a test spoils what it is about.
struct FirstHead {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"vocab_size", 8},
                 {"hidden_size", 4},
                 {"intermediate_size", 8},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 2},
                 {"max_position_embeddings", 16},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", false}};
  std::vector<std::string> vectors = {"fc.weight", "layers.0.self_attn.q_proj.weight"};

  void WriteTo(const TempFolder& folder) const {
    folder.Write("config.json", DumpJson(config));
    std::string header;
    for (size_t i = 0; i < vectors.size(); ++i)
      header += StrCat(i > 0 ? "," : "", "\"", vectors[i], R"(":{"dtype":"F32","shape":[2],)",
                       R"("data_offsets":[)", 8 * i, ",", 8 * i + 8, "]}");
    folder.Write("model.safetensors",
                 SafetensorsBytes(StrCat("{", header, "}"), 8 * vectors.size()));
  }
  Result<EagleFiles> Open() const {
    TempFolder folder;
    WriteTo(folder);
    return OpenEagle(folder.path());
  }
  bool IsOne() const {
    TempFolder folder;
    WriteTo(folder);
    return IsEagle(folder.path());
  }
  std::string Error() const {
    const auto opened = Open();
    if (opened.ok()) return "no error";
    EXPECT_EQ(opened.status().code(), StatusCode::kBadModel);
    return opened.status().message();
  }
};

TEST(EagleFiles, AHeadOfTheFirstFormIsReadAsItIsPublished) {
  FirstHead head;
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const EagleConfig& config = opened->config;
  EXPECT_EQ(config.form, EagleForm::kFirst);
  EXPECT_EQ(config.layer.num_layers, 1);
  EXPECT_EQ(config.read_width(), 4);
  EXPECT_EQ(config.target_hidden_size, 4);
  EXPECT_EQ(config.draft_vocab_size, 8);
  EXPECT_FALSE(config.own_embedding || config.join_bias || config.layer.attention_bias);
  EXPECT_TRUE(config.target_ids.empty() && config.hidden_layers.empty());
}

// The published ones disagree about which keys tell of biases, so the tensors do.
TEST(EagleFiles, WhatAHeadOfTheFirstFormHasItsTensorsSay) {
  FirstHead head;
  head.config["num_hidden_layers"] = 2;
  head.vectors.insert(head.vectors.end(), {"fc.bias", "layers.0.self_attn.q_proj.bias",
                                           "model.embed_tokens.weight", "lm_head.weight"});
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.layer.num_layers, 2);
  EXPECT_TRUE(opened->config.own_embedding);
  EXPECT_TRUE(opened->config.join_bias);
  EXPECT_TRUE(opened->config.layer.attention_bias);
}

TEST(EagleFiles, TheFirstFormHasManyNames) {
  FirstHead head;
  for (const char* const name : {"LlamaForCausalLM", "Qwen2ForCausalLM", "LlamaForCausalLMEagle",
                                 "EagleLlamaForCausalLM", "EagleModel", "EAGLEModel"}) {
    head.config["architectures"] = {name};
    const auto opened = head.Open();
    ASSERT_TRUE(opened.ok()) << name << ": " << opened.status().message();
    EXPECT_EQ(opened->config.form, EagleForm::kFirst) << name;
    EXPECT_TRUE(head.IsOne()) << name;
  }
}

TEST(EagleFiles, LayersMayBeDescribedInsideAsVllmWritesThem) {
  FirstHead head;
  const Json layers = head.config;
  head.config = {{"architectures", {"EAGLEModel"}},
                 {"model_type", "eagle"},
                 {"vocab_size", 9},
                 {"bos_token_id", 1},
                 {"model", layers}};
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.layer.hidden_size, 4);
  EXPECT_EQ(opened->config.layer.vocab_size, 8);
  EXPECT_EQ(opened->config.form, EagleForm::kFirst);
  head.config["model"]["architectures"] = {"OPTForCausalLM"};
  EXPECT_THAT(head.Error(), HasSubstr("the layers of the head are those of \"OPTForCausalLM\""));
}

// Heads of both forms were published under the name of what their layers are, and so are models.
TEST(EagleFiles, UnderTheNameOfAModelItsTensorsTellWhatItIs) {
  FirstHead head;
  head.vectors = {"fc.weight", "midlayer.self_attn.q_proj.weight"};
  const auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.form, EagleForm::kThird);
  EXPECT_TRUE(head.IsOne());
  head.vectors = {"model.layers.0.self_attn.q_proj.weight"};
  EXPECT_FALSE(head.IsOne());
  EXPECT_THAT(head.Error(), HasSubstr("no tensor \"fc.weight\", which every head of EAGLE's form "
                                      "has; this is a model"));
}

TEST(EagleFiles, NormsThatAreAddedToTheFirstFormAreFoundByTheirNames) {
  FirstHead head;
  const auto norms = [&] {
    const auto opened = head.Open();
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? opened->config.added_norms : AddedNorms();
  };
  const FirstHead plain = head;
  EXPECT_EQ(norms().embedding + norms().states + norms().first_layer + norms().output, "");
  head.vectors.insert(head.vectors.end(), {"embed_layernorm.weight", "hidden_layernorm.weight",
                                           "lm_head_layernorm.weight"});
  EXPECT_EQ(norms().embedding, "embed_layernorm.weight");
  EXPECT_EQ(norms().states, "hidden_layernorm.weight");
  EXPECT_EQ(norms().first_layer, "");
  EXPECT_EQ(norms().output, "lm_head_layernorm.weight");
  head = plain;
  head.config["add_para_norm"] = true;
  head.vectors.insert(head.vectors.end(), {"model.enorm.weight", "model.hnorm.weight"});
  EXPECT_EQ(norms().embedding, "model.enorm.weight");
  EXPECT_EQ(norms().states, "model.hnorm.weight");
  EXPECT_EQ(norms().output, "");
}

TEST(EagleFiles, SpeculatorsHasNormsOfTheFirstFormWhereItSaysSo) {
  FirstHead head;
  const Json layers = head.config;
  head.vectors = {"fusion_fc.weight", "embedding_layernorm.weight",
                  "transformer.input_layernorm.weight", "pre_lm_head_layernorm.weight"};
  head.config = {{"speculators_model_type", "eagle"},
                 {"layernorms", true},
                 {"transformer_layer_config", layers}};
  head.config["transformer_layer_config"]["model_type"] = "llama";
  auto opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.added_norms.embedding, "embedding_layernorm.weight");
  EXPECT_EQ(opened->config.added_norms.states, "");
  EXPECT_EQ(opened->config.added_norms.first_layer, "transformer.input_layernorm.weight");
  EXPECT_EQ(opened->config.added_norms.output, "pre_lm_head_layernorm.weight");
  head.config["layernorms"] = false;  // as the library then leaves them out
  opened = head.Open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.added_norms.first_layer, "");
  head.config["layernorms"] = true;
  head.vectors.pop_back();
  EXPECT_THAT(head.Error(), HasSubstr("says \"layernorms\", and there is no tensor "
                                      "\"pre_lm_head_layernorm.weight\""));
}

TEST(EagleFiles, WhatTheFirstFormDoesNotHaveIsRefused) {
  FirstHead head;
  head.config["architectures"] = {"LlamaForCausalLMEagle"};
  const FirstHead good = head;
  for (const char* const name : {"d2t", "token_map"}) {
    head = good;
    head.vectors.push_back(name);
    EXPECT_THAT(head.Error(), HasSubstr(StrCat("a part of the vocabulary by \"", name, "\"")));
  }
  head = good;
  head.vectors.push_back("layers.0.input_layernorm.weight");
  EXPECT_THAT(head.Error(), HasSubstr("a norm before the attention of its first layer"));
  head = good;
  head.config["add_para_norm"] = true;
  EXPECT_THAT(head.Error(), HasSubstr("says \"add_para_norm\", and there is no tensor "
                                      "\"enorm.weight\""));
  head.vectors.push_back("enorm.weight");
  EXPECT_THAT(head.Error(), HasSubstr("there is no tensor \"hnorm.weight\""));
  head = good;
  head.vectors = {"layers.0.self_attn.q_proj.weight"};
  EXPECT_THAT(head.Error(), HasSubstr("no tensor \"fc.weight\", which every head of EAGLE's form "
                                      "has; the download may be incomplete"));
  head = good;
  head.config["num_hidden_layers"] = 0;
  EXPECT_THAT(head.Error(), HasSubstr("\"num_hidden_layers\" is 0"));
  head = good;
  head.config["architectures"] = {"Qwen2ForCausalLM"};
  head.config["use_sliding_window"] = true;
  head.config["max_window_layers"] = 0;
  head.config["sliding_window"] = 4;
  EXPECT_THAT(head.Error(), HasSubstr("layers of the head have windows"));
}

// A whole one is among the heads of tests/golden.
TEST(EagleFiles, WeightsMayBeInPyTorchsFile) {
  TempFolder folder;
  folder.Write("config.json", DumpJson(FirstHead().config));
  EXPECT_EQ(OpenEagle(folder.path()).status().code(), StatusCode::kNotFound);
  folder.Write("pytorch_model.bin", "PK");
  const Status status = OpenEagle(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  EXPECT_THAT(status.message(), HasSubstr("pytorch_model.bin: it is no zip file"));
  EXPECT_FALSE(IsEagle(folder.path()));
}

TEST(EagleFiles, AFolderThatIsNotThereIsNone) {
  EXPECT_FALSE(IsEagle("/nowhere"));
  EXPECT_EQ(OpenEagle("/nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::files
