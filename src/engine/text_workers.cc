#include "engine/text_workers.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "engine/beam_request.h"
#include "engine/request_check.h"
#include "engine/timeline_notes.h"

namespace sluice::engine {
namespace {

// Of the prompt's end, given to the detokenizer.
constexpr size_t kPromptTail = 8;

FinishReason ToPublic(schedule::FinishReason reason) {
  switch (reason) {
    case schedule::FinishReason::kNone:
      return FinishReason::kNone;
    case schedule::FinishReason::kEnd:
    case schedule::FinishReason::kStop:
      return FinishReason::kStop;
    case schedule::FinishReason::kLength:
      return FinishReason::kLength;
    case schedule::FinishReason::kCancelled:
      return FinishReason::kCancelled;
    case schedule::FinishReason::kError:
      return FinishReason::kError;
    case schedule::FinishReason::kAbsent:
      return FinishReason::kAbsent;
  }
  return FinishReason::kError;
}

// Text that is certain, to where it belongs.
void AddText(std::string_view text, ChoiceState* choice, TextDelta* delta) {
  if (choice->parser == nullptr) {
    delta->text += text;
  } else {
    choice->parser->Add(text, delta);
  }
}

// What was drawn behind this does not count.
bool IsDone(const ChoiceState& choice) {
  return choice.stops.matched() || (choice.parser != nullptr && choice.parser->done());
}

// The answer could not go on. Beams that cannot are dropped, and others answer: `failed` says that
// none has.
bool IsStuck(const RequestState& request, int choice, bool failed) {
  const auto stuck = [](const std::unique_ptr<Constraint>& constraint) {
    return constraint != nullptr && constraint->stuck();
  };
  if (request.constraints.empty()) return false;
  if (!request.request.beams.on()) return stuck(request.constraints[choice]);
  return failed && std::any_of(request.constraints.begin(), request.constraints.end(), stuck);
}

}  // namespace

TextWorkers::TextWorkers(int threads, TextContext context) : context_(std::move(context)) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>());
  for (auto& worker : workers_) {
    worker->thread = std::thread([this, w = worker.get()] { Run(w); });
  }
}

TextWorkers::~TextWorkers() { Stop(); }

void TextWorkers::Stop() {
  for (auto& worker : workers_) {
    {
      std::lock_guard lock(worker->mutex);
      worker->stopping = true;
    }
    worker->ready.notify_all();
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void TextWorkers::Start(std::shared_ptr<RequestState> request) {
  Worker& worker = *workers_[IndexOf(request->id)];
  {
    std::lock_guard lock(worker.mutex);
    if (worker.starts.empty()) worker.untaken_since_us = NowMicros();
    worker.starts.Push(std::move(request));
    Wake(&worker);
  }
  worker.ready.notify_one();
}

void TextWorkers::EndThinking(std::shared_ptr<RequestState> request) {
  Worker& worker = *workers_[IndexOf(request->id)];
  {
    std::lock_guard lock(worker.mutex);
    worker.ending.push_back(std::move(request));
    Wake(&worker);
  }
  worker.ready.notify_one();
}

void TextWorkers::Wake(Worker* worker) {
  if (worker->since_us == 0) worker->since_us = NowMicros();
}

int64_t TextWorkers::LongestMs(std::atomic<int64_t> Worker::*since_us, int64_t now_us) const {
  int64_t longest = 0;
  for (const auto& worker : workers_) {
    const int64_t since = (*worker).*since_us;
    if (since > 0) longest = std::max(longest, (now_us - since) / 1000);
  }
  return longest;
}

void TextWorkers::Post(std::span<UpdateBatch> batches) {
  CHECK(batches.size() == workers_.size(), batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].empty()) continue;
    Worker& worker = *workers_[i];
    {
      std::unique_lock lock(worker.mutex);
      worker.drained.wait(lock, [&] { return worker.stopping || !worker.Behind(); });
      worker.updates.Append(&batches[i]);
      Wake(&worker);
    }
    worker.ready.notify_one();
  }
}

void TextWorkers::Run(Worker* worker) {
  UpdateBatch taken;
  std::vector<std::shared_ptr<RequestState>> ending;
  for (;;) {
    std::shared_ptr<RequestState> start;
    {
      std::unique_lock lock(worker->mutex);
      if (worker->idle()) worker->since_us = 0;
      worker->ready.wait(lock, [&] { return worker->stopping || !worker->idle(); });
      if (worker->idle()) return;
      std::swap(taken, worker->updates);
      std::swap(ending, worker->ending);
      if (!worker->starts.empty()) {
        start = worker->starts.Pop();
        worker->untaken_since_us = worker->starts.empty() ? 0 : NowMicros();
      }
    }
    worker->drained.notify_one();
    // Masks and logits go first, since the device waits for them; and what is streaming goes before
    // a prompt, which may take long.
    for (const ChoiceUpdate& update : taken.updates()) {
      const RequestState& request = *update.request;
      if (request.constraints.empty() && request.logits.empty()) continue;
      Guard(worker, update.request, [&] {
        if (!request.constraints.empty()) AdvanceMask(taken, update, worker);
        if (!request.logits.empty()) AdvanceLogits(taken, update);
      });
    }
    for (const ChoiceUpdate& update : taken.updates()) {
      if (update.inner()) continue;
      Guard(worker, update.request, [&] { Apply(taken, update); });
    }
    taken.Clear();
    for (const auto& request : ending) {
      Guard(worker, request.get(), [&] { HoldThinking(request.get()); });
    }
    ending.clear();
    if (start != nullptr) Guard(worker, start.get(), [&] { Begin(start); });
  }
}

template <class Work>
void TextWorkers::Guard(Worker* worker, RequestState* request, Work&& work) {
  worker->since_us = NowMicros();
  Status status;
  try {
    return work();
  } catch (const std::bad_alloc& error) {
    LogError("request ", request->id, " failed: ", error.what());
    status = Status(StatusCode::kOutOfMemory, "the server had no memory for this request");
  } catch (const std::exception& error) {
    LogError("request ", request->id, " failed by a mistake of the server: ", error.what());
    status = Status(StatusCode::kInternal,
                    "the server failed at this request by a mistake of its own; its log says more");
  }
  try {
    Abandon(request, status);
  } catch (const std::exception& error) {
    LogError("request ", request->id, " ends without its last event: ", error.what());
    Ended(request);
  }
}

void TextWorkers::Abandon(RequestState* request, const Status& why) {
  if (request->ended) return;
  for (size_t i = 0; i < request->choices.size(); ++i) {
    if (std::exchange(request->choices[i].finished, true)) continue;
    context_.stop(request->id, static_cast<int>(i));
  }
  request->unfinished = 0;
  TextDelta delta = request->blank;
  delta.finish = FinishReason::kError;
  delta.last = true;
  delta.error = why;
  delta.usage = request->usage;
  NoteTime(&Timeline::ended_us, NowMicros(), request->request.timeline.get());
  request->sink(std::move(delta));
  Ended(request);
}

void TextWorkers::Ended(RequestState* request) {
  if (!std::exchange(request->ended, true)) context_.ended(request->id);
}

void TextWorkers::Begin(const std::shared_ptr<RequestState>& request) {
  request->unfinished = request->request.n;
  auto sequences = MakeSequences(request.get());
  if (sequences.ok()) {
    if (context_.add(request, *std::move(sequences))) return;
    return EndUnstarted(request, Status(StatusCode::kCancelled, "the engine has stopped"));
  }
  EndUnstarted(request, sequences.status());
}

// No choice ever started: an error is one event, a cancelled request still tells each choice.
void TextWorkers::EndUnstarted(const std::shared_ptr<RequestState>& request, const Status& status) {
  const bool cancelled = status.code() == StatusCode::kCancelled;
  const int events = cancelled ? request->request.n : 1;
  for (int choice = 0; choice < events; ++choice) {
    TextDelta delta = request->blank;
    delta.choice = choice;
    delta.finish = cancelled ? FinishReason::kCancelled : FinishReason::kError;
    if (!cancelled) delta.error = status;
    delta.usage = request->usage;
    if (choice + 1 == events) EndRequest(request.get(), &delta, NowMicros());
    request->sink(std::move(delta));
  }
  Ended(request.get());
}

Result<std::vector<schedule::SequenceSpec>> TextWorkers::MakeSequences(RequestState* state) const {
  const Request& request = state->request;
  const int longest = std::min(context_.max_model_len, context_.longest_sequence);
  if (state->cancelled) return Status(StatusCode::kCancelled, "the request was cancelled");
  SLUICE_RETURN_IF_ERROR(state->grammar_status);
  SLUICE_ASSIGN_OR_RETURN(
      state->prompt,
      context_.text->PromptIds(request, longest, state->cancelled, &state->second_text));
  NoteBegun(state);
  const int prompt = static_cast<int>(state->prompt.size());
  if (prompt == 0) return InvalidArgument("the prompt has no tokens", "prompt");
  state->usage.prompt_tokens = prompt;
  const std::span<const int32_t> all(state->prompt);
  const auto tail = all.last(std::min(all.size(), kPromptTail));
  SLUICE_RETURN_IF_ERROR(Constrain(tail, state));
  if (request.logits_processor != nullptr && request.max_tokens != 0) {
    for (int i = 0; i < request.n; ++i)
      state->logits.push_back(std::make_unique<MaskBoard::Logits>());
  }
  SLUICE_ASSIGN_OR_RETURN(const auto quoted, Quoted(tail, *state));
  SLUICE_RETURN_IF_ERROR(PrepareParsing(state));
  // Only the ids are used from here on.
  state->request.prompt = {};
  state->request.second_text = {};
  state->request.choice = {};
  state->request.grammar.text = {};
  state->request.prediction = {};
  state->request.held = nullptr;
  std::vector<schedule::SequenceSpec> sequences;
  for (int choice = 0; choice < request.n; ++choice) {
    state->choices.emplace_back(text::Detokenizer(context_.text->tokenizer(),
                                                  !request.skip_special_tokens, tail, state->marks),
                                StopMatcher(request.stop, request.include_stop));
    if (request.beams.on() && choice > 0) continue;
    schedule::SequenceSpec spec;
    spec.id = SequenceOf(state->id, choice);
    spec.prompt = state->prompt;
    spec.sampling = ResolveSampling(request, context_.defaults);
    spec.sampling.choice = choice;
    spec.no_overlap = spec.sampling.no_repeat_ngram > 0;  // which looks through all tokens so far
    SetSteering(*state, &spec);
    spec.max_tokens = request.max_tokens.value_or(longest - prompt);
    spec.end_ids = context_.end_ids;
    spec.stop_ids = request.stop_token_ids;
    spec.priority = request.priority;
    spec.client = HashText(request.client);
    spec.client_weight = request.client_weight;
    spec.key.salt = request.cache_salt;
    spec.draft_key = HashText(request.cache_salt);
    spec.quoted = quoted;
    spec.key.kv_dtype = context_.kv_dtype;
    spec.prefix_cache = context_.prefix_cache;
    spec.whole_prompt = context_.whole_prompts;
    if (context_.token_types > 1) spec.second_text = state->second_text;
    spec.prompt_logprobs = choice == 0 && spec.sampling.prompt_top_logprobs >= 0;
    if (request.beams.on()) {
      const int each = context_.longest_beams[request.beams.width() - 1];
      SLUICE_RETURN_IF_ERROR(SearchBeams(request, std::min(longest, each), &spec));
    }
    if (spec.no_drafts) state->usage.verified_by_rejection = false;
    sequences.push_back(std::move(spec));
  }
  MakeParsers(state);
  return sequences;
}

void TextWorkers::SetSteering(const RequestState& state, schedule::SequenceSpec* spec) const {
  const Request& request = state.request;
  const bool held = !state.constraints.empty();
  spec->masked = held || !state.logits.empty();
  // Behind a draft no processor is asked, and whole distributions are told of one row in a step.
  spec->no_drafts = !state.logits.empty() || request.all_logprobs != Distribution::kNone;
  spec->device_drafts = spec->masked || spec->no_drafts ? 0 : context_.device_drafts;
  spec->ignore_eos = request.ignore_eos && !held;
  if (held) {  // which minds both itself, or would have nothing left to draw
    spec->sampling.min_tokens = spec->sampling.no_repeat_ngram = 0;
  }
}

Result<std::shared_ptr<const std::vector<int32_t>>> TextWorkers::Quoted(
    std::span<const int32_t> prompt_tail, const RequestState& state) const {
  const std::string& text = state.request.prediction;
  if (!context_.drafts || text.empty()) return std::shared_ptr<const std::vector<int32_t>>();
  const int longest = std::min(context_.max_model_len, context_.longest_sequence);
  const int ids_max = std::max(0, longest - static_cast<int>(prompt_tail.size()));
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          context_.text->PredictionIds(text, ids_max, state.cancelled));
  ids.insert(ids.begin(), prompt_tail.begin(), prompt_tail.end());
  return std::make_shared<const std::vector<int32_t>>(std::move(ids));
}

Status TextWorkers::PrepareParsing(RequestState* state) const {
  const OutputParsing& wanted = state->request.parsing;
  if (!wanted.tools && !wanted.reasoning) return OkStatus();
  if (const auto* chat = std::get_if<ChatPrompt>(&state->request.prompt)) {
    SLUICE_ASSIGN_OR_RETURN(state->tools, text::ToolSchemas::Make(chat->tools_json));
  }
  for (const std::string_view mark : context_.output->Marks(wanted)) {
    const int32_t id = context_.text->tokenizer()->Find(mark);
    if (id >= 0 && context_.text->tokenizer()->IsSpecial(id)) state->marks.push_back(id);
  }
  return OkStatus();
}

void TextWorkers::MakeParsers(RequestState* state) const {
  const OutputParsing& wanted = state->request.parsing;
  if (!wanted.tools && !wanted.reasoning) return;
  const std::string end = PromptEnd(*state);
  for (ChoiceState& choice : state->choices) {
    choice.parser = context_.output->MakeParser(wanted, state->tools, end, state->begun);
  }
}

TokenInfo TextWorkers::InfoOf(const UpdateBatch& batch, const batch::ResultToken& token) const {
  TokenInfo info;
  info.id = token.id;
  const text::Tokenizer& tokenizer = *context_.text->tokenizer();
  info.bytes = tokenizer.PieceBytes(token.id, true);
  if (token.top_count > 0) info.logprob = token.logprob;
  const std::span<const float> all = batch.DistributionOf(token);
  info.all_logprobs.assign(all.begin(), all.end());
  for (const batch::TokenLogprob& entry : batch.TopOf(token)) {
    info.top.push_back({entry.id, entry.logprob, tokenizer.PieceBytes(entry.id, true)});
  }
  return info;
}

void TextWorkers::TakeScores(const UpdateBatch& batch, const UpdateDetails& details,
                             RequestState* request) const {
  const bool wants_infos = request->request.prompt_logprobs.has_value();
  if (wants_infos && request->prompt_infos.empty() && !request->prompt_sent) {
    TokenInfo first;  // nothing comes before it that could predict it
    first.id = request->prompt.front();
    first.bytes = context_.text->tokenizer()->PieceBytes(first.id, true);
    request->prompt_infos.push_back(std::move(first));
  }
  for (const batch::ResultToken& score : batch.ScoresOf(details)) {
    request->loss_sum -= score.logprob;
    ++request->loss_count;
    if (wants_infos) request->prompt_infos.push_back(InfoOf(batch, score));
  }
}

void TextWorkers::TakeTokens(const UpdateBatch& batch, const ChoiceUpdate& update,
                             ChoiceState* choice, TextDelta* delta) const {
  RequestState& request = *update.request;
  const bool ends_by_token = update.finish == schedule::FinishReason::kEnd ||
                             update.finish == schedule::FinishReason::kStop;
  const std::span<const int32_t> ids = batch.IdsOf(update);
  const std::span<const batch::ResultToken> tokens = batch.TokensOf(update);
  const int before = choice->tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    ++request.usage.completion_tokens;
    ++choice->tokens;
    if (request.first_token_us == 0) request.first_token_us = update.now_us;
    if (choice->last_token_us > 0) {
      context_.metrics->ObserveInterToken((update.now_us - choice->last_token_us) * 1e-6);
    }
    choice->last_token_us = request.last_token_us = update.now_us;
    if (!tokens.empty()) {
      delta->tokens.push_back(InfoOf(batch, tokens[i]));
    } else {
      delta->tokens.emplace_back().id = ids[i];
    }
    if (ends_by_token && i + 1 == ids.size()) {
      delta->stop_match = context_.text->tokenizer()->PieceBytes(ids[i], true);
      // The token that ends an answer is not a part of it.
      if (!request.request.include_stop) break;
    }
    AddText(choice->stops.Add(choice->detokenizer.Add(ids[i]),
                              choice->tokens >= request.request.min_tokens),
            choice, delta);
    if (IsDone(*choice)) break;
  }
  if (const UpdateDetails* details = batch.DetailsOf(update)) {
    const int accepted = std::min(details->accepted, choice->tokens - before);
    request.usage.accepted_tokens += accepted;
    request.usage.rejected_tokens += details->drafted - accepted;
  }
}

void TextWorkers::FinishChoice(const UpdateBatch& batch, const ChoiceUpdate& update,
                               ChoiceState* choice, TextDelta* delta) {
  RequestState* request = update.request;
  if (IsDone(*choice)) {
    delta->finish = FinishReason::kStop;
    delta->stop_match = choice->stops.match();
    if (update.finish == schedule::FinishReason::kNone) context_.stop(request->id, update.choice);
  } else {
    delta->finish = ToPublic(update.finish);
    AddText(choice->stops.Add(choice->detokenizer.Finish(),
                              choice->tokens >= request->request.min_tokens),
            choice, delta);
    if (choice->stops.matched()) {
      delta->finish = FinishReason::kStop;
      delta->stop_match = choice->stops.match();
    } else {
      AddText(choice->stops.Finish(), choice, delta);
    }
  }
  if (choice->parser != nullptr) {
    choice->parser->Finish(delta);
    const bool stopped = delta->finish == FinishReason::kStop && !choice->stops.matched();
    if (stopped && choice->parser->called()) delta->finish = FinishReason::kToolCalls;
  }
  const Status* const error = batch.ErrorOf(update);
  if (IsStuck(*request, update.choice, delta->finish == FinishReason::kError && error == nullptr)) {
    delta->finish = FinishReason::kError;
    delta->error = NothingFits(request->request, "go on");
  } else if (delta->finish == FinishReason::kError) {
    delta->error = error == nullptr ? Status(StatusCode::kInternal,
                                             "the model's output for this request was not a number")
                                    : *error;
  }
  choice->finished = true;
  --request->unfinished;
}

std::vector<float> TextWorkers::EmbeddingOf(std::span<const float> vector,
                                            const Request& request) const {
  const auto size = static_cast<size_t>(request.dimensions.value_or(0));
  if (size > 0) vector = vector.first(std::min(size, vector.size()));
  std::vector<float> embedding(vector.begin(), vector.end());
  // A part of a vector of length 1 is made one, too.
  if (!context_.normalize) return embedding;
  double sum = 0;
  for (const double x : embedding) sum += x * x;
  const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
  for (float& x : embedding) x = static_cast<float>(x * scale);
  return embedding;
}

void TextWorkers::EndRequest(RequestState* request, TextDelta* delta, int64_t now_us) const {
  delta->last = true;
  NoteTime(&Timeline::ended_us, NowMicros(), request->request.timeline.get());
  Usage& usage = request->usage;
  // A request that ended in the queue was never prefilled.
  const int64_t admitted = request->admitted_us > 0 ? request->admitted_us : now_us;
  usage.queue_ms = (admitted - request->submitted_us) * 1e-3;
  if (request->first_token_us > 0) {
    usage.prefill_ms = (request->first_token_us - admitted) * 1e-3;
    usage.decode_ms = (request->last_token_us - request->first_token_us) * 1e-3;
  } else {
    usage.prefill_ms = (now_us - admitted) * 1e-3;
  }
  delta->usage = usage;
  if (request->loss_count > 0 && request->request.prompt_loss) {
    delta->prompt_loss = request->loss_sum / request->loss_count;
  }
  RequestTimes times;
  times.queue_s = usage.queue_ms * 1e-3;
  times.prefill_s = usage.prefill_ms * 1e-3;
  times.decode_s = usage.decode_ms * 1e-3;
  times.e2e_s = (now_us - request->submitted_us) * 1e-6;
  times.first_token_s = (request->first_token_us - request->submitted_us) * 1e-6;
  times.prompt_tokens = usage.prompt_tokens;
  times.generation_tokens = usage.completion_tokens;
  times.finish = Name(delta->finish);
  context_.metrics->ObserveRequest(times);
}

void TextWorkers::Apply(const UpdateBatch& batch, const ChoiceUpdate& update) {
  RequestState& request = *update.request;
  ChoiceState& choice = request.choices[update.choice];
  if (choice.finished) return;  // what was drawn after a stop string was found
  TextDelta delta = request.blank;
  delta.choice = update.choice;
  delta.at_us = update.now_us;
  if (const UpdateDetails* details = batch.DetailsOf(update)) {
    if (request.admitted_us == 0 && details->admitted_us > 0) {
      request.admitted_us = details->admitted_us;
      request.usage.queue_ms = (details->admitted_us - request.submitted_us) * 1e-3;
    }
    request.usage.cached_tokens = std::max(request.usage.cached_tokens, details->cached_tokens);
    TakeScores(batch, *details, &request);
    delta.cumulative_logprob = details->cumulative_logprob;
  }
  if (!batch.VectorOf(update).empty())
    delta.embedding = EmbeddingOf(batch.VectorOf(update), request.request);
  TakeTokens(batch, update, &choice, &delta);
  const bool ends = update.finish != schedule::FinishReason::kNone || IsDone(choice);
  if (ends) FinishChoice(batch, update, &choice, &delta);
  const bool prompt_done = update.token_count > 0 || ends;
  if (!request.prompt_infos.empty() && prompt_done && update.choice == 0) {
    delta.prompt_tokens = std::move(request.prompt_infos);
    request.prompt_infos.clear();
    request.prompt_sent = true;
  }
  if (request.request.prompt_ids && prompt_done) {
    delta.prompt_ids = request.prompt;
    request.request.prompt_ids = false;  // once is enough
  }
  delta.usage = request.usage;
  const bool last = request.unfinished == 0;
  if (last) EndRequest(&request, &delta, update.now_us);
  if (!delta.tokens.empty() || !delta.text.empty() || ends) request.sink(std::move(delta));
  if (last) Ended(&request);
}

}  // namespace sluice::engine
