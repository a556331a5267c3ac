#include "server/profiles.h"

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "server/http/errors.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {

// Whether the client has left, or the server ends.
constexpr std::chrono::milliseconds kLookEvery{50};

}  // namespace

Result<std::string> ReadProfileCommand(std::string_view body, const ModelFacts& model) {
  OrderedJson json = OrderedJson::object();
  if (!body.empty()) {
    SLUICE_ASSIGN_OR_RETURN(json, ParseBody(body));
  }
  Fields fields(json);
  ReadModel(&fields, model);
  OrderedJson command{{"command", "profile"}};
  for (const char* name : {"steps", "seconds"}) {
    if (const OrderedJson* value = fields.Any(name)) command[name] = *value;
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return DumpJson(command);
}

Profiles::~Profiles() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
}

void Profiles::Take(const ModelUse& model, std::string command,
                    std::shared_ptr<Exchange> exchange) {
  std::lock_guard lock(mutex_);
  if (taking_) {
    return exchange->Reply(
        HttpErrorReply(409, "a profile is being taken; ask again when that has ended"));
  }
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  thread_ = std::thread([this, model, command = std::move(command), exchange] {
    HttpReply reply;
    try {
      reply = BodyReply(TakeNow(model->engine, command, *GoneFlag(*exchange)));
    } catch (const std::exception& error) {  // memory has run out
      LogError("/admin/profile failed: ", error.what());
      reply = HttpErrorReply(500, "the server failed at this request");
    }
    {
      std::lock_guard done(mutex_);
      taking_ = false;
    }
    exchange->Reply(std::move(reply));
  });
  taking_ = true;  // behind the thread's making, which may throw; it waits for this lock to end
}

Result<std::string> Profiles::TakeNow(Engine& engine, const std::string& command,
                                      const std::atomic<bool>& gone) const {
  auto taken = std::async(std::launch::async, [&] { return engine.Admin(command); });
  while (taken.wait_for(kLookEvery) != std::future_status::ready) {
    if (!gone && !ending_) continue;
    // Again and again, since the engine may not have begun with it.
    const auto told = engine.Admin(R"({"command":"profile_end"})");
    if (!told.ok()) LogWarning("a profile does not end: ", told.status().message());
  }
  return taken.get();
}

}  // namespace sluice::server
