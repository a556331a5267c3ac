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
    const auto compiled = text::Compile(
        {Grammar::Kind::kJsonSchema, StrCat(R"({"type":"string","format":")", format, "\"}")},
        &compiler_);
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

// RFC 3339: each day is one of its month and year.
TEST_F(StringFormatsTest, DatesAndTimesAreThoseOfTheCalendar) {
  Expect("date",
         {"2026-11-28", "2024-02-29", "2000-02-29", "0000-02-29", "2021-02-28", "2021-01-31",
          "2021-04-30", "9999-12-31"},
         {"2026-13-28", "28.11.2026", "2021-02-30", "2021-02-29", "1900-02-29", "2021-04-31",
          "2021-11-31", "2021-00-01", "2021-01-00", "2021-01-32", "02021-01-01", "2021-1-1"});
  Expect("time",
         {"08:30:06Z", "08:30:06z", "23:59:60Z", "23:59:60.5+00:00", "00:00:00.123-08:00",
          "23:59:59+23:59"},
         {"24:00:00Z", "00:60:00Z", "00:00:60Z", "22:59:60Z", "23:59:60+01:00", "00:00:00",
          "00:00:00.Z", "00:00:00+24:00", "00:00:00+00:60", "0:00:00Z", "00:00:00Z+00:30"});
  Expect("date-time",
         {"1963-06-19T08:30:06.283185Z", "1963-06-19t08:30:06z", "2024-02-29T00:00:00Z"},
         {"1990-02-31T15:59:59.123-08:00", "2023-02-29T00:00:00Z", "1963-06-19 08:30:06Z",
          "1998-12-31T22:59:60Z", "1963-06-19T08:30:06"});
  Expect("duration", {"P4DT12H30M5S", "P4Y", "PT0S", "P1M", "PT1M", "P1Y2M3D", "P2W", "P1DT1S"},
         {"P", "PT", "P1YT", "PT1D", "P2D1Y", "P1D2H", "P2S", "P1Y2W", "P1", "P1Y1D", "PT1H1S"});
}

TEST_F(StringFormatsTest, HostsAndAddressesAreThoseOfTheNet) {
  Expect("ipv4", {"0.0.0.0", "255.255.255.255", "10.9.100.249"},
         {"087.10.0.1", "256.0.0.0", "1.2.3", "1.2.3.4.5", "1.2.3.04", "", "1.2.3.4/8"});
  Expect("ipv6",
         {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8",
          "1:2:3:4:5:6:1.2.3.4", "::1.2.3.4", "1:2::7:1.2.3.4", "::ffff:0:0", "1:2:3:4:5::7:8"},
         {"", ":", "1", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::",
          "1:2:3:4:5:6:7:1.2.3.4", "1::1.2.3.256", "1:2:3:4:5:6:7::8", "fe80::1%a", ":1:2::"});
  const std::string label(63, 'a');
  Expect("hostname",
         {"a", "www.example.com", "xn--4gbwdl.xn--wgbh1c", "1host", "A-b", label.c_str()},
         {"", ".", "a.", "-a", "a-", "a_b", "a..b", "a-.b", (label + "a").c_str()});
  Expect("email", {"a@b", "joe.bloggs@example.com", "te~st@e-x.c", "a@b.c"},
         {"a", "@b", "a@", ".a@b", "a.@b", "a..a@b", "a@b=c", "a@b-", "a@[1.2.3.4]", "a b@c"});
}

TEST_F(StringFormatsTest, PointersHaveNoCharactersThatJsonEscapes) {
  Expect("json-pointer", {"", "/", "/a~0b~1/%c//d", "/\xC3\xA4^|"},
         {"a", "/~", "/~2", "#/", "/a\nb", "/a\x01", "/\\", "/\"", "/a\\"});
  Expect("relative-json-pointer", {"0", "1/a", "0#", "120/~1"},
         {"", "/a", "01", "0##", "-1", "1/~", "1/\n", "1/\\"});
  Expect("uuid", {"2eb8aa08-AA98-11ea-B4Aa-73B441D16380"},
         {"2eb8aa08-aa98-11ea-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380"});
}

// As much as all of JSON: names of a client's own say nothing.
TEST_F(StringFormatsTest, OthersAreNotHeldTo) { EXPECT_EQ(FormatRegex("color"), ""); }

}  // namespace
}  // namespace sluice::text
