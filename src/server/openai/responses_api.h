// The body of OpenAI's /v1/responses, checked: its items become a conversation in the form of chat.
// Pure functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/openai/response_store.h"
#include "server/shared/api_call.h"

namespace sluice::server {

struct ResponsesCall {
  ApiCall call;
  std::string messages;  // the conversation without the instructions, as chat messages
  OrderedJson shown;     // the fields of the body that the answer repeats
  bool store = true;
  bool background = false;
  std::shared_ptr<void> held;  // what accounts for these texts, as Request::held does
};

// Gives a stored response by its id, or null.
using ResponseFinder = std::function<std::shared_ptr<const StoredResponse>(const std::string& id)>;

// Errors are kInvalidArgument with the field's name, or kNotFound for the model and for the
// response to go on from.
Result<ResponsesCall> ParseResponsesCall(std::string_view body, const ModelFacts& model,
                                         const ResponseFinder& find);

// The field `input`, a text or a list of items, as chat messages behind those of `before`.
OrderedJson ReadResponsesInput(Fields* fields, OrderedJson before);

// A text, or a list of text parts joined by line ends; `path`: of the object. Nothing where the
// field is absent.
std::optional<std::string> ReadResponsesText(Fields* fields, std::string_view name,
                                             const std::string& path);

// {input_tokens, output_tokens, total_tokens} with their details.
OrderedJson ResponseUsage(const Usage& usage);

}  // namespace sluice::server
