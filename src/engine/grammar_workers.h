// GrammarWorkers: threads on which requests with a grammar wait until it is compiled, before they
// go to a text worker, which has the streams of others to mind. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/request_state.h"
#include "engine/turn_queue.h"
#include "text/grammar.h"

namespace sluice::engine {

class GrammarWorkers {
 public:
  // `next` takes a request on: its grammar is compiled, or its grammar_status says why not. It is
  // called in Start, for a grammar that is known, or on a thread of these.
  GrammarWorkers(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
                 std::vector<int32_t> end_ids,
                 std::function<void(std::shared_ptr<RequestState>)> next);
  ~GrammarWorkers();  // Stop
  GrammarWorkers(const GrammarWorkers&) = delete;
  GrammarWorkers& operator=(const GrammarWorkers&) = delete;

  // REQUIRES: the request has a grammar
  void Start(std::shared_ptr<RequestState> request);
  // Hands on what waits; those that are cancelled are not compiled. Ends the threads.
  void Stop();

 private:
  void RunShort();
  void RunLong();
  // The next of `waiting`; null: there is none, and no more will come.
  std::shared_ptr<RequestState> Next(TurnQueue* waiting, const bool* stopping);
  // False: it takes longer than a short compile.
  bool Compile(RequestState* request, bool is_long);

  text::GrammarCompiler compiler_;
  const std::function<void(std::shared_ptr<RequestState>)> next_;
  std::mutex mutex_;
  std::condition_variable ready_;
  // Requests, and those whose grammar takes longer than a short compile; guarded by mutex_
  TurnQueue waiting_, long_waiting_;
  bool stopping_ = false, long_stopping_ = false;  // guarded by mutex_
  std::thread short_thread_, long_thread_;
};

}  // namespace sluice::engine
