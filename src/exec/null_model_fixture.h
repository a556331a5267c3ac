// For benchmarks: a model that computes nothing, with the KV memory and the executor that a real
// one of a few layers has, so that all the rest of a step can be timed. One thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/resolver.h"
#include "exec/executor.h"
#include "model/model.h"

namespace sluice::exec {

// Row r of the logits favours token r; `between` is called where a model would compute.
class NullModel : public model::Model {
 public:
  NullModel(model::ModelParts parts, std::function<void(const model::DeviceBatch&)> between)
      : Model(std::move(parts)), between_(std::move(between)) {}
  size_t workspace_bytes() const override { return 256; }
  Status Forward(model::ForwardContext&, const model::DeviceBatch& batch,
                 const model::Outputs& outputs) const override {
    float* row = batch.rows() > 0 ? outputs.logits.ptr<float>() : nullptr;
    for (int64_t r = 0; r < batch.rows(); ++r, row += vocab_size()) row[r % vocab_size()] = 1;
    between_(batch);
    return OkStatus();
  }

 private:
  const std::function<void(const model::DeviceBatch&)> between_;
};

struct NullExecutor {
  struct Sizes {
    int sequences = 0, context = 0;  // that the KV memory holds
    int max_batch_tokens = 0;
    int block_tokens = 32;
    int extra_rows = 16;  // logits rows of a step beyond one for each sequence
    int vocab = 64;       // small: drawing a token is the sampler's cost, which grows with it
    int drafts = 0;       // of a sequence in a step, which something on the device guesses
  };
  NullExecutor(const Sizes& sizes, std::function<void(const model::DeviceBatch&)> between) {
    const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
    device = std::move(resolved->Open({.threads = 1}).value());
    model::ModelParts parts;
    parts.device = device.get();
    parts.config.vocab_size = sizes.vocab;
    parts.config.num_layers = 1;
    parts.config.num_heads = parts.config.num_kv_heads = 1;
    parts.config.head_dim = 32;
    parts.config.hidden_size = 32;
    parts.config.layers.resize(1);
    parts.options.max_tokens = sizes.max_batch_tokens;
    parts.options.max_logits_rows = sizes.sequences + sizes.extra_rows;
    parts.options.max_model_len = sizes.context;
    parts.options.block_tokens = parts.options.kernel_block_tokens = sizes.block_tokens;
    model = std::make_unique<NullModel>(std::move(parts), std::move(between));
    batch::KvGroup group = model->groups().front();
    group.num_blocks = sizes.sequences * (sizes.context / sizes.block_tokens + 1);
    store = std::move(kvstore::KvStore::Make(*device, {group}).value());
    Executor::Options options{.max_num_seqs = sizes.sequences};
    if (sizes.drafts > 0) {
      options.draft_tokens = sizes.drafts;
      options.propose = [](device::Stream&, const ops::Tensor&, const ops::Tensor&) {
        return OkStatus();  // token 0, again and again
      };
      options.drafts_taken = 1.0;  // all are right
    }
    executor = std::move(Executor::Make(*device, *model, *store, options).value());
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<NullModel> model;
  std::unique_ptr<kvstore::KvStore> store;
  std::unique_ptr<Executor> executor;
};

}  // namespace sluice::exec
