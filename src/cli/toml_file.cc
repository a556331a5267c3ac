#include "cli/toml_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>

#include "base/str_cat.h"

namespace sluice::cli {
namespace {

Status Wrong(const std::string& path, const toml::source_region& at, std::string_view message) {
  return InvalidArgument(StrCat(path, ", line ", at.begin.line, ": ", message));
}

std::string MessageOf(const toml::parse_error& error) {
  std::string message(error.description());
  std::replace(message.begin(), message.end(), '\n', ' ');
  return StrCat("this is not TOML: ", message);
}

std::string Digits(double number) {
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

// Nothing for what is no value of an option.
std::optional<std::string> ValueOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return Digits(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Status Read(const toml::table& table, const std::string& name, const std::string& model) {
    for (const auto& [key, node] : table) {
      const std::string text(key.str());
      const toml::table* inner = node.as_table();
      if (inner != nullptr && name.empty()) {
        entries_.push_back({text, "", "", {}, LineOf(node)});
        SLUICE_RETURN_IF_ERROR(Read(*inner, text, ""));
        continue;
      }
      if (inner != nullptr && name == kModelsTable && model.empty()) {
        if (text.empty()) return Wrong(path_, node.source(), "a model needs a name");
        entries_.push_back({name, text, "", {}, LineOf(node)});
        SLUICE_RETURN_IF_ERROR(Read(*inner, name, text));
        continue;
      }
      TomlEntry entry{name, model, text, {}, LineOf(node)};
      SLUICE_RETURN_IF_ERROR(ReadValues(node, &entry));
      entries_.push_back(std::move(entry));
    }
    return OkStatus();
  }
  std::vector<TomlEntry> Take() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(entries_);
  }

 private:
  static int LineOf(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

  Status ReadValues(const toml::node& node, TomlEntry* entry) {
    const auto add = [&](const toml::node& item) {
      auto value = ValueOf(item);
      if (value) entry->values.push_back(*std::move(value));
      return value.has_value();
    };
    bool right = true;
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) right = right && add(item);
    } else {
      right = add(node);
    }
    if (right) return OkStatus();
    return Wrong(path_, node.source(),
                 StrCat("the value of ", entry->key,
                        " is neither a text, a number, true, false, nor a list of those"));
  }

  const std::string& path_;
  std::vector<TomlEntry> entries_;
};

}  // namespace

Result<std::vector<TomlEntry>> ParseToml(const std::string& text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return Wrong(path, parsed.error().source(), MessageOf(parsed.error()));
  Reader reader(path);
  SLUICE_RETURN_IF_ERROR(reader.Read(parsed.table(), "", ""));
  return reader.Take();
}

}  // namespace sluice::cli
