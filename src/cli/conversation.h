// A conversation with an engine: its messages, how answers are drawn, and what becomes of both.
// Main thread only.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "cli/run_request.h"
#include "sluice/engine.h"

namespace sluice::cli {

class Conversation {
 public:
  // `asked`: the sampling that the command line asks for. The engine must outlive it.
  Conversation(Engine& engine, std::string system, Sampling asked, int max_tokens);

  struct Told {
    std::function<void(const TextDelta&)> on_delta;
    std::function<void()> on_wait;  // both as RunRequest has them
    bool instead_of_last = false;   // the last turn makes room for it
  };
  // Answers one message; what was drawn before Ctrl-C stays. Where the context has no room for
  // it and for an answer of a quarter of the context, or of max_tokens, the oldest turns are
  // forgotten first. After an error the message is, and all else is as it was.
  Result<RunResult> Answer(const std::string& text, const Told& told);
  // Turns that the last answer had no room for: a question and its answer each.
  int forgotten() const { return forgotten_; }

  void Reset();
  void SetSystem(const std::string& text);
  // The question of the last turn; empty: there is none.
  std::string LastQuestion() const;
  // A field of sluice/sampling.h or "max_tokens". kInvalidArgument for another name, and for a
  // value out of range.
  Status Set(const std::string& name, const std::string& value);
  static std::string NamesToSet();  // with commas between them
  std::string WhatIsSet() const;    // a line for each, with the value in force and who says it
  int messages() const { return static_cast<int>(messages_.size()); }

  // The messages as JSON, and back. kInvalidArgument for what is no conversation.
  std::string Saved() const;
  Status Load(const std::string& json);

  int max_tokens() const { return max_tokens_; }

 private:
  size_t FirstTurn() const;  // behind the system message
  ChatPrompt Asked() const;
  bool HasRoom() const;  // for an answer
  bool ForgetTurn();     // the oldest; false: there is none but the question

  Engine& engine_;
  Sampling asked_;
  int max_tokens_;
  Json messages_ = Json::array();
  int forgotten_ = 0;
};

}  // namespace sluice::cli
