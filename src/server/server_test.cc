#include "sluice/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/str_cat.h"
#include "server/fake_engine.h"

namespace sluice::server {
namespace {

// Far more turns than a server needs to see that its client has left.
constexpr int64_t kTurnsMax = 1ll << 26;

struct TextCall {
  const char* path;
  const char* body;
};
constexpr TextCall kTextCalls[] = {
    {"/tokenize", R"({"content":"AB"})"},
    {"/detokenize", R"({"tokens":[65,66]})"},
    {"/apply-template", R"({"messages":[{"role":"user","content":"hi"}]})"},
};

// A connection of its own, on which a request was sent; its end is the client's leaving.
class Client {
 public:
  Client(int port, const TextCall& call) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string body = call.body;
    const std::string request =
        StrCat("POST ", call.path, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json",
               "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(socket_, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
  }
  ~Client() { close(socket_); }

 private:
  const int socket_;
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.on_text = [this](const std::atomic<bool>& given_up) { WorkOn(given_up); };
    ServerOptions options;
    options.port = 0;
    auto started = Server::Start(engine_, options);
    ASSERT_TRUE(started.ok()) << started.status().message();
    server_ = std::move(started).value();
  }

  // Goes on until it is given up, but not for ever, so that a defect fails a test.
  void WorkOn(const std::atomic<bool>& given_up) {
    Count(&begun_);
    int64_t turns = 0;
    for (; turns < kTurnsMax && !given_up; ++turns) std::this_thread::yield();
    if (turns < kTurnsMax) ++given_up_;
    Count(&ended_);
  }
  static void Count(std::atomic<int>* count) {
    ++*count;
    count->notify_one();
  }

  FakeEngine engine_;
  std::atomic<int> begun_ = 0, given_up_ = 0, ended_ = 0;  // pieces of text work
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, TextWorkEndsWhenItsClientLeaves) {
  int pieces = 0;
  for (const TextCall& call : kTextCalls) {
    {
      const Client client(server_->port(), call);
      begun_.wait(pieces);
    }
    ended_.wait(pieces);
    EXPECT_EQ(given_up_, ++pieces) << call.path;
  }
}

TEST_F(ServerTest, TextWorkEndsWhenTheServerStops) {
  const Client client(server_->port(), kTextCalls[0]);
  begun_.wait(0);
  server_->Stop(0);
  EXPECT_EQ(given_up_, 1);
}

}  // namespace
}  // namespace sluice::server
