// TextWorkers: what answers are held to, and logits that a processor changes.
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "engine/process_logits.h"
#include "engine/request_check.h"
#include "engine/text_workers.h"

namespace sluice::engine {
namespace {

// Of the prompt's end, in which a tag may stand that opens the thinking.
constexpr size_t kTagTokens = 32;

}  // namespace

void TextWorkers::NoteBegun(RequestState* state) const {
  const auto* const chat = std::get_if<ChatPrompt>(&state->request.prompt);
  if (chat == nullptr || !chat->continue_final_message || !state->request.parsing.reasoning) return;
  if (context_.output->think_tags() == nullptr) return;  // nobody asks for it
  const auto messages = ParseOrderedJson(chat->messages_json, "messages");
  if (!messages.ok() || !messages->is_array() || messages->empty()) return;
  const OrderedJson& last = messages->back();
  if (!last.is_object() || !last.contains("content") || !last["content"].is_string()) return;
  state->begun = last["content"].get<std::string>();
}

std::string TextWorkers::PromptEnd(const RequestState& state) const {
  // What was begun may have opened the thinking long ago; within its text a tag is but named.
  if (const text::ThinkTags* const tags = context_.output->think_tags(); tags != nullptr) {
    const std::string_view begun =
        std::string_view(state.begun)
            .substr(std::min(state.begun.find_first_not_of(" \t\r\n"), state.begun.size()));
    if (begun.starts_with(tags->begin) && begun.find(tags->end) == std::string_view::npos)
      return std::string(tags->begin);
  }
  const std::span<const int32_t> all(state.prompt);
  return context_.text->tokenizer()->Decode(all.last(std::min(all.size(), kTagTokens)),
                                            /*render_special=*/true);
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
  const bool opened = tags != nullptr && context_.output->OpensThinking(PromptEnd(*state));
  const bool starts =
      !opened && text::Detokenizer::StartsText(context_.text->tokenizer().get(), prompt_tail);
  std::vector<Walk> walks;
  if (!request.choice.empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        walks, context_.constraints->WalkChoices(std::move(request.choice), starts, request.n));
  } else {
    for (int i = 0; i < request.n && state->grammar != nullptr; ++i) {
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
  walks.resize(static_cast<size_t>(request.n));
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
  SLUICE_ASSIGN_OR_RETURN(auto walks, MakeWalks(prompt_tail, state));
  std::vector<uint32_t> words;
  for (auto& walk : walks) {
    auto& constraint = state->constraints.emplace_back(
        std::make_unique<Constraint>(*context_.constraints, std::move(walk), request.min_tokens));
    constraint->FillMasks({}, &words);
    if (constraint->stuck()) return NothingFits(request, "begin");
    context_.masks->Put(&constraint->place, 0, {}, /*forced=*/false, &words);
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
