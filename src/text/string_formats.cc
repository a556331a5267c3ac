#include "text/string_formats.h"

#include "base/str_cat.h"
#include "text/character_set.h"

namespace sluice::text {
namespace {

constexpr char kEscaped[] = "%[0-9A-Fa-f]{2}";
constexpr char kHex[] = "[0-9A-Fa-f]";

// The library misreads ? behind a group.
std::string Optional(std::string_view part) { return StrCat("(", part, "){0,1}"); }

// RFC 3339, of the years that have four digits.
std::string Date() {
  return R"(([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))"
         R"(|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])))"
         R"(|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))";
}

// A leap second stands where a minute of UTC ends a day; elsewhere it would have to fit its offset.
std::string Time() {
  const std::string fraction = Optional(R"(\.[0-9]+)");
  return StrCat("(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]", fraction,
                "([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])|23:59:60", fraction, "([Zz]|[+-]00:00))");
}

// RFC 3339, appendix A.
std::string Duration() {
  const std::string second = "[0-9]+S";
  const std::string minute = StrCat("[0-9]+M", Optional(second));
  const std::string hour = StrCat("[0-9]+H", Optional(minute));
  const std::string time = StrCat("T(", hour, "|", minute, "|", second, ")");
  const std::string day = "[0-9]+D";
  const std::string month = StrCat("[0-9]+M", Optional(day));
  const std::string year = StrCat("[0-9]+Y", Optional(month));
  return StrCat("P((", year, "|", month, "|", day, ")", Optional(time), "|", time, "|[0-9]+W)");
}

std::string Ipv4() {
  const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9])";
  return StrCat("(", byte, R"(\.){3})", byte);
}

// RFC 4291, section 2.2: eight parts, of which two may be an address of IPv4, and some may be left
// out.
std::string Ipv6() {
  const std::string part = StrCat(kHex, "{1,4}");
  const std::string last = StrCat("(", part, ":", part, "|", Ipv4(), ")");
  const auto parts = [&](int count) { return StrCat("(", part, ":){", count, "}"); };
  // Up to `count` parts before those that are left out.
  const auto before = [&](int count) {
    if (count == 0) return std::string();
    return Optional(StrCat("(", part, ":){0,", count - 1, "}", part));
  };
  std::string address = StrCat("(", parts(6), last);
  for (int left = 5; left >= 0; --left) {
    address += StrCat("|", before(5 - left), "::", left > 0 ? parts(left) : "", last);
  }
  return StrCat(address, "|", before(6), "::", part, "|", before(7), "::)");
}

// RFC 1123.
std::string Hostname() {
  const std::string label = StrCat("[0-9A-Za-z]", Optional("[0-9A-Za-z-]{0,61}[0-9A-Za-z]"));
  return StrCat("(", label, R"(\.)*)", label);
}

// RFC 5321, section 4.1.2, without quotes, which JSON escapes, and addresses in brackets.
std::string Email() {
  const std::string atom = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = StrCat("[0-9A-Za-z]", Optional("[0-9A-Za-z-]*[0-9A-Za-z]"));
  return StrCat(atom, R"((\.)", atom, ")*@(", label, R"(\.)*)", label);
}

// RFC 6901.
std::string JsonPointer() {
  return StrCat("(/(",
                CharacterSet{{'/', '/'}, {'~', '~'}}.Others().Without(JsonEscapedSet()).Regex(),
                "|~[01])*)*");
}

std::string RelativeJsonPointer() { return StrCat("(0|[1-9][0-9]*)(#|", JsonPointer(), ")"); }

// RFC 3986, without addresses in brackets, which take a tenth of a second to compile.
std::string Characters(std::string_view more) {
  return StrCat("([A-Za-z0-9._~!$&'()*+,;=", more, "-]|", kEscaped, ")");
}

// What follows the first characters of a path.
std::string Segments() { return StrCat("(/", Characters(":@"), "*)*"); }

std::string Rooted() { return StrCat("/(", Characters(":@"), "+", Segments(), "){0,1}"); }

std::string Authority() {
  return StrCat(Optional(Characters(":") + "*@"), Characters(""), "*", Optional(":[0-9]*"));
}

std::string QueryAndFragment() {
  const std::string text = Characters(":@/?") + "*";
  return StrCat(R"((\?)", text, "){0,1}(#", text, "){0,1}");
}

// Up to the query. `first`: characters with which a path may begin that has no root.
std::string Hierarchy(const std::string& first) {
  return StrCat("(//", Authority(), Segments(), "|", Rooted(), "|", first, "+", Segments(), "|)");
}

std::string Uri() {
  return StrCat("[A-Za-z][A-Za-z0-9+.-]*:", Hierarchy(Characters(":@")), QueryAndFragment());
}

std::string UriReference() {
  return StrCat("(", Uri(), "|", Hierarchy(Characters("@")), QueryAndFragment(), ")");
}

// RFC 6570.
std::string UriTemplate() {
  const std::string character = StrCat("([A-Za-z0-9_]|", kEscaped, ")");
  const std::string variable =
      StrCat(character, R"((\.?)", character, R"()*(:[1-9][0-9]{0,3}|\*){0,1})");
  return StrCat(R"(([!#$&(-;=?-\[\]_a-z~]|)", kEscaped, R"(|\{[+#./;?&=,!@|]?)", variable, "(,",
                variable, R"()*\})*)");
}

}  // namespace

std::string FormatRegex(std::string_view format) {
  struct Known {
    std::string_view name;
    std::string (*regex)();
  };
  constexpr Known kKnown[] = {
      {"date", Date},
      {"time", Time},
      {"date-time", [] { return StrCat(Date(), "[Tt]", Time()); }},
      {"duration", Duration},
      {"email", Email},
      {"ipv4", Ipv4},
      {"ipv6", Ipv6},
      {"uuid", [] { return std::string("[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"); }},
      {"hostname", Hostname},
      {"uri", Uri},
      {"uri-reference", UriReference},
      {"uri-template", UriTemplate},
      {"json-pointer", JsonPointer},
      {"relative-json-pointer", RelativeJsonPointer},
  };
  for (const Known& known : kKnown) {
    if (known.name == format) return known.regex();
  }
  return "";
}

}  // namespace sluice::text
