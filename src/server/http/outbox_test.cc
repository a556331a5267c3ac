#include "server/http/outbox.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

class OutboxTest : public ::testing::Test, public Outbox::Owner {
 protected:
  void FlushSoon() override { ++flushes_; }
  void CloseSoon() override { ++closes_; }

  std::atomic<bool> draining_ = false;
  int flushes_ = 0, closes_ = 0;
  Outbox outbox_{100, draining_, *this};
  std::string bytes_;
};

TEST_F(OutboxTest, AReplyIsTakenOnce) {
  const uint64_t serial = outbox_.Begin({});
  HttpReply reply;
  reply.body = "{}";
  outbox_.Reply(serial, reply);
  outbox_.Reply(serial, reply);
  EXPECT_EQ(flushes_, 1);
  EXPECT_TRUE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.ends_with("\r\n\r\n{}"));
  outbox_.Sent(bytes_.size());
  EXPECT_TRUE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.empty());
  EXPECT_TRUE(outbox_.End());
}

TEST_F(OutboxTest, AnExchangeThatIsOverChangesNothing) {
  const uint64_t first = outbox_.Begin({});
  outbox_.Reply(first, {});
  outbox_.Take(&bytes_);
  outbox_.End();
  outbox_.Begin({});
  outbox_.Reply(first, {});
  EXPECT_FALSE(outbox_.Stream(first, "x"));
  outbox_.EndStream(first, true);
  outbox_.OnDisconnect(first, [] { FAIL(); });
  EXPECT_FALSE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.empty());
}

TEST_F(OutboxTest, ASlowReaderIsClosed) {
  const uint64_t serial = outbox_.Begin({});
  const std::string piece(40, 'x');
  int accepted = 0;
  while (outbox_.Stream(serial, piece)) ++accepted;
  EXPECT_GE(accepted, 1);
  EXPECT_LE(accepted, 5);
  EXPECT_EQ(closes_, 1);
  EXPECT_FALSE(outbox_.Stream(serial, piece));
}

TEST_F(OutboxTest, AFastReaderOfLargePiecesIsNot) {
  const uint64_t serial = outbox_.Begin({});
  const std::string piece(10'000, 'x');
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(outbox_.Stream(serial, piece));
    outbox_.Take(&bytes_);
    outbox_.Sent(bytes_.size());
  }
  EXPECT_EQ(closes_, 0);
}

TEST_F(OutboxTest, TakenBytesCountUntilTheyAreSent) {
  const uint64_t serial = outbox_.Begin({});
  const std::string piece(40, 'x');
  int accepted = 0;
  while (accepted < 100 && outbox_.Stream(serial, piece)) {
    outbox_.Take(&bytes_);
    ++accepted;
  }
  EXPECT_LT(accepted, 100);
}

TEST_F(OutboxTest, TheDisconnectCallRunsOnce) {
  int calls = 0;
  const uint64_t serial = outbox_.Begin({});
  outbox_.OnDisconnect(serial, [&] { ++calls; });
  if (auto call = outbox_.Close()) call();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(outbox_.Close());
  outbox_.OnDisconnect(serial, [&] { ++calls; });  // too late to wait: at once
  EXPECT_EQ(calls, 2);
}

TEST_F(OutboxTest, AnInterimAnswerComesBeforeTheAnswer) {
  const uint64_t serial = outbox_.Begin({});
  EXPECT_TRUE(outbox_.SendInterim());
  EXPECT_TRUE(outbox_.SendInterim());  // the first is not out
  EXPECT_EQ(flushes_, 1);
  EXPECT_FALSE(outbox_.Take(&bytes_));
  EXPECT_EQ(bytes_, "HTTP/1.1 100 Continue\r\n\r\n");
  outbox_.Sent(bytes_.size());
  outbox_.Reply(serial, {});
  EXPECT_TRUE(outbox_.SendInterim());  // the answer is one
  EXPECT_TRUE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.starts_with("HTTP/1.1 200 "));
}

TEST_F(OutboxTest, AStreamNeedsNoInterimAnswer) {
  const uint64_t serial = outbox_.Begin({});
  outbox_.Stream(serial, "x");
  outbox_.Take(&bytes_);
  outbox_.Sent(bytes_.size());
  EXPECT_TRUE(outbox_.SendInterim());
  EXPECT_FALSE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.empty());
}

// As of a client that comes back behind the last event of a stream.
TEST_F(OutboxTest, AStreamWithoutAnEventHasAHead) {
  uint64_t serial = outbox_.Begin({});
  outbox_.EndStream(serial, false);
  EXPECT_TRUE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream")) << bytes_;
  EXPECT_TRUE(bytes_.ends_with("\r\n\r\n0\r\n\r\n")) << bytes_;
  EXPECT_TRUE(outbox_.End());
  serial = outbox_.Begin({});
  outbox_.EndStream(serial, true);
  outbox_.Take(&bytes_);
  EXPECT_NE(bytes_.find("\r\nConnection: close\r\n"), std::string::npos) << bytes_;
  EXPECT_FALSE(outbox_.End());
  serial = outbox_.Begin({.http_1_0 = true});
  outbox_.EndStream(serial, false);
  EXPECT_TRUE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.starts_with("HTTP/1.1 200 OK\r\n")) << bytes_;
  EXPECT_FALSE(outbox_.End());
}

TEST_F(OutboxTest, AnOldClientGetsNoInterimAnswer) {
  const uint64_t serial = outbox_.Begin({.http_1_0 = true});
  EXPECT_TRUE(outbox_.SendInterim());  // nobody would mind its end
  outbox_.OnDisconnect(serial, [] {});
  EXPECT_FALSE(outbox_.SendInterim());
  EXPECT_FALSE(outbox_.Take(&bytes_));
  EXPECT_TRUE(bytes_.empty());
  outbox_.Reply(serial, {});
  EXPECT_TRUE(outbox_.SendInterim());
}

TEST_F(OutboxTest, DrainingAndHttp10CloseTheConnection) {
  uint64_t serial = outbox_.Begin({.http_1_0 = true});
  outbox_.Stream(serial, "x");
  outbox_.EndStream(serial, false);
  EXPECT_FALSE(outbox_.End());
  serial = outbox_.Begin({});
  draining_ = true;
  outbox_.Reply(serial, {});
  EXPECT_FALSE(outbox_.End());
}

}  // namespace
}  // namespace sluice::server
