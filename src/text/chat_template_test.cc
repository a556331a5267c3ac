#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/str_cat.h"

namespace sluice::text {
namespace {

constexpr char kNow[] = "2025-03-07T14:05:09";

Result<std::string> Render(const std::string& source, const std::string& context = "{}",
                           const RenderLimits& limits = {}) {
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return (*parsed)->Render(OrderedJson::parse(context), kNow, limits);
}

std::string Text(const std::string& source, const std::string& context = "{}") {
  const Result<std::string> result = Render(source, context);
  return result.ok() ? *result : "error: " + result.status().message();
}

TEST(ChatTemplateTest, RendersAConversation) {
  const std::string source =
      "{% for message in messages %}\n"
      "    {{- '<|' + message.role + '|>' + (message['content'] | trim) + eos_token }}\n"
      "{% endfor %}\n"
      "{% if add_generation_prompt %}\n"
      "    {{- '<|assistant|>' }}\n"
      "{% endif %}\n";
  EXPECT_EQ(Text(source, R"({"messages": [{"role": "user", "content": " Hi "},
                              {"role": "assistant", "content": "Yes"}],
                             "eos_token": "</s>", "add_generation_prompt": true})"),
            "<|user|>Hi</s>\n<|assistant|>Yes</s>\n<|assistant|>\n");
}

TEST(ChatTemplateTest, ParseErrorsAreUnprocessableAndNameTheLine) {
  const auto parsed = ChatTemplate::Parse("a\nb\n{% for x in y %}\n");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kUnprocessable);
  EXPECT_EQ(parsed.status().message(),
            "chat template, line 3: the template ends before {% endfor %} or {% else %}");
}

TEST(ChatTemplateTest, RenderErrorsAreInvalidArgumentsAndNameTheLine) {
  const auto result = Render("a\n{% if true %}\n{{ x.y }}\n{% endif %}");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(), "chat template, line 3: 'x' is undefined");
}

TEST(ChatTemplateTest, PassesOnWhatTheTemplateRaises) {
  const auto result = Render("{{ raise_exception('Roles must alternate!') }}");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(), "Roles must alternate!");
}

TEST(ChatTemplateTest, UsesTheGivenClock) {
  EXPECT_EQ(Text("{{ strftime_now('%d %b %Y %H:%M:%S %j %A %f%z') }}"),
            "07 Mar 2025 14:05:09 066 Friday 000000");
  const auto parsed = ChatTemplate::Parse("x");
  ASSERT_TRUE(parsed.ok());
  for (const char* now : {"2025-02-30T00:00:00", "2025-03-07", "yesterday", "2025-03-07T24:00:00",
                          "2025-03-07T14:05:09Z"}) {
    EXPECT_FALSE((*parsed)->Render(OrderedJson::object(), now).ok()) << now;
  }
}

TEST(ChatTemplateTest, HidesWhatTheSandboxHides) {
  const std::string context = R"({"l": [1], "d": {"a": 1}, "s": "x"})";
  for (const char* source :
       {"{{ l.append(2) }}", "{{ d.update({}) }}", "{{ d.pop('a') }}", "{{ s.__class__.mro() }}",
        "{{ l.sort() }}", "{{ l['append'](1) }}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{% set d.a = 2 %}"}) {
    EXPECT_FALSE(Render(source, context).ok()) << source;
  }
  EXPECT_EQ(Text("{{ s.__class__ is defined }}{{ l.append is defined }}", context), "FalseFalse");
}

TEST(ChatTemplateTest, RefusesSourcesThatAreNotUtf8OrTooLong) {
  EXPECT_EQ(ChatTemplate::Parse("\xff").status().code(), StatusCode::kUnprocessable);
  EXPECT_EQ(ChatTemplate::Parse(std::string(2u << 20, 'x')).status().code(),
            StatusCode::kUnprocessable);
  EXPECT_FALSE(Render("{{ '\\ud83d' }}").ok());
  const auto parsed = ChatTemplate::Parse("{{ x }}");
  ASSERT_TRUE(parsed.ok());
  OrderedJson context;
  context["x"] = "\xc3";
  EXPECT_FALSE((*parsed)->Render(context, kNow).ok());
}

TEST(ChatTemplateLimitsTest, BoundsNestingInTheSource) {
  for (const char* opening :
       {"(", "[", "{'a':", "not ", "-", "x[", "f(", "x if ", "x if y else "}) {
    std::string source = "{{ ";
    for (int i = 0; i < 100'000; ++i) source += opening;
    const auto parsed = ChatTemplate::Parse(source);
    ASSERT_FALSE(parsed.ok()) << opening;
    EXPECT_EQ(parsed.status().code(), StatusCode::kUnprocessable);
  }
  for (const char* tag : {"if x", "for x in y", "macro m()", "filter upper", "set x", "with",
                          "call f()", "generation", "block b"}) {
    std::string source;
    for (int i = 0; i < 20'000; ++i) source += StrCat("{% ", tag, " %}");
    EXPECT_FALSE(ChatTemplate::Parse(source).ok()) << tag;
  }
}

TEST(ChatTemplateLimitsTest, BoundsChainsOfOperators) {
  for (const char* link :
       {" + x", "|upper", ".x", "[0]", "()", " and x", " or x", " is defined", " * x"}) {
    std::string source = "{{ x";
    for (int i = 0; i < 50'000; ++i) source += link;
    EXPECT_FALSE(ChatTemplate::Parse(source + " }}").ok()) << link;
  }
  std::string source = "{{ 1";
  for (int i = 0; i < 300; ++i) source += " + 1";
  EXPECT_EQ(Text(source + " }}"), "301");
}

TEST(ChatTemplateLimitsTest, BoundsSteps) {
  RenderLimits limits;
  limits.steps_max = 1000;
  const auto result = Render("{% for x in range(1000) %}{{ x }}{% endfor %}", "{}", limits);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(),
            "chat template, line 1: the template runs more than 1000 steps");
  EXPECT_FALSE(
      Render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
          .ok());
}

TEST(ChatTemplateLimitsTest, ARenderingThatWasGivenUpIsCancelled) {
  const std::atomic<bool> cancelled = true;
  RenderLimits limits;
  limits.cancelled = &cancelled;
  EXPECT_EQ(Render("hi", "{}", limits).status().code(), StatusCode::kCancelled);
}

TEST(ChatTemplateLimitsTest, BoundsTheOutputAndEveryString) {
  RenderLimits limits;
  limits.output_bytes_max = 1000;
  EXPECT_TRUE(Render("{{ 'x' * 1000 }}", "{}", limits).ok());
  for (const char* source : {
           "{{ 'x' * 1001 }}",
           "{% for i in range(20) %}{{ 'x' * 100 }}{% endfor %}",
           "{{ ('x' * 1000000000)|length }}",
           "{{ ('x' * 900)|replace('', 'yyyy')|length }}",
           "{{ ('x' * 500).replace('x', 'yyy')|length }}",
           "{{ ('x\\n' * 400)|indent(100)|length }}",
           "{{ 'x'|indent(1000000000, true)|length }}",
           "{{ range(1000)|join(',')|length }}",
           "{{ (range(1000)|list|tojson)|length }}",
           "{{ [1]|tojson(indent=1000000000)|length }}",
           "{{ (range(1000)|list|string)|length }}",
           "{{ ('<' * 900)|escape|length }}",
           "{% set x %}{% for i in range(20) %}{{ 'x' * 100 }}{% endfor %}{% endset %}",
           "{{ strftime_now('%1000000d')|length }}",
       }) {
    const auto result = Render(source, "{}", limits);
    EXPECT_FALSE(result.ok()) << source << " gives " << result.value();
  }
}

TEST(ChatTemplateLimitsTest, BoundsMemory) {
  for (const char* source : {
           "{{ ([0] * 1000000000000)|length }}",
           "{{ ([0] * 10000000)|length }}",
           "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
           "{% set ns.l = ns.l + ['x' * 100000 ~ i] %}{% endfor %}",
           "{{ range(99999)|map('indent', 100000, true)|list|length }}",
           "{{ (['x'] * 99999)|map('indent', 100000, true)|list|length }}",
           "{% macro m(n) %}{{ 'x' * 15000000 }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
       }) {
    EXPECT_FALSE(Render(source).ok()) << source;
  }
}

TEST(ChatTemplateLimitsTest, BoundsRecursion) {
  EXPECT_EQ(Text("{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}"
                 "{{ f(5) }}"),
            "5,4,3,2,1,0");
  for (const char* source : {
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f() %}{% for x in [1] %}{% if x %}{{ (f() ~ '')|upper }}{% endif %}{% endfor "
           "%}"
           "{% endmacro %}{{ f() }}",
           "{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}",
           "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
       }) {
    EXPECT_FALSE(Render(source).ok()) << source;
  }
}

// Deep values would overflow the stack of whatever walks them: printing, comparing, destroying.
TEST(ChatTemplateLimitsTest, BoundsTheDepthOfValues) {
  for (const char* grow : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "dict(a=ns.x)", "[ns.x, ns.x]",
                           "namespace(x=[ns.x]).x|select", "{'a': ns.x}.items()", "[ns.x].count"}) {
    const std::string source =
        StrCat("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = ", grow,
               " %}{% endfor %}");
    EXPECT_FALSE(Render(source).ok()) << grow;
  }
  EXPECT_FALSE(
      Render("{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
             "{% endfor %}{{ ns.x == ns.x|list }}{{ ns.x|tojson|length }}")
          .ok());
  std::string deep(1000, '[');
  deep += std::string(1000, ']');
  EXPECT_FALSE(Render("{{ x }}", "{\"x\": " + deep + "}").ok());
}

// Values that hold each other are freed: the address sanitizer's run watches this.
TEST(ChatTemplateLimitsTest, FreesCycles) {
  EXPECT_EQ(Text("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}ok"), "ok");
  EXPECT_EQ(Text("{% set ns = namespace(h=none) %}{% set ns.t = ns %}{% for i in range(30000) %}"
                 "{% set t = ns.t %}{% set t.next = namespace() %}{% set ns.t = t.next %}"
                 "{% endfor %}ok"),
            "ok");
  EXPECT_EQ(Text("{% for x in [1, 2] %}{% set y = [loop] %}{% endfor %}ok"), "ok");
  EXPECT_EQ(Text("{% macro m() %}{{ m.name }}{% endmacro %}{% set n = m %}{{ n() }}"), "m");
  EXPECT_FALSE(Render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}").ok());
}

TEST(ChatTemplateTest, ThreadsShareATemplate) {
  const auto parsed = ChatTemplate::Parse(
      "{% macro m(x) %}{{ 'const' ~ x }}{% endmacro %}"
      "{% for i in range(50) %}{{ m(i) }}{{ s|upper }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const OrderedJson context = OrderedJson::parse(R"({"s": "text"})");
  const auto expected = (*parsed)->Render(context, kNow);
  ASSERT_TRUE(expected.ok());
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto text = (*parsed)->Render(context, kNow);
        same[t] += text.ok() && *text == *expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<int>(4, 50));
}

}  // namespace
}  // namespace sluice::text
