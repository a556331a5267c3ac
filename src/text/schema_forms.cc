#include "text/schema_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/str_cat.h"
#include "text/json_schema.h"
#include "text/schema_negation.h"

namespace sluice::text {
namespace {

// Members that are looked at for one document; more would take seconds.
constexpr size_t kFormStepsMax = 200'000;
// Of one form; they hold together.
constexpr size_t kMembersMax = 256;
// Of an anyOf, each selection of whose schemas is a form of its own.
constexpr size_t kSelectedMax = 4;

// Keywords of the two drafts, and of those before, that say something which is not supported.
constexpr std::array kUnsupported = {"$vocabulary"};

uint8_t TypeNamed(const OrderedJson& name) {
  struct Named {
    const char* name;
    uint8_t types;
  };
  constexpr Named kTypes[] = {{"null", kNullType},       {"boolean", kBooleanType},
                              {"integer", kIntegerType}, {"number", kNumberType},
                              {"string", kStringType},   {"array", kArrayType},
                              {"object", kObjectType}};
  for (const Named& type : kTypes) {
    if (name == type.name) return type.types;
  }
  return 0;
}

// Of the keyword `type`; 0: it is none.
uint8_t TypesOf(const OrderedJson& type) {
  if (!type.is_array()) return TypeNamed(type);
  uint8_t types = 0;
  for (const OrderedJson& name : type) {
    if (TypeNamed(name) == 0) return 0;
    types |= TypeNamed(name);
  }
  return types;
}

Json Unordered(const OrderedJson& value) {
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [key, part] : value.items()) object[key] = Unordered(part);
    return object;
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number != std::floor(number)) return value;
    if (number >= 0 && number < 0x1p64) return static_cast<uint64_t>(number);
    if (number < 0 && number >= -0x1p63) return static_cast<int64_t>(number);
  }
  if (!value.is_array()) return value;
  Json array = Json::array();
  for (const OrderedJson& part : value) array.push_back(Unordered(part));
  return array;
}

// The values that a schema lists by const or enum; null: it lists none.
OrderedJson ListedValues(const OrderedJson& schema) {
  if (!schema.is_object()) return nullptr;
  if (schema.contains("const")) return OrderedJson::array({schema["const"]});
  if (schema.contains("enum") && schema["enum"].is_array()) return schema["enum"];
  return nullptr;
}

bool ShareValue(const OrderedJson& a, const OrderedJson& b) {
  const std::set<std::string> keys = ValueKeys(a);
  return std::any_of(b.begin(), b.end(),
                     [&](const OrderedJson& value) { return keys.contains(ValueKey(value)); });
}

// What a form lists of the values of property `name`, where it requires that property; else null.
OrderedJson RequiredValues(const SchemaForm& form, const std::string& name) {
  bool required = false;
  OrderedJson values;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (const OrderedJson* names = form.Find(i, "required")) {
      required = required || std::find(names->begin(), names->end(), name) != names->end();
    }
    const OrderedJson* properties = form.Find(i, "properties");
    if (properties != nullptr && properties->contains(name)) {
      values = ListedValues((*properties)[name]);
    }
  }
  return required ? values : OrderedJson();
}

uint8_t PossibleTypes(const SchemaForm& form) {
  uint8_t types = form.types;
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson values = ListedValues(*form.members[i].schema);
    if (values.is_null()) continue;
    uint8_t listed = 0;
    for (const OrderedJson& value : values) listed |= TypeOf(value);
    types &= listed;
  }
  return types;
}

OrderedJson PossibleValues(const SchemaForm& form) {
  for (const auto& member : form.members) {
    OrderedJson values = ListedValues(*member.schema);
    if (!values.is_null()) return values;
  }
  return nullptr;
}

Status TooManyForms() {
  return InvalidArgument(
      StrCat("the JSON schema has more than ", kSchemaFormsMax,
             " alternatives in one place, where its anyOf and oneOf meet; send a simpler one"),
      "grammar");
}

// True: no value fits both. False: it cannot be told.
bool AreApart(const SchemaForm& a, const SchemaForm& b) {
  const uint8_t shared = PossibleTypes(a) & PossibleTypes(b);
  if (shared == 0) return true;
  const OrderedJson values_a = PossibleValues(a), values_b = PossibleValues(b);
  if (!values_a.is_null() && !values_b.is_null()) return !ShareValue(values_a, values_b);
  if (shared != kObjectType) return false;
  for (size_t i = 0; i < a.members.size(); ++i) {
    const OrderedJson* properties = a.Find(i, "properties");
    if (properties == nullptr) continue;
    for (const auto& [name, schema] : properties->items()) {
      const OrderedJson here = RequiredValues(a, name), there = RequiredValues(b, name);
      if (!here.is_null() && !there.is_null() && !ShareValue(here, there)) return true;
    }
  }
  return false;
}

}  // namespace

uint8_t TypeOf(const OrderedJson& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  if (value.is_number_integer()) return kIntegerType;
  const double number = value.get<double>();
  return number == std::floor(number) ? kIntegerType : kFractionType;
}

std::string ValueKey(const OrderedJson& value) { return DumpJson(Unordered(value)); }

std::set<std::string> ValueKeys(const OrderedJson& values) {
  std::set<std::string> keys;
  for (const OrderedJson& value : values) keys.insert(ValueKey(value));
  return keys;
}

OrderedJson WithWrittenNumbers(const OrderedJson& value) {
  const bool fraction = value.is_number_float() &&
                        (TypeOf(value) == kFractionType || std::abs(value.get<double>()) >= 0x1p53);
  const bool large = value.is_number_unsigned() &&
                     value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (fraction || large) return StrCat(kNumberText, DumpJson(value));
  if (!value.is_structured()) return value;
  OrderedJson written = value;
  for (OrderedJson& part : written) part = WithWrittenNumbers(part);
  return written;
}

void AddTo(SchemaGoal* goal, const OrderedJson* schema) {
  if (std::find(goal->begin(), goal->end(), schema) == goal->end()) goal->push_back(schema);
}

const OrderedJson* SchemaForm::Find(size_t member, std::string_view keyword) const {
  const auto found = members[member].schema->find(std::string(keyword));
  return found == members[member].schema->end() ? nullptr : &*found;
}

std::optional<int> SchemaForm::MemberOf(const OrderedJson& schema) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].schema == &schema) return static_cast<int>(i);
  }
  return std::nullopt;
}

bool SchemaForm::IsWithin(int member, int root) const {
  while (member >= 0 && member != root) member = members[static_cast<size_t>(member)].parent;
  return member == root;
}

bool Constrains(const SchemaForm& form, uint8_t types) {
  return std::any_of(std::begin(kTypedKeywords), std::end(kTypedKeywords),
                     [&](const TypedKeyword& keyword) {
                       if ((keyword.types & types) == 0) return false;
                       for (size_t i = 0; i < form.members.size(); ++i) {
                         if (form.Find(i, keyword.name) != nullptr) return true;
                       }
                       return false;
                     });
}

Status SchemaExpander::Refuse(std::string_view keyword, const OrderedJson& schema,
                              std::string_view why) const {
  return RefuseKeyword(keyword, document_.PlaceOf(schema), why);
}

Result<std::vector<SchemaForm>> SchemaExpander::Expand(const SchemaGoal& goal) {
  std::vector<Pending> pending;
  for (auto schema = goal.rbegin(); schema != goal.rend(); ++schema) {
    pending.push_back({*schema, -1});
  }
  std::vector<SchemaForm> forms;
  SLUICE_RETURN_IF_ERROR(Go({}, std::move(pending), {}, &forms));
  return forms;
}

// What always holds comes first, so that as few forms as can be are made of the rest.
Status SchemaExpander::Go(SchemaForm form, std::vector<Pending> pending,
                          std::vector<Choice> choices, std::vector<SchemaForm>* forms) {
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    if (next.schema->is_boolean()) {
      if (!next.schema->get<bool>()) return OkStatus();
      continue;
    }
    SLUICE_RETURN_IF_ERROR(AddMember(next, &form, &pending, &choices));
    if (form.types == 0) return OkStatus();
  }
  return GoOn(form, std::move(choices), forms);
}

Status SchemaExpander::AddMember(const Pending& next, SchemaForm* form,
                                 std::vector<Pending>* pending, std::vector<Choice>* choices) {
  const OrderedJson& schema = *next.schema;
  if (!schema.is_object()) {
    return InvalidArgument(StrCat("the JSON schema has at ", document_.PlaceOf(schema),
                                  " what is neither an object nor true or false"),
                           "grammar");
  }
  if (const auto same = form->MemberOf(schema)) {
    if (!form->IsWithin(next.parent, *same)) return OkStatus();
    return Refuse("$ref", schema,
                  "leads back here before any property or item, which says nothing");
  }
  if (++steps_ > kFormStepsMax || form->members.size() >= kMembersMax) {
    return InvalidArgument(
        "the JSON schema has too many references and alternatives; send a simpler one", "grammar");
  }
  const int self = static_cast<int>(form->members.size());
  form->members.push_back({&schema, next.parent});
  for (const char* keyword : kUnsupported) {
    if (schema.contains(keyword)) return Refuse(keyword, schema, "is not supported");
  }
  if (const auto type = schema.find("type"); type != schema.end()) {
    const uint8_t types = TypesOf(*type);
    if (types == 0) return Refuse("type", schema, "is no type or list of types of JSON Schema");
    form->types &= types;
  }
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    const OrderedJson* target =
        ref->is_string() ? document_.Find(ref->get_ref<const std::string&>(), schema) : nullptr;
    if (target == nullptr) {
      return Refuse("$ref", schema, "refers to no part of this schema, as #/$defs/NAME would");
    }
    pending->push_back({target, self});
  }
  SLUICE_RETURN_IF_ERROR(AddDynamic(schema, self, pending));
  SLUICE_RETURN_IF_ERROR(AddLists(schema, self, pending, choices));
  if (schema.contains("not")) SLUICE_RETURN_IF_ERROR(AddNegation(schema, self, form, pending));
  const bool branches = schema.contains("then") || schema.contains("else");
  for (const char* keyword : {"if", "dependentRequired", "dependentSchemas", "dependencies"}) {
    if (!schema.contains(keyword) || (keyword[0] == 'i' && !branches)) continue;
    SLUICE_ASSIGN_OR_RETURN(const OrderedJson* stand_in, StandIn(keyword, schema));
    pending->push_back({stand_in, self});
  }
  return OkStatus();
}

Status SchemaExpander::AddLists(const OrderedJson& schema, int self, std::vector<Pending>* pending,
                                std::vector<Choice>* choices) {
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const auto list = schema.find(keyword);
    if (list == schema.end()) continue;
    if (!list->is_array() || list->empty()) {
      return Refuse(keyword, schema, "must be an array with at least one schema");
    }
    if (keyword == std::string_view("allOf")) {
      for (auto part = list->rbegin(); part != list->rend(); ++part) {
        pending->push_back({&*part, self});
      }
      continue;
    }
    bool apart = true;
    if (keyword == std::string_view("oneOf")) {
      SLUICE_ASSIGN_OR_RETURN(apart, AreAllApart(*list));
    }
    if (apart) {
      choices->push_back({&*list, self, keyword == std::string_view("anyOf")});
    } else {
      SLUICE_ASSIGN_OR_RETURN(const OrderedJson* stand_in, StandIn(keyword, schema));
      pending->push_back({stand_in, self});
    }
  }
  return OkStatus();
}

Status SchemaExpander::AddDynamic(const OrderedJson& schema, int self,
                                  std::vector<Pending>* pending) const {
  for (const char* keyword : {"$dynamicRef", "$recursiveRef"}) {
    const auto ref = schema.find(keyword);
    if (ref == schema.end()) continue;
    bool several = false;
    const OrderedJson* target = ref->is_string()
                                    ? document_.FindDynamic(ref->get_ref<const std::string&>(),
                                                            schema, keyword[1] == 'r', &several)
                                    : nullptr;
    if (target == nullptr) return Refuse(keyword, schema, "refers to no part of this schema");
    if (several) {
      return Refuse(
          keyword, schema,
          "means one part or another, by the way that leads here, which is not supported");
    }
    pending->push_back({target, self});
  }
  return OkStatus();
}

Status SchemaExpander::AddNegation(const OrderedJson& schema, int self, SchemaForm* form,
                                   std::vector<Pending>* pending) {
  const OrderedJson& denied = schema["not"];
  const bool only_type = denied.is_object() && denied.size() == 1 && denied.contains("type");
  if (const uint8_t types = only_type ? TypesOf(denied["type"]) : 0; types != 0) {
    form->types &= static_cast<uint8_t>(~types);
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson* stand_in, StandIn("not", schema));
  pending->push_back({stand_in, self});
  return OkStatus();
}

Result<const OrderedJson*> SchemaExpander::StandIn(std::string_view keyword,
                                                   const OrderedJson& schema) {
  const auto [known, is_new] = stand_ins_.try_emplace({std::string(keyword), &schema}, nullptr);
  if (!is_new) return known->second;
  std::optional<OrderedJson> made;
  if (keyword == "not") made = Negated(schema["not"]);
  if (keyword == "if") made = WithoutIf(schema);
  if (keyword == "oneOf") made = WithoutOneOf(schema);
  if (keyword.starts_with("depende")) made = WithoutDependents(schema);
  known->second = made ? document_.Adopt(*std::move(made), schema) : nullptr;
  if (known->second != nullptr) return known->second;
  return Refuse(keyword, schema,
                keyword == "oneOf"
                    ? "has schemas that one value may fit at once, as far as can be told; use "
                      "anyOf, or give each another type or another const of a required property"
                    : "is not supported with what it says here; use anyOf");
}

Result<bool> SchemaExpander::AreAllApart(const OrderedJson& one_of) {
  // Within itself it is taken to be.
  const auto [known, is_new] = apart_.try_emplace(&one_of, true);
  if (!is_new) return known->second;
  if (one_of.size() > kSchemaFormsMax) return TooManyForms();
  std::vector<std::vector<SchemaForm>> alternatives;
  for (const OrderedJson& part : one_of) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<SchemaForm> forms, Expand({&part}));
    alternatives.push_back(std::move(forms));
  }
  for (size_t i = 0; i < alternatives.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const SchemaForm& a : alternatives[i]) {
        for (const SchemaForm& b : alternatives[j]) {
          if (!AreApart(a, b)) return apart_[&one_of] = false;
        }
      }
    }
  }
  return true;
}

Status SchemaExpander::GoOn(const SchemaForm& form, std::vector<Choice> choices,
                            std::vector<SchemaForm>* forms) {
  if (choices.empty()) {
    if (forms->size() >= kSchemaFormsMax) {
      return TooManyForms();
    }
    forms->push_back(form);
    return OkStatus();
  }
  const Choice choice = choices.back();
  choices.pop_back();
  // Which of the schemas hold matters where what none of them names is asked for.
  bool all_matter = false;
  for (size_t i = 0; i < form.members.size() && choice.any_number; ++i) {
    all_matter = all_matter || form.Find(i, "unevaluatedProperties") != nullptr ||
                 form.Find(i, "unevaluatedItems") != nullptr;
  }
  const size_t count = choice.schemas->size();
  if (!all_matter || count == 1) {
    for (const OrderedJson& schema : *choice.schemas) {
      SLUICE_RETURN_IF_ERROR(Go(form, {{&schema, choice.parent}}, choices, forms));
    }
    return OkStatus();
  }
  if (count > kSelectedMax) {
    return Refuse("anyOf", *form.members[static_cast<size_t>(choice.parent)].schema,
                  StrCat("has ", count, " schemas within unevaluatedProperties or ",
                         "unevaluatedItems; the limit is ", kSelectedMax));
  }
  for (size_t selected = 1; selected < size_t{1} << count; ++selected) {
    std::vector<Pending> pending;
    for (size_t i = 0; i < count; ++i) {
      if (selected >> i & 1) pending.push_back({&(*choice.schemas)[i], choice.parent});
    }
    SLUICE_RETURN_IF_ERROR(Go(form, std::move(pending), choices, forms));
  }
  return OkStatus();
}

}  // namespace sluice::text
