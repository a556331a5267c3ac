#include "server/running_answers.h"

#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {

constexpr size_t kIdBytesMax = 256;

}  // namespace

RunningAnswers::Entry::Entry(std::shared_ptr<RunningAnswers> owner, std::string key, std::string id,
                             Act act)
    : owner_(std::move(owner)) {
  std::lock_guard lock(owner_->mutex_);
  entry_ = owner_->acts_.emplace(std::pair(std::move(key), std::move(id)), std::move(act));
}

RunningAnswers::Entry::~Entry() {
  std::lock_guard lock(owner_->mutex_);
  owner_->acts_.erase(entry_);
}

Result<std::string> RunningAnswers::Control(const std::string& key, std::string_view body) const {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  const std::optional<std::string> id = fields.String("id", kIdBytesMax);
  if (!id) fields.Missing("id", "the id of an answer that is running");
  const std::optional<std::string> action = fields.String("action", kIdBytesMax);
  if (action != "stop" && action != "end_thinking") {
    fields.WrongValue("action", "stop or end_thinking");
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_RETURN_IF_ERROR(
      Do(key, *id, action == "stop" ? AnswerAction::kStop : AnswerAction::kEndThinking).status());
  return DumpJson(OrderedJson{{"id", *id}, {"action", *action}, {"status", "ok"}});
}

Result<std::string> RunningAnswers::Do(const std::string& key, const std::string& id,
                                       AnswerAction action) const {
  std::vector<Act> acts;
  {
    std::lock_guard lock(mutex_);
    const auto [first, end] = acts_.equal_range({key, id});
    for (auto entry = first; entry != end; ++entry) acts.push_back(entry->second);
  }
  Result<std::string> done(Status(
      StatusCode::kNotFound, StrCat("no answer ", Quote(id), " of this API key is running"), "id"));
  // Without the lock: the last holder of an answer may let go of it here. One of several that has
  // ended does not hide the others.
  for (const Act& act : acts) {
    Result<std::string> one = act(action);
    if (one.ok() || one.status().code() != StatusCode::kNotFound) done = std::move(one);
  }
  return done;
}

}  // namespace sluice::server
