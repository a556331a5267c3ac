#include "model/layers/expert_products.h"

#include <algorithm>

#include "base/str_cat.h"
#include "model/layers/mlp.h"

namespace sluice::model::layers {
namespace {

// Rows of an expert, on average, up to which first products and gates are one op: reading weights
// is all that takes long then (bench/results/2026-11-29-h200-experts-many.md).
constexpr int64_t kFewRows = 24;

}  // namespace

Result<ExpertProducts> ExpertProducts::Make(const Binder& binder, int layer, int slots, DType out,
                                            bool adds) {
  const files::ModelConfig& config = binder.config;
  const files::ExpertsConfig& experts = config.experts;
  const DType activation = binder.options.activation;
  const int64_t width = experts.width;
  ExpertProducts products;
  const std::string prefix = StrCat("layers.", layer, ".experts.");
  products.first_ = MatricesOf(binder, prefix + (config.plain_mlp ? "up" : "gate_up"), slots);
  products.down_ = MatricesOf(binder, prefix + "down", slots);
  SLUICE_ASSIGN_OR_RETURN(products.group_, binder.Bind<ops::GroupExperts>(
                                               {.experts = slots, .top_k = experts.per_token}));
  if (experts.weighs_inputs) {
    SLUICE_ASSIGN_OR_RETURN(products.scale_, binder.Bind<ops::ScaleExperts>(
                                                 {.activation = activation,
                                                  .top_k = experts.per_token,
                                                  .width = config.plain_mlp ? width : 2 * width}));
  }
  if (config.plain_mlp) {
    SLUICE_ASSIGN_OR_RETURN(
        products.plain_,
        binder.Bind<ops::PlainActivation>(
            {.kind = ActivationOf(config), .activation = activation, .width = width}));
  } else if (products.down_.takes_codes) {
    // Of all places, as many have a token as the last expert's places end at.
    SLUICE_ASSIGN_OR_RETURN(products.coded_,
                            binder.Bind<ops::GroupQuant>({.activation = activation,
                                                          .width = width,
                                                          .gated = true,
                                                          .kind = ActivationOf(config),
                                                          .parts = 1}));
    products.BindGate(binder);
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        products.gated_,
        binder.Bind<ops::GatedActivation>(
            {.kind = ActivationOf(config), .activation = activation, .width = width}));
  }
  SLUICE_ASSIGN_OR_RETURN(
      products.combine_,
      binder.Bind<ops::CombineExperts>(
          {.out = out, .top_k = experts.per_token, .width = config.hidden_size, .residual = adds}));
  return products;
}

ExpertProducts::Matrices ExpertProducts::MatricesOf(const Binder& binder, const std::string& name,
                                                    int experts) {
  Matrices matrices = {.weight = binder.Get(name), .bias = {}};
  matrices.takes_codes = std::all_of(matrices.weight->parts.begin(), matrices.weight->parts.end(),
                                     [&](const weights::LinearPart& part) {
                                       return ops::TakesCodes(binder.table, part.grouped.name(),
                                                              part.grouped.desc().each);
                                     });
  if (!binder.config.experts.product_biases) return matrices;
  ops::Tensor bias = binder.Get(name + "_bias")->tensor;
  bias.rank = 2;
  bias.dims[1] = bias.dims[0] / experts;
  bias.dims[0] = experts;
  bias.strides[0] = bias.dims[1];
  bias.strides[1] = 1;
  matrices.bias = bias;
  return matrices;
}

Status ExpertProducts::Multiply(device::Stream& stream, const Matrices& matrices,
                                const ops::Tensor& starts, const LinearRows& x,
                                const ops::Tensor& tokens, const ops::Tensor& out) {
  for (const weights::LinearPart& part : matrices.weight->parts) {
    ops::GroupedLinear::Args args;
    args.x = x.coded.empty() ? x.plain : x.coded.codes;
    args.x_scales = x.coded.scales;
    args.tokens = tokens;
    args.starts = starts;
    args.weight = &part.weight;
    const int64_t rows = part.grouped.desc().each.n;
    if (!matrices.bias.empty()) args.bias = matrices.bias.Columns(part.row_begin, rows);
    args.out = out.Columns(part.row_begin, rows);
    SLUICE_RETURN_IF_ERROR(part.grouped(stream, args));
  }
  return OkStatus();
}

void ExpertProducts::BindGate(const Binder& binder) {
  if (!first_.bias.empty() || scale_.bound() || first_.weight->parts.size() != 1) return;
  const weights::LinearPart& part = first_.weight->parts.front();
  if (part.weight.layout != ops::LayoutId::kRowMajor || !part.weight.order.empty()) return;
  gate_ = binder.BindIfFast<ops::GroupedGate>(
      {.products = part.grouped.desc(), .kind = coded_.desc().kind});
}

Result<LinearRows> ExpertProducts::Inner(device::Stream& stream, const Args& args,
                                         const ops::Tensor& starts, const Activations& a) const {
  const int64_t experts = group_.desc().experts;
  LinearRows made = a.expert_gated;
  if (coded_.bound()) made = {{}, CodesIn(a.expert_gated, coded_.desc().width)};
  if (gate_.bound() && a.expert_tokens.dims[0] <= kFewRows * experts) {
    SLUICE_RETURN_IF_ERROR(gate_(stream, {.x = args.x,
                                          .tokens = a.expert_tokens,
                                          .starts = starts,
                                          .weight = &first_.weight->parts.front().weight,
                                          .codes = made.coded.codes,
                                          .scales = made.coded.scales}));
    return made;
  }
  const ops::Tensor& inner = plain_.bound() ? a.expert_gated : a.expert_gate_up;
  SLUICE_RETURN_IF_ERROR(Multiply(stream, first_, starts, args.x, a.expert_tokens, inner));
  if (scale_.bound()) {
    SLUICE_RETURN_IF_ERROR(
        scale_(stream, {.x = inner, .weights = args.weights, .places = a.expert_places}));
  }
  if (plain_.bound()) {
    SLUICE_RETURN_IF_ERROR(plain_(stream, {inner}));
  } else if (coded_.bound()) {
    SLUICE_RETURN_IF_ERROR(coded_(stream, {.x = inner,
                                           .counts = starts.Rows(experts, 1),
                                           .codes = made.coded.codes,
                                           .scales = made.coded.scales}));
  } else {
    SLUICE_RETURN_IF_ERROR(gated_(stream, {inner, a.expert_gated}));
  }
  return made;
}

Status ExpertProducts::operator()(device::Stream& stream, const Args& args,
                                  const Activations& a) const {
  const ops::Tensor starts = a.expert_starts.Rows(0, group_.desc().experts + 1);
  SLUICE_RETURN_IF_ERROR(group_(stream, {.ids = args.ids,
                                         .starts = starts,
                                         .tokens = a.expert_tokens,
                                         .places = a.expert_places,
                                         .counts = args.counts,
                                         .counted = args.counted}));
  SLUICE_ASSIGN_OR_RETURN(const LinearRows made, Inner(stream, args, starts, a));
  SLUICE_RETURN_IF_ERROR(Multiply(stream, down_, starts, made, {}, a.expert_out));
  return combine_(stream, {.y = a.expert_out,
                           .weights = args.weights,
                           .places = a.expert_places,
                           .residual = args.residual,
                           .out = args.out});
}

}  // namespace sluice::model::layers
