#include "server/shared/answer.h"

#include <algorithm>

namespace sluice::server {

Status CancelledByServer() {
  return {StatusCode::kCancelled,
          "the server cancelled the request: it shuts down, or the model is unloaded"};
}

void AddDraftNotes(const Usage& usage, OrderedJson* json) {
  if (usage.synthetic_acceptance > 0.0)
    (*json)["synthetic_acceptance"] = usage.synthetic_acceptance;
  if (usage.verified_by_rejection) (*json)["verified_by_rejection"] = true;
}

std::string StopStringOf(const ApiCall& call, const std::string& match) {
  const std::vector<std::string>& stops = call.requests.front().stop;
  return std::find(stops.begin(), stops.end(), match) == stops.end() ? std::string() : match;
}

}  // namespace sluice::server
