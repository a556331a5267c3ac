// Configs that a test expects to be read, or to be refused. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "files/gguf.h"
#include "files/model_config.h"
#include "files/test_files.h"

namespace sluice::files::testing {

inline ModelConfig GoodConfig(const Result<ModelConfig>& config) {
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig();
}

// The sentence of the error.
inline std::string ConfigError(const Result<ModelConfig>& config) {
  if (config.ok()) return "no error";
  EXPECT_EQ(config.status().code(), StatusCode::kBadModel);
  return config.status().message();
}

// The config.json `json`, with the keys that `text` gives, which may be others than its own.
inline Result<ModelConfig> ConfigWith(Json json, const std::string& text) {
  json.update(Json::parse(text));
  return ConfigFromJson(DumpJson(json), "");
}

inline Result<ModelConfig> ConfigOf(const GgufWriter& writer) {
  const auto bytes = writer.Bytes();
  SLUICE_ASSIGN_OR_RETURN(const auto file, GgufFile::FromMemory(bytes, "tiny.gguf"));
  return ConfigFromGguf(*file);
}
inline ModelConfig Good(const GgufWriter& writer) { return GoodConfig(ConfigOf(writer)); }
inline std::string ErrorOf(const GgufWriter& writer) { return ConfigError(ConfigOf(writer)); }

// Of each layer, whether it sees a window.
inline std::vector<bool> Windows(const ModelConfig& config) {
  std::vector<bool> windows;
  for (const LayerConfig& layer : config.layers)
    windows.push_back(layer.kind == LayerKind::kWindow);
  return windows;
}

}  // namespace sluice::files::testing
