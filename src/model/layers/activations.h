// The activations of one forward pass, laid out in the workspace. Nothing is allocated per step:
// the sizes follow from the config and max_tokens. Regions whose lives do not cross share memory.
#pragma once

#include "files/model_config.h"
#include "model/forward.h"
#include "model/layers/fused_linear.h"
#include "model/model.h"
#include "ops/group_quant.h"
#include "ops/tensor.h"

namespace sluice::model::layers {

// Room for the codes and scales of rows of `width` numbers in the memory of as many rows that are
// as wide at least. REQUIRES: those are no codes; width is a multiple of 4.
ops::CodedRows CodesIn(const ops::Tensor& memory, int64_t width);

struct Activations {
  ops::Tensor hidden;  // [tokens, hidden]: the residual stream, of its own type (ResidualDType)
  // [tokens, streams * hidden] of its type, and F32 [tokens, streams] of how they mix: of a model
  // of several residual streams, whose layers have the first one in `hidden` while they work on it.
  ops::Tensor streams, routes;
  // [tokens, layers * width]: what each layer is given of a token beside it; of no width where the
  // model has none.
  ops::Tensor layer_inputs;
  ops::Tensor normed;  // [tokens, hidden]
  // Of normed, where the norm that was last gave codes: in its memory, or beside it in branch's.
  ops::CodedRows normed_codes;
  ops::Tensor branch;  // [tokens, hidden]: a block's output before its post-norm
  // [tokens, (q_heads + 2 kv_heads) * head_dim], as wide as the layer with the widest heads needs:
  // attention makes tensors of its own size of these, q and attended. Where attention has a gate,
  // columns of a matrix with the gate's behind them.
  ops::Tensor qkv, attention_gate;
  ops::Tensor qkv_gate;  // both; qkv alone where there is no gate
  // Of latent attention, whose qkv and q have its wide rows: parts of queries that are not rotated
  // [tokens, q_heads * nope], the latent that queries go through [tokens, rank], both in q's
  // memory, and what it attended to in the latent space [tokens, q_heads * rank], in qkv's.
  ops::Tensor latent_nope, latent_query, latent_out;
  // Of an indexer, behind q's memory: queries of its heads, the key, and room for a value, which
  // rope_kv passes over [tokens, (heads + 2) * head_dim]; rotated queries [tokens, heads *
  // head_dim]; the heads' weights F32 [tokens, heads]; scores of some rows F32 [some,
  // positions], and how many each has I32 [some]; and what rows attend to I32 [tokens, top_k],
  // apart from all others where other layers reuse it.
  ops::Tensor index_qkv, index_q, index_weights, index_scores, index_lengths, index_positions;
  ops::Tensor q;  // [tokens, q_heads * head_dim], rotated
  // [tokens, q_heads * head_dim]; in qkv's memory, which is done by then, unless there is a gate
  ops::Tensor attended;
  // Of a layer with a state, in the memory of qkv and q; columns of one matrix: what the
  // convolution reads [tokens, channels], the norm's gate [tokens, value width], which Mamba-2 has
  // first, and the step sizes [tokens, 2 * value heads], of Mamba-2 [tokens, value heads]. Empty
  // where the layer is a convolution between gates.
  ops::Tensor linear_qkv, linear_gate, linear_ba;
  ops::Tensor linear_in;  // all three; between gates [tokens, 3 * hidden]: gates, then the input
  ops::Tensor convolved;  // [tokens, channels]
  ops::Tensor recalled;   // [tokens, value width]
  // Of Mamba's first form, whose linear_in has no step sizes and the gate last: [tokens, step_rank
  // + 2 * state size], the latent of step sizes, B and C. Step sizes take the place of linear_qkv.
  ops::Tensor scan_in;
  // As wide as the widest feed-forward part, input of a layer or Laurel needs, in the memory of qkv
  // and q.
  ops::Tensor gate_up;      // [tokens, 2 * width]
  ops::Tensor gated;        // [tokens, width]
  ops::Tensor shared_gate;  // F32 [tokens, 1]: of the expert that every token takes
  // Of a layer with experts, in the memory of qkv and q. A place holds a token for one of the
  // experts that it takes, so there are tokens * per_token places.
  ops::Tensor router_logits;                 // F32 [tokens, experts]
  ops::Tensor expert_ids, expert_places;     // I32 [tokens, per_token]
  ops::Tensor expert_weights;                // F32 [tokens, per_token]
  ops::Tensor expert_starts, expert_tokens;  // I32 [experts or slots + 1], [places]
  ops::Tensor expert_gate_up, expert_gated;  // [places, 2 * width], [places, width]
  ops::Tensor
      expert_out;    // F32 [places, hidden]; in expert_gate_up's memory, which is done by then
  ops::Tensor last;  // [rows, hidden]: rows of the residual stream that need logits; in branch's
                     // memory, which is read no more by then
  ops::Tensor last_normed;  // [rows, hidden]; in the memory of qkv and gate_up, as are these
  // Of a model that embeds, in the memory of qkv: what the products behind its pooling give in turn
  // [rows that the most sequences have, widest of them].
  ops::Tensor pooled[2];
  // [tokens, 2 * hidden], of a head that guesses tokens alone: normed hidden states, then normed
  // embeddings; in the memory of normed and branch, which are written later.
  ops::Tensor joined;

  // What a block's first products read.
  LinearRows normed_rows() const { return {normed, normed_codes}; }

  // Bytes for options.max_tokens tokens and options.max_logits_rows rows.
  static size_t Bytes(const files::ModelConfig& config, const ModelOptions& options);
  // REQUIRES: `workspace` has Bytes() bytes; tokens and rows are within the options.
  static Activations Slice(const device::View& workspace, const files::ModelConfig& config,
                           const ModelOptions& options, int64_t tokens, int64_t rows);
};

}  // namespace sluice::model::layers
