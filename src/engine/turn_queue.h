// TurnQueue: requests that wait for a text worker. Clients take turns, so that one who sends many
// delays another by one request, not by all of them; the requests of one client keep their order.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/request_state.h"

namespace sluice::engine {

class TurnQueue {
 public:
  bool empty() const { return turns_.empty(); }

  void Push(std::shared_ptr<RequestState> request) {
    const auto [client, is_new] = waiting_.try_emplace(request->request.client);
    if (is_new) turns_.push_back(client);
    client->second.push_back(std::move(request));
  }

  // REQUIRES: !empty()
  std::shared_ptr<RequestState> Pop() {
    CHECK(!turns_.empty());
    const auto client = turns_.front();
    turns_.pop_front();
    std::shared_ptr<RequestState> request = std::move(client->second.front());
    client->second.pop_front();
    if (client->second.empty()) {
      waiting_.erase(client);
    } else {
      turns_.push_back(client);
    }
    return request;
  }

 private:
  using Waiting = std::map<std::string, std::deque<std::shared_ptr<RequestState>>>;

  Waiting waiting_;                      // by client; none is empty
  std::deque<Waiting::iterator> turns_;  // each client that waits once, the next first
};

}  // namespace sluice::engine
