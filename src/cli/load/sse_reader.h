// Server-sent events out of the bytes of a stream, however it was cut into pieces
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::load {

class SseReader {
 public:
  // Of one event. A server's longest are those with log-probs, which nobody asks for here.
  static constexpr size_t kEventBytesMax = size_t{1} << 20;

  // Calls `on_data` with the data of each event that `bytes` end: its lines `data:`, joined by
  // newlines. Events without data, and other fields, are passed over. kTooLarge: an event of more
  // than kEventBytesMax; the reader is then of no more use.
  Status Add(std::string_view bytes, const std::function<void(std::string_view data)>& on_data);

 private:
  void EndLine(const std::function<void(std::string_view data)>& on_data);

  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false, begun_ = false;
};

}  // namespace sluice::load
