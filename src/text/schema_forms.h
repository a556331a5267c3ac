// What schemas that hold together come to: forms, of which one holds. $ref, allOf, anyOf, oneOf and
// not are worked in; what asserts something of one type of value is left for the reader.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/schema_document.h"

namespace sluice::text {

// Types of JSON values, as bits; a number is an integer or has a fraction.
enum SchemaTypes : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberType = kIntegerType | kFractionType,
  kAllTypes = 127,
};

uint8_t TypeOf(const OrderedJson& value);
// A text that two values have where they are the same: 1 is 1.0, and the order of keys says
// nothing.
std::string ValueKey(const OrderedJson& value);
// Of each of an array.
std::set<std::string> ValueKeys(const OrderedJson& values);

// The value with texts for the numbers in it that the library would write otherwise (kNumberText).
OrderedJson WithWrittenNumbers(const OrderedJson& value);

// Schemas of one document that hold together, each once; none: anything goes.
using SchemaGoal = std::vector<const OrderedJson*>;
void AddTo(SchemaGoal* goal, const OrderedJson* schema);

struct SchemaForm {
  struct Member {
    const OrderedJson* schema;  // an object
    int parent;                 // the member that applies it to the same value, or -1
  };
  std::vector<Member> members;  // in the order in which they are met
  uint8_t types = kAllTypes;

  const OrderedJson* Find(size_t member, std::string_view keyword) const;
  std::optional<int> MemberOf(const OrderedJson& schema) const;
  // Whether `member` is `root`, or is applied by it, however far.
  bool IsWithin(int member, int root) const;
};

// Keywords that say something about one type of values.
struct TypedKeyword {
  const char* name;
  uint8_t types;
  bool is_bound = false;  // of one number or the length of a string
};
inline constexpr TypedKeyword kTypedKeywords[] = {
    {"minimum", kNumberType, true},
    {"maximum", kNumberType, true},
    {"exclusiveMinimum", kNumberType, true},
    {"exclusiveMaximum", kNumberType, true},
    {"multipleOf", kNumberType},
    {"minLength", kStringType, true},
    {"maxLength", kStringType, true},
    {"pattern", kStringType},
    {"format", kStringType},
    {"items", kArrayType},
    {"prefixItems", kArrayType},
    {"unevaluatedItems", kArrayType},
    {"minItems", kArrayType},
    {"maxItems", kArrayType},
    {"uniqueItems", kArrayType},
    {"contains", kArrayType},
    {"properties", kObjectType},
    {"patternProperties", kObjectType},
    {"propertyNames", kObjectType},
    {"additionalProperties", kObjectType},
    {"required", kObjectType},
    {"unevaluatedProperties", kObjectType},
    {"minProperties", kObjectType},
    {"maxProperties", kObjectType},
};

// Whether a member has a keyword that says something about values of one of these types.
bool Constrains(const SchemaForm& form, uint8_t types);

class SchemaExpander {
 public:
  explicit SchemaExpander(SchemaDocument& document) : document_(document) {}

  // No form: nothing fits. kInvalidArgument names what is not supported.
  Result<std::vector<SchemaForm>> Expand(const SchemaGoal& goal);

 private:
  struct Pending {
    const OrderedJson* schema;
    int parent;
  };
  // Of these schemas at least one holds.
  struct Choice {
    const OrderedJson* schemas;
    int parent;
    bool any_number;  // more than one may hold
  };

  Status Go(SchemaForm form, std::vector<Pending> pending, std::vector<Choice> choices,
            std::vector<SchemaForm>* forms);
  Status AddMember(const Pending& next, SchemaForm* form, std::vector<Pending>* pending,
                   std::vector<Choice>* choices);
  // What allOf, anyOf and oneOf say.
  Status AddLists(const OrderedJson& schema, int self, std::vector<Pending>* pending,
                  std::vector<Choice>* choices);
  Status AddDynamic(const OrderedJson& schema, int self, std::vector<Pending>* pending) const;
  Status AddNegation(const OrderedJson& schema, int self, SchemaForm* form,
                     std::vector<Pending>* pending);
  // What stands for a keyword of `schema`, as Refuse says where nothing does; made once.
  Result<const OrderedJson*> StandIn(std::string_view keyword, const OrderedJson& schema);
  Status GoOn(const SchemaForm& form, std::vector<Choice> choices, std::vector<SchemaForm>* forms);
  // Whether no value can fit two of the schemas.
  Result<bool> AreAllApart(const OrderedJson& one_of);
  Status Refuse(std::string_view keyword, const OrderedJson& schema, std::string_view why) const;

  SchemaDocument& document_;
  size_t steps_ = 0;
  std::map<const OrderedJson*, bool> apart_;  // the lists of oneOf that were looked at
  std::map<std::pair<std::string, const OrderedJson*>, const OrderedJson*> stand_ins_;
};

}  // namespace sluice::text
