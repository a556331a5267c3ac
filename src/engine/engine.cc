// The Engine behind the public header: opens everything, checks requests, and joins the text
// workers with the step loop.
#include "sluice/engine.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <span>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/visible.h"
#include "engine/beam_request.h"
#include "engine/drafter.h"
#include "engine/expert_orders.h"
#include "engine/expert_report.h"
#include "engine/grammar_workers.h"
#include "engine/health.h"
#include "engine/hold_to_calls.h"
#include "engine/metrics.h"
#include "engine/profiler.h"
#include "engine/request_check.h"
#include "engine/request_state.h"
#include "engine/step.h"
#include "engine/text_model.h"
#include "engine/text_workers.h"
#include "engine/timeline_notes.h"
#include "exec/draft_files.h"
#include "exec/open_runner.h"
#include "files/file_type.h"
#include "files/model_files.h"
#include "sluice/limits.h"
#include "speculate/proposer.h"

namespace sluice::engine {
namespace {

uint64_t SeedFromEntropy() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) ^ device();
}

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::function<void(int64_t, int64_t)> progress);
  ~EngineImpl() override {
    FlagAll();
    // Null when Open failed on the way.
    if (grammars_ != nullptr) grammars_->Stop();
    if (loop_ != nullptr) loop_->Stop();
    if (workers_ != nullptr) workers_->Stop();
  }

  Result<std::vector<int32_t>> Tokenize(const std::string& text, bool add_special,
                                        bool parse_special,
                                        const std::atomic<bool>* cancelled) const override {
    return text_->Tokenize(text, add_special, parse_special, cancelled);
  }
  Result<std::string> Detokenize(const std::vector<int32_t>& ids, bool skip_special,
                                 const std::atomic<bool>* cancelled) const override {
    SLUICE_RETURN_IF_ERROR(text_->CheckTextOf(ids, skip_special));
    return text_->Detokenize(ids, skip_special, cancelled);
  }
  Result<std::string> RenderChat(const ChatPrompt& chat, const std::string& now,
                                 const std::atomic<bool>* cancelled) const override {
    return text_->RenderPrompt(chat, now, cancelled);
  }
  TokenizerInfo DescribeTokenizer() const override { return text_->DescribeTokenizer(); }

  Result<RequestId> Submit(Request request, Sink sink) override;
  void Cancel(RequestId id) override;
  void EndThinking(RequestId id) override;
  EngineInfo Info() const override;
  EngineHealth Health() const override;
  std::string Metrics() const override { return metrics_->Text(); }
  Status Drain(double seconds_max) override;
  Result<std::string> Admin(const std::string& command_json) override;

 private:
  Status OpenScheduler();
  // Null where nothing proposes drafts.
  Result<std::unique_ptr<Drafter>> MakeDrafter() const;
  // That the runner makes for each sequence, at most.
  int device_drafts() const {
    return speculate::MadeByRunner(options_.speculate) ? options_.speculate_tokens : 0;
  }
  // Of what an answer is held to, at most; 0: none are looked for.
  int ForcedDrafts() const;
  void StartThreads(const files::ModelConfig& config);
  void FillInfo(const files::ModelFiles& files);
  void Ended(RequestId id);
  // Marks what runs and waits as cancelled: its tokenizing ends soon. Gives its ids.
  std::vector<RequestId> FlagAll();
  Status CheckAdmission(int64_t row_bytes) const;

  EngineOptions options_;
  EngineInfo info_;  // what does not change
  files::GenerationDefaults defaults_;
  std::vector<int32_t> end_ids_;
  uint64_t seed_ = 0;
  std::unique_ptr<TextModelImpl> text_;
  text::OutputFormat output_;
  std::unique_ptr<Constraints> constraints_;
  std::unique_ptr<exec::StepRunner> runner_;
  std::unique_ptr<engine::Metrics> metrics_;
  std::unique_ptr<StepLoop> loop_;
  Profiler profiler_;
  std::unique_ptr<TextWorkers> workers_;
  std::unique_ptr<GrammarWorkers> grammars_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::map<RequestId, std::shared_ptr<RequestState>> requests_;  // guarded by mutex_
  RequestId next_id_ = 1;                                        // guarded by mutex_
  int64_t handed_ = 0;     // requests given to the scheduler or ended before; guarded by mutex_
  int64_t submitted_ = 0;  // guarded by mutex_
  int64_t unhanded_tokens_ = 0;  // of requests that were not handed yet; guarded by mutex_
  int64_t row_bytes_ = 0;        // AllLogprobsRowBytes of what is open; guarded by mutex_
  int64_t drain_since_us_ = 0;   // 0: requests are taken; guarded by mutex_
};

std::vector<int32_t> EndIds(const files::ModelFiles& files) {
  std::vector<int32_t> ids = files.tokenizer.end_of_generation_ids;
  ids.insert(ids.end(), files.config.eos_ids.begin(), files.config.eos_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// What was chosen for the ops, each name once: "avx2_f32_norm, avx2_int8_linear, ...".
std::string KernelNames(std::span<const exec::OpChoice> choices) {
  std::set<std::string_view> told;
  std::string text;
  for (const exec::OpChoice& choice : choices) {
    if (told.insert(choice.chosen).second) text += StrCat(text.empty() ? "" : ", ", choice.chosen);
  }
  return text;
}

void EngineImpl::FillInfo(const files::ModelFiles& files) {
  info_.model_name =
      options_.served_model_name.empty() ? files::ModelName(files) : options_.served_model_name;
  info_.architecture = files::ArchitectureName(files.config.architecture);
  const exec::RunnerInfo& runner = runner_->Info();
  info_.device = runner.device_name;
  info_.device_id = runner.device_id;
  info_.device_reason = runner.device_reason;
  info_.memory = runner.memory;
  info_.kernels = KernelNames(runner.choices);
  info_.isa = runner.isa;
  info_.fake_balance_experts = options_.fake_balance_experts;
  info_.quantization = files::FileTypeOf(*files.tensors);
  info_.max_model_len = runner.max_model_len;
  info_.vocab_size = files.config.vocab_size;
  info_.embedding_size = files.config.vector_size();
  info_.labels = files.config.labels;
  info_.backends = exec::Backends();
  info_.threads = runner.threads;
  for (const files::FileTensor& tensor : files.tensors->tensors()) {
    int64_t count = 1;
    for (const int64_t dim : tensor.shape) count *= dim;
    info_.parameters += count;
  }
  info_.weight_bytes = static_cast<int64_t>(runner.weight_bytes);
  info_.kv_bytes = static_cast<int64_t>(runner.kv_bytes);
  for (const batch::KvGroup& group : runner.kv_groups) info_.kv_blocks += group.num_blocks;
  info_.block_size = batch::FinestGroup(runner.kv_groups).block_tokens;
  info_.max_num_seqs = options_.max_num_seqs;
  info_.max_queue = options_.max_queue;
  info_.max_queue_tokens = options_.max_queue_tokens;
}

Status EngineImpl::OpenScheduler() {
  schedule::SchedulerOptions options;
  options.max_num_seqs = options_.max_num_seqs;
  options.max_batch_tokens = options_.max_batch_tokens;
  options.max_extra_rows = runner_->Info().max_logits_rows - options_.max_num_seqs;
  options.counted_slots = runner_->Info().counted_slots;
  options.draft_trees = runner_->Info().draft_trees;
  options.reads_guesses = runner_->Info().guess_trees;
  options.max_model_len = runner_->Info().max_model_len;
  // Submit refuses what passes --max-queue; a request of n choices is n sequences.
  options.queue_limit = options_.max_queue * limits::kChoicesMax;
  options.prefix_cache = options_.prefix_cache;
  options.policy = options_.scheduler_policy;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, MakeDrafter());
  if (drafter != nullptr || device_drafts() > 0)
    options.max_draft_tokens =
        batch::DraftsWithin(runner_->Info().kv_groups, options_.speculate_tokens);
  options.max_draft_tokens = std::max(options.max_draft_tokens, ForcedDrafts());
  options.draft_spare = runner_->Info().draft_spare;
  SLUICE_ASSIGN_OR_RETURN(auto scheduler,
                          schedule::Scheduler::Create(options, runner_->Info().kv_groups));
  std::unique_ptr<HeadDrafts> head_drafts;
  if (device_drafts() > 0 && (options_.speculate_adapt || options.reads_guesses)) {
    head_drafts =
        std::make_unique<HeadDrafts>(HeadDrafts::Options{.slots = options_.max_num_seqs,
                                                         .drafts = options.max_draft_tokens,
                                                         .adapt = options_.speculate_adapt,
                                                         .trees = options.reads_guesses});
  }
  loop_ = std::make_unique<StepLoop>(*runner_, std::move(scheduler), *metrics_, std::move(drafter),
                                     std::move(head_drafts), options_.draft_wait_us);
  return OkStatus();
}

// Rejection draws other tokens where there are drafts, so these would change an answer. Where steps
// are graphs, room for drafts in them is made with --speculate alone.
int EngineImpl::ForcedDrafts() const {
  const exec::RunnerInfo& runner = runner_->Info();
  const bool room = runner.depth == 1 || runner.speculate != "none";
  if (!options_.jump_forward || options_.speculate_verify != "exact" || !room) return 0;
  return batch::DraftsWithin(runner.kv_groups, options_.speculate_tokens);
}

Result<std::unique_ptr<Drafter>> EngineImpl::MakeDrafter() const {
  const exec::RunnerInfo& runner = runner_->Info();
  auto proposer = speculate::MakeProposer(
      options_.speculate, {.slots = options_.max_num_seqs, .tokens_max = 2 * runner.max_model_len});
  if (proposer == nullptr) return std::unique_ptr<Drafter>();
  return std::make_unique<Drafter>(
      std::move(proposer),
      DrafterOptions{.slots = options_.max_num_seqs,
                     .sequence_tokens = runner.max_model_len,
                     .drafts = batch::DraftsWithin(runner.kv_groups, options_.speculate_tokens),
                     .adapt = options_.speculate_adapt,
                     .trees = runner.draft_trees,
                     .wait_us = options_.draft_wait_us});
}

void EngineImpl::StartThreads(const files::ModelConfig& config) {
  constraints_ = std::make_unique<Constraints>(text_->tokenizer(), info_.vocab_size, end_ids_);
  TextContext context;
  context.text = text_.get();
  context.metrics = metrics_.get();
  context.defaults = defaults_;
  context.end_ids = end_ids_;
  context.kv_dtype = batch::FinestGroup(runner_->Info().kv_groups).dtype;
  context.output = &output_;
  context.whole_prompts = config.whole_prompts();
  context.token_types = config.token_types;
  context.prefix_cache = options_.prefix_cache && !context.whole_prompts;
  context.normalize = config.pooling && config.pooling->normalize;
  context.drafts = options_.speculate != "none" && device_drafts() == 0;
  context.constraints = constraints_.get();
  context.masks = &loop_->masks();
  context.max_model_len = info_.max_model_len;
  context.longest_sequence = loop_->longest_sequence();
  for (int beams = 1; beams <= BeamSearch::kWidthMax; ++beams)
    context.longest_beams.push_back(loop_->longest_beam(beams));
  context.device_drafts = device_drafts();
  context.forced_drafts = ForcedDrafts();
  context.add = [this](auto request, auto sequences) {
    // At once, so that CheckAdmission counts the request in one place.
    std::lock_guard lock(mutex_);
    request->handed = true;
    ++handed_;
    unhanded_tokens_ -= request->least_tokens;
    return loop_->Add(std::move(request), std::move(sequences));
  };
  context.mask = [this](RequestId id, int choice) { loop_->Mask(id, choice); };
  context.stop = [this](RequestId id, int choice) { loop_->StopChoice(id, choice); };
  context.ended = [this](RequestId id) { Ended(id); };
  workers_ = std::make_unique<TextWorkers>(options_.text_workers, std::move(context));
  grammars_ = std::make_unique<GrammarWorkers>(
      text_->tokenizer(), info_.vocab_size, end_ids_,
      [this](std::shared_ptr<RequestState> request) { workers_->Start(std::move(request)); });
  loop_->Start(workers_.get());
}

// Takes the tokenizer and the template out of `files` and builds them on a thread of its own,
// beside the packing of the weights.
std::future<Result<std::unique_ptr<TextModelImpl>>> MakeText(files::ModelFiles* files) {
  files::ModelFiles text;
  text.config = files->config;
  text.tokenizer = std::move(files->tokenizer);
  text.chat_template = std::move(files->chat_template);
  return std::async(std::launch::async, &TextModelImpl::Make, std::move(text));
}

// A draft that guesses some tokens alone can give no answer.
Status CheckWhole(const files::ModelFiles& files) {
  const size_t guesses = files.config.target_ids.size();
  if (guesses == 0) return OkStatus();
  return InvalidArgument(
      StrCat(Quote(files.path), " is a draft that guesses ", guesses, " of ",
             files.config.vocab_size, " tokens; name it with --draft-model, beside its model"),
      "model");
}

Result<std::unique_ptr<Engine>> EngineImpl::Open(const EngineOptions& options,
                                                 std::function<void(int64_t, int64_t)> progress) {
  const int64_t start = NowMicros();
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  SLUICE_RETURN_IF_ERROR(speculate::CheckProposer(options.speculate));
  SLUICE_RETURN_IF_ERROR(speculate::CheckVerification(options.speculate_verify));
  auto engine = std::make_unique<EngineImpl>();
  engine->options_ = options;
  engine->seed_ = options.seed != 0 ? options.seed : SeedFromEntropy();
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(options.model));
  SLUICE_ASSIGN_OR_RETURN(files::ModelFiles files, files::OpenModel(path));
  SLUICE_RETURN_IF_ERROR(CheckWhole(files));
  engine->end_ids_ = EndIds(files);
  SLUICE_ASSIGN_OR_RETURN(const auto draft, exec::OpenDraft(files, options));
  SLUICE_ASSIGN_OR_RETURN(engine->output_,
                          text::OutputFormat::Choose(files.chat_template, options.tool_parser,
                                                     options.reasoning_parser));
  auto text = MakeText(&files);
  SLUICE_ASSIGN_OR_RETURN(engine->runner_,
                          exec::OpenRunner(files, draft, options, std::move(progress)));
  engine->options_.speculate = engine->runner_->Info().speculate;
  const exec::RunnerInfo& runner = engine->runner_->Info();
  if (!runner.memory_note.empty()) LogWarning(runner.memory_note);
  if (options.speculate_synthetic > 0.0) {
    if (runner.speculate == "none")
      return InvalidArgument(
          "--speculate-synthetic takes a share of drafts, and there are none; "
          "choose --speculate ngram, suffix, mtp, model, eagle, eagle3 or block",
          "speculate-synthetic");
    LogWarning("--speculate-synthetic ", options.speculate_synthetic,
               ": drafts are taken by lot, for load tests; answers make no sense");
  }
  if (options.explain_kernels) {
    for (const exec::OpChoice& choice : runner.choices) {
      LogInfo(choice.op, " ", choice.shape, ": ", choice.chosen);
      for (const std::string& reason : choice.declined) LogInfo("  not ", reason);
    }
    LogInfo(runner.graphs_note);
  }
  if (options.isa != "ref") {  // who asks for the references knows
    for (const std::string& warning : runner.slow_fallbacks) LogWarning(warning);
  }
  engine->defaults_ = files.generation_defaults;
  engine->FillInfo(files);
  engine->info_.sampling_defaults = SamplingOf(files.generation_defaults);
  SLUICE_ASSIGN_OR_RETURN(engine->text_, text.get());
  engine->info_.ids_alone = !engine->text_->has_texts();
  if (engine->info_.ids_alone)
    LogWarning(Quote(options.model), " has no tokenizer: it takes and gives token ids alone");
  engine->info_.tool_parser = engine->output_.tools();
  engine->info_.reasoning_parser = engine->output_.thinking();
  engine->info_.has_chat_template = engine->text_->has_template();
  engine->info_.load_ms = (NowMicros() - start) * 1e-3;
  engine->metrics_ = std::make_unique<engine::Metrics>(engine->info_.model_name);
  for (const exec::OpChoice& choice : runner.choices) {
    for (const std::string& reason : choice.declined) {
      engine->metrics_->CountFallback(choice.op, reason);
    }
  }
  SLUICE_RETURN_IF_ERROR(engine->OpenScheduler());
  engine->StartThreads(files.config);
  return std::unique_ptr<Engine>(std::move(engine));
}

Status EngineImpl::CheckAdmission(int64_t row_bytes) const {
  if (drain_since_us_ > 0)
    return Status(StatusCode::kUnavailable,
                  "this server drains and takes no new requests; try another");
  const StepLoop::State state = loop_->state();
  if (submitted_ - handed_ + state.waiting >= options_.max_queue) {
    return Status(StatusCode::kResourceExhausted,
                  StrCat("the queue holds ", options_.max_queue,
                         " requests, which is its limit (--max-queue); try again later"));
  }
  if (unhanded_tokens_ + state.queued_tokens >= options_.max_queue_tokens) {
    return Status(StatusCode::kResourceExhausted,
                  StrCat("the prompts that wait have ", options_.max_queue_tokens,
                         " tokens or more, which is the limit (--max-queue-tokens); try again "
                         "later"));
  }
  if (row_bytes > 0 && row_bytes_ + row_bytes > limits::kAllLogprobsRowBytesMax) {
    return Status(StatusCode::kResourceExhausted,
                  StrCat("requests with all_logprobs, this one among them, would take ",
                         row_bytes_ + row_bytes, " bytes of a step; the limit is ",
                         limits::kAllLogprobsRowBytesMax, ": try again later"),
                  "all_logprobs");
  }
  return OkStatus();
}

Result<RequestId> EngineImpl::Submit(Request request, Sink sink) {
  SLUICE_RETURN_IF_ERROR(CheckRequest(request, info_.vocab_size));
  SLUICE_RETURN_IF_ERROR(CheckEmbedding(request, info_));
  SLUICE_RETURN_IF_ERROR(text_->CheckIdsAlone(request));
  if (request.embed) request.max_tokens = 0;
  SLUICE_ASSIGN_OR_RETURN(const bool holds_calls,
                          HoldToCalls(output_, *text_->tokenizer(), &request));
  SLUICE_RETURN_IF_ERROR(CheckBeams(request, info_.vocab_size));
  SLUICE_RETURN_IF_ERROR(CheckAllLogprobs(request, info_.vocab_size, info_.max_model_len,
                                          runner_->Info().no_filtered));
  const int64_t row_bytes = AllLogprobsRowBytes(request, info_.vocab_size);
  SLUICE_RETURN_IF_ERROR(
      text_->CheckLength(request, std::min(info_.max_model_len, loop_->longest_sequence())));
  auto state = std::make_shared<RequestState>();
  state->sink = std::move(sink);
  state->least_tokens = text_->LeastTokens(request) * request.n;
  state->holds_calls = holds_calls;
  state->usage.synthetic_acceptance = options_.speculate_synthetic;
  state->usage.verified_by_rejection =
      options_.speculate != "none" && options_.speculate_verify == "rejection";
  state->submitted_us = NowMicros();
  {
    std::lock_guard lock(mutex_);
    SLUICE_RETURN_IF_ERROR(CheckAdmission(row_bytes));
    row_bytes_ += row_bytes;
    state->id = next_id_++;
    // 53 bits, so that the seed survives a client that reads numbers as doubles.
    const auto bits = Philox(
        seed_, {static_cast<uint32_t>(state->id), static_cast<uint32_t>(state->id >> 32), 0, 0});
    const uint64_t drawn = ((static_cast<uint64_t>(bits[0]) << 32) | bits[1]) >> 11;
    state->blank.seed = request.sampling.seed.emplace(request.sampling.seed.value_or(drawn));
    unhanded_tokens_ += state->least_tokens;
    state->request = std::move(request);
    NoteTime(&Timeline::submitted_us, state->submitted_us, state->request.timeline.get());
    requests_[state->id] = state;
    ++submitted_;
  }
  const RequestId id = state->id;
  if (state->request.grammar.kind == Grammar::Kind::kNone) {
    workers_->Start(std::move(state));
  } else {
    grammars_->Start(std::move(state));
  }
  return id;
}

void EngineImpl::Cancel(RequestId id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end()) return;
    found->second->cancelled = true;
  }
  loop_->Cancel(id);
}

void EngineImpl::EndThinking(RequestId id) {
  std::shared_ptr<RequestState> request;
  {
    std::lock_guard lock(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end() || found->second->end_thinking.exchange(true)) return;
    request = found->second;
  }
  workers_->EndThinking(std::move(request));
}

void EngineImpl::Ended(RequestId id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = requests_.find(id);
    if (!found->second->handed) {
      ++handed_;
      unhanded_tokens_ -= found->second->least_tokens;
    }
    row_bytes_ -= AllLogprobsRowBytes(found->second->request, info_.vocab_size);
    requests_.erase(found);
  }
  idle_.notify_all();
}

EngineInfo EngineImpl::Info() const {
  EngineInfo info = info_;
  const StepLoop::State state = loop_->state();
  info.running = state.running;
  info.waiting = state.waiting;
  info.steps = state.steps;
  info.prefill_tokens = state.prefill_tokens;
  info.device_busy_s = state.device_busy_s;
  info.device_idle_s = state.device_idle_s;
  info.kv_free_blocks = state.free_blocks;
  return info;
}

EngineHealth EngineImpl::Health() const {
  const StepLoop::State state = loop_->state();
  const int64_t now_us = NowMicros();
  const TextState text = {workers_->StuckMs(now_us), workers_->UntakenMs(now_us)};
  std::lock_guard lock(mutex_);
  return HealthOf(state, text, drain_since_us_ > 0);
}

std::vector<RequestId> EngineImpl::FlagAll() {
  std::lock_guard lock(mutex_);
  std::vector<RequestId> flagged;
  for (const auto& [id, state] : requests_) {
    state->cancelled = true;
    flagged.push_back(id);
  }
  return flagged;
}

Status EngineImpl::Drain(double seconds_max) {
  std::unique_lock lock(mutex_);
  if (drain_since_us_ == 0) drain_since_us_ = NowMicros();
  const int64_t since_us = drain_since_us_;
  const auto none_left = [&] { return requests_.empty(); };
  if (idle_.wait_for(lock, std::chrono::duration<double>(seconds_max), none_left))
    return OkStatus();
  lock.unlock();
  const double passed_s = (NowMicros() - since_us) / 100'000 * 0.1;  // whole tenths
  const std::vector<RequestId> left = FlagAll();
  for (const RequestId id : left) loop_->Cancel(id);
  lock.lock();
  // A cancelled request ends within a step.
  idle_.wait_for(lock, std::chrono::milliseconds(kStuckMsMax), none_left);
  return Status(StatusCode::kDeadlineExceeded,
                StrCat(left.size(), " requests were cancelled after ", passed_s, " s"));
}

Result<std::string> EngineImpl::Admin(const std::string& command_json) {
  SLUICE_ASSIGN_OR_RETURN(const Json command, ParseJson(command_json, "the command"));
  const std::string name = command.is_object() ? command.value("command", Json()).dump() : "";
  if (name == "\"pause\"" || name == "\"resume\"") {
    loop_->SetPaused(name == "\"pause\"");
    return std::string("{\"ok\":true}");
  }
  if (name == "\"drain\"") {
    std::lock_guard lock(mutex_);
    if (drain_since_us_ == 0) drain_since_us_ = NowMicros();
    return DumpJson(Json{{"ok", true}, {"running", requests_.size()}});
  }
  if (name == "\"cache_flush\"") {
    int32_t blocks = 0;
    if (!loop_->Call(
            [&](schedule::Scheduler& scheduler) { blocks = scheduler.ClearPrefixCache(); })) {
      return Status(StatusCode::kUnavailable, "the engine has stopped");
    }
    return DumpJson(Json{{"ok", true}, {"blocks", blocks}});
  }
  if (name == "\"profile\"") return profiler_.Take(command, loop_.get());
  if (name == "\"profile_end\"") {
    profiler_.End();
    return std::string("{\"ok\":true}");
  }
  if (name == "\"trace\"") {
    const Json file = command.value("file", Json());
    if (!file.is_string()) return InvalidArgument("file must be where the trace goes", "file");
    const Json process = command.value("process", Json(""));
    if (!process.is_string()) return InvalidArgument("process must be a name", "process");
    SLUICE_ASSIGN_OR_RETURN(auto tracer,
                            Tracer::Begin(file.get<std::string>(), process.get<std::string>()));
    if (!loop_->Trace(std::move(tracer)))
      return Status(StatusCode::kUnavailable, "the engine has stopped");
    return std::string("{\"ok\":true}");
  }
  if (name == "\"experts\"") return AnswerExperts(*loop_, *runner_, command);
  if (name == "\"move_experts\"") return MoveExperts(*loop_, *runner_, command);
  return InvalidArgument(
      "command must be pause, resume, drain, cache_flush, profile, profile_end, trace, experts or "
      "move_experts",
      "command");
}

}  // namespace
}  // namespace sluice::engine

namespace sluice {

Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options,
                                             std::function<void(int64_t, int64_t)> progress) {
  EngineOptions told = options;
  if (told.speculate == "off") told.speculate = "none";  // as some spell it
  return engine::EngineImpl::Open(told, std::move(progress));
}

}  // namespace sluice
