#include "server/openai/embedding_api.h"

#include <array>
#include <bit>
#include <charconv>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

constexpr size_t kUserBytesMax = 512;

using Input = std::variant<std::string, std::vector<int32_t>, ChatPrompt>;

// A string, a list of ids, or a list of either.
std::vector<Input> ReadInputs(Fields* fields, int vocab_size) {
  const OrderedJson* value = fields->Any("input");
  std::vector<Input> inputs;
  const bool list = value != nullptr && value->is_array() && !value->empty();
  if (value != nullptr && value->is_string()) {
    inputs.emplace_back(value->get<std::string>());
  } else if (list && value->front().is_number()) {
    inputs.emplace_back(ReadTokenIds(fields, "input", *value, vocab_size));
  } else if (list && value->size() > kEmbeddingInputsMax) {
    fields->Fail("input", StrCat("input has ", value->size(), " texts; the limit is ",
                                 kEmbeddingInputsMax, "; send the rest in another request"));
  } else if (list) {
    for (const OrderedJson& item : *value) {
      if (item.is_string()) {
        inputs.emplace_back(item.get<std::string>());
      } else if (item.is_array()) {
        inputs.emplace_back(ReadTokenIds(fields, "input", item, vocab_size));
      } else {
        fields->Fail("input", StrCat("input has an item that is ", ShownValue(item),
                                     "; each must be a text or a list of token ids"));
      }
    }
  } else {
    constexpr const char* kWanted = "a string, a list of token ids, or a list of either";
    const bool empty = value == nullptr || value->is_array();
    empty ? fields->Missing("input", kWanted) : fields->WrongType("input", *value, kWanted);
  }
  return inputs;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string Base64Of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  return Base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
}

void AppendFloats(const std::vector<float>& vector, std::string* out) {
  *out += '[';
  std::array<char, 32> digits;
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) *out += ',';
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), vector[i]).ptr;
    out->append(digits.data(), end);
  }
  *out += ']';
}

bool ReadTruncate(Fields* fields) {
  // vLLM's name: -1 cuts a text to what the model takes.
  const std::optional<int> tokens = fields->Int("truncate_prompt_tokens", -1, -1);
  const std::optional<bool> truncate = fields->Bool("truncate");
  return tokens.has_value() || truncate.value_or(false);
}

void ReadUser(Fields* fields) { fields->String("user", kUserBytesMax); }

Result<EmbeddingCall> ParseEmbeddingCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  EmbeddingCall call;
  call.model = model.name;
  Request request;
  request.embed = true;
  request.dimensions = fields.Int("dimensions", 1, kDimensionsMax);
  request.truncate = ReadTruncate(&fields);
  request.add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  request.priority = fields.Int("priority", -kPriorityMax, kPriorityMax).value_or(0);
  const std::string format = fields.String("encoding_format", 16).value_or("float");
  if (format != "float" && format != "base64") {
    fields.WrongValue("encoding_format", "float or base64");
  }
  call.base64 = format == "base64";
  ReadUser(&fields);
  call.timeout_s = ReadTimeout(&fields);
  std::vector<Input> inputs = ReadInputs(&fields, model.vocab_size);
  for (const Input& input : inputs) {
    const auto* text = std::get_if<std::string>(&input);
    const auto* ids = std::get_if<std::vector<int32_t>>(&input);
    if ((text != nullptr && text->empty()) || (ids != nullptr && ids->empty()))
      fields.Fail("input", "an input is empty; it must have at least one character or token");
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  for (Input& input : inputs) {
    call.requests.push_back(request);
    call.requests.back().prompt = std::move(input);
  }
  return call;
}

std::string EmbeddingAnswer(const EmbeddingCall& call,
                            const std::vector<std::vector<float>>& embeddings, const Usage& usage) {
  std::string body = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) body += ',';
    body += StrCat("{\"object\":\"embedding\",\"index\":", i, ",\"embedding\":");
    if (call.base64) {
      body += StrCat("\"", Base64Of(embeddings[i]), "\"");
    } else {
      AppendFloats(embeddings[i], &body);
    }
    body += '}';
  }
  body += StrCat("],\"model\":", DumpJson(OrderedJson(call.model)),
                 ",\"usage\":{\"prompt_tokens\":", usage.prompt_tokens,
                 ",\"total_tokens\":", usage.prompt_tokens, "}}");
  return body;
}

}  // namespace sluice::server
