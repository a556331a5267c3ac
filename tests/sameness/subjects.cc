#include "subjects.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <random>

namespace sluice::sameness {

namespace {

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// An entry that only one of the lists has differs; same(i) judges those that both have.
template <class Same>
Difference CompareLists(size_t expected, size_t actual, const Same& same) {
  Difference difference;
  difference.tokens = static_cast<int64_t>(std::max(expected, actual));
  for (size_t i = 0; i < std::max(expected, actual); ++i) {
    if (i >= expected || i >= actual || !same(i)) ++difference.differing;
  }
  return difference;
}

}  // namespace

std::vector<Request> MakeSubjects(int count, int prompt_max, int answer_max, int vocab,
                                  uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  // Ids of special tokens stand at either end of most vocabularies.
  auto token = [&] { return vocab / 16 + below(vocab - vocab / 8); };
  std::vector<int32_t> common(prompt_max);
  for (int32_t& id : common) id = token();
  std::vector<Request> subjects;
  for (int i = 0; i < count; ++i) {
    Request request;
    std::vector<int32_t> prompt(1 + below(i % 4 == 0 ? prompt_max : std::min(prompt_max, 100)));
    for (int32_t& id : prompt) id = token();
    if (i % 3 == 0) std::copy_n(common.begin(), prompt.size() / 2, prompt.begin());
    // Repeats itself, and a long answer that goes on with it finds drafts.
    const size_t period = i % 6 == 4 ? 1 + prompt.size() / 4 : prompt.size();
    for (size_t at = period; at < prompt.size(); ++at) prompt[at] = prompt[at - period];
    request.prompt = std::move(prompt);
    request.max_tokens = i % 6 == 4 ? 2 * answer_max : 1 + below(answer_max);
    request.ignore_eos = true;
    request.logprobs = 0;
    if (i % 5 == 1) request.prompt_logprobs = 0;
    request.sampling.seed = random();
    request.sampling.temperature = i % 2 == 0 ? 0.0 : 0.9;
    if (i % 7 == 1) request.sampling.top_p = 0.9;
    if (i % 7 == 3) request.sampling.top_k = 20;
    if (i % 7 == 5) request.sampling.repetition_penalty = 1.2;
    if (i % 7 == 5) request.sampling.presence_penalty = 0.5;
    if (i % 11 == 5) request.n = 2;
    subjects.push_back(std::move(request));
  }
  return subjects;
}

struct Pending::State {
  std::mutex mutex;
  std::condition_variable changed;
  Outcome outcome;
  bool done = false;
};

Pending Pending::Submit(Engine& engine, Request request) {
  Pending pending;
  pending.state_ = std::make_shared<State>();
  pending.state_->outcome.choices.resize(request.n);
  const auto id = engine.Submit(std::move(request), [state = pending.state_](TextDelta&& delta) {
    const std::lock_guard<std::mutex> lock(state->mutex);
    Outcome& outcome = state->outcome;
    for (size_t i = 1; i < delta.prompt_tokens.size(); ++i) {
      outcome.prompt.push_back(delta.prompt_tokens[i].logprob.value_or(1));
    }
    if (!delta.error.ok()) outcome.error = delta.error;
    if (delta.choice < static_cast<int>(outcome.choices.size())) {
      Outcome::Choice& choice = outcome.choices[delta.choice];
      for (const TokenInfo& token : delta.tokens) {
        choice.tokens.push_back(token.id);
        choice.logprobs.push_back(token.logprob.value_or(1));
      }
      if (delta.finish != FinishReason::kNone) choice.finish = delta.finish;
    }
    if (delta.last) {
      state->done = true;
      state->changed.notify_all();
    }
  });
  if (id.ok()) {
    pending.id_ = *id;
  } else {
    pending.state_->outcome.error = id.status();
    pending.state_->done = true;
  }
  return pending;
}

const Outcome& Pending::Wait() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  return state_->outcome;
}

Difference Compare(const Outcome& expected, const Outcome& actual) {
  Difference sum = CompareLists(expected.prompt.size(), actual.prompt.size(), [&](size_t i) {
    return SameBits(expected.prompt[i], actual.prompt[i]);
  });
  if (!actual.error.ok()) ++sum.differing;
  for (size_t c = 0; c < expected.choices.size(); ++c) {
    const Outcome::Choice& a = expected.choices[c];
    const Outcome::Choice& b = actual.choices[c];
    const Difference one = CompareLists(a.tokens.size(), b.tokens.size(), [&](size_t i) {
      return a.tokens[i] == b.tokens[i] && SameBits(a.logprobs[i], b.logprobs[i]);
    });
    sum.tokens += one.tokens;
    sum.differing += one.differing + (a.finish != b.finish);
  }
  return sum;
}

}  // namespace sluice::sameness
