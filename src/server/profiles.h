// POST /admin/profile: what the next steps of a model's engine did, as a trace that Perfetto shows.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/http/http.h"
#include "server/shared/api_call.h"
#include "server/shared/models.h"

namespace sluice::server {

// The engine's command for a body {"model": NAME, "steps": N, "seconds": S}, of which each may be
// left out.
Result<std::string> ReadProfileCommand(std::string_view body, const ModelFacts& model);

// Takes one profile at a time, on a thread of its own, since it waits for steps. Thread-safe.
class Profiles {
 public:
  Profiles() = default;
  ~Profiles();  // the profile that is being taken ends with the steps that have come
  Profiles(const Profiles&) = delete;
  Profiles& operator=(const Profiles&) = delete;

  // Answers through the exchange: with a 409 at once while another is being taken, else with the
  // trace, or with what the engine refuses the command for. The profile ends at once when the
  // client leaves; and when its model is unloaded, which Models sees to.
  void Take(const ModelUse& model, std::string command, std::shared_ptr<Exchange> exchange);

 private:
  // Waits for the profile to end by itself, or ends it where nobody waits for it any more.
  Result<std::string> TakeNow(Engine& engine, const std::string& command,
                              const std::atomic<bool>& gone) const;

  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  bool taking_ = false;  // guarded by mutex_
  std::thread thread_;   // of the last one; guarded by mutex_ but for the end
};

}  // namespace sluice::server
