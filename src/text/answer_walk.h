// AnswerWalk: how far one answer has come that is held to something, and which tokens may come
// next. One per answer; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "text/tokenizer.h"

namespace sluice::text {

class AnswerWalk {
 public:
  virtual ~AnswerWalk() = default;

  // Another one that has come as far and goes on by itself.
  virtual std::unique_ptr<AnswerWalk> Copy() const = 0;
  // Goes on by a token. False, and it stays where it is: that cannot come here.
  // REQUIRES: no id that ends an answer
  virtual bool Go(TokenId id) = 0;
  // Goes back by so many tokens. REQUIRES: it has gone on by them
  virtual void Back(int tokens) = 0;
  // The answer may end here; it may go on, too.
  virtual bool complete() const = 0;
  // Sets the bit of each token (bit i of word i / 32) with which the answer may go on here, but for
  // ids that end an answer. REQUIRES: no bit is set
  virtual void AllowTokens(std::span<uint32_t> allowed) = 0;
};

}  // namespace sluice::text
