// Executor: what guesses tokens on the device behind its steps, and what it reads of them.
#include "exec/make_proposer.h"

#include <algorithm>
#include <bit>

#include "device/staging.h"
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
HeadProposer::Sizes ProposerSizes(const files::ModelConfig& config,
                                  const model::ModelOptions& options, int max_num_seqs, int drawn,
                                  int depths) {
  return {.tokens = options.max_tokens,
          .sequences = max_num_seqs,
          .dtype = options.activation,
          .drawn = drawn,
          .heads = std::max(1, options.mtp_heads),
          .tree = depths > 0 ? kGuessTree : TreeShape(),
          .tree_depths = depths,
          .read_width = config.hidden_size,
          .read = ops::ResidualDType(options.activation)};
}

// Of one of EAGLE's form, which is applied again to what its layers gave, or of the parallel form
// to a block of so many tokens.
HeadProposer::Sizes ProposerSizes(const files::EagleConfig& eagle,
                                  const model::ModelOptions& options, int max_num_seqs, int drawn,
                                  int block, int depths) {
  const TreeShape tree = block > 0 ? kBlockTree : kGuessTree;
  return {.tokens = options.max_tokens,
          .sequences = max_num_seqs,
          .dtype = ops::ResidualDType(options.activation),
          .target_ids = eagle.target_ids.size(),
          .drawn = drawn,
          .block = block,
          .tree = depths > 0 ? tree : TreeShape(),
          .tree_depths = depths,
          .read_width = eagle.read_width(),
          .read = ops::ResidualDType(options.activation)};
}

// See DraftChain::Shared.
int DrawnOf(const Executor::Options& options) {
  return options.rejects && !options.guess_trees ? options.draft_tokens : 0;
}

// See DraftChain::Shared::tree_depths.
int DepthsOf(const Executor::Options& options) {
  return options.guess_trees ? options.draft_tokens : 0;
}

// Of what guesses beside a model of `options`, without its workspace.
size_t DraftBytes(const DraftOf& draft, const model::ModelOptions& options, int max_num_seqs) {
  if (draft.config() == nullptr) return 0;
  const size_t rope = model::RopeTableBytes(*draft.config(), draft.options);
  if (draft.eagle == nullptr)
    return rope + DraftModelProposer::DeviceBytes(*draft.model, draft.options, max_num_seqs,
                                                  draft.drawn, draft.depths());
  return rope + HiddenBytes(draft.eagle->read_width(), options) +
         model::EagleHead::DeviceBytes(*draft.eagle, draft.options) +
         DraftKv::DeviceBytes(/*groups=*/1, max_num_seqs) +
         HeadProposer::DeviceBytes(draft.eagle->layer, draft.options,
                                   ProposerSizes(*draft.eagle, draft.options, max_num_seqs,
                                                 draft.drawn, draft.block(), draft.depths()));
}

// Of DeviceProposer::nodes.
size_t NodesBytes(const ops::Tensor& nodes) {
  return RowBytes(nodes.dtype, static_cast<size_t>(nodes.size()));
}

// Rows of logits that one pass of what guesses leaves.
int64_t RowsOf(const Executor::Options& options) {
  return int64_t{options.max_num_seqs} * (options.guess_trees ? kGuessTree.beams : 1);
}

}  // namespace

size_t ProposerBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                     int max_num_seqs, const DraftOf& draft) {
  const size_t beside = DraftBytes(draft, options, max_num_seqs);
  if (options.mtp_heads == 0) return beside;
  return beside + HiddenBytes(config.hidden_size, options) +
         HeadProposer::DeviceBytes(
             config, options,
             ProposerSizes(config, options, max_num_seqs, draft.drawn, draft.depths()));
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
          .vocab = model_.vocab_size(),
          .tree = wanted.guess_trees ? kGuessTree : TreeShape(),
          .tree_depths = DepthsOf(wanted),
          .sampler = sampler_.get()};
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
                                    ProposerSizes(model_.config(), options, wanted.max_num_seqs,
                                                  DrawnOf(wanted), DepthsOf(wanted)),
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
      ops::Dense(logits_.view(), DType::kF32, {RowsOf(wanted), config.draft_vocab_size});
  shared.chain.target_ids = config.target_ids;
  shared.chain.block = block;
  if (block > 0 && wanted.guess_trees) shared.chain.tree = kBlockTree;
  if (diffusion) shared.chain.first_number = 0;
  shared.chain.mask_token = config.mask_token;
  shared.hidden = hidden_;
  SLUICE_ASSIGN_OR_RETURN(
      proposer_, HeadProposer::Make(device_, config.layer.hidden_size,
                                    ProposerSizes(config, head.options(), wanted.max_num_seqs,
                                                  DrawnOf(wanted), block, DepthsOf(wanted)),
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
    shared.chain.logits =
        ops::Dense(logits_.view(), DType::kF32, {RowsOf(wanted), static_cast<int64_t>(ids.size())});
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

int64_t Executor::GuessedTrees(const batch::BatchPlan& plan) const {
  if (!info_.guess_trees || plan.guesses <= 0 || proposer_ == nullptr || proposer_->failed())
    return 0;
  return std::count_if(plan.entries.begin(), plan.entries.end(),
                       [](const batch::PlanEntry& entry) { return entry.guesses > 0; });
}

Result<device::Buffer> Executor::NodesStaging(int max_num_seqs) const {
  if (!info_.guess_trees || proposer_ == nullptr || !device_.facts().device_memory)
    return device::Buffer();
  return device::AllocateStaging(device_, NodesBytes(proposer_->nodes(max_num_seqs)));
}

Status Executor::FetchNodes(Flight* flight) {
  const int64_t drafts = GuessedTrees(flight->batch.plan);
  if (drafts == 0 || !device_.facts().device_memory) return OkStatus();
  const ops::Tensor nodes = proposer_->nodes(drafts);
  const size_t bytes = NodesBytes(nodes);
  CHECK(bytes <= flight->nodes.bytes(), "more sequences guess than there are");
  device::CopyItem item{flight->nodes.view(), {nodes.data, bytes, nodes.memory, nodes.device}};
  item.destination.bytes = bytes;
  return device_.Copy(*stream_, {&item, 1});
}

// Those that guess stand there in their order, as InputBuilder tells the device.
void Executor::CollectNodes(const Flight& flight, batch::StepResult* result) const {
  const batch::BatchPlan& plan = flight.batch.plan;
  const int64_t drafts = GuessedTrees(plan);
  if (drafts == 0) return;
  const ops::Tensor nodes = proposer_->nodes(drafts);
  const std::byte* const data = device_.facts().device_memory ? flight.nodes.data() : nodes.data;
  const auto* row = reinterpret_cast<const int32_t*>(data);
  const int64_t count = proposer_->tree().Nodes(plan.guesses);
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    if (plan.entries[e].guesses == 0) continue;
    result->entries[e].guess_begin = static_cast<int32_t>(result->guesses.size());
    result->entries[e].guess_count = static_cast<int32_t>(count);
    for (int64_t n = 0; n < count; ++n) {
      const int32_t* const node = row + n * ops::GrowTrees::kNodeNumbers;
      result->guesses.push_back({node[0], node[1], std::bit_cast<float>(node[2])});
    }
    row += nodes.strides[0];
  }
}

}  // namespace sluice::exec
