#include "base/str_cat.h"
#include "server/pages.h"

namespace sluice::server {
namespace {

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string HomePage(const EngineInfo& info) {
  const auto row = [](const char* name, const std::string& value) {
    return StrCat("<tr><th>", name, "</th><td>", Escaped(value), "</td></tr>\n");
  };
  return StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Sluice</title>\n"
      "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}"
      "th{text-align:left;padding-right:2em;font-weight:normal;color:#666}</style>\n"
      "<h1>Sluice</h1>\n<p>A language model is served here; any OpenAI client can talk to it at "
      "<code>/v1</code> of this address.</p>\n<table>\n",
      row("Model", info.model_name), row("Architecture", info.architecture),
      row("Number format", info.quantization), row("Device", info.device),
      row("Context", StrCat(info.max_model_len, " tokens")),
      "</table>\n<p><a href=\"/openapi.json\">API</a> &middot; <a href=\"/metrics\">metrics</a> "
      "&middot; <a href=\"/health\">health</a> &middot; <a href=\"/v1/models\">models</a></p>\n");
}

}  // namespace sluice::server
