// Values whose parts are shared, so that they are small in memory and endless for whoever walks
// them: every filter, test, method, function and operator that the interpreter's own tables name
// must count what it walks, and end with the limit's sentence or within it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "base/str_cat.h"
#include "text/chat_template.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

using ::testing::HasSubstr;

constexpr int kLevels = 60;
constexpr int64_t kSteps = 2000;
constexpr char kSentence[] = "the template runs more than 2000 steps";

// Two tuples that are equal but not the same, a list and a dict, each 2^60 values to whoever walks
// them, and plain values.
struct Nests {
  explicit Nests(Runtime& runtime) {
    tuple = other = runtime.Tuple({Value::Integer(1)});
    list = runtime.List({Value::Integer(1)});
    dict = list;
    const Value a = runtime.String("a"), b = runtime.String("b");
    for (int i = 0; i < kLevels; ++i) {
      tuple = runtime.Tuple({tuple, tuple});
      other = runtime.Tuple({other, other});
      list = runtime.List({list, list});
      dict = runtime.Dict({{a, dict}, {b, dict}});
    }
    pair = runtime.List({tuple, other});
    text = runtime.String("a");
  }
  Value tuple, other, list, dict, pair, text;
};

std::vector<Value> Subjects(Runtime& runtime, const Nests& nests) {
  std::vector<Value> subjects = {nests.tuple, nests.list,        nests.dict,
                                 nests.pair,  nests.text,        Value::Integer(2),
                                 Value(),     Value::Float(1.5), runtime.Undefined("undefined")};
  for (const ViewKind what : {ViewKind::kKeys, ViewKind::kValues, ViewKind::kItems}) {
    subjects.push_back(runtime.View(nests.dict, what));
  }
  subjects.push_back(runtime.Range(0, 3, 1));
  Value space = runtime.Namespace();
  space.As<NamespaceObject>().Add("a", nests.tuple);
  subjects.push_back(space);
  auto loop =
      std::make_shared<LoopObject>(runtime.meter(), Iterate(runtime, nests.pair), std::nullopt);
  loop->Advance(runtime);
  subjects.emplace_back(Kind::kLoop, loop);
  for (const char* name : {"dict", "range"}) {
    subjects.push_back(runtime.Function(Find(Globals(), name), Value()));
  }
  return subjects;
}

std::vector<Arguments> ArgumentLists(const Nests& nests) {
  std::vector<Arguments> lists(1);
  const auto add = [&lists](std::vector<Value> values) {
    Arguments arguments;
    arguments.positional = std::move(values);
    lists.push_back(std::move(arguments));
  };
  const std::vector<Value> values = {nests.tuple, nests.list, nests.dict,       nests.pair,
                                     nests.other, nests.text, Value::Integer(1)};
  for (const Value& value : values) add({value});
  for (const Value& first : {nests.text, Value::Integer(1)}) {
    for (const Value& second : {nests.tuple, nests.list, nests.dict}) add({first, second});
  }
  add({nests.other, nests.tuple});
  Arguments named;
  named.named = {{"attribute", nests.text}, {"default", nests.tuple}};
  lists.push_back(named);
  return lists;
}

// Reads what a call gave to its end, as a template would that prints it.
void Use(Runtime& runtime, const Value& value) {
  if (value.Is(Kind::kIterator)) {
    for (const Value& item : Collect(runtime, value)) Truthy(item);
  } else {
    ToString(runtime, value);
  }
}

// The sentence of the failure, or nothing.
std::string Outcome(const std::function<void(Runtime&, const Nests&)>& run) {
  RenderLimits limits;
  limits.steps_max = kSteps;
  limits.output_bytes_max = 1u << 20;
  Runtime runtime(limits, Moment{});
  const Nests nests(runtime);
  try {
    run(runtime, nests);
  } catch (const Failure& failure) {
    EXPECT_FALSE(failure.message.empty());
    return failure.message;
  }
  return "";
}

using Callee = std::function<Value(Runtime&, const Value& subject, const Arguments&)>;

// Calls it with every subject and every list of arguments; how many calls met the limit.
int CallWithAll(const Callee& callee) {
  size_t subjects = 0, lists = 0;
  Outcome([&](Runtime& runtime, const Nests& nests) {
    subjects = Subjects(runtime, nests).size();
    lists = ArgumentLists(nests).size();
  });
  int limited = 0;
  for (size_t s = 0; s < subjects; ++s) {
    for (size_t l = 0; l < lists; ++l) {
      limited += Outcome([&](Runtime& runtime, const Nests& nests) {
                   const Value subject = Subjects(runtime, nests)[s];
                   const Arguments arguments = ArgumentLists(nests)[l];
                   Use(runtime, callee(runtime, subject, arguments));
                 }) == kSentence;
    }
  }
  return limited;
}

TEST(SharedNestsTest, EveryFilterEnds) {
  for (const Builtin* filter : Filters()) {
    SCOPED_TRACE(filter->name);
    const int limited =
        CallWithAll([filter](Runtime& runtime, const Value& subject, const Arguments& arguments) {
          return filter->Call(runtime, subject, arguments);
        });
    const bool walks =
        filter->name == "string" || filter->name == "tojson" || filter->name == "sort";
    EXPECT_TRUE(limited > 0 || !walks);
  }
}

// Lazy filters take the name of a filter or a test, and call it when they are read.
TEST(SharedNestsTest, EveryFilterAndTestEndsInALazyFilter) {
  std::vector<std::pair<std::string, std::string>> calls;
  for (const Builtin* filter : Filters()) calls.emplace_back("map", filter->name);
  for (const Builtin& test : Tests()) {
    for (const char* by : {"select", "reject"}) calls.emplace_back(by, test.name);
  }
  int limited = 0;
  for (const auto& [by, name] : calls) {
    for (const bool argument : {false, true}) {
      limited += Outcome([&](Runtime& runtime, const Nests& nests) {
                   Arguments arguments;
                   arguments.positional = {runtime.String(name)};
                   if (argument) arguments.positional.push_back(nests.tuple);
                   Use(runtime, FindFilter(by)->Call(runtime, nests.pair, arguments));
                 }) == kSentence;
    }
  }
  EXPECT_GT(limited, 10);
}

TEST(SharedNestsTest, EveryTestEnds) {
  for (const Builtin& test : Tests()) {
    SCOPED_TRACE(test.name);
    const int limited =
        CallWithAll([&test](Runtime& runtime, const Value& subject, const Arguments& arguments) {
          return test.Call(runtime, subject, arguments);
        });
    const bool walks = test.name == "eq" || test.name == "in";
    EXPECT_TRUE(limited > 0 || !walks);
  }
}

TEST(SharedNestsTest, EveryMethodAndFunctionEnds) {
  for (const Builtins table : {StringMethods(), ListMethods(), DictMethods(), Globals()}) {
    for (const Builtin& method : table) {
      SCOPED_TRACE(method.name);
      CallWithAll([&](Runtime& runtime, const Value& subject, const Arguments& arguments) {
        if (table.data() == Globals().data()) return method.Call(runtime, Value(), arguments);
        const Value bound = GetAttribute(runtime, subject, method.name);
        if (!bound.Is(Kind::kFunction)) return Value();
        const FunctionObject& function = bound.As<FunctionObject>();
        return function.builtin->Call(runtime, function.self, arguments);
      });
    }
  }
}

// What a template prints within 20,000 steps, or the sentence of its error.
std::string Rendered(const std::string& source) {
  static const std::string kMakeNests =
      "{% set ns = namespace(t=(1,), u=(1,), l=[1], m=[1], d={}, e={}) %}"
      "{% for i in range(90) %}{% set ns.t = (ns.t, ns.t) %}{% set ns.u = (ns.u, ns.u) %}"
      "{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}"
      "{% set ns.d = {'a': ns.d, 'b': ns.d} %}{% set ns.e = {'a': ns.e, 'b': ns.e} %}{% endfor %}"
      "{% set t, u, l, m, d, e = ns.t, ns.u, ns.l, ns.m, ns.d, ns.e %}";
  const auto parsed = ChatTemplate::Parse(kMakeNests + source);
  if (!parsed.ok()) return "";
  RenderLimits limits;
  limits.steps_max = 20'000;
  const auto text =
      (*parsed)->Render(OrderedJson::parse(R"({"s": "%s"})"), "2025-03-07T14:05:09", limits);
  return text.ok() ? *text : text.status().message();
}

TEST(RuntimeTest, WhatWasGivenUpFailsWithinSomeThousandSteps) {
  std::atomic<bool> cancelled = false;
  RenderLimits limits;
  limits.cancelled = &cancelled;
  Runtime runtime(limits, Moment{});
  for (int i = 0; i < 10'000; ++i) runtime.Step();
  runtime.Work(1u << 22);
  cancelled = true;
  int steps = 0;
  const auto run = [&] {
    for (; steps < 10'000; ++steps) runtime.Step();
  };
  EXPECT_THROW(run(), Failure);
  EXPECT_LE(steps, 4096);
  EXPECT_THROW(runtime.Work(1u << 22), Failure);
}

TEST(SharedNestsTest, EveryOperatorEnds) {
  std::vector<std::string> operators = {"and", "or", "in", "not in", "is", "if s else"};
  for (const std::string_view op : Operators()) operators.emplace_back(op);
  int limited = 0;
  for (const std::string& op : operators) {
    for (const char* operands : {"tu", "lm", "de", "td", "ts", "st", "sl", "sd", "ds"}) {
      const std::string expression = StrCat(operands[0], " ", op, " ", operands[1]);
      for (const std::string& source :
           {StrCat("{{ ", expression, " }}"), StrCat("{{ [", expression, "] | string }}"),
            StrCat("{% set x = (", expression, ") == t %}")}) {
        limited += Rendered(source).find("runs more than 20000 steps") != std::string::npos;
      }
    }
  }
  EXPECT_GT(limited, 20);
}

TEST(SharedNestsTest, WhateverWalksAValueMeetsTheLimit) {
  for (const char* source : {"{{ {t: 1} | length }}",
                             "{{ d[t] }}",
                             "{{ d.get(t) }}",
                             "{{ dict([(t, 1)]) | length }}",
                             "{{ t in {'a': 1} }}",
                             "{{ [t]|unique|list }}",
                             "{{ t == u }}",
                             "{{ t != u }}",
                             "{{ t < u }}",
                             "{{ t >= u }}",
                             "{{ t in [u] }}",
                             "{{ d == e }}",
                             "{{ [l].index(m) }}",
                             "{{ [l].count(m) }}",
                             "{{ t }}",
                             "{{ t ~ '' }}",
                             "{{ t|string }}",
                             "{{ t|tojson }}",
                             "{{ d|tojson(indent=2) }}",
                             "{{ [t, u]|sort }}",
                             "{{ [t, u]|max }}",
                             "{{ [t]|join }}",
                             "{{ '{}'.format(t) }}",
                             "{{ l|e }}",
                             "{{ namespace(a=t) }}",
                             "{{ d.values()|list == e.values()|list }}",
                             "{{ raise_exception(t) }}",
                             "{% set ns.x = {t: 1} %}",
                             "{{ l|replace('a', 'b') }}"}) {
    EXPECT_THAT(Rendered(source), HasSubstr("runs more than 20000 steps")) << source;
  }
}

// Flat values: what a call looks at counts, however it looks at it.

// The steps that a call counts.
int64_t StepsOf(const Runtime& runtime, const std::function<void()>& call) {
  const int64_t before = runtime.steps();
  call();
  return runtime.steps() - before;
}

TEST(FlatValuesTest, LongLoopsCountAsSteps) {
  constexpr size_t kItems = 100'000;
  constexpr size_t kBytes = 1u << 20;
  constexpr int64_t kStepsOfBytes = kBytes / 256;
  Runtime runtime(RenderLimits{}, Moment{});
  const Value zeros = runtime.String(std::string(kBytes, '0'));
  const Value others = runtime.String(std::string(kBytes, '0'));
  const Value dots = runtime.String(std::string(kItems, '.'));
  const Value list = runtime.List(std::vector<Value>(kItems, dots));
  const Value same = runtime.List(std::vector<Value>(kItems, dots));
  const auto filter = [&](const char* name, const Value& subject, std::vector<Value> positional) {
    return StepsOf(runtime, [&] {
      Arguments arguments;
      arguments.positional = std::move(positional);
      FindFilter(name)->Call(runtime, subject, arguments);
    });
  };
  EXPECT_GE(StepsOf(runtime, [&] { Equal(runtime, list, same); }), int64_t{kItems / 16});
  EXPECT_GE(StepsOf(runtime, [&] { Less(runtime, list, same); }), int64_t{kItems / 16});
  EXPECT_GE(StepsOf(runtime, [&] { Equal(runtime, zeros, others); }), kStepsOfBytes);
  EXPECT_GE(filter("int", zeros, {}), kStepsOfBytes);
  EXPECT_GE(filter("e", zeros, {}), kStepsOfBytes);
  EXPECT_GE(filter("trim", dots, {zeros}), kStepsOfBytes);
  // A search takes longer than a copy.
  EXPECT_GE(filter("trim", zeros, {dots}), 8 * kStepsOfBytes);
  EXPECT_GE(filter("replace", zeros, {dots, dots}), 8 * kStepsOfBytes);
  EXPECT_GE(StepsOf(runtime, [&] { Contains(runtime, zeros, dots); }), 8 * kStepsOfBytes);
  EXPECT_GE(filter("join", runtime.List({}), {Value(), dots}), int64_t{kItems});
  EXPECT_GE(StepsOf(runtime, [&] { FindAttribute(runtime, runtime.Dict({}), zeros.text()); }),
            kStepsOfBytes);
  std::vector<DictObject::Entry> entries;
  for (size_t i = 0; i < kItems; ++i) {
    entries.emplace_back(Value::Integer(static_cast<Int>(i)), Value());
  }
  EXPECT_GE(StepsOf(runtime, [&] { runtime.Dict(std::move(entries)); }), int64_t{kItems});
}

// Each name is compared with those before it, when the template is read: no step counts that.
TEST(FlatValuesTest, NamesOfACallAndOfAMacroAreBounded) {
  std::string names, values;
  for (int i = 0; i < 256; ++i) {
    names += StrCat("a", i, ",");
    values += StrCat("a", i, "=1,");
  }
  EXPECT_TRUE(ChatTemplate::Parse(StrCat("{{ dict(", values, ") }}")).ok());
  EXPECT_THAT(ChatTemplate::Parse(StrCat("{{ dict(", values, "b=1) }}")).status().message(),
              HasSubstr("more than 256 arguments"));
  const auto macro = [](const std::string& parameters) {
    return ChatTemplate::Parse(StrCat("{% macro m(", parameters, "b) %}{% endmacro %}"));
  };
  EXPECT_TRUE(macro(names.substr(names.find(',') + 1)).ok());
  EXPECT_THAT(macro(names).status().message(), HasSubstr("more than 256 parameters"));
}

// A search from the right that began anew at each part would look at the text 200,000 times.
TEST(FlatValuesTest, SplittingFromTheRightTakesLinearTime) {
  EXPECT_EQ(Rendered("{{ (('x' * 40 ~ 'y') * 400).rsplit('x' * 40)|length }}"), "401");
  const auto parsed =
      ChatTemplate::Parse("{{ (('x' * 40 ~ 'y') * 200000).rsplit('x' * 40)|length }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ((*parsed)->Render(OrderedJson::object(), "2025-03-07T14:05:09").value(), "200001");
}

}  // namespace
}  // namespace sluice::text::jinja
