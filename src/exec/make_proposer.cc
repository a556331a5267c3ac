// Executor: what guesses tokens on the device behind its steps, and what it reads of them.
#include "exec/make_proposer.h"

#include <algorithm>

#include "exec/draft_kv.h"
#include "exec/draft_model_proposer.h"
#include "exec/head_proposer.h"
#include "exec/memory_plan.h"

namespace sluice::exec {
namespace {

// Of what a head reads: hidden states of a model of these options, `width` numbers a token.
size_t HiddenBytes(int64_t width, const model::ModelOptions& options) {
  return RowBytes(ops::ResidualDType(options.activation),
                  static_cast<size_t>(options.max_tokens * width));
}

// Of the heads of a model of these options.
HeadProposer::Sizes ProposerSizes(const model::ModelOptions& options, int max_num_seqs, int drawn) {
  return {.tokens = options.max_tokens,
          .sequences = max_num_seqs,
          .dtype = options.activation,
          .drawn = drawn,
          .heads = std::max(1, options.mtp_heads)};
}

// Of one of EAGLE's form, which is applied again to what its layers gave, or of the parallel form
// to a block of so many tokens.
HeadProposer::Sizes ProposerSizes(const files::EagleConfig& eagle,
                                  const model::ModelOptions& options, int max_num_seqs, int drawn,
                                  int block) {
  return {.tokens = options.max_tokens,
          .sequences = max_num_seqs,
          .dtype = ops::ResidualDType(options.activation),
          .target_ids = eagle.target_ids.size(),
          .drawn = drawn,
          .block = block};
}

// See DraftChain::Shared.
int DrawnOf(const Executor::Options& options) { return options.rejects ? options.draft_tokens : 0; }

// Of what guesses beside a model of `options`, without its workspace.
size_t DraftBytes(const DraftOf& draft, const model::ModelOptions& options, int max_num_seqs) {
  if (draft.config() == nullptr) return 0;
  const size_t rope = model::RopeTableBytes(*draft.config(), draft.options);
  if (draft.eagle == nullptr)
    return rope +
           DraftModelProposer::DeviceBytes(*draft.model, draft.options, max_num_seqs, draft.drawn);
  return rope + HiddenBytes(draft.eagle->read_width(), options) +
         model::EagleHead::DeviceBytes(*draft.eagle, draft.options) +
         DraftKv::DeviceBytes(/*groups=*/1, max_num_seqs) +
         HeadProposer::DeviceBytes(
             draft.eagle->layer, draft.options,
             ProposerSizes(*draft.eagle, draft.options, max_num_seqs, draft.drawn, draft.block()));
}

}  // namespace

size_t ProposerBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                     int max_num_seqs, const DraftOf& draft) {
  const size_t beside = DraftBytes(draft, options, max_num_seqs);
  if (options.mtp_heads == 0) return beside;
  return beside + HiddenBytes(config.hidden_size, options) +
         HeadProposer::DeviceBytes(config, options,
                                   ProposerSizes(options, max_num_seqs, draft.drawn));
}

Status Executor::MakeProposer(const Options& wanted) {
  if (wanted.draft_tokens == 0) return OkStatus();
  if (wanted.draft_model != nullptr) return MakeDraftModel(wanted);
  if (wanted.eagle_head != nullptr) return MakeEagle(wanted);
  return model_.options().mtp_heads > 0 ? MakeHead(wanted) : OkStatus();
}

DraftChain::Shared Executor::ChainOver(int group, const Options& wanted) const {
  return {.lengths = sampler_->lengths(),
          .known = sampler_->tokens(),
          .table = tables_[group],
          .placing = place_[static_cast<size_t>(group)].desc(),
          .logits = Logits(model_.options().max_logits_rows),
          .drawn = DrawnOf(wanted),
          .vocab = model_.vocab_size()};
}

// For `width` numbers of each token of a step.
Status Executor::MakeHidden(int64_t width) {
  const model::ModelOptions& options = model_.options();
  SLUICE_ASSIGN_OR_RETURN(
      hidden_memory_, device_.Allocate(HiddenBytes(width, options), device::MemoryKind::kDevice));
  hidden_ = ops::Dense(hidden_memory_.view(), ops::ResidualDType(options.activation),
                       {options.max_tokens, width});
  return OkStatus();
}

Status Executor::MakeHead(const Options& wanted) {
  const model::ModelOptions& options = model_.options();
  SLUICE_RETURN_IF_ERROR(MakeHidden(model_.config().hidden_size));
  HeadProposer::Shared shared;
  shared.pass = [this](auto& context, auto& batch, auto& hidden, auto& outputs, int number) {
    return model_.Draft(context, batch, hidden, outputs,
                        std::min(number, model_.options().mtp_heads) - 1);
  };
  shared.context = Context(*stream_);
  shared.group = model_.group_of(model_.config().num_layers);
  shared.heads = options.mtp_heads;
  shared.chain = ChainOver(shared.group, wanted);
  shared.hidden = hidden_;
  SLUICE_ASSIGN_OR_RETURN(
      proposer_, HeadProposer::Make(device_, model_.config().hidden_size,
                                    ProposerSizes(options, wanted.max_num_seqs, DrawnOf(wanted)),
                                    std::move(shared), wanted.bindings));
  return OkStatus();
}

Status Executor::MakeEagle(const Options& wanted) {
  const model::EagleHead& head = *wanted.eagle_head;
  const files::EagleConfig& config = head.config();
  SLUICE_RETURN_IF_ERROR(MakeHidden(config.read_width()));
  hidden_layers_ = config.hidden_layers;
  HeadProposer::Shared shared;
  const int block = BlockTokens(config.form, wanted.draft_tokens);
  using Of = model::EagleHead::Of;
  const bool diffusion = config.form == files::EagleForm::kDiffusion;
  const Of behind = diffusion                                    ? Of::kBlock
                    : config.form == files::EagleForm::kParallel ? Of::kMask
                                                                 : Of::kItself;
  shared.pass = [&head, behind](auto& context, auto& batch, auto& hidden, auto& outputs,
                                int number) {
    return head.Draft(context, batch, hidden, number == 1 ? Of::kModel : behind, outputs);
  };
  shared.group = FollowedGroup(store_.groups());
  CHECK(shared.group >= 0, "the model has no group of full attention");
  SLUICE_ASSIGN_OR_RETURN(
      shared.kv, DraftKv::Make(device_, *wanted.draft_store, shared.group, wanted.max_num_seqs));
  shared.context = shared.kv->Context(*stream_, workspace_.view());
  shared.chain = ChainOver(shared.group, wanted);
  shared.chain.logits =
      ops::Dense(logits_.view(), DType::kF32, {wanted.max_num_seqs, config.draft_vocab_size});
  shared.chain.target_ids = config.target_ids;
  shared.chain.block = block;
  if (diffusion) shared.chain.first_number = 0;
  shared.chain.mask_token = config.mask_token;
  shared.hidden = hidden_;
  SLUICE_ASSIGN_OR_RETURN(
      proposer_, HeadProposer::Make(device_, config.layer.hidden_size,
                                    ProposerSizes(config, head.options(), wanted.max_num_seqs,
                                                  DrawnOf(wanted), block),
                                    std::move(shared), wanted.bindings));
  return OkStatus();
}

Status Executor::MakeDraftModel(const Options& wanted) {
  const int group = FollowedGroup(store_.groups());
  CHECK(group >= 0, "the model has no group of full attention");
  DraftModelProposer::Shared shared;
  shared.workspace = workspace_.view();
  shared.chain = ChainOver(group, wanted);
  const std::vector<int32_t>& ids = wanted.draft_model->config().target_ids;
  if (!ids.empty()) {
    shared.chain.logits = ops::Dense(logits_.view(), DType::kF32,
                                     {wanted.max_num_seqs, static_cast<int64_t>(ids.size())});
    shared.chain.target_ids = ids;
  }
  SLUICE_ASSIGN_OR_RETURN(shared.kv,
                          DraftKv::Make(device_, *wanted.draft_store, group, wanted.max_num_seqs));
  shared.tokens = model_.options().max_tokens;
  shared.sequences = wanted.max_num_seqs;
  SLUICE_ASSIGN_OR_RETURN(proposer_, DraftModelProposer::Make(device_, *wanted.draft_model,
                                                              std::move(shared), wanted.bindings));
  return OkStatus();
}

}  // namespace sluice::exec
