#include "server/http/reply_bytes.h"

#include <cstdio>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Internal Server Error";
  }
}

std::string Connection(const ReplyHead& head) {
  return head.keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
}

}  // namespace

std::string DateField(std::time_t moment) {
  std::tm utc{};
  gmtime_r(&moment, &utc);
  char text[64];
  // The program never leaves the locale "C", so days and months are English.
  const size_t bytes =
      std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
  return std::string(text, bytes);
}

std::string ReplyBytes(const ReplyHead& head, const HttpReply& reply) {
  std::string bytes =
      StrCat("HTTP/1.1 ", reply.status, " ", Reason(reply.status),
             "\r\nContent-Type: ", reply.content_type, "\r\nContent-Length: ", reply.body.size(),
             "\r\nX-Content-Type-Options: nosniff\r\n", head.fields, Connection(head));
  for (const auto& [name, value] : reply.headers) bytes += StrCat(name, ": ", value, "\r\n");
  bytes += "\r\n";
  if (!head.head) bytes += reply.body;
  return bytes;
}

std::string StreamHead(const ReplyHead& head) {
  return StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", head.stream_type, "\r\n",
                "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n", head.fields,
                head.http_1_0 ? "" : "Transfer-Encoding: chunked\r\n",
                head.http_1_0 ? "Connection: close\r\n" : Connection(head), "\r\n");
}

std::string StreamPiece(const ReplyHead& head, std::string_view bytes) {
  if (head.http_1_0) return std::string(bytes);
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return StrCat(size, bytes, "\r\n");
}

std::string StreamEnd(const ReplyHead& head) { return head.http_1_0 ? "" : "0\r\n\r\n"; }

}  // namespace sluice::server
