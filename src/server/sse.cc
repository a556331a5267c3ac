#include "server/sse.h"

#include "base/check.h"

namespace sluice::server {

std::string SseEvent(std::string_view json) {
  CHECK(json.find('\n') == std::string_view::npos, "an event of several lines");
  std::string event = "data: ";
  event.reserve(json.size() + 8);
  event.append(json).append("\n\n");
  return event;
}

std::string SseDone() { return "data: [DONE]\n\n"; }

}  // namespace sluice::server
