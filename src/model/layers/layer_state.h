// What layers with a state have in common: how an op sees the states that a group keeps, and the
// convolution that most of them begin with. Immutable; the ParameterMap must outlive it.
#pragma once

#include <initializer_list>
#include <string>

#include "batch/kv_group.h"
#include "model/forward.h"
#include "model/layers/binder.h"
#include "ops/recurrent.h"

namespace sluice::model::layers {

// What a block keeps of one layer, [blocks, 1, states, numbers], in the shape that an op reads it
// in. `dims`: of one state, the first of which all states of a block share.
ops::Tensor StateOf(const ops::Tensor& kept, std::initializer_list<int64_t> dims);

// The convolution of the model's layers with a state: between gates in kShortConv layers.
ops::ShortConv::Desc ShortConvDesc(const files::ModelConfig& config, const ModelOptions& options,
                                   const batch::KvGroup& group);

// Where the states of a step's sequences are, for an op that reads and writes those of a group.
template <class Args>
void SetPlaces(const DeviceBatch& batch, int group, Args* args) {
  args->query_start = batch.query_start;
  args->context = batch.context;
  args->block_table = batch.groups[group].block_table;
}

// Tells the observer, if there is one, that the layer's states are written.
Status TellWritten(const ForwardContext& context, int layer, int group);

class LayerConv {
 public:
  // `taps`: the parameter's name, which with "_bias" behind it is that of its bias.
  static Result<LayerConv> Make(const Binder& binder, const std::string& taps,
                                const batch::KvGroup& group);
  // `kept`: what the group's blocks keep of the convolution. out may not be x.
  Status operator()(device::Stream& stream, const DeviceBatch& batch, int group,
                    const ops::Tensor& x, const ops::Tensor& kept, const ops::Tensor& out) const;

 private:
  ops::Bound<ops::ShortConv> conv_;
  ops::Tensor taps_, bias_;  // the second is empty where the model has none
};

}  // namespace sluice::model::layers
