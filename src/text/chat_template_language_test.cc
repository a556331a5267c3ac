// The language of templates, by small examples whose results were taken from jinja2 3.1.6.

#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.h"

namespace sluice::text {
namespace {

struct Example {
  const char* source;
  const char* text;  // null: refused
};

constexpr char kContext[] = R"({
  "n": 7, "f": 2.5, "s": "Hello World", "nil": null, "nums": [3, 1, 2],
  "d": {"b": 1, "a": [1, 2], "items": "shadow"}, "uni": "Grüße 👋"})";

void Check(const Example& example) {
  const auto parsed = ChatTemplate::Parse(example.source);
  Result<std::string> result =
      parsed.ok() ? (*parsed)->Render(OrderedJson::parse(kContext), "2025-03-07T14:05:09")
                  : Result<std::string>(parsed.status());
  if (example.text == nullptr) {
    EXPECT_FALSE(result.ok()) << example.source;
    return;
  }
  ASSERT_TRUE(result.ok()) << example.source << ": " << result.status().message();
  EXPECT_EQ(*result, example.text) << example.source;
}

class LanguageTest : public testing::TestWithParam<Example> {};
TEST_P(LanguageTest, MatchesJinja2) { Check(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Whitespace, LanguageTest,
    testing::Values(Example{"  {% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
                    Example{"x  {%- if true -%}  y  {%- endif -%}  z", "xyz"},
                    Example{"x\n  {%+ if true +%}\n  y{% endif %}", "x\n  \n  y"},
                    Example{"a\n  {# c #}\n  b", "a\n  b"},
                    Example{"{% raw %}{{ x }}{% y %}{% endraw %}", "{{ x }}{% y %}"},
                    Example{"a\r\nb\rc\n\n", "a\nb\nc\n"},
                    Example{"{{ {'a': {'b': 1}} }}", "{'a': {'b': 1}}"},
                    Example{"{{ 1 -}}  \n  x", "1x"}));

INSTANTIATE_TEST_SUITE_P(
    Loops, LanguageTest,
    testing::Values(
        Example{
            "{% for x in nums %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.last }},{% endfor %}",
            "12False,21False,30True,"},
        Example{"{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{% endfor %}",
                "<3>13<1>21<2>"},
        Example{"{% for x in nums if x > 1 %}{{ loop.length }}{{ x }}{% endfor %}", "2322"},
        Example{"{% for x in [] %}{% else %}none{% endfor %}", "none"},
        Example{"{% for x in [1] %}{% break %}{% else %}else{% endfor %}", "else"},
        Example{"{% for x in nums %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
                "32"},
        Example{"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
        Example{"{% for x in nil %}{% endfor %}", nullptr},
        Example{"{% for a, b in [(1,)] %}{% endfor %}", nullptr}, Example{"{% break %}", nullptr},
        Example{"{% set it = nums|select('odd') %}{{ it|list }}{{ it|list }}", "[3, 1][]"}));

// Jinja's scoping is static: what a frame sets is the frame's own from the start.
INSTANTIATE_TEST_SUITE_P(
    Scopes, LanguageTest,
    testing::Values(
        Example{"{% for x in [1] %}{% set n = x %}{% endfor %}{{ n }}", "7"},
        Example{"{% for x in [1, 2] %}{{ v }}{% set v = x %}{{ v }}{% endfor %}{{ v }}", "12"},
        Example{"{% for x in [1] %}{{ n }}{% endfor %}{% set n = 1 %}", ""},
        Example{"{{ n }}{% set n = 1 %}{{ n }}", "71"},
        Example{"{% if false %}{% set n = 1 %}{% endif %}{{ n }}", "7"},
        Example{"{% macro m() %}{{ late }}{% endmacro %}{% set late = 3 %}{{ m() }}", "3"},
        Example{"{% set ns = namespace(t=0) %}{% for x in nums %}{% set ns.t = ns.t + x %}{% "
                "endfor %}{{ ns.t }}",
                "6"},
        Example{"{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", "1"},
        Example{"{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}", "21"}));

INSTANTIATE_TEST_SUITE_P(
    Macros, LanguageTest,
    testing::Values(
        Example{"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(b=5, "
                "a=4) }}",
                "121454"},
        Example{"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", nullptr},
        Example{"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=1) }}", nullptr},
        Example{
            "{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(a) m() %}{{ a }}{% endcall %}",
            "[1]"},
        Example{"{% filter upper %}a{{ s }}{% endfilter %}", "AHELLO WORLD"},
        Example{"{% set x | upper %}a{% endset %}{{ x }}", "A"}));

INSTANTIATE_TEST_SUITE_P(
    Expressions, LanguageTest,
    testing::Values(
        Example{"{{ 7 // -2 }} {{ -7 % 3 }} {{ 7.5 * -2 }} {{ 4 / 2 }}", "-4 2 -15.0 2.0"},
        Example{"{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 == true }}", "TrueFalseTrue"},
        Example{"{{ 170141183460469231731687303715884105727 + 1 }}", nullptr},
        Example{"{{ 1 // 0 }}", nullptr},
        Example{"{{ 18446744073709551615 + 1 }}", "18446744073709551616"},
        Example{"{{ [none, true, 1.0, 'it\\'s', (1,)] }}", "[None, True, 1.0, \"it's\", (1,)]"},
        Example{"{{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}",
                "1e+16 1000000000000000.0 1e-05 0.30000000000000004"},
        Example{"{{ missing }}|{{ missing is defined }}|{{ d.nosuch }}", "|False|"},
        Example{"{{ missing.x }}", nullptr}, Example{"{{ missing + 1 }}", nullptr},
        Example{"[{{ 1 if false }}]", "[]"},
        Example{"{{ d.items()|list }}{{ d['items'] }}{{ d.b }}",
                "[('b', 1), ('a', [1, 2]), ('items', 'shadow')]shadow1"},
        Example{"{{ nums[::-1] }}{{ s[-5:] }}{{ uni[-1] }}{{ uni[2:4] }}", "[2, 1, 3]World👋üß"},
        Example{"{{ 'a' ~ 1 ~ none ~ [1] }}", "a1None[1]"},
        Example{"{{ '{}-{{{}}}'.format(1, none) }}{{ '{1}{0}{x}'.format('a', 'b', x=[1]) }}",
                "1-{None}ba[1]"},
        Example{"{{ '{} {0}'.format(1, 2) }}", nullptr}, Example{"{{ '{'.format(1) }}", nullptr},
        Example{"{{ ('<b>'|safe) + '<i>' }}{{ ('<b>'|safe) ~ '<i>' }}", "<b>&lt;i&gt;<b><i>"},
        Example{"{{ {'a': [], 'b': {'c': 1.5}}|tojson(indent=2) }}",
                "{\n  \"a\": [],\n  \"b\": {\n    \"c\": 1.5\n  }\n}"},
        Example{"{{ 'é<\\n'|tojson }}{{ 'é'|tojson(ensure_ascii=true) }}", "\"é<\\n\"\"\\u00e9\""},
        Example{"{{ 'straße ΌΣΟΣ'.upper() }} {{ 'ΌΣΟΣ'.lower() }}", "STRASSE ΌΣΟΣ όσος"},
        Example{"{{ s|nosuch }}", nullptr},
        Example{"{% if false %}{{ s|nosuch }}{% endif %}ok", "ok"}));

}  // namespace
}  // namespace sluice::text
