// Any bytes as a chat template and, behind the first NUL, as its context.

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace sluice::text {
namespace {

const OrderedJson& DefaultContext() {
  static const OrderedJson* const kContext = new OrderedJson(OrderedJson::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Grüße"}]},
      {"role": "assistant", "content": null, "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]},
      {"role": "tool", "content": "<b>\u2028\n"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "n": 7, "f": -2.5, "s": "Hello World"})"));
  return *kContext;
}

void RenderBytes(std::string_view bytes) {
  RenderLimits limits;
  limits.steps_max = 10'000;
  limits.output_bytes_max = 64 * 1024;
  const size_t end = bytes.find('\0');
  const auto parsed = ChatTemplate::Parse(std::string(bytes.substr(0, end)));
  if (!parsed.ok()) {
    CHECK(!parsed.status().message().empty(), "an error without a message");
    return;
  }
  const OrderedJson* context = &DefaultContext();
  Result<OrderedJson> given = InvalidArgument("none");
  if (end != std::string_view::npos) {
    given = ParseOrderedJson(bytes.substr(end + 1), "context");
    if (given.ok() && given->is_object()) context = &*given;
  }
  const auto first = (*parsed)->Render(*context, "2025-03-07T14:05:09", limits);
  const auto second = (*parsed)->Render(*context, "2025-03-07T14:05:09", limits);
  CHECK(first.ok() == second.ok(), "a template renders in one run alone");
  if (first.ok()) {
    CHECK(*first == *second, "a template renders another text the second time");
    CHECK(first->size() <= limits.output_bytes_max, "the output is over its limit");
  }
}

}  // namespace
}  // namespace sluice::text

void sluice::FuzzInput(std::string_view input) { text::RenderBytes(input); }
