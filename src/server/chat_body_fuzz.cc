// Bodies of the endpoints that generate: whatever they hold, they are read or refused, and what was
// read can be shown again. The first character of an input is the digit of the one that reads the
// rest: each has the time of an input to itself.
#include <iterator>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "server/http/errors.h"
#include "server/llama/llama_api.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/responses_api.h"
#include "server/shared/api_call.h"

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

constexpr decltype(&ParseChatCall) kReaders[] = {
    ParseChatCall,   ParseCompletionCall, ParseMessagesCall,    ParseResponses,
    ParseOllamaChat, ParseOllamaGenerate, ParseLlamaCompletion, ParseGap};

}  // namespace
}  // namespace sluice::server

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::server;
  if (input.empty()) return;
  const auto digit = static_cast<size_t>(static_cast<unsigned char>(input.front() - '0'));
  const ModelFacts model{"tiny", 1000, {}};
  const Result<ApiCall> call = kReaders[digit % std::size(kReaders)](input.substr(1), model);
  if (!call.ok()) {
    CHECK(HttpStatusOf(call.status().code()) / 100 == 4, call.status().message());
    CHECK(ParseJson(ErrorBody(call.status()), "an error").ok(), "not JSON");
    return;
  }
  for (const Request& request : call->requests) {
    if (const auto* prompt = std::get_if<ChatPrompt>(&request.prompt)) {
      CHECK(ParseJson(prompt->messages_json, "messages").ok(), prompt->messages_json);
    }
  }
}
