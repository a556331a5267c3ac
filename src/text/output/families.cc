#include "text/output/families.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/visible.h"
#include "text/output/gemma_calls.h"
#include "text/output/harmony.h"
#include "text/output/header_calls.h"
#include "text/output/json_calls.h"
#include "text/output/pythonic_calls.h"
#include "text/output/tagged_calls.h"

namespace sluice::text {
namespace {

using Mark = std::string_view;

template <class Parser, const auto& form>
std::unique_ptr<CallParser> Make(const ToolSchemas& schemas) {
  return std::make_unique<Parser>(form, schemas);
}

// Calls as JSON objects.

constexpr Mark kHermesMarks[] = {"<tool_call>", "</tool_call>"};
constexpr JsonCallForm kHermes = {std::span(kHermesMarks, 1), std::span(kHermesMarks + 1, 1)};
constexpr CallShape kHermesShape = {.call_begin = "<tool_call>\n{\"name\": \"",
                                    .arguments = "\", \"arguments\": ",
                                    .call_end = "}\n</tool_call>",
                                    .separator = "\n"};

constexpr Mark kLlamaSigns[] = {"\"parameters\": dictionary of argument name"};
constexpr Mark kLlamaMarks[] = {"<|python_tag|>"};
constexpr JsonCallForm kLlama = {kLlamaMarks, {}, /*bare=*/true};
constexpr CallShape kLlamaShape = {.call_begin = "{\"name\": \"",
                                   .arguments = "\", \"parameters\": ",
                                   .call_end = "}",
                                   .bare = true,
                                   .single = true};

constexpr Mark kMinimaxM1Marks[] = {"<tool_calls>", "</tool_calls>"};
constexpr JsonCallForm kMinimaxM1 = {std::span(kMinimaxM1Marks, 1),
                                     std::span(kMinimaxM1Marks + 1, 1)};
constexpr CallShape kMinimaxM1Shape = {.section_begin = "<tool_calls>\n",
                                       .call_begin = "{\"name\": \"",
                                       .arguments = "\", \"arguments\": ",
                                       .call_end = "}\n",
                                       .section_end = "</tool_calls>"};

constexpr Mark kNemotronMarks[] = {"<TOOLCALL>", "</TOOLCALL>"};
constexpr JsonCallForm kNemotron = {std::span(kNemotronMarks, 1), std::span(kNemotronMarks + 1, 1)};
constexpr CallShape kNemotronShape = {.section_begin = "<TOOLCALL>[",
                                      .call_begin = "{\"name\": \"",
                                      .arguments = "\", \"arguments\": ",
                                      .call_end = "}",
                                      .separator = ", ",
                                      .section_end = "]</TOOLCALL>"};

constexpr Mark kCommandR7bMarks[] = {"<|START_ACTION|>", "<|END_ACTION|>"};
constexpr JsonCallForm kCommandR7b = {std::span(kCommandR7bMarks, 1),
                                      std::span(kCommandR7bMarks + 1, 1)};
constexpr CallShape kCommandR7bShape = {
    .section_begin = "<|START_ACTION|>[\n",
    .call_begin = "    {\"tool_call_id\": \"0\", \"tool_name\": \"",
    .arguments = "\", \"parameters\": ",
    .call_end = "}",
    .separator = ",\n",
    .section_end = "\n]<|END_ACTION|>"};

constexpr Mark kCommandRSigns[] = {"Action:", "```json", "\"tool_name\""};
constexpr Mark kCommandRMarks[] = {"Action: ```json", "Action:```json", "```"};
constexpr JsonCallForm kCommandR = {std::span(kCommandRMarks, 2), std::span(kCommandRMarks + 2, 1)};
constexpr CallShape kCommandRShape = {.section_begin = "Action: ```json\n[\n",
                                      .call_begin = "    {\n        \"tool_name\": \"",
                                      .arguments = "\",\n        \"parameters\": ",
                                      .call_end = "\n    }",
                                      .separator = ",\n",
                                      .section_end = "\n]```"};

constexpr Mark kGraniteMarks[] = {"<|tool_call|>", "<tool_call>", "</tool_call>"};
constexpr JsonCallForm kGranite = {std::span(kGraniteMarks, 2), std::span(kGraniteMarks + 2, 1)};
constexpr CallShape kGraniteShape = {.section_begin = "<|tool_call|>[",
                                     .call_begin = "{\"name\": \"",
                                     .arguments = "\", \"arguments\": ",
                                     .call_end = "}",
                                     .separator = ", ",
                                     .section_end = "]"};

constexpr Mark kPhi4Signs[] = {"<|/tool|>"}, kFunctoolsSigns[] = {"functools"};
constexpr Mark kPhi4Marks[] = {"<|tool_call|>", "functools", "<|/tool_call|>"};
constexpr JsonCallForm kPhi4 = {std::span(kPhi4Marks, 2), std::span(kPhi4Marks + 2, 1)};
constexpr CallShape kPhi4Shape = {.section_begin = "<|tool_call|>[",
                                  .call_begin = kGraniteShape.call_begin,
                                  .arguments = kGraniteShape.arguments,
                                  .call_end = "}",
                                  .separator = ", ",
                                  .section_end = "]<|/tool_call|>"};
constexpr CallShape kFunctoolsShape = {.section_begin = "functools[",
                                       .call_begin = kGraniteShape.call_begin,
                                       .arguments = kGraniteShape.arguments,
                                       .call_end = "}",
                                       .separator = ", ",
                                       .section_end = "]"};

// A name, then arguments as JSON.

constexpr Mark kMistralMarks[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
constexpr JsonCallForm kMistralList = {std::span(kMistralMarks, 1), {}};
constexpr HeaderCallForm kMistral = {.begins = std::span(kMistralMarks, 1),
                                     .header = HeaderKind::kBeforeMark,
                                     .header_mark = "[CALL_ID]",
                                     .arguments = "[ARGS]",
                                     .list = &kMistralList};
// The form of the older models, which the parser reads of all.
constexpr CallShape kMistralShape = {.section_begin = "[TOOL_CALLS][",
                                     .call_begin = "{\"name\": \"",
                                     .arguments = "\", \"arguments\": ",
                                     .call_end = "}",
                                     .separator = ", ",
                                     .section_end = "]"};

constexpr Mark kDeepseekMarks[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                   "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                   "<｜tool▁sep｜>"};
constexpr Mark kDeepseekV3Signs[] = {kDeepseekMarks[0], "```json"};
constexpr Mark kDeepseekV3Ends[] = {"```", kDeepseekMarks[3]};
constexpr HeaderCallForm kDeepseekV3 = {.begins = std::span(kDeepseekMarks, 1),
                                        .call = kDeepseekMarks[2],
                                        .header = HeaderKind::kAfterMark,
                                        .header_mark = kDeepseekMarks[4],
                                        .arguments = "\n```json\n",
                                        .ends = kDeepseekV3Ends,
                                        .section_ends = std::span(kDeepseekMarks + 1, 1)};
constexpr HeaderCallForm kDeepseekV31 = {.begins = std::span(kDeepseekMarks, 1),
                                         .call = kDeepseekMarks[2],
                                         .arguments = kDeepseekMarks[4],
                                         .ends = std::span(kDeepseekMarks + 3, 1),
                                         .section_ends = std::span(kDeepseekMarks + 1, 1)};
constexpr CallShape kDeepseekV3Shape = {.section_begin = "<｜tool▁calls▁begin｜>",
                                        .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                                        .arguments = "\n```json\n",
                                        .call_end = "\n```<｜tool▁call▁end｜>",
                                        .separator = "\n",
                                        .section_end = "<｜tool▁calls▁end｜>"};
constexpr CallShape kDeepseekV31Shape = {.section_begin = "<｜tool▁calls▁begin｜>",
                                         .call_begin = "<｜tool▁call▁begin｜>",
                                         .arguments = "<｜tool▁sep｜>",
                                         .call_end = "<｜tool▁call▁end｜>",
                                         .section_end = "<｜tool▁calls▁end｜>"};

constexpr Mark kKimiMarks[] = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                               "<|tool_call_begin|>", "<|tool_call_end|>",
                               "<|tool_call_argument_begin|>"};
constexpr HeaderCallForm kKimi = {.begins = std::span(kKimiMarks, 1),
                                  .call = kKimiMarks[2],
                                  .header = HeaderKind::kIndexed,
                                  .arguments = kKimiMarks[4],
                                  .ends = std::span(kKimiMarks + 3, 1),
                                  .section_ends = std::span(kKimiMarks + 1, 1)};
constexpr CallShape kKimiShape = {.section_begin = "<|tool_calls_section_begin|>",
                                  .call_begin = "<|tool_call_begin|>functions.",
                                  .behind_name = ":[0-9]{1,3}",
                                  .arguments = "<|tool_call_argument_begin|>",
                                  .call_end = "<|tool_call_end|>",
                                  .section_end = "<|tool_calls_section_end|>"};

// Arguments between tags.

constexpr Mark kQwenCoderSigns[] = {"<function=", "<parameter=", "<tool_call>"};
constexpr Mark kQwenCoderMarks[] = {"<tool_call>", "<function=", "</tool_call>"};
constexpr TaggedCallForm kQwenCoder = {.begins = std::span(kQwenCoderMarks, 2),
                                       .call = "<function=",
                                       .name_end = ">",
                                       .key = "<parameter=",
                                       .key_end = ">",
                                       .value_end = "</parameter>",
                                       .value_end_line = "\n</parameter>",
                                       .call_end = "</function>",
                                       .section_end = "</tool_call>"};
constexpr ParameterShape kQwenCoderParameters = {
    .begin = "<parameter=", .before_text = ">\n", .before_json = "", .end = "\n</parameter>\n"};
constexpr CallShape kQwenCoderShape = {.call_begin = "<tool_call>\n<function=",
                                       .arguments = ">\n",
                                       .call_end = "</function>\n</tool_call>",
                                       .separator = "\n",
                                       .parameters = &kQwenCoderParameters};

constexpr Mark kSeedMarks[] = {"<seed:tool_call>", "</seed:tool_call>"};
constexpr TaggedCallForm kSeed = {.begins = std::span(kSeedMarks, 1),
                                  .call = "<function=",
                                  .name_end = ">",
                                  .key = "<parameter=",
                                  .key_end = ">",
                                  .value_end = "</parameter>",
                                  .value_end_line = "\n</parameter>",
                                  .call_end = "</function>",
                                  .section_end = kSeedMarks[1]};
constexpr ParameterShape kSeedParameters = {
    .begin = "<parameter=", .before_text = ">", .before_json = "", .end = "</parameter>\n"};
constexpr CallShape kSeedShape = {.call_begin = "<seed:tool_call>\n<function=",
                                  .arguments = ">\n",
                                  .call_end = "</function>\n</seed:tool_call>",
                                  .separator = "\n",
                                  .parameters = &kSeedParameters};

constexpr Mark kGlmSigns[] = {"<arg_key>"};
constexpr Mark kGlmMarks[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                              "</arg_key>",  "<arg_value>",  "</arg_value>"};
constexpr TaggedCallForm kGlm = {.begins = std::span(kGlmMarks, 1),
                                 .key = "<arg_key>",
                                 .key_end = "</arg_key>",
                                 .value = "<arg_value>",
                                 .value_end = "</arg_value>",
                                 .value_end_line = "</arg_value>",
                                 .call_end = "</tool_call>",
                                 .section_end = "</tool_call>"};
constexpr ParameterShape kGlmParameters = {.begin = "<arg_key>",
                                           .before_text = "</arg_key>\n<arg_value>",
                                           .before_json = "",
                                           .end = "</arg_value>\n"};
constexpr CallShape kGlmShape = {.call_begin = "<tool_call>",
                                 .arguments = "\n",
                                 .call_end = "</tool_call>",
                                 .separator = "\n",
                                 .parameters = &kGlmParameters};

constexpr Mark kMinimaxM2Marks[] = {"<minimax:tool_call>", "</minimax:tool_call>"};
constexpr TaggedCallForm kMinimaxM2 = {.begins = std::span(kMinimaxM2Marks, 1),
                                       .call = "<invoke name=\"",
                                       .name_end = ">",
                                       .key = "<parameter name=\"",
                                       .key_end = ">",
                                       .value_end = "</parameter>",
                                       .value_end_line = "\n</parameter>",
                                       .call_end = "</invoke>",
                                       .section_end = kMinimaxM2Marks[1]};
constexpr ParameterShape kMinimaxM2Parameters = {.begin = "<parameter name=\"",
                                                 .before_text = "\">",
                                                 .before_json = "",
                                                 .end = "</parameter>\n"};
constexpr CallShape kMinimaxM2Shape = {.section_begin = "<minimax:tool_call>\n",
                                       .call_begin = "<invoke name=\"",
                                       .arguments = "\">\n",
                                       .call_end = "</invoke>\n",
                                       .section_end = "</minimax:tool_call>",
                                       .parameters = &kMinimaxM2Parameters};

constexpr Mark kDsmlSigns[] = {"｜DSML｜", "function_calls"};
constexpr Mark kDsmlMarks[] = {"｜DSML｜", "<｜DSML｜function_calls>"};
constexpr TaggedCallForm kDsml = {.begins = std::span(kDsmlMarks + 1, 1),
                                  .call = "<｜DSML｜invoke name=\"",
                                  .name_end = ">",
                                  .key = "<｜DSML｜parameter name=\"",
                                  .key_end = ">",
                                  .value_end = "</｜DSML｜parameter>",
                                  .value_end_line = "</｜DSML｜parameter>",
                                  .call_end = "</｜DSML｜invoke>",
                                  .section_end = "</｜DSML｜function_calls>"};
constexpr ParameterShape kDsmlParameters = {.begin = "<｜DSML｜parameter name=\"",
                                            .before_text = "\" string=\"true\">",
                                            .before_json = "\" string=\"false\">",
                                            .end = "</｜DSML｜parameter>\n"};
constexpr CallShape kDsmlShape = {.section_begin = "<｜DSML｜function_calls>\n",
                                  .call_begin = "<｜DSML｜invoke name=\"",
                                  .arguments = "\">\n",
                                  .call_end = "</｜DSML｜invoke>\n",
                                  .section_end = "</｜DSML｜function_calls>",
                                  .parameters = &kDsmlParameters};

constexpr Mark kDsmlV4Signs[] = {"｜DSML｜", "tool_calls"};
constexpr Mark kDsmlV4Marks[] = {"｜DSML｜", "<｜DSML｜tool_calls>"};
constexpr TaggedCallForm kDsmlV4 = {.begins = std::span(kDsmlV4Marks + 1, 1),
                                    .call = kDsml.call,
                                    .name_end = kDsml.name_end,
                                    .key = kDsml.key,
                                    .key_end = kDsml.key_end,
                                    .value_end = kDsml.value_end,
                                    .value_end_line = kDsml.value_end_line,
                                    .call_end = kDsml.call_end,
                                    .section_end = "</｜DSML｜tool_calls>"};
constexpr CallShape kDsmlV4Shape = {.section_begin = "<｜DSML｜tool_calls>\n",
                                    .call_begin = kDsmlShape.call_begin,
                                    .arguments = kDsmlShape.arguments,
                                    .call_end = kDsmlShape.call_end,
                                    .section_end = "</｜DSML｜tool_calls>",
                                    .parameters = &kDsmlParameters};

// Calls as Python, as Gemma and as gpt-oss write them.

constexpr Mark kPythonicSigns[] = {"[func_name1(params_name1=params_value1"};
constexpr Mark kPythonicMarks[] = {"<|python_start|>", "<|python_end|>"};
constexpr PythonicForm kPythonic = {std::span(kPythonicMarks, 1), std::span(kPythonicMarks + 1, 1),
                                    /*bare=*/true};

constexpr ArgumentForm kPythonArguments = {ArgumentForm::Kind::kPython};
constexpr CallShape kPythonicShape = {.section_begin = "[",
                                      .arguments = "(",
                                      .call_end = ")",
                                      .separator = ", ",
                                      .section_end = "]",
                                      .form = &kPythonArguments,
                                      .bare = true};

constexpr Mark kLfmMarks[] = {"<|tool_call_start|>", "<|tool_call_end|>"};
constexpr PythonicForm kLfm = {std::span(kLfmMarks, 1), std::span(kLfmMarks + 1, 1)};

constexpr CallShape kLfmShape = {.section_begin = "<|tool_call_start|>[",
                                 .arguments = "(",
                                 .call_end = ")",
                                 .separator = ", ",
                                 .section_end = "]<|tool_call_end|>",
                                 .form = &kPythonArguments};

constexpr Mark kGemmaSigns[] = {"<|tool_call>call:"};
constexpr Mark kGemmaMarks[] = {"<|tool_call>", "<tool_call|>", "<|\"|>"};
constexpr GemmaForm kGemma = {"<|tool_call>call:", "<|\"|>", "<tool_call|>"};

constexpr ArgumentForm kGemmaArguments = {ArgumentForm::Kind::kGemma, kGemma.quote};
constexpr CallShape kGemmaShape = {
    .call_begin = kGemma.begin, .call_end = kGemma.end, .form = &kGemmaArguments};

constexpr Mark kFunctionGemmaSigns[] = {"<start_function_call>"};
constexpr Mark kFunctionGemmaMarks[] = {"<start_function_call>", "<end_function_call>", "<escape>"};
constexpr GemmaForm kFunctionGemma = {"<start_function_call>call:", "<escape>",
                                      "<end_function_call>"};

constexpr ArgumentForm kFunctionGemmaArguments = {ArgumentForm::Kind::kGemma, kFunctionGemma.quote};
constexpr CallShape kFunctionGemmaShape = {.call_begin = kFunctionGemma.begin,
                                           .call_end = kFunctionGemma.end,
                                           .form = &kFunctionGemmaArguments};

template <const GemmaForm& form>
std::unique_ptr<CallParser> MakeGemma(const ToolSchemas&) {
  return std::make_unique<GemmaCalls>(form);
}

constexpr Mark kHarmonySigns[] = {"<|channel|>analysis"};
constexpr Mark kHarmonyMarks[] = {"<|channel|>",   "<|message|>", "<|start|>", "<|end|>",
                                  "<|constrain|>", "<|call|>",    "<|return|>"};
// Arguments in which a mark ends the message, though it stand in a text.
constexpr ArgumentForm kHarmonyArguments = {ArgumentForm::Kind::kMarked};
constexpr CallShape kHarmonyShape = {.call_begin = "<|channel|>commentary to=functions.",
                                     .arguments = " <|constrain|>json<|message|>",
                                     .form = &kHarmonyArguments,
                                     .single = true,
                                     .think_begin = "<|channel|>analysis<|message|>",
                                     .text_begin = "<|channel|>commentary<|message|>",
                                     .last_text_begin = "<|channel|>final<|message|>",
                                     .message_end = "<|end|><|start|>assistant"};
std::unique_ptr<CallParser> MakeHarmony(const ToolSchemas&) { return std::make_unique<Harmony>(); }

// Both tables.

constexpr CallFamily kCallFamilies[] = {
    {"harmony", kHarmonySigns, "", kHarmonyMarks, MakeHarmony, &kHarmonyShape, /*short_ids=*/false,
     /*thinks=*/true},
    {"kimi_k2", std::span(kKimiMarks, 1), "", kKimiMarks, Make<HeaderCalls, kKimi>, &kKimiShape,
     /*short_ids=*/false, /*thinks=*/false, /*cut=*/kKimiMarks[0]},
    {"deepseek_v32", kDsmlSigns, "", kDsmlMarks, Make<TaggedCalls, kDsml>, &kDsmlShape},
    {"deepseek_v4", kDsmlV4Signs, "", kDsmlV4Marks, Make<TaggedCalls, kDsmlV4>, &kDsmlV4Shape},
    {"deepseek_v3", kDeepseekV3Signs, "", kDeepseekMarks, Make<HeaderCalls, kDeepseekV3>,
     &kDeepseekV3Shape},
    {"deepseek_v31", std::span(kDeepseekMarks, 1), "", kDeepseekMarks,
     Make<HeaderCalls, kDeepseekV31>, &kDeepseekV31Shape},
    {"minimax_m2", std::span(kMinimaxM2Marks, 1), "", kMinimaxM2Marks,
     Make<TaggedCalls, kMinimaxM2>, &kMinimaxM2Shape},
    {"minimax_m1", std::span(kMinimaxM1Marks, 1), "", kMinimaxM1Marks, Make<JsonCalls, kMinimaxM1>,
     &kMinimaxM1Shape},
    {"seed_oss", std::span(kSeedMarks, 1), "", kSeedMarks, Make<TaggedCalls, kSeed>, &kSeedShape},
    {"qwen3_coder", kQwenCoderSigns, "", kQwenCoderMarks, Make<TaggedCalls, kQwenCoder>,
     &kQwenCoderShape},
    {"glm45", kGlmSigns, "", kGlmMarks, Make<TaggedCalls, kGlm>, &kGlmShape},
    {"command_r7b", std::span(kCommandR7bMarks, 1), "", kCommandR7bMarks,
     Make<JsonCalls, kCommandR7b>, &kCommandR7bShape},
    {"command_r", kCommandRSigns, "", kCommandRMarks, Make<JsonCalls, kCommandR>, &kCommandRShape},
    {"mistral", std::span(kMistralMarks, 1), "", kMistralMarks, Make<HeaderCalls, kMistral>,
     &kMistralShape,
     /*short_ids=*/true},
    {"gemma4", kGemmaSigns, "", kGemmaMarks, MakeGemma<kGemma>, &kGemmaShape},
    {"functiongemma", kFunctionGemmaSigns, "", kFunctionGemmaMarks, MakeGemma<kFunctionGemma>,
     &kFunctionGemmaShape},
    {"granite", std::span(kGraniteMarks, 1), "", kGraniteMarks, Make<JsonCalls, kGranite>,
     &kGraniteShape},
    {"phi4", kPhi4Signs, "", kPhi4Marks, Make<JsonCalls, kPhi4>, &kPhi4Shape},
    {"functools", kFunctoolsSigns, "", kPhi4Marks, Make<JsonCalls, kPhi4>, &kFunctoolsShape},
    {"nemotron", std::span(kNemotronMarks, 1), "", kNemotronMarks, Make<JsonCalls, kNemotron>,
     &kNemotronShape},
    {"lfm2", std::span(kLfmMarks, 1), "", kLfmMarks, Make<PythonicCalls, kLfm>, &kLfmShape},
    {"llama_pythonic", kPythonicSigns, "", kPythonicMarks, Make<PythonicCalls, kPythonic>,
     &kPythonicShape},
    {"llama3_json", kLlamaSigns, "", kLlamaMarks, Make<JsonCalls, kLlama>, &kLlamaShape},
    {"hermes", kHermesMarks, "<invoke ", kHermesMarks, Make<JsonCalls, kHermes>, &kHermesShape},
};

constexpr Mark kMistralThinkSigns[] = {"[THINK]"};
constexpr Mark kCohereThinkSigns[] = {"<|START_THINKING|>"};
constexpr Mark kSeedThinkSigns[] = {"<seed:think>"};
constexpr Mark kGemmaThinkSigns[] = {"<channel|>"};
constexpr Mark kThinkSigns[] = {"</think>"};

constexpr ThinkFamily kThinkFamilies[] = {
    {"harmony", kHarmonySigns, "", {}},
    {"mistral", kMistralThinkSigns, "", {"[THINK]", "[/THINK]"}},
    {"command_r7b", kCohereThinkSigns, "", {"<|START_THINKING|>", "<|END_THINKING|>"}},
    {"seed_oss", kSeedThinkSigns, "", {"<seed:think>", "</seed:think>"}},
    {"gemma4", kGemmaThinkSigns, "", {"<|channel>thought", "<channel|>"}},
    {"think", kThinkSigns, "", {"<think>", "</think>"}},
};

// Null for "none", and for a template of no family.
template <class Family>
Result<const Family*> Find(std::span<const Family> families, std::string_view chat_template,
                           std::string_view name, const char* flag) {
  const auto shows = [&](std::string_view sign) {
    return chat_template.find(sign) != std::string_view::npos;
  };
  std::string names = "auto, none";
  for (const Family& family : families) {
    const bool meant = name == "auto"
                           ? std::all_of(family.signs.begin(), family.signs.end(), shows) &&
                                 (family.unless.empty() || !shows(family.unless))
                           : name == family.name;
    if (meant) return &family;
    names += StrCat(", ", family.name);
  }
  if (name == "auto" || name == "none") return nullptr;
  return InvalidArgument(
      StrCat("--", flag, " is ", Quote(name.substr(0, 64)), "; it must be one of ", names), flag);
}

std::string_view WithoutSpaceAtEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

std::span<const CallFamily> CallFamilies() { return kCallFamilies; }
std::span<const ThinkFamily> ThinkFamilies() { return kThinkFamilies; }

Result<OutputFormat> OutputFormat::Choose(std::string_view chat_template, std::string_view tools,
                                          std::string_view thinking) {
  OutputFormat format;
  SLUICE_ASSIGN_OR_RETURN(format.calls_, Find(CallFamilies(), chat_template, tools, "tool-parser"));
  SLUICE_ASSIGN_OR_RETURN(format.think_,
                          Find(ThinkFamilies(), chat_template, thinking, "reasoning-parser"));
  return format;
}

Result<const CallFamily*> OutputFormat::HeldCalls() const {
  if (calls_ != nullptr) return calls_;
  return InvalidArgument(
      StrCat("answers of this model cannot be held to calls of tools, whose form is ", tools(),
             " (--tool-parser); send tool_choice \"auto\" and tools that are not strict"),
      "tool_choice");
}

const CallFamily* OutputFormat::Narrow(OutputParsing* wanted) const {
  wanted->tools = wanted->tools && calls_ != nullptr;
  wanted->reasoning = wanted->reasoning && think_ != nullptr;
  if (wanted->reasoning && think_->tags.begin.empty()) return &kCallFamilies[0];
  return wanted->tools || (wanted->reasoning && calls_ != nullptr && calls_->thinks) ? calls_
                                                                                     : nullptr;
}

std::vector<std::string_view> OutputFormat::Marks(const OutputParsing& wanted) const {
  OutputParsing told = wanted;
  const CallFamily* const calls = Narrow(&told);
  std::vector<std::string_view> marks;
  if (calls != nullptr) marks.assign(calls->marks.begin(), calls->marks.end());
  if (told.reasoning && !think_->tags.begin.empty()) {
    marks.insert(marks.end(), {think_->tags.begin, think_->tags.end});
    // A token may be the tag alone, where more stands behind it.
    const size_t end = think_->tags.begin.find('>');
    if (end != Mark::npos) marks.push_back(think_->tags.begin.substr(0, end + 1));
  }
  return marks;
}

bool OutputFormat::OpensThinking(std::string_view prompt_end) const {
  return think_tags() != nullptr && WithoutSpaceAtEnd(prompt_end).ends_with(think_tags()->begin);
}

std::unique_ptr<OutputParser> OutputFormat::MakeParser(const OutputParsing& wanted,
                                                       const ToolSchemas& schemas,
                                                       std::string_view prompt_end,
                                                       std::string_view begun) const {
  OutputParsing told = wanted;
  const CallFamily* const calls = Narrow(&told);
  const bool tagged =
      told.reasoning && !think_->tags.begin.empty() && (calls == nullptr || !calls->thinks);
  if (calls == nullptr && !tagged) return nullptr;
  const ThinkTags* const tags = tagged ? &think_->tags : nullptr;
  const bool thinking = tagged && OpensThinking(prompt_end);
  const auto make = [&] {
    return std::make_unique<OutputParser>(AnswerParts(told, calls != nullptr && calls->short_ids),
                                          calls == nullptr ? nullptr : calls->make(schemas), tags,
                                          thinking, calls == nullptr ? "" : calls->cut);
  };
  auto parser = make();
  if (begun.empty()) return parser;
  TextDelta alone;
  const auto other = make();
  other->Add(begun, &alone);
  other->Finish(&alone);
  parser->Begin(begun, alone);
  return parser;
}

}  // namespace sluice::text
