#include "backend/cuda/linear/grouped_impls.h"

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/f8_experts.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/linear/product.h"
#include "ops/experts.h"
#include "ops/grouped_linear.h"

namespace sluice::cuda {
namespace {

using ops::GroupedLinear;
using ops::Linear;

constexpr int64_t kRowsMax = int64_t{1} << 30;  // of all experts

// One product of several that differ in their columns.
template <LinearArithmetic kArithmetic>
Status MultiplyOne(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) {
  SLUICE_ASSIGN_OR_RETURN(LinearCall call,
                          PlanCall({.arithmetic = kArithmetic}, FactsOf(stream), desc, args));
  return PutCall(stream, desc, call, nullptr);
}

Grouping GroupingOf(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args) {
  return {.experts = desc.experts,
          .starts = args.starts.ptr<int32_t>(),
          .tokens = args.tokens.ptr<int32_t>(),
          .bias_stride = desc.each.bias ? args.bias.strides[0] : 0};
}

// The kernels of linear, with their arithmetic: a thread block finds its expert by itself, so that
// a graph holds whatever routing comes.
template <LinearArithmetic kArithmetic>
struct Implementation {
  static ops::Support Supports(const GroupedLinear::Desc& desc, const device::DeviceFacts& facts) {
    if (desc.experts > ops::kExpertsMax)
      return ops::Support::No(StrCat(desc.experts, " experts; up to ", ops::kExpertsMax));
    if (ops::Support each = SupportsProduct(kArithmetic, desc.each); !each.ok) return each;
    return ops::RefGroupedLinearSupports(desc, facts);
  }

  class Products final : public ops::Kept<GroupedLinear> {
   public:
    Status Run(device::Stream& stream, const GroupedLinear::Desc& desc,
               const GroupedLinear::Args& args) override {
      SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args, ops::LayoutId::kRowMajor));
      if (args.x.dims[0] == 0 || args.out.dims[0] == 0) return OkStatus();
      if (desc.by_columns) return GroupedByExpert(stream, desc, args, &MultiplyOne<kArithmetic>);
      const Grouping grouping = GroupingOf(desc, args);
      const Linear::Args each = {
          .x = args.x, .weight = args.weight, .bias = args.bias, .out = args.out};
      const ProductTerms terms = {
          .arithmetic = kArithmetic, .grouping = &grouping, .kept = &choice_};
      SLUICE_ASSIGN_OR_RETURN(LinearCall call, PlanCall(terms, FactsOf(stream), desc.each, each));
      return PutCall(stream, desc.each, call, &grouping);
    }

   private:
    KeptChoice choice_;
  };

  static std::string_view Slow(const GroupedLinear::Desc& desc) {
    if (kArithmetic != LinearArithmetic::kExact || desc.each.activation == DType::kF32) return "";
    return "activations of 16 bits are widened and multiplied as three terms each";
  }

  static size_t ScratchBytes(const GroupedLinear::Desc& desc, const ops::StepLimits& limits,
                             const device::DeviceFacts&) {
    return ProductScratchBytes(kArithmetic, desc.each, limits.tokens * desc.top_k);
  }

  static void Register(ops::OpTable& table, std::string_view name, ops::Arithmetic arithmetic) {
    table.Add<GroupedLinear>({.name = name,
                              .supports = &Supports,
                              .arithmetic = arithmetic,
                              .slow = &Slow,
                              .scratch_bytes = &ScratchBytes,
                              .keep = &ops::Keep<Products, GroupedLinear>});
  }
};

// Products in F8, for the experts of an F8 checkpoint.
ops::Support SupportsF8Grouped(const GroupedLinear::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.by_columns) {
    return ops::Support::No(
        "columns of its own for each matrix, as latent attention has them, which are multiplied in "
        "16 bits or more");
  }
  if (desc.experts > kF8ExpertsMax || desc.experts * desc.each.n > kRowsMax) {
    return ops::Support::No(StrCat(desc.experts, " experts of ", desc.each.n, " rows; up to ",
                                   kF8ExpertsMax, " and ", kRowsMax, " rows in all"));
  }
  if (ops::Support each = SupportsF8(desc.each); !each.ok) return each;
  return ops::RefGroupedLinearSupports(desc, facts);
}

class F8Products final : public ops::Kept<GroupedLinear> {
 public:
  Status Run(device::Stream& stream, const GroupedLinear::Desc& desc,
             const GroupedLinear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args, ops::LayoutId::kRowMajor, true));
    const int64_t m = args.out.dims[0];
    if (args.x.dims[0] == 0 || m == 0) return OkStatus();
    const std::optional<F8ExpertsPlan> few = FewRows(desc, m, FactsOf(stream).compute_units);
    if (few) return MultiplyF8Experts(stream, desc, args, *few, {.out = args.out});
    const Grouping grouping = GroupingOf(desc, args);
    const Linear::Args each = {.x = args.x,
                               .weight = args.weight,
                               .bias = args.bias,
                               .out = args.out,
                               .x_scales = args.x_scales};
    SLUICE_ASSIGN_OR_RETURN(const F8Codes x, QuantizeF8(stream, desc.each, each, &grouping));
    const auto make = [&] {
      return PlanF8({.m = m,
                     .n = desc.each.n,
                     .k = desc.each.k,
                     .compute_units = FactsOf(stream).compute_units,
                     .experts = desc.experts});
    };
    SLUICE_ASSIGN_OR_RETURN(const F8Plan* const plan, kept_.plan.Of(m, make));
    return MultiplyF8(stream, desc.each, each, x, *plan, &grouping, &kept_.weight);
  }

 private:
  static std::optional<F8ExpertsPlan> FewRows(const GroupedLinear::Desc& desc, int64_t places,
                                              int compute_units) {
    if (!SupportsF8Experts(desc).ok) return std::nullopt;
    return PlanF8Experts({.places = places,
                          .n = desc.each.n,
                          .k = desc.each.k,
                          .experts = desc.experts,
                          .compute_units = compute_units});
  }

  F8Kept kept_;
};

size_t F8ScratchBytes(const GroupedLinear::Desc& desc, const ops::StepLimits& limits,
                      const device::DeviceFacts&) {
  return F8ScratchOf(limits.tokens * desc.top_k, desc.each.k,
                     desc.each.x_scales == ops::ActivationScales::kBlock)
      .bytes;
}

}  // namespace

void RegisterGroupedLinear(ops::OpTable& table) {
  table.Add<GroupedLinear>({.name = "sm90_f8_grouped_linear",
                            .supports = &SupportsF8Grouped,
                            .arithmetic = ops::Arithmetic::kAsReference,
                            .scratch_bytes = &F8ScratchBytes,
                            .keep = &ops::Keep<F8Products, GroupedLinear>});
  table.Attach("sm90_f8_grouped_linear", ops::TakesCodedRows{});
  Implementation<LinearArithmetic::kBf16>::Register(table, "sm90_bf16_grouped_linear",
                                                    ops::Arithmetic::kBf16);
  Implementation<LinearArithmetic::kF16>::Register(table, "sm90_f16_grouped_linear",
                                                   ops::Arithmetic::kF16);
  Implementation<LinearArithmetic::kExact>::Register(table, "sm90_f32_grouped_linear",
                                                     ops::Arithmetic::kF32);
}

}  // namespace sluice::cuda
