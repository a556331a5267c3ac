#include "text/grammar_compiler/written_arguments.h"

#include <grammar_functor.h>
#include <json_schema_converter.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "text/grammar_compiler/frames.h"

namespace sluice::text {
namespace {

using xgrammar::SchemaSpec;
using xgrammar::SchemaSpecPtr;
using Value = picojson::value;

enum class Form { kJson, kMarked, kPython, kGemma };

const Value* Member(const Value& object, const std::string& name) {
  if (!object.is<picojson::object>()) return nullptr;
  const auto& members = object.get<picojson::object>();
  const auto found = members.find(name);
  return found == members.end() ? nullptr : &found->second;
}

std::string TextOf(const Value& object, const char* name) {
  const Value* value = Member(object, name);
  return value != nullptr && value->is<std::string>() ? value->get<std::string>() : "";
}

// The specs of a schema as the library has them. RewriteSchema writes few of its forms.
class SpecReader {
 public:
  explicit SpecReader(const Value& root) : root_(root) {}

  SchemaSpecPtr Read(const Value& schema) const {
    if (Member(schema, "$ref") != nullptr) {
      return SchemaSpec::Make(xgrammar::RefSpec{TextOf(schema, "$ref")});
    }
    if (const Value* options = Member(schema, "anyOf")) {
      xgrammar::AnyOfSpec any;
      for (const Value& option : options->get<picojson::array>()) {
        any.options.push_back(Read(option));
      }
      return SchemaSpec::Make(std::move(any));
    }
    if (const Value* values = Member(schema, "enum")) {
      xgrammar::EnumSpec listed;
      for (const Value& value : values->get<picojson::array>()) {
        listed.json_values.push_back(value.serialize());
      }
      return SchemaSpec::Make(std::move(listed));
    }
    const std::string type = TextOf(schema, "type");
    if (type == "null") return SchemaSpec::Make(xgrammar::NullSpec{});
    if (type == "boolean") return SchemaSpec::Make(xgrammar::BooleanSpec{});
    if (Member(schema, "decimals") != nullptr) return SchemaSpec::Make(Multiples(schema));
    if (type == "integer") return SchemaSpec::Make(Integer(schema));
    if (type == "number") return SchemaSpec::Make(Number(schema));
    if (type == "string") {
      xgrammar::StringSpec string;
      if (Member(schema, "pattern") != nullptr) string.pattern = TextOf(schema, "pattern");
      return SchemaSpec::Make(std::move(string));
    }
    if (type == "fraction") return SchemaSpec::Make(Named("fraction"));
    if (type == "array") return SchemaSpec::Make(Array(schema));
    if (type == "object") return SchemaSpec::Make(Object(schema));
    throw std::runtime_error("a part of the arguments' schema has no type");
  }

  SchemaSpecPtr Resolve(const std::string& reference) const {
    constexpr std::string_view kBegin = "#/$defs/";
    const Value* parts = Member(root_, "$defs");
    const Value* part = parts == nullptr || reference.compare(0, kBegin.size(), kBegin) != 0
                            ? nullptr
                            : Member(*parts, reference.substr(kBegin.size()));
    if (part == nullptr) throw std::runtime_error("the arguments' schema refers to no part of it");
    return Read(*part);
  }

 private:
  static std::optional<int64_t> Whole(const Value& schema, const char* name) {
    const Value* value = Member(schema, name);
    if (value == nullptr) return std::nullopt;
    return value->is<int64_t>() ? value->get<int64_t>()
                                : static_cast<int64_t>(value->get<double>());
  }
  static std::optional<double> Real(const Value& schema, const char* name) {
    const Value* value = Member(schema, name);
    if (value == nullptr) return std::nullopt;
    return value->get<double>();
  }
  static xgrammar::IntegerSpec Integer(const Value& schema) {
    return {Whole(schema, "minimum"), Whole(schema, "maximum"), std::nullopt, std::nullopt,
            Whole(schema, "multipleOf")};
  }
  static xgrammar::NumberSpec Number(const Value& schema) {
    return {Real(schema, "minimum"), Real(schema, "maximum"), Real(schema, "exclusiveMinimum"),
            Real(schema, "exclusiveMaximum")};
  }
  // Numbers that the library has no spec for stand as strings of a format of ours.
  static xgrammar::StringSpec Named(const char* format) {
    xgrammar::StringSpec spec;
    spec.format = format;
    return spec;
  }
  // Multiples of min_length / 10^max_length, and at least 0 where there is a pattern.
  static xgrammar::StringSpec Multiples(const Value& schema) {
    xgrammar::StringSpec spec = Named("multiple");
    spec.min_length = static_cast<int>(Whole(schema, "multipleOf").value_or(1));
    spec.max_length = static_cast<int>(Whole(schema, "decimals").value_or(0));
    if (Member(schema, "minimum") != nullptr) spec.pattern = "";
    return spec;
  }
  static bool IsFalse(const Value* value) { return value->is<bool>() && !value->get<bool>(); }

  xgrammar::ArraySpec Array(const Value& schema) const {
    xgrammar::ArraySpec array;
    if (const Value* front = Member(schema, "prefixItems")) {
      for (const Value& item : front->get<picojson::array>()) {
        array.prefix_items.push_back(Read(item));
      }
    }
    const Value* items = Member(schema, "items");
    if (const Value* contains = Member(schema, "contains")) {
      // An array in which some are counted has their number, less than 0, in min_items.
      array.prefix_items = {Read(*items), Read(*contains)};
      if (const Value* rest = Member(schema, "rest")) array.additional_items = Read(*rest);
      array.min_items = -1 - Whole(schema, "minContains").value_or(0);
      array.max_items = Whole(schema, "maxContains").value_or(-1);
      return array;
    }
    array.allow_additional_items = items != nullptr && !IsFalse(items);
    if (array.allow_additional_items) array.additional_items = Read(*items);
    array.min_items = Whole(schema, "minItems").value_or(0);
    array.max_items = Whole(schema, "maxItems").value_or(-1);
    return array;
  }

  xgrammar::ObjectSpec Object(const Value& schema) const {
    xgrammar::ObjectSpec object;
    if (const Value* properties = Member(schema, "properties")) {
      const auto& members = properties->get<picojson::object>();
      for (const std::string& name : members.ordered_keys()) {
        object.properties.push_back({name, Read(members.at(name))});
      }
    }
    if (const Value* patterns = Member(schema, "patternProperties")) {
      const auto& members = patterns->get<picojson::object>();
      for (const std::string& pattern : members.ordered_keys()) {
        object.pattern_properties.push_back({pattern, Read(members.at(pattern))});
      }
    }
    if (const Value* required = Member(schema, "required")) {
      for (const Value& name : required->get<picojson::array>()) {
        object.required.insert(name.get<std::string>());
      }
    }
    const Value* others = Member(schema, "additionalProperties");
    object.allow_unevaluated_properties = false;
    object.allow_additional_properties = others != nullptr && !IsFalse(others);
    if (object.allow_additional_properties) object.additional_properties_schema = Read(*others);
    if (const Value* names = Member(schema, "propertyNames")) object.property_names = Read(*names);
    object.min_properties = static_cast<int>(Whole(schema, "minProperties").value_or(0));
    object.max_properties = static_cast<int>(Whole(schema, "maxProperties").value_or(-1));
    return object;
  }

  const Value& root_;
};

class Writer final : public xgrammar::JSONSchemaConverter {
 public:
  Writer(Form form, std::string quote, int32_t quote_token, const SpecReader& specs)
      : JSONSchemaConverter(
            std::nullopt, form == Form::kPython ? std::pair{", ", ": "} : std::pair{",", ":"},
            /*any_whitespace=*/false, std::nullopt,
            [&specs](const std::string& uri, const std::string&) { return specs.Resolve(uri); }),
        form_(form),
        quote_(std::move(quote)),
        quote_token_(quote_token) {}

 private:
  bool python() const { return form_ == Form::kPython; }
  // The arguments themselves, which Python writes without braces.
  bool bare() const { return python() && depth_ == 1; }
  bool words() const { return bare() || form_ == Form::kGemma; }

  void AddBasicRules() override {
    depth_ = 2;  // none of these are the arguments themselves
    builder_.AddEmptyRule(kArgumentName);
    JSONSchemaConverter::AddBasicRules();
    builder_.UpdateRuleBody(kArgumentName, RegexExpression("[A-Za-z_][A-Za-z0-9_]{0,63}"));
    if (form_ != Form::kJson) builder_.UpdateRuleBody(kBasicString, AnyString());
    depth_ = 0;
  }

  int32_t Quote() {
    if (form_ != Form::kGemma) return ByteString("\"");
    return quote_token_ < 0 ? ByteString(quote_) : builder_.AddTokenSet({quote_token_});
  }

  // A text that ends behind `closing`, without what the form cannot have within.
  int32_t AnyString() {
    if (form_ == Form::kGemma) {
      const int32_t text = builder_.AddRuleWithHint("text", TagDispatch(false, {quote_}));
      return Sequence({Quote(), RuleRef(text), Quote()});
    }
    const int32_t in_double = StringBody('"');
    const int32_t with_double = Sequence({ByteString("\""), RuleRef(in_double)});
    if (!python()) return with_double;
    const int32_t in_single = StringBody('\'');
    return Choice({with_double, Sequence({ByteString("'"), RuleRef(in_single)})});
  }

  int32_t StringBody(char closing) {
    const auto c = static_cast<int32_t>(static_cast<unsigned char>(closing));
    const int32_t body = builder_.AddEmptyRuleWithHint("string_body");
    const bool marked = form_ == Form::kMarked;
    std::vector<CharacterClassElement> others = {{0, 0x1f}, {c, c}, {'\\', '\\'}};
    if (marked) others.push_back({'<', '<'});
    const int32_t hex = builder_.AddCharacterClass({{'A', 'F'}, {'a', 'f'}, {'0', '9'}});
    const int32_t escape = Sequence(
        {ByteString("\\"), Choice({builder_.AddCharacterClass({{'"', '"'},
                                                               {closing == '\'' ? '\'' : '"', c},
                                                               {'\\', '\\'},
                                                               {'/', '/'},
                                                               {'b', 'b'},
                                                               {'f', 'f'},
                                                               {'n', 'n'},
                                                               {'r', 'r'},
                                                               {'t', 't'}}),
                                   Sequence({ByteString("u"), hex, hex, hex, hex})})});
    std::vector<int32_t> choices = {
        ByteString(std::string(1, closing)),
        Sequence({builder_.AddCharacterClass(others, true), RuleRef(body)}),
        Sequence({escape, RuleRef(body)})};
    if (marked) {
      // Behind "<" all may come but "|".
      const int32_t behind = builder_.AddEmptyRuleWithHint("string_body_behind");
      std::vector<int32_t> ends = choices;
      others.push_back({'|', '|'});
      ends[1] = Sequence({builder_.AddCharacterClass(others, true), RuleRef(body)});
      ends.push_back(Sequence({ByteString("<"), RuleRef(behind)}));
      builder_.UpdateRuleBody(behind, Choice(ends));
      choices.push_back(Sequence({ByteString("<"), RuleRef(behind)}));
    }
    builder_.UpdateRuleBody(body, Choice(choices));
    return body;
  }

  int32_t GenerateString(const xgrammar::StringSpec& spec, const std::string& rule) override {
    if (spec.format == "fraction") return RegexExpression("-?(0|[1-9][0-9]*)\\.[0-9]*[1-9][0-9]*");
    if (spec.format == "multiple") return GenerateMultiples(spec);
    if (form_ == Form::kJson) return JSONSchemaConverter::GenerateString(spec, rule);
    if (!spec.pattern) return RuleRef(kBasicString);
    return Sequence({Quote(), RegexExpression(*spec.pattern, /*json_string=*/true), Quote()});
  }

  // A rule for each remainder of the digits before the point, and for each of those with so many
  // behind it.
  int32_t GenerateMultiples(const xgrammar::StringSpec& spec) {
    const int64_t step = spec.min_length;
    const int decimals = spec.max_length;
    std::vector<std::vector<int32_t>> rules(static_cast<size_t>(decimals) + 1);
    for (auto& of_place : rules) {
      for (int64_t rest = 0; rest < step; ++rest) {
        of_place.push_back(builder_.AddEmptyRuleWithHint("multiple"));
      }
    }
    int64_t factor = 1;  // of a remainder, for the digits that have not come
    for (int place = decimals; place >= 0; --place, factor *= 10) {
      for (int64_t rest = 0; rest < step; ++rest) {
        std::vector<int32_t> choices;
        if (rest * factor % step == 0) choices.push_back(Empty());
        const auto add_digits = [&](int next, const std::string& before) {
          for (int64_t digit = 0; digit <= 9; ++digit) {
            const int32_t behind = rules[next][(rest * 10 + digit) % step];
            choices.push_back(
                Sequence({ByteString(before + std::to_string(digit)), RuleRef(behind)}));
          }
        };
        if (place == 0) add_digits(0, "");
        if (place < decimals) add_digits(place + 1, place == 0 ? "." : "");
        builder_.UpdateRuleBody(rules[place][rest],
                                choices.empty() ? Unsatisfiable() : Choice(choices));
      }
    }
    std::vector<int32_t> numbers = {ByteString("0")};
    if (decimals > 0) {
      for (int64_t digit = 0; digit <= 9; ++digit) {
        numbers.push_back(
            Sequence({ByteString("0." + std::to_string(digit)), RuleRef(rules[1][digit % step])}));
      }
    }
    for (int64_t digit = 1; digit <= 9; ++digit) {
      numbers.push_back(
          Sequence({ByteString(std::to_string(digit)), RuleRef(rules[0][digit % step])}));
    }
    const int32_t number = Choice(numbers);
    if (spec.pattern) return number;
    return Sequence({Choice({Empty(), ByteString("-")}), number});
  }

  // Arrays in which items of one kind are counted: those of prefix_items[1], among others of
  // prefix_items[0]; behind those that are needed any of additional_items.
  int32_t GenerateArray(const xgrammar::ArraySpec& spec, const std::string& rule) override {
    if (spec.min_items >= 0) return JSONSchemaConverter::GenerateArray(spec, rule);
    const int64_t least = -1 - spec.min_items;
    const bool bounded = spec.max_items >= 0;
    const auto last = static_cast<size_t>(bounded ? spec.max_items : least);
    const int32_t other = RuleRef(CreateRule(spec.prefix_items[0], rule + "_other"));
    const int32_t counted = RuleRef(CreateRule(spec.prefix_items[1], rule + "_counted"));
    const int32_t any = bounded ? -1 : RuleRef(CreateRule(spec.additional_items, rule + "_any"));
    const int32_t comma = ByteString(Comma());
    std::vector<int32_t> behind;  // so many that are counted, and at least one item
    for (size_t i = 0; i <= last; ++i)
      behind.push_back(builder_.AddEmptyRuleWithHint(rule + "_has"));
    const auto items = [&](size_t count, bool first) {
      std::vector<int32_t> choices;
      if (static_cast<int64_t>(count) >= least) choices.push_back(Empty());
      const auto add = [&](int32_t item, size_t next) {
        const int32_t rest = RuleRef(behind[next]);
        choices.push_back(first ? Sequence({item, rest}) : Sequence({comma, item, rest}));
      };
      const bool free = !bounded && count == last;
      add(free ? any : other, count);
      if (!free && count < last) add(counted, count + 1);
      return Choice(choices);
    };
    for (size_t i = 0; i <= last; ++i) builder_.UpdateRuleBody(behind[i], items(i, false));
    return Sequence({ByteString("["), items(0, true), ByteString("]")});
  }

  int32_t GenerateBoolean(const xgrammar::BooleanSpec&, const std::string&) override {
    return Choice({Literal(Value(true)), Literal(Value(false))});
  }
  int32_t GenerateNull(const xgrammar::NullSpec&, const std::string&) override {
    return Literal(Value());
  }

  int32_t GenerateEnum(const xgrammar::EnumSpec& spec, const std::string&) override {
    std::vector<int32_t> values;
    for (const std::string& json : spec.json_values) {
      Value value;
      if (const std::string error = picojson::parse(value, json); !error.empty()) {
        throw std::runtime_error(error);
      }
      values.push_back(Literal(value));
    }
    return Choice(values);
  }

  int32_t Literal(const Value& value) {
    if (value.is<std::string>()) return TextLiteral(value.get<std::string>());
    if (value.is<picojson::array>()) {
      std::vector<int32_t> parts;
      for (const Value& item : value.get<picojson::array>()) {
        parts.push_back(ByteString(parts.empty() ? "[" : Comma()));
        parts.push_back(Literal(item));
      }
      parts.push_back(ByteString(parts.empty() ? "[]" : "]"));
      return Sequence(parts);
    }
    if (value.is<picojson::object>()) {
      const auto& members = value.get<picojson::object>();
      std::vector<int32_t> parts;
      for (const std::string& name : members.ordered_keys()) {
        parts.push_back(ByteString(parts.empty() ? "{" : Comma()));
        parts.push_back(Key(name, /*bare=*/false));
        parts.push_back(ByteString(python() ? ": " : ":"));
        parts.push_back(Literal(members.at(name)));
      }
      parts.push_back(ByteString(parts.empty() ? "{}" : "}"));
      return Sequence(parts);
    }
    if (python() && value.is<bool>()) return ByteString(value.get<bool>() ? "True" : "False");
    if (python() && value.is<picojson::null>()) return ByteString("None");
    return ByteString(value.serialize());
  }
  std::string Comma() const { return python() ? ", " : ","; }

  int32_t TextLiteral(const std::string& text) {
    // One that stands for a number is written as such by whoever compiles the rules.
    if (text.compare(0, kNumberMark.size(), kNumberMark) == 0) {
      return ByteString("\"" + text + "\"");
    }
    if (form_ == Form::kGemma) return Sequence({Quote(), ByteString(text), Quote()});
    std::string json;
    bool plain = true;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      constexpr char kHex[] = "0123456789abcdef";
      const bool mark = form_ == Form::kMarked && c == '<' && text.compare(i, 2, "<|") == 0;
      plain = plain && c != '\'' && c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
      if (c == '"' || c == '\\') {
        json += '\\';
        json += c;
      } else if (static_cast<unsigned char>(c) < 0x20 || mark) {
        json += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
      } else {
        json += c;
      }
    }
    const int32_t in_double = ByteString("\"" + json + "\"");
    if (!python() || !plain) return in_double;
    return Choice({in_double, ByteString("'" + text + "'")});
  }

  int32_t Key(const std::string& name, bool bare) {
    if (bare || (form_ == Form::kGemma && IsWord(name))) return ByteString(name);
    return TextLiteral(name);
  }
  int32_t FormatPropertyKey(const std::string& key, const SchemaSpecPtr&) override {
    return Key(key, bare());
  }
  int32_t Colon() { return bare() ? ByteString("=") : colon_expr_id_; }
  int32_t FormatProperty(const std::string& key, int32_t value, const std::string&, int64_t,
                         const SchemaSpecPtr& schema) override {
    return Sequence({FormatPropertyKey(key, schema), Colon(), RuleRef(value)});
  }
  int32_t FormatOtherProperty(int32_t key, int32_t value, const std::string&, const std::string&,
                              const SchemaSpecPtr&) override {
    return Sequence({key, Colon(), RuleRef(value)});
  }
  std::string GetKeyPattern() const override { return words() ? kArgumentName : kBasicString; }

  int32_t GenerateObject(const xgrammar::ObjectSpec& spec, const std::string& rule, bool) override {
    ++depth_;
    const int32_t object = JSONSchemaConverter::GenerateObject(spec, rule, !bare());
    --depth_;
    return object;
  }

  static constexpr const char* kArgumentName = "argument_name";
  const Form form_;
  const std::string quote_;
  const int32_t quote_token_;
  int depth_ = 0;  // objects around
};

}  // namespace

xgrammar::Grammar ReadExtendedSchema(const Value& schema) {
  const SpecReader specs(schema);
  Writer writer(Form::kJson, "", -1, specs);
  return xgrammar::GrammarNormalizer::Apply(writer.Convert(specs.Read(schema)));
}

xgrammar::Grammar ReadWrittenArguments(const Value& schema, const Value& written_as) {
  const std::string name = TextOf(written_as, kForm);
  if (name != kPythonForm && name != kGemmaForm && name != kMarkedForm)
    throw std::runtime_error("arguments in an unknown form");
  const Form form = name == kPythonForm  ? Form::kPython
                    : name == kGemmaForm ? Form::kGemma
                                         : Form::kMarked;
  const Value* token = Member(written_as, kQuoteToken);
  const SpecReader specs(schema);
  Writer writer(form, TextOf(written_as, kQuote),
                token == nullptr ? -1 : static_cast<int32_t>(token->get<double>()), specs);
  return xgrammar::GrammarNormalizer::Apply(writer.Convert(specs.Read(schema)));
}

}  // namespace sluice::text
