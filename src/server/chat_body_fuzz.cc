// Bodies of the endpoints that generate: whatever they hold, they are read or refused, and what was
// read can be shown again.
#include "base/check.h"
#include "base/fuzz_target.h"
#include "server/api_call.h"
#include "server/errors.h"
#include "server/llama_api.h"
#include "server/ollama_api.h"
#include "server/responses_api.h"

namespace sluice::server {
namespace {

Result<ApiCall> ParseResponses(std::string_view body, const ModelFacts& model) {
  const auto stored = std::make_shared<const StoredResponse>(
      StoredResponse{"{}", R"([{"role":"user","content":"a"}])"});
  Result<ResponsesCall> asked =
      ParseResponsesCall(body, model, [&](const std::string&) { return stored; });
  if (!asked.ok()) return asked.status();
  CHECK(asked->messages.ends_with(']') && asked->messages != "[]", asked->messages);
  return std::move(asked->call);
}

Result<ApiCall> ParseGap(std::string_view body, const ModelFacts& model) {
  Infill infill;
  return ParseInfill(body, model, &infill);
}

}  // namespace
}  // namespace sluice::server

void sluice::FuzzInput(std::string_view body) {
  using namespace sluice::server;
  const ModelFacts model{"tiny", 1000};
  for (const auto read : {ParseChatCall, ParseCompletionCall, ParseMessagesCall, ParseResponses,
                          ParseOllamaChat, ParseOllamaGenerate, ParseLlamaCompletion, ParseGap}) {
    const Result<ApiCall> call = read(body, model);
    if (!call.ok()) {
      CHECK(HttpStatusOf(call.status().code()) / 100 == 4, call.status().message());
      CHECK(ParseJson(ErrorBody(call.status()), "an error").ok(), "not JSON");
      continue;
    }
    for (const Request& request : call->requests) {
      if (const auto* prompt = std::get_if<ChatPrompt>(&request.prompt)) {
        CHECK(ParseJson(prompt->messages_json, "messages").ok(), prompt->messages_json);
      }
    }
  }
}
