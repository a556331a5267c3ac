// What Jinja has and chat templates do not need is refused, by a sentence that names it and the
// line, and says what templates may use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "text/chat_template.h"

namespace sluice::text {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The error of a template whose second line is `line`.
std::string TemplateError(const std::string& line) {
  const auto parsed = ChatTemplate::Parse("first\n" + line);
  if (!parsed.ok()) return parsed.status().message();
  const auto text = (*parsed)->Render(
      OrderedJson::parse(R"({"s": "text", "l": [1, 2], "d": {"a": 1}})"), "2025-03-07T14:05:09");
  return text.ok() ? StrCat("no error, but the text '", *text, "'") : text.status().message();
}

void ExpectNotSupported(const std::string& line, const std::string& name) {
  SCOPED_TRACE(line);
  const std::string error = TemplateError(line);
  EXPECT_THAT(error, StartsWith("chat template, line 2: "));
  EXPECT_THAT(error, HasSubstr(name));
  EXPECT_THAT(error, HasSubstr("not supported; chat templates may use "));
}

TEST(UnsupportedTest, Filters) {
  for (const char* name :
       {"abs",         "attr",      "batch",     "center",  "filesizeformat", "float",
        "forceescape", "format",    "groupby",   "pprint",  "random",         "reverse",
        "round",       "slice",     "striptags", "sum",     "truncate",       "urlencode",
        "urlize",      "wordcount", "wordwrap",  "xmlattr", "no_such"}) {
    ExpectNotSupported(StrCat("{{ s|", name, " }}"), StrCat("the filter '", name, "' is"));
    ExpectNotSupported(StrCat("{{ l|map('", name, "')|list }}"),
                       StrCat("the filter '", name, "' is"));
    ExpectNotSupported(StrCat("{% if s %}{{ s|", name, " }}{% endif %}"),
                       StrCat("the filter '", name, "' is"));
  }
  EXPECT_THAT(TemplateError("{{ s|xmlattr }}"), HasSubstr("default, dictsort, e, escape, first"));
}

TEST(UnsupportedTest, Tests) {
  for (const char* name :
       {"callable", "escaped", "filter", "lower", "sameas", "test", "upper", "no_such"}) {
    ExpectNotSupported(StrCat("{{ s is ", name, " }}"), StrCat("the test '", name, "' is"));
    ExpectNotSupported(StrCat("{{ l|select('", name, "')|list }}"),
                       StrCat("the test '", name, "' is"));
  }
}

TEST(UnsupportedTest, Tags) {
  for (const char* tag : {"autoescape false", "block b", "do s", "extends 'x'", "from 'x' import y",
                          "import 'x' as y", "include 'x'", "print s", "trans", "with a = 1"}) {
    const std::string name = std::string(tag).substr(0, std::string(tag).find(' '));
    ExpectNotSupported(StrCat("{% ", tag, " %}"), StrCat("the tag '", name, "' is"));
    ExpectNotSupported(StrCat("{% if false %}{% ", tag, " %}"), StrCat("the tag '", name, "' is"));
  }
  ExpectNotSupported("{% for x in l recursive %}{% endfor %}", "the marker 'recursive'");
}

TEST(UnsupportedTest, AttributesAndMethods) {
  for (const char* name :
       {"casefold",   "center",     "count",        "encode",       "expandtabs", "find",
        "format_map", "index",      "isalnum",      "isdigit",      "isupper",    "ljust",
        "maketrans",  "partition",  "removeprefix", "removesuffix", "rfind",      "rindex",
        "rjust",      "rpartition", "swapcase",     "translate",    "zfill"}) {
    ExpectNotSupported(StrCat("{{ s.", name, "() }}"), StrCat("the str attribute '", name, "' is"));
  }
  ExpectNotSupported("{{ l.copy() }}", "the list attribute 'copy'");
  ExpectNotSupported("{{ d.copy() }}", "the dict attribute 'copy'");
  ExpectNotSupported("{{ d.fromkeys(l) }}", "the dict attribute 'fromkeys'");
  ExpectNotSupported("{{ dict.fromkeys(l) }}", "attribute 'fromkeys'");
  ExpectNotSupported("{{ l.0 }}", "the attribute '0'");
  ExpectNotSupported("{{ s.rsplit(none, 1) }}", "rsplit() with a maxsplit alone");
  ExpectNotSupported("{{ range(3).step }}", "the range attribute 'step'");
  ExpectNotSupported("{{ l[0].bit_length() }}", "the int attribute 'bit_length'");
  ExpectNotSupported("{% macro m() %}{% endmacro %}{{ m.arguments }}", "the Macro attribute");
  for (const char* name : {"cycle", "changed", "depth", "depth0"}) {
    ExpectNotSupported(StrCat("{% for x in l %}{{ loop.", name, " }}{% endfor %}"),
                       StrCat("the loop variable '", name, "' is"));
  }
}

TEST(UnsupportedTest, Functions) {
  for (const char* name : {"cycler", "joiner", "lipsum"}) {
    ExpectNotSupported(StrCat("{{ ", name, "() }}"), StrCat("the function '", name, "' is"));
  }
}

TEST(UnsupportedTest, Expressions) {
  ExpectNotSupported("{{ 2 ** 3 }}", "the operator '**'");
  ExpectNotSupported("{{ 2.5 % 2 }}", "the operator for floats '%'");
  ExpectNotSupported("{{ 2.5 // 2 }}", "the operator for floats '//'");
  ExpectNotSupported("{{ '%s' % s }}", "a string is formatted by %");
  ExpectNotSupported("{{ '{:>5}'.format(s) }}", "'{:>5}'");
  ExpectNotSupported("{{ '{!r}'.format(s) }}", "'{!r}'");
  ExpectNotSupported("{{ '{0.a}'.format(d) }}", "'{0.a}'");
  ExpectNotSupported("{{ '{0[0]}'.format(l) }}", "'{0[0]}'");
  ExpectNotSupported("{{ range(*l) }}", "the argument '*'");
  ExpectNotSupported("{{ dict(**d) }}", "the argument '**'");
  ExpectNotSupported("{% macro m() %}{{ varargs }}{% endmacro %}", "the name 'varargs'");
  ExpectNotSupported("{% macro m() %}{{ kwargs }}{% endmacro %}", "the name 'kwargs'");
  ExpectNotSupported("{{ 0x1f }}", "the number '0x'");
  ExpectNotSupported("{{ 1_000 }}", "the number '1_'");
  ExpectNotSupported("{{ '\\101' }}", "the escape '\\1'");
  ExpectNotSupported("{{ range(5)[1:] }}", "the slice of a 'range'");
  ExpectNotSupported("{{ d.keys() == d.keys() }}", "comparing two dict_keys");
  ExpectNotSupported("{{ l|sort(attribute='a,b') }}", "sort by several attributes");
}

TEST(UnsupportedTest, ArgumentsNameThoseThatThereAre) {
  EXPECT_EQ(TemplateError("{{ s|int(base=16) }}"),
            "chat template, line 2: int() got the argument 'base', which is not supported; chat "
            "templates may use default");
  EXPECT_EQ(TemplateError("{{ s|upper(1) }}"),
            "chat template, line 2: upper() got 1 arguments, of which 1 is not supported; chat "
            "templates may use none");
}

}  // namespace
}  // namespace sluice::text
