#include "files/hf_wiring.h"

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

struct Refusal {
  const char* key;
  bool refused;  // value
};
// Options of GPT-2's and BLOOM's forms that no published model of theirs uses.
constexpr Refusal kRefusals[] = {{"scale_attn_by_inverse_layer_idx", true},
                                 {"scale_attn_weights", false},
                                 {"add_cross_attention", true},
                                 {"apply_residual_connection_post_layernorm", true}};

Status ReadFalcon(const JsonFields& fields, ModelConfig* config) {
  bool grouped = false, multi_query = true, parallel = true;
  SLUICE_RETURN_IF_ERROR(fields.Bool("new_decoder_architecture", &grouped));
  SLUICE_RETURN_IF_ERROR(fields.Bool("multi_query", &multi_query));
  SLUICE_RETURN_IF_ERROR(fields.Bool("parallel_attn", &parallel));
  if (!grouped) config->num_kv_heads = multi_query ? 1 : config->num_heads;
  config->parallel_residual = parallel;
  int norms = grouped ? 2 : 1;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_ln_in_parallel_attn", {1, 2}, &norms));
  config->parallel_norms = parallel && norms == 2;
  if (config->parallel_norms && !grouped) {
    return BadModel(
        "\"num_ln_in_parallel_attn\" is 2 beside \"new_decoder_architecture\" false, which is not "
        "supported");
  }
  if (grouped && !parallel) {
    return BadModel(
        "\"parallel_attn\" is false beside \"new_decoder_architecture\" true, which is not "
        "supported");
  }
  return OkStatus();
}

}  // namespace

Status ReadHfWiring(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  for (const Refusal& refusal : kRefusals) {
    bool value = !refusal.refused;
    SLUICE_RETURN_IF_ERROR(fields.Bool(refusal.key, &value));
    if (value == refusal.refused) {
      return BadModel(
          StrCat(Quote(refusal.key), " is ", value ? "true" : "false", ", which is not supported"));
    }
  }
  config->qk_norm_behind_rope = info.qk_norm_behind_rope;
  config->embedding_norm = info.embedding_norm;
  if (info.position_table) config->position_rows = config->context_length;
  config->plain_mlp = info.plain_mlp;
  config->parallel_residual = info.parallel_residual;
  if (!info.hf_parallel_key.empty()) {
    SLUICE_RETURN_IF_ERROR(fields.Bool(info.hf_parallel_key, &config->parallel_residual));
  }
  config->parallel_norms = config->parallel_residual && info.parallel_norms;
  return info.falcon_switches ? ReadFalcon(fields, config) : OkStatus();
}

}  // namespace sluice::files
