// For tests: engines over the tiny checkpoints of tests/golden/models, and sinks that wait for a
// request's end. Thread-safe where said.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/source_dir_fixture.h"
#include "sluice/engine.h"

namespace sluice::engine {

// What a request gave, by choice. Filled by its sink on a text worker; Wait may be called by any
// thread.
class Answer {
 public:
  struct Choice {
    std::vector<int32_t> ids;
    std::vector<double> logprobs;  // if asked for
    int distributions = 0;         // whole ones
    std::string text, stop_match;
    FinishReason finish = FinishReason::kNone;
    int finishes = 0;  // events with a finish reason
    std::optional<double> cumulative_logprob;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // The sink keeps the answer alive.
  static std::pair<std::shared_ptr<Answer>, Sink> Make() {
    auto answer = std::make_shared<Answer>();
    return {answer, [answer](TextDelta&& delta) { answer->Take(std::move(delta)); }};
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return lasts > 0; });
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return lasts > 0;
  }

  // Read these after Wait.
  std::map<int, Choice> choices;
  std::vector<TokenInfo> prompt;
  Usage usage;
  Status error;
  uint64_t seed = 0;
  std::optional<double> prompt_loss;
  std::vector<float> embedding;
  int lasts = 0, events = 0, after_last = 0;

 private:
  void Take(TextDelta&& delta) {
    std::lock_guard lock(mutex_);
    ++events;
    after_last += lasts > 0;
    Choice& choice = choices[delta.choice];
    for (const TokenInfo& token : delta.tokens) {
      choice.ids.push_back(token.id);
      if (token.logprob) choice.logprobs.push_back(*token.logprob);
      choice.distributions += token.all_logprobs.empty() ? 0 : 1;
    }
    choice.text += delta.text;
    if (!delta.prompt_tokens.empty()) prompt = std::move(delta.prompt_tokens);
    if (delta.finish != FinishReason::kNone) {
      choice.finish = delta.finish;
      choice.stop_match = delta.stop_match;
      choice.cumulative_logprob = delta.cumulative_logprob;
      ++choice.finishes;
    }
    if (!delta.error.ok()) error = delta.error;
    seed = delta.seed;
    if (!delta.last) return;
    usage = delta.usage;
    prompt_loss = delta.prompt_loss;
    embedding = std::move(delta.embedding);
    ++lasts;
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
};

// For models that have 320 tokens.
inline const std::vector<int32_t> kPrompt = {1, 75, 65, 67, 209, 98, 132, 267, 208, 233, 181, 53};

inline EngineOptions TinyOptions(const std::string& model = "llama") {
  EngineOptions options;
  options.model = SourceDir() + "/tests/golden/models/" + model;
  options.device = "cpu";
  options.threads = 1;
  options.max_model_len = 128;
  options.max_num_seqs = 8;
  options.max_batch_tokens = 64;
  options.block_size = 8;
  options.kernel_block_size = 4;
  options.state_block = 16;    // so that short sequences have several
  options.kv_dtype = "f16";    // which these checkpoints, in F32, would not choose
  options.kv_memory = "1MiB";  // 4096 tokens of llama
  options.speculate = "none";  // which drafts come in time is chance
  return options;
}

inline std::unique_ptr<Engine> OpenTiny(const EngineOptions& options) {
  auto engine = Engine::Open(options, {});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

inline Request TinyRequest(std::vector<int32_t> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0;
  return request;
}

// Submits and waits. An error of Submit is the answer's error.
inline std::shared_ptr<Answer> Ask(Engine& engine, Request request) {
  auto [answer, sink] = Answer::Make();
  const auto id = engine.Submit(std::move(request), sink);
  if (id.ok()) {
    answer->Wait();
  } else {
    answer->error = id.status();
  }
  return answer;
}

inline Status Pause(Engine& engine) { return engine.Admin(R"({"command": "pause"})").status(); }
inline Status Resume(Engine& engine) { return engine.Admin(R"({"command": "resume"})").status(); }

// Waits until the step loop has seen and published everything that came before.
inline void Settle(Engine& engine) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(engine.Admin(R"({"command": "cache_flush"})").ok());
  }
}

inline void ExpectNothingLeft(Engine& engine) {
  Settle(engine);
  const EngineInfo info = engine.Info();
  EXPECT_EQ(info.kv_free_blocks, info.kv_blocks);
  EXPECT_EQ(info.running, 0);
  EXPECT_EQ(info.waiting, 0);
}

// The value of a sample whose line begins with `name`, summed over its labels; -1 if there is none.
inline double Metric(const Engine& engine, const std::string& name) {
  const std::string text = "\n" + engine.Metrics();
  double sum = 0;
  bool found = false;
  for (size_t at = text.find("\n" + name); at != std::string::npos;
       at = text.find("\n" + name, at + 1)) {
    const char after = text[at + 1 + name.size()];
    if (after != '{' && after != ' ') continue;
    const size_t end = text.find('\n', at + 1);
    sum += std::stod(text.substr(text.rfind(' ', end) + 1));
    found = true;
  }
  return found ? sum : -1;
}

}  // namespace sluice::engine
