#include "server/http/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"

namespace sluice::server {
namespace {

bool Connect(int client, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool Connected(int port) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const bool connected = Connect(client, port);
  close(client);
  return connected;
}

// Sends a request on a connection of its own and gives all that comes back.
std::string Send(int port, const std::string& request) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  std::string answer;
  if (Connect(client, port) && send(client, request.data(), request.size(), MSG_NOSIGNAL) ==
                                   static_cast<ssize_t>(request.size())) {
    char bytes[4096];
    for (ssize_t got; (got = recv(client, bytes, sizeof bytes, 0)) > 0;) {
      answer.append(bytes, static_cast<size_t>(got));
    }
  }
  close(client);
  return answer;
}

TEST(HttpServer, TellsForHowLongAWorkerHasBeenAtARequest) {
  ServerOptions options;
  options.host = "127.0.0.1";
  options.port = 0;
  options.http_threads = 2;
  HttpServer* server = nullptr;
  const auto handler = [&server](HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
    const int64_t later_us = NowMicros() + 20'000'000;
    HttpReply reply;
    reply.body = server->OldestWorkMs(later_us) >= 20'000 ? "at work" : "idle";
    EXPECT_EQ(request.path, "/any");
    exchange->Reply(std::move(reply));
  };
  const auto admit = [](HttpRequest*) { return std::optional<HttpReply>(); };
  auto opened = HttpServer::Open(options, admit, handler, [](const ExchangeRecord&) {});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  server = opened->get();
  ASSERT_TRUE(server->Run().ok());
  EXPECT_EQ(server->OldestWorkMs(NowMicros() + 20'000'000), 0);
  const std::string rest = " /any HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  EXPECT_TRUE(Send(server->port(), "GET" + rest + "\r\n").ends_with("\r\n\r\nidle"));
  const std::string body = "Content-Length: 1\r\n\r\na";
  EXPECT_TRUE(Send(server->port(), "POST" + rest + body).ends_with("\r\n\r\nat work"));
  server->Stop(0);  // joins the workers
  EXPECT_EQ(server->OldestWorkMs(NowMicros() + 20'000'000), 0);
}

// Whoever looks whether a port can be had keeps no client waiting at it.
TEST(HttpServer, APortThatIsOnlyHeldRefusesClients) {
  ServerOptions options;
  options.port = 0;
  const auto open = [](const ServerOptions& asked) {
    return HttpServer::Open(asked, nullptr, nullptr, nullptr);
  };
  auto held = open(options);
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_FALSE(Connected((*held)->port()));
  ASSERT_TRUE((*held)->Run().ok());
  EXPECT_TRUE(Connected((*held)->port()));
  options.port = (*held)->port();
  const Status taken = open(options).status();
  EXPECT_EQ(taken.code(), StatusCode::kIo);
  EXPECT_NE(taken.message().find("is in use"), std::string::npos) << taken.message();
}

}  // namespace
}  // namespace sluice::server
