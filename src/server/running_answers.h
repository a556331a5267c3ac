// Answers that are being generated, by the ids under which clients know them, so that who asked for
// one may end it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/status.h"

namespace sluice::server {

class RunningAnswers {
 public:
  // One answer, from its beginning to the end of this object.
  class Entry {
   public:
    // `key`: stands for the API key that asked. `stop` may be called by any thread, and once more.
    Entry(std::shared_ptr<RunningAnswers> owner, std::string key, std::string id,
          std::function<void()> stop);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<RunningAnswers> owner_;
    std::multimap<std::pair<std::string, std::string>, std::function<void()>>::iterator entry_;
  };

  // Does what the body of /v1/chat/completions/control asks for, and gives the answer's body.
  // kNotFound when no answer of that id that this key asked for is running.
  Result<std::string> Control(const std::string& key, std::string_view body) const;

 private:
  mutable std::mutex mutex_;
  // By key and id, which a client may have given twice; guarded by mutex_.
  std::multimap<std::pair<std::string, std::string>, std::function<void()>> stops_;
};

}  // namespace sluice::server
