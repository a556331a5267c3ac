// Answers that are being generated, by the ids under which clients know them, so that who asked for
// one may look at it, or end it or its thinking. Thread-safe.
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

enum class AnswerAction {
  kStop,         // it ends soon, as if the model had ended it
  kEndThinking,  // it thinks no more
  kShow,         // as it is now; nothing changes
  kCancel,       // it ends at once, as cancelled
};

class RunningAnswers {
 public:
  // Gives for kShow and kCancel the answer's body as it then is. kNotFound: it has ended, or has no
  // such body. May be called by any thread, and once more than the entry lives.
  using Act = std::function<Result<std::string>(AnswerAction)>;

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
  // Does it to each answer of that id, and gives what the last of them gives. kNotFound as there.
  Result<std::string> Do(const std::string& key, const std::string& id, AnswerAction action) const;

 private:
  mutable std::mutex mutex_;
  // By key and id, which a client may have given twice; guarded by mutex_.
  std::multimap<std::pair<std::string, std::string>, Act> acts_;
};

}  // namespace sluice::server
