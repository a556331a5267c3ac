#include "backend/xpu/linear/impls.h"

#include <algorithm>
#include <array>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "backend/xpu/linear/chain.h"
#include "backend/xpu/linear/config.h"
#include "backend/xpu/linear/pack.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace sluice::xpu {
namespace {

// What a binding keeps for the rows of the call before.
struct Chosen {
  LinearConfig config;
  KernelSlot kernel;
};
using KeptChoice = ops::LastValue<int64_t, Chosen>;  // by rows of the output

// Both kernels' arguments; `more` follow.
template <class... More>
Status LaunchLinear(device::Stream& stream, const char* program, Chosen& chosen,
                    const ops::Linear::Desc& desc, const ops::Linear::Args& args,
                    const More&... more) {
  const LinearConfig& config = chosen.config;
  return LaunchKept(stream, chosen.kernel, {program, config.function}, config.options, config.shape,
                    args.x.data, RowStride(args.x), args.weight->data.data,
                    static_cast<uint64_t>(PackedShapeOf(desc.weight, desc.k).group_bytes),
                    args.bias.data, args.residual.data, RowStride(args.residual), args.out.data,
                    RowStride(args.out), static_cast<int32_t>(desc.n),
                    static_cast<int32_t>(args.x.dims[0]), static_cast<int32_t>(desc.k), more...);
}

class F32Products final : public ops::Kept<ops::Linear> {
 public:
  Status Run(device::Stream& stream, const ops::Linear::Desc& desc,
             const ops::Linear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(CheckLinearArgs(desc, args, ops::LayoutId::kXpuInterleaved16));
    const int64_t m = args.x.dims[0];
    if (m == 0) return OkStatus();
    const auto choose = [&] { return Chosen{ConfigureLinear(desc, m, FactsOf(stream)), {}}; };
    SLUICE_ASSIGN_OR_RETURN(Chosen* const chosen, kept_.Of(m, choose));
    return LaunchLinear(stream, "linear/any_f32_linear", *chosen, desc, args,
                        args.weight->scales.data, args.weight->order.data);
  }

 private:
  KeptChoice kept_;
};

// The bytes of one expert's scales among those of all.
uint64_t ExpertScaleBytes(const ops::GroupedLinear::Desc& desc) {
  if (desc.each.weight_scales == ops::WeightScales::kTensor) return 0;
  uint64_t scales = 1;
  for (const int64_t dim : ops::ScaleShape(desc.each)) scales *= static_cast<uint64_t>(dim);
  return scales * sizeof(float);
}

class F32GroupedProducts final : public ops::Kept<ops::GroupedLinear> {
 public:
  Status Run(device::Stream& stream, const ops::GroupedLinear::Desc& desc,
             const ops::GroupedLinear::Args& args) override;

 private:
  KeptChoice kept_;
};

Status F32GroupedProducts::Run(device::Stream& stream, const ops::GroupedLinear::Desc& desc,
                               const ops::GroupedLinear::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args, ops::LayoutId::kXpuInterleaved16));
  const int64_t places = args.out.dims[0];
  if (places == 0) return OkStatus();
  const auto choose = [&] {
    return Chosen{ConfigureGroupedLinear(desc, places, FactsOf(stream)), {}};
  };
  SLUICE_ASSIGN_OR_RETURN(Chosen* const chosen, kept_.Of(places, choose));
  const LinearConfig& config = chosen->config;
  const uint64_t expert_bytes = PackedBytes(desc.each);
  if (desc.by_columns) {
    return LaunchKept(
        stream, chosen->kernel, {"linear/any_f32_grouped_linear", config.function}, config.options,
        config.shape, args.x.data, RowStride(args.x), static_cast<uint64_t>(desc.x_step),
        args.weight->data.data,
        static_cast<uint64_t>(PackedShapeOf(desc.each.weight, desc.each.k).group_bytes),
        expert_bytes, args.weight->scales.data, ExpertScaleBytes(desc), args.out.data,
        RowStride(args.out), static_cast<uint64_t>(desc.out_step),
        static_cast<int32_t>(desc.each.n), static_cast<int32_t>(desc.each.k),
        static_cast<int32_t>(args.out.dims[0]));
  }
  return LaunchKept(stream, chosen->kernel, {"linear/any_f32_grouped_linear", config.function},
                    config.options, config.shape, args.x.data, RowStride(args.x), args.tokens.data,
                    args.starts.data, desc.experts, args.weight->data.data,
                    static_cast<uint64_t>(PackedShapeOf(desc.each.weight, desc.each.k).group_bytes),
                    expert_bytes, args.weight->scales.data, ExpertScaleBytes(desc), args.out.data,
                    RowStride(args.out), static_cast<int32_t>(desc.each.n),
                    static_cast<int32_t>(desc.each.k), args.bias.data,
                    RowStride(args.bias) * static_cast<uint64_t>(Info(desc.each.activation).bytes));
}

ops::Support F32Supports(const ops::Linear::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.residual && OutDType(desc) != desc.activation)
    return ops::Support::No(StrCat("a residual in F32 beside ", Name(desc.activation)));
  if (desc.x_scales != ops::ActivationScales::kNone)
    return ops::Support::No("activations in F8, which OpenCL has no products for");
  return ops::RefLinearSupports(desc, facts);
}

ops::Support Int8Supports(const ops::Linear::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = F32Supports(desc, facts);
  if (!support.ok) return support;
  if (!facts.on_host_processor)
    return ops::Support::NotOnDevice(
        "made for a processor, whose work-items run one after another");
  const PackedShape shape = PackedShapeOf(desc.weight, desc.k);
  if (!shape.nibbles || shape.e2m1)
    return ops::Support::No(StrCat("weights in ", Name(desc.weight), ", which are no nibbles"));
  if (const ops::Support plain = ops::NoWeightScales(desc); !plain.ok) return plain;
  if (desc.ordered) return ops::Support::No("columns in an order of their own");
  if (desc.k > kInt8KMax) return ops::Support::No(StrCat("k is ", desc.k, ", above ", kInt8KMax));
  return support;
}

ops::Support F32GroupedSupports(const ops::GroupedLinear::Desc& desc,
                                const device::DeviceFacts& facts) {
  const ops::Support support = F32Supports(desc.each, facts);
  if (!support.ok) return support;
  const ops::Support whole = ops::WholeRowGroups(desc, static_cast<int>(kPackedRows));
  return whole.ok ? ops::RefGroupedLinearSupports(desc, facts) : whole;
}

bool Chains(const ops::Linear::Desc& desc) { return desc.activation == DType::kF32 && !desc.bias; }

// The launch before this one that makes its x, taken back.
RowMaker TakeMaker(XpuStream& stream, const ops::Linear::Desc& desc,
                   const ops::Linear::Args& args) {
  const RecordedLaunch* last = stream.last_recorded();
  if (last == nullptr || !last->maker) return {};
  const RowMaker maker = *last->maker;
  if (maker.out != args.x.data || maker.out_stride != RowStride(args.x) ||
      maker.rows != args.x.dims[0] || maker.width != desc.k ||
      !CanMakeBeside(maker, args.out.data, RowStride(args.out), desc.n)) {
    return {};
  }
  stream.DropLastRecorded();
  return maker;
}

std::array<KernelArg, 16> ArgsOf(const LinearPhase& phase, const int32_t& kind) {
  return {ArgOf(phase.x),           ArgOf(phase.x_stride),           ArgOf(phase.weight),
          ArgOf(phase.group_bytes), ArgOf(phase.residual),           ArgOf(phase.residual_stride),
          ArgOf(phase.out),         ArgOf(phase.out_stride),         ArgOf(phase.n),
          ArgOf(phase.k),           ArgOf(phase.groups_each),        ArgOf(kind),
          ArgOf(phase.from.source), ArgOf(phase.from.source_stride), ArgOf(phase.from.norm_weight),
          ArgOf(phase.from.eps)};
}

Status LaunchChain(XpuStream& stream, const LinearConfig& config, LinearChain chain) {
  SLUICE_ASSIGN_OR_RETURN(std::byte* const counters, stream.Counters());
  const int32_t m = static_cast<int32_t>(chain.m);
  const int32_t phases = static_cast<int32_t>(chain.phases.size());
  std::vector<KernelArg> args = {ArgOf(counters), ArgOf(m), ArgOf(phases)};
  const LinearPhase none;
  int32_t kinds[kChainPhases] = {};
  for (size_t p = 0; p < kChainPhases; ++p) {
    const LinearPhase& phase = p < chain.phases.size() ? chain.phases[p] : none;
    kinds[p] = static_cast<int32_t>(phase.from.kind);
    for (const KernelArg& arg : ArgsOf(phase, kinds[p])) args.push_back(arg);
  }
  SLUICE_RETURN_IF_ERROR(stream.Launch(
      {"linear/any_int8_linear_chain", config.function},
      StrCat(config.options, " -D KIND=", std::max(chain.activation, 0)), config.shape, args));
  if (RecordedLaunch* last = stream.last_recorded()) last->chain = std::move(chain);
  return OkStatus();
}

// Joins the linears recorded right before, where it can.
Status RecordChain(device::Stream& stream, const ops::Linear::Desc& desc,
                   const ops::Linear::Args& args) {
  XpuStream& xpu = AsXpu(stream);
  const LinearConfig config = ConfigureInt8Chain(desc, args.x.dims[0], FactsOf(stream));
  LinearPhase phase;
  phase.from = TakeMaker(xpu, desc, args);
  phase.x = args.x.data;
  phase.x_stride = RowStride(args.x);
  phase.weight = args.weight->data.data;
  phase.group_bytes = PackedShapeOf(desc.weight, desc.k).group_bytes;
  phase.residual = args.residual.data;
  phase.residual_stride = RowStride(args.residual);
  phase.out = args.out.data;
  phase.out_stride = RowStride(args.out);
  phase.n = static_cast<int32_t>(desc.n);
  phase.k = static_cast<int32_t>(desc.k);
  phase.groups_each = config.groups_each;

  LinearChain chain;
  chain.options = config.options;
  chain.m = args.x.dims[0];
  const RecordedLaunch* last = xpu.last_recorded();
  if (last != nullptr && last->chain && last->chain->Takes(chain.options, chain.m, phase.from)) {
    chain = *last->chain;
    xpu.DropLastRecorded();
  }
  if (phase.from.kind == RowMaker::Kind::kGated) chain.activation = phase.from.activation;
  chain.phases.push_back(phase);
  return LaunchChain(xpu, config, std::move(chain));
}

class Int8Products final : public ops::Kept<ops::Linear> {
 public:
  Status Run(device::Stream& stream, const ops::Linear::Desc& desc,
             const ops::Linear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(CheckLinearArgs(desc, args, ops::LayoutId::kXpuNibbles16));
    const int64_t m = args.x.dims[0];
    if (m == 0) return OkStatus();
    if (AsXpu(stream).recording() && Chains(desc)) return RecordChain(stream, desc, args);
    const auto choose = [&] { return Chosen{ConfigureInt8Linear(desc, m, FactsOf(stream)), {}}; };
    SLUICE_ASSIGN_OR_RETURN(Chosen* const chosen, kept_.Of(m, choose));
    return LaunchLinear(stream, "linear/any_int8_linear", *chosen, desc, args,
                        static_cast<int32_t>(chosen->config.groups_each));
  }

 private:
  KeptChoice kept_;
};

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  constexpr std::string_view kInt8 = "any_int8_linear", kF32 = "any_f32_linear";
  constexpr int kRows = static_cast<int>(kPackedRows);
  table.Add<ops::Linear>({.name = kInt8,
                          .supports = &Int8Supports,
                          .arithmetic = ops::Arithmetic::kInt8,
                          .keep = &ops::Keep<Int8Products, ops::Linear>});
  table.Attach(kInt8,
               ops::LinearPacking{ops::LayoutId::kXpuNibbles16, kRows, &PackedBytes, &PackNibbles});
  table.Add<ops::Linear>({.name = kF32,
                          .supports = &F32Supports,
                          .arithmetic = ops::Arithmetic::kF32,
                          .keep = &ops::Keep<F32Products, ops::Linear>});
  table.Attach(kF32,
               ops::LinearPacking{ops::LayoutId::kXpuInterleaved16, kRows, &PackedBytes, &Pack});
  constexpr std::string_view kGrouped = "any_f32_grouped_linear";
  table.Add<ops::GroupedLinear>({.name = kGrouped,
                                 .supports = &F32GroupedSupports,
                                 .arithmetic = ops::Arithmetic::kF32,
                                 .keep = &ops::Keep<F32GroupedProducts, ops::GroupedLinear>});
  table.Attach(kGrouped,
               ops::LinearPacking{ops::LayoutId::kXpuInterleaved16, kRows, &PackedBytes, &Pack});
}

}  // namespace sluice::xpu
