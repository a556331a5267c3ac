#include "server/shared/constraint_fields.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "sluice/limits.h"

namespace sluice::server {
namespace {

using Kind = Grammar::Kind;

constexpr const char* kAnyObject = R"({"type":"object"})";

// The texts that an answer is held to.
std::optional<std::vector<std::string>> ReadTexts(Fields* fields, std::string_view name) {
  const OrderedJson* list = fields->Array(name, limits::kChoiceTextsMax);
  if (list == nullptr) return std::nullopt;
  if (list->empty()) fields->Fail(name, StrCat(name, " is empty; it must have at least one text"));
  std::vector<std::string> texts;
  for (const OrderedJson& item : *list) {
    if (!item.is_string()) {
      fields->Fail(
          name, StrCat(name, " has an item that is ", ShownValue(item), "; each must be a string"));
      break;
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

void SetGrammar(Fields* fields, std::string_view name, Grammar grammar, Request* request) {
  if (!fields->ok()) return;
  Grammar& set = request->grammar;
  const bool same =
      set.kind == grammar.kind && set.text == grammar.text && set.open == grammar.open;
  if (set.kind != Kind::kNone && !same) {
    fields->Fail(name, StrCat(name, " holds the answer to ", Quote(grammar.text),
                              ", and another field to ", Quote(set.text), "; send one of them"));
  }
  set = std::move(grammar);
}

void ReadText(Fields* fields, std::string_view name, Kind kind, Request* request,
              bool open = false) {
  auto text = fields->String(name, limits::kGrammarBytesMax);
  if (text) SetGrammar(fields, name, {kind, *std::move(text), open}, request);
}

// JSON, or a string with the text of it.
void ReadJson(Fields* fields, std::string_view name, Kind kind, Request* request,
              bool open = false) {
  const OrderedJson* value = fields->Any(name);
  if (value == nullptr) return;
  if (value->is_string()) return ReadText(fields, name, kind, request, open);
  if (!value->is_object() && !value->is_boolean()) {
    return fields->WrongType(name, *value, "an object, or a string with one");
  }
  SetGrammar(fields, name, {kind, DumpJson(*value), open}, request);
}

// A field that holds an answer to a grammar of this kind.
struct Spelling {
  std::string_view name;
  Kind kind;
};
// vLLM's, the spellings before structured_outputs.
constexpr Spelling kGuided[] = {{"guided_json", Kind::kJsonSchema},
                                {"guided_regex", Kind::kRegex},
                                {"guided_grammar", Kind::kRules}};
constexpr Spelling kStructuredOutputs[] = {{"json", Kind::kJsonSchema},
                                           {"regex", Kind::kRegex},
                                           {"grammar", Kind::kRules},
                                           {"structural_tag", Kind::kStructuralTag}};
// SGLang's and llama.cpp's.
constexpr Spelling kFlat[] = {{"json_schema", Kind::kJsonSchema},
                              {"regex", Kind::kRegex},
                              {"ebnf", Kind::kRules},
                              {"grammar", Kind::kRules},
                              {"structural_tag", Kind::kStructuralTag}};

void ReadGrammar(Fields* fields, const Spelling& as, Request* request) {
  if (as.kind == Kind::kRegex || as.kind == Kind::kRules) {
    ReadText(fields, as.name, as.kind, request);
  } else {
    ReadJson(fields, as.name, as.kind, request, /*open=*/as.kind == Kind::kStructuralTag);
  }
}

void ReadStructuredOutputs(Fields* fields, Request* request) {
  const OrderedJson* object = fields->Object("structured_outputs");
  if (object == nullptr) return;
  Fields outputs(*object, "structured_outputs.");
  for (const Spelling& as : kStructuredOutputs) {
    ReadGrammar(&outputs, as, request);
    if (as.kind == Kind::kJsonSchema && outputs.Bool("json_object").value_or(false)) {
      SetGrammar(&outputs, "json_object", {Kind::kJsonSchema, kAnyObject}, request);
    }
  }
  // Answers have no whitespace around the parts of JSON in any case.
  outputs.Bool("disable_any_whitespace");
  outputs.OnlyValue("disable_additional_properties", false);
  outputs.OnlyValue("whitespace_pattern", nullptr);
  const auto choice = ReadTexts(&outputs, "choice");
  fields->Take(outputs.Finish());
  if (!choice) return;
  if (fields->ok() && !request->choice.empty() && request->choice != *choice) {
    fields->Fail("guided_choice", StrCat("guided_choice has ", request->choice.size(),
                                         " texts and structured_outputs.choice ", choice->size(),
                                         ", not all of which are the same; send one of them"));
  }
  request->choice = *choice;
}

// A schema with its name and the rest of what stands beside it.
void ReadNamedSchema(Fields* schema, Request* request) {
  schema->String("name", kLongNameBytesMax);
  schema->String("description", kLongNameBytesMax);
  // What a schema does not name is left out, as other servers do, unless it is asked for.
  const bool open = !schema->Bool("strict").value_or(true);
  ReadJson(schema, "schema", Kind::kJsonSchema, request, open);
  if (schema->ok() && request->grammar.kind == Kind::kNone) {
    schema->Missing("schema", "a JSON schema");
  }
}

void ReadJsonSchemaFormat(Fields* format, Request* request) {
  const OrderedJson* object = format->Object("json_schema");
  if (object == nullptr)
    return ReadJson(format, "schema", Kind::kJsonSchema, request);  // llama.cpp
  Fields schema(*object, "response_format.json_schema.");
  ReadNamedSchema(&schema, request);
  format->Take(schema.Finish());
}

void ReadResponseFormat(Fields* fields, Request* request) {
  const OrderedJson* object = fields->Object("response_format");
  if (object == nullptr) return;
  Fields format(*object, "response_format.");
  const std::string type = format.String("type", kLongNameBytesMax).value_or("");
  if (type == "json_object") {
    if (object->contains("schema")) {
      ReadJson(&format, "schema", Kind::kJsonSchema, request);
    } else {
      SetGrammar(&format, "type", {Kind::kJsonSchema, kAnyObject}, request);
    }
  } else if (type == "json_schema") {
    ReadJsonSchemaFormat(&format, request);
    if (format.ok() && request->grammar.kind == Kind::kNone) {
      format.Missing("json_schema", "an object with a schema");
    }
  } else if (type == "structural_tag") {
    for (const char* part : {"format", "structures", "triggers"}) format.Any(part);
    SetGrammar(&format, "type", {Kind::kStructuralTag, DumpJson(*object), /*open=*/true}, request);
  } else if (type != "text" && format.ok()) {
    format.WrongValue("type", "text, json_object, json_schema or structural_tag");
  }
  fields->Take(format.Finish());
}

}  // namespace

std::string ReadConstraint(Fields* fields, Request* request) {
  std::string set_by;
  const auto note = [&](std::string_view name) {
    if (set_by.empty() && request->grammar.kind != Kind::kNone) set_by = name;
  };
  const auto read = [&](std::span<const Spelling> spellings) {
    for (const Spelling& as : spellings) {
      ReadGrammar(fields, as, request);
      note(as.name);
    }
  };
  if (auto choice = ReadTexts(fields, "guided_choice")) request->choice = *std::move(choice);
  read(kGuided);
  ReadStructuredOutputs(fields, request);
  for (const Spelling& as : kStructuredOutputs) {
    if (as.kind == request->grammar.kind) note(StrCat("structured_outputs.", as.name));
  }
  ReadResponseFormat(fields, request);
  note("response_format");
  read(kFlat);
  return set_by;
}

void ReadFlatFormat(Fields* object, std::string_view path, Request* request) {
  const OrderedJson* value = object->Object("format");
  if (value == nullptr) return;
  Fields format(*value, StrCat(path, "format."));
  const std::string type = format.String("type", kLongNameBytesMax).value_or("");
  if (type == "json_object") {
    SetGrammar(&format, "type", {Kind::kJsonSchema, kAnyObject}, request);
  } else if (type == "json_schema") {
    ReadNamedSchema(&format, request);
  } else if (type != "text" && format.ok()) {
    format.WrongValue("type", "text, json_object or json_schema");
  }
  object->Take(format.Finish());
}

void ReadOllamaFormat(Fields* fields, Request* request) {
  const OrderedJson* format = fields->Any("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    SetGrammar(fields, "format", {Kind::kJsonSchema, kAnyObject}, request);
  } else if (format->is_object()) {
    ReadJson(fields, "format", Kind::kJsonSchema, request);
  } else {
    fields->WrongValue("format", "json or a JSON schema");
  }
}

}  // namespace sluice::server
