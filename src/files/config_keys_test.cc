// Every key of the golden checkpoints' config.json is read, or is known to change nothing in what a
// model computes: an option that transformers heeds and nobody here asks for gives wrong numbers
// without a word.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "files/hf_mamba.h"
#include "files/mapped_file.h"
#include "files/model_config.h"

namespace sluice::files {
namespace {

constexpr size_t kReadBytesMax = 1u << 20;

// What no model computes with: how it was trained and initialized, how others run it, and names.
// clang-format off
constexpr std::string_view kHarmless[] = {
    "altup_coef_clip", "architectures", "attention_dropout", "attn_impl", "attn_pdrop",
    "attn_uses_sequence_id", "block_size", "cache_implementation", "chunk_size",
    "chunk_size_feed_forward", "classifier_dropout", "dtype", "emb_pdrop", "embd_pdrop",
    "embedding_dropout", "embedding_fraction", "embedding_initializer_range", "eod_token_id",
    "expansion_ratio", "global_compression_ratio", "hidden_dropout", "id2label", "init_device",
    "initializer_range", "is_decoder", "is_encoder_decoder", "kv_cache_scheme", "label2id",
    "mamba_chunk_size", "mamba_ssm_cache_dtype", "model_type", "moe_norm_min",
    "moe_shared_expert_overlap", "moe_sparsity_config", "mtp_layers_block_type", "_name_or_path",
    "no_bias", "norm_type", "num_logits_to_keep", "output_attentions", "output_hidden_states",
    "output_router_logits", "pad_token_id", "pretraining_tp", "problem_type", "qk_head_dim",
    "quantization_status", "reorder_and_upcast_attn", "rescale_prenorm_residual", "resid_pdrop",
    "residual_dropout", "residual_in_fp32", "return_dict", "router_aux_loss_coef",
    "router_jitter_noise", "scale_fmt", "sep_token_id", "slow_but_exact", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
    "time_step_scale", "transformers_version", "use_associative_scan", "use_cache",
    "use_mamba_kernels", "use_mambapy", "z_loss_coefficient"};

// What others read, and transformers does not in models of this type, or in those that stand here:
// beside a key that says the same of each layer, or of a part that they don't have.
constexpr std::pair<std::string_view, std::string_view> kHarmlessIn[] = {
    {"cohere", "rms_norm_eps"}, {"cohere2", "rms_norm_eps"},
    {"deepseek_v3", "num_nextn_predict_layers"},
    {"deepseek_v32", "layer_types"}, {"deepseek_v32", "mlp_bias"},
    {"exaone4", "sliding_window_pattern"},
    {"gemma3_text", "_sliding_window_pattern"},
    {"gemma4_text", "moe_intermediate_size"}, {"gemma4_text", "num_experts"},
    {"gemma4_text", "top_k_experts"}, {"gemma4_text", "vocab_size_per_layer_input"},
    {"glm4_moe", "num_nextn_predict_layers"},
    {"glm_moe_dsa", "layer_types"}, {"glm_moe_dsa", "mlp_bias"},
    {"gpt_oss", "hidden_act"},
    {"granitemoehybrid", "num_experts_per_tok"},
    {"hunyuan_v1_dense", "factor"},
    {"hunyuan_v1_moe", "moe_intermediate_size"}, {"hunyuan_v1_moe", "num_shared_expert"},
    {"jamba", "num_experts_per_tok"},
    {"lfm2", "block_ffn_dim_multiplier"}, {"lfm2", "block_multiple_of"},
    {"lfm2", "full_attn_idxs"}, {"lfm2", "rms_norm_eps"}, {"lfm2_moe", "rms_norm_eps"},
    {"llama", "format"}, {"llama", "output_activations"}, {"llama", "dynamic"},
    {"llama", "group_size"},  // of scales by row
    {"llama4_text", "attn_scale"}, {"llama4_text", "floor_scale"},
    {"mamba2", "time_step_rank"},
    {"mpt", "logit_scale"},
    {"nemotron", "rms_norm_eps"},
    {"nemotron_h", "mamba_proj_bias"}, {"nemotron_h", "moe_intermediate_size"},
    {"nemotron_h", "moe_latent_size"}, {"nemotron_h", "moe_shared_expert_intermediate_size"},
    {"nemotron_h", "n_group"}, {"nemotron_h", "n_routed_experts"},
    {"nemotron_h", "n_shared_experts"}, {"nemotron_h", "norm_topk_prob"},
    {"nemotron_h", "num_experts_per_tok"}, {"nemotron_h", "num_nextn_predict_layers"},
    {"nemotron_h", "routed_scaling_factor"}, {"nemotron_h", "sliding_window"},
    {"nemotron_h", "topk_group"},
    {"phi", "rms_norm_eps"},
    {"phi3", "original_max_position_embeddings"},
    {"qwen3_next", "num_experts_per_tok"},
    {"stablelm", "rms_norm_eps"}, {"starcoder2", "rms_norm_eps"}};
// clang-format on

bool IsHarmless(std::string_view model_type, std::string_view key) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless) ||
         std::find(std::begin(kHarmlessIn), std::end(kHarmlessIn), std::pair(model_type, key)) !=
             std::end(kHarmlessIn);
}

// Whether the config is read to the end whatever stands at `place`, which means that nobody looks.
bool IsUnread(const Json& config, const Json::json_pointer& place) {
  for (const char* other :
       {R"({"no":"kind"})", R"([{"no":"kind"}])", R"("no such value")", "-7.5"}) {
    Json changed = config;
    changed[place] = Json::parse(other);
    if (!ConfigFromJson(DumpJson(changed), "").ok()) return false;
  }
  return true;
}

// Expects that what nobody reads of the object at `at` is harmless. Of an object that somebody
// reads those in it are looked at, too.
void ExpectRead(const Json& config, const std::string& model, const Json::json_pointer& at) {
  const std::string type = config["model_type"].get<std::string>();
  for (const auto& [key, value] : config[at].items()) {
    const Json::json_pointer place = at / key;
    if (IsHarmless(type, key)) continue;
    if (IsUnread(config, place)) {
      ADD_FAILURE() << "nobody reads " << place.to_string() << " of " << model;
    } else if (value.is_object()) {
      ExpectRead(config, model, place);
    }
  }
}

TEST(ConfigKeys, WhatNobodyReadsChangesNothing) {
  const std::string folder = SourceDir() + "/tests/golden/models";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    for (const char* name : {"config.json", "config.v4.json"}) {
      const auto text = ReadTextFile(entry.path() / name, kReadBytesMax);
      ASSERT_TRUE(text.ok()) << text.status().message();
      ExpectRead(Json::parse(WithoutInfinities(*text)), entry.path().filename().string(),
                 Json::json_pointer());
    }
  }
}

}  // namespace
}  // namespace sluice::files
