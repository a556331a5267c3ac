// The body of Cohere's /v2/embed, and its answer.
#include <algorithm>
#include <array>

#include "base/str_cat.h"
#include "server/openai/embedding_api.h"

namespace sluice::server {
namespace {

constexpr size_t kEmbedTextBytesMax = 16u << 20;
constexpr size_t kEmbedNameBytesMax = 64;
constexpr size_t kPartsOfInputMax = 64;
constexpr size_t kTypesMax = 8;

// A text of the list `inputs`: an object with a list of parts.
std::string ReadInput(Fields* fields, const OrderedJson& value, size_t index) {
  const std::string path = StrCat("inputs[", index, "].");
  Fields input(value, path);
  std::string text;
  const OrderedJson* parts = input.Array("content", kPartsOfInputMax);
  if (parts == nullptr) input.Missing("content", "a list of text parts");
  for (size_t i = 0; parts != nullptr && i < parts->size() && input.ok(); ++i) {
    Fields part((*parts)[i], StrCat(path, "content[", i, "]."));
    const auto type = part.String("type", kEmbedNameBytesMax);
    if (part.ok() && type != "text") part.WrongContent(type.value_or(""), "text");
    const auto piece = part.String("text", kEmbedTextBytesMax);
    if (!piece) part.Missing("text", "the text");
    text += StrCat(i > 0 ? "\n" : "", piece.value_or(""));
    input.Take(part.Finish());
  }
  fields->Take(input.Finish());
  return text;
}

// Of the field `texts`, or of `inputs`.
std::vector<std::string> ReadTexts(Fields* fields) {
  const OrderedJson* texts = fields->Array("texts", kEmbeddingInputsMax);
  const OrderedJson* inputs = fields->Array("inputs", kEmbeddingInputsMax);
  if (texts != nullptr && inputs != nullptr) {
    fields->Fail("inputs", "texts and inputs are both there; send one of them");
  }
  const OrderedJson* list = texts != nullptr ? texts : inputs;
  if (list == nullptr || list->empty()) fields->Missing("texts", "a list of texts");
  std::vector<std::string> read;
  for (size_t i = 0; list != nullptr && i < list->size() && fields->ok(); ++i) {
    const OrderedJson& item = (*list)[i];
    if (texts != nullptr && !item.is_string()) {
      fields->Fail("texts",
                   StrCat("texts has an item that is ", ShownValue(item), "; each must be a text"));
      break;
    }
    read.push_back(texts != nullptr ? item.get<std::string>() : ReadInput(fields, item, i));
    if (read.back().empty() && fields->ok()) {
      fields->Fail(texts != nullptr ? "texts" : "inputs",
                   StrCat(texts != nullptr ? "texts" : "inputs", "[", i,
                          "] is empty; it must have at least one character"));
    }
  }
  return read;
}

void ReadTypes(Fields* fields, CohereEmbedCall* call) {
  const OrderedJson* types = fields->Array("embedding_types", kTypesMax);
  call->floats = types == nullptr;
  for (size_t i = 0; types != nullptr && i < types->size(); ++i) {
    const OrderedJson& type = (*types)[i];
    if (type == "float") {
      call->floats = true;
    } else if (type == "base64") {
      call->base64 = true;
    } else {
      fields->Fail("embedding_types", StrCat("embedding_types has an item that is ",
                                             ShownValue(type), "; each must be float or base64"));
    }
  }
  if (types != nullptr && types->empty()) fields->Missing("embedding_types", "float or base64");
}

}  // namespace

Result<CohereEmbedCall> ParseCohereEmbed(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  CohereEmbedCall call;
  constexpr std::array<std::string_view, 5> kUses = {"search_document", "search_query",
                                                     "classification", "clustering", "image"};
  const auto use = fields.String("input_type", kEmbedNameBytesMax);
  if (use && std::find(kUses.begin(), kUses.end(), *use) == kUses.end()) {
    fields.WrongValue("input_type",
                      "search_document, search_query, classification, clustering or image");
  }
  ReadTypes(&fields, &call);
  Request request;
  request.embed = true;
  request.dimensions = fields.Int("output_dimension", 1, kDimensionsMax);
  const std::string cut = fields.String("truncate", kEmbedNameBytesMax).value_or("END");
  if (cut != "NONE" && cut != "END") fields.WrongValue("truncate", "NONE or END");
  request.truncate = cut == "END";
  for (const char* name : {"images", "max_tokens"}) fields.OnlyValue(name, nullptr);
  fields.Int("priority", 0, 999);  // no request waits for another one's answer
  call.texts = ReadTexts(&fields);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  for (const std::string& text : call.texts) {
    call.requests.push_back(request);
    call.requests.back().prompt = text;
  }
  return call;
}

std::string CohereEmbedAnswer(const CohereEmbedCall& call,
                              const std::vector<std::vector<float>>& embeddings, const Usage& usage,
                              const std::string& id) {
  std::string body = StrCat("{\"id\":", DumpJson(OrderedJson(id)),
                            ",\"response_type\":\"embeddings_by_type\",\"embeddings\":{");
  if (call.floats) body += "\"float\":[";
  for (size_t i = 0; call.floats && i < embeddings.size(); ++i) {
    if (i > 0) body += ',';
    AppendFloats(embeddings[i], &body);
  }
  if (call.floats) body += call.base64 ? "]," : "]";
  if (call.base64) body += "\"base64\":[";
  for (size_t i = 0; call.base64 && i < embeddings.size(); ++i) {
    body += StrCat(i > 0 ? "," : "", "\"", Base64Of(embeddings[i]), "\"");
  }
  if (call.base64) body += "]";
  OrderedJson meta{{"api_version", {{"version", "2"}}}};
  meta["billed_units"] = {{"input_tokens", usage.prompt_tokens}};
  return StrCat(body, "},\"texts\":", DumpJson(OrderedJson(call.texts)),
                ",\"meta\":", DumpJson(meta), "}");
}

}  // namespace sluice::server
