#include "backend/cuda/activation/kind.h"

namespace sluice::cuda {

// Without a default, so that a new kind does not compile before it is placed.
std::optional<ActivationKind> KindOf(ops::Activation kind) {
  switch (kind) {
    case ops::Activation::kSilu:
      return kSilu;
    case ops::Activation::kGeluTanh:
      return kGeluTanh;
    case ops::Activation::kGeluErf:
      return kGeluErf;
    case ops::Activation::kReluSquared:
      return kReluSquared;
    case ops::Activation::kClampedSwiglu:
      static_assert(kSwigluLimit == ops::kSwigluLimit && kSwigluSlope == ops::kSwigluSlope);
      return kClampedSwiglu;
  }
  return std::nullopt;
}

}  // namespace sluice::cuda
