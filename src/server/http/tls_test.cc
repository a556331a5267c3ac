#include "server/http/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/source_dir_fixture.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = SourceDir() + "/tests/golden/tls/";

Status Load(const std::string& cert, const std::string& key) {
  return Tls::Load(kFolder + cert, kFolder + key).status();
}

TEST(TlsTest, TakesACertificateWithItsKey) {
  const Status status = Load("localhost.crt", "localhost.key");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(TlsTest, SaysWhatIsWrongWithAFile) {
  struct Wrong {
    const char *cert, *key, *field, *said;
  };
  for (const Wrong& wrong : {
           Wrong{"none.crt", "localhost.key", "tls-cert", "cannot be read"},
           Wrong{"localhost.crt", "none.key", "tls-key", "cannot be read"},
           Wrong{"localhost.key", "localhost.key", "tls-cert", "holds no certificate in PEM form"},
           Wrong{"localhost.crt", "localhost.crt", "tls-key", "holds no private key in PEM form"},
           Wrong{"localhost.crt", "passphrase.key", "tls-key", "without a passphrase"},
           Wrong{"localhost.crt", "other.key", "tls-key", "is not that of the certificate"},
           Wrong{".", "localhost.key", "tls-cert", "cannot be read"},
       }) {
    const Status status = Load(wrong.cert, wrong.key);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong.cert << " " << wrong.key;
    EXPECT_EQ(status.field(), wrong.field);
    EXPECT_THAT(status.message(), HasSubstr(wrong.said));
    EXPECT_THAT(status.message(), HasSubstr(kFolder));
  }
}

}  // namespace
}  // namespace sluice::server
