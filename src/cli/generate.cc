// sluice generate: one completion to standard output.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>

#include "base/json.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "cli/completion_json.h"
#include "cli/open_engine.h"
#include "cli/run_request.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/text_input.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

struct GenerateOptions {
  EngineOptions engine;
  std::string prompt, file;
  bool has_prompt = false;
  int max_tokens = 128;
  Sampling sampling;
  int logprobs = -1;
  bool json = false;
  bool chat = false;
  bool ignore_eos = false;
  std::vector<std::string> stop, choice;
  std::string json_schema, regex, rules;
  Grammar grammar;  // that one of these gives
};

Request RequestOf(const GenerateOptions& options, const Sampling& model) {
  Request request;
  if (options.chat) {
    ChatPrompt chat;
    chat.messages_json = DumpJson(Json::array({{{"role", "user"}, {"content", options.prompt}}}));
    request.prompt = std::move(chat);
  } else {
    request.prompt = options.prompt;
  }
  if (options.max_tokens != kNoLimit) request.max_tokens = options.max_tokens;
  request.ignore_eos = options.ignore_eos;
  request.stop = options.stop;
  request.choice = options.choice;
  request.grammar = options.grammar;
  request.sampling = WithTerminalDefaults(options.sampling, model);
  if (options.logprobs >= 0) request.logprobs = options.logprobs;
  return request;
}

// The prompt is what -p says, what the file has, or what comes on standard input.
Status ReadPrompt(GenerateOptions* options) {
  const bool given = options->has_prompt && options->prompt != "-";
  if (given && !options->file.empty()) {
    return InvalidArgument("--prompt and --file are both given; give one of them", "file");
  }
  if (given) return OkStatus();
  if (options->file.empty() && !options->has_prompt && isatty(STDIN_FILENO) != 0) {
    return InvalidArgument(
        "there is no prompt; give it with --prompt, as a --file, or on standard input", "prompt");
  }
  SLUICE_ASSIGN_OR_RETURN(options->prompt, ReadText(options->file));
  return OkStatus();
}

// What the answer is held to; "@FILE" is what the file has.
Status ReadGrammar(GenerateOptions* options) {
  const std::pair<Grammar::Kind, const std::string*> given[] = {
      {Grammar::Kind::kJsonSchema, &options->json_schema},
      {Grammar::Kind::kRegex, &options->regex},
      {Grammar::Kind::kRules, &options->rules}};
  for (const auto& [kind, text] : given) {
    if (text->empty()) continue;
    if (options->grammar.kind != Grammar::Kind::kNone) {
      return InvalidArgument(
          "several of --json-schema, --regex and --grammar are given; give one of them", "grammar");
    }
    options->grammar = {kind, *text};
    if (!text->starts_with('@')) continue;
    SLUICE_ASSIGN_OR_RETURN(options->grammar.text, ReadText(text->substr(1)));
  }
  return OkStatus();
}

Status Generate(const GenerateOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(options.engine));
  InterruptGuard interrupt;
  const bool stream = !options.json;
  SLUICE_ASSIGN_OR_RETURN(const RunResult result,
                          RunRequest(*engine, RequestOf(options, engine->Info().sampling_defaults),
                                     [&](const TextDelta& delta) {
                                       if (stream) std::cout << delta.text << std::flush;
                                     }));
  if (options.json) {
    std::cout << DumpJson(CompletionJson(*engine, result)) << "\n";
  } else {
    std::cout << "\n" << std::flush;
    if (!std::cout) return OkStatus();  // Run tells of it
    if (options.logprobs >= 0) PrintLogprobs(result, std::cout);
    std::cerr << SpeedLine(result) << "; " << engine->Info().device_id << "\n";
  }
  if (interrupt.raised()) return Status(StatusCode::kCancelled, "stopped by the user");
  return OkStatus();
}

}  // namespace

Action SetUpGenerate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  AddEngineOptions(app, &options->engine);
  CLI::Option* prompt = app.add_option("-p,--prompt", options->prompt,
                                       "the text to continue; - or none: standard input");
  app.add_option("-f,--file", options->file, "the file that has it");
  AddMaxTokens(app, 0, "tokens to draw at most", &options->max_tokens);
  AddSamplingOptions(app, &options->sampling);
  app.add_option("--logprobs", options->logprobs, "print log-probs of this many best tokens")
      ->check(CLI::Range(0, 20));
  app.add_option("--stop", options->stop, "end before this text (may be repeated)");
  app.add_option("--choice", options->choice,
                 "answer with this text or another one given so (may be repeated)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--json-schema", options->json_schema, "answer with JSON of this schema, or @FILE")
      ->type_name("TEXT");
  app.add_option("--regex", options->regex, "answer with what matches this regex, or @FILE")
      ->type_name("TEXT");
  app.add_option("--grammar", options->rules, "answer by these rules (EBNF, GBNF), or @FILE")
      ->type_name("TEXT");
  app.add_flag("--ignore-eos", options->ignore_eos, "go on after the end of the answer");
  app.add_flag("--chat", options->chat, "put the prompt into the model's chat template");
  app.add_flag("--json", options->json, "print one JSON object instead of text");
  return [options, prompt] {
    options->has_prompt = prompt->count() > 0;
    SLUICE_RETURN_IF_ERROR(ReadPrompt(options.get()));
    SLUICE_RETURN_IF_ERROR(ReadGrammar(options.get()));
    return Generate(*options);
  };
}

}  // namespace sluice::cli
