// The bodies of Ollama's /api/embed and /api/embeddings, and their answers.
#include "base/str_cat.h"
#include "server/ollama/ollama_answer.h"
#include "server/ollama/ollama_api.h"
#include "server/shared/accepted_fields.h"

namespace sluice::server {
namespace {

// One text or a list of them.
std::vector<std::string> ReadTexts(Fields* fields) {
  const OrderedJson* input = fields->Any("input");
  std::vector<std::string> texts;
  if (input == nullptr) {
    fields->Missing("input", "a text or a list of texts");
  } else if (input->is_string()) {
    texts.push_back(fields->String("input", kTextBytesMax).value_or(""));
  } else if (const OrderedJson* list = fields->Array("input", kEmbeddingInputsMax)) {
    for (const OrderedJson& text : *list) {
      if (!text.is_string()) {
        fields->Fail("input", StrCat("input has an item that is ", ShownValue(text),
                                     "; each must be a text"));
        break;
      }
      texts.push_back(text.get<std::string>());
    }
  }
  return texts;
}

// What both bodies have beside their texts.
EmbeddingCall ReadCommon(Fields* fields, const ModelFacts& model) {
  ReadOllamaModel(fields, "model", model);
  EmbeddingCall call;
  call.model = model.name;
  call.keep_alive_s = ReadKeepAlive(fields);
  if (const OrderedJson* value = fields->Object("options")) {
    Fields options(*value, "options.");
    ReadAccepted(&options, FieldPlace::kOllamaOptions);
    Sampling unused;  // of which a vector knows nothing
    ReadPenaltySpan(&options, &unused);
    fields->Take(options.Finish());
  }
  return call;
}

}  // namespace

Result<EmbeddingCall> ParseOllamaEmbed(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  EmbeddingCall call = ReadCommon(&fields, model);
  Request request;
  request.embed = true;
  request.truncate = fields.Bool("truncate").value_or(true);
  request.dimensions = fields.Int("dimensions", 1, kDimensionsMax);
  const std::vector<std::string> texts = ReadTexts(&fields);
  for (const std::string& text : texts) {
    if (text.empty()) fields.Fail("input", "a text of input is empty; it must have a character");
    call.requests.push_back(request);
    call.requests.back().prompt = text;
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return call;
}

std::string OllamaEmbedAnswer(const EmbeddingCall& call,
                              const std::vector<std::vector<float>>& embeddings,
                              const Usage& usage) {
  std::string body = StrCat("{\"model\":", DumpJson(OrderedJson(call.model)), ",\"embeddings\":[");
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) body += ',';
    AppendFloats(embeddings[i], &body);
  }
  body += StrCat(
      "],\"total_duration\":", static_cast<int64_t>((usage.queue_ms + usage.prefill_ms) * 1e6),
      ",\"load_duration\":0,\"prompt_eval_count\":", usage.prompt_tokens, "}");
  return body;
}

Result<EmbeddingCall> ParseOllamaEmbedOne(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  EmbeddingCall call = ReadCommon(&fields, model);
  std::string text = fields.String("prompt", kTextBytesMax).value_or("");
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  if (text.empty()) return call;
  Request& request = call.requests.emplace_back();
  request.embed = true;
  request.truncate = true;
  request.prompt = std::move(text);
  return call;
}

std::string OllamaEmbedOneAnswer(const EmbeddingCall&,
                                 const std::vector<std::vector<float>>& embeddings, const Usage&) {
  std::string body = "{\"embedding\":";
  AppendFloats(embeddings.empty() ? std::vector<float>() : embeddings[0], &body);
  return body + "}";
}

}  // namespace sluice::server
