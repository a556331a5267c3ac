// Bodies of the endpoints that generate: whatever they hold, they are read or refused, and what was
// read can be shown again.
#include "base/check.h"
#include "base/fuzz_target.h"
#include "server/api_call.h"
#include "server/errors.h"

void sluice::FuzzInput(std::string_view body) {
  using namespace sluice::server;
  const ModelFacts model{"tiny", 1000};
  for (const bool chat : {true, false}) {
    const Result<ApiCall> call =
        chat ? ParseChatCall(body, model) : ParseCompletionCall(body, model);
    if (!call.ok()) {
      CHECK(HttpStatusOf(call.status().code()) / 100 == 4, call.status().message());
      CHECK(ParseJson(ErrorBody(call.status()), "an error").ok(), "not JSON");
      continue;
    }
    CHECK(!call->requests.empty(), "a call without a prompt");
    for (const Request& request : call->requests) {
      if (const auto* prompt = std::get_if<ChatPrompt>(&request.prompt)) {
        CHECK(ParseJson(prompt->messages_json, "messages").ok(), prompt->messages_json);
      }
    }
  }
}
