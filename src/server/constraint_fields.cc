#include "server/constraint_fields.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "sluice/limits.h"

namespace sluice::server {
namespace {

using Kind = Grammar::Kind;

constexpr size_t kNameBytesMax = 4096;
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
          name, StrCat(name, " has an item that is ", TypeName(item), "; each must be a string"));
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
    fields->Fail(name, StrCat(name,
                              " holds the answer to something else than another field does; "
                              "send one of them"));
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

// The field of structured_outputs that sets a grammar of this kind.
std::string_view StructuredOutput(Kind kind) {
  switch (kind) {
    case Kind::kRegex:
      return "regex";
    case Kind::kRules:
      return "grammar";
    case Kind::kStructuralTag:
      return "structural_tag";
    default:
      return "json";
  }
}

void ReadStructuredOutputs(Fields* fields, Request* request) {
  const OrderedJson* object = fields->Object("structured_outputs");
  if (object == nullptr) return;
  Fields outputs(*object, "structured_outputs.");
  ReadJson(&outputs, "json", Kind::kJsonSchema, request);
  if (outputs.Bool("json_object").value_or(false)) {
    SetGrammar(&outputs, "json_object", {Kind::kJsonSchema, kAnyObject}, request);
  }
  ReadText(&outputs, "regex", Kind::kRegex, request);
  ReadText(&outputs, "grammar", Kind::kRules, request);
  ReadJson(&outputs, "structural_tag", Kind::kStructuralTag, request, /*open=*/true);
  // Answers have no whitespace around the parts of JSON in any case.
  outputs.Bool("disable_any_whitespace");
  outputs.OnlyValue("disable_additional_properties", false);
  outputs.OnlyValue("whitespace_pattern", nullptr);
  const auto choice = ReadTexts(&outputs, "choice");
  fields->Take(outputs.Finish());
  if (!choice) return;
  if (fields->ok() && !request->choice.empty() && request->choice != *choice) {
    fields->Fail("guided_choice",
                 "structured_outputs.choice and guided_choice differ; send one of them");
  }
  request->choice = *choice;
}

// A schema with its name and the rest of what stands beside it.
void ReadNamedSchema(Fields* schema, Request* request) {
  schema->String("name", kNameBytesMax);
  schema->String("description", kNameBytesMax);
  // What a schema does not name is left out, as other servers do, unless it is asked for.
  const bool open = !schema->Bool("strict").value_or(true);
  ReadJson(schema, "schema", Kind::kJsonSchema, request, open);
  if (schema->ok() && request->grammar.kind == Kind::kNone) {
    schema->Fail("schema", "schema is missing; it must be a JSON schema");
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
  const std::string type = format.String("type", kNameBytesMax).value_or("");
  if (type == "json_object") {
    if (object->contains("schema")) {
      ReadJson(&format, "schema", Kind::kJsonSchema, request);
    } else {
      SetGrammar(&format, "type", {Kind::kJsonSchema, kAnyObject}, request);
    }
  } else if (type == "json_schema") {
    ReadJsonSchemaFormat(&format, request);
    if (format.ok() && request->grammar.kind == Kind::kNone) {
      format.Fail("json_schema", "json_schema is missing; it must be an object with a schema");
    }
  } else if (type == "structural_tag") {
    for (const char* part : {"format", "structures", "triggers"}) format.Any(part);
    SetGrammar(&format, "type", {Kind::kStructuralTag, DumpJson(*object), /*open=*/true}, request);
  } else if (type != "text" && format.ok()) {
    format.Fail("type", "type must be text, json_object, json_schema or structural_tag");
  }
  fields->Take(format.Finish());
}

}  // namespace

std::string ReadConstraint(Fields* fields, Request* request) {
  std::string set_by;
  const auto note = [&](std::string_view name) {
    if (set_by.empty() && request->grammar.kind != Kind::kNone) set_by = name;
  };
  // vLLM's, the spelling before structured_outputs.
  if (auto choice = ReadTexts(fields, "guided_choice")) request->choice = *std::move(choice);
  ReadJson(fields, "guided_json", Kind::kJsonSchema, request);
  note("guided_json");
  ReadText(fields, "guided_regex", Kind::kRegex, request);
  note("guided_regex");
  ReadText(fields, "guided_grammar", Kind::kRules, request);
  note("guided_grammar");
  ReadStructuredOutputs(fields, request);
  note(StrCat("structured_outputs.", StructuredOutput(request->grammar.kind)));
  ReadResponseFormat(fields, request);
  note("response_format");
  // SGLang's and llama.cpp's.
  ReadJson(fields, "json_schema", Kind::kJsonSchema, request);
  note("json_schema");
  ReadText(fields, "regex", Kind::kRegex, request);
  note("regex");
  ReadText(fields, "ebnf", Kind::kRules, request);
  note("ebnf");
  ReadText(fields, "grammar", Kind::kRules, request);
  note("grammar");
  ReadJson(fields, "structural_tag", Kind::kStructuralTag, request, /*open=*/true);
  note("structural_tag");
  return set_by;
}

void ReadFlatFormat(Fields* object, std::string_view path, Request* request) {
  const OrderedJson* value = object->Object("format");
  if (value == nullptr) return;
  Fields format(*value, StrCat(path, "format."));
  const std::string type = format.String("type", kNameBytesMax).value_or("");
  if (type == "json_object") {
    SetGrammar(&format, "type", {Kind::kJsonSchema, kAnyObject}, request);
  } else if (type == "json_schema") {
    ReadNamedSchema(&format, request);
  } else if (type != "text" && format.ok()) {
    format.Fail("type", "type must be text, json_object or json_schema");
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
    fields->Fail("format", "format must be \"json\" or a JSON schema");
  }
}

}  // namespace sluice::server
