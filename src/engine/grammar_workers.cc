#include "engine/grammar_workers.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace sluice::engine {

GrammarWorkers::GrammarWorkers(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
                               std::vector<int32_t> end_ids,
                               std::function<void(std::shared_ptr<RequestState>)> next)
    : compiler_(std::move(tokenizer), vocab, std::move(end_ids)), next_(std::move(next)) {
  for (int i = 0; i < text::GrammarCompiler::kProcessesMax; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

GrammarWorkers::~GrammarWorkers() { Stop(); }

void GrammarWorkers::Start(std::shared_ptr<RequestState> request) {
  request->grammar = compiler_.Cached(request->request.grammar);
  if (request->grammar != nullptr) return next_(std::move(request));
  {
    std::lock_guard lock(mutex_);
    waiting_.Push(std::move(request));
  }
  ready_.notify_one();
}

void GrammarWorkers::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void GrammarWorkers::Run() {
  for (;;) {
    std::shared_ptr<RequestState> request;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      request = waiting_.Pop();
    }
    if (!request->cancelled) {
      try {
        auto compiled = compiler_.Compile(request->request.grammar);
        if (compiled.ok()) request->grammar = *std::move(compiled);
        request->grammar_status = compiled.status();
      } catch (const std::exception& error) {
        LogError("request ", request->id, " failed: ", error.what());
        request->grammar_status =
            Status(StatusCode::kOutOfMemory, "the server had no memory for this request");
      }
    }
    next_(std::move(request));
  }
}

}  // namespace sluice::engine
