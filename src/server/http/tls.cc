#include "server/http/tls.h"

#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

#include "base/regular_file.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::server {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using tcp = asio::ip::tcp;

constexpr size_t kFileBytesMax = 1 << 20;

// For a client that speaks HTTP without TLS.
constexpr std::string_view kPlainRefusal =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Content-Length: 149\r\n\r\n"
    R"({"error":{"message":"this port speaks HTTPS and the request came without TLS; )"
    R"(use https://","type":"invalid_request_error","param":null,"code":null}})";

bool IsPlainHttp(const Wire::Error& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

class TlsWire : public Wire {
 public:
  TlsWire(tcp::socket socket, ssl::context& context) : stream_(std::move(socket), context) {}

  tcp::socket& socket() override { return stream_.next_layer(); }

  bool Handshake(std::function<void(Error)> done) override {
    stream_.async_handshake(ssl::stream_base::server,
                            [this, done = std::move(done)](Error error) mutable {
                              if (!IsPlainHttp(error)) return done(error);
                              RefusePlain(error, std::move(done));
                            });
    return true;
  }
  void ReadSome(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(buffer, [done = std::move(done)](Error error, size_t bytes) {
      // Where a body ends, its framing tells; so a peer that leaves without goodbye is one that
      // has ended.
      done(error == ssl::error::stream_truncated ? Error(asio::error::eof) : error, bytes);
    });
  }
  void WriteSome(asio::const_buffer buffer, Done done) override {
    stream_.async_write_some(buffer, std::move(done));
  }
  void EndSending(std::function<void()> kept) override {
    stream_.async_shutdown([kept = std::move(kept)](Error) {});
  }

 private:
  void RefusePlain(Error error, std::function<void(Error)> done) {
    asio::async_write(socket(), asio::buffer(kPlainRefusal),
                      [error, done = std::move(done)](Error, size_t) { done(error); });
  }

  ssl::stream<tcp::socket> stream_;
};

class TlsImpl : public Tls {
 public:
  Status Use(const std::string& cert_file, const std::string& key_file);
  std::unique_ptr<Wire> Wrap(tcp::socket socket) const override {
    return std::make_unique<TlsWire>(std::move(socket), context_);
  }

 private:
  // Asio takes it without const to make a stream, and only reads it.
  mutable ssl::context context_{ssl::context::tls_server};
};

Status CheckFile(const std::string& file, const char* flag) {
  const auto text = ReadRegularFile(file, kFileBytesMax);
  if (text.ok()) return OkStatus();
  return InvalidArgument(
      StrCat("the file of --", flag, " cannot be read: ", text.status().message()), flag);
}

Status TlsImpl::Use(const std::string& cert_file, const std::string& key_file) {
  SLUICE_RETURN_IF_ERROR(CheckFile(cert_file, "tls-cert"));
  SLUICE_RETURN_IF_ERROR(CheckFile(key_file, "tls-key"));
  SSL_CTX* const context = context_.native_handle();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  // Else OpenSSL would ask the terminal for a passphrase.
  Wire::Error error;
  context_.set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context_.use_certificate_chain_file(cert_file, error);
  if (error) {
    return InvalidArgument(StrCat("the file of --tls-cert, ", Quote(cert_file),
                                  ", holds no certificate in PEM form: ", error.message()),
                           "tls-cert");
  }
  context_.use_private_key_file(key_file, ssl::context::pem, error);
  if (error &&
      ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH) {
    return InvalidArgument(
        StrCat("the key of --tls-key, ", Quote(key_file), ", is not that of the certificate in ",
               Quote(cert_file), "; name the two that belong together"),
        "tls-key");
  }
  if (error) {
    return InvalidArgument(
        StrCat("the file of --tls-key, ", Quote(key_file),
               ", holds no private key in PEM form without a passphrase: ", error.message()),
        "tls-key");
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<const Tls>> Tls::Load(const std::string& cert_file,
                                             const std::string& key_file) {
  auto tls = std::make_shared<TlsImpl>();
  SLUICE_RETURN_IF_ERROR(tls->Use(cert_file, key_file));
  return std::shared_ptr<const Tls>(std::move(tls));
}

}  // namespace sluice::server
