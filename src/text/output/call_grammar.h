// Answers that are held to calls of tools: the grammar of a family's calls, as a structural tag
// (Grammar::Kind::kStructuralTag). Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/request.h"
#include "sluice/status.h"

namespace sluice::text {

// How a family writes one argument between tags.
struct ParameterShape {
  std::string_view begin;        // before the name
  std::string_view before_text;  // between the name and a value that is a string
  std::string_view before_json;  // and any other; empty: the same, and the schema tells them apart
  std::string_view end;
};

// How a family writes all arguments of a call together, where that is not JSON as others write it.
struct ArgumentForm {
  enum class Kind : uint8_t {
    kMarked,  // JSON without "<|" in it, which begins the marks around it
    kPython,  // the arguments of a call in Python: name=value, ...
    kGemma,   // JSON whose names are bare words and whose texts stand between marks
  };
  Kind kind;
  std::string_view quote = {};  // around texts; empty: quotes
};

// Of a name or another word of a call that stands without quotes.
inline constexpr size_t kBareWordBytesMax = 256;

// How a family writes calls, from the first one's beginning to the last one's end.
struct CallShape {
  std::string_view section_begin;              // before the first call
  std::string_view call_begin;                 // before the tool's name
  std::string_view behind_name;                // a regular expression; empty: nothing stands there
  std::string_view arguments;                  // between that and the arguments
  std::string_view call_end;                   // behind the arguments
  std::string_view separator;                  // between two calls
  std::string_view section_end;                // behind the last call
  const ParameterShape* parameters = nullptr;  // null: the arguments are one JSON object
  const ArgumentForm* form = nullptr;          // null: that object is JSON
  bool bare = false;    // no mark tells a call from a text: calls are all of an answer
  bool single = false;  // there is one call at most
  // Around a message of thinking, which may come first, and of text; empty: calls and text are told
  // apart otherwise.
  std::string_view think_begin, text_begin, last_text_begin, message_end;
};

// An argument between tags. Its value is one of these, as formats of a structural tag; null: none.
struct TaggedParameter {
  std::string name;  // empty: any that no other has, any number of times
  bool required = false;
  OrderedJson text;  // of a string; true: any text
  OrderedJson json;
};

// A tool, and what its arguments have to be: a schema of a JSON object, a format of a structural
// tag where the shape has a `form`, or one by one where it has `parameters`.
struct CallableTool {
  std::string name;
  OrderedJson schema;
  OrderedJson written;
  std::vector<TaggedParameter> parameters;
};

// The id of a mark that is a special token; below 0: it is a text like any other.
using SpecialMark = std::function<int32_t(std::string_view mark)>;

// Names that any family can write: letters, digits and "_-.:/".
Status CheckToolName(std::string_view name);

// The answer is calls of these tools, one where `one_call`, any number otherwise; `required`: and
// nothing else. Otherwise it is text, and calls behind it where a mark of the family begins one.
// `marks`: of the family. REQUIRES: there is a tool, and CheckToolName holds for each
Grammar CallGrammar(const CallShape& shape, std::span<const std::string_view> marks,
                    std::span<const CallableTool> tools, bool required, bool one_call,
                    const SpecialMark& special);

}  // namespace sluice::text
