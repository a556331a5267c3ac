#include "model/layers/chain.h"

#include <algorithm>
#include <initializer_list>

#include "model/layers/expert_mlp.h"
#include "model/layers/mlp.h"

namespace sluice::model::layers {
namespace {

// The matrix where it lies in one piece, without a bias, as the chain reads it; else null.
const weights::LinearPart* Whole(const Binder& binder, const std::string& name) {
  const weights::Parameter& parameter = *binder.Get(name);
  if (parameter.spec.bias || parameter.parts.size() != 1) return nullptr;
  const weights::LinearPart& part = parameter.parts.front();
  const ops::PackedWeight& weight = part.weight;
  return weight.layout == ops::LayoutId::kRowMajor && weight.order.empty() ? &part : nullptr;
}

const ops::Linear::Desc& ProductOf(const weights::LinearPart& part) {
  return part.grouped.bound() ? part.grouped.desc().each : part.linear.desc();
}

bool SameFormat(const ops::Linear::Desc& a, const ops::Linear::Desc& b) {
  return a.weight == b.weight && a.weight_scales == b.weight_scales && a.x_scales == b.x_scales &&
         a.activation == b.activation;
}

// Whether the parts' products are of one format and give the activation type.
bool AreAlike(std::initializer_list<const weights::LinearPart*> parts) {
  const weights::LinearPart* const first = *parts.begin();
  return first != nullptr && std::all_of(parts.begin(), parts.end(), [&](const auto* part) {
           return part != nullptr && SameFormat(ProductOf(*part), ProductOf(*first)) &&
                  !ProductOf(*part).f32_out;
         });
}

bool HasPlainStream(const Binder& binder) {
  const DType activation = binder.options.activation;
  return !binder.config.plain_mlp && ops::ResidualDType(activation) == activation;
}

float EpsOf(const files::ModelConfig& config) {
  return config.norm_eps / (config.residual_scale * config.residual_scale);
}

}  // namespace

void Chain::TakeNorms(const Binder& binder, int layer, const ops::PackedWeight* qkv) {
  mlp_norm_ = binder.Get(StrCat("layers.", layer, ".mlp_norm"))->tensor;
  qkv_ = qkv;
  if (qkv != nullptr) next_norm_ = binder.Get(StrCat("layers.", layer + 1, ".input_norm"))->tensor;
}

Chain Chain::Make(const Binder& binder, int layer, bool next) {
  const files::ModelConfig& config = binder.config;
  const std::string prefix = StrCat("layers.", layer, "."),
                    after = StrCat("layers.", layer + 1, ".");
  const bool plain = config.mlp_gate_scale == 1.0f && config.mlp_inner_scale == 1.0f;
  if (!plain || !HasPlainStream(binder)) return {};
  const weights::LinearPart* const o = Whole(binder, prefix + "attention.output");
  const weights::LinearPart* const gate_up = Whole(binder, prefix + "mlp.gate_up");
  const weights::LinearPart* const down = Whole(binder, prefix + "mlp.down");
  const weights::LinearPart* const qkv = next ? Whole(binder, after + "attention.qkv") : nullptr;
  if (!AreAlike({o, gate_up, down, next ? qkv : o})) return {};
  const ops::Linear::Desc& format = o->linear.desc();
  Chain chain;
  chain.op_ = binder.BindIfFast<ops::DenseChain>({.weight = format.weight,
                                                  .weight_scales = format.weight_scales,
                                                  .x_scales = format.x_scales,
                                                  .activation = format.activation,
                                                  .tokens = kTokens,
                                                  .attended = o->weight.k,
                                                  .hidden = config.hidden_size,
                                                  .width = down->weight.k,
                                                  .qkv = next ? qkv->weight.n : 0,
                                                  .eps = EpsOf(config),
                                                  .kind = ActivationOf(config)});
  if (!chain.op_.bound()) return {};
  chain.o_ = &o->weight;
  chain.gate_up_ = &gate_up->weight;
  chain.down_ = &down->weight;
  chain.TakeNorms(binder, layer, next ? &qkv->weight : nullptr);
  return chain;
}

Chain Chain::MakeOfExperts(const Binder& binder, int layer, bool next, int counts_row) {
  const files::ModelConfig& config = binder.config;
  const files::ExpertsConfig& experts = config.experts;
  const std::string prefix = StrCat("layers.", layer, "."),
                    after = StrCat("layers.", layer + 1, ".");
  const bool moved = binder.options.expert_slots > 0 || binder.options.fake_balance_experts ||
                     (binder.host_experts != nullptr && binder.host_experts->Has(layer));
  const bool plain = !experts.beside_dense && !experts.product_biases && !experts.weighs_inputs;
  if (moved || !plain || !HasPlainStream(binder)) return {};
  const weights::LinearPart* const o = Whole(binder, prefix + "attention.output");
  const weights::LinearPart* const router = Whole(binder, prefix + "experts.router");
  const weights::LinearPart* const gate_up = Whole(binder, prefix + "experts.gate_up");
  const weights::LinearPart* const down = Whole(binder, prefix + "experts.down");
  const weights::LinearPart* const qkv = next ? Whole(binder, after + "attention.qkv") : nullptr;
  if (router == nullptr || gate_up == nullptr || down == nullptr) return {};
  const ops::Linear::Desc& first = ProductOf(*gate_up);
  if (!AreAlike({o, gate_up, next ? qkv : o}) || !SameFormat(ProductOf(*down), first)) return {};
  if (router->linear.desc().weight_scales != ops::WeightScales::kNone) return {};
  Chain chain;
  chain.experts_ = binder.BindIfFast<ops::ExpertsChain>({.weight = first.weight,
                                                         .weight_scales = first.weight_scales,
                                                         .x_scales = first.x_scales,
                                                         .router = router->weight.dtype,
                                                         .activation = first.activation,
                                                         .attended = o->weight.k,
                                                         .hidden = config.hidden_size,
                                                         .width = down->weight.k,
                                                         .qkv = next ? qkv->weight.n : 0,
                                                         .route = RouteOf(experts),
                                                         .eps = EpsOf(config),
                                                         .kind = ActivationOf(config)});
  if (!chain.experts_.bound()) return {};
  chain.o_ = &o->weight;
  chain.router_ = &router->weight;
  chain.gate_up_ = &gate_up->weight;
  chain.down_ = &down->weight;
  if (experts.bias) chain.score_bias_ = binder.Get(prefix + "experts.score_bias")->tensor;
  if (experts.scales) chain.expert_scales_ = binder.Get(prefix + "experts.scales")->tensor;
  chain.counts_row_ = counts_row;
  chain.TakeNorms(binder, layer, next ? &qkv->weight : nullptr);
  return chain;
}

Status Chain::operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                         const ops::Tensor& middle, const ops::Tensor& out) const {
  if (experts_.bound()) return RunExperts(context, batch, a, middle, out);
  return op_(*context.stream, {.attended = a.attended,
                               .residual = a.hidden,
                               .w_o = o_,
                               .w_gate_up = gate_up_,
                               .w_down = down_,
                               .w_qkv = qkv_,
                               .mlp_norm = mlp_norm_,
                               .next_norm = next_norm_,
                               .middle = middle,
                               .gated = a.gated.Columns(0, op_.desc().width),
                               .out = out,
                               .qkv = has_next() ? a.qkv_gate : ops::Tensor()});
}

Status Chain::RunExperts(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                         const ops::Tensor& middle, const ops::Tensor& out) const {
  ops::ExpertsChain::Args args{.attended = a.attended,
                               .residual = a.hidden,
                               .w_o = o_,
                               .w_router = router_,
                               .w_gate_up = gate_up_,
                               .w_down = down_,
                               .w_qkv = qkv_,
                               .mlp_norm = mlp_norm_,
                               .next_norm = next_norm_,
                               .score_bias = score_bias_,
                               .expert_scales = expert_scales_,
                               .middle = middle,
                               .logits = a.router_logits,
                               .gated = a.expert_gated.Rows(0, experts_.desc().route.top_k),
                               .out = out,
                               .qkv = has_next() ? a.qkv_gate : ops::Tensor(),
                               .counts = RowOfCounts(context.expert_counts, counts_row_),
                               .counted = {}};
  if (!args.counts.empty()) args.counted = batch.query_start.Rows(batch.sequences(), 1);
  return experts_(*context.stream, args);
}

}  // namespace sluice::model::layers
