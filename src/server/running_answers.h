// Answers that are being generated, by the ids under which clients know them, so that who asked for
// one may end it or its thinking. Thread-safe.
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

enum class AnswerAction { kStop, kEndThinking };

class RunningAnswers {
 public:
  // May be called by any thread, and once more than the entry lives.
  using Act = std::function<Status(AnswerAction)>;

  // One answer, from its beginning to the end of this object.
  class Entry {
   public:
    // `key`: stands for the API key that asked.
    Entry(std::shared_ptr<RunningAnswers> owner, std::string key, std::string id, Act act);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<RunningAnswers> owner_;
    std::multimap<std::pair<std::string, std::string>, Act>::iterator entry_;
  };

  // Does what the body of /v1/chat/completions/control asks for, and gives the answer's body.
  // kNotFound when no answer of that id that this key asked for is running.
  Result<std::string> Control(const std::string& key, std::string_view body) const;

 private:
  mutable std::mutex mutex_;
  // By key and id, which a client may have given twice; guarded by mutex_.
  std::multimap<std::pair<std::string, std::string>, Act> acts_;
};

}  // namespace sluice::server
