#include "server/http/header_rules.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

using Fields = std::vector<HeaderField>;

// The status that a request with these fields beside Host gets; 0: it is served.
int StatusOf(Fields fields, bool http_1_0 = false) {
  fields.push_back({"Host", "localhost"});
  const auto fault = CheckHeader({"POST", "/tokenize", http_1_0, std::move(fields)});
  EXPECT_TRUE(!fault || !fault->message.empty());
  return fault ? fault->status : 0;
}

int StatusOfHost(const char* method, const char* target, Fields fields, bool http_1_0 = false) {
  const auto fault = CheckHeader({method, target, http_1_0, std::move(fields)});
  return fault ? fault->status : 0;
}

TEST(HeaderRulesTest, OneChunkedAloneIsTheOnlyTransferEncoding) {
  EXPECT_EQ(StatusOf({{"Transfer-Encoding", "chunked"}}), 0);
  EXPECT_EQ(StatusOf({{"tRANSFER-eNCODING", "CHUNKED"}}), 0);
  for (const char* coding : {"gzip", "Identity", "deflate", "x-compress", "xchunked"}) {
    EXPECT_EQ(StatusOf({{"Transfer-Encoding", coding}}), 501) << coding;
  }
  for (const char* coding :
       {"", ",", "chunked,", ",chunked", "chunked, identity", "identity, chunked", "gzip, chunked",
        "chunked, chunked", "chunked;a=b", "\"chunked\"", "chunked x", "chun ked", "chunked\v"}) {
    EXPECT_EQ(StatusOf({{"Transfer-Encoding", coding}}), 400) << coding;
  }
  EXPECT_EQ(StatusOf({{"Transfer-Encoding", "chunked"}, {"transfer-encoding", "chunked"}}), 400);
  EXPECT_EQ(StatusOf({{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "identity"}}), 400);
  EXPECT_EQ(StatusOf({{"Transfer-Encoding", "chunked"}}, true), 400) << "in HTTP/1.0";
}

TEST(HeaderRulesTest, AFoldedLineIsRefused) {
  EXPECT_EQ(CheckHeader({"GET", "/", false, {{"Host", "localhost"}}, true})->status, 400);
  for (const char* lines : {"a: b\r\n c\r\n", "a: b\r\n\tc: d\r\n", "\r\n \r\n", "a\r\nb\r\n "}) {
    EXPECT_TRUE(HasFoldedLine(lines)) << lines;
  }
  for (const char* lines : {"", " a", "a: b\r\nc: d\r\n", "a: b \r\n\r\n", "a\n b", "a\r b"}) {
    EXPECT_FALSE(HasFoldedLine(lines)) << lines;
  }
}

TEST(HeaderRulesTest, TransferEncodingAndContentLengthExcludeEachOther) {
  for (const char* coding : {"chunked", "identity", "gzip", ""}) {
    EXPECT_EQ(StatusOf({{"Content-Length", "5"}, {"Transfer-Encoding", coding}}), 400) << coding;
    EXPECT_EQ(StatusOf({{"Transfer-Encoding", coding}, {"Content-Length", "5"}}), 400) << coding;
  }
}

TEST(HeaderRulesTest, ContentLengthIsOneDecimalNumber) {
  EXPECT_EQ(StatusOf({{"Content-Length", "0"}}), 0);
  EXPECT_EQ(StatusOf({{"content-length", "0012"}}), 0);
  for (const char* length :
       {"", "+5", "-5", "5, 5", "5,", "5 5", "0x5", "5.0", "5e0", "\xef\xbc\x95"}) {
    EXPECT_EQ(StatusOf({{"Content-Length", length}}), 400) << length;
  }
  EXPECT_EQ(StatusOf({{"Content-Length", "5"}, {"Content-Length", "5"}}), 400);
}

TEST(HeaderRulesTest, AFieldThatIsUsedStandsOnce) {
  for (const char* name : {"Authorization", "X-API-Key", "Origin", "Content-Type", "Expect"}) {
    EXPECT_EQ(StatusOf({{name, "a"}}), 0) << name;
    EXPECT_EQ(StatusOf({{name, "a"}, {name, "a"}}), 400) << name;
  }
  EXPECT_EQ(StatusOf({{"Accept", "a"}, {"Accept", "b"}}), 0);
}

TEST(HeaderRulesTest, HostStandsOnceAndIsAHost) {
  EXPECT_EQ(StatusOfHost("GET", "/", {{"host", "localhost:8000"}}), 0);
  EXPECT_EQ(StatusOfHost("GET", "/", {}), 400);
  EXPECT_EQ(StatusOfHost("GET", "/", {}, true), 0) << "HTTP/1.0 has no Host";
  EXPECT_EQ(StatusOfHost("GET", "/", {{"Host", "a"}, {"Host", "a"}}), 400);
  EXPECT_EQ(StatusOfHost("GET", "/", {{"Host", "a"}, {"Host", "a"}}, true), 400);
  for (const char* host : {"", "a b", "a, b", "user@a", "a/b", "a:99999"}) {
    EXPECT_EQ(StatusOfHost("GET", "/", {{"Host", host}}), 400) << host;
  }
}

TEST(HeaderRulesTest, ATargetIsAPathOrAnHttpUrl) {
  const auto status = [](const char* method, const char* target) {
    return StatusOfHost(method, target, {{"Host", "localhost"}});
  };
  EXPECT_EQ(status("GET", "/v1/models?a=b"), 0);
  EXPECT_EQ(status("GET", "http://localhost:8000/v1/models"), 0);
  EXPECT_EQ(status("OPTIONS", "*"), 0);
  EXPECT_EQ(status("GET", "*"), 400);
  EXPECT_EQ(status("CONNECT", "localhost:80"), 400);
  EXPECT_EQ(status("GET", "v1/models"), 400);
  EXPECT_EQ(status("GET", "ftp://localhost/"), 400);
  EXPECT_EQ(status("GET", "http:///v1/models"), 400);
  EXPECT_EQ(status("GET", "http://user@localhost/"), 400);
}

}  // namespace
}  // namespace sluice::server
