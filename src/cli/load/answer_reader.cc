#include "cli/load/answer_reader.h"

#include "base/json.h"

namespace sluice::load {
namespace {

constexpr size_t kDetailBytesMax = 300;

int TokensOf(const Json& usage, const char* name) {
  const auto found = usage.find(name);
  constexpr int64_t kTokensMax = 1 << 30;
  if (found == usage.end() || !found->is_number_integer()) return 0;
  const auto tokens = found->get<int64_t>();
  return tokens > 0 && tokens <= kTokensMax ? static_cast<int>(tokens) : 0;
}

}  // namespace

std::string ErrorSentence(std::string_view body) {
  std::string text(body);
  if (const auto json = ParseJson(body, "the error"); json.ok() && json->is_object()) {
    const auto error = json->find("error");
    const Json& holder = error != json->end() && error->is_object() ? *error : *json;
    for (const char* name : {"message", "error", "detail"}) {
      const auto found = holder.find(name);
      if (found == holder.end() || !found->is_string()) continue;
      text = found->get<std::string>();
      break;
    }
  }
  return text.substr(0, kDetailBytesMax);
}

void AnswerReader::Fail(std::string_view failure, std::string_view detail) {
  if (outcome_.end == Outcome::End::kFailed) return;
  outcome_.end = Outcome::End::kFailed;
  outcome_.failure = failure;
  outcome_.detail = detail;
}

void AnswerReader::Add(std::string_view bytes, int64_t now_us) {
  if (outcome_.end == Outcome::End::kFailed) return;
  const Status status = events_.Add(bytes, [&](std::string_view data) { OnData(data, now_us); });
  if (!status.ok()) Fail("the answer is no stream of completions", status.message());
}

void AnswerReader::OnData(std::string_view data, int64_t now_us) {
  if (data == "[DONE]") {
    ended_ = true;
    return;
  }
  const auto json = ParseJson(data, "a piece of the answer");
  if (!json.ok() || !json->is_object()) {
    return Fail("the answer is no stream of completions",
                json.ok() ? "a piece of it is no object" : json.status().message());
  }
  if (json->contains("error")) return Fail("an error in the stream", ErrorSentence(data));
  if (const auto usage = json->find("usage"); usage != json->end() && usage->is_object()) {
    outcome_.input_tokens = TokensOf(*usage, "prompt_tokens");
    outcome_.output_tokens = TokensOf(*usage, "completion_tokens");
  }
  const auto choices = json->find("choices");
  if (choices == json->end() || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  if (!choice.is_object()) return;
  outcome_.last_us = now_us;
  const auto text = choice.find("text");
  if (text != choice.end() && text->is_string() && !text->get_ref<const std::string&>().empty()) {
    outcome_.chunk_us.push_back(now_us);
  }
  const auto finish = choice.find("finish_reason");
  if (finish != choice.end() && finish->is_string()) ended_ = true;
}

void AnswerReader::Finish(int64_t now_us) {
  if (outcome_.end == Outcome::End::kFailed) return;
  if (!ended_) return Fail("the answer was cut", "the stream ended without a finish reason");
  outcome_.end = Outcome::End::kCompleted;
  if (outcome_.last_us == 0) outcome_.last_us = now_us;
  // An answer of tokens without a text, which are kept from readers, has its time nevertheless.
  if (outcome_.chunk_us.empty()) outcome_.chunk_us.push_back(outcome_.last_us);
  if (outcome_.output_tokens == 0) {
    outcome_.output_tokens = static_cast<int>(outcome_.chunk_us.size());
  }
}

}  // namespace sluice::load
