#include "text/output/output_parser.h"

#include "text/output/output_fixture.h"

namespace sluice::text {
namespace {

constexpr const char* kCall = R"({"name": "get_weather", "arguments": {"city": "Paris"}})";
const std::string kTagged = std::string("<tool_call>\n") + kCall + "\n</tool_call>";

Taken Text(std::string text) { return {std::move(text), "", {}}; }

TEST(OutputParserTest, ThinkingIsWithinTheTags) {
  const Parsing parsing("none", "think");
  EXPECT_EQ(parsing.Take("<think>\nHm.\n\nWell.\n</think>\n\nYes.\n"),
            (Taken{"Yes.\n", "Hm.\n\nWell.", {}}));
  EXPECT_EQ(parsing.Take("\n<think></think>\nYes."), (Taken{"Yes.", "", {}}));
  EXPECT_EQ(parsing.Take("<think>cut of"), (Taken{"", "cut of", {}}));
}

TEST(OutputParserTest, ThePromptMayHaveOpenedThem) {
  Parsing parsing("none", "think");
  parsing.prompt_end = "<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(parsing.Take("Hm.\n</think>\n\nYes."), (Taken{"Yes.", "Hm.", {}}));
  parsing.prompt_end = "<think>\n\n</think>\n\n";
  EXPECT_EQ(parsing.Take("Yes. </think>"), Text("Yes. </think>"));
}

TEST(OutputParserTest, TagsWithinAnAnswerAreText) {
  const Parsing parsing("none", "think");
  EXPECT_EQ(parsing.Take("Put it in <think> and </think>."),
            Text("Put it in <think> and </think>."));
  EXPECT_EQ(parsing.Take("  \n<thinkers"), Text("  \n<thinkers"));
  EXPECT_EQ(parsing.Take("<think>a</think>b <think>c</think>"),
            (Taken{"b <think>c</think>", "a", {}}));
}

TEST(OutputParserTest, WithoutCallsWhiteSpaceIsNotHeldBack) {
  const Parsing parsing("none", "think");
  EXPECT_EQ(parsing.TakeOpen("One.\n\n"), Text("One.\n\n"));
}

TEST(OutputParserTest, ACallBehindThinkingAndText) {
  const Parsing parsing("hermes", "think");
  EXPECT_EQ(parsing.Take("<think>\nHm.\n</think>\n\nI look.\n\n" + kTagged),
            (Taken{"I look.", "Hm.", {{"get_weather", R"({"city": "Paris"})"}}}));
}

TEST(OutputParserTest, SeveralCallsHaveNoTextBetween) {
  const Parsing parsing("hermes", "none");
  const Taken taken = parsing.Take(kTagged + "\n" + kTagged + "\n\nDone. ");
  EXPECT_EQ(taken.calls.size(), 2u);
  EXPECT_EQ(taken.text, "Done. ");
}

TEST(OutputParserTest, OnlyTheFirstCallWhereOneIsWanted) {
  Parsing parsing("hermes", "none");
  parsing.wanted.one_call = true;
  EXPECT_EQ(parsing.Take(kTagged + "\n" + kTagged).calls.size(), 1u);
}

TEST(OutputParserTest, ArgumentsComeAsTheyAreWritten) {
  const Parsing parsing("hermes", "none");
  const std::string before = R"(<tool_call>{"name": "f", "arguments": )";
  EXPECT_EQ(parsing.TakeOpen(before), Text(""));
  EXPECT_EQ(parsing.TakeOpen(before + R"({"a": "b)"), (Taken{"", "", {{"f", R"({"a": "b)"}}}));
  // An answer that is cut has the part that came, and what is not JSON is not mended.
  EXPECT_EQ(parsing.Take(before + R"({"a": "b)"), (Taken{"", "", {{"f", R"({"a": "b)"}}}));
  EXPECT_EQ(parsing.Take(before + "{'a': oh}}</tool_call>"), (Taken{"", "", {{"f", "{'a': oh}"}}}));
}

TEST(OutputParserTest, WhatLooksLikeATagIsText) {
  const Parsing parsing("hermes", "none");
  for (const char* text :
       {"Write <tool_call> to call.", "<tool_call></tool_call>", "<tool_call>\n{\"nome\": 1}",
        "<too", "<tool_call>{\"name\": \"\"}</tool_call>",
        "<tool_call>{\"name\": 5, \"arguments\": {}}", "a < b <tool_cal",
        "<tool_call> {\"name\": \"f\"", "<tool_call>[1]", "{\"name\": \"f\"}"}) {
    EXPECT_EQ(parsing.Take(text), Text(text));
  }
  // As soon as it is certain.
  EXPECT_EQ(parsing.TakeOpen("Write <tool_call> t"), Text("Write <tool_call> t"));
}

TEST(OutputParserTest, ATagThatIsNoneHidesNoCall) {
  const Parsing parsing("hermes", "none");
  EXPECT_EQ(parsing.Take("<tool_call>" + kTagged),
            (Taken{"<tool_call>", "", {{"get_weather", R"({"city": "Paris"})"}}}));
}

TEST(OutputParserTest, TheLookAheadIsBounded) {
  const Parsing parsing("hermes", "none");
  const std::string text =
      "<tool_call>{\"arguments\": {\"a\": \"" + std::string(2 * kLookAheadMax, 'x') + "\"";
  EXPECT_GE(parsing.TakeOpen(text).text.size(), text.size() - kLookAheadMax);
  EXPECT_EQ(parsing.Take(std::vector<std::string_view>{text}), Text(text));
  const std::string spaces = "<tool_call>" + std::string(2 * kLookAheadMax, ' ');
  EXPECT_EQ(parsing.Take(std::vector<std::string_view>{spaces}), Text(spaces));
}

TEST(OutputParserTest, TheNameMayComeLast) {
  const Parsing parsing("hermes", "none");
  EXPECT_EQ(parsing.Take(R"(<tool_call>{"id": 1, "arguments": {"a": [1, "}"]}, "name": "f"})"
                         "</tool_call>"),
            (Taken{"", "", {{"f", R"({"a": [1, "}"]})"}}}));
  EXPECT_EQ(parsing.Take(R"(<tool_call>{"name": "f"}</tool_call>)"),
            (Taken{"", "", {{"f", "{}"}}}));
}

TEST(OutputParserTest, IdsDiffer) {
  const std::string first = DrawCallId("call_", 24), second = DrawCallId("call_", 24);
  EXPECT_EQ(first.size(), 29u);
  EXPECT_NE(first, second);
}

TEST(OutputParserTest, MuchWhiteSpaceIsText) {
  const Parsing parsing("hermes", "none");
  const std::string spaces(3 * kHeldSpaceMax, '\n');
  EXPECT_EQ(parsing.TakeOpen("a" + spaces).text.size(), 1 + 2 * kHeldSpaceMax);
  EXPECT_EQ(parsing.Take(std::vector<std::string_view>{"a", spaces}), Text("a" + spaces));
}

}  // namespace
}  // namespace sluice::text
