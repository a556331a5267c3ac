#include "server/openai/text_api.h"

#include "base/str_cat.h"
#include "server/openai/logprobs.h"
#include "server/shared/accepted_fields.h"

namespace sluice::server {
namespace {

// A flag of two spellings, of which the first wins.
bool Flag(Fields* fields, std::string_view name, std::string_view other, bool otherwise) {
  const std::optional<bool> first = fields->Bool(name), second = fields->Bool(other);
  return first ? *first : second.value_or(otherwise);
}

}  // namespace

Result<std::string> Tokenize(const Engine& engine, const ModelFacts& model, std::string_view body,
                             const std::atomic<bool>& gone) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  std::optional<std::string> text = fields.String("prompt", limits::kTokenizeBytesMax);
  const std::optional<std::string> content = fields.String("content", limits::kTokenizeBytesMax);
  if (text && content) fields.Fail("content", "prompt and content are the same; send one of them");
  if (!text) text = content;
  if (!text) fields.Missing("prompt", "the text to tokenize");
  const bool add_special = Flag(&fields, "add_special_tokens", "add_special", true);
  const bool parse_special = fields.Bool("parse_special").value_or(true);
  const bool with_texts = Flag(&fields, "return_token_strs", "with_pieces", false);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          engine.Tokenize(*text, add_special, parse_special, &gone));
  OrderedJson answer;
  answer["tokens"] = ids;
  answer["count"] = ids.size();
  answer["max_model_len"] = engine.Info().max_model_len;
  if (with_texts) {
    OrderedJson texts = OrderedJson::array();
    for (const int32_t id : ids) {
      SLUICE_ASSIGN_OR_RETURN(const std::string piece, engine.Detokenize({id}, false, &gone));
      texts.push_back(TokenText(piece));
    }
    answer["token_strs"] = std::move(texts);
  }
  return DumpJson(answer);
}

Result<std::string> Detokenize(const Engine& engine, const ModelFacts& model, std::string_view body,
                               const std::atomic<bool>& gone) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  const OrderedJson* list = fields.Array("tokens", limits::kDetokenizeIdsMax);
  if (list == nullptr) fields.Missing("tokens", "a list of token ids");
  std::vector<int32_t> ids;
  if (list != nullptr) ids = ReadTokenIds(&fields, "tokens", *list, model.vocab_size);
  const bool skip_special = fields.Bool("skip_special_tokens").value_or(false);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_ASSIGN_OR_RETURN(const std::string text, engine.Detokenize(ids, skip_special, &gone));
  OrderedJson answer;
  answer["prompt"] = text;
  answer["content"] = text;
  return DumpJson(answer);
}

OrderedJson DescribeTokenizer(const Engine& engine) {
  const TokenizerInfo info = engine.DescribeTokenizer();
  OrderedJson json;
  for (const auto& [name, text] : {std::pair("bos_token", &info.bos_token),
                                   {"eos_token", &info.eos_token},
                                   {"unk_token", &info.unk_token},
                                   {"pad_token", &info.pad_token},
                                   {"chat_template", &info.chat_template}}) {
    json[name] = text->empty() ? OrderedJson() : OrderedJson(*text);
  }
  json["model_max_length"] = engine.Info().max_model_len;
  return json;
}

Result<std::string> ApplyTemplate(const Engine& engine, const ModelFacts& model,
                                  std::string_view body, const std::atomic<bool>& gone) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  const ChatPrompt chat = ReadChatFields(&fields).prompt;
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_ASSIGN_OR_RETURN(const std::string text, engine.RenderChat(chat, "", &gone));
  return DumpJson(OrderedJson{{"prompt", text}});
}

Result<std::string> CountMessageTokens(const Engine& engine, const ModelFacts& model,
                                       std::string_view body, const std::atomic<bool>& gone) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  Request request;
  bool shows_thinking = true;
  ReadAnthropicFields(&fields, &request, &shows_thinking);
  ReadAccepted(&fields, FieldPlace::kAnthropicRequest);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          engine.RenderChat(std::get<ChatPrompt>(request.prompt), "", &gone));
  // The template writes the special tokens itself.
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          engine.Tokenize(text, /*add_special=*/false, true, &gone));
  return DumpJson(OrderedJson{{"input_tokens", ids.size()}});
}

}  // namespace sluice::server
