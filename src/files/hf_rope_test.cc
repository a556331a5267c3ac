#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_hf_configs.h"

namespace sluice::files {
namespace {

using testing::Config;
using testing::ErrorOf;
using testing::Good;
using ::testing::HasSubstr;
using testing::Llama;
using testing::LlamaError;

TEST(HfRopeTest, RopeInBothSpellings) {
  for (const char* text :
       {R"({"rope_theta":5e5,"max_position_embeddings":1024,"rope_scaling":{"type":"llama3",
            "factor":8,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":128}})",
        R"({"max_position_embeddings":1024,"rope_parameters":{"rope_type":"llama3","factor":8,
            "rope_theta":5e5,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":128}})",
        R"({"max_position_embeddings":1024,"rope_parameters":{"full_attention":{
            "rope_type":"llama3","factor":8,"rope_theta":5e5,"low_freq_factor":1.0,
            "high_freq_factor":4.0,"original_max_position_embeddings":128}}})"}) {
    const ModelConfig config = Llama(text);
    EXPECT_EQ(config.rope.scaling, RopeScaling::kLlama3);
    EXPECT_EQ(config.rope.theta, 5e5f);
    EXPECT_EQ(config.rope.factor, 8.0f);
    EXPECT_EQ(config.rope.low_freq_factor, 1.0f);
    EXPECT_EQ(config.rope.high_freq_factor, 4.0f);
    EXPECT_EQ(config.rope.original_context, 128);
    EXPECT_EQ(config.context_length, 1024);
  }
}

TEST(HfRopeTest, RopeScalingTypes) {
  const std::string head = R"({"max_position_embeddings":64,"rope_scaling":)";
  ModelConfig config = Llama(head + R"({"type":"linear","factor":2.5}})");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 2.5f);
  EXPECT_EQ(config.context_length, 160);
  config = Llama(head + R"({"rope_type":"dynamic","factor":2.0}})");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kDynamicNtk);
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.context_length, 128);
  config = Llama(head + R"({"rope_type":"yarn","factor":4.0,"beta_fast":16,"beta_slow":2,
      "original_max_position_embeddings":32,"mscale":1.0,"mscale_all_dim":0.5,
      "truncate":false,"attention_factor":1.5}})");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.rope.original_context, 32);
  EXPECT_EQ(config.rope.beta_fast, 16.0f);
  EXPECT_EQ(config.rope.beta_slow, 2.0f);
  EXPECT_EQ(config.rope.mscale, 1.0f);
  EXPECT_EQ(config.rope.mscale_all_dim, 0.5f);
  EXPECT_EQ(config.rope.attention_factor, 1.5f);
  EXPECT_FALSE(config.rope.truncate);
  EXPECT_EQ(config.context_length, 128);
  config = Llama(head + R"({"rope_type":"default"}})");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(Llama(R"({"partial_rotary_factor":0.5})").rope.rotary_dims, 8);
}

TEST(HfRopeTest, Phi3LongRopeUnderItsOldNames) {
  for (const char* type : {"su", "yarn", "longrope"}) {
    const ModelConfig config =
        Good("Phi3ForCausalLM", std::string(R"({"max_position_embeddings":128,
            "original_max_position_embeddings":32,"rope_scaling":{
            "short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,2,3,4,5,6,7,8],"type":")") +
                                    type + "\"}}");
    EXPECT_EQ(config.rope.scaling, RopeScaling::kLongRope);
    EXPECT_EQ(config.rope.original_context, 32);
    EXPECT_EQ(config.rope.factor, 4.0f);
    EXPECT_EQ(config.rope.long_factor[7], 8.0f);
    EXPECT_EQ(config.context_length, 128);
  }
  const auto error = [](const char* rope) {
    return ErrorOf(Config("Phi3ForCausalLM", std::string(R"({"rope_scaling":)") + rope + "}"));
  };
  EXPECT_THAT(error(R"({"type":"su","short_factor":[1]})"), HasSubstr("needs \"long_factor\""));
  EXPECT_THAT(error(R"({"type":"su","short_factor":[1],"long_factor":[1]})"),
              HasSubstr("short factor has 1 values"));
  EXPECT_THAT(error(R"({"type":"su","short_factor":["x"],"long_factor":[1]})"),
              HasSubstr("short_factor"));
  EXPECT_THAT(error(R"({"type":"su","short_factor":[0],"long_factor":[1]})"),
              HasSubstr("short_factor"));
  EXPECT_THAT(error(R"({"type":"su","short_factor":1,"long_factor":[1]})"), HasSubstr("list of"));
}

TEST(HfRopeTest, RefusesBadRope) {
  const auto error = [](const std::string& rope) {
    return LlamaError(R"({"rope_scaling":)" + rope + "}");
  };
  EXPECT_THAT(error("1"), HasSubstr("object is needed"));
  EXPECT_THAT(error(R"({"type":"magic"})"), HasSubstr("\"magic\""));
  EXPECT_THAT(error(R"({"type":1})"), HasSubstr("string is needed"));
  EXPECT_THAT(error(R"({"type":"linear"})"), HasSubstr("needs \"factor\""));
  EXPECT_THAT(error(R"({"type":"linear","factor":0})"), HasSubstr("\"factor\" is 0"));
  EXPECT_THAT(error(R"({"type":"linear","factor":"2"})"), HasSubstr("number"));
  EXPECT_THAT(error(R"({"type":"yarn"})"), HasSubstr("needs \"factor\""));
  EXPECT_THAT(error(R"({"type":"yarn","factor":2,"beta_fast":1,"beta_slow":2})"),
              HasSubstr("beta_fast"));
  EXPECT_THAT(error(R"({"type":"llama3","factor":2,"low_freq_factor":4})"),
              HasSubstr("high_freq_factor"));
  EXPECT_THAT(error(R"({"type":"llama3","factor":2,"low_freq_factor":4,"high_freq_factor":4})"),
              HasSubstr("above"));
  EXPECT_THAT(LlamaError(R"({"rope_theta":0})"), HasSubstr("rope_theta"));
  EXPECT_THAT(LlamaError(R"({"partial_rotary_factor":0.3,"head_dim":10})"),
              HasSubstr("even number"));
  EXPECT_THAT(LlamaError(R"({"partial_rotary_factor":1.5})"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(LlamaError(R"({"rope_parameters":{"full_attention":{"rope_theta":5},
                                                "sliding_attention":{"rope_theta":6}}})"),
              HasSubstr("differ between kinds"));
}

}  // namespace
}  // namespace sluice::files
