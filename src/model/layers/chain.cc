#include "model/layers/chain.h"

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

bool SameFormat(const ops::Linear::Desc& a, const ops::Linear::Desc& b) {
  return a.weight == b.weight && a.weight_scales == b.weight_scales && a.x_scales == b.x_scales &&
         a.activation == b.activation && !a.f32_out && !b.f32_out;
}

}  // namespace

Chain Chain::Make(const Binder& binder, int layer, bool next) {
  const files::ModelConfig& config = binder.config;
  const std::string prefix = StrCat("layers.", layer, "."),
                    after = StrCat("layers.", layer + 1, ".");
  const bool plain = config.mlp_gate_scale == 1.0f && config.mlp_inner_scale == 1.0f;
  const DType activation = binder.options.activation;
  if (!plain || config.plain_mlp || ops::ResidualDType(activation) != activation) return {};
  const weights::LinearPart* const o = Whole(binder, prefix + "attention.output");
  const weights::LinearPart* const gate_up = Whole(binder, prefix + "mlp.gate_up");
  const weights::LinearPart* const down = Whole(binder, prefix + "mlp.down");
  const weights::LinearPart* const qkv = next ? Whole(binder, after + "attention.qkv") : nullptr;
  for (const weights::LinearPart* part : {o, gate_up, down, next ? qkv : o}) {
    if (part == nullptr || !SameFormat(part->linear.desc(), o->linear.desc())) return {};
  }
  const ops::Linear::Desc& format = o->linear.desc();
  const ops::DenseChain::Desc desc = {
      .weight = format.weight,
      .weight_scales = format.weight_scales,
      .x_scales = format.x_scales,
      .activation = activation,
      .tokens = kTokens,
      .attended = o->weight.k,
      .hidden = config.hidden_size,
      .width = down->weight.k,
      .qkv = next ? qkv->weight.n : 0,
      .eps = config.norm_eps / (config.residual_scale * config.residual_scale),
      .kind = ActivationOf(config)};
  std::vector<ops::BindRecord> records;
  auto bound = ops::Bind<ops::DenseChain>(binder.table, desc, &records);
  if (!bound.ok() || !records.front().slow.empty()) return {};
  if (binder.options.records != nullptr) binder.options.records->push_back(records.front());
  Chain chain;
  chain.op_ = *bound;
  chain.o_ = &o->weight;
  chain.gate_up_ = &gate_up->weight;
  chain.down_ = &down->weight;
  chain.mlp_norm_ = binder.Get(prefix + "mlp_norm")->tensor;
  if (!next) return chain;
  chain.qkv_ = &qkv->weight;
  chain.next_norm_ = binder.Get(after + "input_norm")->tensor;
  return chain;
}

Status Chain::operator()(device::Stream& stream, const Activations& a, const ops::Tensor& middle,
                         const ops::Tensor& out) const {
  return op_(stream, {.attended = a.attended,
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

}  // namespace sluice::model::layers
