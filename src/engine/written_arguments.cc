#include "engine/written_arguments.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "text/structural_tag.h"
#include "text/whole_regex.h"

namespace sluice::engine {
namespace {

using FormKind = text::ArgumentForm::Kind;

std::string_view NameOfForm(FormKind kind) {
  switch (kind) {
    case FormKind::kPython:
      return text::kArgumentsInPython;
    case FormKind::kGemma:
      return text::kArgumentsOfGemma;
    case FormKind::kMarked:
      break;
  }
  return text::kArgumentsMarked;
}

Status Refuse(std::string_view what, std::string_view text, std::string_view why) {
  return InvalidArgument(StrCat(what, " ", Quote(text.substr(0, 128)), " ", why), "tools");
}

class WrittenBuilder {
 public:
  WrittenBuilder(const OrderedJson& schema, const text::ArgumentForm& form)
      : schema_(schema), form_(form) {}

  Result<OrderedJson> Run() {
    OrderedJson objects = OrderedJson::array();
    SLUICE_RETURN_IF_ERROR(AddObjects(schema_, &objects));
    if (objects.empty()) return InvalidArgument("they are no object", "tools");
    OrderedJson root =
        objects.size() == 1 ? OrderedJson(objects[0]) : OrderedJson{{"anyOf", std::move(objects)}};
    root["$defs"] = schema_["$defs"];
    SLUICE_RETURN_IF_ERROR(Fit(&root));
    for (OrderedJson& part : root["$defs"]) SLUICE_RETURN_IF_ERROR(Fit(&part));
    return root;
  }

 private:
  bool python() const { return form_.kind == FormKind::kPython; }
  bool quoted() const { return !form_.quote.empty(); }

  // The alternatives of arguments that are objects: others are none.
  Status AddObjects(const OrderedJson& part, OrderedJson* objects) const {
    if (part.contains("$ref")) {
      const auto& reference = part["$ref"].get_ref<const std::string&>();
      const std::string name = reference.substr(reference.rfind('/') + 1);
      return AddObjects(schema_["$defs"][name], objects);
    }
    if (part.contains("anyOf")) {
      for (const OrderedJson& inner : part["anyOf"]) {
        SLUICE_RETURN_IF_ERROR(AddObjects(inner, objects));
      }
    } else if (part.contains("enum")) {
      for (const OrderedJson& value : part["enum"]) {
        if (!value.is_object()) continue;
        OrderedJson object = {{"type", "object"}, {"additionalProperties", false}};
        for (const auto& [name, member] : value.items()) {
          object["properties"][name] = {{"enum", OrderedJson::array({member})}};
          object["required"].push_back(name);
        }
        SLUICE_RETURN_IF_ERROR(AddObject(std::move(object), objects));
      }
    } else if (part.value("type", OrderedJson()) == "object") {
      return AddObject(part, objects);
    }
    return OkStatus();
  }

  // Python's arguments have words for names.
  Status AddObject(OrderedJson object, OrderedJson* objects) const {
    if (python()) {
      const OrderedJson properties = object.value("properties", OrderedJson::object());
      for (const auto& [name, part] : properties.items()) {
        if (!IsWord(name) || name.size() > text::kBareWordBytesMax)
          return Refuse("the property", name, "has a name that is no argument's");
      }
      if (!properties.empty() && object.contains("propertyNames")) {
        // Others beside names are left out, as they are of JSON objects that do not say.
        object.erase("propertyNames");
        object["additionalProperties"] = false;
      }
      for (const char* keyword : {"propertyNames", "patternProperties"}) {
        if (!object.contains(keyword)) continue;
        return InvalidArgument(
            StrCat("the keyword \"", keyword, "\" is not supported of arguments in Python"),
            "tools");
      }
    }
    objects->push_back(std::move(object));
    return OkStatus();
  }

  // Takes out of a part what cannot be written, or refuses it.
  Status Fit(OrderedJson* part) const {
    if (part->contains("enum")) return CheckText((*part)["enum"]);
    if (part->contains("pattern")) return WithoutMarks(&(*part)["pattern"], "<");
    for (const char* keyword : {"items", "additionalProperties", "contains", "rest"}) {
      const auto found = part->find(keyword);
      if (found != part->end() && found->is_object()) SLUICE_RETURN_IF_ERROR(Fit(&*found));
    }
    for (const char* keyword : {"anyOf", "prefixItems"}) {
      const auto found = part->find(keyword);
      if (found == part->end()) continue;
      for (OrderedJson& inner : *found) SLUICE_RETURN_IF_ERROR(Fit(&inner));
    }
    if (const auto properties = part->find("properties"); properties != part->end()) {
      for (auto& [name, inner] : properties->items()) {
        SLUICE_RETURN_IF_ERROR(CheckName(name));
        SLUICE_RETURN_IF_ERROR(Fit(&inner));
      }
    }
    if (const auto patterns = part->find("patternProperties"); patterns != part->end()) {
      OrderedJson written = OrderedJson::object();
      for (auto& [name, inner] : patterns->items()) {
        OrderedJson pattern = name;
        SLUICE_RETURN_IF_ERROR(WithoutMarks(&pattern, "<:"));
        SLUICE_RETURN_IF_ERROR(Fit(&inner));
        written[pattern.get<std::string>()] = std::move(inner);
      }
      *patterns = std::move(written);
    }
    if (const auto names = part->find("propertyNames"); names != part->end()) {
      SLUICE_RETURN_IF_ERROR(FitNames(&*names));
    }
    return OkStatus();
  }

  Status FitNames(OrderedJson* names) const {
    if (names->contains("anyOf")) {
      for (OrderedJson& inner : (*names)["anyOf"]) SLUICE_RETURN_IF_ERROR(FitNames(&inner));
    }
    if (names->contains("enum")) {
      for (const OrderedJson& name : (*names)["enum"]) {
        SLUICE_RETURN_IF_ERROR(CheckName(name.get_ref<const std::string&>()));
      }
    }
    if (names->contains("pattern")) return WithoutMarks(&(*names)["pattern"], "<:");
    // Any name: one without what ends it.
    if (quoted() && !names->contains("anyOf") && !names->contains("enum")) {
      (*names)["pattern"] = "[^\"\\\\\\x00-\\x1f<:]*";
    }
    return OkStatus();
  }

  Status WithoutMarks(OrderedJson* pattern, std::string_view characters) const {
    if (python()) return OkStatus();
    if (!quoted()) characters = characters.substr(0, 1);
    for (const char c : characters) {
      const std::string whole = pattern->get<std::string>();
      auto without = text::RegexWithout(whole, c);
      if (!without.ok()) {
        return Refuse("the pattern", whole,
                      StrCat("cannot be written: ", without.status().message()));
      }
      *pattern = *std::move(without);
    }
    return OkStatus();
  }

  Status CheckName(std::string_view name) const {
    if (!quoted()) return OkStatus();
    if (name.find(':') == std::string_view::npos &&
        name.find(form_.quote) == std::string_view::npos)
      return OkStatus();
    return Refuse("the property", name,
                  StrCat("has a name with a colon or ", form_.quote, " in it, which ends it"));
  }

  // Of values that are listed.
  Status CheckText(const OrderedJson& value) const {
    if (!quoted()) return OkStatus();
    if (value.is_string() &&
        value.get_ref<const std::string&>().find(form_.quote) != std::string::npos)
      return Refuse("the text", value.get_ref<const std::string&>(),
                    StrCat("of a const or enum has ", form_.quote, " in it, which ends it"));
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) SLUICE_RETURN_IF_ERROR(CheckName(name));
    }
    if (!value.is_structured()) return OkStatus();
    for (const OrderedJson& inner : value) SLUICE_RETURN_IF_ERROR(CheckText(inner));
    return OkStatus();
  }

  const OrderedJson& schema_;
  const text::ArgumentForm& form_;
};

}  // namespace

Result<OrderedJson> WrittenArguments(const OrderedJson& schema, const text::ArgumentForm& form,
                                     const text::SpecialMark& special) {
  SLUICE_ASSIGN_OR_RETURN(OrderedJson arguments, WrittenBuilder(schema, form).Run());
  OrderedJson written_as = {
      {std::string(text::kFormOfArguments), std::string(NameOfForm(form.kind))}};
  if (!form.quote.empty()) {
    written_as[std::string(text::kQuoteOfArguments)] = std::string(form.quote);
    const int32_t token = special(form.quote);
    if (token >= 0) written_as[std::string(text::kQuoteTokenOfArguments)] = token;
  }
  return OrderedJson{{"type", "json_schema"},
                     {"json_schema", std::move(arguments)},
                     {text::kRewrittenMember, true},
                     {std::string(text::kWrittenAsMember), std::move(written_as)}};
}

}  // namespace sluice::engine
