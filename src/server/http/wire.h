// The bytes of one connection, as they are or within TLS. Everything runs on the strand of its
// socket, which ends no sooner than what was begun on it has called back.
#pragma once

// Boost 1.81's Asio uses std::exchange without this.
#include <utility>
// Then Asio.
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <functional>
#include <memory>

namespace sluice::server {

class Wire {
 public:
  using Error = boost::system::error_code;
  using Done = std::function<void(Error, size_t bytes)>;

  virtual ~Wire() = default;
  // Of TCP.
  virtual boost::asio::ip::tcp::socket& socket() = 0;

  // Comes before anything else where there is one. False: there is none, and nothing is called.
  // An error ends the connection; whoever spoke no TLS has been told so.
  virtual bool Handshake(std::function<void(Error)> done) = 0;
  // One read and one write at a time. The end of what the peer sends is asio::error::eof.
  virtual void ReadSome(boost::asio::mutable_buffer buffer, Done done) = 0;
  virtual void WriteSome(boost::asio::const_buffer buffer, Done done) = 0;
  // Tells the peer that nothing more comes. `kept` is destroyed when that is done.
  virtual void EndSending(std::function<void()> kept) = 0;

  // Writes all of it.
  void WriteAll(boost::asio::const_buffer buffer, Done done);
};

std::unique_ptr<Wire> MakePlainWire(boost::asio::ip::tcp::socket socket);

}  // namespace sluice::server
