#include "text/history_style.h"

#include <string>
#include <utility>

#include "base/str_cat.h"

namespace sluice::text {
namespace {

constexpr const char* kArguments = R"({"probe_key": "probe_value"})";

// A question, a call of a tool, and what the tool gave.
OrderedJson Probe(OrderedJson arguments, OrderedJson content) {
  const OrderedJson function = {{"name", "probe_tool"}, {"arguments", std::move(arguments)}};
  // Mistral's templates ask for ids of nine letters and digits.
  const char* const id = "callprobe";
  const OrderedJson call = {{"id", id}, {"type", "function"}, {"function", function}};
  OrderedJson context;
  context["messages"] = {
      {{"role", "user"}, {"content", "question"}},
      {{"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", {call}}},
      {{"role", "tool"}, {"tool_call_id", id}, {"name", "probe_tool"}, {"content", "answer"}}};
  const OrderedJson parameters = {{"type", "object"},
                                  {"properties", {{"probe_key", {{"type", "string"}}}}}};
  context["tools"] = {
      {{"type", "function"},
       {"function",
        {{"name", "probe_tool"}, {"description", "a tool"}, {"parameters", parameters}}}}};
  context["bos_token"] = context["eos_token"] = "";
  context["add_generation_prompt"] = true;
  return context;
}

// Whether that conversation is rendered and shows `wanted`.
bool Shows(const ChatTemplate& chat_template, const OrderedJson& arguments,
           const OrderedJson& content, const char* wanted) {
  const auto text = chat_template.Render(Probe(arguments, content), "2024-01-01T00:00:00");
  const bool none = content.is_null() && text.ok() && text->find("None") != std::string::npos;
  return text.ok() && !none && text->find(wanted) != std::string::npos;
}

size_t CountValues(const OrderedJson& value) {
  size_t count = 1;
  if (value.is_structured()) {
    for (const OrderedJson& item : value) count += CountValues(item) + (value.is_object() ? 1 : 0);
  }
  return count;
}

Status AdaptArguments(size_t* values_left, OrderedJson* arguments) {
  if (!arguments->is_string()) return OkStatus();
  const std::string text = arguments->get<std::string>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *arguments = OrderedJson::object();
    return OkStatus();
  }
  // Any JSON value takes two bytes with what stands between it and the next.
  JsonLimits limits;
  limits.values_max = *values_left;
  auto parsed = ParseOrderedJson(text, "arguments", limits);
  if (!parsed.ok() && text.size() / 2 > *values_left) {
    return InvalidArgument("messages has arguments of too many values, or of no JSON", "messages");
  }
  if (!parsed.ok() || !parsed->is_object()) return OkStatus();
  *values_left -= CountValues(*parsed);
  *arguments = *std::move(parsed);
  return OkStatus();
}

}  // namespace

HistoryStyle ProbeHistory(const ChatTemplate& chat_template) {
  const OrderedJson object = OrderedJson::parse(kArguments);
  const auto shows = [&](const OrderedJson& arguments, const char* wanted) {
    return std::pair(Shows(chat_template, arguments, nullptr, wanted),
                     Shows(chat_template, arguments, "", wanted));
  };
  const auto [text_null, text_empty] = shows(kArguments, kArguments);
  const auto [object_null, object_empty] = shows(object, "probe_value");
  HistoryStyle style;
  style.object_arguments = !text_null && !text_empty && (object_null || object_empty);
  if (style.object_arguments) {
    style.text_content = !object_null;
  } else if (text_null || text_empty) {
    style.text_content = !text_null;
  } else {  // it shows no calls
    style.text_content = !Shows(chat_template, kArguments, nullptr, "");
  }
  return style;
}

Status AdaptHistory(HistoryStyle style, size_t values_max, OrderedJson* messages) {
  for (OrderedJson& message : *messages) {
    if (!message.is_object()) continue;
    const auto calls = message.find("tool_calls");
    const bool called = calls != message.end() && calls->is_array() && !calls->empty();
    const auto content = message.find("content");
    if (content != message.end() && content->is_null() && (!called || style.text_content)) {
      *content = "";
    }
    if (!called || !style.object_arguments) continue;
    for (OrderedJson& call : *calls) {
      if (!call.is_object() || !call.contains("function")) continue;
      OrderedJson& function = call["function"];
      if (!function.is_object() || !function.contains("arguments")) continue;
      SLUICE_RETURN_IF_ERROR(AdaptArguments(&values_max, &function["arguments"]));
    }
  }
  return OkStatus();
}

}  // namespace sluice::text
