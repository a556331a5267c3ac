#include <cmath>
#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/norm.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

// 1 / sqrt(mean of squares + eps)
float InverseRms(const float* x, int64_t n, float eps) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
}

void Center(float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  for (int64_t i = 0; i < n; ++i) x[i] -= mean;
}

Support CheckNumbers(DType activation, float eps) {
  if (Support plain = SupportsActivation(activation); !plain.ok) return plain;
  if (!(eps > 0.0f) || !std::isfinite(eps))
    return Support::No(StrCat("eps is ", eps, ", it must be above 0"));
  return Support::Yes();
}

// A row of what the norm gives, in the forms that are wanted.
void Give(const Norm::Desc& desc, const Norm::Args& args, int64_t token, std::vector<float>& row) {
  std::vector<std::byte> rounded(RowBytes(desc.activation, row.size()));
  for (int64_t i = 0; i < desc.hidden; ++i) {
    StoreElement(desc.activation, rounded.data(), i, row[i]);
    row[i] = LoadElement(desc.activation, rounded.data(), i);
  }
  if (desc.form != RowForm::kCodes)
    std::memcpy(RowData(args.out, token), rounded.data(), rounded.size());
  if (desc.form == RowForm::kPlain) return;
  CodeRow(row, RowData(args.codes, token), args.code_scales.ptr<float>() + token,
          args.code_scales.strides[0]);
}

}  // namespace

Support RefNormSupports(const Norm::Desc& desc, const device::DeviceFacts&) {
  if (desc.hidden <= 0) return Support::No(StrCat("hidden is ", desc.hidden));
  if (desc.scaled && !desc.add) return Support::No("only a sum is scaled");
  if (desc.bias && desc.kind != NormKind::kLayer) return Support::No("only LayerNorm has a bias");
  return CheckNumbers(desc.activation, desc.eps);
}

Status RefNorm(device::Stream&, const Norm::Desc& desc, const Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const float* weight = args.weight.ptr<float>();
  const float* bias = args.bias.ptr<float>();
  std::vector<float> row(static_cast<size_t>(desc.hidden));
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    for (int64_t i = 0; i < desc.hidden; ++i) {
      row[i] = LoadElement(XDType(desc), RowData(args.x, t), i);
      if (!desc.add) continue;
      std::byte* residual = RowData(args.residual, t);
      const float sum = row[i] + LoadElement(SumDType(desc), residual, i);
      StoreElement(SumDType(desc), residual, i, desc.scaled ? sum * *args.scale.ptr<float>() : sum);
      row[i] = LoadElement(SumDType(desc), residual, i);
    }
    if (desc.kind == NormKind::kNone) {
      Give(desc, args, t, row);
      continue;
    }
    if (desc.kind == NormKind::kLayer) Center(row.data(), desc.hidden);
    const float inverse = InverseRms(row.data(), desc.hidden, desc.eps);
    for (int64_t i = 0; i < desc.hidden; ++i) {
      row[i] = row[i] * inverse * weight[i] + (bias != nullptr ? bias[i] : 0.0f);
    }
    Give(desc, args, t, row);
  }
  return OkStatus();
}

Support RefQkNormSupports(const QkNorm::Desc& desc, const device::DeviceFacts&) {
  if (desc.q_heads <= 0 || desc.kv_heads < 0 || desc.head_dim <= 0)
    return Support::No("q_heads and head_dim must be above 0, and kv_heads no less");
  return CheckNumbers(desc.activation, desc.eps);
}

Status RefQkNorm(device::Stream&, const QkNorm::Desc& desc, const QkNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  std::vector<float> head(static_cast<size_t>(desc.head_dim));
  for (int64_t t = 0; t < args.qkv.dims[0]; ++t) {
    for (int h = 0; h < desc.q_heads + desc.kv_heads; ++h) {
      const float* weight = (h < desc.q_heads ? args.q_weight : args.k_weight).ptr<float>();
      const int64_t first = int64_t{h} * desc.head_dim;
      std::byte* row = RowData(args.qkv, t);
      for (int i = 0; i < desc.head_dim; ++i)
        head[i] = LoadElement(desc.activation, row, first + i);
      const float inverse = InverseRms(head.data(), desc.head_dim, desc.eps);
      for (int i = 0; i < desc.head_dim; ++i)
        StoreElement(desc.activation, row, first + i, head[i] * inverse * weight[i]);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
