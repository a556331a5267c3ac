// A byte for the family, one for what is wanted, one for where the text is cut, and the text of an
// answer: whole and in pieces it has to give the same.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "text/output/families.h"

namespace sluice::text {
namespace {

const ToolSchemas& Schemas() {
  static const ToolSchemas* const kSchemas = new ToolSchemas(*ToolSchemas::Make(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "s": {"type": "string"}, "n": {"type": "integer"}, "a": {}}}}}])"));
  return *kSchemas;
}

struct Calls {
  std::vector<std::string> names, arguments;
  friend bool operator==(const Calls&, const Calls&) = default;
};

struct Taken {
  std::string text, reasoning;
  Calls calls;
  friend bool operator==(const Taken&, const Taken&) = default;
};

void Put(const TextDelta& delta, Taken* taken) {
  taken->text += delta.text;
  taken->reasoning += delta.reasoning;
  for (const ToolCallDelta& call : delta.tool_calls) {
    Calls& calls = taken->calls;
    if (!call.name.empty()) {
      calls.names.push_back(call.name);
      calls.arguments.emplace_back();
    }
    CHECK(call.index + 1 == static_cast<int>(calls.names.size()), call.index);
    calls.arguments.back() += call.arguments;
  }
}

Taken Take(const OutputFormat& format, const OutputParsing& wanted, std::string_view text,
           size_t piece_bytes) {
  const auto parser = format.MakeParser(wanted, Schemas(), "");
  Taken taken;
  if (parser == nullptr) return taken;
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    TextDelta delta;
    parser->Add(text.substr(at, piece_bytes), &delta);
    Put(delta, &taken);
  }
  TextDelta delta;
  parser->Finish(&delta);
  Put(delta, &taken);
  return taken;
}

void ParseBytes(std::string_view bytes) {
  if (bytes.size() < 3) return;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const CallFamily& calls = CallFamilies()[byte(0) % CallFamilies().size()];
  const ThinkFamily& think = ThinkFamilies()[byte(1) / 8 % ThinkFamilies().size()];
  const OutputParsing wanted = {(byte(1) & 1) != 0, (byte(1) & 2) != 0, (byte(1) & 4) != 0};
  const OutputFormat format = *OutputFormat::Choose("", calls.name, think.name);
  const std::string_view text = bytes.substr(3);
  const Taken whole = Take(format, wanted, text, text.size() + 1);
  CHECK(whole == Take(format, wanted, text, 1 + byte(2) % 16), "a cut changes what is taken apart");
  CHECK(whole.text.size() + whole.reasoning.size() <= 2 * text.size() + 1024, whole.text.size());
}

}  // namespace
}  // namespace sluice::text

void sluice::FuzzInput(std::string_view input) { text::ParseBytes(input); }
