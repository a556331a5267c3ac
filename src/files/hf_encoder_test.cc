#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_hf_configs.h"

namespace sluice::files {
namespace {

using testing::Config;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::Good;
using ::testing::HasSubstr;

TEST(HfEncoderTest, EncodersHavePositionsTypesAndAPooling) {
  const ModelConfig bert = Good("BertModel", R"({"max_position_embeddings":64})");
  EXPECT_EQ(bert.position_rows, 64);
  EXPECT_EQ(bert.first_position, 0);
  EXPECT_EQ(bert.context_length, 64);
  EXPECT_EQ(bert.token_types, 2);
  EXPECT_EQ(bert.norm_eps, 1e-12f);
  EXPECT_EQ(bert.activation, ActivationKind::kGeluErf);
  EXPECT_TRUE(bert.attention_bias && bert.attention_output_bias && bert.mlp_bias);
  EXPECT_FALSE(bert.layers[0].use_rope);
  EXPECT_EQ(bert.vector_size(), 64);
  EXPECT_TRUE(bert.whole_prompts());
  const ModelConfig roberta =
      Good("XLMRobertaModel", R"({"max_position_embeddings":66,"type_vocab_size":1})");
  EXPECT_EQ(roberta.position_rows, 66);
  EXPECT_EQ(roberta.first_position, 2);
  EXPECT_EQ(roberta.context_length, 64);
  const ModelConfig ranker =
      Good("BertForSequenceClassification", R"({"id2label":{"1":"b","0":"a","2":"c"}})");
  EXPECT_THAT(ranker.labels, ElementsAre("a", "b", "c"));
  EXPECT_EQ(ranker.vector_size(), 3);
  EXPECT_EQ(ranker.pooling->kind, PoolingKind::kFirst);
  EXPECT_EQ(Good("BertForSequenceClassification").labels.size(), 2u);
}

TEST(HfEncoderTest, EncodersOfOtherForms) {
  const ModelConfig mpnet =
      Good("MPNetModel", R"({"max_position_embeddings":66,"pad_token_id":0})");
  EXPECT_EQ(mpnet.first_position, 2);
  EXPECT_EQ(mpnet.context_length, 64);
  EXPECT_EQ(mpnet.bias_buckets, 32);
  EXPECT_EQ(mpnet.token_types, 0);
  const ModelConfig modern = Good(
      "ModernBertModel",
      R"({"num_hidden_layers":5,"local_attention":16,"global_rope_theta":8e4,"local_rope_theta":5e3})");
  EXPECT_EQ(modern.position_rows, 0);
  EXPECT_EQ(modern.sliding_window, 9);
  EXPECT_EQ(modern.rope.theta, 8e4f);
  EXPECT_EQ(modern.local_rope.theta, 5e3f);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(modern.layers[i].kind, i % 3 == 0 ? LayerKind::kFull : LayerKind::kWindow);
    EXPECT_EQ(modern.layers[i].local_rope, i % 3 != 0);
  }
  EXPECT_EQ(Good("ModernBertModel", R"({"global_rope_theta":8e4,"local_rope_theta":null})")
                .local_rope.theta,
            8e4f);
  EXPECT_FALSE(modern.attention_bias || modern.mlp_bias || modern.plain_mlp);
  const ModelConfig ranker = Good("ModernBertForSequenceClassification",
                                  R"({"classifier_pooling":"mean","id2label":{"0":"a"}})");
  EXPECT_EQ(ranker.pooling->kind, PoolingKind::kMean);
}

TEST(HfEncoderTest, NomicBertsHaveTheKeysOfGpt2) {
  const auto config = [](const std::string& more) {
    return R"({"architectures":["NomicBertModel"],"n_embd":64,"n_head":4,"n_inner":96,"n_layer":2,
               "n_positions":8192,"max_trained_positions":2048,"layer_norm_epsilon":1e-11,
               "rotary_emb_base":500,"activation_function":"swiglu","vocab_size":100)" +
           more + "}";
  };
  const ModelConfig nomic = ConfigFromJson(config(""), "").value();
  EXPECT_EQ(nomic.hidden_size, 64);
  EXPECT_EQ(nomic.head_dim, 16);
  EXPECT_EQ(nomic.num_layers, 2);
  EXPECT_EQ(nomic.intermediate_size, 96);
  EXPECT_EQ(nomic.context_length, 8192);
  EXPECT_EQ(nomic.norm_eps, 1e-11f);
  EXPECT_EQ(nomic.rope.theta, 500.0f);
  EXPECT_EQ(nomic.position_rows, 0);
  EXPECT_EQ(nomic.token_types, 2);
  EXPECT_FALSE(nomic.attention_bias || nomic.mlp_bias || nomic.plain_mlp);
  // Longer texts would have another RoPE.
  EXPECT_EQ(ConfigFromJson(config(R"(,"rotary_scaling_factor":2)"), "")->context_length, 2048);
  EXPECT_THAT(ErrorOf(config(R"(,"prenorm":true)")), HasSubstr("\"prenorm\" is true"));
  EXPECT_THAT(ErrorOf(config(R"(,"num_experts":8)")), HasSubstr("\"num_experts\" is 8"));
  EXPECT_THAT(ErrorOf(config(R"(,"rotary_emb_fraction":0.5)")), HasSubstr("0.5; 1 is supported"));
  EXPECT_THAT(ErrorOf(config(R"(,"type_vocab_size":0)")), HasSubstr("type_vocab_size"));
}

TEST(HfEncoderTest, EncodersThatAreNotSupportedSayWhy) {
  const auto error = [](const char* text) { return ErrorOf(Config("BertModel", text)); };
  EXPECT_THAT(error(R"({"is_decoder":true})"), HasSubstr("\"is_decoder\""));
  EXPECT_THAT(error(R"({"position_embedding_type":"relative_key"})"), HasSubstr("relative_key"));
  EXPECT_THAT(error(R"({"type_vocab_size":0})"), HasSubstr("type_vocab_size"));
  EXPECT_THAT(ErrorOf(Config("MPNetModel", R"({"max_position_embeddings":2})")),
              HasSubstr("more than 2"));
  EXPECT_THAT(ErrorOf(Config("MPNetModel", R"({"relative_attention_num_buckets":16})")),
              HasSubstr("32 is supported"));
  EXPECT_THAT(ErrorOf(Config("ModernBertModel", R"({"norm_bias":true})")), HasSubstr("norm_bias"));
  EXPECT_THAT(
      ErrorOf(Config("ModernBertForSequenceClassification", R"({"classifier_pooling":"max"})")),
      HasSubstr("\"classifier_pooling\" is \"max\""));
  EXPECT_THAT(error(R"({"hidden_act":"relu"})"), HasSubstr("relu"));
  const auto labels = [](const char* text) {
    return ErrorOf(Config("BertForSequenceClassification", text));
  };
  EXPECT_THAT(labels(R"({"id2label":{}})"), HasSubstr("id2label"));
  EXPECT_THAT(labels(R"({"id2label":{"0":"a","2":"b"}})"), HasSubstr("no label 1 of 2"));
  EXPECT_THAT(ErrorOf(Config("RobertaModel", R"({"pad_token_id":511})")),
              HasSubstr("pad_token_id"));
}

}  // namespace
}  // namespace sluice::files
