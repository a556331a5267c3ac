#include "engine/grammar_workers.h"

#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace sluice::engine {

GrammarWorkers::GrammarWorkers(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
                               std::vector<int32_t> end_ids,
                               std::function<void(std::shared_ptr<RequestState>)> next)
    : compiler_(std::move(tokenizer), vocab, std::move(end_ids)), next_(std::move(next)) {
  short_thread_ = std::thread([this] { RunShort(); });
  long_thread_ = std::thread([this] { RunLong(); });
}

GrammarWorkers::~GrammarWorkers() { Stop(); }

void GrammarWorkers::Start(std::shared_ptr<RequestState> request) {
  request->grammar = compiler_.Cached(request->request.grammar);
  if (request->grammar != nullptr) return next_(std::move(request));
  {
    std::lock_guard lock(mutex_);
    waiting_.Push(std::move(request));
  }
  ready_.notify_all();
}

void GrammarWorkers::Stop() {
  // The short ones first, which may hand requests to the others.
  const auto stop = [this](bool* stopping, std::thread* thread) {
    {
      std::lock_guard lock(mutex_);
      *stopping = true;
    }
    ready_.notify_all();
    if (thread->joinable()) thread->join();
  };
  stop(&stopping_, &short_thread_);
  stop(&long_stopping_, &long_thread_);
}

std::shared_ptr<RequestState> GrammarWorkers::Next(TurnQueue* waiting, const bool* stopping) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return *stopping || !waiting->empty(); });
  return waiting->empty() ? nullptr : waiting->Pop();
}

bool GrammarWorkers::Compile(RequestState* request, bool is_long) {
  if (request->cancelled) return true;
  try {
    const Grammar& grammar = request->request.grammar;
    auto compiled = is_long ? compiler_.CompileLong(grammar) : compiler_.CompileShort(grammar);
    if (!is_long && compiled.status().code() == StatusCode::kDeadlineExceeded) return false;
    if (compiled.ok()) request->grammar = *std::move(compiled);
    request->grammar_status = compiled.status();
  } catch (const std::bad_alloc& error) {
    LogError("request ", request->id, " failed: ", error.what());
    request->grammar_status =
        Status(StatusCode::kOutOfMemory, "the server had no memory for this request");
  } catch (const std::exception& error) {
    LogError("request ", request->id, " failed by a mistake of the server: ", error.what());
    request->grammar_status = Status(StatusCode::kInternal,
                                     "the server failed at this grammar by a mistake of its own; "
                                     "its log says more");
  }
  return true;
}

void GrammarWorkers::RunShort() {
  while (auto request = Next(&waiting_, &stopping_)) {
    if (Compile(request.get(), /*is_long=*/false)) {
      next_(std::move(request));
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      long_waiting_.Push(std::move(request));
    }
    ready_.notify_all();
  }
}

void GrammarWorkers::RunLong() {
  while (auto request = Next(&long_waiting_, &long_stopping_)) {
    Compile(request.get(), /*is_long=*/true);
    next_(std::move(request));
  }
}

}  // namespace sluice::engine
