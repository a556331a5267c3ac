#include "text/string_formats.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

class StringFormatsTest : public ::testing::Test {
 protected:
  void Expect(std::string_view format, std::initializer_list<const char*> good,
              std::initializer_list<const char*> bad) {
    SCOPED_TRACE(format);
    const auto compiled = compiler_.Compile(
        {Grammar::Kind::kJsonSchema, StrCat(R"({"type":"string","format":")", format, "\"}")});
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    for (const char* text : good) {
      EXPECT_TRUE(Fits(**compiled, vocab_, StrCat("\"", text, "\""))) << text;
    }
    for (const char* text : bad) {
      EXPECT_FALSE(Fits(**compiled, vocab_, StrCat("\"", text, "\""))) << text;
    }
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer({"//", "\":", "com"});
  const int vocab_ = tokenizer_->vocab_size();
  GrammarCompiler compiler_{tokenizer_, vocab_, {kEndOfAnswer}};
};

// Examples of RFC 3986, section 1.1.2 and 5.4, but for addresses in brackets.
TEST_F(StringFormatsTest, UrisHaveASchemeAndReferencesMayHaveOne) {
  const auto uris = {"ftp://ftp.is.co.za/rfc/rfc1808.txt",
                     "http://www.ietf.org/rfc/rfc2396.txt",
                     "mailto:John.Doe@example.com",
                     "news:comp.infosystems.www.servers.unix",
                     "tel:+1-816-555-1212",
                     "telnet://192.0.2.16:80/",
                     "a:",
                     "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
                     "http://a@b:8/c//d/%20?e=f/?#g?",
                     "file:///etc/x"};
  const auto wrong = {"http://a b", "http://a/%2", "http://a#b#c", "a:<b>", "a:\\b", "1a:b\"c"};
  const auto relative = {"", "g", "./g", "../../g", "//g", "/g/", "?y", "g?y/./x#s/../x", "g;x=1"};
  Expect("uri", uris, wrong);
  Expect("uri", {}, relative);
  Expect("uri-reference", uris, wrong);
  Expect("uri-reference", relative, {"1a:b"});
}

// Examples of RFC 6570, section 1.2.
TEST_F(StringFormatsTest, TemplatesHaveExpressionsInBraces) {
  Expect(
      "uri-template",
      {"", "http://example.com/~{username}/", "{+path}/here", "map?{x,y}", "{/var:1,var}",
       "{?x,y,empty}", "{&list*}", "{#path:6}here", "{a.b_c.%20}", "50%25"},
      {"{", "}", "{}", "{a", "{a:0}", "{a:12345}", "{a,}", "{+}", "{a..b}", "50%", "a b", "<a>"});
}

TEST_F(StringFormatsTest, OthersAreTheLibrarys) {
  EXPECT_EQ(FormatRegex("date"), "");
  Expect("date", {"2026-11-28"}, {"2026-13-28", "28.11.2026"});
}

}  // namespace
}  // namespace sluice::text
