#include "text/output/families.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace sluice::text {
namespace {

TEST(FamiliesTest, NamesMayBeGiven) {
  const auto format = OutputFormat::Choose("", "hermes", "think");
  ASSERT_TRUE(format.ok());
  EXPECT_EQ(format->tools(), "hermes");
  EXPECT_EQ(format->thinking(), "think");
  const auto none = OutputFormat::Choose("<tool_call></tool_call></think>", "none", "none");
  EXPECT_EQ(none->tools(), "none");
  EXPECT_EQ(none->thinking(), "none");
}

TEST(FamiliesTest, WrongNamesAreToldTheRightOnes) {
  const auto format = OutputFormat::Choose("", "hermse", "none");
  EXPECT_EQ(format.status().field(), "tool-parser");
  EXPECT_NE(format.status().message().find("\"hermse\"; it must be one of auto, none, harmony, "),
            std::string::npos)
      << format.status().message();
  EXPECT_EQ(OutputFormat::Choose("", "none", "thinking").status().field(), "reasoning-parser");
}

TEST(FamiliesTest, NothingIsTakenApartThatNobodyWants) {
  const auto format = OutputFormat::Choose("", "hermes", "think");
  const ToolSchemas none;
  EXPECT_EQ(format->MakeParser({}, none, ""), nullptr);
  EXPECT_TRUE(format->Marks({}).empty());
  EXPECT_NE(format->MakeParser({.reasoning = true}, none, ""), nullptr);
  EXPECT_EQ(OutputFormat().MakeParser({true, true, false}, none, ""), nullptr);
}

TEST(FamiliesTest, ChannelsAreToldApartWithoutTools) {
  const auto format = OutputFormat::Choose("", "harmony", "harmony");
  const ToolSchemas none;
  const auto parser = format->MakeParser({.reasoning = true}, none, "");
  ASSERT_NE(parser, nullptr);
  TextDelta delta;
  parser->Add(
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Yes.",
      &delta);
  parser->Finish(&delta);
  EXPECT_EQ(delta.text, "Yes.");
  EXPECT_EQ(delta.reasoning, "Hm.");
}

// Of the published templates that the scripts fetch: tools, thinking. Those of other forms are of
// no family, and their answers stay text.
const std::map<std::string, std::pair<const char*, const char*>> kPublished = {
    {"Apriel-1.6-15b-Thinker-fixed", {"minimax_m1", "none"}},
    {"Bielik-11B-v3.0-Instruct", {"hermes", "think"}},
    {"ByteDance-Seed-OSS", {"seed_oss", "seed_oss"}},
    {"Cohere2MoE", {"command_r7b", "command_r7b"}},
    {"CohereForAI-c4ai-command-r-plus-tool_use", {"command_r", "none"}},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", {"command_r7b", "command_r7b"}},
    {"GLM-4.6", {"glm45", "think"}},
    {"GLM-4.7-Flash", {"glm45", "think"}},
    {"Kimi-K2-Instruct", {"kimi_k2", "none"}},
    {"Kimi-K2-Thinking", {"kimi_k2", "think"}},
    {"LFM2.5-8B-A1B", {"lfm2", "think"}},
    {"MiMo-VL", {"hermes", "none"}},
    {"MiniMax-M1", {"minimax_m1", "none"}},
    {"MiniMax-M2", {"minimax_m2", "think"}},
    {"Mistral-Small-3.2-24B-Instruct-2506", {"mistral", "none"}},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"qwen3_coder", "think"}},
    {"NVIDIA-Nemotron-Nano-v2", {"nemotron", "think"}},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {"hermes", "none"}},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", {"hermes", "none"}},
    {"Qwen-QwQ-32B", {"hermes", "think"}},
    {"Qwen-Qwen2.5-7B-Instruct", {"hermes", "none"}},
    {"Qwen-Qwen3-0.6B", {"hermes", "think"}},
    {"Qwen3-Coder", {"qwen3_coder", "none"}},
    {"Qwen3.5-4B", {"qwen3_coder", "think"}},
    {"StepFun3.5-Flash", {"qwen3_coder", "think"}},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {"deepseek_v3", "think"}},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", {"deepseek_v3", "think"}},
    {"deepseek-ai-DeepSeek-V3.1", {"deepseek_v31", "think"}},
    {"deepseek-ai-DeepSeek-V3.2", {"deepseek_v32", "think"}},
    {"deepseek-ai-DeepSeek-V4", {"deepseek_v4", "think"}},
    {"fireworks-ai-llama-3-firefunction-v2", {"functools", "none"}},
    {"google-gemma-2-2b-it", {"none", "none"}},
    {"google-gemma-4-31B-it", {"gemma4", "gemma4"}},
    {"ibm-granite-granite-3.3-2B-Instruct", {"granite", "think"}},
    {"ibm-granite-granite-4.0", {"hermes", "none"}},
    {"ibm-granite-granite-4.1", {"hermes", "none"}},
    {"llama-cpp-deepseek-r1", {"deepseek_v3", "think"}},
    {"meta-llama-Llama-3.1-8B-Instruct", {"llama3_json", "none"}},
    {"meta-llama-Llama-3.2-3B-Instruct", {"llama3_json", "none"}},
    {"meta-llama-Llama-3.3-70B-Instruct", {"llama3_json", "none"}},
    {"microsoft-Phi-3.5-mini-instruct", {"none", "none"}},
    {"mistralai-Ministral-3-14B-Reasoning-2512", {"mistral", "mistral"}},
    {"mistralai-Mistral-Nemo-Instruct-2407", {"mistral", "none"}},
    {"moonshotai-Kimi-K2", {"kimi_k2", "none"}},
    {"openai-gpt-oss-120b", {"harmony", "harmony"}},
    {"poolside-Laguna-XS.2", {"glm45", "think"}},
    {"unsloth-mistral-Devstral-Small-2507", {"mistral", "none"}},
    {"MiniMax-M3", {"none", "none"}},
};

TEST(FamiliesTest, PublishedTemplatesAreOfTheirFamilies) {
  const char* fixtures = std::getenv("SLUICE_FIXTURES");
  if (fixtures == nullptr) GTEST_SKIP() << "SLUICE_FIXTURES is not set";
  for (const auto& [name, families] : kPublished) {
    std::ifstream file(std::filesystem::path(fixtures) / "templates" / (name + ".jinja"));
    std::stringstream text;
    text << file.rdbuf();
    ASSERT_FALSE(text.str().empty()) << name;
    const auto format = OutputFormat::Choose(text.str(), "auto", "auto");
    ASSERT_TRUE(format.ok());
    EXPECT_EQ(format->tools(), families.first) << name;
    EXPECT_EQ(format->thinking(), families.second) << name;
  }
}

}  // namespace
}  // namespace sluice::text
