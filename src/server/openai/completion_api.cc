// The body of /v1/completions: prompts in four forms, echo and log-probs, then the shared fields.
#include "base/str_cat.h"
#include "server/shared/api_call.h"

namespace sluice::server {
namespace {

// OpenAI's default for this endpoint.
constexpr int kDefaultMaxTokens = 16;

using Prompt = std::variant<std::string, std::vector<int32_t>, ChatPrompt>;

// A string, a list of ids, or a list of either.
std::vector<Prompt> ReadPrompts(Fields* fields, int vocab_size) {
  const OrderedJson* value = fields->Any("prompt");
  std::vector<Prompt> prompts;
  if (value != nullptr && value->is_string()) {
    prompts.emplace_back(value->get<std::string>());
  } else if (value != nullptr && value->is_array() && !value->empty() &&
             value->front().is_number()) {
    prompts.emplace_back(ReadTokenIds(fields, "prompt", *value, vocab_size));
  } else if (value != nullptr && value->is_array() && !value->empty()) {
    if (value->size() > kPromptsMax) {
      fields->Fail("prompt",
                   StrCat("prompt has ", value->size(), " prompts; the limit is ", kPromptsMax));
      return prompts;
    }
    for (const OrderedJson& item : *value) {
      if (item.is_string()) {
        prompts.emplace_back(item.get<std::string>());
      } else if (item.is_array()) {
        prompts.emplace_back(ReadTokenIds(fields, "prompt", item, vocab_size));
      } else {
        fields->Fail("prompt", StrCat("prompt has an item that is ", ShownValue(item),
                                      "; each must be a text or a list of token ids"));
      }
    }
  } else {
    constexpr const char* kWanted = "a string, a list of token ids, or a list of either";
    const bool empty = value == nullptr || value->is_array();
    empty ? fields->Missing("prompt", kWanted) : fields->WrongType("prompt", *value, kWanted);
  }
  return prompts;
}

void CheckPrompts(Fields* fields, const std::vector<Prompt>& prompts, int n,
                  const std::vector<std::string>& choice) {
  for (const Prompt& prompt : prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    if ((text != nullptr && text->empty()) || (ids != nullptr && ids->empty())) {
      fields->Fail("prompt", "a prompt is empty; it must have at least one token");
    }
  }
  size_t choice_bytes = 0;  // every prompt has its own
  for (const std::string& text : choice) choice_bytes += text.size() * prompts.size();
  if (prompts.size() > 1 && choice_bytes > limits::kChoiceTextBytesMax) {
    fields->Fail("choice",
                 StrCat("the texts of choice have ", choice_bytes, " bytes for ", prompts.size(),
                        " prompts; the limit of all together is ", limits::kChoiceTextBytesMax));
  }
  if (static_cast<int>(prompts.size()) * n > kAnswersMax) {
    fields->Fail("n", StrCat(prompts.size(), " prompts with n of ", n, " ask for ",
                             prompts.size() * n, " answers; the limit is ", kAnswersMax));
  }
}

// Of so many answers the n likeliest are told; of a beam search, its width.
void ReadBestOf(Fields* fields, ApiCall* call, Request* request) {
  const std::optional<int> best_of = fields->Int("best_of", 1, limits::kChoicesMax);
  if (!best_of) return;
  if (request->beams.on()) {
    const std::vector<int> widths = {*best_of};
    if (fields->Any("beam_width") != nullptr && request->beams.widths != widths)
      fields->Differ("best_of", "beam_width");
    request->beams.widths = widths;
    return;
  }
  if (*best_of < request->n) {
    fields->Fail("best_of",
                 StrCat("best_of is ", *best_of, "; it must be at least n, ", request->n));
  }
  if (*best_of <= request->n) return;
  if (call->stream) {
    fields->Fail("best_of", StrCat("best_of is ", *best_of, " and n is ", request->n,
                                   "; which answers are the best is known when all have ended, so "
                                   "they cannot be streamed: send stream false"));
  }
  call->best_n = request->n;
  request->n = *best_of;
  if (!request->logprobs) request->logprobs = 0;
}

}  // namespace

Result<ApiCall> ParseCompletionCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  ApiCall call;
  Request request;
  ReadShared(&fields, model, kDefaultMaxTokens, &call, &request);
  call.logprobs = fields.Int("logprobs", 0, limits::kTopLogprobsMax);
  call.echo = fields.Bool("echo").value_or(false);
  request.logprobs = call.logprobs;
  if (call.echo && call.logprobs && !call.prompt_logprobs) request.prompt_logprobs = call.logprobs;
  if (call.echo && call.logprobs && call.stream && request.n > 1) {
    fields.Fail("n",
                StrCat("n is ", request.n,
                       "; echo with logprobs is not supported of several streamed answers: send n "
                       "of 1, or stream false"));
  }
  request.add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  ReadBestOf(&fields, &call, &request);
  fields.OnlyValue("suffix", "");
  std::vector<Prompt> prompts = ReadPrompts(&fields, model.vocab_size);
  CheckPrompts(&fields, prompts, request.n, request.choice);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  for (Prompt& prompt : prompts) {
    call.requests.push_back(request);
    call.requests.back().prompt = std::move(prompt);
  }
  return call;
}

}  // namespace sluice::server
