#include "text/json_schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/str_cat.h"
#include "text/name_classes.h"
#include "text/schema_children.h"
#include "text/schema_contained.h"
#include "text/schema_document.h"
#include "text/schema_forms.h"
#include "text/schema_negation.h"
#include "text/schema_numbers.h"
#include "text/schema_patterns.h"
#include "text/schema_refusals.h"
#include "text/string_formats.h"
#include "text/whole_regex.h"

namespace sluice::text {
namespace {

// Parts that are made within each other.
constexpr int kNestingMax = 128;
// Of repetitions: what the library compiles in reasonable time.
constexpr int64_t kLengthMax = 4096;  // of all strings together
constexpr int kPatternedMax = 64;     // objects with patternProperties
constexpr size_t kListedMax = 8192;   // values of all enums together

// Formats of the drafts that answers cannot be held to.
constexpr std::array kUnknownFormats = {"idn-email", "idn-hostname", "iri", "iri-reference",
                                        "regex"};

OrderedJson AnyReference();
OrderedJson AnyValue();

class Rewriter {
 public:
  Rewriter(SchemaDocument& document, bool closed)
      : document_(document), expander_(document), closed_(closed), refusals_{document, {}} {}

  Result<OrderedJson> Run() {
    SLUICE_RETURN_IF_ERROR(CheckDialect());
    if (DumpJson(document_.root()).find(kNumberText) != std::string::npos) {
      return InvalidArgument("the JSON schema has U+FDD0 in it, which is no character", "grammar");
    }
    const OrderedJson root = Part({&document_.root()});
    if (refusals_.status.ok() && root == false) {
      refusals_.status = InvalidArgument("the JSON schema permits no value", "grammar");
    }
    SLUICE_RETURN_IF_ERROR(refusals_.status);
    OrderedJson text = root;
    if (extended_) text[kExtendedMember] = true;
    text["$defs"] = {{"any", AnyValue()}};
    for (size_t i = 0; i < parts_.size(); ++i) text["$defs"][StrCat("p", i)] = std::move(parts_[i]);
    return text;
  }

 private:
  // Keywords mean what those of json-schema.org do.
  Status CheckDialect() const {
    const OrderedJson& root = document_.root();
    const auto dialect = root.is_object() ? root.find("$schema") : root.end();
    if (!root.is_object() || dialect == root.end()) return OkStatus();
    const std::string name = dialect->is_string() ? dialect->get<std::string>() : "";
    for (const char* known : {"http://json-schema.org/", "https://json-schema.org/"}) {
      if (name.starts_with(known)) return OkStatus();
    }
    return RefuseKeyword("$schema", "#", "must be a dialect of json-schema.org");
  }

  // The rewritten schema of a goal: a reference to a part, or false where nothing fits.
  OrderedJson Part(const SchemaGoal& goal);
  void EmitForm(const SchemaForm& form, OrderedJson* alternatives);
  void EmitValues(const SchemaForm& form, const OrderedJson& first, const OrderedJson* source,
                  OrderedJson* alternatives);
  // What fits of one type; false: nothing does.
  OrderedJson String(const SchemaForm& form);
  OrderedJson Array(const SchemaForm& form);
  // The same where items of one kind are counted; nothing: none are.
  std::optional<OrderedJson> ArrayWithContained(const SchemaForm& form);
  // What fits where a schema, which stands in `around`, does not; null: that cannot be said.
  const OrderedJson* NegatedOf(const OrderedJson& schema, const OrderedJson& around);
  OrderedJson Object(const SchemaForm& form);
  void CheckArray(const SchemaForm& form, std::optional<int64_t> max_items);
  void CheckObject(const SchemaForm& form, bool named);
  // Holds other properties than `names` to what is said of the patterns that they fit. Afterwards
  // there are no `others`.
  void HoldPatterns(const SchemaForm& form, const FormPatterns& patterns,
                    const std::vector<std::string>& names, OrderedJson* others,
                    OrderedJson* schema);
  // Holds an object to how many properties it may have. False: no number fits.
  bool HoldCounts(const SchemaForm& form, OrderedJson* properties,
                  std::vector<std::string>* required, OrderedJson* others, OrderedJson* schema);
  // Of the names of properties, where the form says something of them; false: there is none. Null:
  // it says nothing.
  OrderedJson Names(const SchemaForm& form);

  std::optional<int64_t> Count(const SchemaForm& form, const char* keyword, bool largest) {
    return CountOf(form, keyword, largest, &refusals_);
  }
  void Refuse(const SchemaForm& form, size_t member, std::string_view keyword,
              std::string_view why) {
    refusals_.Refuse(form, member, keyword, why);
  }

  // An `if` evaluates what it names though it asserts nothing, and what is negated does not.
  void RefuseBesideIf(const SchemaForm& form, size_t member, std::string_view keyword) {
    if (form.Find(member, keyword) == nullptr) return;
    for (size_t i = 0; i < form.members.size(); ++i) {
      if (form.Find(i, "if") == nullptr && form.Find(i, kNegated) == nullptr) continue;
      Refuse(form, member, keyword, "is not supported beside if, not, or a oneOf that needs one");
    }
  }

  SchemaDocument& document_;
  SchemaExpander expander_;
  const bool closed_;
  SchemaRefusals refusals_;
  bool extended_ = false;  // a part is of a form that the library itself cannot read
  std::map<SchemaGoal, OrderedJson> known_;
  std::map<const OrderedJson*, const OrderedJson*> negated_;
  std::vector<OrderedJson> parts_;
  int nesting_ = 0;
  int64_t lengths_ = 0;  // of all strings
  MultiplesTaken multiples_;
  size_t listed_ = 0;  // values
  int patterned_ = 0;  // objects with patternProperties
};

OrderedJson AnyReference() { return {{"$ref", "#/$defs/any"}}; }

// What the library itself takes for any value has spaces within.
OrderedJson AnyValue() {
  OrderedJson alternatives = OrderedJson::array();
  for (const char* type : {"null", "boolean", "number", "string"}) {
    alternatives.push_back({{"type", type}});
  }
  alternatives.push_back({{"type", "array"}, {"items", AnyReference()}});
  alternatives.push_back({{"type", "object"}, {"additionalProperties", AnyReference()}});
  return {{"anyOf", std::move(alternatives)}};
}

OrderedJson Rewriter::Part(const SchemaGoal& goal) {
  const auto [known, is_new] = known_.try_emplace(goal, AnyReference());
  if (!is_new || goal.empty() || !refusals_.status.ok()) return known->second;
  if (parts_.size() >= kSchemaPartsMax || nesting_ >= kNestingMax) {
    refusals_.status = InvalidArgument(
        StrCat("the JSON schema has more than ", kSchemaPartsMax, " parts, or ", kNestingMax,
               " within each other, with its references written out; send a smaller one"),
        "grammar");
    return false;
  }
  const size_t index = parts_.size();
  parts_.emplace_back();
  // It may stand within itself.
  OrderedJson& reference = known->second;
  reference = {{"$ref", StrCat("#/$defs/p", index)}};
  auto forms = expander_.Expand(goal);
  if (!forms.ok()) {
    refusals_.status = forms.status();
    return false;
  }
  ++nesting_;
  OrderedJson alternatives = OrderedJson::array();
  for (const SchemaForm& form : *forms) EmitForm(form, &alternatives);
  --nesting_;
  const OrderedJson any = AnyReference();
  if (std::find(alternatives.begin(), alternatives.end(), any) != alternatives.end()) {
    parts_[index] = any;
  } else if (alternatives.empty()) {
    parts_[index] = {{"type", "null"}};  // nothing refers to it but itself
    reference = false;
  } else if (alternatives.size() == 1) {
    parts_[index] = std::move(alternatives[0]);
  } else {
    parts_[index]["anyOf"] = std::move(alternatives);
  }
  return reference;
}

void Rewriter::EmitForm(const SchemaForm& form, OrderedJson* alternatives) {
  for (const SchemaForm::Member& member : form.members) {
    for (const char* keyword : {"const", "enum"}) {
      const auto found = member.schema->find(keyword);
      if (found == member.schema->end()) continue;
      const OrderedJson only = keyword[0] == 'c' ? OrderedJson::array({*found}) : OrderedJson();
      const auto index = static_cast<size_t>(&member - form.members.data());
      if (keyword[0] == 'c') return EmitValues(form, only, &*found, alternatives);
      if (found->is_array()) return EmitValues(form, *found, &*found, alternatives);
      return Refuse(form, index, keyword, "must be an array");
    }
  }
  if (form.types == kAllTypes && !Constrains(form, kAllTypes)) {
    alternatives->push_back(AnyReference());
    return;
  }
  const auto add = [&](OrderedJson schema) {
    if (schema != false) alternatives->push_back(std::move(schema));
  };
  if ((form.types & kNullType) != 0) add({{"type", "null"}});
  if ((form.types & kBooleanType) != 0) add({{"type", "boolean"}});
  if ((form.types & kNumberType) != 0) add(NumbersOf(form, &multiples_, &refusals_, &extended_));
  if ((form.types & kStringType) != 0) add(String(form));
  if ((form.types & kArrayType) != 0) add(Array(form));
  if ((form.types & kObjectType) != 0) add(Object(form));
}

// Values that all schemas of the form list, and that have one of its types.
// `first`: those that one of them lists by `source`, its const or enum.
void Rewriter::EmitValues(const SchemaForm& form, const OrderedJson& first,
                          const OrderedJson* source, OrderedJson* alternatives) {
  std::vector<std::set<std::string>> lists;  // of the others that list values
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* list = form.Find(i, "enum");
    if (list != nullptr && list != source) lists.push_back(ValueKeys(*list));
    const OrderedJson* only = form.Find(i, "const");
    if (only != nullptr && only != source) lists.push_back({ValueKey(*only)});
  }
  OrderedJson values = OrderedJson::array();
  ValueBounds bounds(form, &refusals_);
  uint8_t types = 0;
  for (const OrderedJson& value : first) {
    bool fits = (TypeOf(value) & form.types) != 0;
    if (fits && !lists.empty()) {
      const std::string key = ValueKey(value);
      fits = std::all_of(lists.begin(), lists.end(),
                         [&](const std::set<std::string>& keys) { return keys.contains(key); });
    }
    if (!fits || !bounds.Hold(value)) continue;
    values.push_back(WithWrittenNumbers(value));
    types |= TypeOf(value);
  }
  for (const TypedKeyword& keyword : kTypedKeywords) {
    if (keyword.is_bound || (keyword.types & types) == 0) continue;  // the bounds have seen it
    for (size_t i = 0; i < form.members.size(); ++i) {
      if (form.Find(i, keyword.name) == nullptr) continue;
      return Refuse(form, i, keyword.name, "is not supported beside const or enum");
    }
  }
  listed_ += values.size();
  for (size_t i = 0; i < form.members.size() && listed_ > kListedMax; ++i) {
    if (form.Find(i, "enum") == nullptr) continue;
    Refuse(form, i, "enum",
           StrCat("is one of lists of more than ", kListedMax, " values together"));
  }
  if (!values.empty()) alternatives->push_back({{"enum", std::move(values)}});
}

OrderedJson Rewriter::String(const SchemaForm& form) {
  const std::optional<int64_t> least = Count(form, "minLength", true);
  const std::optional<int64_t> most = Count(form, "maxLength", false);
  OrderedJson schema = {{"type", "string"}};
  // The library reads one of these.
  const char* read = least || most ? "minLength or maxLength" : nullptr;
  for (const char* keyword : {"pattern", "format"}) {
    for (size_t i = 0; i < form.members.size(); ++i) {
      const OrderedJson* value = form.Find(i, keyword);
      if (value == nullptr) continue;
      if (!value->is_string()) {
        Refuse(form, i, keyword, "must be a string");
        continue;
      }
      const std::string& text = value->get_ref<const std::string&>();
      std::string format_regex;
      if (keyword[0] == 'f') {
        if (std::find(kUnknownFormats.begin(), kUnknownFormats.end(), text) !=
            kUnknownFormats.end()) {
          Refuse(form, i, keyword, StrCat("has the format ", text, ", which is not supported"));
        }
        format_regex = FormatRegex(text);
        if (format_regex.empty()) continue;
      }
      if (read != nullptr) {
        Refuse(form, i, keyword, StrCat("is not supported beside ", read));
      }
      read = keyword;
      if (keyword[0] == 'f') {
        schema["pattern"] = format_regex;
        continue;
      }
      const auto whole = WholeStringRegex(text);
      if (whole.ok()) schema[keyword] = *whole;
      if (!whole.ok())
        Refuse(form, i, keyword, StrCat("is not supported: ", whole.status().message()));
    }
  }
  if (least && most && *least > *most) return false;
  if (!least && !most) return schema;
  for (const auto& [keyword, length] : {std::pair("minLength", least), {"maxLength", most}}) {
    for (size_t i = 0; i < form.members.size() && length.value_or(0) > kLengthMax; ++i) {
      if (form.Find(i, keyword) == nullptr) continue;
      Refuse(form, i, keyword, StrCat("is above ", kLengthMax, ", which is not supported"));
    }
  }
  const int64_t length = std::max(least.value_or(0), most.value_or(0));
  if (length > kLengthMax) return schema;
  lengths_ += length;
  for (size_t i = 0; i < form.members.size() && lengths_ > kLengthMax; ++i) {
    const char* keyword = most ? "maxLength" : "minLength";
    if (form.Find(i, keyword) == nullptr) continue;
    Refuse(form, i, keyword, StrCat("is one of lengths that are above ", kLengthMax, " together"));
  }
  // As a pattern it is one automaton, whose masks take a tenth of the time; and the library's own
  // lengths let characters pass that JSON escapes.
  schema["pattern"] = StringLengthRegex(least.value_or(0), most);
  return schema;
}

void Rewriter::CheckArray(const SchemaForm& form, std::optional<int64_t> max_items) {
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* items = form.Find(i, "items");
    const OrderedJson* front = form.Find(i, "prefixItems");
    if (front != nullptr && (!front->is_array() || (items != nullptr && items->is_array()))) {
      Refuse(form, i, "prefixItems", "must be an array, without another in items");
    }
    RefuseBesideIf(form, i, "unevaluatedItems");
    const OrderedJson* unique = form.Find(i, "uniqueItems");
    if (unique != nullptr && *unique != false && max_items.value_or(2) > 1) {
      Refuse(form, i, "uniqueItems", "is not supported");
    }
    if (form.Find(i, "contains") == nullptr) continue;
    for (size_t j = 0; j < form.members.size(); ++j) {
      if (form.Find(j, "unevaluatedItems") == nullptr) continue;
      Refuse(form, j, "unevaluatedItems", "is not supported beside contains");
    }
  }
}

const OrderedJson* Rewriter::NegatedOf(const OrderedJson& schema, const OrderedJson& around) {
  const auto [known, is_new] = negated_.try_emplace(&schema, nullptr);
  if (!is_new) return known->second;
  auto negated = Negated(schema);
  if (negated) known->second = document_.Adopt(*std::move(negated), around);
  return known->second;
}

std::optional<OrderedJson> Rewriter::ArrayWithContained(const SchemaForm& form) {
  const auto counted = ContainedOf(form, &refusals_);
  if (!counted) return std::nullopt;
  const auto [member, least, most] = *counted;
  if (most >= 0 && least > most) return OrderedJson(false);
  const OrderedJson& contained = *form.Find(member, "contains");
  SchemaGoal goal = ItemGoal(form, 0), other_goal = goal;
  const OrderedJson any = Part(goal);
  AddTo(&goal, &contained);
  OrderedJson item = Part(goal);
  if (item == false && least > 0) return OrderedJson(false);
  // Others are told apart from those that are counted, or else counting must not matter.
  const OrderedJson* const negated = NegatedOf(contained, *form.members[member].schema);
  if (negated == nullptr && most >= 0) {
    Refuse(form, member, "maxContains", "is not supported with what contains says here");
  }
  OrderedJson other = any;
  if (negated != nullptr) {
    AddTo(&other_goal, negated);
    other = Part(other_goal);
  }
  OrderedJson schema = {{"type", "array"}};
  if (other == false) {
    schema["items"] = std::move(item);
    if (least > 0) schema["minItems"] = least;
    if (most >= 0) schema["maxItems"] = most;
    return schema;
  }
  if (item == false) {
    schema["items"] = std::move(other);
    return schema;
  }
  extended_ = true;
  schema["contains"] = std::move(item);
  schema["items"] = std::move(other);
  schema["minContains"] = least;
  if (most >= 0) {
    schema["maxContains"] = most;
  } else {
    schema["rest"] = any;  // behind those that are needed
  }
  return schema;
}

OrderedJson Rewriter::Array(const SchemaForm& form) {
  const std::optional<int64_t> least = Count(form, "minItems", true);
  std::optional<int64_t> most = Count(form, "maxItems", false);
  CheckArray(form, most);
  if (auto counted = ArrayWithContained(form)) return *std::move(counted);
  size_t front = 0;
  for (size_t i = 0; i < form.members.size(); ++i) front = std::max(front, FrontItems(form, i));
  OrderedJson schema = {{"type", "array"}};
  OrderedJson items = OrderedJson::array();
  for (size_t i = 0; i < front && refusals_.status.ok(); ++i) {
    if (most && *most <= static_cast<int64_t>(i)) break;
    OrderedJson item = Part(ItemGoal(form, i));
    if (item == false) {
      most = static_cast<int64_t>(i);
      break;
    }
    items.push_back(std::move(item));
  }
  const bool ends = most && *most <= static_cast<int64_t>(items.size());
  OrderedJson rest = ends ? OrderedJson(false) : Part(ItemGoal(form, front));
  if (rest == false) {
    const auto longest = static_cast<int64_t>(items.size());
    if (least && *least > longest) return false;
    if (!most || *most >= longest) most.reset();
  }
  if (least && most && *least > *most) return false;
  if (!items.empty()) schema["prefixItems"] = std::move(items);
  schema["items"] = std::move(rest);
  if (least && *least > 0) schema["minItems"] = *least;
  if (most) schema["maxItems"] = *most;
  return schema;
}

void Rewriter::CheckObject(const SchemaForm& form, bool named) {
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* properties = form.Find(i, "properties");
    if (properties != nullptr && !properties->is_object()) {
      Refuse(form, i, "properties", "must be an object");
    }
    RefuseBesideIf(form, i, "unevaluatedProperties");
    const OrderedJson* required = form.Find(i, "required");
    const auto is_text = [](const OrderedJson& name) { return name.is_string(); };
    if (required != nullptr &&
        !(required->is_array() && std::all_of(required->begin(), required->end(), is_text))) {
      Refuse(form, i, "required", "must be an array of strings");
    }
    if (form.Find(i, "propertyNames") != nullptr && named) {
      Refuse(form, i, "propertyNames", "is not supported beside properties or required");
    }
  }
}

OrderedJson Rewriter::Names(const SchemaForm& form) {
  SchemaGoal goal;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (const OrderedJson* names = form.Find(i, "propertyNames")) AddTo(&goal, names);
  }
  if (goal.empty()) return nullptr;
  auto forms = expander_.Expand(goal);
  if (!forms.ok()) {
    refusals_.status = forms.status();
    return false;
  }
  OrderedJson alternatives = OrderedJson::array();
  for (SchemaForm& names : *forms) {
    names.types &= kStringType;
    if (names.types != 0) EmitForm(names, &alternatives);
  }
  if (alternatives.empty()) return false;
  if (alternatives.size() == 1) return alternatives[0];
  return {{"anyOf", std::move(alternatives)}};
}

OrderedJson Rewriter::Object(const SchemaForm& form) {
  std::vector<std::string> names, required;
  const auto add = [](std::vector<std::string>* list, const std::string& name) {
    if (std::find(list->begin(), list->end(), name) == list->end()) list->push_back(name);
  };
  bool open = !closed_;  // unless a schema says something of other properties
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* properties = form.Find(i, "properties");
    open = open || form.Find(i, "additionalProperties") != nullptr ||
           form.Find(i, "unevaluatedProperties") != nullptr;
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [name, part] : properties->items()) add(&names, name);
  }
  const FormPatterns patterns = PatternsOfForm(form, &refusals_);
  open = open || (names.empty() && patterns.regexes.empty());
  CheckObject(form, !names.empty());
  if (!refusals_.status.ok()) return false;
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* list = form.Find(i, "required");
    if (list == nullptr) continue;
    for (const OrderedJson& name : *list) add(&required, name.get<std::string>());
  }
  for (const std::string& name : required) add(&names, name);
  CheckObject(form, !names.empty());
  OrderedJson others = open ? Part(OtherGoal(form)) : OrderedJson(false);
  OrderedJson schema = {{"type", "object"}};
  OrderedJson other_names = Names(form);
  if (other_names == false) others = false;
  if (others != false && !other_names.is_null()) schema["propertyNames"] = std::move(other_names);
  OrderedJson properties = OrderedJson::object();
  const auto matches = patterns.MatchesOf(names, form, &refusals_);
  for (size_t i = 0; i < names.size(); ++i) {
    OrderedJson part = Part(PropertyGoal(form, names[i], matches[i]));
    if (part != false) {
      properties[names[i]] = std::move(part);
      continue;
    }
    if (std::find(required.begin(), required.end(), names[i]) != required.end()) return false;
  }
  if (!patterns.regexes.empty()) HoldPatterns(form, patterns, names, &others, &schema);
  if (others != false && !names.empty()) {
    // The library would take another spelling of a name, with escapes, for another name.
    schema["propertyNames"] = {{"type", "string"}, {"pattern", OtherStringsRegex(names)}};
  }
  if (!HoldCounts(form, &properties, &required, &others, &schema)) return false;
  if (!properties.empty()) schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = std::move(others);
  return schema;
}

void Rewriter::HoldPatterns(const SchemaForm& form, const FormPatterns& patterns,
                            const std::vector<std::string>& names, OrderedJson* others,
                            OrderedJson* schema) {
  const size_t member = patterns.uses[0].member;
  for (size_t i = 0; i < form.members.size(); ++i) {
    for (const char* keyword : {"propertyNames", "minProperties", "maxProperties"}) {
      if (form.Find(i, keyword) == nullptr) continue;
      Refuse(form, i, keyword, "is not supported beside patternProperties");
    }
  }
  const auto classes =
      ++patterned_ > kPatternedMax ? std::nullopt : ClassesOfNames(patterns.regexes, names);
  if (!classes) {
    return Refuse(form, member, "patternProperties",
                  "has patterns that take too much together; send simpler ones");
  }
  OrderedJson parts = OrderedJson::object();
  for (const NameClass& of : *classes) {
    OrderedJson value = of.patterns == 0
                            ? *others
                            : Part(PropertyGoal(form, "\xFF", patterns.MatchesOf(of.patterns)));
    if (value != false) parts[of.regex] = std::move(value);
  }
  *others = false;
  if (!parts.empty()) (*schema)["patternProperties"] = std::move(parts);
}

bool Rewriter::HoldCounts(const SchemaForm& form, OrderedJson* properties,
                          std::vector<std::string>* required, OrderedJson* others,
                          OrderedJson* schema) {
  constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();
  int64_t least = Count(form, "minProperties", true).value_or(0);
  int64_t most = Count(form, "maxProperties", false).value_or(kAnyNumber);
  const auto listed =
      schema->contains("propertyNames") ? ListedNames((*schema)["propertyNames"]) : std::nullopt;
  if (properties->empty() && least > 1 && listed) {
    for (const std::string& name : *listed) (*properties)[name] = *others;
    schema->erase("propertyNames");
    *others = false;
  }
  const auto named = static_cast<int64_t>(properties->size());
  const auto needed = static_cast<int64_t>(required->size());
  const bool closed = *others == false;
  if (most < std::max(needed, least) || (closed && least > named)) return false;
  if (closed && least == named) {
    required->clear();
    for (const auto& [name, part] : properties->items()) required->push_back(name);
  }
  if (least <= static_cast<int64_t>(required->size())) least = 0;
  if (closed && most >= named) most = kAnyNumber;
  for (size_t i = 0; i < form.members.size() && !closed; ++i) {
    // The library counts what comes, and a name that is not listed may come twice.
    if (least > (named > 0 ? 0 : 1) && form.Find(i, "minProperties") != nullptr) {
      Refuse(form, i, "minProperties",
             "is supported where the names are listed, by properties with additionalProperties "
             "false or by an enum of propertyNames, or where it is 1 and none are");
    }
    if (most < kAnyNumber && named > 0 && form.Find(i, "maxProperties") != nullptr) {
      Refuse(form, i, "maxProperties",
             "is not supported beside properties or required where there may be others");
    }
  }
  if (least > 0) (*schema)["minProperties"] = least;
  if (most < kAnyNumber) (*schema)["maxProperties"] = most;
  return true;
}

}  // namespace

Result<OrderedJson> RewriteSchema(std::string_view schema, bool closed) {
  SLUICE_ASSIGN_OR_RETURN(const auto document, SchemaDocument::Parse(schema));
  return Rewriter(*document, closed).Run();
}

}  // namespace sluice::text
