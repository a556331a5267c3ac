#include "backend/cpu/ops.h"

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/rope_kv.h"

namespace sluice::cpu {

using ops::Implementation;

void RegisterCpuOps(ops::OpTable& table) {
  table.Add(Implementation<ops::Norm>{"ref_norm", &ops::RefNormSupports, &ops::RefNorm});
  table.Add(Implementation<ops::QkNorm>{"ref_qk_norm", &ops::RefQkNormSupports, &ops::RefQkNorm});
  table.Add(Implementation<ops::GatedActivation>{
      "ref_gated_activation", &ops::RefGatedActivationSupports, &ops::RefGatedActivation});
  table.Add(
      Implementation<ops::SoftCap>{"ref_soft_cap", &ops::RefSoftCapSupports, &ops::RefSoftCap});
  table.Add(Implementation<ops::Embedding>{"ref_embedding", &ops::RefEmbeddingSupports,
                                           &ops::RefEmbedding});
  table.Add(Implementation<ops::GatherRows>{"ref_gather_rows", &ops::RefGatherRowsSupports,
                                            &ops::RefGatherRows});
  table.Add(Implementation<ops::RopeKv>{"ref_rope_kv", &ops::RefRopeKvSupports, &ops::RefRopeKv});
  table.Add(Implementation<ops::Attention>{"ref_attention", &ops::RefAttentionSupports,
                                           &ops::RefAttention});
}

}  // namespace sluice::cpu
