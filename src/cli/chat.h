// The conversation of `sluice chat` and `sluice run`. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "sluice/engine.h"

namespace sluice::cli {

struct ChatOptions {
  EngineOptions engine;
  std::string system;
  std::string question;  // that alone is answered; empty: what the user asks
  int max_tokens = 1024;
  Sampling sampling;
};

// Declares MODEL and every option of a conversation on `app`.
void AddChatOptions(CLI::App& app, ChatOptions* options);

// Loads the model and talks until the user leaves, or answers the one question.
Status RunChat(const ChatOptions& options);

}  // namespace sluice::cli
