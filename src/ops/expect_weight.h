// The rules for what comes with a weight in an op's call.
#pragma once

#include "ops/check_args.h"
#include "ops/linear.h"

namespace sluice::ops {

// The scales and the order that the product's descriptor asks for are there, and no others.
void ExpectScales(const Linear::Desc& desc, const PackedWeight& weight, ArgsChecker& check);

// `weight` is the product's, in rows as they are, with its scales.
void ExpectRowWeight(std::string_view name, const Linear::Desc& product, const PackedWeight* weight,
                     ArgsChecker& check);

}  // namespace sluice::ops
