// TextWorkers: threads that turn prompts into sequences and drawn tokens into events, off the step
// thread. A request stays with one worker, so its events come in order. Submit and Post are
// thread-safe; sinks are called on the worker.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/metrics.h"
#include "engine/request_state.h"
#include "engine/text_model.h"

namespace sluice::engine {

// What the workers need to know of the engine, and how they answer it. The functions are called on
// workers and must not block.
struct TextContext {
  const TextModelImpl* text = nullptr;
  Metrics* metrics = nullptr;
  files::GenerationDefaults defaults;
  std::vector<int32_t> end_ids;  // end of generation
  DType kv_dtype = DType::kF16;  // part of the prefix key
  bool prefix_cache = true;
  int max_model_len = 0;
  int longest_sequence = 0;  // that the KV cache holds
  // Hands the sequences of a tokenized request to the step thread; false when that has stopped.
  std::function<bool(std::shared_ptr<RequestState>, std::vector<schedule::SequenceSpec>)> add;
  // A stop string ended the choice.
  std::function<void(std::shared_ptr<RequestState>, int choice)> stop;
  // The last event of the request was delivered.
  std::function<void(RequestId)> ended;
};

class TextWorkers {
 public:
  TextWorkers(int threads, TextContext context);
  ~TextWorkers();  // Stop
  TextWorkers(const TextWorkers&) = delete;
  TextWorkers& operator=(const TextWorkers&) = delete;

  // Tokenizes the prompt and goes on from there.
  void Start(std::shared_ptr<RequestState> request);
  // Delivers updates, all of one step. Waits while a worker is far behind (kBacklogMax).
  void Post(std::vector<ChoiceUpdate> updates);
  // Finishes what is queued and ends the threads.
  void Stop();

 private:
  static constexpr size_t kBacklogMax = 65536;

  struct Task {
    std::shared_ptr<RequestState> start;  // or
    ChoiceUpdate update;
  };
  struct Worker {
    std::mutex mutex;
    std::condition_variable ready, drained;
    std::vector<Task> tasks;  // guarded by mutex
    bool stopping = false;    // guarded by mutex
    std::thread thread;
  };

  Worker& WorkerOf(RequestId id) { return *workers_[id % workers_.size()]; }
  void Run(Worker* worker);
  void Do(const Task& task);
  void Abandon(const std::shared_ptr<RequestState>& request);
  void Ended(RequestState* request);
  void Begin(const std::shared_ptr<RequestState>& request);
  void EndUnstarted(const std::shared_ptr<RequestState>& request, const Status& status);
  Result<std::vector<schedule::SequenceSpec>> MakeSequences(RequestState* request) const;
  void Apply(const ChoiceUpdate& update);
  void TakeScores(const ChoiceUpdate& update, RequestState* request) const;
  void TakeTokens(const ChoiceUpdate& update, ChoiceState* choice, TextDelta* delta) const;
  void FinishChoice(const ChoiceUpdate& update, ChoiceState* choice, TextDelta* delta);
  void EndRequest(RequestState* request, TextDelta* delta, int64_t now_us) const;
  TokenInfo InfoOf(const batch::ResultToken& token, const std::vector<batch::TokenLogprob>& top,
                   bool with_logprob) const;

  const TextContext context_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::engine
