// Renders templates for compare.py: reads one JSON object a line from standard input,
//   {"template": path} or {"source": text}, with "context": {...} and "now": "YYYY-MM-DDTHH:MM:SS",
// and writes one a line, {"output": text} or {"error": sentence}.

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "base/json.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

using TemplatePtr = std::shared_ptr<const text::ChatTemplate>;

Result<TemplatePtr> ReadTemplate(const OrderedJson& request) {
  if (request.contains("source")) {
    return text::ChatTemplate::Parse(request["source"].get<std::string>());
  }
  static std::map<std::string, Result<TemplatePtr>> parsed;
  const std::string path = request["template"].get<std::string>();
  auto found = parsed.find(path);
  if (found == parsed.end()) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream source;
    source << file.rdbuf();
    found = parsed.emplace(path, text::ChatTemplate::Parse(source.str())).first;
  }
  return found->second;
}

Result<std::string> RenderLine(const std::string& line) {
  SLUICE_ASSIGN_OR_RETURN(OrderedJson request, ParseOrderedJson(line, "the request"));
  SLUICE_ASSIGN_OR_RETURN(TemplatePtr chat_template, ReadTemplate(request));
  return chat_template->Render(request["context"], request["now"].get<std::string>());
}

}  // namespace
}  // namespace sluice

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const sluice::Result<std::string> result = sluice::RenderLine(line);
    sluice::OrderedJson answer;
    if (result.ok()) {
      answer["output"] = *result;
    } else {
      answer["error"] = result.status().message();
    }
    std::cout << sluice::DumpJson(answer) << '\n';
  }
  return 0;
}
