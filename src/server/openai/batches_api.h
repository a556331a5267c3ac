// OpenAI's /v1/batches: the lines of a file, answered behind other requests, into files. What runs
// and what is done is forgotten when the server ends. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/http/http.h"
#include "server/openai/batch_lines.h"
#include "server/openai/files_api.h"
#include "server/shared/owned_store.h"
#include "sluice/status.h"

namespace sluice::server {

inline constexpr const char* kBatchPrefix = "/v1/batches/";

class Batches {
 public:
  // Lines are sent by `send`. Both outlive it.
  Batches(FileStore* files, LineRunner::Send send);
  ~Batches();  // ends what runs
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  HttpReply Create(const HttpRequest& request);
  HttpReply List(const HttpRequest& request);
  // Of /v1/batches/ID.
  HttpReply Find(const HttpRequest& request);
  // Of /v1/batches/ID/cancel.
  HttpReply Cancel(const HttpRequest& request);

 private:
  // One batch. Its own functions lock.
  class Batch;
  // What is wrong with a line, counted from 1; with 0, with the whole.
  struct LineError {
    int64_t line;
    Status status;
  };
  struct Kept {
    std::shared_ptr<Batch> batch;
    int64_t bytes() const;
  };

  // Batches at once, each of another key.
  static constexpr int kThreads = 4;
  static constexpr size_t kQueueMax = 256;

  void Work();
  void Run(Batch* batch);
  // The lines of the batch's file, which is looked up now: files that wait are not kept for it.
  std::vector<LineError> ReadLines(const Batch& batch, std::vector<BatchLine>* lines) const;
  void Keep(const std::string& content, const char* suffix, Batch* batch, std::string* id);

  FileStore* const files_;
  const LineRunner::Send send_;
  OwnedStore<Kept> kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> queue_;  // oldest first; guarded by mutex_
  std::set<std::string> owners_;              // of those that run; guarded by mutex_
  bool stopping_ = false;                     // guarded by mutex_
  std::vector<std::thread> threads_;          // started with the first batch; guarded by mutex_
};

}  // namespace sluice::server
