#include "text/history_style.h"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

std::shared_ptr<const ChatTemplate> Parsed(const std::string& source) {
  return ChatTemplate::Parse(source).value();
}

// A template that shows contents as `content` has it and calls as `arguments` has it.
HistoryStyle StyleOf(const std::string& content, const std::string& arguments) {
  return ProbeHistory(*Parsed("{% for message in messages %}" + content +
                              "{% for call in message.tool_calls or [] %}"
                              "{% set arguments = call.function.arguments %}" +
                              arguments + "{% endfor %}{% endfor %}"));
}

constexpr const char* kContent = "{{ message.content or '' }}";

TEST(HistoryStyleTest, TemplatesThatQuoteOrWalkArgumentsGetAnObject) {
  EXPECT_TRUE(StyleOf(kContent, "{{ arguments | tojson }}").object_arguments);
  EXPECT_TRUE(StyleOf(kContent,
                      "{% for key, value in arguments | items %}{{ key }}={{ value }}"
                      "{% endfor %}")
                  .object_arguments);
}

TEST(HistoryStyleTest, OthersKeepTheText) {
  EXPECT_FALSE(StyleOf(kContent, "{{ arguments }}").object_arguments);
  EXPECT_FALSE(StyleOf(kContent, "{{ '{' + arguments + '}' }}").object_arguments);
  EXPECT_FALSE(StyleOf(kContent,
                       "{% if arguments is string %}{{ arguments }}{% else %}"
                       "{{ arguments | tojson }}{% endif %}")
                   .object_arguments);
  EXPECT_FALSE(StyleOf(kContent, "").object_arguments);  // shows no calls at all
}

TEST(HistoryStyleTest, AContentThatWouldPrintNoneOrFailIsAnEmptyText) {
  EXPECT_TRUE(StyleOf("{{ message.content }}", "{{ arguments }}").text_content);
  EXPECT_TRUE(StyleOf("{{ message.content | trim }}", "{{ arguments | tojson }}").text_content);
  EXPECT_TRUE(StyleOf("{{ 'a: ' + message.content }}", "{{ arguments }}").text_content);
  EXPECT_TRUE(StyleOf("{{ 'a: ' + message.content }}", "").text_content);  // shows no calls
  EXPECT_FALSE(StyleOf(kContent, "{{ arguments }}").text_content);
  // Shows a call only where the content is none.
  EXPECT_FALSE(
      StyleOf("", "{% if message.content is none %}{{ arguments }}{% endif %}").text_content);
}

OrderedJson Adapted(HistoryStyle style, const char* messages) {
  OrderedJson value = OrderedJson::parse(messages);
  const Status status = AdaptHistory(style, 100, &value);
  EXPECT_TRUE(status.ok()) << status.message();
  return value;
}

TEST(HistoryStyleTest, ChangesWhatTheStyleAsksFor) {
  const char* call =
      R"([{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"z\":1,\"a\":[2]}"}}]}])";
  EXPECT_EQ(Adapted({}, call), OrderedJson::parse(call));
  EXPECT_EQ(
      Adapted({.object_arguments = true, .text_content = true}, call).dump(),
      R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":[2]}}}]}])");
}

TEST(HistoryStyleTest, AnEmptyTextIsNoArgumentsAndOtherTextsStay) {
  const auto arguments = [](const std::string& text) {
    OrderedJson messages = OrderedJson::parse(
        R"([{"tool_calls":[{"function":{"arguments":""}},{"function":{}},{},1]},1])");
    messages[0]["tool_calls"][0]["function"]["arguments"] = text;
    EXPECT_TRUE(AdaptHistory({.object_arguments = true}, 100, &messages).ok());
    return messages[0]["tool_calls"][0]["function"]["arguments"].dump();
  };
  EXPECT_EQ(arguments(""), "{}");
  EXPECT_EQ(arguments(" \n"), "{}");
  EXPECT_EQ(arguments("[1]"), "\"[1]\"");
  EXPECT_EQ(arguments("{broken"), "\"{broken\"");
}

TEST(HistoryStyleTest, AMessageWithoutCallsHasNoNone) {
  EXPECT_EQ(Adapted({}, R"([{"role":"tool","content":null}])")[0]["content"], "");
}

// Each value costs hundreds of bytes where its text has two.
TEST(HistoryStyleTest, ArgumentsOfTooManyValuesAreRefused) {
  std::string list = "1";
  for (int i = 0; i < 200; ++i) list += ",1";
  OrderedJson messages = {
      {{"tool_calls", {{{"function", {{"arguments", "{\"a\":[" + list + "]}"}}}}}}}};
  EXPECT_EQ(AdaptHistory({.object_arguments = true}, 100, &messages).field(), "messages");
  EXPECT_TRUE(AdaptHistory({.object_arguments = true}, 1000, &messages).ok());
}

}  // namespace
}  // namespace sluice::text
