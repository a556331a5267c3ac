#include "ops/expect_weight.h"

namespace sluice::ops {

void ExpectScales(const Linear::Desc& desc, const PackedWeight& weight, ArgsChecker& check) {
  const std::vector<int64_t> shape = ScaleShape(desc);
  if (shape.size() == 2) {
    check.Expect("scales", weight.scales, DType::kF32, {shape[0], shape[1]});
  } else {
    check.ExpectIf(desc.weight_scales != WeightScales::kNone, "scales", weight.scales, DType::kF32,
                   {shape[0]});
  }
  check.ExpectIf(desc.x_scales == ActivationScales::kTensor, "x_scale", weight.x_scale, DType::kF32,
                 {1});
  check.ExpectIf(desc.ordered, "order", weight.order, DType::kI32, {desc.k});
}

void ExpectRowWeight(std::string_view name, const Linear::Desc& product, const PackedWeight* weight,
                     ArgsChecker& check) {
  if (weight == nullptr || weight->data.empty() || weight->dtype != product.weight ||
      weight->layout != LayoutId::kRowMajor || weight->n != product.n || weight->k != product.k) {
    return check.Fail(StrCat("the weight ", name, " is not the ", product.ToString()));
  }
  check.ExpectHere(name, weight->data);
  ExpectScales(product, *weight, check);
}

}  // namespace sluice::ops
