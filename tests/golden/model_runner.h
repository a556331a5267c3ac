// Runs a Model without the executor: KV pools, block tables and a DeviceBatch made by hand. For
// tests, on one thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "files/eagle_files.h"
#include "files/model_files.h"
#include "model/eagle/eagle_head.h"
#include "model/model.h"

namespace sluice::golden {

// The next tokens of one sequence.
struct Chunk {
  int sequence = 0;
  std::vector<int> tokens;
};

// Where the tests run: SLUICE_GOLDEN_DEVICE, as --device takes it; the CPU without it.
std::string TestDevice();

// Whether all experts lie on the host beside that device: SLUICE_GOLDEN_EXPERTS_ON is "host".
bool ExpertsOnHost();

class ModelRunner {
 public:
  // Room for `sequences` sequences of options.max_model_len tokens each.
  static Result<std::unique_ptr<ModelRunner>> Open(files::ModelFiles files,
                                                   model::ModelOptions options, int sequences,
                                                   const device::OpenOptions& device_options = {},
                                                   const std::string& device = TestDevice());

  // Puts a head of EAGLE's form beside the model, for Draft; a Step then keeps what it reads.
  // REQUIRES: the model has one group, of full attention.
  Status PutBeside(const files::EagleFiles& eagle);

  // How far a sequence of `first` tokens may get in one step towards `end`.
  int StepEnd(int first, int end) const { return batch::StepEnd(model_->groups(), first, end); }
  // One forward pass over all chunks. `every_row`: logits of every token, otherwise of the last one
  // of each chunk; row-major [rows, vocab_size].
  Result<std::vector<float>> Step(const std::vector<Chunk>& chunks, bool every_row);
  // One pass of the model's head `head` over as many tokens as there are rows of hidden states:
  // those of all tokens of the last Step, or of the last Draft where there is another head behind
  // it, else of its rows. REQUIRES: options.mtp_heads, or a head beside it.
  Result<std::vector<float>> Draft(const std::vector<Chunk>& chunks, bool every_row, int head = 0);
  // Of a head of DFlash's form: keeps what its blocks see of the tokens of the last Step, which
  // were these. Draft then computes a block, of which every token is given.
  Status KeepBesideBlocks(const std::vector<Chunk>& chunks);
  // Forgets every sequence and spoils its KV.
  void Reset();

  const model::Model& model() const { return *model_; }
  model::Model& model() { return *model_; }
  device::Device& device() { return *device_; }
  device::Stream& stream() { return *stream_; }
  const files::ModelFiles& files() const { return files_; }
  // For the next Steps: may be null; padding tokens after the last sequence.
  model::LayerObserver* observer = nullptr;
  int padding = 0;

 private:
  ModelRunner() = default;
  // Experts to be placed on the host beside a device with memory of its own, if ExpertsOnHost() and
  // there are some.
  Result<std::optional<weights::WeightPlan>> PlanHost(const device::OpenOptions& open,
                                                      model::ModelOptions* options);
  Status AllocateKv(int sequences);
  // Of a layer of the model's group `group` whose KV is as `desc` says.
  Result<ops::PagedKv> AllocateLayer(const batch::KvGroup& desc, int group);
  // What Draft gives for a row.
  int Guesses() const { return eagle_ ? eagle_->config().draft_vocab_size : model_->vocab_size(); }
  Status Copy(const device::View& destination, const device::View& source);
  // Fills with NaN.
  Status Spoil(const device::View& view);
  // Of one layer group.
  int BlocksPerSequence(int group) const;
  int BlockId(int group, int sequence, int index) const;
  // Slots and block table of one layer group, where sequences have `lengths` tokens.
  model::GroupInputs Inputs(const std::vector<Chunk>& chunks, const std::vector<int>& lengths,
                            int group);
  model::DeviceBatch Batch(const std::vector<Chunk>& chunks, const std::vector<int>& lengths,
                           bool every_row);
  // What a pass gave, copied once it is done; the sequences are longer by it.
  Result<std::vector<float>> Finish(const std::vector<Chunk>& chunks, const device::View& logits,
                                    std::vector<int>* lengths);
  Result<device::Buffer> LogitsOf(int64_t rows, int64_t width);
  model::ForwardContext Context();
  // A new buffer for hidden states.
  Result<ops::Tensor> Hidden(DType dtype, int64_t rows, int64_t width);
  ops::Tensor Ints(const std::vector<int32_t>& values, std::initializer_list<int64_t> dims);

  files::ModelFiles files_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Device> host_;  // that has the experts; may be null
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<model::Model> model_;
  std::vector<device::Buffer> pools_;
  std::vector<ops::PagedKv> kv_;             // by layer
  std::unique_ptr<model::EagleHead> eagle_;  // may be null
  std::vector<ops::PagedKv> eagle_kv_;
  model::EagleHead::Of hidden_of_ = model::EagleHead::Of::kModel;  // hidden_, with an eagle_
  device::Buffer workspace_;
  std::vector<int> lengths_;               // of each sequence, in tokens
  std::vector<std::vector<int>> drafted_;  // by head: of what it has seen of each
  std::deque<device::Buffer> hidden_memory_;
  ops::Tensor hidden_;                  // of the last pass
  std::vector<device::Buffer> inputs_;  // of the current step
};

// In place, per row, in double.
void LogSoftmax(std::vector<float>* logits, int vocab_size);

}  // namespace sluice::golden
