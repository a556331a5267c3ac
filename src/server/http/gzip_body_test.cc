#include "server/http/gzip_body.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace sluice::server {
namespace {

std::string Compressed(const std::string& text, int format) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + format, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Gzip(const std::string& text) { return Compressed(text, 16); }

class GzipBodyTest : public ::testing::Test {
 protected:
  // The status of the refusal; 0: there was none.
  int Inflate(const std::string& body, const std::string& coding = "gzip") {
    request_ = {};
    request_.body = body;
    request_.content_encoding = coding;
    request_.lease = std::make_shared<BodyLease>(&budget_, "a");
    EXPECT_TRUE(request_.lease->Resize(static_cast<int64_t>(body.size())));
    const auto refusal = InflateBody(&request_, kLimit);
    return refusal ? refusal->status : 0;
  }

  static constexpr size_t kLimit = 1'000'000;
  BodyBudget budget_{8'000'000, 1'000'000};
  HttpRequest request_;
};

TEST_F(GzipBodyTest, InflatesBothCodings) {
  std::string text = "{\"a\":";
  for (int i = 0; i < 50'000; ++i) text += static_cast<char>('a' + i % 23 * i % 7);
  EXPECT_EQ(Inflate(Gzip(text)), 0);
  EXPECT_EQ(request_.body, text);
  EXPECT_GE(request_.lease->bytes(), static_cast<int64_t>(text.size()));
  EXPECT_EQ(Inflate(Gzip(text), "X-GZip"), 0);
  EXPECT_EQ(request_.body, text);
  EXPECT_EQ(Inflate(Compressed(text, 0), "deflate"), 0);
  EXPECT_EQ(request_.body, text);
  EXPECT_EQ(Inflate(Gzip("a") + Gzip("") + Gzip("b")), 0);
  EXPECT_EQ(request_.body, "ab");
}

TEST_F(GzipBodyTest, LeavesOtherBodiesAlone) {
  EXPECT_EQ(Inflate("{}", ""), 0);
  EXPECT_EQ(request_.body, "{}");
  EXPECT_EQ(Inflate("{}", "identity"), 0);
  EXPECT_EQ(Inflate("{}", "br"), 415);
  EXPECT_EQ(Inflate(Gzip(Gzip("{}")), "gzip, gzip"), 415);
}

TEST_F(GzipBodyTest, ABrokenBodyIsRefused) {
  const std::string good = Gzip("hello hello hello");
  EXPECT_EQ(Inflate(""), 400);
  EXPECT_EQ(Inflate("{}"), 400);
  EXPECT_EQ(Inflate(good.substr(0, good.size() - 1)), 400);
  EXPECT_EQ(Inflate(good + "x"), 400);
  EXPECT_EQ(Inflate(good, "deflate"), 400);
  std::string wrong_sum = good;
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  EXPECT_EQ(Inflate(wrong_sum), 400);
}

TEST_F(GzipBodyTest, ABombIsGivenUpAtTheLimit) {
  EXPECT_EQ(Inflate(Gzip(std::string(kLimit, 'a'))), 0);
  EXPECT_EQ(request_.body.size(), kLimit);
  EXPECT_EQ(Inflate(Gzip(std::string(kLimit + 1, 'a'))), 413);
  EXPECT_EQ(Inflate(Gzip(std::string(100 * kLimit, 'a'))), 413);
}

// A small body that grows counts as what it grows to, from then on.
TEST_F(GzipBodyTest, WhatItInflatesToIsLeased) {
  const std::string body = Gzip(std::string(kLimit, 'a'));
  ASSERT_EQ(Inflate(body), 0);
  EXPECT_EQ(budget_.used(), static_cast<int64_t>(kLimit));
  std::vector<HttpRequest> held;
  int refusal = 0;
  for (int i = 0; i < 100 && refusal == 0; ++i) {
    held.push_back(request_);
    refusal = Inflate(body);
  }
  EXPECT_EQ(refusal, 429);
  EXPECT_LE(budget_.used(), 8'000'000);
}

}  // namespace
}  // namespace sluice::server
