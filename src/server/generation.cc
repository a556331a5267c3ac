#include "server/generation.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/rounded.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/request_texts.h"
#include "sluice/limits.h"

namespace sluice::server {
namespace {

// For the log: "12 prompt tokens (4 cached), 30 tokens, stop".
std::string NoteOf(const Usage& usage, const std::vector<Choice>& choices) {
  std::string note = StrCat(usage.prompt_tokens, " prompt tokens");
  if (usage.cached_tokens > 0) note += StrCat(" (", usage.cached_tokens, " cached)");
  note += StrCat(", ", usage.completion_tokens, " tokens");
  if (choices.size() > 1) return StrCat(note, " in ", choices.size(), " answers");
  return StrCat(note, ", ", Name(choices.front().finish));
}

// The same for programs that read the log.
OrderedJson FieldsOf(const Usage& usage, const std::vector<Choice>& choices) {
  OrderedJson reasons = OrderedJson::array();
  for (const Choice& choice : choices) reasons.push_back(Name(choice.finish));
  return {{"prompt_tokens", usage.prompt_tokens},
          {"cached_tokens", usage.cached_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"finish_reason", choices.size() == 1 ? reasons.front() : reasons},
          {"queue_ms", Rounded(usage.queue_ms)},
          {"prefill_ms", Rounded(usage.prefill_ms)},
          {"decode_ms", Rounded(usage.decode_ms)}};
}

// The `best` likeliest of the `n` answers of each prompt, by the mean log-prob of a token, the best
// one first.
std::vector<Choice> BestOf(std::vector<Choice> choices, int n, int best) {
  const auto mean = [](const Choice& choice) {
    if (choice.logprob_count == 0) return -std::numeric_limits<double>::infinity();
    return choice.logprob_sum / choice.logprob_count;
  };
  std::vector<Choice> kept;
  for (auto first = choices.begin(); first != choices.end(); first += n) {
    std::stable_sort(first, first + n,
                     [&](const Choice& a, const Choice& b) { return mean(a) > mean(b); });
    std::move(first, first + best, std::back_inserter(kept));
  }
  return kept;
}

Result<std::string> NotRunning() {
  return Status(StatusCode::kNotFound, "the answer has ended", "id");
}

// Events of one request come in order; those of several may come from several text workers.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(std::shared_ptr<Engine> engine, ApiCall call, AnswerHead head,
             const AnswerMaker& format, TokenTotals* totals, std::shared_ptr<Exchange> exchange)
      : engine_(std::move(engine)),
        call_(std::move(call)),
        format_(format(call_, std::move(head))),
        totals_(totals),
        exchange_(std::move(exchange)),
        usages_(call_.requests.size()),
        choices_(call_.requests.size() * call_.requests.front().n),
        unfinished_(call_.requests.size()) {}

  // Submits what the call is made of. `key`: stands for the API key.
  void Run(std::vector<Request> requests, const std::string& key,
           std::shared_ptr<RunningAnswers> running, Deadlines* deadlines);

 private:
  void OnEvent(size_t request, TextDelta&& delta);
  void OnDisconnect();
  Result<std::string> Act(AnswerAction action);
  Result<std::string> Show();
  // It ends at once, and nothing more comes of it.
  Result<std::string> CancelForClient();
  // It ends with what has come: because the client wants no more, or its time is over.
  void Cut(FinishReason reason);
  void SendEvent(int index, const TextDelta& delta);
  void KeepEvent(int index, TextDelta&& delta);
  void Emit(const std::string& bytes);
  void Fail(const Status& status);
  void Finish();
  void CancelAll();

  // Constant after construction.
  const std::shared_ptr<Engine> engine_;
  const ApiCall call_;
  const std::unique_ptr<AnswerFormat> format_;  // its functions are called under the mutex
  TokenTotals* const totals_;
  const std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<RunningAnswers::Entry> entry_;  // set by Run where the answer has an id
  std::unique_ptr<Deadlines::Entry> deadline_;    // set by Run where the call has a timeout

  std::mutex mutex_;  // guards the rest; never held while the engine is called
  std::vector<RequestId> ids_;
  std::vector<Usage> usages_;    // of each request
  std::vector<Choice> choices_;  // of request r from r * n on
  int64_t kept_bytes_ = 0;       // of the log-probs in choices_
  size_t unfinished_;            // requests whose last event has not come
  bool submitting_ = true;       // until then nothing is sent: a prompt may yet be refused
  std::string held_;             // of the stream, while submitting
  bool streaming_ = false;       // the stream has begun
  bool begun_ = false;           // a token has come
  FinishReason cut_ = FinishReason::kNone;  // by Cut
  bool done_ = false;                       // answered, or nobody is there to answer
};

void Generation::Run(std::vector<Request> requests, const std::string& key,
                     std::shared_ptr<RunningAnswers> running, Deadlines* deadlines) {
  std::weak_ptr<Generation> weak = weak_from_this();
  if (call_.timeout_s) {
    deadline_ = deadlines->At(NowMicros() + static_cast<int64_t>(*call_.timeout_s * 1e6), [weak] {
      if (auto self = weak.lock()) self->Cut(FinishReason::kTimeout);
    });
  }
  if (std::string id = format_->id(); !id.empty()) {
    entry_ = std::make_unique<RunningAnswers::Entry>(
        std::move(running), key, std::move(id), [weak](AnswerAction action) {
          const auto self = weak.lock();
          return self == nullptr ? NotRunning() : self->Act(action);
        });
  }
  exchange_->OnDisconnect([weak] {
    if (auto self = weak.lock()) self->OnDisconnect();
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    auto id = engine_->Submit(
        std::move(requests[i]),
        [self = shared_from_this(), i](TextDelta&& delta) { self->OnEvent(i, std::move(delta)); });
    std::unique_lock lock(mutex_);
    if (id.ok()) ids_.push_back(*id);
    if (!id.ok() && !done_) Fail(id.status());
    const bool stop = done_, end = cut_ != FinishReason::kNone && id.ok();
    lock.unlock();
    if (stop) {
      CancelAll();
      return;
    }
    if (end) engine_->Cancel(*id);
  }
  std::lock_guard lock(mutex_);
  if (done_) return;
  submitting_ = false;
  if (call_.background) held_ += format_->Begin();
  if (!held_.empty()) Emit(std::exchange(held_, {}));
  if (unfinished_ == 0) Finish();
}

void Generation::OnEvent(size_t request, TextDelta&& delta) {
  bool cancel = false;
  totals_->generated += static_cast<int64_t>(delta.tokens.size());
  if (delta.last) totals_->prompt += delta.usage.prompt_tokens - delta.usage.cached_tokens;
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    begun_ = begun_ || !delta.tokens.empty();
    const bool late = cut_ == FinishReason::kTimeout && !begun_;
    if (cut_ != FinishReason::kNone && delta.finish == FinishReason::kCancelled)
      delta.finish = cut_;
    if (delta.last) {
      --unfinished_;
      usages_[request] = delta.usage;
    }
    if (late && delta.finish == FinishReason::kTimeout) {
      Fail(Status(StatusCode::kDeadlineExceeded,
                  StrCat("the request's timeout of ", *call_.timeout_s,
                         " s was over before the answer began; send it later or with a longer one"),
                  "timeout"));
    } else if (delta.finish == FinishReason::kError) {
      Fail(!delta.error.ok() ? delta.error : Status(StatusCode::kInternal, "the request failed"));
    } else if (delta.finish == FinishReason::kCancelled) {
      Fail(CancelledByServer());
    } else {
      const int index = static_cast<int>(request) * call_.requests.front().n + delta.choice;
      if (delta.finish == FinishReason::kAbsent) {
        choices_[index].finish = delta.finish;
      } else if (call_.stream) {
        SendEvent(index, delta);
      } else {
        KeepEvent(index, std::move(delta));
      }
      if (unfinished_ == 0 && !submitting_ && !done_) Finish();
    }
    cancel = done_ && unfinished_ > 0;
  }
  if (cancel) CancelAll();
}

void Generation::OnDisconnect() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  CancelAll();
}

Result<std::string> Generation::Act(AnswerAction action) {
  if (action == AnswerAction::kShow) return Show();
  if (action == AnswerAction::kCancel) return CancelForClient();
  std::unique_lock lock(mutex_);
  if (done_) return NotRunning();
  const std::vector<RequestId> ids = ids_;
  lock.unlock();
  if (action == AnswerAction::kStop) {
    Cut(FinishReason::kStop);
  } else {
    for (const RequestId id : ids) engine_->EndThinking(id);
  }
  return std::string();
}

Result<std::string> Generation::Show() {
  std::lock_guard lock(mutex_);
  std::optional<std::string> now = done_ ? std::nullopt : format_->Now();
  return now ? *std::move(now) : NotRunning();
}

Result<std::string> Generation::CancelForClient() {
  std::string body;
  {
    std::lock_guard lock(mutex_);
    if (done_ || !format_->Now()) return NotRunning();
    const std::string ending = format_->Cancel();
    body = format_->Now().value_or("");
    exchange_->Note("cancelled by its client",
                    {{"finish_reason", std::string(Name(FinishReason::kCancelled))}});
    if (call_.stream) {
      submitting_ = false;
      Emit(std::exchange(held_, {}) + ending);
      exchange_->EndStream(/*close=*/false);
    } else {
      HttpReply reply;
      reply.body = body;
      exchange_->Reply(std::move(reply));
    }
    done_ = true;
  }
  CancelAll();
  return body;
}

void Generation::Cut(FinishReason reason) {
  {
    std::lock_guard lock(mutex_);
    if (done_ || cut_ != FinishReason::kNone) return;
    cut_ = reason;
  }
  CancelAll();
}

void Generation::SendEvent(int index, const TextDelta& delta) {
  const std::string bytes = format_->Event(index, delta, &choices_[index]);
  if (delta.finish != FinishReason::kNone) {
    choices_[index].finish = delta.finish;
    choices_[index].stop_match = delta.stop_match;
  }
  if (!bytes.empty()) Emit(bytes);
}

void Generation::KeepEvent(int index, TextDelta&& delta) {
  Choice& choice = choices_[index];
  choice.text += delta.text;
  choice.reasoning += delta.reasoning;
  for (ToolCallDelta& piece : delta.tool_calls) {
    if (piece.name.empty()) {
      choice.tool_calls.back().arguments += piece.arguments;
    } else {
      choice.tool_calls.push_back(std::move(piece));
    }
  }
  choice.seed = delta.seed;
  for (const TokenInfo& token : delta.tokens) {
    choice.logprob_sum += token.logprob.value_or(0);
    choice.logprob_count += token.logprob ? 1 : 0;
  }
  if (call_.logprobs || call_.shows_ids) {
    for (TokenInfo& token : delta.tokens) {
      kept_bytes_ += static_cast<int64_t>(sizeof token + token.top.size() * sizeof(TopToken));
      choice.tokens.push_back(std::move(token));
    }
    if (kept_bytes_ > limits::kLogprobsBytesMax) {
      return Fail(InvalidArgument(
          StrCat("the log-probs of the answer take more than the limit of ",
                 limits::kLogprobsBytesMax,
                 " bytes; ask for fewer log-probs, tokens or answers, or stream it"),
          "logprobs"));
    }
  }
  // They come with the first event; every choice of the prompt shows them.
  const int n = call_.requests.front().n;
  const std::span<Choice> siblings(&choices_[index / n * n], static_cast<size_t>(n));
  if (!delta.prompt_tokens.empty()) {
    const auto shared =
        std::make_shared<const std::vector<TokenInfo>>(std::move(delta.prompt_tokens));
    for (Choice& sibling : siblings) sibling.prompt_tokens = shared;
  }
  if (!delta.prompt_ids.empty()) {
    const auto shared = std::make_shared<const std::vector<int32_t>>(std::move(delta.prompt_ids));
    for (Choice& sibling : siblings) sibling.prompt_ids = shared;
  }
  if (delta.finish != FinishReason::kNone) {
    choice.finish = delta.finish;
    choice.stop_match = std::move(delta.stop_match);
  }
}

void Generation::Emit(const std::string& bytes) {
  if (submitting_) {
    held_ += bytes;
    return;
  }
  if (!std::exchange(streaming_, true)) exchange_->StreamType(format_->stream_type());
  if (!exchange_->Stream(bytes)) done_ = true;
}

void Generation::Fail(const Status& failed) {
  done_ = true;
  // The engine knows the grammar, not the field that the client has sent it in.
  const Status status = failed.field() == "grammar"
                            ? Status(failed.code(), failed.message(), call_.grammar_field)
                            : failed;
  if (!streaming_) {
    exchange_->Reply(ErrorReply(status, call_.errors));
    return;
  }
  exchange_->Note(StrCat("the stream failed: ", status.message()), {{"error", status.message()}});
  exchange_->Stream(format_->Broken(status));
  exchange_->EndStream(/*close=*/true);
}

void Generation::Finish() {
  done_ = true;
  Usage usage;
  for (const Usage& one : usages_) {
    usage.prompt_tokens += one.prompt_tokens;
    usage.cached_tokens += one.cached_tokens;
    usage.completion_tokens += one.completion_tokens;
    usage.accepted_tokens += one.accepted_tokens;
    usage.rejected_tokens += one.rejected_tokens;
    usage.synthetic_acceptance = one.synthetic_acceptance;
    usage.verified_by_rejection |= one.verified_by_rejection;
    usage.queue_ms += one.queue_ms;
    usage.prefill_ms += one.prefill_ms;
    usage.decode_ms += one.decode_ms;
  }
  if (call_.best_n) choices_ = BestOf(std::move(choices_), call_.requests.front().n, *call_.best_n);
  exchange_->Note(NoteOf(usage, choices_), FieldsOf(usage, choices_));
  if (!call_.stream) {
    HttpReply reply;
    reply.body = format_->Whole(choices_, usage);
    exchange_->Reply(std::move(reply));
    return;
  }
  Emit(format_->End(choices_, usage));
  exchange_->EndStream(/*close=*/false);
}

void Generation::CancelAll() {
  std::vector<RequestId> ids;
  {
    std::lock_guard lock(mutex_);
    ids = ids_;
  }
  for (const RequestId id : ids) engine_->Cancel(id);
}

// The prompts' texts for `echo`.
Result<std::vector<std::string>> EchoTexts(const Engine& engine, const ApiCall& call,
                                           const std::atomic<bool>& gone) {
  std::vector<std::string> texts;
  for (size_t i = 0; call.echo && i < call.requests.size(); ++i) {
    const auto& prompt = call.requests[i].prompt;
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
      SLUICE_ASSIGN_OR_RETURN(std::string text,
                              engine.Detokenize(*ids, /*skip_special=*/false, &gone));
      texts.push_back(std::move(text));
    } else {
      texts.push_back(std::get<std::string>(prompt));
    }
  }
  return texts;
}

// Takes the requests out of the call and leaves in it what answers are told by.
std::vector<Request> TakeRequests(ApiCall* call) {
  std::vector<Request> requests = std::exchange(call->requests, {});
  for (Request& request : requests) call->requests.push_back(WithoutTexts(&request));
  return requests;
}

// Of one token id with its log-prob and text, in JSON.
constexpr int64_t kLogprobBytes = 100;

// At most as many tokens as the prompt has; its bytes bound those of a text.
int64_t PromptTokensBound(const Engine& engine, const Request& request) {
  const int64_t longest = engine.Info().max_model_len;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    return std::min<int64_t>(longest, static_cast<int64_t>(ids->size()));
  }
  const auto* text = std::get_if<std::string>(&request.prompt);
  // A tokenizer may add a token at each end.
  return text == nullptr ? longest
                         : std::min<int64_t>(longest, static_cast<int64_t>(text->size()) + 2);
}

// The tokens of a text or a conversation; ids count as they are.
Result<int64_t> CountPromptTokens(const Engine& engine, const Request& request,
                                  const std::atomic<bool>& gone) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    return static_cast<int64_t>(ids->size());
  }
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  std::string rendered;
  if (chat != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(rendered, engine.RenderChat(*chat, "", &gone));
  }
  const std::string& text = chat != nullptr ? rendered : std::get<std::string>(request.prompt);
  // Longer ones are left at their bound.
  if (text.size() > limits::kTokenizeBytesMax) return PromptTokensBound(engine, request);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, engine.Tokenize(text, true, true, &gone));
  return static_cast<int64_t>(ids.size());
}

// Refuses an answer whose prompts' log-probs alone would fill the memory, before any work on it.
Status CheckPromptLogprobs(const Engine& engine, const ApiCall& call,
                           const std::atomic<bool>& gone) {
  const Request& first = call.requests.front();
  if (!first.prompt_logprobs) return OkStatus();
  // A chat answer shows them once, others with each choice.
  const int64_t per_token =
      kLogprobBytes * (*first.prompt_logprobs + 1) * (call.chat ? 1 : first.n);
  int64_t tokens = 0;
  for (const Request& request : call.requests) tokens += PromptTokensBound(engine, request);
  if (tokens * per_token <= limits::kPromptLogprobsBytesMax) return OkStatus();
  tokens = 0;
  for (const Request& request : call.requests) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t count, CountPromptTokens(engine, request, gone));
    tokens += count;
    if (tokens * per_token > limits::kPromptLogprobsBytesMax) {
      return InvalidArgument(
          StrCat("prompt_logprobs would make the answer about ", tokens * per_token,
                 " bytes or longer; the limit is ", limits::kPromptLogprobsBytesMax,
                 "; ask for fewer log-probs, prompts or answers"),
          "prompt_logprobs");
    }
  }
  return OkStatus();
}

// Refuses prompts of which all but the last fill the queue, so that the last finds no place in it
// however long its client waits.
Status CheckQueuedTokens(const Engine& engine, const ApiCall& call, const std::atomic<bool>& gone) {
  const std::span<const Request> others(call.requests.data(), call.requests.size() - 1);
  const int64_t most = engine.Info().max_queue_tokens;
  int64_t tokens = 0, rest = 0;  // of those that were counted, and at most of the others
  for (const Request& request : others) rest += request.n * PromptTokensBound(engine, request);
  for (const Request& request : others) {
    if (tokens + rest < most) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const int64_t count, CountPromptTokens(engine, request, gone));
    rest -= request.n * PromptTokensBound(engine, request);
    tokens += request.n * count;
    if (tokens < most) continue;
    return InvalidArgument(
        StrCat("the prompts before the last have ", tokens,
               " tokens or more, those of each answer ",
               "counted, and fill the queue of this server, which takes ", most,
               " (--max-queue-tokens); send some of the prompts in another request"),
        "prompt");
  }
  return OkStatus();
}

}  // namespace

void StartGeneration(std::shared_ptr<Engine> engine, ApiCall call, AnswerHead head,
                     const AnswerMaker& format, const std::string& key, TokenTotals* totals,
                     const std::shared_ptr<RunningAnswers>& running, Deadlines* deadlines,
                     std::shared_ptr<Exchange> exchange) {
  const auto gone = GoneFlag(*exchange);
  if (const Status status = CheckQueuedTokens(*engine, call, *gone); !status.ok()) {
    exchange->Reply(ErrorReply(status, call.errors));
    return;
  }
  if (const Status status = CheckPromptLogprobs(*engine, call, *gone); !status.ok()) {
    exchange->Reply(ErrorReply(status, call.errors));
    return;
  }
  auto echoes = EchoTexts(*engine, call, *gone);
  if (!echoes.ok()) {
    exchange->Reply(ErrorReply(echoes.status(), call.errors));
    return;
  }
  std::vector<Request> requests = TakeRequests(&call);
  head.echoes = std::move(echoes).value();
  std::make_shared<Generation>(std::move(engine), std::move(call), std::move(head), format, totals,
                               std::move(exchange))
      ->Run(std::move(requests), key, running, deadlines);
}

}  // namespace sluice::server
