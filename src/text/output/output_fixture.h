// For tests: an answer taken apart in pieces of any size.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output/families.h"

namespace sluice::text {

// What has come out, put together; ids are chance.
struct Taken {
  std::string text, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;  // name and arguments
  friend bool operator==(const Taken&, const Taken&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Taken& taken) {
  out << "text \"" << taken.text << "\", reasoning \"" << taken.reasoning << "\"";
  for (const auto& [name, arguments] : taken.calls) out << ", " << name << "(" << arguments << ")";
  return out;
}

inline void Put(const TextDelta& delta, Taken* taken) {
  taken->text += delta.text;
  taken->reasoning += delta.reasoning;
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) {
      EXPECT_FALSE(call.id.empty());
      EXPECT_EQ(call.index, static_cast<int>(taken->calls.size()));
      taken->calls.emplace_back(call.name, "");
    }
    ASSERT_EQ(call.index + 1, static_cast<int>(taken->calls.size()));
    taken->calls.back().second += call.arguments;
  }
}

// A parser of two families.
class Parsing {
 public:
  Parsing(std::string_view tools, std::string_view thinking, std::string tools_json = "")
      : format_(*OutputFormat::Choose("", tools, thinking)),
        schemas_(*ToolSchemas::Make(tools_json)) {
    wanted.tools = tools != "none";
    wanted.reasoning = thinking != "none";
  }

  // The text in these pieces, behind what the prompt has begun.
  Taken Take(const std::vector<std::string_view>& pieces, std::string_view begun = {}) const {
    const auto parser = format_.MakeParser(wanted, schemas_, prompt_end, begun);
    Taken taken;
    if (parser == nullptr) {
      ADD_FAILURE() << "no parser";
      return taken;
    }
    for (const std::string_view piece : pieces) {
      TextDelta delta;
      parser->Add(piece, &delta);
      Put(delta, &taken);
    }
    TextDelta delta;
    parser->Finish(&delta);
    Put(delta, &taken);
    if (begun.empty()) {
      EXPECT_EQ(parser->called(), !taken.calls.empty());
    }
    return taken;
  }
  // The text at once. Cut in two at each place, and into bytes, it gives the same.
  Taken Take(std::string_view text) const {
    const Taken whole = Take(std::vector{text});
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Taken halves = Take(std::vector{text.substr(0, cut), text.substr(cut)});
      EXPECT_EQ(halves, whole) << "cut at " << cut << " of " << text;
      if (!(halves == whole)) break;
    }
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(Take(bytes), whole) << "by bytes: " << text;
    for (size_t cut = 1; cut < text.size(); ++cut) ExpectBehind(text, cut, whole);
    return whole;
  }
  // Where the prompt has begun the answer with what stands before the cut, the rest is what comes
  // behind that, and the call whole that is open there. `whole`: what the text is as one answer.
  void ExpectBehind(std::string_view text, size_t cut, const Taken& whole) const {
    const Taken begun = Take(std::vector{text.substr(0, cut)});
    const Taken rest = Take(std::vector{text.substr(cut)}, text.substr(0, cut));
    const auto ends_with = [&](const std::string& all, const std::string& end,
                               const std::string& known, const char* what) {
      EXPECT_TRUE(all.ends_with(end))
          << what << " \"" << end << "\", cut at " << cut << " of " << text;
      EXPECT_LE(all.size(), known.size() + end.size())
          << what << ", cut at " << cut << " of " << text;
    };
    ends_with(whole.text, rest.text, begun.text, "text");
    ends_with(whole.reasoning, rest.reasoning, begun.reasoning, "reasoning");
    ASSERT_LE(rest.calls.size(), whole.calls.size());
    EXPECT_GE(rest.calls.size() + begun.calls.size(), whole.calls.size()) << "cut at " << cut;
    EXPECT_TRUE(std::equal(rest.calls.rbegin(), rest.calls.rend(), whole.calls.rbegin()))
        << "cut at " << cut << " of " << text << ": " << rest;
  }
  // What has come out behind `text`, before the answer has ended.
  Taken TakeOpen(std::string_view text) const {
    const auto parser = format_.MakeParser(wanted, schemas_, prompt_end);
    TextDelta delta;
    parser->Add(text, &delta);
    Taken taken;
    Put(delta, &taken);
    return taken;
  }

  OutputParsing wanted;
  std::string prompt_end;

 private:
  const OutputFormat format_;
  const ToolSchemas schemas_;
};

}  // namespace sluice::text
