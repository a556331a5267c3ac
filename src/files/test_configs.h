// Configs that a test expects to be read, or to be refused. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>

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

}  // namespace sluice::files::testing
