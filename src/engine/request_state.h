// One request's life, from Submit to its last event.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/constraint.h"
#include "engine/stop_matcher.h"
#include "schedule/sequence.h"
#include "sluice/engine.h"
#include "sluice/limits.h"
#include "text/detokenizer.h"
#include "text/grammar.h"
#include "text/output/families.h"

namespace sluice::engine {

// A sequence's id holds its request and its choice.
inline schedule::SequenceId SequenceOf(RequestId request, int choice) {
  return request * limits::kChoicesMax + static_cast<uint64_t>(choice);
}

struct ChoiceState {
  ChoiceState(text::Detokenizer d, StopMatcher m)
      : detokenizer(std::move(d)), stops(std::move(m)) {}
  text::Detokenizer detokenizer;
  StopMatcher stops;
  std::unique_ptr<text::OutputParser> parser;  // null: all of the answer is text
  bool finished = false;
  std::vector<int32_t> drawn;  // kept for a processor of logits alone
  int tokens = 0;
  int64_t last_token_us = 0;
};

struct RequestState {
  // Constant after Submit, but for the prompt and what the answer is held to, which its text worker
  // gives up for their ids.
  RequestId id = 0;
  Request request;
  Sink sink;
  TextDelta blank;  // what each of its events begins as
  int64_t submitted_us = 0;

  std::atomic<bool> cancelled = false;
  bool handed = false;       // to the step thread; guarded by the engine's mutex
  int64_t least_tokens = 0;  // of its prompts, as far as their bytes tell

  // What its grammar became, or why nothing; set before its text worker gets it.
  std::shared_ptr<const text::CompiledGrammar> grammar;  // null: there is none
  Status grammar_status;
  bool holds_calls = false;                // it is that of calls, before which the model may think
  std::atomic<bool> end_thinking = false;  // by EndThinking

  // By choice, or by beam of a search; empty: the answers are free, null: that one is. Made before
  // the sequences are handed on, or when their thinking is to end, and the text worker's, but for
  // what the board guards; the step thread looks at those of masked sequences alone.
  std::vector<std::unique_ptr<Constraint>> constraints;
  // By choice, of a request with a processor of logits; else empty. Made at the same time, and
  // shared through the board.
  std::vector<std::unique_ptr<MaskBoard::Logits>> logits;

  // Text worker of this request only.
  std::vector<int32_t> prompt;
  // The text of the message that the answer goes on with; mostly none. And how many tokens of the
  // prompt it is, at its end; 0: they are other bytes.
  std::string begun;
  size_t begun_tokens = 0;
  int second_text = -1;        // where it begins in the prompt; below 0: there is none
  text::ToolSchemas tools;     // for the parsers of its choices
  std::vector<int32_t> marks;  // special tokens that these parsers have to see
  std::vector<ChoiceState> choices;
  int unfinished = 0;
  bool ended = false;                   // the engine has been told
  std::vector<TokenInfo> prompt_infos;  // until they are sent
  bool prompt_sent = false;
  double loss_sum = 0;
  int loss_count = 0;
  int64_t admitted_us = 0;  // its first choice's; 0: none yet
  int64_t first_token_us = 0;
  int64_t last_token_us = 0;
  Usage usage;

  // Step thread only.
  int open_sequences = 0;
  int32_t handle = -1;  // of its sequences: its place in the step loop's table
};

}  // namespace sluice::engine
