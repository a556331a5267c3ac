// llama.cpp's API: the bodies of /completion and /infill, and what /props and /slots tell.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

// Pure.
Result<ApiCall> ParseLlamaCompletion(std::string_view body, const ModelFacts& model);

// A text that is missing between two others, and texts of other files that it may draw on.
struct Infill {
  struct File {
    std::string name, text;
  };
  std::string before, after;
  std::vector<File> files;
  std::string begun;  // what the middle begins with
};

// The same body, with the texts around the gap for a prompt. The call's prompt is left empty. Pure.
Result<ApiCall> ParseInfill(std::string_view body, const ModelFacts& model, Infill* infill);

// The call's prompt in the special tokens that the model was taught for gaps, by which the answer
// also ends. kUnimplemented: its vocabulary has none that are known. kCancelled soon after `gone`
// has become true.
Status FillPrompt(const Engine& engine, const Infill& infill, const std::atomic<bool>& gone,
                  Request* request);

OrderedJson LlamaProps(const EngineInfo& info, const TokenizerInfo& texts);
OrderedJson LlamaSlots(const EngineInfo& info);

}  // namespace sluice::server
