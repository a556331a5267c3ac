#include "text/string_formats.h"

#include "base/str_cat.h"

namespace sluice::text {
namespace {

constexpr char kEscaped[] = "%[0-9A-Fa-f]{2}";

// RFC 3986, without addresses in brackets.
std::string Characters(std::string_view more) {
  return StrCat("([A-Za-z0-9._~!$&'()*+,;=", more, "-]|", kEscaped, ")");
}

// What follows the first characters of a path.
std::string Segments() { return StrCat("(/", Characters(":@"), "*)*"); }

std::string Rooted() { return StrCat("/(", Characters(":@"), "+", Segments(), "){0,1}"); }

std::string Authority() {
  return StrCat("(", Characters(":"), "*@){0,1}", Characters(""), "*(:[0-9]*){0,1}");
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
  if (format == "uri") return Uri();
  if (format == "uri-reference") return UriReference();
  if (format == "uri-template") return UriTemplate();
  return "";
}

}  // namespace sluice::text
