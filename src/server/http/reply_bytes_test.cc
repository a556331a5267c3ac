#include "server/http/reply_bytes.h"

#include <gtest/gtest.h>

#include "server/http/sse.h"

namespace sluice::server {
namespace {

TEST(ReplyBytesTest, WritesHeaderAndBody) {
  HttpReply reply;
  reply.status = 429;
  reply.body = "{}";
  reply.headers.emplace_back("Retry-After", "1");
  EXPECT_EQ(ReplyBytes({.keep_alive = true}, reply),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nX-Content-Type-Options: nosniff\r\n"
            "Connection: keep-alive\r\nRetry-After: 1\r\n\r\n{}");
}

TEST(ReplyBytesTest, HeadHasTheLengthAlone) {
  HttpReply reply;
  reply.body = "abc";
  const std::string bytes = ReplyBytes({.keep_alive = false, .head = true}, reply);
  EXPECT_NE(bytes.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_NE(bytes.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n"));
}

TEST(ReplyBytesTest, StreamsInChunksButForHttp10) {
  const std::string event = SseEvent("{\"a\":1}");
  EXPECT_EQ(event, "data: {\"a\":1}\n\n");
  EXPECT_EQ(StreamPiece({}, event), "f\r\ndata: {\"a\":1}\n\n\r\n");
  EXPECT_EQ(StreamEnd({}), "0\r\n\r\n");
  EXPECT_NE(StreamHead({}).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  const ReplyHead old{.keep_alive = false, .http_1_0 = true};
  EXPECT_EQ(StreamPiece(old, event), event);
  EXPECT_EQ(StreamEnd(old), "");
  EXPECT_EQ(StreamHead(old).find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(StreamHead({}).find("Content-Type: text/event-stream; charset=utf-8\r\n"),
            std::string::npos);
  const ReplyHead lines{.stream_type = "application/x-ndjson"};
  EXPECT_NE(StreamHead(lines).find("Content-Type: application/x-ndjson\r\n"), std::string::npos);
  EXPECT_EQ(SseEvent("ping", "{}"), "event: ping\ndata: {}\n\n");
  EXPECT_EQ(SseDone(), "data: [DONE]\n\n");
}

}  // namespace
}  // namespace sluice::server
