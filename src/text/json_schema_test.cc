#include "text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/str_cat.h"
#include "text/whole_regex.h"

namespace sluice::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Json kAnyReference = {{"$ref", "#/$defs/any"}};

// Strings of so many characters.
Json OfLength(int64_t least, std::optional<int64_t> most) {
  return {{"type", "string"}, {"pattern", StringLengthRegex(least, most)}};
}

// The first part of what a schema becomes, which is that of the root.
Json Root(std::string_view schema, bool closed = false) {
  const auto rewritten = RewriteSchema(schema, closed);
  EXPECT_TRUE(rewritten.ok()) << rewritten.status().message();
  if (!rewritten.ok()) return nullptr;
  const auto json = ParseJson(DumpJson(*rewritten), "the schema");
  return (*json)["$ref"] == "#/$defs/p0" ? (*json)["$defs"]["p0"] : *json;
}

std::string Refusal(std::string_view schema) {
  const auto text = RewriteSchema(schema, false);
  EXPECT_FALSE(text.ok()) << *text;
  if (text.ok()) return "";
  EXPECT_EQ(text.status().field(), "grammar");
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_LT(text.status().message().size(), 600u);
  return text.status().message();
}

TEST(RewriteSchemaTest, WhatIsSaidOfOneTypeLeavesTheOthersFree) {
  const Json root = Root(R"({"minLength": 2})");
  ASSERT_EQ(root["anyOf"].size(), 6u);
  EXPECT_EQ(root["anyOf"][3], OfLength(2, {}));
  EXPECT_EQ(Root(R"({"type": "string", "minLength": 2})"), OfLength(2, {}));
  EXPECT_EQ(Root("{}"), kAnyReference);
  EXPECT_EQ(Root(R"({"title": "a", "x-order": 3, "default": 1})"), kAnyReference);
}

TEST(RewriteSchemaTest, SchemasThatHoldTogetherBecomeOne) {
  EXPECT_EQ(
      Root(R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 9.5}], "minimum": 1})"),
      (Json{{"type", "integer"}, {"minimum", 3}, {"maximum", 9}}));
  EXPECT_EQ(Root(R"({"$ref": "#/$defs/a", "maxLength": 4, "$defs": {"a": {"type": "string"}}})"),
            OfLength(0, 4));
  EXPECT_EQ(Root(R"({"type": ["string", "null"], "enum": ["a", 1, null]})"),
            (Json{{"enum", {"a", nullptr}}}));
}

TEST(RewriteSchemaTest, AClosedObjectHoldsWhatItNames) {
  const char* const schema = R"({"type": "object", "properties": {"a": {}}})";
  EXPECT_EQ(Root(schema, true)["additionalProperties"], false);
  EXPECT_NE(Root(schema, false)["additionalProperties"], false);
  EXPECT_NE(Root(R"({"type": "object"})", true)["additionalProperties"], false);
}

TEST(RewriteSchemaTest, ASchemaMayStandWithinItself) {
  const Json root = Root(R"({"type": "object", "properties": {"next": {"$ref": "#"}},
                             "additionalProperties": false})");
  EXPECT_THAT(root["properties"]["next"].dump(), HasSubstr("#/$defs/p"));
  // Here, though, nothing says what fits.
  for (const char* schema : {R"({"$ref": "#"})", R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})",
                             R"({"allOf": [{"anyOf": [{"$ref": "#/allOf/0"}]}]})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("leads back here before any property")) << schema;
  }
  Root(
      R"({"$defs": {"a": {"minimum": 1}}, "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]})");
}

TEST(RewriteSchemaTest, WhatIsNotSupportedIsNamedWithItsPlace) {
  EXPECT_THAT(
      Refusal(R"({"properties": {"a/b": {"items": {"uniqueItems": true}}}})"),
      HasSubstr(R"(the keyword "uniqueItems" of the JSON schema at "#/properties/a~1b/items")"));
  for (const char* schema :
       {R"x({"patternProperties": {"a(?=b)": {}}})x",
        R"({"patternProperties": {"a": {}}, "minProperties": 1})",
        R"({"patternProperties": {"a": {}}, "propertyNames": {"maxLength": 2}})",
        R"({"propertyNames": {}, "required": ["a"]})",
        R"({"if": {"pattern": "a"}, "then": false})",
        R"({"$schema": "http://elsewhere.org/"})",
        R"({"uniqueItems": true})",
        R"({"$dynamicRef": "#a"})",
        R"({"not": {"items": {}}})",
        R"({"multipleOf": 1e-7})",
        R"({"multipleOf": 1001})",
        R"({"multipleOf": 0.5, "maximum": 3})",
        R"({"multipleOf": 5, "minimum": 1})",
        R"({"contains": true, "maxItems": 3})",
        R"({"contains": {"pattern": "a"}, "maxContains": 2})",
        R"({"allOf": [{"contains": {"type": "null"}}, {"contains": {"type": "string"}}]})",
        R"({"minContains": 65, "contains": {"type": "null"}})",
        R"({"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a"},
            "c": {"$id": "c", "$dynamicAnchor": "a"}}})",
        R"({"$ref": "http://elsewhere.org/schema"})",
        R"({"oneOf": [{"type": "string"}, {"pattern": "a"}]})",
        R"({"type": "text"})",
        R"({"minLength": -1})",
        R"({"minLength": 1.5})",
        R"({"maximum": "3"})",
        R"({"pattern": "a", "maxLength": 2})",
        R"({"format": "regex"})",
        R"({"anyOf": []})",
        R"({"required": "a"})",
        R"({"properties": []})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("the keyword ")) << schema;
  }
  for (const char* schema :
       {R"({"not": {"minLength": 2.5}})", R"({"not": {"maxItems": -1}})",
        R"({"not": {"properties": 5}})", R"({"not": {"required": 5}})", R"({"not": {"anyOf": 5}})",
        R"({"not": {"type": []}})", R"({"dependentSchemas": {"a": ["b"]}})",
        R"({"dependentRequired": {"a": {}}})", R"({"dependentRequired": {"a": [1]}})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("is not supported with what it says")) << schema;
  }
  EXPECT_THAT(Refusal("false"), HasSubstr("permits no value"));
  EXPECT_THAT(Refusal(R"({"type": "object", "required": ["a"], "additionalProperties": false})"),
              HasSubstr("permits no value"));
  EXPECT_THAT(Refusal("3"), HasSubstr("neither an object nor true or false"));
  EXPECT_THAT(Refusal(R"({"dependencies": {"a": 1}})"),
              HasSubstr("neither an object nor true or false"));
  EXPECT_THAT(Refusal("{"), HasSubstr("the JSON schema"));
  EXPECT_THAT(Refusal(R"({"const": "\ufdd01"})"), HasSubstr("U+FDD0"));
}

// What stands for a keyword is made of copies, whose place nobody knows.
TEST(RewriteSchemaTest, ARefusalNamesThePlaceInTheSchemaThatWasSent) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"dependencies": {"a": {"properties": {"b": {"type": "array", "uniqueItems": true}}}}})",
       "\"#/dependencies/a/properties/b\""},
      {R"({"properties": {"x": {"dependencies": {"a": {"$dynamicRef": "#no"}}}}})",
       "\"#/properties/x/dependencies/a\""},
      {R"({"properties": {"x": {"dependentSchemas": {"a": {"$ref": "#/no"}}}}})",
       "\"#/properties/x/dependentSchemas/a\""},
      {R"({"if": {"required": ["a"]}, "then": {"properties": {"b": {"pattern": 5}}}})",
       "\"#/then/properties/b\""},
      {R"({"properties": {"": {"uniqueItems": true}}})", "\"#/properties/\""},
      {R"({"properties": {"x": {"$dynamicRef": "#a"}}, "$defs": {"b": {"$dynamicAnchor": "a"},
           "c": {"$dynamicAnchor": "a"}}})",
       "\"#/properties/x\""},
      {R"({"dependencies": {"a": 1}})", "#/dependencies/a "}};
  for (const auto& [schema, place] : cases) {
    EXPECT_THAT(Refusal(schema), HasSubstr(place)) << schema;
  }
}

TEST(RewriteSchemaTest, MultiplesThatTakeTooLongTogetherAreRefusedAtOnce) {
  EXPECT_THAT(Refusal(R"({"properties": {"a": {"type": "integer", "multipleOf": 997},
                                          "b": {"type": "integer", "multipleOf": 991}}})"),
              HasSubstr("together above 1000"));
  EXPECT_THAT(
      Refusal(R"({"properties": {"a": {"multipleOf": 0.333}, "b": {"multipleOf": 0.319}}})"),
      HasSubstr("together above 1000"));
  EXPECT_TRUE(RewriteSchema(R"({"properties": {"a": {"type": "integer", "multipleOf": 499},
                                               "b": {"type": "integer", "multipleOf": 501}}})",
                            false)
                  .ok());
}

TEST(RewriteSchemaTest, PropertiesAreCountedWhereTheirNamesAreKnown) {
  for (const char* schema :
       {R"({"type": "object", "minProperties": 2})",
        R"({"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^a$"}})",
        R"({"type": "object", "minProperties": 1, "properties": {"a": {}}})",
        R"({"type": "object", "minProperties": 2, "required": ["a"]})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("the keyword \"minProperties\"")) << schema;
  }
  EXPECT_THAT(Refusal(R"({"type": "object", "maxProperties": 2, "properties": {"a": {}}})"),
              HasSubstr("the keyword \"maxProperties\""));
  for (const char* schema :
       {R"({"type": "object", "minProperties": 3, "propertyNames": {"const": "a"}})",
        R"({"type": "object", "minProperties": 1, "propertyNames": false})",
        R"({"type": "object", "minProperties": 2, "properties": {"a": {}},
            "additionalProperties": false})",
        R"({"type": "object", "maxProperties": 1, "required": ["a", "b"]})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("permits no value")) << schema;
  }
  // As many as are required anyway, or as there may be.
  const Json root = Root(R"({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"],
      "minProperties": 1, "maxProperties": 2, "additionalProperties": false})");
  EXPECT_FALSE(root.contains("minProperties") || root.contains("maxProperties"));
  EXPECT_EQ(Root(R"({"type": "object", "minProperties": 2,
                     "propertyNames": {"enum": ["a", "b"]}})")["required"],
            (Json{"a", "b"}));
}

// The number behind 2^53 cannot be told from it in floating point.
TEST(RewriteSchemaTest, BoundsEndAtTwoToThe53rd) {
  for (const char* schema : {R"({"type": "integer", "exclusiveMinimum": 9007199254740992})",
                             R"({"type": "integer", "exclusiveMaximum": -9007199254740992})",
                             R"({"type": "integer", "maximum": 9007199254740994})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("at most 2^53")) << schema;
  }
  EXPECT_EQ(Root(R"({"enum": [9007199254740993, 5], "maximum": 9007199254740992})"),
            (Json{{"enum", {5}}}));
  EXPECT_EQ(Root(R"({"enum": [-9007199254740993, 5], "minimum": -9007199254740992})"),
            (Json{{"enum", {5}}}));
}

TEST(RewriteSchemaTest, BoundsHaveUpToSixDecimals) {
  for (const char* schema :
       {R"({"type": "number", "minimum": 1e-7})", R"({"type": "number", "maximum": 0.1234567})",
        R"({"exclusiveMinimum": 123456.7890123})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("up to six decimals")) << schema;
  }
  EXPECT_THAT(Refusal(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-6})"),
              HasSubstr(R"("exclusiveMinimum" of the JSON schema at "#" leaves no number)"));
  EXPECT_THAT(Refusal(R"({"type": "number", "minimum": 0.1, "exclusiveMaximum": 0.1})"),
              HasSubstr("permits no value"));
  EXPECT_EQ(Root(R"({"type": "integer", "minimum": 1e-7})")["minimum"], 1);
  for (const char* schema :
       {R"({"type": "number", "minimum": 1.1, "maximum": 1.100001})",
        R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1e-6})",
        R"({"type": "number", "minimum": 123456789.123456, "maximum": 9007199254740992})"}) {
    EXPECT_EQ(Root(schema)["type"], "number") << schema;
  }
}

// The library's own lengths would let strings have control characters.
TEST(RewriteSchemaTest, LengthsArePatterns) {
  EXPECT_EQ(Root(R"({"type": "string", "minLength": 200, "maxLength": 255})"), OfLength(200, 255));
  EXPECT_EQ(Root(R"({"type": "string", "maxLength": 4096})"), OfLength(0, 4096));
  for (const char* keyword : {"minLength", "maxLength"}) {
    EXPECT_THAT(Refusal(StrCat("{\"", keyword, "\": 4097}")),
                AllOf(HasSubstr(keyword), HasSubstr("is above 4096")));
  }
}

TEST(RewriteSchemaTest, MultiplesAreReckonedTogether) {
  EXPECT_EQ(Root(R"({"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]})"),
            (Json{{"type", "integer"}, {"multipleOf", 12}}));
  // Integers that are multiples of 2.5 are those of 5, and all are multiples of 0.01.
  EXPECT_EQ(Root(R"({"type": "integer", "multipleOf": 2.5})"),
            (Json{{"type", "integer"}, {"multipleOf", 5}}));
  EXPECT_EQ(Root(R"({"type": "integer", "multipleOf": 0.01, "minimum": 3})"),
            (Json{{"type", "integer"}, {"minimum", 3}}));
  EXPECT_EQ(Root(R"({"type": "integer", "multipleOf": 5, "minimum": -7, "exclusiveMaximum": 10})"),
            (Json{{"enum", {-5, 0, 5}}}));
  EXPECT_EQ(Root(R"({"type": "number", "multipleOf": 0.25})"),
            (Json{{"type", "number"}, {"multipleOf", 25}, {"decimals", 2}}));
  EXPECT_THAT(Refusal(R"({"type": "integer", "multipleOf": 5, "minimum": 1, "maximum": 4})"),
              HasSubstr("permits no value"));
}

TEST(RewriteSchemaTest, NamesAreToldApartByTheirPatterns) {
  const Json root = Root(R"({"type": "object", "properties": {"ab": {"type": "integer"}},
      "patternProperties": {"^a": {"minimum": 1}, "b$": {"maximum": 5}},
      "additionalProperties": false})");
  EXPECT_EQ(root["patternProperties"].size(), 3u);  // those of either, and those of both
  EXPECT_EQ(root["additionalProperties"], false);
  const char* const open = R"({"type": "object", "patternProperties": {"^a": {"type": "null"}}})";
  EXPECT_EQ(Root(open, /*closed=*/true)["patternProperties"].size(), 1u);
  EXPECT_EQ(Root(open, /*closed=*/false)["patternProperties"].size(), 2u);
  EXPECT_FALSE(Root(R"({"type": "object", "patternProperties": {"a": false},
                        "additionalProperties": false})")
                   .contains("patternProperties"));
}

TEST(RewriteSchemaTest, ListedValuesAreHeldToBoundsAndLengths) {
  EXPECT_EQ(
      Root(R"({"enum": ["a", "ab", "\u00e9\u00e9\u00e9", 1, 2.5, 3], "minLength": 2, "maximum": 2.5,
                     "exclusiveMinimum": 1})")["enum"]
          .size(),
      3u);
  EXPECT_THAT(Refusal(R"({"const": "a", "minLength": 2})"), HasSubstr("permits no value"));
  EXPECT_THAT(Refusal(R"({"const": "a", "pattern": "b"})"), HasSubstr("beside const or enum"));
}

TEST(RewriteSchemaTest, ReferencesThatMeanOnePartAloneAreTaken) {
  const Json expected = {{"type", "null"}};
  EXPECT_EQ(
      Root(R"({"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a", "type": "null"}}})"),
      expected);
  EXPECT_EQ(Root(R"({"$dynamicRef": "#/$defs/b", "$defs": {"b": {"type": "null"}}})"), expected);
  EXPECT_THAT(Refusal(R"({"$recursiveRef": "#"})"), HasSubstr("leads back here"));
  EXPECT_EQ(Root(R"({"type": "array", "items": {"$recursiveRef": "#"}})")["type"], "array");
}

TEST(RewriteSchemaTest, OneOfIsTakenWhereItsSchemasAreApart) {
  EXPECT_EQ(Root(R"({"oneOf": [{"type": "string"}, {"type": "null"}]})")["anyOf"].size(), 2u);
  EXPECT_EQ(Root(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}]})")["anyOf"]
                .size(),
            2u);
}

TEST(RewriteSchemaTest, WhatOtherKeywordsSayBecomesAlternatives) {
  const Json branches = Root(R"({"type": "string", "if": {"minLength": 3},
                                "then": {"maxLength": 5}, "else": {"maxLength": 1}})");
  EXPECT_EQ(branches["anyOf"][0], OfLength(3, 5));
  EXPECT_EQ(branches["anyOf"][1], OfLength(0, 1));
  EXPECT_EQ(Root(R"({"type": "integer", "not": {"minimum": 3}})"),
            (Json{{"type", "integer"}, {"maximum", 2}}));
  // A value that is listed twice is as one that is listed once.
  EXPECT_EQ(Root(R"({"type": "boolean", "not": {"enum": [true, true]}})"),
            (Json{{"enum", {false}}}));
  EXPECT_THAT(Refusal(R"({"type": "boolean", "not": {"enum": [true, false, true]}})"),
              HasSubstr("permits no value"));
  EXPECT_EQ(Root(R"({"not": {"enum": [true, false, true]}})")["anyOf"].size(), 5u);
  EXPECT_EQ(
      Root(R"({"type": "number", "oneOf": [{"minimum": 1}, {"maximum": 2}]})")["anyOf"].size(), 2u);
  const Json depends = Root(R"({"type": "object", "properties": {"a": {}, "b": {}},
                               "additionalProperties": false, "dependentRequired": {"a": ["b"]}})");
  ASSERT_EQ(depends["anyOf"].size(), 2u);
  EXPECT_FALSE(depends["anyOf"][0]["properties"].contains("a"));
  EXPECT_EQ(depends["anyOf"][1]["required"], (Json{"a", "b"}));
}

// What a compile would take is counted before one begins.
TEST(RewriteSchemaTest, LengthsAndListsAreCountedTogether) {
  const auto two = [](int first, int second) {
    return StrCat(R"({"items": {"type": "string", "maxLength": )", first,
                  R"(}, "prefixItems": [{"type": "string", "maxLength": )", second, "}]}");
  };
  EXPECT_TRUE(RewriteSchema(two(2048, 2047), true).ok());
  EXPECT_THAT(Refusal(two(4090, 4089)),
              HasSubstr("is one of lengths that are above 4096 together"));
  const auto list = [](int values) {
    std::string text = R"({"enum":[0)";
    for (int i = 1; i < values; ++i) text += StrCat(",", i);
    return text + "]}";
  };
  EXPECT_TRUE(RewriteSchema(list(8192), true).ok());
  EXPECT_THAT(Refusal(list(8193)), HasSubstr("more than 8192 values together"));
}

// What would take long or much ends soon with a sentence.
TEST(RewriteSchemaTest, LargeSchemasAreRefusedSoon) {
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += R"({"items":)";
  EXPECT_THAT(Refusal(deep), HasSubstr("the JSON schema"));
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 2000; ++i) {
    chain += StrCat(i > 0 ? "," : "", "\"d", i, R"(":{"items":{"$ref":"#/$defs/d)", i + 1, "\"}}");
  }
  EXPECT_THAT(Refusal(chain + R"(,"d2000":{}}})"), HasSubstr("within each other"));
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i) {
    product +=
        StrCat(i > 0 ? "," : "", R"({"anyOf":[{"minimum":)", i, R"(},{"maxLength":)", i, "}]}");
  }
  EXPECT_THAT(Refusal(product + "]}"), HasSubstr("alternatives"));
  std::string values = R"({"enum":[0)";
  for (int i = 1; i < 20'000; ++i) values += StrCat(",", i);
  EXPECT_THAT(Refusal(values + "]}"), HasSubstr("the JSON schema"));
  std::string nested = R"({"type": "string"})";
  for (int i = 0; i < 16; ++i) nested = StrCat(R"({"oneOf":[)", nested, R"(,{"type":"null"}]})");
  RewriteSchema(nested, false).ok();
}

}  // namespace
}  // namespace sluice::text
