// What an answer looks like on the wire. Pure functions.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace sluice::server {

// The type of a stream that has no other.
inline constexpr const char* kEventStream = "text/event-stream; charset=utf-8";

// What of the request shapes its answer.
struct ReplyHead {
  bool keep_alive = true;
  bool http_1_0 = false;  // knows no chunks: the end of the connection ends a stream
  bool head = false;      // HEAD: headers alone
  std::string fields;     // header lines that it has whatever it says, each with its end
  const char* stream_type = kEventStream;
};

// The header line Date (RFC 9110, 6.6.1) of that moment, with its end.
std::string DateField(std::time_t moment);

std::string ReplyBytes(const ReplyHead& head, const HttpReply& reply);

// A stream: its header, a piece of it, and its end.
std::string StreamHead(const ReplyHead& head);
std::string StreamPiece(const ReplyHead& head, std::string_view bytes);
std::string StreamEnd(const ReplyHead& head);

}  // namespace sluice::server
