#include "server/http/sse.h"

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::server {

std::string SseEvent(std::string_view json) {
  CHECK(json.find('\n') == std::string_view::npos, "an event of several lines");
  std::string event = "data: ";
  event.reserve(json.size() + 8);
  event.append(json).append("\n\n");
  return event;
}

std::string SseEvent(std::string_view name, std::string_view json) {
  return StrCat("event: ", name, "\n", SseEvent(json));
}

std::string SseDone() { return "data: [DONE]\n\n"; }

}  // namespace sluice::server
