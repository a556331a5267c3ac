// Small config.jsons of any architecture, whose keys a test replaces. Tests only.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "files/test_configs.h"

namespace sluice::files::testing {

// A config.json of `class_name` with the keys of `text` (a JSON object) on top.
inline std::string Config(const std::string& class_name, const std::string& text = "{}") {
  Json json = {{"hidden_size", 64},        {"intermediate_size", 96},  {"num_hidden_layers", 4},
               {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"vocab_size", 100},
               {"eos_token_id", 2}};
  json.update(Json::parse(text));
  if (class_name == "Gemma3ForConditionalGeneration") json = {{"text_config", json}};
  json["architectures"] = {class_name};
  return DumpJson(json);
}

inline ModelConfig Good(const std::string& class_name, const std::string& text = "{}",
                        const std::string& generation = "") {
  return GoodConfig(ConfigFromJson(Config(class_name, text), generation));
}
inline ModelConfig Llama(const std::string& text) { return Good("LlamaForCausalLM", text); }

inline std::string ErrorOf(const std::string& config_json, const std::string& generation = "") {
  return ConfigError(ConfigFromJson(config_json, generation));
}
inline std::string LlamaError(const std::string& text) {
  return ErrorOf(Config("LlamaForCausalLM", text));
}

inline std::vector<bool> LayersWithExperts(const ModelConfig& config) {
  std::vector<bool> with;
  for (const LayerConfig& layer : config.layers) with.push_back(layer.experts);
  return with;
}

}  // namespace sluice::files::testing
