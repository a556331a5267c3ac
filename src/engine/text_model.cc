#include "engine/text_model.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "text/cancel.h"

namespace sluice::engine {
namespace {

// Of the text that one request's ids become: as much as a rendered conversation may have, and 64
// bytes for each of as many ids as a request may have. Texts have about 4.
constexpr size_t kDetokenizedBytesMax = 16u << 20;

// Of a prompt that is too long, so many times the context is tokenized.
constexpr size_t kCountedContexts = 4;

// Of a conversation, and of its tools. Each value costs the time and the memory of hundreds of
// bytes of text, whoever takes a turn next waits for it, and a real conversation has a few in
// a message.
constexpr size_t kValuesMax = 65536;

// The form that Qwen3-Reranker was trained on, by its model card: what stands before and behind the
// two texts, and the instruction where nobody gives another.
constexpr char kJudgePrefix[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
constexpr char kJudgeInstruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";
constexpr char kJudgeSuffix[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

Result<OrderedJson> ParsePart(const std::string& json, std::string_view name) {
  JsonLimits limits;
  limits.values_max = kValuesMax;
  auto parsed = ParseOrderedJson(json, name, limits);
  if (!parsed.ok()) return InvalidArgument(parsed.status().message(), std::string(name));
  return parsed;
}

// Stands behind the text of a message that stays open, while the template is rendered: what comes
// behind it is left out. The space at its end shows whether the template keeps those of a message.
constexpr char kOpenEnd[] = "[open end 7d1f3a]\t";
constexpr std::string_view kSpaces = " \t\r\n";

Status MarkOpenEnd(OrderedJson* messages) {
  OrderedJson* const last = messages->empty() ? nullptr : &messages->back();
  if (last == nullptr || !last->is_object() || !last->contains("content") ||
      last->value("role", OrderedJson()) != "assistant" || !(*last)["content"].is_string()) {
    return InvalidArgument(
        "continue_final_message needs a last message of the assistant with a text to go on with",
        "messages");
  }
  if (last->contains("tool_calls")) {
    return InvalidArgument(
        "the last message calls tools, so its text has ended; send what the tools gave, or a text "
        "alone to go on with",
        "messages");
  }
  (*last)["content"].get_ref<std::string&>() += kOpenEnd;
  return OkStatus();
}

// Up to where the mark stands. `last`: the text that it stands behind, of which a template may have
// taken spaces away; where it has nothing else, those in front of the mark are the template's own.
Result<std::string> CutAtOpenEnd(std::string rendered, std::string_view last) {
  const std::string_view mark(kOpenEnd), word = mark.substr(0, mark.size() - 1);
  const size_t at = rendered.rfind(word);
  if (at == std::string::npos) {
    return InvalidArgument(
        "the model's chat template does not show the text of the last message, so the answer "
        "cannot go on with it; end with a user's message",
        "messages");
  }
  const bool trimmed = rendered.compare(at, mark.size(), mark) != 0;
  rendered.resize(at);
  const bool says = last.find_first_not_of(kSpaces) != std::string_view::npos;
  if (trimmed && says) rendered.resize(rendered.find_last_not_of(kSpaces) + 1);
  return rendered;
}

// Of a model of token ids alone.
constexpr char kCompletionsRemedy[] =
    "this request, which is about texts, cannot be answered; /v1/completions takes token ids as "
    "prompt";
Status NoTexts(const char* remedy) {
  return InvalidArgument(
      StrCat("the model has no tokenizer, so that it takes and gives token ids alone: ", remedy));
}

Status NoTokenizer() {
  return {StatusCode::kFailedPrecondition, "this file has a chat template but no tokenizer"};
}

}  // namespace

Result<std::unique_ptr<TextModelImpl>> TextModelImpl::Make(files::ModelFiles files) {
  auto model = std::make_unique<TextModelImpl>();
  model->declared_length_ = files.config.context_length;
  model->judges_ = files.config.pooling && files.config.pooling->answer;
  if (!files.tokenizer.pieces.empty() || files.tokenizer.model == files::TokenizerModel::kNone) {
    SLUICE_ASSIGN_OR_RETURN(model->tokenizer_, text::Tokenizer::Make(std::move(files.tokenizer)));
  }
  if (!files.chat_template.empty()) {
    model->template_source_ = std::move(files.chat_template);
    auto parsed = text::ChatTemplate::Parse(model->template_source_);
    if (!parsed.ok()) {
      return Status(StatusCode::kBadModel,
                    StrCat("the chat template does not parse: ", parsed.status().message()));
    }
    model->template_ = *std::move(parsed);
    model->history_ = text::ProbeHistory(*model->template_);
  }
  return model;
}

Result<std::vector<int32_t>> TextModelImpl::Tokenize(const std::string& text, bool add_special,
                                                     bool parse_special,
                                                     const std::atomic<bool>* cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  text::EncodeOptions options;
  options.add_special = add_special;
  options.parse_special = parse_special;
  options.cancelled = cancelled;
  return tokenizer_->Encode(text, options);
}

Result<std::string> TextModelImpl::Detokenize(const std::vector<int32_t>& ids, bool skip_special,
                                              const std::atomic<bool>* cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  if (!has_texts()) {
    return InvalidArgument("the model has no tokenizer, so that its tokens have no text", "tokens");
  }
  // All of it is a table's entries one after the other, however many.
  if (text::Cancel(cancelled).asked()) return text::GivenUp();
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer_->vocab_size()) {
      return InvalidArgument(
          StrCat("tokens has the id ", id, "; the vocabulary has ", tokenizer_->vocab_size()),
          "tokens");
    }
  }
  return tokenizer_->Decode(ids, !skip_special);
}

TokenizerInfo TextModelImpl::DescribeTokenizer() const {
  TokenizerInfo info{.chat_template = template_source_};
  if (tokenizer_ == nullptr) return info;
  const files::TokenizerData& data = tokenizer_->data();
  info.bos_token = SpecialText(data.bos_id);
  info.eos_token = SpecialText(data.eos_id);
  info.unk_token = SpecialText(data.unk_id);
  info.pad_token = SpecialText(data.pad_id);
  return info;
}

Status TextModelImpl::CheckTextOf(const std::vector<int32_t>& ids, bool skip_special) const {
  size_t bytes = 0;
  for (const int32_t id : ids) {
    bytes += tokenizer_ == nullptr ? 0 : tokenizer_->PieceBytes(id, !skip_special).size();
    if (bytes <= kDetokenizedBytesMax) continue;
    return InvalidArgument(StrCat("tokens are a text of more than ", kDetokenizedBytesMax,
                                  " bytes, the limit; send fewer"),
                           "tokens");
  }
  return OkStatus();
}

std::string TextModelImpl::SpecialText(const std::optional<int32_t>& id) const {
  return id ? tokenizer_->PieceBytes(*id, true) : std::string();
}

Result<OrderedJson> TextModelImpl::ContextOf(const ChatPrompt& chat) const {
  if (tokenizer_ != nullptr && !has_texts()) return NoTexts(kCompletionsRemedy);
  if (template_ == nullptr) {
    return InvalidArgument("the model has no chat template; use a plain prompt", "messages");
  }
  OrderedJson context = OrderedJson::object();
  if (tokenizer_ != nullptr) {
    context["bos_token"] = SpecialText(tokenizer_->data().bos_id);
    context["eos_token"] = SpecialText(tokenizer_->data().eos_id);
  }
  SLUICE_ASSIGN_OR_RETURN(context["messages"], ParsePart(chat.messages_json, "messages"));
  if (!context["messages"].is_array())
    return InvalidArgument("messages is not an array", "messages");
  if (chat.adapt_history) {
    SLUICE_RETURN_IF_ERROR(text::AdaptHistory(history_, kValuesMax, &context["messages"]));
  }
  if (chat.continue_final_message) SLUICE_RETURN_IF_ERROR(MarkOpenEnd(&context["messages"]));
  context["tools"] = nullptr;
  if (!chat.tools_json.empty()) {
    SLUICE_ASSIGN_OR_RETURN(context["tools"], ParsePart(chat.tools_json, "tools"));
  }
  context["add_generation_prompt"] = chat.add_generation_prompt && !chat.continue_final_message;
  if (!chat.template_kwargs_json.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const OrderedJson extra,
                            ParsePart(chat.template_kwargs_json, "chat_template_kwargs"));
    if (!extra.is_object()) {
      return InvalidArgument("chat_template_kwargs is not an object", "chat_template_kwargs");
    }
    for (const auto& [key, value] : extra.items()) {
      if (key == "messages" || key == "tools") {
        return InvalidArgument(StrCat("chat_template_kwargs may not set ", key),
                               "chat_template_kwargs");
      }
      context[key] = value;
    }
  }
  return context;
}

Result<std::string> TextModelImpl::Render(const OrderedJson& context, bool open,
                                          const std::string& now,
                                          const std::atomic<bool>* cancelled) const {
  text::RenderLimits limits;
  limits.cancelled = cancelled;
  auto rendered = template_->Render(
      context, now.empty() ? std::nullopt : std::optional<std::string>(now), limits);
  if (!rendered.ok()) {
    return Status(rendered.status().code(), rendered.status().message(), "messages");
  }
  if (open) {
    const auto& last = context["messages"].back()["content"].get_ref<const std::string&>();
    const size_t mark = sizeof(kOpenEnd) - 1;
    return CutAtOpenEnd(*std::move(rendered), std::string_view(last).substr(0, last.size() - mark));
  }
  return rendered;
}

Result<std::string> TextModelImpl::RenderChat(const ChatPrompt& chat, const std::string& now,
                                              const std::atomic<bool>* cancelled) const {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson context, ContextOf(chat));
  return Render(context, chat.continue_final_message, now, cancelled);
}

Result<std::string> TextModelImpl::RenderPrompt(const ChatPrompt& chat, const std::string& now,
                                                const std::atomic<bool>* cancelled) const {
  if (text::Cancel(cancelled).asked()) return text::GivenUp();
  SLUICE_ASSIGN_OR_RETURN(OrderedJson context, ContextOf(chat));
  const bool open = chat.continue_final_message;
  SLUICE_ASSIGN_OR_RETURN(std::string text, Render(context, open, now, cancelled));
  if (chat.tools_json.empty()) return text;
  // At one time of day, lest the clock make the difference.
  const std::string moment = "2024-01-01T00:00:00";
  const auto with_tools = Render(context, open, moment, cancelled);
  context["tools"] = nullptr;
  const auto plain = Render(context, open, moment, cancelled);
  if (text::Cancel(cancelled).asked()) return text::GivenUp();
  if (with_tools.ok() && plain.ok() && *with_tools == *plain) {
    return InvalidArgument(
        "the model's chat template takes no tools, so the model would not see them; leave tools "
        "out "
        "or use another model",
        "tools");
  }
  return text;
}

Result<std::vector<int32_t>> TextModelImpl::EncodePrompt(const Request& request,
                                                         const std::string& text, bool add_special,
                                                         int tokens_max,
                                                         const std::atomic<bool>& cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  SLUICE_RETURN_IF_ERROR(CheckTextLength(request, text, tokens_max));
  text::EncodeOptions options;
  options.add_special = add_special;
  // Far enough to tell the length of a prompt that is a little too long.
  const size_t counted_max = kCountedContexts * static_cast<size_t>(tokens_max);
  options.tokens_max = counted_max;
  options.cancelled = &cancelled;
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_->Encode(text, options));
  if (ids.size() > counted_max) {
    return TooLong(request, StrCat("more than ", counted_max, " tokens"), tokens_max);
  }
  return ids;
}

Result<std::vector<int32_t>> TextModelImpl::EncodeBeginning(
    const std::string& text, const Request& request, int tokens_max,
    const std::atomic<bool>& cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  text::EncodeOptions options;
  options.add_special = request.add_special_tokens;
  options.tokens_max = static_cast<size_t>(tokens_max);
  options.cancelled = &cancelled;
  return tokenizer_->Encode(text, options);
}

void TextModelImpl::Truncate(size_t tokens_max, const Request& request,
                             std::vector<int32_t>* ids) const {
  if (ids->size() <= tokens_max) return;
  ids->resize(tokens_max);
  const bool added =
      request.add_special_tokens && std::holds_alternative<std::string>(request.prompt);
  if (!added || tokenizer_ == nullptr) return;
  const std::vector<int32_t>& suffix = tokenizer_->data().suffix_ids;
  if (suffix.size() <= tokens_max)
    std::copy(suffix.begin(), suffix.end(), ids->end() - suffix.size());
}

Status TextModelImpl::CheckLength(const Request& request, int tokens_max) const {
  const auto* text = std::get_if<std::string>(&request.prompt);
  return text == nullptr || request.truncate || request.text_tokens_max
             ? OkStatus()
             : CheckTextLength(request, *text, tokens_max);
}

int64_t TextModelImpl::LeastTokens(const Request& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    return static_cast<int64_t>(ids->size());
  }
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  const std::string& text =
      chat != nullptr ? chat->messages_json : std::get<std::string>(request.prompt);
  return tokenizer_ == nullptr ? 0 : static_cast<int64_t>(tokenizer_->LeastTokens(text));
}

bool TextModelImpl::has_texts() const {
  return tokenizer_ != nullptr && tokenizer_->data().model != files::TokenizerModel::kNone;
}

Status TextModelImpl::CheckIdsAlone(const Request& request) const {
  if (has_texts()) return OkStatus();
  if (request.embed && std::holds_alternative<std::string>(request.prompt)) {
    return NoTexts("its texts can only be given as token ids, as input of /v1/embeddings");
  }
  if (std::holds_alternative<ChatPrompt>(request.prompt)) return NoTexts(kCompletionsRemedy);
  const char* text = std::holds_alternative<std::string>(request.prompt) ? "prompt"
                     : !request.stop.empty()                             ? "stop"
                     : !request.choice.empty()                           ? "choice"
                     : request.grammar.kind != Grammar::Kind::kNone      ? "grammar"
                     : !request.prediction.empty()                       ? "prediction"
                                                                         : nullptr;
  if (text == nullptr) return OkStatus();
  return InvalidArgument(
      StrCat("the model has no tokenizer, so that it takes and gives token ids alone, and ", text,
             " is about text; send ids, as prompt and stop_token_ids"),
      text);
}

Status TextModelImpl::CheckTextLength(const Request& request, const std::string& text,
                                      int tokens_max) const {
  if (tokenizer_ == nullptr || tokenizer_->LeastTokens(text) <= static_cast<size_t>(tokens_max)) {
    return OkStatus();
  }
  return TooLong(request, StrCat(text.size(), " bytes"), tokens_max);
}

Status TextModelImpl::TooLong(const Request& request, const std::string& what,
                              int tokens_max) const {
  const bool may_grow = tokens_max < declared_length_;
  if (request.embed) {
    return Status(
        StatusCode::kTooLarge,
        StrCat("the text has ", what, "; the model takes ", tokens_max,
               "; shorten it or send truncate", may_grow ? ", or raise --max-model-len" : ""),
        "input");
  }
  return Status(StatusCode::kTooLarge,
                StrCat("the prompt has ", what, " and the context of ", tokens_max,
                       " tokens has no room for it and an answer; shorten the prompt",
                       may_grow ? " or raise --max-model-len" : ""),
                "prompt");
}

Result<std::vector<int32_t>> TextModelImpl::LimitedIds(const Request& request,
                                                       const std::string& text, int tokens_max,
                                                       const std::atomic<bool>& cancelled) const {
  // One more token than the context has tells that the text is too long for it.
  const int most = std::min(*request.text_tokens_max, tokens_max + 1);
  Request bare = request;
  bare.add_special_tokens = false;
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, EncodeBeginning(text, bare, most, cancelled));
  if (ids.size() > static_cast<size_t>(most)) ids.resize(static_cast<size_t>(most));
  return ids;
}

Result<std::vector<int32_t>> TextModelImpl::LimitedPrompt(
    const Request& request, int tokens_max, const std::atomic<bool>& cancelled) const {
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<int32_t> ids,
      LimitedIds(request, std::get<std::string>(request.prompt), tokens_max, cancelled));
  if (!request.add_special_tokens) return ids;
  const files::TokenizerData& data = tokenizer_->data();
  ids.insert(ids.begin(), data.prefix_ids.begin(), data.prefix_ids.end());
  ids.insert(ids.end(), data.suffix_ids.begin(), data.suffix_ids.end());
  return ids;
}

// The document's own tokens begin where those of what stands before it alone end to be the same: a
// token in which both meet is one of the document.
Result<std::vector<int32_t>> TextModelImpl::JudgedTexts(const Request& request, int tokens_max,
                                                        const text::EncodeOptions& options) const {
  std::string texts =
      StrCat("<Instruct>: ", kJudgeInstruction,
             "\n<Query>: ", std::get<std::string>(request.prompt), "\n<Document>: ");
  std::vector<int32_t> before;
  text::EncodeOptions limited = options;
  if (request.text_tokens_max) {
    SLUICE_ASSIGN_OR_RETURN(before, tokenizer_->Encode(texts, options));
    const size_t most = before.size() + static_cast<size_t>(*request.text_tokens_max);
    limited.tokens_max = std::min(options.tokens_max, most);
  }
  texts += *request.second_text;
  if (!request.truncate && !request.text_tokens_max)
    SLUICE_RETURN_IF_ERROR(CheckTextLength(request, texts, tokens_max));
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_->Encode(texts, limited));
  if (!request.text_tokens_max) return ids;
  const auto parts = std::mismatch(ids.begin(), ids.end(), before.begin(), before.end()).first;
  const auto most = (parts - ids.begin()) + static_cast<ptrdiff_t>(*request.text_tokens_max);
  if (static_cast<ptrdiff_t>(ids.size()) > most) ids.resize(static_cast<size_t>(most));
  return ids;
}

// Special tokens are those of the frame alone, whatever the texts say. Of what is too long
// the end of the second text is lost.
Result<std::vector<int32_t>> TextModelImpl::JudgeIds(const Request& request, int tokens_max,
                                                     const std::atomic<bool>& cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  text::EncodeOptions options;
  options.add_special = false;
  options.cancelled = &cancelled;
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_->Encode(kJudgePrefix, options));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> suffix,
                          tokenizer_->Encode(kJudgeSuffix, options));
  options.parse_special = false;
  options.tokens_max = kCountedContexts * static_cast<size_t>(tokens_max);
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> between, JudgedTexts(request, tokens_max, options));
  const size_t taken = ids.size() + suffix.size();
  const auto room = static_cast<size_t>(std::max(0, tokens_max - static_cast<int>(taken)));
  if (request.truncate && between.size() > room) between.resize(room);
  ids.insert(ids.end(), between.begin(), between.end());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

// As the tokenizer's file puts two texts together. What is too long loses the end of the second.
Result<std::vector<int32_t>> TextModelImpl::PairIds(const Request& request, int tokens_max,
                                                    const std::atomic<bool>& cancelled,
                                                    int* second_text) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  const files::TokenizerData& data = tokenizer_->data();
  if (data.between_ids.empty()) {
    return InvalidArgument("the model's tokenizer does not say how two texts are put together",
                           "model");
  }
  Request part = request;
  part.add_special_tokens = false;
  const auto encode = [&](const std::string& text) {
    return request.truncate ? EncodeBeginning(text, part, tokens_max, cancelled)
                            : EncodePrompt(part, text, false, tokens_max, cancelled);
  };
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> first,
                          encode(std::get<std::string>(request.prompt)));
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> second,
                          request.text_tokens_max
                              ? LimitedIds(request, *request.second_text, tokens_max, cancelled)
                              : encode(*request.second_text));
  std::vector<int32_t> ids = data.prefix_ids;
  ids.insert(ids.end(), first.begin(), first.end());
  ids.insert(ids.end(), data.between_ids.begin(), data.between_ids.end());
  *second_text = static_cast<int>(ids.size());
  const size_t taken = ids.size() + data.suffix_ids.size();
  const auto room = static_cast<size_t>(std::max(0, tokens_max - static_cast<int>(taken)));
  if (request.truncate && second.size() > room) second.resize(room);
  ids.insert(ids.end(), second.begin(), second.end());
  ids.insert(ids.end(), data.suffix_ids.begin(), data.suffix_ids.end());
  return ids;
}

Result<std::vector<int32_t>> TextModelImpl::PromptIds(const Request& request, int tokens_max,
                                                      const std::atomic<bool>& cancelled,
                                                      int* second_text) const {
  std::vector<int32_t> ids;
  if (request.second_text && judges_) {
    SLUICE_ASSIGN_OR_RETURN(ids, JudgeIds(request, tokens_max, cancelled));
  } else if (request.second_text) {
    SLUICE_ASSIGN_OR_RETURN(ids, PairIds(request, tokens_max, cancelled, second_text));
  } else {
    SLUICE_ASSIGN_OR_RETURN(ids, TokensOf(request, tokens_max, cancelled));
  }
  if (request.truncate && !request.second_text)
    Truncate(static_cast<size_t>(tokens_max), request, &ids);
  const size_t answer = request.max_tokens == 0 ? 0 : 1;
  if (ids.size() + answer > static_cast<size_t>(tokens_max)) {
    return TooLong(request, StrCat(ids.size(), " tokens"), tokens_max);
  }
  return ids;
}

Result<std::vector<int32_t>> TextModelImpl::PredictionIds(
    const std::string& text, int tokens_max, const std::atomic<bool>& cancelled) const {
  if (tokenizer_ == nullptr) return NoTokenizer();
  text::EncodeOptions options;
  options.add_special = options.parse_special = false;
  options.tokens_max = tokens_max;
  options.cancelled = &cancelled;
  std::vector<int32_t> ids;
  const bool fits = tokenizer_->LeastTokens(text) <= options.tokens_max;
  if (fits) {
    SLUICE_ASSIGN_OR_RETURN(ids, tokenizer_->Encode(text, options));
  }
  if (fits && ids.size() <= options.tokens_max) return ids;
  return InvalidArgument(StrCat("prediction has more tokens than the context, which has ",
                                tokens_max, "; send the part that the answer may quote"),
                         "prediction");
}

Result<std::vector<int32_t>> TextModelImpl::TokensOf(const Request& request, int tokens_max,
                                                     const std::atomic<bool>& cancelled) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    if (request.text_tokens_max) return LimitedPrompt(request, tokens_max, cancelled);
    if (request.truncate) return EncodeBeginning(*text, request, tokens_max, cancelled);
    return EncodePrompt(request, *text, request.add_special_tokens, tokens_max, cancelled);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          RenderPrompt(std::get<ChatPrompt>(request.prompt), "", &cancelled));
  // The template writes the special tokens itself.
  return EncodePrompt(request, text, false, tokens_max, cancelled);
}

}  // namespace sluice::engine

namespace sluice {

Result<std::unique_ptr<TextModel>> TextModel::Open(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string resolved, files::ResolveModel(path));
  SLUICE_ASSIGN_OR_RETURN(files::ModelFiles files, files::OpenText(resolved));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<engine::TextModelImpl> model,
                          engine::TextModelImpl::Make(std::move(files)));
  return std::unique_ptr<TextModel>(std::move(model));
}

}  // namespace sluice
