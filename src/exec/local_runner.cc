#include "exec/local_runner.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/log.h"
#include "base/parse_bytes.h"
#include "base/visible.h"
#include "exec/activation_dtype.h"
#include "exec/experts_on.h"
#include "exec/kv_dtype.h"
#include "exec/open_device.h"
#include "exec/open_runner.h"
#include "model/load/load_model.h"
#include "weights/place.h"

namespace sluice::exec {
namespace {

// Bytes of logits beyond one row per sequence that a step may hold (prompt log-probs, drafts); on a
// device with memory of its own a share of that, if it is more, up to a bound: with few rows some
// sequences of a large batch have no drafts.
constexpr int64_t kExtraLogits = 32 << 20, kExtraLogitsMax = 512 << 20;
constexpr int64_t kExtraLogitsShare = 256;
// Tokens of a sequence that memory is made for by bringing experts to the host, unless the model or
// the user wants fewer.
constexpr int kRoomForTokens = 8192;

// A table of positions ends somewhere; other models are only warned of.
Status CheckPositions(const files::ModelConfig& config, const EngineOptions& options) {
  const int positions = config.position_rows - config.first_position;
  if (config.position_rows == 0 || options.max_model_len <= positions) return OkStatus();
  return InvalidArgument(StrCat("--max-model-len ", options.max_model_len, " is above the ",
                                positions, " positions that the model has a table of"),
                         "max-model-len");
}

int64_t ExtraRows(const device::Device& device, int vocab_size) {
  int64_t bytes = kExtraLogits;
  const Result<device::MemoryInfo> memory = device.Memory();
  if (device.facts().device_memory && memory.ok()) {
    const auto total = static_cast<int64_t>(memory->total_bytes);
    bytes = std::clamp(total / kExtraLogitsShare, kExtraLogits, kExtraLogitsMax);
  }
  const int64_t row = std::max(1, vocab_size) * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(bytes / row, 16, 512);
}

// A model that embeds draws no tokens, and may compute each text in one step.
Status FitEmbedder(const files::ModelConfig& config, EngineOptions* options) {
  if (!config.pooling) return OkStatus();
  if (options->speculate != "auto" && options->speculate != "none") {
    return InvalidArgument(StrCat("--speculate ", options->speculate,
                                  " is for models that generate; the model embeds texts"),
                           "speculate");
  }
  options->speculate = "none";
  if (!config.whole_prompts()) return OkStatus();
  if (options->max_model_len > options->max_batch_tokens) {
    return InvalidArgument(
        StrCat("--max-model-len ", options->max_model_len, " is above --max-batch-tokens ",
               options->max_batch_tokens, ": the model computes a text in one step"),
        "max-model-len");
  }
  if (options->max_model_len == 0 && config.context_length > options->max_batch_tokens) {
    options->max_model_len = options->max_batch_tokens;
    LogWarning("texts have at most ", options->max_batch_tokens, " tokens of the ",
               config.context_length, " that the model takes: it computes a text in one step; ",
               "raise --max-batch-tokens");
  }
  return OkStatus();
}

// A checkpoint's own heads make the drafts.
bool DraftsByHead(const EngineOptions& options) { return options.speculate == "mtp"; }

// Each guesses one token at least.
int HeadsUsed(const files::ModelConfig& config, const EngineOptions& options) {
  return std::min(config.mtp_heads, options.speculate_tokens);
}

// What `files` is loaded with, whatever else is known later.
Result<model::ModelOptions> ModelOptionsFor(const files::ModelFiles& files,
                                            const device::Device& device,
                                            const EngineOptions& options) {
  model::ModelOptions wanted;
  wanted.max_tokens = options.max_batch_tokens;
  wanted.max_logits_rows = options.max_num_seqs + ExtraRows(device, files.config.vocab_size);
  wanted.block_tokens = options.block_size;
  wanted.kernel_block_tokens = options.kernel_block_size;
  wanted.state_block_tokens = options.state_block;
  wanted.activation = ActivationOf(*files.tensors, device.facts());
  SLUICE_ASSIGN_OR_RETURN(
      wanted.kv_dtype,
      ParseKvDtype(options.kv_dtype, AutomaticKvDtype(*files.tensors, device.facts())));
  wanted.max_model_len = options.max_model_len;
  return wanted;
}

// A head of EAGLE's form, for sequences of the model of `target`.
Result<DraftPlan> PlanEagle(const files::EagleFiles& files, const files::ModelFiles& target,
                            const device::Device& device, const EngineOptions& options) {
  DraftPlan plan;
  plan.of.eagle = &files.config;
  SLUICE_ASSIGN_OR_RETURN(const model::ModelOptions of_model,
                          ModelOptionsFor(target, device, options));
  plan.of.options = model::EagleHead::OptionsFor(of_model, files.config.form);
  auto weights = model::EagleHead::PlanWeights(files, device, plan.of.options.activation);
  if (!weights.ok()) return weights.status().WithContext("the draft model");
  plan.weights = *std::move(weights);
  return plan;
}

// For sequences of the model of `target`, of as many tokens as that one takes.
Result<DraftPlan> PlanDraft(const DraftFiles& draft, const files::ModelFiles& target,
                            const device::Device& device, const EngineOptions& options) {
  DraftPlan plan;
  if (draft.eagle != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(plan, PlanEagle(*draft.eagle, target, device, options));
  } else if (draft.model != nullptr) {
    plan.of.model = &draft.model->config;
    SLUICE_ASSIGN_OR_RETURN(plan.of.options, ModelOptionsFor(*draft.model, device, options));
    auto weights = model::PlanWeights(*draft.model, device, plan.of.options.activation);
    if (!weights.ok()) return weights.status().WithContext("the draft model");
    plan.weights = *std::move(weights);
  }
  plan.of.options.max_logits_rows = options.max_num_seqs;
  plan.of.tokens = DraftTokens(options);
  if (plan.of.block() > 0) {
    // One pass computes all of them.
    const int64_t tokens = int64_t{options.max_num_seqs} * plan.of.block();
    plan.of.options.max_logits_rows = std::max(plan.of.options.max_logits_rows, tokens);
    plan.of.options.max_tokens = std::max(plan.of.options.max_tokens, tokens);
  }
  if (options.speculate_verify == "rejection") plan.of.drawn = DraftTokens(options);
  if (options.max_model_len == 0) plan.of.options.max_model_len = target.config.context_length;
  return plan;
}

Status WithDraftNamed(const Status& status, bool drafts) {
  if (!drafts || status.code() != StatusCode::kOutOfMemory) return status;
  return Status(status.code(), StrCat(status.message(), "; or leave --draft-model out"),
                status.field());
}

// Whether the checkpoint has the head that its config tells of: copies of a model often lack it.
bool HasHead(const files::ModelFiles& files, const device::Device& device, DType activation) {
  return files.config.mtp_heads > 0 &&
         model::PlanWeights(files, device, activation, files.config.mtp_heads).ok();
}

// What --speculate auto stands for: the checkpoint's head, or else what the host finds where steps
// are computed by the host, too. Elsewhere drafts of the host make a step wait for the one before,
// and states take memory for each draft, which nobody has asked for.
std::string AutomaticDrafts(const files::ModelFiles& files, const device::Device& device,
                            DType activation) {
  if (HasHead(files, device, activation)) return "mtp";
  const std::vector<files::LayerConfig>& layers = files.config.layers;
  const bool states = std::any_of(layers.begin(), layers.end(),
                                  [](const auto& layer) { return files::HasState(layer.kind); });
  return device.facts().runs_beside_host || states ? "none" : "suffix";
}

// What the runner guesses is a tree where it is asked for.
bool GuessesTrees(const EngineOptions& options) {
  return options.speculate_tree && options.speculate != "suffix" && options.speculate != "ngram" &&
         options.speculate != "none";
}

// The same of what finds two ways on the host.
bool FindsTrees(const EngineOptions& options) {
  return options.speculate_tree && options.speculate == "suffix";
}

constexpr std::string_view kNoTrees = "drafts are chains, no trees: ",
                           kAttentionTakesNone = "not all attention of the model takes trees";

// Why drafts are chains where trees are asked for; empty: they are trees.
std::string WhyNoTrees(const files::ModelFiles& files, const device::Device& device,
                       const model::ModelOptions& options, const DraftOf& draft, int sequences) {
  if (!model::TakesDraftTrees(files.config, device, options))
    return std::string(kAttentionTakesNone);
  if (draft.config() != nullptr && draft.block() == 0 &&
      !model::TakesDraftTrees(*draft.config(), device, draft.options)) {
    return "not all attention of what makes the drafts takes trees";
  }
  int64_t guesses = files.config.vocab_size;
  if (draft.eagle != nullptr) guesses = draft.eagle->draft_vocab_size;
  if (draft.model != nullptr && !draft.model->target_ids.empty())
    guesses = static_cast<int64_t>(draft.model->target_ids.size());
  if (guesses < kGuessTree.children)
    return StrCat("there are only ", guesses, " tokens that can be guessed");
  if (options.mtp_heads > 1) return "each of several heads guesses the token of its own place";
  const int64_t rows = int64_t{sequences} * kGuessTree.beams;
  if (options.max_logits_rows < rows)
    return StrCat("a pass has ", rows, " rows of logits for ", sequences, " sequences, and there ",
                  "is room for ", options.max_logits_rows);
  return "";
}

// Where trees are asked for of drafts that the host finds.
void TellFoundChains(const EngineOptions& options, bool trees) {
  if (options.speculate_tree && options.speculate == "ngram")
    LogInfo(kNoTrees, "ngram finds one way only");
  if (FindsTrees(options) && !trees) LogInfo(kNoTrees, kAttentionTakesNone);
}

Status CheckHead(const files::ModelFiles& files, const EngineOptions& options) {
  if (!DraftsByHead(options) || files.config.mtp_heads > 0) return OkStatus();
  return InvalidArgument(
      StrCat("--speculate mtp needs a checkpoint with heads that predict tokens, and ",
             Quote(files.path), " (", files::ArchitectureName(files.config.architecture),
             ") has none; leave --speculate out or choose ngram"),
      "speculate");
}

Status CheckStateBlock(int tokens) {
  if (tokens > 0 && std::has_single_bit(static_cast<unsigned>(tokens))) return OkStatus();
  return InvalidArgument(StrCat("--state-block ", tokens, " is not a power of two"), "state-block");
}

// An op without an implementation is wrong usage where --force-op narrowed the choice.
Status WithForcedOps(const Status& status, const EngineOptions& options) {
  if (options.force_op.empty() || status.code() != StatusCode::kUnimplemented) return status;
  return InvalidArgument(
      StrCat("--force-op ", Quote(options.force_op), " cannot be followed: ", status.message()),
      "force-op");
}

}  // namespace

Result<EngineOptions> LocalRunner::OpenAndDecide(const files::ModelFiles& files,
                                                 const DraftFiles& draft,
                                                 const EngineOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(options));
  info_.device_reason = std::move(opened.reason);
  device_ = std::move(opened.device);
  EngineOptions decided = options;
  SLUICE_RETURN_IF_ERROR(CheckPositions(files.config, decided));
  SLUICE_RETURN_IF_ERROR(FitEmbedder(files.config, &decided));
  if (!draft.empty()) {
    decided.speculate = draft.proposer();
  } else if (decided.speculate == "auto") {
    decided.speculate =
        AutomaticDrafts(files, *device_, ActivationOf(*files.tensors, device_->facts()));
  }
  return decided;
}

Result<std::unique_ptr<LocalRunner>> LocalRunner::Open(
    const files::ModelFiles& files, const DraftFiles& draft, const EngineOptions& options,
    std::function<void(int64_t, int64_t)> progress) {
  std::unique_ptr<LocalRunner> runner(new LocalRunner());
  SLUICE_ASSIGN_OR_RETURN(EngineOptions decided, runner->OpenAndDecide(files, draft, options));
  SLUICE_RETURN_IF_ERROR(runner->MakeDump(files, decided));
  SLUICE_RETURN_IF_ERROR(runner->UntilItFits(files, options, &decided, [&] {
    return runner->LoadModel(files, draft, decided, progress);
  }));
  if (options.fake_balance_experts)
    LogWarning("--fake-balance-experts: tokens take experts in turn; answers mean nothing");
  runner->speculate_ = decided.speculate;
  SLUICE_RETURN_IF_ERROR(runner->MakeExecutor(decided));
  runner->FillInfo();
  return runner;
}

Result<MemoryPlan> LocalRunner::Plan(const files::ModelFiles& files, const DraftFiles& draft,
                                     const EngineOptions& options) {
  LocalRunner runner;
  SLUICE_ASSIGN_OR_RETURN(EngineOptions decided, runner.OpenAndDecide(files, draft, options));
  SLUICE_RETURN_IF_ERROR(runner.UntilItFits(
      files, options, &decided, [&] { return runner.PlanModel(files, draft, decided).status(); }));
  return std::move(runner.memory_);
}

Status LocalRunner::UntilItFits(const files::ModelFiles& files, const EngineOptions& asked,
                                EngineOptions* decided, const std::function<Status()>& attempt) {
  Status done = attempt();
  if (done.code() == StatusCode::kOutOfMemory && DraftsByHead(*decided) &&
      asked.speculate == "auto") {
    LogInfo("the checkpoint's head makes no drafts: ", done.message());
    decided->speculate = "none";
    done = attempt();
  }
  const bool may_move = asked.experts_on == "auto" && asked.expert_ranks == 1 &&
                        device_->facts().pinned_memory && !ExpertLayers(files.config).empty();
  if (done.code() == StatusCode::kOutOfMemory && may_move) {
    fits_experts_ = true;
    done = attempt();
  }
  // A shorter length is the last resort, and of use where the memory plan was refused, which names
  // the option that it refuses.
  const bool of_plan = done.code() == StatusCode::kOutOfMemory && !done.field().empty();
  if (!of_plan || asked.max_model_len > 0) return done;
  finds_length_ = true;
  const Status shorter = attempt();
  return shorter.ok() ? shorter : done;
}

Result<LocalRunner::Planned> LocalRunner::PrepareModel(const files::ModelFiles& files,
                                                       const DraftFiles& draft,
                                                       const EngineOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckStateBlock(options.state_block));
  Planned planned;
  SLUICE_ASSIGN_OR_RETURN(planned.options, ModelOptionsFor(files, *device_, options));
  SLUICE_RETURN_IF_ERROR(CheckHead(files, options));
  planned.options.draft_trees =
      FindsTrees(options) && model::TakesDraftTrees(files.config, *device_, planned.options);
  TellFoundChains(options, planned.options.draft_trees);
  planned.options.mtp_heads = DraftsByHead(options) ? HeadsUsed(files.config, options) : 0;
  if (options.fake_balance_experts) {
    if (files.config.experts.count == 0) {
      return InvalidArgument("--fake-balance-experts: the model has no experts; start without it",
                             "fake-balance-experts");
    }
    planned.options.fake_balance_experts = true;
  }
  SLUICE_ASSIGN_OR_RETURN(planned.ranks, ExpertRanksOf(files.config, options));
  planned.options.expert_slots = planned.ranks.slots();
  SLUICE_ASSIGN_OR_RETURN(planned.options.host_layers, LayersOnHost(files.config, options));
  if (!device_->facts().device_memory && !planned.options.host_layers.empty()) {
    LogInfo("--experts-on ", options.experts_on,
            " changes nothing: ", device::ToString(device_->facts().id),
            " computes in the host's memory");
    planned.options.host_layers.clear();
  }
  if (options.max_batch_tokens < options.max_num_seqs) {
    return InvalidArgument(
        StrCat("--max-batch-tokens ", options.max_batch_tokens, " is below --max-num-seqs ",
               options.max_num_seqs, ": every running sequence takes one token of a step"),
        "max-batch-tokens");
  }
  SLUICE_ASSIGN_OR_RETURN(planned.draft, PlanDraft(draft, files, *device_, options));
  if (GuessesTrees(options)) {
    DraftOf& guesses = planned.draft.of;
    const std::string why =
        WhyNoTrees(files, *device_, planned.options, guesses, options.max_num_seqs);
    if (!why.empty()) LogInfo(kNoTrees, why);
    planned.options.draft_trees = guesses.trees = why.empty();
    if (guesses.trees) guesses.drawn = 0;  // which node is taken must not depend on a lot
    guesses.options.draft_trees = guesses.trees && guesses.block() == 0;
    const int64_t rows = int64_t{options.max_num_seqs} * kGuessTree.beams;
    if (guesses.trees && guesses.block() == 0) {
      guesses.options.max_logits_rows = std::max(guesses.options.max_logits_rows, rows);
      guesses.options.max_tokens = std::max(guesses.options.max_tokens, rows);
    }
  }
  return planned;
}

Status LocalRunner::OpenHost(const EngineOptions& options) {
  if (host_ != nullptr) return OkStatus();
  EngineOptions of_host = options;
  of_host.device = "cpu";
  of_host.force_op.clear();  // names what the model's device has
  auto opened = OpenDevice(of_host);
  if (!opened.ok()) return opened.status().WithContext("experts on the host");
  host_ = std::move(opened->device);
  return OkStatus();
}

Status LocalRunner::PlanMemoryOf(const files::ModelFiles& files, const EngineOptions& options,
                                 Planned* planned) {
  model::ModelOptions& wanted = planned->options;
  wanted.max_model_len = options.max_model_len;
  wanted.draft_tokens = 0;
  SLUICE_ASSIGN_OR_RETURN(planned->weights,
                          model::PlanWeights(files, *device_, wanted.activation, wanted.mtp_heads,
                                             wanted.expert_slots, wanted.host_layers));
  size_t host_bytes = 0, free_bytes_max = SIZE_MAX;
  planned->host_weights.reset();
  if (!wanted.host_layers.empty()) {
    SLUICE_RETURN_IF_ERROR(OpenHost(options));
    wanted.host = host_.get();
    SLUICE_ASSIGN_OR_RETURN(planned->host_weights,
                            model::PlanHostExperts(files, *host_, wanted.host_layers));
    host_bytes = planned->host_weights->bytes;
    // A device that shares the host's memory has no more for KV and steps than they leave.
    if (device_->facts().shares_host_memory) {
      SLUICE_ASSIGN_OR_RETURN(free_bytes_max, RoomOnHost(files.config, *planned));
    }
  }
  SLUICE_ASSIGN_OR_RETURN(memory_,
                          PlanTarget(*device_, {files, planned->weights, wanted, free_bytes_max},
                                     planned->draft, options, finds_length_));
  memory_.host_weight_bytes = host_bytes;
  wanted.max_model_len = memory_.max_model_len;
  wanted.draft_tokens = batch::DraftsWithin(memory_.groups, DraftTokens(options));
  return OkStatus();
}

Result<size_t> LocalRunner::RoomOnHost(const files::ModelConfig& config,
                                       const Planned& planned) const {
  SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, host_->Memory());
  HostNeed need;
  need.weights = planned.host_weights->bytes;
  need.buffers = model::HostExpertBuffers(config, planned.options);
  if (device_->facts().shares_host_memory) need.device = planned.weights.bytes;
  need.max_tokens = planned.options.max_tokens;
  return LeftOnHost(need, memory.free_bytes);
}

Status LocalRunner::FitExperts(const files::ModelFiles& files, const EngineOptions& options,
                               Planned* planned) {
  const std::vector<int> all = ExpertLayers(files.config);
  Status last;
  const auto plan_with = [&](size_t layers) {
    planned->options.host_layers.assign(all.begin(), all.begin() + static_cast<long>(layers));
    last = PlanMemoryOf(files, options, planned);
    return last.ok();
  };
  if (!plan_with(all.size())) {
    return last.code() == StatusCode::kOutOfMemory
               ? last.WithContext("with the experts of all layers on the host")
               : last;
  }
  const int tokens = std::min(kRoomForTokens, memory_.max_model_len);
  const size_t layers = FewestThatFit(all.size(), [&](size_t count) {
    return plan_with(count) && memory_.max_model_len >= tokens;
  });
  if (!plan_with(layers)) return last;
  const std::string note =
      StrCat("the model does not fit the ", FormatBytes(memory_.free_bytes), " of ",
             device::ToString(device_->facts().id), ", so the experts of its first ", layers,
             " of ", all.size(), " layers with experts (", FormatBytes(memory_.host_weight_bytes),
             ") lie in the host's memory and are computed by the CPU (threads: ",
             host_->facts().compute_units, "), which is slower; see --experts-on");
  memory_.note = memory_.note.empty() ? note : StrCat(note, "; ", memory_.note);
  return OkStatus();
}

Result<LocalRunner::Planned> LocalRunner::PlanModel(const files::ModelFiles& files,
                                                    const DraftFiles& draft,
                                                    const EngineOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(Planned planned, PrepareModel(files, draft, options));
  Status done =
      fits_experts_ ? FitExperts(files, options, &planned) : PlanMemoryOf(files, options, &planned);
  if (done.ok() && planned.host_weights) done = RoomOnHost(files.config, planned).status();
  if (!done.ok()) return WithForcedOps(WithDraftNamed(done, !draft.empty()), options);
  return planned;
}

Status LocalRunner::LoadModel(const files::ModelFiles& files, const DraftFiles& draft,
                              const EngineOptions& options,
                              std::function<void(int64_t, int64_t)> progress) {
  // What an attempt that did not fit has left.
  mover_.reset();
  eagle_head_.reset();
  draft_model_.reset();
  model_.reset();
  bindings_.clear();
  SLUICE_ASSIGN_OR_RETURN(Planned planned, PlanModel(files, draft, options));
  planned.options.records = &bindings_;
  if (progress) {
    planned.options.progress = [&progress](size_t done, size_t total) {
      progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
    };
  }
  auto model = model::LoadModel(files.config, std::move(planned.weights), *device_, planned.options,
                                std::move(planned.host_weights));
  if (!model.ok()) return WithForcedOps(model.status(), options);
  model_ = *std::move(model);
  if (planned.ranks.slots() > 0) {
    SLUICE_ASSIGN_OR_RETURN(mover_, ExpertMover::Make(*device_, *model_, planned.ranks));
  }
  return draft.empty() ? OkStatus() : LoadDraft(std::move(planned.draft), options);
}

Status LocalRunner::LoadDraft(DraftPlan plan, const EngineOptions& options) {
  const files::ModelConfig& config = *plan.of.config();
  if (memory_.max_model_len > config.context_length) {
    LogWarning("the draft model declares ", config.context_length, " tokens, and behind these it ",
               "guesses worse: --max-model-len is ", memory_.max_model_len);
  }
  model::ModelOptions& wanted = plan.of.options;
  wanted.max_model_len = memory_.max_model_len;
  wanted.records = &bindings_;
  Status loaded;
  if (plan.of.eagle != nullptr) {
    auto head =
        model::EagleHead::Load(*plan.of.eagle, *std::move(plan.weights), *device_, wanted, *model_);
    loaded = head.status();
    if (head.ok()) eagle_head_ = *std::move(head);
  } else {
    auto model = model::LoadModel(config, *std::move(plan.weights), *device_, wanted);
    loaded = model.status();
    if (model.ok()) draft_model_ = *std::move(model);
  }
  return loaded.ok() ? loaded : WithForcedOps(loaded.WithContext("the draft model"), options);
}

Status LocalRunner::MakeExecutor(const EngineOptions& options) {
  auto store = kvstore::KvStore::Make(*device_, memory_.groups);
  if (!store.ok() && store.status().code() == StatusCode::kOutOfMemory) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("a KV cache of ", FormatBytes(memory_.bytes), ": ",
                         store.status().message(), "; lower --kv-memory"),
                  "kv-memory");
  }
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  SLUICE_ASSIGN_OR_RETURN(Executor::Options wanted, ExecutorOptions(options));
  wanted.guess_trees = GuessesTrees(options) && model_->options().draft_trees;
  if (!memory_.draft_groups.empty()) {
    SLUICE_ASSIGN_OR_RETURN(draft_store_, kvstore::KvStore::Make(*device_, memory_.draft_groups));
    wanted.draft_model = draft_model_.get();
    wanted.eagle_head = eagle_head_.get();
    wanted.draft_store = draft_store_.get();
  }
  wanted.draft_tokens = model_->options().draft_tokens;
  wanted.dump = dump_.get();
  wanted.mover = mover_.get();
  if (dump_ != nullptr) wanted.depth = 1;
  wanted.bindings = &bindings_;
  SLUICE_ASSIGN_OR_RETURN(executor_, Executor::Make(*device_, *model_, *store_, wanted));
  // Where steps overlap with the host is also where programs are built or loaded at first use.
  return executor_->Info().depth > 1 ? executor_->WarmUp() : OkStatus();
}

Status LocalRunner::MakeDump(const files::ModelFiles& files, const EngineOptions& options) {
  if (options.dump_activations.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(DumpWanted wanted, ParseDump(options.dump_activations));
  SLUICE_RETURN_IF_ERROR(CheckDump(wanted, files.config, options));
  SLUICE_ASSIGN_OR_RETURN(dump_, ActivationDump::Make(*device_, std::move(wanted)));
  return OkStatus();
}

void LocalRunner::FillInfo() {
  const std::string reason = std::move(info_.device_reason);
  info_ = executor_->Info();
  const device::DeviceFacts& facts = device_->facts();
  info_.device_reason = reason;
  info_.speculate = speculate_;
  info_.device_name = facts.name;
  info_.device_id = device::ToString(facts.id);
  info_.isa = facts.architecture;
  info_.threads = facts.compute_units;
  info_.weight_bytes = model_->parameters().bytes();
  if (draft_model_ != nullptr) info_.weight_bytes += draft_model_->parameters().bytes();
  if (eagle_head_ != nullptr) info_.weight_bytes += eagle_head_->parameters().bytes();
  info_.kv_bytes = memory_.bytes;
  info_.memory = memory_.ToString();
  info_.memory_note = memory_.note;
  info_.slow_fallbacks = ops::SlowFallbacks(bindings_);
  for (const ops::BindRecord& binding : bindings_) {
    info_.choices.push_back({binding.op, binding.shape, binding.chosen, binding.declined});
  }
}

Result<std::unique_ptr<StepRunner>> OpenRunner(const files::ModelFiles& files,
                                               const DraftFiles& draft,
                                               const EngineOptions& options,
                                               std::function<void(int64_t, int64_t)> progress) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<LocalRunner> runner,
                          LocalRunner::Open(files, draft, options, std::move(progress)));
  return std::unique_ptr<StepRunner>(std::move(runner));
}

Result<MemoryNeed> PlanRunner(const files::ModelFiles& files, const DraftFiles& draft,
                              const EngineOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const MemoryPlan plan, LocalRunner::Plan(files, draft, options));
  return MemoryNeed{plan.weight_bytes, plan.bytes, plan.step_bytes};
}

Result<size_t> WeightBytesOn(device::Device& device, const files::ModelFiles& files) {
  const DType activation = ActivationOf(*files.tensors, device.facts());
  SLUICE_ASSIGN_OR_RETURN(
      const weights::WeightPlan plan,
      model::PlanWeights(files, device, activation,
                         HasHead(files, device, activation) ? files.config.mtp_heads : 0));
  return plan.bytes;
}

std::vector<std::string> Backends() {
  std::vector<std::string> names;
  for (const device::Backend* backend : device::LinkedBackends()) {
    names.emplace_back(device::ToString(backend->kind()));
  }
  return names;
}

}  // namespace sluice::exec
