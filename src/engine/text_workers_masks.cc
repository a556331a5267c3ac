// TextWorkers: what answers are held to, and logits that a processor changes.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/thread_time.h"
#include "base/visible.h"
#include "engine/process_logits.h"
#include "engine/request_check.h"
#include "engine/text_workers.h"
#include "text/forced_text.h"

namespace sluice::engine {
namespace {

// Of the prompt's end, in which a tag may stand that opens the thinking.
constexpr size_t kTagTokens = 32;
// Of CPU time for what a prompt has begun: others' masks wait meanwhile. A schema's grammar takes
// some microseconds for a token.
constexpr int64_t kBegunMicrosMax = 500'000;
constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string_view BehindSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

// At least so many bytes of the prompt's end, if it has them.
std::string BytesAtEnd(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                       size_t bytes) {
  std::vector<std::string> pieces;
  size_t size = 0;
  for (size_t i = prompt.size(); size < bytes && i-- > 0;) {
    pieces.push_back(tokenizer.PieceBytes(prompt[i], /*render_special=*/true));
    size += pieces.back().size();
  }
  std::string all;
  for (size_t i = pieces.size(); i-- > 0;) all += pieces[i];
  return all;
}

// How many tokens at the prompt's end are this text; none where no whole tokens are.
std::optional<size_t> TokensAtEnd(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                                  std::string_view text) {
  size_t tokens = 0, left = text.size();
  while (left > 0) {
    if (tokens == prompt.size()) return std::nullopt;
    const std::string piece =
        tokenizer.PieceBytes(prompt[prompt.size() - ++tokens], /*render_special=*/true);
    if (!text.substr(0, left).ends_with(piece)) return std::nullopt;
    left -= piece.size();
  }
  return tokens;
}

// `rest`: of what the prompt has begun.
Status DoesNotFit(const RequestState& state, std::string_view rest) {
  const std::string_view what = state.holds_calls ? "the call of a tool"
                                : state.grammar != nullptr
                                    ? text::NameOf(state.request.grammar.kind)
                                    : "choice";
  return InvalidArgument(StrCat("the answer is held to ", what,
                                " together with the last message's text, with which it "
                                "goes on, and there ",
                                Quote(rest),
                                " does not fit, or takes too long to follow; end that message "
                                "before it, or leave it out"),
                         "messages");
}

}  // namespace

void TextWorkers::NoteBegun(RequestState* state) const {
  const Request& request = state->request;
  const auto* const chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || !chat->continue_final_message) return;
  const bool held = state->grammar != nullptr || !request.choice.empty();
  if (!held && !request.parsing.tools && !request.parsing.reasoning) return;  // nobody asks for it
  const auto messages = ParseOrderedJson(chat->messages_json, "messages");
  if (!messages.ok() || !messages->is_array() || messages->empty()) return;
  const OrderedJson& last = messages->back();
  if (!last.is_object() || !last.contains("content") || !last["content"].is_string()) return;
  state->begun = last["content"].get<std::string>();
  // The template may have taken the spaces at its end away.
  const text::Tokenizer& tokenizer = *context_.text->tokenizer();
  const std::string shown = BytesAtEnd(tokenizer, state->prompt, state->begun.size());
  if (!shown.ends_with(state->begun)) {
    const size_t kept = state->begun.find_last_not_of(kWhiteSpace) + 1;
    if (shown.ends_with(std::string_view(state->begun).substr(0, kept))) state->begun.resize(kept);
  }
  state->begun_tokens = TokensAtEnd(tokenizer, state->prompt, state->begun).value_or(0);
}

std::string TextWorkers::PromptEnd(const RequestState& state) const {
  if (!state.begun.empty() && state.begun_tokens == 0) return {};
  const auto before = std::span(state.prompt).first(state.prompt.size() - state.begun_tokens);
  return context_.text->tokenizer()->Decode(before.last(std::min(before.size(), kTagTokens)),
                                            /*render_special=*/true);
}

bool TextWorkers::OpensThinking(const RequestState& state) const {
  const text::ThinkTags* const tags =
      state.request.parsing.reasoning ? context_.output->think_tags() : nullptr;
  if (tags == nullptr) return false;
  const bool opened = context_.output->OpensThinking(PromptEnd(state)) ||
                      BehindSpaces(state.begun).starts_with(tags->begin);
  // Within the text of an answer a tag is but named.
  return opened && state.begun.find(tags->end) == std::string::npos;
}

std::string_view TextWorkers::BegunAnswer(const RequestState& state) const {
  const text::ThinkTags* const tags =
      state.request.parsing.reasoning ? context_.output->think_tags() : nullptr;
  const std::string_view begun = state.begun;
  if (tags == nullptr) return begun;
  const bool thought = context_.output->OpensThinking(PromptEnd(state)) ||
                       BehindSpaces(begun).starts_with(tags->begin);
  return thought ? BehindSpaces(begun.substr(begun.find(tags->end) + tags->end.size())) : begun;
}

Status TextWorkers::PassBegun(const RequestState& state,
                              std::vector<std::unique_ptr<text::AnswerWalk>>* walks) const {
  const std::string_view answer = BegunAnswer(state);
  if (answer.empty()) return OkStatus();
  const text::Tokenizer& tokenizer = *context_.text->tokenizer();
  // As the prompt has it, where special tokens may stand; else as text is cut within another one.
  std::vector<int32_t> ids;
  if (const auto tokens = TokensAtEnd(tokenizer, state.prompt, answer)) {
    ids.assign(state.prompt.end() - static_cast<int64_t>(*tokens), state.prompt.end());
  } else {
    ids = text::EncodeInside(tokenizer, answer);
  }
  text::AnswerWalk& first = *walks->front();
  const int64_t start = ThreadMicros();
  size_t passed = 0;  // bytes
  for (const int32_t id : ids) {
    const bool timely = ThreadMicros() - start < kBegunMicrosMax;
    if (!timely || !first.Go(id)) break;
    passed += tokenizer.PieceBytes(id, /*render_special=*/true).size();
  }
  if (passed < answer.size()) return DoesNotFit(state, answer.substr(passed));
  for (size_t i = 1; i < walks->size(); ++i) (*walks)[i] = first.Copy();
  return OkStatus();
}

bool TextWorkers::MayHoldThinking(const RequestState& state) const {
  const Request& request = state.request;
  const text::ThinkTags* const tags = context_.output->think_tags();
  if (tags == nullptr || !request.parsing.reasoning || request.beams.on()) return false;
  // What must not be repeated may be the tag.
  if (ResolveSampling(request, context_.defaults).no_repeat_ngram > 0) return false;
  return request.logits_processor == nullptr &&
         !context_.constraints->Thinking(tags->begin, tags->end)->end_ids().empty();
}

Result<std::vector<std::unique_ptr<text::AnswerWalk>>> TextWorkers::MakeWalks(
    std::span<const int32_t> prompt_tail, RequestState* state) const {
  using Walk = std::unique_ptr<text::AnswerWalk>;
  Request& request = state->request;
  const text::ThinkTags* const tags =
      request.parsing.reasoning ? context_.output->think_tags() : nullptr;
  const bool opened = OpensThinking(*state);
  const bool starts =
      !opened && text::Detokenizer::StartsText(context_.text->tokenizer().get(), prompt_tail);
  const int count = request.beams.on() ? 1 : request.n;
  std::vector<Walk> walks;
  if (!request.choice.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        walks, context_.constraints->WalkChoices(std::move(request.choice), starts, count));
  } else {
    for (int i = 0; i < count && state->grammar != nullptr; ++i) {
      walks.push_back(state->grammar->Walk(starts));
    }
  }
  // What an answer is held to begins where the thinking ends. A free one is held once it has to end
  // that (HoldThinking).
  const bool ends = request.thinking_budget || (state->end_thinking && MayHoldThinking(*state));
  const bool thinks = walks.empty() ? ends : opened || state->holds_calls;
  if (tags == nullptr || !thinks) return walks;
  text::ThinkingWalk::Options options = {.opened = opened,
                                         .tokens_max = request.thinking_budget,
                                         .end_now = &state->end_thinking,
                                         .may_end = !request.ignore_eos};
  if (options.tokens_max && *options.tokens_max < 0) options.tokens_max.reset();
  auto thinking = context_.constraints->Thinking(tags->begin, tags->end);
  if (request.thinking_budget && thinking->end_ids().empty()) {
    return InvalidArgument(
        "the model has no tokens that spell the tag that ends its thinking; "
        "send no thinking_budget",
        "thinking_budget");
  }
  const bool free = walks.empty();
  walks.resize(static_cast<size_t>(count));
  for (Walk& walk : walks) {
    Walk behind = free || opened ? nullptr : state->grammar->Walk(/*starts_text=*/false);
    if (opened) std::swap(walk, behind);
    walk =
        std::make_unique<text::ThinkingWalk>(thinking, options, std::move(walk), std::move(behind));
  }
  return walks;
}

Status TextWorkers::Constrain(std::span<const int32_t> prompt_tail, RequestState* state) const {
  Request& request = state->request;
  if (request.max_tokens == 0) return OkStatus();
  const bool held = state->grammar != nullptr || !request.choice.empty();
  SLUICE_ASSIGN_OR_RETURN(auto walks, MakeWalks(prompt_tail, state));
  if (held && !state->begun.empty() && !OpensThinking(*state))
    SLUICE_RETURN_IF_ERROR(PassBegun(*state, &walks));
  std::vector<uint32_t> words;
  for (auto& walk : walks) {
    auto& constraint = state->constraints.emplace_back(
        std::make_unique<Constraint>(*context_.constraints, std::move(walk), request.min_tokens));
    constraint->FillMasks({}, &words);
    if (constraint->stuck()) return NothingFits(request, "begin");
    context_.masks->Put(&constraint->place, 0, {}, /*forced=*/false, &words);
  }
  // The others of a search begin as copies of this one.
  const size_t beams = walks.empty() ? 0 : static_cast<size_t>(request.beams.width());
  while (state->constraints.size() < beams) {
    state->constraints.push_back(
        std::make_unique<Constraint>(*context_.constraints, nullptr, request.min_tokens));
  }
  return OkStatus();
}

// Of an answer that is free to think for as long as it likes nobody keeps where it stands, so that
// it costs nothing; its parser knows whether it thinks. Of a tag that is half written already all
// is written once more.
void TextWorkers::HoldThinking(RequestState* state) const {
  const Request& request = state->request;
  const bool begun = !state->choices.empty() && !state->ended;
  if (!begun || !state->constraints.empty() || !MayHoldThinking(*state)) return;
  const text::ThinkTags& tags = *context_.output->think_tags();
  const auto thinking = context_.constraints->Thinking(tags.begin, tags.end);
  std::vector<uint32_t> words;
  state->constraints.resize(state->choices.size());
  for (size_t i = 0; i < state->choices.size(); ++i) {
    const ChoiceState& choice = state->choices[i];
    if (choice.finished || choice.parser == nullptr || choice.parser->answers()) continue;
    auto walk = std::make_unique<text::ThinkingWalk>(
        thinking,
        text::ThinkingWalk::Options{.opened = choice.parser->thinks(),
                                    .tokens_max = {},
                                    .end_now = &state->end_thinking,
                                    .may_end = !request.ignore_eos},
        nullptr, nullptr);
    auto& constraint = state->constraints[i] = std::make_unique<Constraint>(
        *context_.constraints, std::move(walk), request.min_tokens, choice.tokens,
        /*passes_ends=*/request.ignore_eos);
    constraint->FillMasks({}, &words);
    context_.masks->Put(&constraint->place, constraint->drawn(), {}, /*forced=*/false, &words);
    context_.mask(state->id, static_cast<int>(i));
  }
}

void TextWorkers::AdvanceMask(const UpdateBatch& batch, const ChoiceUpdate& update,
                              Worker* worker) const {
  if (update.finish != schedule::FinishReason::kNone || update.token_count == 0) return;
  if (update.beams) return AdvanceBeams(batch.IdsOf(update), update.request, worker);
  if (update.request->constraints[update.choice] == nullptr) return;
  Constraint& constraint = *update.request->constraints[update.choice];
  const std::span<const int32_t> ids = batch.IdsOf(update);
  std::vector<uint32_t>* const words = &worker->mask_words;
  if (update.drafts) {
    constraint.FillMasks(ids, words);
    context_.masks->Put(&constraint.place, constraint.drawn(), ids, /*forced=*/false, words);
    return;
  }
  constraint.Take(ids);
  constraint.FillMasksAhead(context_.forced_drafts, &worker->forced, words);
  context_.masks->Put(&constraint.place, constraint.drawn(), worker->forced, /*forced=*/true,
                      words);
}

void TextWorkers::AdvanceBeams(std::span<const int32_t> moves, RequestState* state,
                               Worker* worker) const {
  std::vector<uint32_t>* const words = &worker->mask_words;
  for (; !moves.empty(); moves = moves.subspan(3)) {
    const int32_t member = moves[0], parent = moves[1];
    Constraint& constraint = *state->constraints[member];
    if (parent != member) constraint.Follow(*state->constraints[parent]);
    constraint.Take(moves.subspan(2, 1));
    constraint.FillMasks({}, words);
    if (constraint.stuck()) std::fill(words->begin(), words->end(), 0);  // StepLoop::DropIfStuck
    context_.masks->Put(&constraint.place, constraint.drawn(), {}, /*forced=*/false, words);
  }
}

void TextWorkers::AdvanceLogits(const UpdateBatch& batch, const ChoiceUpdate& update) {
  RequestState& request = *update.request;
  ChoiceState& choice = request.choices[update.choice];
  if (update.drafts || choice.finished) return;
  if (!update.logits) {
    const std::span<const int32_t> ids = batch.IdsOf(update);
    choice.drawn.insert(choice.drawn.end(), ids.begin(), ids.end());
    return;
  }
  MaskBoard::Logits* const logits = request.logits[update.choice].get();
  const Status status = ProcessLogits(
      *request.request.logits_processor,
      {.prompt = request.prompt, .answer = choice.drawn, .choice = update.choice}, logits->values);
  if (status.ok()) return context_.masks->Return(logits);
  Abandon(&request, status);
}

}  // namespace sluice::engine
