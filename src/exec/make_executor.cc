// Executor: what is made before the first step: buffers, steps to be in flight, buckets and graphs,
// and how much memory that takes.
#include <algorithm>
#include <set>

#include "device/alignment.h"
#include "device/part.h"
#include "exec/carver.h"
#include "exec/executor.h"
#include "exec/layer_view.h"
#include "exec/make_proposer.h"
#include "exec/memory_plan.h"
#include "model/load/load_model.h"
#include "ops/attention.h"
#include "sluice/limits.h"

namespace sluice::exec {
namespace {

InputLimits LimitsOf(const files::ModelConfig& config, const model::ModelOptions& options,
                     int max_num_seqs, bool guesses, bool draws = false) {
  InputLimits limits;
  limits.tokens = options.max_tokens;
  limits.sequences = max_num_seqs;
  limits.logits_rows = options.max_logits_rows;
  limits.slots = max_num_seqs;
  limits.positions = model::Positions(config, options);
  limits.vocab = config.vocab_size;
  limits.token_types = config.token_types;
  limits.guesses = guesses || options.mtp_heads > 0 ? limits::kDraftTokensMax : 0;
  limits.trees = options.draft_trees;
  limits.draws = draws;
  return limits;
}

sample::Sampler::Options SamplingOf(const files::ModelConfig& config,
                                    const model::ModelOptions& options, int max_num_seqs) {
  sample::Sampler::Options sampling;
  sampling.vocab = config.vocab_size;
  sampling.slots = max_num_seqs;
  sampling.rows_max = static_cast<int>(options.max_logits_rows);
  sampling.top_logprobs_max = limits::kTopLogprobsMax;
  sampling.trees = options.draft_trees;
  if (sampling.trees) sampling.counts_bytes_max = 0;
  return sampling;
}

size_t LogitsBytes(const files::ModelConfig& config, const model::ModelOptions& options) {
  return static_cast<size_t>(options.max_logits_rows) * config.vocab_size * Info(DType::kF32).bytes;
}

// Edits of logits that a step's inputs have room for: in all, and more for each row. A step with
// more is sampled eagerly, and the sampler brings them to the device by itself.
constexpr int64_t kEditsOfStep = 1024, kEditsOfRow = 16;
int64_t EditsOf(int64_t rows) { return kEditsOfStep + rows * kEditsOfRow; }
size_t SamplingBytes(int64_t rows) { return sample::Sampler::FixedBytes(rows, EditsOf(rows)); }

std::vector<BucketShape> BucketsOf(const model::ModelOptions& limits,
                                   const Executor::Options& options) {
  const auto tokens_max =
      static_cast<int>(std::min<int64_t>(limits.max_tokens, limits.max_logits_rows));
  return BucketShapes(std::min(options.max_num_seqs, tokens_max), 1 + options.draft_tokens,
                      tokens_max);
}

std::vector<BucketShape> ChunksOf(const model::ModelOptions& limits,
                                  const Executor::Options& options) {
  const auto rows =
      static_cast<int>(std::min<int64_t>(options.max_num_seqs, limits.max_logits_rows));
  const auto tokens =
      static_cast<int>(std::min<int64_t>(options.graph_chunk_tokens, limits.max_tokens));
  return ChunkShapes(rows, tokens);
}

size_t PlanBytes(int max_num_seqs) {
  return device::AlignUp(static_cast<size_t>(ops::AttentionPlanNumbers(max_num_seqs)) *
                         sizeof(int32_t));
}

size_t TableBytes(int64_t slots, int64_t width) {
  return device::AlignUp(static_cast<size_t>(slots * width) * sizeof(int32_t));
}

ops::PlaceTokens::Desc PlacingOf(const batch::KvGroup& group, bool trees) {
  ops::PlaceTokens::Desc desc;
  desc.paths = trees;
  desc.block_tokens = group.kernel_block_tokens;
  desc.cache_block_tokens = group.block_tokens;
  if (group.kind == batch::KvKind::kWindow) desc.earlier = group.window - 1;
  if (group.kind == batch::KvKind::kState) desc.earlier = 1;
  desc.state = group.kind == batch::KvKind::kState;
  return desc;
}

ops::StepLimits StepLimitsOf(const InputLimits& limits) {
  return {.tokens = limits.tokens,
          .logits_rows = limits.logits_rows,
          .sequences = limits.sequences,
          .positions = limits.positions};
}

// Of a step, or of the block of a head behind it, which may have more tokens.
ops::StepLimits LargestPass(const InputLimits& limits, const model::EagleHead* head) {
  ops::StepLimits largest = StepLimitsOf(limits);
  if (head == nullptr) return largest;
  largest.tokens = std::max(largest.tokens, head->options().max_tokens);
  largest.logits_rows = std::max(largest.logits_rows, head->options().max_logits_rows);
  return largest;
}

// What steps read besides weights and KV, on a device with memory of its own.
struct InputMemoryBytes {
  size_t parameters = 0, placed = 0, tables = 0;
  size_t sum() const { return parameters + placed + tables; }
};
InputMemoryBytes InputMemory(std::span<const batch::KvGroup> groups, const InputLimits& limits) {
  const InputShape largest = LargestShape(limits, groups);
  InputMemoryBytes bytes;
  StepInputs given;
  model::DeviceBatch placed;
  bytes.parameters = CarveInputs({}, largest, &given) + SamplingBytes(limits.logits_rows);
  bytes.placed = CarvePlaced({}, largest, given, &placed);
  for (const int64_t width : largest.table_widths) bytes.tables += TableBytes(limits.slots, width);
  return bytes;
}

// Guesses are drawn, by their probabilities.
bool Draws(const Executor::Options& options) { return options.rejects && !options.guess_trees; }

// The block of a head of DFlash's form begins with the token that was drawn, so its last mask token
// stands where the last guess would.
int DraftSpare(const Executor::Options& options) {
  const model::EagleHead* const head = options.eagle_head;
  const bool blocks = head != nullptr && BlockTokens(head->config().form, options.draft_tokens) > 0;
  if (options.guess_trees && !blocks) return kGuessTree.Spare(options.draft_tokens);
  return head != nullptr && head->config().form == files::EagleForm::kDiffusion ? 1 : 0;
}

// For people: what runs between the graphs of a step and why, or nothing.
std::string PiecesNote(const Executor::Options& options, const device::DeviceFacts& facts) {
  std::string note;
  const auto add = [&](const auto&... parts) {
    note += StrCat(note.empty() ? ", in pieces between which there run " : " and ", parts...);
  };
  if (options.graphs == device::GraphSupport::kPiecewise) {
    add("all kinds of attention, by --graphs piecewise");
  } else if (facts.graphs == device::GraphSupport::kPiecewise) {
    add("all kinds of attention, which ", device::ToString(facts.id), " does not capture");
  }
  if (options.bindings == nullptr) return note;
  std::set<std::string_view> named;
  for (const ops::BindRecord& binding : *options.bindings) {
    if (binding.graphs == device::GraphSupport::kFull) continue;
    if (named.insert(binding.chosen).second) add(binding.chosen, ", which cannot be captured");
  }
  return note;
}

// Launches of a forward pass with sampling, by which graphs are estimated: at most. A guess of a
// head is its layers between an embedding and a token of its own.
constexpr int64_t kLaunchesOfLayer = 14, kLaunchesOfStep = 16, kLaunchesOfGuess = 12;

}  // namespace

Result<size_t> Executor::ScratchBytes(const weights::WeightPlan& weight_plan,
                                      const files::ModelConfig& config, device::Device& device,
                                      const model::ModelOptions& options, int max_num_seqs) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<ops::BindRecord> bindings,
                          model::ScratchBindings(weight_plan, config, device, options));
  sample::Sampler::Options sampling = SamplingOf(config, options, max_num_seqs);
  sampling.records = &bindings;
  SLUICE_RETURN_IF_ERROR(sample::Sampler::BindSample(device, sampling).status());
  return ops::ScratchBytes(
      bindings, StepLimitsOf(LimitsOf(config, options, max_num_seqs, /*guesses=*/false)));
}

size_t Executor::GraphBytes(const files::ModelConfig& config,
                            const model::ModelOptions& model_options,
                            const device::DeviceFacts& facts, const Options& options,
                            const DraftOf& draft) {
  if (std::min(options.graphs, facts.graphs) == device::GraphSupport::kNone) return 0;
  const int64_t model = config.num_layers * kLaunchesOfLayer + kLaunchesOfStep;
  // Sampling has a graph for each number of guesses, and of the head's KV alone.
  int64_t sampling = 0;
  const int heads = model_options.mtp_heads;
  const bool head = heads > 0 || draft.eagle != nullptr;
  const int64_t layers = draft.eagle != nullptr ? draft.eagle->layer.num_layers : 1;
  const auto passes = [&](int guesses) {
    const bool block = draft.block() > 0;
    return std::max({1, heads, block ? std::min(guesses, 2) : guesses});
  };
  for (int guesses = 0; head && guesses <= options.draft_tokens; ++guesses)
    sampling += kLaunchesOfStep + passes(guesses) * layers * kLaunchesOfLayer +
                std::max({1, heads, guesses}) * kLaunchesOfGuess;
  for (int guesses = 0; draft.model != nullptr && guesses <= options.draft_tokens; ++guesses)
    sampling += kLaunchesOfStep +
                (1 + guesses) * (draft.model->num_layers * kLaunchesOfLayer + kLaunchesOfStep);
  const auto buckets = static_cast<int64_t>(BucketsOf(model_options, options).size());
  const auto chunks = static_cast<int64_t>(ChunksOf(model_options, options).size());
  const int64_t launches = (buckets + chunks) * model + buckets * sampling;
  return static_cast<size_t>(launches) * facts.graph_launch_bytes;
}

size_t Executor::DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                             int max_num_seqs, const DraftOf& draft) {
  const std::vector<batch::KvGroup> groups = model::LayerGroups(config, options);
  size_t workspace = model::WorkspaceBytes(config, options);
  if (draft.config() != nullptr)
    workspace = std::max(workspace, model::WorkspaceBytes(*draft.config(), draft.options));
  return ProposerBytes(config, options, max_num_seqs, draft) + workspace +
         ExpertCounter::DeviceBytes(config, options.expert_slots) +
         (options.expert_slots > 0 ? ExpertMover::DeviceBytes(config, options.expert_slots) : 0) +
         model::HostExpertBytes(options) + LogitsBytes(config, options) +
         sample::Sampler::DeviceBytes(SamplingOf(config, options, max_num_seqs)) +
         InputMemory(groups, LimitsOf(config, options, max_num_seqs, draft.config() != nullptr,
                                      draft.drawn > 0))
             .sum() +
         groups.size() * PlanBytes(max_num_seqs);
}

Result<std::unique_ptr<Executor>> Executor::Make(device::Device& device, const model::Model& model,
                                                 kvstore::KvStore& store, const Options& wanted) {
  const int max_num_seqs = wanted.max_num_seqs;
  std::unique_ptr<Executor> executor(new Executor(device, model, store));
  const model::ModelOptions& options = model.options();
  const bool beside = wanted.draft_model != nullptr || wanted.eagle_head != nullptr;
  InputLimits limits = LimitsOf(model.config(), options, max_num_seqs, beside, Draws(wanted));
  if (limits.guesses > 0 || wanted.propose != nullptr) limits.guesses = wanted.draft_tokens;
  executor->guesses_ = limits.guesses;
  if (device.facts().device_memory) limits.behind = SamplingBytes(limits.logits_rows);
  executor->builder_ = std::make_unique<InputBuilder>(device, store.groups(), limits);
  sample::Sampler::Options sampling = SamplingOf(model.config(), options, max_num_seqs);
  sampling.records = wanted.bindings;
  sampling.drafts_taken = wanted.drafts_taken;
  sampling.rejects = wanted.rejects;
  SLUICE_ASSIGN_OR_RETURN(executor->sampler_, sample::Sampler::Make(device, sampling));
  executor->propose_ = wanted.propose;
  SLUICE_ASSIGN_OR_RETURN(executor->stream_, device.CreateStream());
  constexpr auto memory = device::MemoryKind::kDevice;
  size_t drafting = 0;
  if (wanted.draft_model != nullptr) drafting = wanted.draft_model->workspace_bytes();
  if (wanted.eagle_head != nullptr) drafting = wanted.eagle_head->workspace_bytes();
  SLUICE_ASSIGN_OR_RETURN(executor->workspace_,
                          device.Allocate(std::max(model.workspace_bytes(), drafting), memory));
  SLUICE_ASSIGN_OR_RETURN(executor->logits_,
                          device.Allocate(LogitsBytes(model.config(), options), memory));
  const size_t plan_bytes = PlanBytes(max_num_seqs), groups = model.groups().size();
  SLUICE_ASSIGN_OR_RETURN(executor->plan_memory_, device.Allocate(groups * plan_bytes, memory));
  Carver plans(executor->plan_memory_.view());
  for (size_t g = 0; g < groups; ++g)
    executor->attention_plans_.push_back(plans.Take({ops::AttentionPlanNumbers(max_num_seqs)}));
  SLUICE_RETURN_IF_ERROR(executor->MakeTables(limits, wanted.bindings));
  for (int layer = 0; layer < store.layer_count(); ++layer) {
    executor->kv_.push_back(LayerView(store, layer));
  }
  SLUICE_RETURN_IF_ERROR(executor->MakeVectors(max_num_seqs));
  SLUICE_ASSIGN_OR_RETURN(executor->expert_counter_,
                          ExpertCounter::Make(device, model.config(), options.expert_slots));
  executor->mover_ = wanted.mover;
  SLUICE_RETURN_IF_ERROR(executor->MakeProposer(wanted));
  if (wanted.dump != nullptr) SLUICE_RETURN_IF_ERROR(executor->MakeDump(wanted));
  if (executor->proposer_) executor->sampler_->VerifyAgainst(executor->proposer_->proposals());
  if (wanted.time_steps) {
    auto timer = StepTimer::Make(device);
    if (!timer.ok() && timer.status().code() != StatusCode::kUnimplemented) return timer.status();
    if (timer.ok()) executor->timer_ = std::move(timer).value();
  }
  if (wanted.bindings != nullptr) {
    SLUICE_RETURN_IF_ERROR(executor->stream_->ReserveScratch(
        ops::ScratchBytes(*wanted.bindings, LargestPass(limits, wanted.eagle_head))));
  }
  executor->info_ = {.kv_groups = store.groups(),
                     .max_model_len = static_cast<int>(limits.positions),
                     .max_logits_rows = static_cast<int>(limits.logits_rows),
                     .vocab_size = model.vocab_size(),
                     .no_filtered = executor->sampler_->filtering().message(),
                     .draft_trees = limits.trees,
                     .guess_trees = wanted.guess_trees && limits.guesses > 0,
                     .counted_slots = executor->sampler_->counted_slots(),
                     .draft_spare = DraftSpare(wanted),
                     .expert_groups = model.config().experts.groups};
  SLUICE_RETURN_IF_ERROR(executor->MakeFlights(wanted.depth, max_num_seqs));
  SLUICE_RETURN_IF_ERROR(executor->MakeGraphs(wanted));
  return executor;
}

// Memory of the CPU is not taken before it is touched, so all devices may ask for the same.
Status Executor::MakeTables(const InputLimits& limits, std::vector<ops::BindRecord>* records) {
  constexpr auto memory = device::MemoryKind::kDevice;
  const std::vector<batch::KvGroup>& groups = store_.groups();
  const InputMemoryBytes bytes = InputMemory(groups, limits);
  SLUICE_ASSIGN_OR_RETURN(placed_, device_.Allocate(bytes.placed, memory));
  SLUICE_ASSIGN_OR_RETURN(table_memory_, device_.Allocate(bytes.tables, memory));
  SLUICE_ASSIGN_OR_RETURN(parameters_, device_.Allocate(bytes.parameters, memory));
  Carver carver(table_memory_.view());
  for (const batch::KvGroup& group : groups) {
    tables_.push_back(carver.Take({limits.slots, batch::TableWidth(group, limits.positions)}));
    SLUICE_ASSIGN_OR_RETURN(
        place_.emplace_back(),
        ops::Bind<ops::PlaceTokens>(device_.ops(), PlacingOf(group, limits.trees), records));
  }
  return OkStatus();
}

Status Executor::MakeVectors(int max_num_seqs) {
  const int64_t size = model_.config().vector_size();
  if (size == 0) return OkStatus();
  // Nothing copies them from a device, nor keeps them apart for steps that are in flight together.
  if (device_.facts().runs_beside_host) {
    return Status(StatusCode::kUnimplemented,
                  StrCat("models that embed texts run on the CPU, not on ",
                         device::ToString(device_.facts().id), "; use --device cpu"));
  }
  const size_t bytes = static_cast<size_t>(max_num_seqs * size) * sizeof(float);
  SLUICE_ASSIGN_OR_RETURN(vector_memory_, device_.Allocate(bytes, device::MemoryKind::kDevice));
  vectors_ = ops::Dense(vector_memory_.view(), DType::kF32, {max_num_seqs, size});
  return OkStatus();
}

Status Executor::MakeDump(const Options& wanted) {
  CHECK(hidden_.empty() && wanted.depth == 1, "a head or the next step writes there");
  dump_ = wanted.dump;
  hidden_layers_ = dump_->layers();
  return MakeHidden(model_.config().hidden_size * static_cast<int64_t>(hidden_layers_.size()));
}

size_t Executor::Carve(const device::View& given, const InputShape& shape, Inputs* inputs) const {
  const size_t bytes = CarveInputs(given, shape, &inputs->given);
  CarvePlaced(placed_.view(), shape, inputs->given, &inputs->model);
  return bytes;
}

size_t Executor::CarveStaged(const InputShape& shape, Inputs* inputs) const {
  const size_t bytes = Carve(parameters_.view(), shape, inputs);
  inputs->edits = EditsOf(shape.rows);
  inputs->sampling = device::Part(parameters_.view(), bytes, SamplingBytes(shape.rows));
  return bytes;
}

Status Executor::MakeFlights(int depth, int max_num_seqs) {
  const int useful = device_.facts().runs_beside_host ? kDepthBesideHost : 1;
  info_.depth = depth > 0 ? depth : useful;
  unfinished_.reserve(info_.depth);
  for (int i = 0; i < info_.depth; ++i) {
    Flight& flight = *flights_.emplace_back(std::make_unique<Flight>(*this));
    SLUICE_ASSIGN_OR_RETURN(flight.modelled, device_.CreateEvent());
    SLUICE_ASSIGN_OR_RETURN(flight.done, device_.CreateEvent());
    SLUICE_ASSIGN_OR_RETURN(flight.rows, sampler_->MakeStep());
    SLUICE_ASSIGN_OR_RETURN(flight.nodes, NodesStaging(max_num_seqs));
    if (timer_) {
      SLUICE_ASSIGN_OR_RETURN(flight.marks, timer_->MakeMarks());
    }
    idle_.push_back(&flight);
  }
  return OkStatus();
}

// The KV memory is bound by now, so graphs may be captured from here on.
Status Executor::MakeGraphs(const Options& options) {
  const device::DeviceFacts& facts = device_.facts();
  const device::GraphSupport level = std::min(options.graphs, facts.graphs);
  if (options.graphs == device::GraphSupport::kNone) {
    info_.graphs_note = "no graphs: --graphs none switches them off";
  } else if (stream_->checks_each_op()) {
    info_.graphs_note = "no graphs: --check-each-op waits after every op";
  } else if (level == device::GraphSupport::kNone) {
    info_.graphs_note = StrCat("no graphs: ", device::ToString(facts.id), " cannot be captured");
  } else {
    return MakeBuckets(options, level);
  }
  return OkStatus();
}

Status Executor::MakeBuckets(const Options& options, device::GraphSupport level) {
  std::vector<BucketShape> shapes = BucketsOf(model_.options(), options);
  const auto sampled = static_cast<int64_t>(shapes.size());
  for (const BucketShape& shape : ChunksOf(model_.options(), options)) shapes.push_back(shape);
  std::vector<size_t> bytes;
  for (const BucketShape& shape : shapes) {
    Inputs& bucket = bucket_inputs_.emplace_back();
    const InputShape sizes = builder_->ShapeOf(shape);
    bucket.bytes = CarveStaged(sizes, &bucket) + sample::Sampler::FixedBytes(sizes.rows, 0);
    bytes.push_back(bucket.bytes);
  }
  graphs_ = std::make_unique<GraphRunner>(
      device_, level, shapes, bytes, parameters_.view(),
      [this](device::Stream& stream, int bucket) { return RunModelOf(stream, bucket); });
  std::vector<BucketShape> samplings;
  for (int guesses = -1; guesses <= (proposer_ == nullptr ? -1 : guesses_); ++guesses)
    samplings.insert(samplings.end(), shapes.begin(), shapes.begin() + sampled);
  sampling_buckets_ = static_cast<int>(sampled);
  sampling_graphs_ =
      std::make_unique<GraphRunner>(device_, level, std::move(samplings), std::span<const size_t>(),
                                    device::View(), [this](device::Stream& stream, int index) {
                                      return RunSamplingOf(stream, index % sampling_buckets_,
                                                           index / sampling_buckets_ - 1, nullptr);
                                    });
  info_.graphs_note = BucketsNote(shapes[sampled - 1].sequences, 1 + options.draft_tokens,
                                  shapes.back().chunk ? shapes.back().tokens : 0) +
                      PiecesNote(options, device_.facts());
  builder_->UseBuckets(std::move(shapes), 1 + options.draft_tokens);
  return OkStatus();
}

}  // namespace sluice::exec
