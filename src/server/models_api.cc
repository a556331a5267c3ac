#include "server/models_api.h"

#include <map>
#include <optional>

#include "base/str_cat.h"
#include "server/http/target.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {

constexpr std::string_view kPrefix = "/v1/models/";
constexpr std::string_view kLoad = "/load";
constexpr std::string_view kUnload = "/unload";

// Stops the parser at the wanted text.
class FieldFinder : public nlohmann::json_sax<Json> {
 public:
  explicit FieldFinder(std::string_view field) : field_(field) {}
  std::string Take() { return std::move(found_); }

  bool null() override { return !here(); }
  bool boolean(bool) override { return !here(); }
  bool number_integer(int64_t) override { return !here(); }
  bool number_unsigned(uint64_t) override { return !here(); }
  bool number_float(double, const std::string&) override { return !here(); }
  bool binary(binary_t&) override { return false; }
  bool string(std::string& text) override {
    if (!here()) return true;
    found_ = std::move(text);
    return false;
  }
  bool key(std::string& name) override {
    at_field_ = depth_ == 1 && name == field_;
    return true;
  }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool here() const { return at_field_ && depth_ == 1; }
  bool Open() {
    ++depth_;
    return !at_field_;
  }
  bool Close() {
    --depth_;
    return true;
  }

  const std::string_view field_;
  std::string found_;
  int64_t depth_ = 0;
  bool at_field_ = false;  // the last key at the top was the wanted one
};

// As Prometheus has it within quotes.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string ModelNamedIn(std::string_view body, std::string_view field) {
  FieldFinder finder(field);
  Json::sax_parse(body, &finder);
  return finder.Take();
}

OrderedJson ModelJson(const ModelReport& report, int64_t created) {
  const EngineInfo& info = report.info;
  OrderedJson json;
  json["id"] = report.name;
  json["object"] = "model";
  json["created"] = created;
  json["owned_by"] = "sluice";
  if (report.loaded_s > 0) {
    json["max_model_len"] = info.max_model_len;
    json["meta"] = OrderedJson{{"architecture", info.architecture},
                               {"quantization", info.quantization},
                               {"n_params", info.parameters},
                               {"n_vocab", info.vocab_size},
                               {"size", info.weight_bytes}};
  }
  json["status"] = OrderedJson{{"value", Name(report.state)}};
  if (!report.failure.ok()) {
    json["status"]["failed"] = true;
    json["status"]["error"] = report.failure.message();
  }
  return json;
}

Result<ModelOrder> ReadModelOrder(const std::string& path, std::string_view body) {
  ModelOrder order;
  order.load = path.ends_with(kLoad);
  if (!order.load && !path.ends_with(kUnload)) {
    return Status(StatusCode::kNotFound,
                  "a model takes a POST of load or unload alone: /v1/models/NAME/load, "
                  "/v1/models/NAME/unload");
  }
  if (path.starts_with(kPrefix)) {
    std::string_view name = path;
    name.remove_suffix((order.load ? kLoad : kUnload).size());
    order.name = Unescaped(name.substr(std::min(name.size(), kPrefix.size())));
  } else {
    SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
    Fields fields(object);
    order.name = fields.String("model", kLongNameBytesMax).value_or("");
    SLUICE_RETURN_IF_ERROR(fields.Finish());
  }
  if (order.name.empty()) {
    return InvalidArgument("model is missing; it must be the name of the one to load or unload",
                           "model");
  }
  return order;
}

Result<EngineOrder> ReadEngineOrder(const std::string& path, std::string_view body) {
  EngineOrder order;
  if (!body.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
    Fields fields(object);
    order.model = fields.String("model", kLongNameBytesMax).value_or("");
    SLUICE_RETURN_IF_ERROR(fields.Finish());
  }
  order.command = DumpJson(OrderedJson{{"command", path.substr(path.rfind('/') + 1)}});
  return order;
}

std::string MergedMetrics(const std::vector<std::string>& texts) {
  if (texts.size() == 1) return texts.front();
  struct Family {
    std::string head, samples;
    size_t first = 0;  // the text that it came with
  };
  std::vector<Family> families;
  std::map<std::string, size_t, std::less<>> places;  // in families, by name
  for (size_t t = 0; t < texts.size(); ++t) {
    std::string_view rest = texts[t];
    size_t place = 0;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size() - 1);
      const std::string_view line = rest.substr(0, end + 1);
      rest.remove_prefix(end + 1);
      const bool head = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
      if (head) {
        const std::string_view name = line.substr(7, line.find_first_of(" \n", 7) - 7);
        const auto [found, added] = places.emplace(std::string(name), families.size());
        if (added) families.push_back({"", "", t});
        place = found->second;
        if (families[place].first == t) families[place].head += line;
      } else if (!families.empty()) {
        families[place].samples += line;
      }
    }
  }
  std::string merged;
  for (const Family& family : families) merged += family.head + family.samples;
  return merged;
}

std::string LoadedMetric(const std::vector<ModelReport>& reports) {
  std::string text =
      "# HELP sluice_model_loaded Whether a model is loaded, 1 or 0\n"
      "# TYPE sluice_model_loaded gauge\n";
  for (const ModelReport& report : reports) {
    text += StrCat("sluice_model_loaded{model_name=\"", Escaped(report.name), "\"} ",
                   report.state == ModelState::kLoaded ? 1 : 0, "\n");
  }
  return text;
}

}  // namespace sluice::server
