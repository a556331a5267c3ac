#include "server/http/wire.h"

namespace sluice::server {
namespace {

using tcp = boost::asio::ip::tcp;

class PlainWire : public Wire {
 public:
  explicit PlainWire(tcp::socket socket) : socket_(std::move(socket)) {}

  tcp::socket& socket() override { return socket_; }
  bool Handshake(std::function<void(Error)>) override { return false; }
  void ReadSome(boost::asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void WriteSome(boost::asio::const_buffer buffer, Done done) override {
    socket_.async_write_some(buffer, std::move(done));
  }
  void EndSending(std::function<void()>) override {
    Error ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

 private:
  tcp::socket socket_;
};

}  // namespace

void Wire::WriteAll(boost::asio::const_buffer buffer, Done done) {
  WriteSome(buffer, [this, buffer, done = std::move(done)](Error error, size_t bytes) mutable {
    if (error || bytes >= buffer.size()) return done(error, bytes);
    WriteAll(buffer + bytes, std::move(done));
  });
}

std::unique_ptr<Wire> MakePlainWire(tcp::socket socket) {
  return std::make_unique<PlainWire>(std::move(socket));
}

}  // namespace sluice::server
