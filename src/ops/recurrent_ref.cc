#include <cmath>
#include <vector>

#include "ops/element.h"
#include "ops/recurrent.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

double GateOf(double x) { return 1.0 / (1.0 + std::exp(-x)); }
// log(1 + e^x) without overflow.
double Softplus(double x) {
  return x > 0.0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

Support CheckSequenceOptions(DType activation, int block_tokens, int states) {
  if (Support plain = SupportsActivation(activation); !plain.ok) return plain;
  if (block_tokens <= 0) return Support::No(StrCat("block_tokens is ", block_tokens));
  if (states <= 0) return Support::No(StrCat("states is ", states));
  return Support::Yes();
}

// The rows of a sequence without a block.
void ZeroRows(const StateStep& step, const Tensor& out) {
  for (int64_t t = step.begin; t < step.begin + step.tokens; ++t) {
    for (int64_t i = 0; i < out.dims[1]; ++i) StoreElement(out.dtype, RowData(out, t), i, 0.0f);
  }
}

// One head of q or k, divided by its length.
void LoadUnit(const Tensor& qkv, int64_t token, int64_t first, std::vector<double>& head) {
  double sum = 0.0;
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] = LoadElement(qkv.dtype, RowData(qkv, token), first + static_cast<int64_t>(i));
    sum += head[i] * head[i];
  }
  const double inverse = 1.0 / std::sqrt(sum + kGatedDeltaNormEps);
  for (double& value : head) value *= inverse;
}

// One token of one value head; `state` is [k_head_dim, v_head_dim].
void DeltaToken(const GatedDelta::Desc& desc, const GatedDelta::Args& args, int64_t t, int head,
                float* state) {
  const int64_t k_dim = desc.k_head_dim, v_dim = desc.v_head_dim;
  const int64_t k_width = desc.k_heads * k_dim;
  const int64_t k_head = head / (desc.v_heads / desc.k_heads);
  std::vector<double> q(static_cast<size_t>(k_dim)), k(static_cast<size_t>(k_dim));
  LoadUnit(args.qkv, t, k_head * k_dim, q);
  LoadUnit(args.qkv, t, k_width + k_head * k_dim, k);
  const double scale = 1.0 / std::sqrt(static_cast<double>(k_dim));
  const std::byte* ba = RowData(args.ba, t);
  const double beta = GateOf(LoadElement(desc.activation, ba, head));
  const double a = LoadElement(desc.activation, ba, desc.v_heads + head);
  const double decay = std::exp(-std::exp(static_cast<double>(args.a_log.ptr<float>()[head])) *
                                Softplus(a + args.dt_bias.ptr<float>()[head]));
  for (int64_t j = 0; j < v_dim; ++j) {
    const double v =
        LoadElement(desc.activation, RowData(args.qkv, t), 2 * k_width + head * v_dim + j);
    double held = 0.0, sum = 0.0;
    for (int64_t i = 0; i < k_dim; ++i) held += state[i * v_dim + j] * decay * k[i];
    for (int64_t i = 0; i < k_dim; ++i) {
      float& s = state[i * v_dim + j];
      s = static_cast<float>(s * decay + k[i] * beta * (v - held));
      sum += s * q[i] * scale;
    }
    StoreElement(desc.activation, RowData(args.out, t), head * v_dim + j, static_cast<float>(sum));
  }
}

// One token of one value head; `state` is [k_head_dim, v_head_dim].
void SsdToken(const Ssd::Desc& desc, const Ssd::Args& args, int64_t t, int head, float* state) {
  const int64_t k_dim = desc.k_head_dim, v_dim = desc.v_head_dim;
  const std::byte* row = RowData(args.vkq, t);
  const int64_t k_at = desc.v_heads * v_dim + head / (desc.v_heads / desc.k_heads) * k_dim;
  const int64_t q_at = k_at + desc.k_heads * k_dim;
  double size = 1.0;
  if (desc.steps)
    size =
        Softplus(double{desc.dt_scale} * LoadElement(desc.activation, RowData(args.dt, t), head) +
                 args.dt_bias.ptr<float>()[head]);
  const double decay = std::exp(size * args.a.ptr<float>()[head]);
  for (int64_t j = 0; j < v_dim; ++j) {
    const double v = LoadElement(desc.activation, row, head * v_dim + j);
    double sum = desc.skip ? args.skip.ptr<float>()[head] * v : 0.0;
    for (int64_t i = 0; i < k_dim; ++i) {
      float& s = state[i * v_dim + j];
      s = static_cast<float>(s * decay + LoadElement(desc.activation, row, k_at + i) * (size * v));
      sum += static_cast<double>(s) * LoadElement(desc.activation, row, q_at + i);
    }
    StoreElement(desc.activation, RowData(args.out, t), head * v_dim + j, static_cast<float>(sum));
  }
}

// The tokens of a part of a sequence's rows.
void Scan(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args, const StateStep& step) {
  if (step.write < 0) return ZeroRows(step, args.out);
  const int64_t channels = desc.channels, size = desc.state_size;
  float* const state = args.state.ptr<float>() + step.write;
  if (step.read < 0) {
    std::fill_n(state, desc.numbers(), 0.0f);
  } else if (step.read != step.write) {
    std::copy_n(args.state.ptr<float>() + step.read, desc.numbers(), state);
  }
  for (int64_t t = step.begin; t < step.begin + step.tokens; ++t) {
    const std::byte *x_row = RowData(args.x, t), *bc = RowData(args.bc, t);
    for (int64_t c = 0; c < channels; ++c) {
      const double x = LoadElement(desc.activation, x_row, c);
      const double dt = Softplus(double{LoadElement(desc.activation, RowData(args.dt, t), c)} +
                                 args.dt_bias.ptr<float>()[c]);
      const float* rates = args.a.ptr<float>() + c * args.a.strides[0];
      double sum = args.skip.ptr<float>()[c] * x;
      for (int64_t i = 0; i < size; ++i) {
        float& s = state[i * channels + c];
        s = static_cast<float>(s * std::exp(dt * rates[i]) +
                               LoadElement(desc.activation, bc, i) * (dt * x));
        sum += static_cast<double>(s) * LoadElement(desc.activation, bc, size + i);
      }
      StoreElement(desc.activation, RowData(args.out, t), c, static_cast<float>(sum));
    }
  }
}

// What the convolution sees of a token's channel.
float ConvInput(const ShortConv::Desc& desc, const std::byte* row, int64_t c) {
  const float gate = LoadElement(desc.activation, row, c);
  return desc.gated ? gate * LoadElement(desc.activation, row, 2 * desc.channels + c) : gate;
}

void Convolve(const ShortConv::Desc& desc, const ShortConv::Args& args, const StateStep& step) {
  if (step.write < 0) return ZeroRows(step, args.out);
  const int64_t channels = desc.channels, kernel = desc.kernel;
  std::vector<float> rows(static_cast<size_t>(kernel * channels));  // oldest first
  const float* from = args.state.ptr<float>() + step.read;
  // The first row is pushed out by the first token.
  for (int64_t i = channels; i < kernel * channels; ++i)
    rows[i] = step.read < 0 ? 0.0f : from[i - channels];
  for (int64_t t = step.begin; t < step.begin + step.tokens; ++t) {
    std::copy(rows.begin() + channels, rows.end(), rows.begin());
    for (int64_t c = 0; c < channels; ++c) {
      const std::byte* x = RowData(args.x, t);
      rows[(kernel - 1) * channels + c] = ConvInput(desc, x, c);
      double sum = desc.bias ? args.bias.ptr<float>()[c] : 0.0;
      for (int64_t j = 0; j < kernel; ++j)
        sum +=
            static_cast<double>(args.weight.ptr<float>()[c * kernel + j]) * rows[j * channels + c];
      const double factor =
          desc.gated ? LoadElement(desc.activation, x, channels + c) : GateOf(sum);
      StoreElement(desc.activation, RowData(args.out, t), c, static_cast<float>(sum * factor));
    }
  }
  std::copy(rows.begin() + channels, rows.end(), args.state.ptr<float>() + step.write);
}

Support CheckHeads(int k_heads, int v_heads, int k_head_dim, int v_head_dim) {
  if (k_heads <= 0 || v_heads <= 0 || k_head_dim <= 0 || v_head_dim <= 0)
    return Support::No("head counts and widths must be above 0");
  if (v_heads % k_heads != 0)
    return Support::No(StrCat(v_heads, " value heads are no multiple of ", k_heads, " key heads"));
  return Support::Yes();
}

// Goes through the rows of a sequence, head by head, by body(row, head, the head's state).
template <class Desc, class Args, class Body>
void Recur(const Desc& desc, const Args& args, const StateStep& step, const Body& body) {
  if (step.write < 0) return ZeroRows(step, args.out);
  const int64_t numbers = int64_t{desc.k_head_dim} * desc.v_head_dim;
  for (int head = 0; head < desc.v_heads; ++head) {
    float* const states = args.state.template ptr<float>() + head * numbers;
    float* const state = states + step.write;
    if (step.read < 0) {
      std::fill_n(state, numbers, 0.0f);
    } else if (step.read != step.write) {
      std::copy_n(states + step.read, numbers, state);
    }
    for (int64_t t = step.begin; t < step.begin + step.tokens; ++t) body(t, head, state);
  }
}

}  // namespace

Support RefShortConvSupports(const ShortConv::Desc& desc, const device::DeviceFacts&) {
  if (desc.channels <= 0) return Support::No(StrCat("channels is ", desc.channels));
  if (desc.kernel < 2 || desc.kernel > 8)
    return Support::No(StrCat("a kernel of ", desc.kernel, " taps is outside 2 to 8"));
  return CheckSequenceOptions(desc.activation, desc.block_tokens, desc.states);
}

Status RefShortConv(device::Stream&, const ShortConv::Desc& desc, const ShortConv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t s = 0; s < args.context.dims[0]; ++s)
    ForEachStateStep(desc, args, s, [&](const StateStep& step) { Convolve(desc, args, step); });
  return OkStatus();
}

Support RefGatedDeltaSupports(const GatedDelta::Desc& desc, const device::DeviceFacts&) {
  const Support heads = CheckHeads(desc.k_heads, desc.v_heads, desc.k_head_dim, desc.v_head_dim);
  if (!heads.ok) return heads;
  return CheckSequenceOptions(desc.activation, desc.block_tokens, desc.states);
}

Status RefGatedDelta(device::Stream&, const GatedDelta::Desc& desc, const GatedDelta::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t s = 0; s < args.context.dims[0]; ++s)
    ForEachStateStep(desc, args, s, [&](const StateStep& step) {
      Recur(desc, args, step,
            [&](int64_t t, int head, float* state) { DeltaToken(desc, args, t, head, state); });
    });
  return OkStatus();
}

Support RefSsdSupports(const Ssd::Desc& desc, const device::DeviceFacts&) {
  const Support heads = CheckHeads(desc.k_heads, desc.v_heads, desc.k_head_dim, desc.v_head_dim);
  if (!heads.ok) return heads;
  if (!std::isfinite(desc.dt_scale)) return Support::No(StrCat("dt_scale is ", desc.dt_scale));
  return CheckSequenceOptions(desc.activation, desc.block_tokens, desc.states);
}

Support RefSelectiveScanSupports(const SelectiveScan::Desc& desc, const device::DeviceFacts&) {
  if (desc.channels <= 0) return Support::No(StrCat("channels is ", desc.channels));
  if (desc.state_size <= 0) return Support::No(StrCat("state_size is ", desc.state_size));
  return CheckSequenceOptions(desc.activation, desc.block_tokens, desc.states);
}

Status RefSelectiveScan(device::Stream&, const SelectiveScan::Desc& desc,
                        const SelectiveScan::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t s = 0; s < args.context.dims[0]; ++s)
    ForEachStateStep(desc, args, s, [&](const StateStep& step) { Scan(desc, args, step); });
  return OkStatus();
}

Status RefSsd(device::Stream&, const Ssd::Desc& desc, const Ssd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t s = 0; s < args.context.dims[0]; ++s)
    ForEachStateStep(desc, args, s, [&](const StateStep& step) {
      Recur(desc, args, step,
            [&](int64_t t, int head, float* state) { SsdToken(desc, args, t, head, state); });
    });
  return OkStatus();
}

}  // namespace sluice::ops
