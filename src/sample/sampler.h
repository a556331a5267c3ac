// Sampler: the logits of a step's rows to its StepResult. Keeps the state of every running sequence
// by slot. A step passes through Begin, Build, TakeMasks if rows of it wait for masks, Run and
// Collect, in a Step of the caller's: several may be between Build and Collect, so that one is put
// on the stream while the one before still runs. Where the device has memory of its own, what the
// op reads goes there in the caller's copy of a step's inputs (WriteFixed) or in one of its own,
// and what it gives comes back as one; nothing here waits for the device. Step thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "batch/mask_set.h"
#include "batch/plan.h"
#include "batch/result.h"
#include "ops/embedding.h"
#include "ops/sampling.h"
#include "sample/device_counts.h"
#include "sample/proposals.h"
#include "sample/slot_state.h"

namespace sluice::sample {

class Sampler {
 public:
  struct Options {
    int64_t vocab = 0;
    int slots = 0;     // sequences that run at once
    int rows_max = 0;  // logits rows of one step
    int top_logprobs_max = 20;
    // That counts of tokens may take, a row of `vocab` words for each slot. Slots beyond have none.
    size_t counts_bytes_max = size_t{64} << 20;
    // Rows may be of trees. Each is told what its own path counts, so the host counts for all
    // slots.
    bool trees = false;
    double drafts_taken = 0.0;                        // KeepDrawn::Args::taken
    bool rejects = false;                             // drafts are verified by rejection
    std::vector<ops::BindRecord>* records = nullptr;  // what is bound is added
  };
  // The rows of a step between Build and Collect, and their results.
  class Step {
   public:
    // Rows of it wait for masks: TakeMasks comes before Run.
    bool waits() const { return !waiting_.empty(); }
    int64_t edit_count() const { return static_cast<int64_t>(edits_.size()); }

   private:
    friend class Sampler;
    bool IsLate(int64_t row) const {
      return !late_.empty() && std::binary_search(late_.begin(), late_.end(), row);
    }

    std::vector<ops::SampleRow> rows_;
    std::vector<ops::LogitEdit> edits_;
    std::vector<int32_t> waiting_;  // rows that have masks, in the order of these
    // Of the caller of TakeMasks until the step has run, or own_masks_ where some rows are late.
    std::span<const uint32_t> masks_;
    std::vector<uint32_t> own_masks_;
    std::vector<int32_t> late_;  // of `waiting_`: those that draw nothing
    DeviceCounts::Sets sets_;
    bool counted_ = false;   // some row has counts on the device
    bool resolves_ = false;  // some row is left open for ResolveRows
    int64_t distribution_rows_ = 0;
    bool filters_ = false;         // some of them are told behind the filters
    bool logprobs_ = false;        // some row asked for them
    int64_t ran_rows_ = 0;         // `rows_` and padding
    device::View given_;           // where the device finds rows and edits; empty: not there yet
    int64_t given_rows_ = 0;       // that the layout there has room for
    device::Buffer inputs_;        // staging of those that the caller does not bring there
    device::Buffer mask_inputs_;   // staging; unused where the device reads host memory
    device::View device_outputs_;  // what `outputs_` is fetched from
    device::Buffer outputs_;       // staging, or what the op itself writes
  };

  static Result<std::unique_ptr<Sampler>> Make(device::Device& device, const Options& options);
  // Memory that Make takes on a device with memory of its own. Steps whose rows and edits the
  // caller does not bring there, more than kMaskRows masks, whole distributions or long starts of
  // penalised sequences make it grow.
  static size_t DeviceBytes(const Options& options);
  // How Make binds sampling; the record goes to options.records.
  static Result<ops::Bound<ops::Sample>> BindSample(device::Device& device, const Options& options);

  // A sequence with penalties in a slot below this may have several steps in flight. In another
  // slot its steps must have been collected before the next one is built.
  int counted_slots() const { return options_.trees ? 0 : counts_.rows(); }
  // Why no row may ask for Distribution::kFiltered; ok: they may.
  const Status& filtering() const { return filtering_; }

  // Buffers for a step; to be used again and again.
  Result<Step> MakeStep() const;
  // Takes the starts of the plan; to be called once per plan, before Build.
  void Begin(const batch::BatchPlan& plan);
  // What each row asks of the op.
  void Build(const batch::BatchPlan& plan, Step* step);
  // The masks of a step that waits for them; what they hold is left alone until the step is on the
  // stream. Late rows are no longer counted as being drawn. kInvalidArgument: they are not those of
  // the step.
  Status TakeMasks(const batch::BatchPlan& plan, const batch::MaskSet& masks, Step* step);
  // Puts the sampling of a built step on the stream. `logits`: F32 [plan rows, vocab], readable by
  // the device of `stream`.
  Status Run(device::Stream& stream, const ops::Tensor& logits, Step* step);
  // The result of a step. *result is overwritten, its buffers are reused. A verify entry's rows are
  // drawn in turn: row i counts only while every row before it drew the draft token that follows,
  // so the tokens are those of one-by-one decoding; a late row ends it. REQUIRES: steps are
  // collected in the order in which they were built from their plans, and the device is done with
  // this one.
  void Collect(const batch::BatchPlan& plan, const Step& step, batch::StepResult* result);
  // Forgets a built step that failed. The next step of its slots sets their counts anew, so all
  // steps of theirs before that one must have been collected or dropped when it is built. REQUIRES:
  // the device is done with it.
  void Drop(const batch::BatchPlan& plan, const Step& step);

  // What is known of every slot behind the steps that ran: I32 [slots], how many tokens stand
  // before the one that was drawn last; and I32 [slots, batch::kKnownTokens], that one and guesses
  // of what follows it.
  const ops::Tensor& lengths() const { return lengths_; }
  const ops::Tensor& tokens() const { return tokens_; }
  // U8 [rows, sizeof(SampleOutput)] of the step whose sampling was put on the stream last; empty
  // where it had no rows.
  const ops::Tensor& outputs() const { return last_outputs_; }
  // Of whoever writes the guesses among tokens(), where drafts are verified by rejection: what it
  // draws them from, to be called once; and, for each step, by what rows it draws the guesses of
  // the sequences that guess, in the order of the plan, with padding behind them (U8 [drafts,
  // sizeof(SampleRow)], host memory). Such a row asks for a guess of the token behind the one that
  // is drawn last. To be called when the step is built, before another is.
  void VerifyAgainst(const Proposals& proposals) { proposals_ = proposals; }
  void WriteGuessRows(const batch::BatchPlan& plan, const ops::Tensor& rows);
  // What guesses were drawn from is unknown from here on, until others are made.
  void ForgetGuesses() { last_guesses_ = 0; }
  // Fills in, on the stream, those of the ids (I32 [tokens]) that are below 0: id -1 - i is number
  // i of tokens().
  Status ResolveTokens(device::Stream& stream, const ops::Tensor& ids) const;

  // Rows and edits in a buffer of the caller, beside the rest that a step is given: room for so
  // many rows, behind them for so many edits.
  static size_t FixedBytes(int64_t rows, int64_t edits);
  // Writes the rows of a built step that has room there, and padding rows behind them.
  static void WriteFixed(const Step& step, int64_t rows, int64_t edits, std::byte* inputs);
  // They will lie at `inputs` on the device when it gets to Run, which then copies none.
  static void ReadFixed(const device::View& inputs, int64_t rows, Step* step);

  // For graphs, whose steps read such a buffer of a fixed size, and masks, where rows have some,
  // from one of the sampler. Why a built step does not fit that.
  enum class Misfit : uint8_t { kNone, kEdits, kMasks, kDistributions };
  Misfit FitsFixed(const Step& step, int64_t edits) const;
  // The op over such a buffer on the device; what a graph captures.
  Status RunFixed(device::Stream& stream, int64_t rows, int64_t edits, const device::View& inputs,
                  const ops::Tensor& logits) const;
  // Puts what a step has beside its rows, masks and counts of slots that start, where RunFixed
  // reads it.
  Status UploadBesideFixed(device::Stream& stream, Step* step);
  // Fetches the results of a step that ran over `rows` rows.
  Status FetchFixed(device::Stream& stream, int64_t rows, Step* step);

 private:
  // Where the parts of the op's outputs lie.
  struct OutputLayout {
    size_t top_ids = 0, top_logprobs = 0, distributions = 0, bytes = 0;
  };

  Sampler(device::Device& device, const Options& options)
      : device_(device), options_(options), slots_(options.slots), guessed_(options.slots, -1) {}
  OutputLayout LayoutOf(int64_t rows, int64_t distribution_rows) const;
  // Masks of one step that have room from the start: of 64 rows with 152k tokens, 1.2 MB.
  static constexpr int64_t kMaskRows = 64;

  static int64_t MaskRows(const Options& options) {
    return std::min<int64_t>(options.rows_max, kMaskRows);
  }
  static int CountRows(const Options& options) {
    return DeviceCounts::Rows(options.vocab, options.slots, options.counts_bytes_max);
  }
  int64_t mask_words() const { return static_cast<int64_t>(batch::MaskWords(options_.vocab)); }
  static size_t MaskBytes(const Options& options, int64_t rows);
  // SampleRow::guess_row of a draft.
  int32_t GuessRow(int slot, batch::TokenRef draft) const;
  void TellPath(const batch::BatchPlan& plan, const batch::PlanEntry& entry,
                std::span<const int32_t> parents, int draft, int* told);
  void BuildEntryRows(const batch::BatchPlan& plan, const batch::PlanEntry& entry, Step* step);
  // A tensor of the step's masks on the device.
  Result<ops::Tensor> UploadMasks(device::Stream& stream, Step* step);
  // `resolves`: some of the rows are open.
  Status SampleAndKeep(device::Stream& stream, const ops::Bound<ops::Sample>& sample, bool resolves,
                       const ops::Sample::Args& args) const;
  Status Fetch(device::Stream& stream, Step* step);
  Status UploadRows(device::Stream& stream, Step* step);
  // What the op reads on a device with memory of its own.
  Status SetInputs(device::Stream& stream, Step* step, ops::Sample::Args* args);
  void SetOutputs(const device::View& outputs, int64_t rows, int64_t distribution_rows,
                  ops::Sample::Args* args) const;
  Status Reserve(device::Stream* stream, size_t bytes, device::Buffer* buffer) const;
  void CollectEntry(const batch::BatchPlan& plan, const batch::PlanEntry& entry, const Step& step,
                    batch::StepResult* result);
  batch::ResultToken Token(const Step& step, int64_t row, batch::StepResult* result) const;

  device::Device& device_;
  const Options options_;
  bool apart_ = false;  // the device has memory of its own
  ops::Bound<ops::Sample> sample_;
  ops::Bound<ops::Sample> filtered_;  // for steps with filtered rows, where filtering_ is ok
  Status filtering_;
  DeviceCounts counts_;
  std::vector<SlotState> slots_;
  Proposals proposals_;
  // What proposals_.logits has: guesses of a sequence, and by slot which it is, or -1.
  int32_t last_guesses_ = 0;
  std::vector<int32_t> guessed_;
  ops::Bound<ops::ResolveTokens> resolve_;
  ops::Bound<ops::ResolveRows> resolve_rows_;
  ops::Bound<ops::KeepDrawn> keep_;
  device::Buffer known_;          // of the next two
  ops::Tensor lengths_, tokens_;  // see their accessors
  // On the device; a step's work is done with them before the next step's begins.
  device::Buffer device_inputs_, large_outputs_, large_masks_;
  device::Buffer device_masks_;    // of MaskRows rows; graphs read it
  device::Buffer device_outputs_;  // stays where it is: graphs write to it
  mutable ops::Tensor last_outputs_;
};

}  // namespace sluice::sample
