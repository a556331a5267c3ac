#include "text/output/tool_schemas.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace sluice::text {
namespace {

using Kind = ToolSchemas::Kind;

// A tool whose properties p0, p1 and so on all refer to a list of so many texts.
std::string Tools(int properties, int texts) {
  std::string list, named;
  for (int i = 0; i < texts; ++i) list += StrCat(i == 0 ? "" : ",", "\"t", i, "\"");
  for (int i = 0; i < properties; ++i)
    named += StrCat(i == 0 ? "" : ",", "\"p", i, R"(": {"$ref": "#/$defs/e"})");
  return StrCat(R"([{"function": {"name": "f", "parameters": {"$defs": {"e": {"enum": [)", list,
                R"(]}}, "properties": {)", named, "}}}}]");
}

TEST(ToolSchemasTest, AListThatPropertiesShareIsOfEach) {
  const auto schemas = ToolSchemas::Make(Tools(3, 10));
  ASSERT_TRUE(schemas.ok());
  for (const char* name : {"p0", "p2"}) {
    EXPECT_EQ(schemas->KindOf("f", name), Kind::kText);
    EXPECT_TRUE(schemas->IsText("f", name, "t9", Json()));
  }
}

// Texts count wherever they are listed: behind a bound nothing is said of a property.
TEST(ToolSchemasTest, LongListsOfManyPropertiesAreNotCopiedForEach) {
  const auto schemas = ToolSchemas::Make(Tools(900, 8000));
  ASSERT_TRUE(schemas.ok());
  EXPECT_EQ(schemas->KindOf("f", "p0"), Kind::kText);
  int known = 0;
  for (int i = 0; i < 900; ++i)
    known += schemas->KindOf("f", StrCat("p", i)) == Kind::kText ? 1 : 0;
  EXPECT_LT(known, 10);
}

TEST(ToolSchemasTest, NumbersThatNoDoubleHoldsAreJson) {
  for (const char* json :
       {"1e577", "-2.5E+999", "[1, 1e577, \"1e577\"]", "{\"a\\\"\": -1e577}", "12", "null"}) {
    EXPECT_TRUE(ReadWrittenValue(json).has_value()) << json;
  }
  for (const char* text :
       {"1e577x", "01e577", "1.e577", "1e577 1", "[1e577", "\"1e577", "--1e577", "1e", "word"}) {
    EXPECT_FALSE(ReadWrittenValue(text).has_value()) << text;
  }
  EXPECT_EQ(*ReadWrittenValue("\"1e577\""), "1e577");
}

}  // namespace
}  // namespace sluice::text
