// sluice chat: a conversation in the terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/run_request.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

struct ChatOptions {
  EngineOptions engine;
  std::string system;
  int max_tokens = 1024;
  Sampling sampling;
};

constexpr std::string_view kNewOne = "; /reset begins a new conversation";

constexpr const char* kHelp =
    "/reset forgets the conversation, /stats shows the speed of the last answer, /exit ends.\n"
    "Ctrl-C stops an answer, a second one the program; Ctrl-D ends.\n";

class Conversation {
 public:
  Conversation(Engine& engine, const ChatOptions& options)
      : engine_(engine),
        options_(options),
        sampling_(WithTerminalDefaults(options.sampling, engine.Info().sampling_defaults)) {
    Reset();
  }

  void Reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) {
      messages_.push_back({{"role", "system"}, {"content", options_.system}});
    }
  }

  // Answers one line; what was drawn before Ctrl-C stays in the history.
  Status Answer(const std::string& line) {
    messages_.push_back({{"role", "user"}, {"content", line}});
    Request request;
    ChatPrompt chat;
    chat.messages_json = DumpJson(messages_);
    request.prompt = std::move(chat);
    request.max_tokens = options_.max_tokens;
    request.sampling = sampling_;
    InterruptGuard interrupt;
    auto result = RunRequest(engine_, std::move(request),
                             [](const TextDelta& delta) { std::cout << delta.text << std::flush; });
    std::cout << "\n";
    if (!result.ok()) {
      messages_.erase(messages_.size() - 1);
      const bool refused = result.status().code() == StatusCode::kInvalidArgument;
      return refused && HasTurns() ? InvalidArgument(StrCat(result.status().message(), kNewOne))
                                   : result.status();
    }
    messages_.push_back({{"role", "assistant"}, {"content", result->text}});
    last_speed_ = SpeedLine(*result);
    if (result->finish == FinishReason::kLength) TellCut(result->usage.completion_tokens);
    return OkStatus();
  }

  const std::string& last_speed() const { return last_speed_; }

 private:
  bool HasTurns() const { return messages_.size() > (options_.system.empty() ? 0u : 1u); }

  // Beside the conversation, so that a program that reads answers gets these alone.
  void TellCut(int tokens) const {
    const bool limit = tokens >= options_.max_tokens;
    std::cerr << "The answer was cut after " << tokens << " tokens: "
              << (limit ? "--max-tokens sets the limit"
                        : StrCat("the context of ", engine_.Info().max_model_len, " tokens is full",
                                 kNewOne))
              << "\n";
  }

  Engine& engine_;
  const ChatOptions& options_;
  const Sampling sampling_;
  Json messages_;
  std::string last_speed_ = "nothing was answered yet";
};

Status Chat(const ChatOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(options.engine));
  if (!engine->Info().has_chat_template) {
    return InvalidArgument("the model has no chat template; use sluice generate");
  }
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    const EngineInfo info = engine->Info();
    std::cout << "Chat with " << Quote(info.model_name) << " on " << DeviceOf(info) << ". "
              << kHelp;
  }
  Conversation conversation(*engine, options);
  std::string line;
  for (;;) {
    if (terminal) std::cout << "> " << std::flush;
    if (!std::cout || !std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/exit") break;
    if (line == "/reset") {
      conversation.Reset();
    } else if (line == "/stats") {
      std::cout << conversation.last_speed() << "\n";
    } else if (line == "/help") {
      std::cout << kHelp;
    } else if (line[0] == '/' && line.find_first_of(" \t/", 1) == std::string::npos) {
      std::cout << "There is no command " << line << ".\n" << kHelp;
    } else if (Status status = conversation.Answer(line); !status.ok()) {
      PrintError(status.message());
    }
  }
  if (terminal) std::cout << "\n";
  return OkStatus();
}

}  // namespace

Action SetUpChat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  AddEngineOptions(app, &options->engine);
  app.add_option("--system", options->system, "the system message");
  app.add_option("-n,--max-tokens", options->max_tokens, "tokens of an answer at most")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  AddSamplingOptions(app, &options->sampling);
  return [options] { return Chat(*options); };
}

}  // namespace sluice::cli
