// LogitsProcessor: a piece of an embedder's program that changes the logits of an answer's next
// token before it is drawn. A request names one: Request::logits_processor.
//
// Threads. Process runs on a text worker while the device waits, never on the thread that steps.
// The answers of one request call it one at a time; requests that share a processor may call it at
// once. Work on it that takes longer than the model's step does not hold up other requests: they go
// on, and the answer's step is computed again until the processor is through, so the rows that it
// gets are the same. It must not block, since it shares the worker with other answers' texts.
//
// Order. It comes before all else that steers an answer: bias, penalties, what holds the answer to
// a grammar, and all that shapes the draw see the logits that it leaves, and so do log-probs, which
// are of these. It is called once for each token that is drawn, in the order of the tokens.
//
// Errors. One that throws, or leaves NaN, +inf or nothing but -inf, ends its request alone: the
// last event has FinishReason::kError and a sentence with the field "logits_processor". Submit
// refuses one beside a beam search, which draws no token, or an embedding.
//
// Cost, for each token: a row of logits travels from the device to the host and back (4 bytes for
// each id of the vocabulary, each way), and the device waits for the call. Such an answer is drawn
// without drafts (EngineOptions::speculate), one token in a step, since what the processor would
// say behind a draft is not asked.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

class LogitsProcessor {
 public:
  // What the next token comes behind. The spans live as long as the call.
  struct Row {
    std::span<const int32_t> prompt;  // ids; those of a chat's template and BOS are among them
    std::span<const int32_t> answer;  // ids that were drawn so far, in order; empty at the first
    int choice = 0;                   // which of the request's n answers
  };

  virtual ~LogitsProcessor() = default;
  // `logits`: [EngineInfo::vocab_size], by id, as the model gave them, to be changed in place: any
  // finite numbers, and -inf for an id that must not be drawn.
  virtual void Process(const Row& row, std::span<float> logits) = 0;
};

}  // namespace sluice
