// The families of models, by how their answers are written: which marks set thinking and calls of
// tools apart. A model's family is told from the text of its chat template. Constant; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/output/call_grammar.h"
#include "text/output/call_parser.h"
#include "text/output/output_parser.h"
#include "text/output/tool_schemas.h"

namespace sluice::text {

struct CallFamily {
  std::string_view name;
  // A template that holds each of these is of this family, unless an earlier one claims it or it
  // holds `unless`.
  std::span<const std::string_view> signs;
  std::string_view unless;
  // Texts that the parser has to see, though they may be special tokens.
  std::span<const std::string_view> marks;
  std::unique_ptr<CallParser> (*make)(const ToolSchemas& schemas);
  const CallShape* shape;
  bool short_ids = false;  // AnswerParts
  bool thinks = false;     // the parser tells thinking apart, too, and all else in the answer
  std::string_view cut;    // a mark that ends the thinking: its models may forget the tag for that
};

struct ThinkFamily {
  std::string_view name;
  std::span<const std::string_view> signs;
  std::string_view unless;
  ThinkTags tags;  // empty: a parser of calls tells it
};

// All of them, in the order in which templates are asked.
std::span<const CallFamily> CallFamilies();
std::span<const ThinkFamily> ThinkFamilies();

// How a model's answers are taken apart.
class OutputFormat {
 public:
  OutputFormat() = default;  // not at all
  // `tools`, `thinking`: the name of a family, "auto" or "none". kInvalidArgument for any other,
  // with the flag's name as its field.
  static Result<OutputFormat> Choose(std::string_view chat_template, std::string_view tools,
                                     std::string_view thinking);

  // Of the families; "none".
  std::string_view tools() const { return calls_ == nullptr ? "none" : calls_->name; }
  std::string_view thinking() const { return think_ == nullptr ? "none" : think_->name; }
  // How calls are written: kInvalidArgument, with the field `tool_choice`, where answers cannot be
  // held to calls.
  Result<const CallFamily*> HeldCalls() const;
  // Around the thinking; null: nothing is told apart by tags.
  const ThinkTags* think_tags() const {
    return think_ == nullptr || think_->tags.begin.empty() ? nullptr : &think_->tags;
  }
  // Texts that a parser has to see, though they may be special tokens.
  std::vector<std::string_view> Marks(const OutputParsing& wanted) const;

  // `prompt_end`: the last characters of the prompt as the model reads it. The thinking's tag may
  // stand there.
  bool OpensThinking(std::string_view prompt_end) const;
  // `schemas` outlives the parser. `begun`: what stands behind `prompt_end` in the prompt, where
  // the answer goes on with it (OutputParser::Begin). Null: nothing that is wanted can be told
  // apart.
  std::unique_ptr<OutputParser> MakeParser(const OutputParsing& wanted, const ToolSchemas& schemas,
                                           std::string_view prompt_end,
                                           std::string_view begun = {}) const;

 private:
  // What of it can be told; the parser of calls for that, or null.
  const CallFamily* Narrow(OutputParsing* wanted) const;

  const CallFamily* calls_ = nullptr;
  const ThinkFamily* think_ = nullptr;
};

}  // namespace sluice::text
