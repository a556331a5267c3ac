// A server's certificate and key, and connections within TLS. Only tls.cc includes Asio's SSL,
// which takes long to compile. Const after Load; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "server/http/wire.h"
#include "sluice/status.h"

namespace sluice::server {

class Tls {
 public:
  virtual ~Tls() = default;

  // Both are PEM files. TLS 1.2 and later. kInvalidArgument, with the flag as its field: a file
  // cannot be read or is not what it should be, a key has a passphrase or is another certificate's.
  static Result<std::shared_ptr<const Tls>> Load(const std::string& cert_file,
                                                 const std::string& key_file);

  // A connection that has been accepted, to be served within TLS. This must outlive it.
  virtual std::unique_ptr<Wire> Wrap(boost::asio::ip::tcp::socket socket) const = 0;
};

}  // namespace sluice::server
