// What happened to the requests of late calls, by the call's id (X-Request-Id), for the API key
// that made it. Bounded in bytes and age: the oldest go first. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "sluice/request.h"
#include "sluice/timeline.h"

namespace sluice::server {

inline constexpr const char* kTimelinePrefix = "/v1/requests/";

class Timelines {
 public:
  explicit Timelines(int64_t bytes_max = 16 << 20, int64_t age_us_max = int64_t{600} * 1'000'000)
      : bytes_max_(bytes_max), age_us_max_(age_us_max) {}

  // Gives requests of a call their timelines: to the first 16, as one with many texts is told well
  // enough by them. A call that has the id of an earlier one of that key takes its place.
  void Follow(const std::string& key, const std::string& id, int64_t now_us,
              std::vector<Request>* requests);

  // The answer to GET `path`, which is /v1/requests/ID/timeline. kNotFound: there is no such call
  // of that key, or it is too old.
  Result<std::string> Show(const std::string& key, std::string_view path, int64_t now_us);

  // The calls of the last minute that the engine took, newest first and at most 100: of that key,
  // or of all. Their times are milliseconds of the clock of NowMicros; 0: not yet.
  OrderedJson Recent(const std::string& key, bool all, int64_t now_us);

  int64_t bytes() const;

 private:
  using Name = std::pair<std::string, std::string>;  // key and id
  struct Call {
    std::vector<std::shared_ptr<Timeline>> timelines;
    size_t requests = 0;  // those without a timeline included
    int64_t begun_us = 0;
    int64_t bytes = 0;
    std::list<Name>::iterator place;  // in order_
  };

  // REQUIRES: mutex_ is held.
  void DropOld(int64_t now_us);
  void Drop(std::map<Name, Call>::iterator call);

  const int64_t bytes_max_, age_us_max_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<Name, Call> calls_;
  std::list<Name> order_;  // of calls_, oldest first
  int64_t bytes_ = 0;
};

}  // namespace sluice::server
