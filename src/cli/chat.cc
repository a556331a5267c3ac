// sluice chat: a conversation in the terminal, or line by line from a pipe.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counted.h"
#include "base/log_options.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/editor/editor.h"
#include "cli/editor/terminal.h"
#include "cli/markdown_color.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/spellings.h"
#include "cli/text_input.h"
#include "cli/word_wrap.h"
#include "files/atomic_file.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

constexpr const char* kNewOne = "; /reset begins a new conversation";
constexpr const char* kEnds = "Ctrl-D or /bye ends.\n";
constexpr const char* kHelp =
    "/reset forgets the conversation, /retry draws the last answer again, /edit changes the last\n"
    "question, /system TEXT sets the system message, /set NAME VALUE how answers are drawn, /file\n"
    "PATH [TEXT] asks with a file's text, /save and /load PATH keep a conversation, /stats shows\n"
    "the speed of the last answer, /bye ends.\n"
    "Alt-Enter or three quotes write more lines, Ctrl-R looks through what was asked before.\n"
    "Ctrl-C stops an answer, and takes back a text that is being written; Ctrl-D ends.\n";

constexpr std::string_view kTripleQuotes = "\"\"\"";

// A prompt that takes longer is said to be read.
constexpr int64_t kSilentMicros = 1'000'000;

int Columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// An answer as a terminal shows it: what the terminal would obey is visible, Markdown has colours
// and lines end between words.
class Shown {
 public:
  void Add(std::string_view piece) { Write(visible_.Add(piece)); }
  void Finish() {
    Write(visible_.Finish());
    PrintColored(wrap_.Add(color_.Finish(), Columns()) + wrap_.Finish(Columns()));
  }

 private:
  void Write(std::string_view text) {
    PrintColored(wrap_.Add(has_colors_ ? color_.Add(text) : text, Columns()));
  }

  const bool has_colors_ = TakesColors();
  VisibleStream visible_;
  MarkdownColor color_;
  WordWrap wrap_;
};

// Tells a person that a long prompt is being read, until its answer begins.
class PromptReading {
 public:
  explicit PromptReading(const Engine& engine)
      : engine_(engine), before_(engine.Info().prefill_tokens), start_(NowMicros()) {}
  ~PromptReading() { End(); }
  PromptReading(const PromptReading&) = delete;
  PromptReading& operator=(const PromptReading&) = delete;

  void Wait() {
    if (over_ || NowMicros() - start_ < kSilentMicros) return;
    const int64_t tokens = engine_.Info().prefill_tokens - before_;
    const std::string line = tokens > 0 ? StrCat("reading the prompt: ", tokens, " tokens so far")
                                        : "reading the prompt ...";
    if (line != shown_) ShowProgress(shown_ = line);
  }
  void End() {
    if (!std::exchange(over_, true) && !shown_.empty()) ShowProgress("");
  }

 private:
  const Engine& engine_;
  const int64_t before_, start_;
  bool over_ = false;
  std::string shown_;
};

class Chat {
 public:
  Chat(Engine& engine, const ChatOptions& options)
      : engine_(engine),
        conversation_(engine, options.system, options.sampling, options.max_tokens),
        terminal_(isatty(STDOUT_FILENO) != 0),
        once_(!options.question.empty()),
        colors_(terminal_ && (once_ || isatty(STDIN_FILENO) != 0)) {
    for (const Command& command : Commands()) names_.emplace_back(command.name);
    if (isatty(STDIN_FILENO) == 0 || once_) return;
    const EngineInfo info = engine.Info();
    std::cout << "Chat with " << Quote(info.model_name) << " on " << DeviceOf(info)
              << ". /help tells the commands. Ctrl-C stops an answer, Ctrl-D ends.\n"
              << std::flush;
    if (!terminal_) return;
    editor_.emplace(STDIN_FILENO, STDOUT_FILENO, names_, HistoryPath());
    RestoreAtForcedEnd(&editor_->before());
  }
  ~Chat() {
    editor_.reset();
    RestoreAtForcedEnd(nullptr);
  }

  // Answers one question.
  Status RunOnce(const std::string& question) {
    Ask(question);
    return last_;
  }

  void Run() {
    while (!over_ && std::cout) {
      const std::optional<std::string> text = Next();
      if (!text) break;
      Take(*text);
    }
  }

 private:
  struct Command {
    const char* name;
    void (Chat::*run)(const std::string& argument);
  };
  static std::span<const Command> Commands();

  // What the user asks next; nothing: there is no more.
  std::optional<std::string> Next() {
    std::string line;
    if (!editor_) {
      if (!std::getline(std::cin, line)) return std::nullopt;
      return Whole(std::move(line));
    }
    for (;;) {
      std::cout << std::flush;
      const Terminal::Input input = editor_->Read(std::exchange(begun_, {}));
      if (input.restarted) instead_ = false;
      if (input.kind == Terminal::Input::Kind::kText) return input.text;
      if (input.kind == Terminal::Input::Kind::kEndOfFile) return std::nullopt;
      std::cout << kEnds;
    }
  }

  // With the lines that follow where three quotes have begun a text, as the editor takes them.
  static std::string Whole(std::string text) {
    bool open = text.starts_with(kTripleQuotes) && TripleQuotesIn(text) % 2 == 1;
    for (std::string line; open && std::getline(std::cin, line);) {
      open = TripleQuotesIn(line) % 2 == 0;
      text += "\n" + line;
    }
    return text;
  }

  void Take(const std::string& text) {
    const bool instead = std::exchange(instead_, false);
    if (text.find_first_not_of(" \t\n") == std::string::npos) return;
    const std::string name = text.substr(0, text.find_first_of(" \t\n"));
    if (name[0] != '/' || name.find('/', 1) != std::string::npos) {
      return Ask(Unquoted(text), instead);
    }
    for (const Command& command : Commands()) {
      if (name != command.name) continue;
      const size_t begin = text.find_first_not_of(" \t\n", name.size());
      return (this->*command.run)(begin == std::string::npos ? "" : text.substr(begin));
    }
    const std::string nearest = Nearest(name, names_);
    std::cout << "There is no command " << name << "; "
              << (nearest.empty() ? "/help tells those that there are"
                                  : StrCat("did you mean ", nearest, "?"))
              << "\n";
  }

  // Three quotes at both ends only hold lines together.
  static std::string Unquoted(const std::string& text) {
    if (!text.starts_with(kTripleQuotes)) return text;
    const size_t end = text.rfind(kTripleQuotes);
    return text.substr(kTripleQuotes.size(),
                       end < kTripleQuotes.size() ? end : end - kTripleQuotes.size());
  }

  // `instead`: the last turn makes room for it, unless it fails.
  void Ask(const std::string& text, bool instead = false) {
    Shown shown;
    PromptReading reading(engine_);
    Conversation::Told told;
    told.instead_of_last = instead;
    told.on_delta = [&](const TextDelta& delta) {
      reading.End();
      if (colors_) return shown.Add(delta.text);
      std::cout << delta.text << std::flush;
    };
    if (colors_ && isatty(STDERR_FILENO) != 0) told.on_wait = [&] { reading.Wait(); };
    auto result = conversation_.Answer(text, told);
    reading.End();
    if (colors_) shown.Finish();
    std::cout << "\n" << std::flush;
    if (conversation_.forgotten() > 0) {
      std::cerr << "The context of " << engine_.Info().max_model_len
                << " tokens is full: the oldest " << conversation_.forgotten()
                << (conversation_.forgotten() == 1 ? " turn was" : " turns were") << " left out.\n";
    }
    if (!result.ok()) {
      if (!once_) PrintError(result.status().message());
      last_ = result.status();
      return;
    }
    if (result->finish == FinishReason::kCancelled) {
      last_ = Status(StatusCode::kCancelled, "stopped by the user");
    }
    last_speed_ = SpeedLine(*result);
    if (result->finish == FinishReason::kLength) TellCut(result->usage.completion_tokens);
    if (editor_) PrintDim(StatusLine(*result));
  }

  // "58 tokens, 131.2/s, context 412 of 8192"
  std::string StatusLine(const RunResult& result) const {
    const Usage& usage = result.usage;
    return StrCat(RateLine(usage.completion_tokens, usage.decode_ms), ", context ",
                  usage.prompt_tokens + usage.completion_tokens, " of ",
                  engine_.Info().max_model_len);
  }

  // Beside the conversation, so that a program that reads answers gets these alone.
  void TellCut(int tokens) const {
    const bool limit = tokens >= conversation_.max_tokens();
    std::cerr << "The answer was cut after " << Counted(tokens, "token") << ": "
              << (limit ? (editor_ ? "/set max_tokens" : "--max-tokens") +
                              std::string(" sets the limit")
                        : StrCat("the context of ", engine_.Info().max_model_len, " tokens is full",
                                 kNewOne))
              << "\n";
  }

  void Help(const std::string&) {
    WordWrap wrap;
    const std::string names = StrCat("/set takes ", Conversation::NamesToSet(), ".\n");
    std::cout << kHelp << wrap.Add(names, Columns()) << wrap.Finish(Columns());
  }
  void Bye(const std::string&) { over_ = true; }
  void Reset(const std::string&) {
    conversation_.Reset();
    Tell(conversation_.messages() == 0
             ? "a new conversation begins"
             : "a new conversation begins; the system message stays (/system alone drops it)");
  }
  void Stats(const std::string&) { std::cout << last_speed_ << "\n"; }
  void System(const std::string& text) {
    conversation_.SetSystem(text);
    Tell(text.empty() ? "there is no system message" : "the system message is set");
  }
  void Retry(const std::string&) {
    const std::string question = conversation_.LastQuestion();
    if (question.empty()) return PrintError("there is no answer yet to draw again");
    Ask(question, true);
  }
  void Edit(const std::string&) {
    begun_ = conversation_.LastQuestion();
    instead_ = !begun_.empty();
    if (!instead_) PrintError("there is no question yet to edit");
  }
  // Also in Ollama's spelling: /set parameter NAME VALUE, /set system TEXT.
  void Set(const std::string& argument) {
    const auto [name, value] = Divided(argument);
    if (name.empty()) {
      std::cout << conversation_.WhatIsSet();
      return;
    }
    if (name == "parameter") return Set(value);
    if (name == "system") return System(value);
    const Status status = conversation_.Set(name, value);
    if (!status.ok()) return PrintError(status.message());
    Tell(StrCat(name, " is ", value));
  }
  // The first word, and what stands behind it.
  static std::pair<std::string, std::string> Divided(const std::string& text) {
    const size_t end = text.find(' ');
    const size_t next = text.find_first_not_of(' ', end);
    return {text.substr(0, end), next == std::string::npos ? "" : text.substr(next)};
  }
  void File(const std::string& argument) {
    const auto [path, question] = Divided(argument);
    if (path.empty()) return PrintError("/file needs the path of a text");
    const auto text = ReadText(path);
    if (!text.ok()) return PrintError(text.status().message());
    Ask(question.empty() ? *text : StrCat(*text, "\n\n", question));
  }
  void Save(const std::string& path) {
    if (path.empty()) return PrintError("/save needs the path of a file");
    const Status status = WriteWhole(path, conversation_.Saved());
    if (!status.ok()) return PrintError(status.message());
    TellMessages("saved");
  }
  // What was there before stays unless all of it can be written.
  static Status WriteWhole(const std::string& path, const std::string& text) {
    std::error_code error;
    const std::string target = std::filesystem::canonical(path, error);  // behind links
    SLUICE_ASSIGN_OR_RETURN(const auto file,
                            files::AtomicFile::Create(error ? path : target, {.replace = true}));
    SLUICE_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(text))));
    return file->Commit();
  }
  void Load(const std::string& path) {
    if (path.empty()) return PrintError("/load needs the path of a conversation");
    const auto text = ReadText(path);
    const Status status = text.ok() ? conversation_.Load(*text) : text.status();
    if (!status.ok()) return PrintError(status.message());
    TellMessages("loaded");
  }
  void TellMessages(std::string_view done) const {
    const int messages = conversation_.messages();
    Tell(StrCat(messages, messages == 1 ? " message " : " messages ", done));
  }
  // To a person alone, since who reads answers through a pipe wants nothing between them.
  void Tell(const std::string& line) const {
    if (editor_) PrintDim(line);
  }

  Engine& engine_;
  Conversation conversation_;
  const bool terminal_;
  const bool once_;    // one question is answered
  const bool colors_;  // answers are for a person who reads them as they come
  std::vector<std::string> names_;
  std::optional<Terminal> editor_;  // where both ends are a terminal
  std::string begun_;               // what the next text begins as
  bool instead_ = false;            // the next text, if it is a question, replaces the last one
  std::string last_speed_ = "nothing was answered yet";
  Status last_;  // of the one answer
  bool over_ = false;
};

std::span<const Chat::Command> Chat::Commands() {
  static constexpr Command kCommands[] = {
      {"/help", &Chat::Help},
      {"/reset", &Chat::Reset},
      {"/retry", &Chat::Retry},
      {"/edit", &Chat::Edit},
      {"/system", &Chat::System},
      {"/set", &Chat::Set},
      {"/file", &Chat::File},
      {"/save", &Chat::Save},
      {"/load", &Chat::Load},
      {"/stats", &Chat::Stats},
      {"/bye", &Chat::Bye},
      // As other programs call them.
      {"/?", &Chat::Help},
      {"/clear", &Chat::Reset},
      {"/exit", &Chat::Bye},
      {"/quit", &Chat::Bye},
  };
  return kCommands;
}

}  // namespace

Status RunChat(const ChatOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(options.engine));
  if (!engine->Info().has_chat_template) {
    return InvalidArgument("the model has no chat template; use sluice generate");
  }
  Chat chat(*engine, options);
  if (!options.question.empty()) return chat.RunOnce(options.question);
  chat.Run();
  return OkStatus();
}

void AddChatOptions(CLI::App& app, ChatOptions* options) {
  AddEngineOptions(app, &options->engine);
  app.add_option("question,-p,--prompt", options->question,
                 "answer this alone; default: what you type")
      ->type_name("TEXT");
  app.add_option("--system", options->system, "the system message");
  AddMaxTokens(app, 1, "tokens of an answer at most", &options->max_tokens);
  AddSamplingOptions(app, &options->sampling);
}

Action SetUpChat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  AddChatOptions(app, options.get());
  return [options] { return RunChat(*options); };
}

}  // namespace sluice::cli
