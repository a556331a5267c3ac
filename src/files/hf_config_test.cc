#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "files/architectures.h"
#include "files/test_hf_configs.h"

namespace sluice::files {
namespace {

using testing::Config;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::Good;
using ::testing::HasSubstr;
using testing::LayersWithExperts;
using testing::Llama;
using testing::LlamaError;
using testing::Windows;

TEST(HfConfigTest, Llama) {
  const ModelConfig config = Llama(
      R"({"_name_or_path":"Tiny","rms_norm_eps":1e-5,"max_position_embeddings":256,
          "tie_word_embeddings":true,"attention_bias":true,"mlp_bias":true,"head_dim":32,
          "torch_dtype":"bfloat16","bos_token_id":1,"rope_theta":500000,"sliding_window":8})");
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.name, "Tiny");
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.context_length, 256);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_TRUE(config.tied_embeddings && config.attention_bias && config.attention_output_bias &&
              config.mlp_bias);
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_THAT(config.eos_ids, ElementsAre(2));
  EXPECT_EQ(config.rope.theta, 500000.0f);
  EXPECT_EQ(config.rope.rotary_dims, 32);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_NEAR(config.attention_scale, 1 / std::sqrt(32.0f), 1e-7f);
  EXPECT_THAT(Windows(config), ElementsAre(false, false, false, false));
}

TEST(HfConfigTest, AbsentKeysHaveTheDefaultsOfTransformers) {
  const auto bare = [](const std::string& class_name) {
    auto config = ConfigFromJson(R"({"architectures":[")" + class_name + "\"]}", "");
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config.ok() ? *config : ModelConfig();
  };
  const ModelConfig llama = bare("LlamaForCausalLM");
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.context_length, 2048);
  EXPECT_EQ(llama.norm_eps, 1e-6f);
  EXPECT_EQ(llama.rope.theta, 10000.0f);
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_THAT(llama.eos_ids, ElementsAre(2));
  EXPECT_EQ(llama.bos_id, 1);
  const ModelConfig mistral = bare("MistralForCausalLM");
  EXPECT_EQ(mistral.num_kv_heads, 8);
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_EQ(mistral.layers[31].kind, LayerKind::kWindow);
  const ModelConfig qwen2 = bare("Qwen2ForCausalLM");
  EXPECT_EQ(qwen2.sliding_window, 0);
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  EXPECT_TRUE(qwen2.eos_ids.empty());
  EXPECT_EQ(bare("Qwen3ForCausalLM").head_dim, 128);
  const ModelConfig gemma2 = bare("Gemma2ForCausalLM");
  EXPECT_EQ(gemma2.attention_soft_cap, 50.0f);
  EXPECT_EQ(gemma2.logit_soft_cap, 30.0f);
  EXPECT_EQ(gemma2.attention_scale, 0.0625f);
  EXPECT_EQ(gemma2.embedding_scale, 48.0f);
  EXPECT_TRUE(gemma2.tied_embeddings);
  EXPECT_THAT(gemma2.eos_ids, ElementsAre(1));
  const ModelConfig gemma3 = bare("Gemma3ForCausalLM");
  EXPECT_EQ(gemma3.rope.theta, 1e6f);
  EXPECT_EQ(gemma3.local_rope.theta, 1e4f);
  EXPECT_FALSE(gemma3.attention_soft_cap || gemma3.logit_soft_cap);
  const ModelConfig phi3 = bare("Phi3ForCausalLM");
  EXPECT_EQ(phi3.norm_eps, 1e-5f);
  EXPECT_EQ(phi3.sliding_window, 0);
  EXPECT_THAT(phi3.eos_ids, ElementsAre(32000));
  const ModelConfig smollm3 = bare("SmolLM3ForCausalLM");
  EXPECT_EQ(smollm3.rope.theta, 2e6f);
  EXPECT_TRUE(smollm3.tied_embeddings);
  EXPECT_FALSE(smollm3.layers[35].use_rope);
}

TEST(HfConfigTest, ModelTypeStandsInForArchitectures) {
  EXPECT_EQ(ConfigFromJson(R"({"model_type":"qwen3"})", "")->architecture, Architecture::kQwen3);
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("names no architecture"));
  const std::string refused = ErrorOf(R"({"architectures":["GPTJModel"]})");
  EXPECT_THAT(refused, HasSubstr("\"GPTJModel\""));
  for (const ArchitectureInfo& known : Architectures()) {
    for (const HfName& hf : known.hf_names) EXPECT_THAT(refused, HasSubstr(hf.class_name));
  }
}

TEST(HfConfigTest, NullHeadsMeanAsManyAsQueries) {
  EXPECT_EQ(Good("MistralForCausalLM", R"({"num_key_value_heads":null})").num_kv_heads, 4);
  EXPECT_EQ(Good("Qwen3ForCausalLM", R"({"head_dim":null})").head_dim, 16);
}

TEST(HfConfigTest, EosIdsAreTheUnionOfBothFiles) {
  const ModelConfig config = Good("LlamaForCausalLM", R"({"eos_token_id":[5,3]})",
                                  R"({"eos_token_id":[7,3,100],"bos_token_id":4})");
  EXPECT_THAT(config.eos_ids, ElementsAre(3, 5, 7));  // 100 is beyond the vocabulary
  EXPECT_EQ(config.bos_id, 4);
  EXPECT_TRUE(Llama(R"({"eos_token_id":null})").eos_ids.empty());
}

TEST(HfConfigTest, WindowsOfMistralAndPhi3) {
  const std::string window = R"({"max_position_embeddings":64,"sliding_window":)";
  for (const char* name : {"MistralForCausalLM", "Phi3ForCausalLM"}) {
    EXPECT_THAT(Windows(Good(name, window + "16}")), ElementsAre(true, true, true, true));
    EXPECT_THAT(Windows(Good(name, window + "64}")), ElementsAre(false, false, false, false));
    EXPECT_THAT(Windows(Good(name, window + "null}")), ElementsAre(false, false, false, false));
  }
}

TEST(HfConfigTest, WindowsOfQwen) {
  for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    for (const char* off : {"8", "0", "null"}) {
      const std::string text = R"({"max_window_layers":1,"sliding_window":)" + std::string(off);
      EXPECT_THAT(Windows(Good(name, text + "}")), ElementsAre(false, false, false, false));
      EXPECT_THAT(Windows(Good(name, text + R"(,"use_sliding_window":false})")),
                  ElementsAre(false, false, false, false));
    }
    EXPECT_THAT(ErrorOf(Config(name, R"({"use_sliding_window":true,"sliding_window":0})")),
                HasSubstr("\"sliding_window\" is 0"));
    const ModelConfig used =
        Good(name, R"({"use_sliding_window":true,"sliding_window":8,"max_window_layers":1})");
    EXPECT_THAT(Windows(used), ElementsAre(false, true, true, true));
    EXPECT_EQ(used.sliding_window, 8);
    const std::string types =
        R"("layer_types":["sliding_attention","full_attention","full_attention","full_attention"])";
    EXPECT_THAT(
        Windows(Good(name, R"({"use_sliding_window":true,"sliding_window":8,)" + types + "}")),
        ElementsAre(true, false, false, false));
    EXPECT_THAT(ErrorOf(Config(name, "{" + types + "}")), HasSubstr("sliding window of 0"));
  }
}

TEST(HfConfigTest, WindowsOfQwen2Moe) {
  const auto windows = [](const std::string& text) {
    return Windows(Good("Qwen2MoeForCausalLM", text));
  };
  EXPECT_THAT(windows(R"({"sliding_window":8})"), ElementsAre(false, false, false, false));
  EXPECT_THAT(windows(R"({"use_sliding_window":true,"sliding_window":8})"),
              ElementsAre(true, false, true, false));
  EXPECT_THAT(windows(R"({"use_sliding_window":true,"sliding_window":8,"max_window_layers":1})"),
              ElementsAre(true, false, false, false));
  EXPECT_THAT(windows(R"({"use_sliding_window":true,"sliding_window":8,"layer_types":[
      "full_attention","sliding_attention","full_attention","full_attention"]})"),
              ElementsAre(false, true, false, false));
}

TEST(HfConfigTest, LayerTypesAreChecked) {
  const auto error = [](const char* types) {
    return ErrorOf(Config("Gemma2ForCausalLM", std::string(R"({"layer_types":)") + types + "}"));
  };
  EXPECT_THAT(error(R"(["full_attention"])"), HasSubstr("list of 4 names"));
  EXPECT_THAT(error("1"), HasSubstr("list of 4 names"));
  EXPECT_THAT(error(R"(["full_attention","linear_attention",1,2])"), HasSubstr("layer 1"));
  EXPECT_THAT(error(R"(["full_attention",2,1,2])"), HasSubstr("layer 1"));
}

TEST(HfConfigTest, Gemma2) {
  const ModelConfig config =
      Good("Gemma2ForCausalLM",
           R"({"head_dim":32,"query_pre_attn_scalar":64,"sliding_window":8,"hidden_act":"silu",
          "attn_logit_softcapping":null,"final_logit_softcapping":20.5})");
  EXPECT_THAT(Windows(config), ElementsAre(true, false, true, false));
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.attention_scale, 0.125f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.activation, ActivationKind::kGeluTanh);
  EXPECT_FALSE(config.attention_soft_cap.has_value());
  EXPECT_EQ(config.logit_soft_cap, 20.5f);
}

TEST(HfConfigTest, Gemma3InBothSpellingsAndInsideText) {
  const std::string four = R"({"head_dim":16,"sliding_window":8,"sliding_window_pattern":2,
      "rope_theta":1000000,"rope_local_base_freq":20000,
      "rope_scaling":{"rope_type":"linear","factor":8.0},"max_position_embeddings":512})";
  const std::string five = R"({"head_dim":16,"sliding_window":8,"max_position_embeddings":512,
      "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
      "dtype":"float16","rope_parameters":{
        "full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0},
        "sliding_attention":{"rope_type":"default","rope_theta":20000.0}}})";
  for (const std::string& text : {four, five}) {
    for (const char* name : {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"}) {
      const ModelConfig config = Good(name, text);
      EXPECT_EQ(config.architecture, Architecture::kGemma3);
      EXPECT_THAT(Windows(config), ElementsAre(true, false, true, false));
      EXPECT_TRUE(config.layers[0].local_rope);
      EXPECT_FALSE(config.layers[1].local_rope);
      EXPECT_EQ(config.rope.theta, 1e6f);
      EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
      EXPECT_EQ(config.rope.factor, 8.0f);
      EXPECT_EQ(config.local_rope.theta, 20000.0f);
      EXPECT_EQ(config.local_rope.scaling, RopeScaling::kNone);
      EXPECT_EQ(config.local_rope.rotary_dims, 16);
      EXPECT_EQ(config.context_length, 512);
      EXPECT_EQ(config.qk_norm, QkNormKind::kHead);
      EXPECT_TRUE(config.tied_embeddings);
    }
  }
  EXPECT_THAT(ErrorOf(Config("Gemma3ForCausalLM", R"({"rope_parameters":{"rope_theta":5}})")),
              HasSubstr("full_attention"));
  EXPECT_THAT(ErrorOf(Config("Gemma3ForCausalLM", R"({"use_bidirectional_attention":true})")),
              HasSubstr("not causal"));
}

TEST(HfConfigTest, AModelThatIsNotCausalIsRefused) {
  EXPECT_THAT(LlamaError(R"({"is_causal":false})"), HasSubstr("not causal"));
  EXPECT_THAT(LlamaError(R"({"is_causal":1})"), HasSubstr("is_causal"));
  EXPECT_EQ(LlamaError(R"({"is_causal":true})"), "no error");
  EXPECT_EQ(LlamaError(R"({"is_causal":null})"), "no error");
  // Inside "text_config", and beside it.
  EXPECT_THAT(ErrorOf(Config("Gemma3ForConditionalGeneration", R"({"is_causal":false})")),
              HasSubstr("not causal"));
  Json json = Json::parse(Config("Gemma3ForConditionalGeneration"));
  json["is_causal"] = false;
  EXPECT_THAT(ErrorOf(DumpJson(json)), HasSubstr("not causal"));
}

TEST(HfConfigTest, SmolLM3LayersWithoutRope) {
  const auto ropes = [](const std::string& text) {
    std::vector<bool> used;
    for (const auto& layer : Good("SmolLM3ForCausalLM", text).layers)
      used.push_back(layer.use_rope);
    return used;
  };
  EXPECT_THAT(ropes("{}"), ElementsAre(true, true, true, false));
  EXPECT_THAT(ropes(R"({"no_rope_layer_interval":2})"), ElementsAre(true, false, true, false));
  EXPECT_THAT(ropes(R"({"no_rope_layers":[0,1,1,1]})"), ElementsAre(false, true, true, true));
  EXPECT_THAT(ErrorOf(Config("SmolLM3ForCausalLM", R"({"no_rope_layers":[0]})")),
              HasSubstr("has 1 items"));
  EXPECT_THAT(ErrorOf(Config("SmolLM3ForCausalLM", R"({"no_rope_layers":[2,1,1,1]})")),
              HasSubstr("no_rope_layers"));
  EXPECT_THAT(
      Windows(Good("SmolLM3ForCausalLM", R"({"use_sliding_window":true,"sliding_window":8})")),
      ElementsAre(false, false, false, true));
}

TEST(HfConfigTest, Qwen3Next) {
  const ModelConfig config = Good("Qwen3NextForCausalLM",
                                  R"({"num_experts":0,"linear_num_key_heads":2,
          "linear_num_value_heads":6,"linear_key_head_dim":8,"linear_value_head_dim":12,
          "linear_conv_kernel_dim":3,"head_dim":32,"full_attention_interval":3})");
  EXPECT_EQ(config.linear.key_heads, 2);
  EXPECT_EQ(config.linear.value_heads, 6);
  EXPECT_EQ(config.linear.channels(), 2 * 16 + 72);
  EXPECT_EQ(config.linear.conv_kernel, 3);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHead);
  EXPECT_TRUE(config.attention_gate);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.rope.rotary_dims, 8);
  const auto kinds = [](const ModelConfig& c) {
    std::string text;
    for (const LayerConfig& layer : c.layers) text += layer.kind == LayerKind::kLinear ? 'l' : 'f';
    return text;
  };
  EXPECT_EQ(kinds(config), "llfl");
  EXPECT_EQ(kinds(Good("Qwen3NextForCausalLM", R"({"num_experts":0})")), "lllf");
  EXPECT_EQ(kinds(Good("Qwen3NextForCausalLM", R"({"num_experts":0,"layer_types":
      ["full_attention","linear_attention","linear_attention","full_attention"]})")),
            "fllf");
  // Experts that no layer has.
  EXPECT_EQ(kinds(Good("Qwen3NextForCausalLM", R"({"mlp_only_layers":[3,2,1,0]})")), "lllf");
  EXPECT_EQ(kinds(Good("Qwen3NextForCausalLM", R"({"decoder_sparse_step":5})")), "lllf");
  EXPECT_EQ(
      Good("Qwen3NextForCausalLM", R"({"num_experts":0,"rope_parameters":{"rope_type":"default",
          "partial_rotary_factor":0.5},"head_dim":16})")
          .rope.rotary_dims,
      8);
}

TEST(HfConfigTest, MiMoIsQwen2WithHeads) {
  const ModelConfig config = Good("MiMoForCausalLM", R"({"num_nextn_predict_layers": 1})");
  EXPECT_EQ(config.architecture, Architecture::kMiMo);
  EXPECT_EQ(config.mtp_heads, 1);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_EQ(Good("MiMoForCausalLM").mtp_heads, 0);
  // Others that give the key have heads of another form.
  EXPECT_EQ(Good("Qwen2ForCausalLM", R"({"num_nextn_predict_layers": 1})").mtp_heads, 0);
  EXPECT_THAT(ErrorOf(Config("MiMoForCausalLM", R"({"num_nextn_predict_layers": 65})")),
              HasSubstr("num_nextn_predict_layers"));
}

TEST(HfConfigTest, LatentAttentionOfDeepseek) {
  const ModelConfig v3 = Good("DeepseekV3ForCausalLM", R"({"kv_lora_rank":32,"qk_nope_head_dim":24,
      "qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":8,"num_experts_per_tok":2,"n_group":4,"topk_group":2,
      "first_k_dense_replace":1,"num_nextn_predict_layers":1,
      "rope_scaling":{"type":"yarn","factor":40,"original_max_position_embeddings":32,
                      "mscale":1.0,"mscale_all_dim":1.0}})");
  EXPECT_EQ(v3.latent.key_width(), 40);
  EXPECT_EQ(v3.latent.q_rank, 1536);
  EXPECT_EQ(v3.latent.value_dim, 16);
  EXPECT_EQ(v3.num_kv_heads, 1);
  EXPECT_EQ(v3.rope.rotary_dims, 8);
  EXPECT_TRUE(v3.rope.interleaved);
  const float stretch = 0.1f * std::log(40.0f) + 1.0f;
  EXPECT_FLOAT_EQ(v3.attention_scale, stretch * stretch / std::sqrt(32.0f));
  EXPECT_EQ(v3.experts.score, RouterScore::kSigmoid);
  EXPECT_TRUE(v3.experts.bias);
  EXPECT_EQ(v3.experts.groups_kept, 2);
  EXPECT_EQ(v3.mtp_heads, 0);
  EXPECT_THAT(LayersWithExperts(v3), ElementsAre(false, true, true, true));

  const ModelConfig v2 = Good("DeepseekV2ForCausalLM", R"({"q_lora_rank":null,"n_group":4,
      "topk_group":2,"topk_method":"greedy","rope_interleave":false})");
  EXPECT_EQ(v2.latent.q_rank, 0);
  EXPECT_EQ(v2.experts.groups, 1);
  EXPECT_EQ(v2.experts.score, RouterScore::kSoftmax);
  EXPECT_FALSE(v2.rope.interleaved);
  for (const auto& [text, message] :
       {std::pair(R"({"kv_lora_rank":0})", "\"kv_lora_rank\" is 0"),
        std::pair(R"({"qk_rope_head_dim":7})", "RoPE rotates 7"),
        std::pair(R"({"attention_bias":true})", "latent attention does not support")}) {
    EXPECT_THAT(ErrorOf(Config("DeepseekV3ForCausalLM", text)), HasSubstr(message));
  }
  EXPECT_THAT(ErrorOf(Config("DeepseekV2ForCausalLM", R"({"mlp_bias":true})")),
              HasSubstr("\"mlp_bias\" is true"));
}

TEST(HfConfigTest, StableLm) {
  const ModelConfig plain = Good("StableLmForCausalLM");
  EXPECT_FALSE(plain.parallel_residual || plain.attention_bias || plain.attention_output_bias);
  EXPECT_EQ(plain.norm_eps, 1e-5f);
  EXPECT_EQ(plain.rope.rotary_dims, 4);
  EXPECT_EQ(plain.bos_id, 0);
  const ModelConfig config = Good("StableLmForCausalLM",
                                  R"({"use_parallel_residual":true,"use_qkv_bias":true,
          "layer_norm_eps":1e-3,"rms_norm_eps":1e-2,"partial_rotary_factor":0.5})");
  EXPECT_TRUE(config.parallel_residual && config.attention_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_EQ(config.norm_eps, 1e-3f);
  EXPECT_EQ(config.rope.rotary_dims, 8);
  EXPECT_THAT(ErrorOf(Config("StableLmForCausalLM", R"({"qk_layernorm":true})")),
              HasSubstr("\"qk_layernorm\" is true"));
  EXPECT_FALSE(Llama(R"({"use_parallel_residual":true})").parallel_residual);
}

TEST(HfConfigTest, RefusesWhatQwen3NextCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"num_experts":-1})", "num_experts"},
      {R"({"decoder_sparse_step":0})", "decoder_sparse_step"},
      {R"({"mlp_only_layers":[-1]})", "mlp_only_layers"},
      {R"({"mlp_only_layers":[1025]})", "mlp_only_layers"},
      {R"({"attention_bias":true})", "attention_bias"},
      {R"({"hidden_act":"gelu"})", "silu"},
      {R"({"linear_num_key_heads":0})", "linear_num_key_heads"},
      {R"({"linear_num_value_heads":1025})", "1 to 1024"},
      {R"({"linear_num_key_heads":3,"linear_num_value_heads":4})", "shared evenly"},
      {R"({"linear_num_key_heads":4,"linear_num_value_heads":2})", "shared evenly"},
      {R"({"linear_key_head_dim":1025})", "linear_key_head_dim"},
      {R"({"linear_value_head_dim":-1})", "linear_value_head_dim"},
      {R"({"linear_num_value_heads":1024,"linear_key_head_dim":1024,"linear_value_head_dim":1024})",
       "1073741824 numbers"},
      {R"({"linear_conv_kernel_dim":1})", "linear_conv_kernel_dim"},
      {R"({"linear_conv_kernel_dim":9})", "2 to 8"},
      {R"({"full_attention_interval":0})", "full_attention_interval"},
      {R"({"layer_types":["sliding_attention",1,2,3]})", "linear_attention are supported"},
  };
  for (const auto& [text, message] : cases) {
    Json json = Json::parse(text);
    if (!json.contains("num_experts") && !json.contains("decoder_sparse_step") &&
        !json.contains("mlp_only_layers")) {
      json["num_experts"] = 0;
    }
    EXPECT_THAT(ErrorOf(Config("Qwen3NextForCausalLM", DumpJson(json))), HasSubstr(message))
        << text;
  }
}

TEST(HfConfigTest, RefusesValuesOutOfRange) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"vocab_size":0})", "vocab_size"},
      {R"({"vocab_size":5000000})", "1 to 4194304"},
      {R"({"hidden_size":0})", "hidden_size"},
      {R"({"hidden_size":-64})", "hidden_size"},
      {R"({"hidden_size":"64"})", "hidden_size"},
      {R"({"hidden_size":64.0})", "hidden_size"},
      {R"({"hidden_size":18446744073709551615})", "hidden_size"},
      {R"({"hidden_size":65})", "multiple of 4 heads"},
      {R"({"intermediate_size":0})", "intermediate_size"},
      {R"({"num_hidden_layers":0})", "num_hidden_layers"},
      {R"({"num_hidden_layers":1025})", "1 to 1024"},
      {R"({"num_attention_heads":0})", "num_attention_heads"},
      {R"({"num_key_value_heads":0})", "num_key_value_heads"},
      {R"({"num_key_value_heads":3})", "shared evenly"},
      {R"({"num_key_value_heads":8})", "shared evenly"},
      {R"({"head_dim":0})", "head_dim"},
      {R"({"head_dim":15})", "even number"},
      {R"({"max_position_embeddings":0})", "max_position_embeddings"},
      {R"({"rms_norm_eps":0})", "rms_norm_eps"},
      {R"({"rms_norm_eps":"1e-5"})", "rms_norm_eps"},
      {R"({"hidden_act":"relu6"})", "\"relu6\""},
      {R"({"torch_dtype":"int4"})", "\"int4\""},
      {R"({"tie_word_embeddings":1})", "true or false"},
      {R"({"eos_token_id":-1})", "eos_token_id"},
      {R"({"eos_token_id":[1,"2"]})", "eos_token_id"},
      {R"({"bos_token_id":1e3})", "bos_token_id"},
      {R"({"quantization_config":{"quant_method":"bitsandbytes"}})", "\"bitsandbytes\""},
      {R"({"quantization_config":7})", "quantization_config"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(LlamaError(text), HasSubstr(message));
}

TEST(HfConfigTest, RefusesWhatIsNoJsonObject) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("config.json is not valid JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf(R"({"a":1,"a":1})"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(R"({"rms_norm_eps":1e999})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(Config("LlamaForCausalLM"), "[]"), HasSubstr("generation_config.json"));
  EXPECT_THAT(ErrorOf(R"({"architectures":["Gemma3ForConditionalGeneration"],"text_config":1})"),
              HasSubstr("text_config"));
}

TEST(GenerationDefaultsTest, ReadsAndChecks) {
  const auto good = GenerationDefaultsFromJson(
      R"({"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0,
          "repetition_penalty":1.1,"max_length":5})");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->do_sample, true);
  EXPECT_EQ(good->sampling.temperature, 0.6);
  EXPECT_EQ(good->sampling.top_p, 0.95);
  EXPECT_EQ(good->sampling.top_k, 20);
  EXPECT_EQ(good->sampling.min_p, 0.0);
  EXPECT_EQ(good->sampling.repetition_penalty, 1.1);
  const auto none = GenerationDefaultsFromJson("");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->sampling.temperature || none->sampling.top_k || none->do_sample);
  EXPECT_FALSE(
      GenerationDefaultsFromJson(R"({"temperature":null})")->sampling.temperature.has_value());
  for (const char* bad : {R"({"temperature":-1})", R"({"top_p":1.5})", R"({"top_k":"x"})",
                          R"({"repetition_penalty":0})", R"({"do_sample":1})", "[]"}) {
    EXPECT_EQ(GenerationDefaultsFromJson(bad).status().code(), StatusCode::kBadModel) << bad;
  }
}

// Keys by which a model of a known architecture asks for what is not there.
TEST(HfConfigTest, NormsOfHeadsThatAnArchitectureLacksAreRefused) {
  EXPECT_THAT(ErrorOf(Config("CohereForCausalLM", R"({"use_qk_norm":true})")),
              HasSubstr("\"use_qk_norm\" is true; cohere models"));
  EXPECT_THAT(ErrorOf(Config("PhiForCausalLM", R"({"qk_layernorm":true})")),
              HasSubstr("\"qk_layernorm\" is true; phi2 models"));
  EXPECT_EQ(ErrorOf(Config("CohereForCausalLM", R"({"use_qk_norm":false})")), "no error");
}

TEST(HfConfigTest, FactorsOfGranite) {
  const ModelConfig config = Good("GraniteForCausalLM",
                                  R"({"embedding_multiplier":12,"attention_multiplier":0.015625,
                                      "residual_multiplier":0.22,"logits_scaling":8})");
  EXPECT_EQ(config.embedding_scale, 12.0f);
  EXPECT_EQ(config.attention_scale, 0.015625f);
  EXPECT_EQ(config.residual_scale, 0.22f);
  EXPECT_EQ(config.logit_scale, 0.125f);
  EXPECT_EQ(Good("GraniteForCausalLM").attention_scale, 1.0f);
  EXPECT_THAT(ErrorOf(Config("GraniteForCausalLM", R"({"residual_multiplier":0})")),
              HasSubstr("residual_multiplier"));
  EXPECT_EQ(Good("CohereForCausalLM", R"({"logit_scale":0.25})").logit_scale, 0.25f);
}

TEST(HfConfigTest, LayersWithoutRopeBesideWindows) {
  const auto ropes = [](const ModelConfig& config) {
    std::vector<bool> used;
    for (const LayerConfig& layer : config.layers) used.push_back(layer.use_rope);
    return used;
  };
  const ModelConfig cohere = Good("Cohere2ForCausalLM", R"({"sliding_window":8})");
  EXPECT_THAT(Windows(cohere), ElementsAre(true, true, true, false));
  EXPECT_THAT(ropes(cohere), ElementsAre(true, true, true, false));
  EXPECT_TRUE(cohere.parallel_residual && cohere.rope.interleaved);
  const ModelConfig exaone =
      Good("Exaone4ForCausalLM", R"({"sliding_window":null,"sliding_window_pattern":0})");
  EXPECT_THAT(Windows(exaone), ElementsAre(false, false, false, false));
  EXPECT_THAT(ropes(exaone), ElementsAre(true, true, true, true));
  EXPECT_THAT(Windows(Good("Exaone4ForCausalLM", R"({"sliding_window_pattern":2})")),
              ElementsAre(true, false, true, false));
  EXPECT_THAT(Windows(Good("Exaone4ForCausalLM", R"({"sliding_window_pattern":"LLLG",
      "layer_types":["sliding_attention","full_attention","full_attention","full_attention"]})")),
              ElementsAre(true, false, false, false));
}

TEST(HfConfigTest, BiasesAndActivationsOfMlpsWithoutAGate) {
  const ModelConfig phi = Good("PhiForCausalLM");
  EXPECT_TRUE(phi.plain_mlp && phi.attention_bias && phi.attention_output_bias && phi.mlp_bias &&
              phi.logits_bias && phi.parallel_residual);
  EXPECT_EQ(phi.activation, ActivationKind::kGeluTanh);
  const ModelConfig star =
      Good("Starcoder2ForCausalLM", R"({"use_bias":false,"norm_epsilon":0.01})");
  EXPECT_FALSE(star.attention_bias || star.mlp_bias || star.logits_bias);
  EXPECT_EQ(star.norm_eps, 0.01f);
  EXPECT_EQ(Good("NemotronForCausalLM").activation, ActivationKind::kReluSquared);
  const ModelConfig seed = Good("SeedOssForCausalLM", R"({"attention_out_bias":true})");
  EXPECT_TRUE(seed.attention_bias && seed.attention_output_bias && !seed.mlp_bias);
  EXPECT_TRUE(Good("Glm4ForCausalLM").attention_bias);
  EXPECT_FALSE(Good("Glm4ForCausalLM").attention_output_bias);
}

}  // namespace
}  // namespace sluice::files
