// What layers with a state have in common: how an op sees the states that a group keeps.
#pragma once

#include <initializer_list>

#include "batch/kv_group.h"
#include "model/layers/binder.h"
#include "ops/recurrent.h"

namespace sluice::model::layers {

// What a block keeps of one layer, [blocks, 1, states, numbers], in the shape that an op reads it
// in. `dims`: of one state, the first of which all states of a block share.
ops::Tensor StateOf(const ops::Tensor& kept, std::initializer_list<int64_t> dims);

// The convolution of the model's layers with a state: between gates in kShortConv layers.
ops::ShortConv::Desc ShortConvDesc(const files::ModelConfig& config, const ModelOptions& options,
                                   const batch::KvGroup& group);

}  // namespace sluice::model::layers
