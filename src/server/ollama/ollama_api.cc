#include "server/ollama/ollama_api.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <limits>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/constraint_fields.h"
#include "server/shared/models.h"

namespace sluice::server {
namespace {

// When a model leaves whose keep_alive is -1: it stays until the server ends.
constexpr const char* kForEver = "2318-03-06T00:00:00Z";
constexpr double kKeepSecondsMax = 1e9;
constexpr size_t kParameterWidth = 30;  // of a name in a list of parameters
constexpr const char* kNoParser = "none";

// Seconds of a duration as Go writes it, "1h30m" or "-1s"; nothing: it is none.
std::optional<double> SecondsOf(std::string_view text) {
  const double sign = text.starts_with('-') ? -1 : 1;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    static constexpr std::pair<std::string_view, double> kUnits[] = {
        {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                          [&](const auto& u) { return text.starts_with(u.first); });
    if (unit == std::end(kUnits)) return std::nullopt;
    seconds += number * unit->second;
    text.remove_prefix(unit->first.size());
  }
  return sign * seconds;
}

}  // namespace

std::optional<double> ReadKeepAlive(Fields* fields) {
  const OrderedJson* value = fields->Any("keep_alive");
  if (value == nullptr) return std::nullopt;
  std::optional<double> seconds;
  if (value->is_string()) {
    seconds = SecondsOf(value->get_ref<const std::string&>());
  } else if (value->is_number()) {
    seconds = value->get<double>();
  } else {
    fields->WrongType("keep_alive", *value, "a string or a number");
    return std::nullopt;
  }
  if (!seconds) {
    fields->Fail("keep_alive",
                 StrCat("keep_alive is ", Quote(value->get_ref<const std::string&>()),
                        "; it must be a number of seconds or a duration as \"5m\" or \"-1s\""));
    return std::nullopt;
  }
  return std::min(*seconds, kKeepSecondsMax);
}

void ReadOllamaModel(Fields* fields, std::string_view field, const ModelFacts& model) {
  const std::optional<std::string> asked = fields->String(field, 4096);
  if (!asked || *asked == model.name || WithoutTag(*asked) == model.name) return;
  fields->Take(NotServed(*asked, Quote(model.name), std::string(field)));
}

namespace {

void ReadOptions(Fields* fields, Request* request) {
  const OrderedJson* object = fields->Object("options");
  if (object == nullptr) return;
  Fields options(*object, "options.");
  const auto limit = options.Int("num_predict", -2, std::numeric_limits<int>::max());
  // -1 and -2: what is left of the context.
  if (limit && *limit >= 0) request->max_tokens = *limit;
  ReadSampling(&options, &request->sampling);
  ReadPenaltySpan(&options, &request->sampling);
  ReadStops(&options, "stop", request);
  ReadAccepted(&options, FieldPlace::kOllamaOptions);
  fields->Take(options.Finish());
}

void ReadLogprobs(Fields* fields, ApiCall* call, Request* request) {
  const bool logprobs = fields->Bool("logprobs").value_or(false);
  const auto top = fields->Int("top_logprobs", 0, limits::kTopLogprobsMax);
  if (logprobs) call->logprobs = top.value_or(0);
  request->logprobs = call->logprobs;
}

// Whether and how much the model thinks is the template's to know.
std::string ReadThink(Fields* fields) {
  const OrderedJson* think = fields->Any("think");
  if (think == nullptr) return "";
  OrderedJson kwargs = OrderedJson::object();
  if (think->is_string()) {
    if (auto effort = fields->String("think", kNameBytesMax)) kwargs["reasoning_effort"] = *effort;
  } else if (const auto value = fields->Bool("think")) {
    kwargs["enable_thinking"] = kwargs["thinking"] = *value;
  }
  return DumpJson(kwargs);
}

// The fields of both bodies.
void ReadCommon(Fields* fields, const ModelFacts& model, ApiCall* call, Request* request) {
  ReadOllamaModel(fields, "model", model);
  call->model = model.name;
  call->stream = fields->Bool("stream").value_or(true);
  ReadOptions(fields, request);
  ReadLogprobs(fields, call, request);
  ReadOllamaFormat(fields, request);
  call->keep_alive_s = ReadKeepAlive(fields);
  ReadAccepted(fields, FieldPlace::kOllamaRequest);
}

OrderedJson ReadCalls(Fields* message, const OrderedJson& calls, const std::string& path) {
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < calls.size() && message->ok(); ++i) {
    const std::string item = StrCat(path, "tool_calls[", i, "]");
    Fields call(calls[i], item + ".");
    OrderedJson entry{{"type", "function"}};
    if (auto id = call.String("id", kNameBytesMax)) entry["id"] = *id;
    call.OnlyValue("type", "function");
    if (const OrderedJson* object = call.Object("function")) {
      Fields function(*object, item + ".function.");
      const auto name = function.String("name", kNameBytesMax);
      if (!name || name->empty()) {
        function.Missing("name", "the name of the function that was called");
      }
      const OrderedJson* arguments = function.Object("arguments");
      function.Int("index", 0, 1 << 20);
      entry["function"] =
          OrderedJson{{"name", name.value_or("")},
                      {"arguments", DumpJson(arguments ? *arguments : OrderedJson::object())}};
      call.Take(function.Finish());
    } else {
      call.Missing("function", "an object");
    }
    message->Take(call.Finish());
    out.push_back(std::move(entry));
  }
  return out;
}

OrderedJson ReadMessage(Fields* fields, const OrderedJson& value, size_t index) {
  const std::string path = StrCat("messages[", index, "].");
  Fields message(value, path);
  const std::string role = message.String("role", kNameBytesMax).value_or("");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    message.WrongValue("role", "system, user, assistant or tool");
  }
  OrderedJson out{{"role", role},
                  {"content", message.String("content", kTextBytesMax).value_or("")}};
  if (auto text = message.String("thinking", kTextBytesMax)) out["reasoning_content"] = *text;
  if (auto name = message.String("tool_name", kNameBytesMax)) out["name"] = *name;
  if (auto id = message.String("tool_call_id", kNameBytesMax)) out["tool_call_id"] = *id;
  if (const OrderedJson* calls = message.Array("tool_calls", kToolCallsMax)) {
    OrderedJson list = ReadCalls(&message, *calls, path);
    if (!list.empty()) out["tool_calls"] = std::move(list);
  }
  ReadAccepted(&message, FieldPlace::kOllamaMessage);
  fields->Take(message.Finish());
  return out;
}

std::string ReadTools(Fields* fields) {
  const OrderedJson* tools = fields->Array("tools", kToolsMax);
  for (size_t i = 0; tools != nullptr && i < tools->size() && fields->ok(); ++i) {
    const std::string path = StrCat("tools[", i, "]");
    Fields tool((*tools)[i], path + ".");
    tool.OnlyValue("type", "function");
    const OrderedJson* function = tool.Object("function");
    const bool named = function != nullptr && function->contains("name") &&
                       (*function)["name"].is_string() && (*function)["name"] != "";
    if (!named)
      tool.Fail("function", path + ".function has no name; it must be an object with one");
    fields->Take(tool.Finish());
    if (fields->ok() && DumpJson((*tools)[i]).size() > kToolBytesMax) {
      fields->Fail("tools", StrCat(path, " has ", DumpJson((*tools)[i]).size(),
                                   " bytes; the limit is ", kToolBytesMax));
    }
  }
  return tools == nullptr || tools->empty() ? "" : DumpJson(*tools);
}

// Their digest is of the files; this one stands for name, type and size, for clients that show it.
std::string DigestOf(const EngineInfo& info) {
  const std::string text =
      StrCat(info.model_name, "\n", info.quantization, "\n", info.weight_bytes);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

OrderedJson DetailsOf(const EngineInfo& info) {
  OrderedJson json;
  json["parent_model"] = "";
  json["format"] = "gguf";
  json["family"] = info.architecture;
  json["families"] = OrderedJson::array({info.architecture});
  const double millions = static_cast<double>(info.parameters) / 1e6;
  char size[32];
  std::snprintf(size, sizeof size, millions < 1e3 ? "%.2fM" : "%.1fB",
                millions < 1e3 ? millions : millions / 1e3);
  json["parameter_size"] = size;
  json["quantization_level"] = info.quantization;
  return json;
}

OrderedJson EntryOf(const EngineInfo& info) {
  OrderedJson json;
  json["name"] = info.model_name;
  json["model"] = info.model_name;
  json["size"] = info.weight_bytes;
  json["digest"] = DigestOf(info);
  json["details"] = DetailsOf(info);
  return json;
}

}  // namespace

Result<ApiCall> ParseOllamaChat(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ApiCall call;
  call.chat = true;
  Request request;
  ReadCommon(&fields, model, &call, &request);
  ChatPrompt chat;
  chat.adapt_history = true;
  chat.template_kwargs_json = ReadThink(&fields);
  chat.tools_json = ReadTools(&fields);
  OrderedJson messages = OrderedJson::array();
  const OrderedJson* list = fields.Array("messages", kMessagesMax);
  for (size_t i = 0; list != nullptr && i < list->size() && fields.ok(); ++i) {
    messages.push_back(ReadMessage(&fields, (*list)[i], i));
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  if (messages.empty()) return call;
  const OrderedJson& last = messages.back();
  chat.continue_final_message = last["role"] == "assistant" && !last.contains("tool_calls");
  chat.messages_json = DumpJson(messages);
  request.parsing = {.reasoning = true, .tools = !chat.tools_json.empty()};
  request.prompt = std::move(chat);
  call.requests.push_back(std::move(request));
  return call;
}

Result<ApiCall> ParseOllamaGenerate(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ApiCall call;
  Request request;
  ReadCommon(&fields, model, &call, &request);
  const std::string prompt = fields.String("prompt", kTextBytesMax).value_or("");
  const auto system = fields.String("system", kTextBytesMax);
  const bool raw = fields.Bool("raw").value_or(false);
  const std::string kwargs = ReadThink(&fields);
  for (const char* name : {"suffix", "template"}) fields.OnlyValue(name, "");
  fields.OnlyValue("context", OrderedJson::array());
  for (const char* name : {"width", "height", "steps"}) fields.OnlyValue(name, nullptr);
  fields.OnlyValue("images", OrderedJson::array());
  if (raw && system && !system->empty()) {
    fields.Fail("system", "a raw prompt has no system message; send one of raw and system");
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  if (prompt.empty()) return call;
  if (raw) {
    request.prompt = prompt;
  } else {
    OrderedJson messages = OrderedJson::array();
    if (system && !system->empty()) {
      messages.push_back(OrderedJson{{"role", "system"}, {"content", *system}});
    }
    messages.push_back(OrderedJson{{"role", "user"}, {"content", prompt}});
    ChatPrompt chat;
    chat.messages_json = DumpJson(messages);
    chat.template_kwargs_json = kwargs;
    request.parsing.reasoning = true;
    request.prompt = std::move(chat);
  }
  call.requests.push_back(std::move(request));
  return call;
}

std::string OllamaLoaded(const ApiCall& call, bool leaves) {
  OrderedJson json;
  json["model"] = call.model;
  json["created_at"] = Rfc3339(std::time(nullptr));
  if (call.chat) {
    json["message"] = OrderedJson{{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = leaves ? "unload" : "load";
  return DumpJson(json);
}

OrderedJson OllamaTags(const std::vector<ModelReport>& models, int64_t started) {
  OrderedJson list = OrderedJson::array();
  for (const ModelReport& model : models) {
    OrderedJson entry = EntryOf(model.info);
    entry["modified_at"] = Rfc3339(started);
    list.push_back(std::move(entry));
  }
  return OrderedJson{{"models", std::move(list)}};
}

OrderedJson OllamaRunning(const std::vector<ModelReport>& models, int64_t now) {
  OrderedJson list = OrderedJson::array();
  for (const ModelReport& model : models) {
    if (model.state != ModelState::kLoaded) continue;
    const EngineInfo& info = model.info;
    OrderedJson entry = EntryOf(info);
    entry["expires_at"] = model.leaves_in_s < 0 ? kForEver : Rfc3339(now + model.leaves_in_s);
    entry["size_vram"] = info.device_id.starts_with("cpu") ? 0 : info.weight_bytes;
    entry["context_length"] = info.max_model_len;
    list.push_back(std::move(entry));
  }
  return OrderedJson{{"models", std::move(list)}};
}

namespace {

// What the model itself says of how its tokens are drawn, a line each, by Ollama's names.
std::string ParametersOf(const Sampling& defaults) {
  std::string lines;
  ForEachSamplingField(
      [&lines](const SamplingField& field, const auto& value) {
        if (!value) return;
        std::string name(field.alias.empty() ? field.name : field.alias);
        name.resize(std::max(name.size(), kParameterWidth), ' ');
        lines += StrCat(lines.empty() ? "" : "\n", name, " ", *value);
      },
      defaults);
  return lines;
}

OrderedJson CapabilitiesOf(const EngineInfo& info, const std::string& chat_template) {
  if (info.architecture.empty()) return OrderedJson::array();  // it is not loaded
  if (info.embedding_size > 0) return OrderedJson::array({"embedding"});
  OrderedJson list = OrderedJson::array({"completion"});
  const bool shows_tools = chat_template.find("tools") != std::string::npos;
  if (shows_tools && info.tool_parser != kNoParser) list.push_back("tools");
  if (info.reasoning_parser != kNoParser) list.push_back("thinking");
  return list;
}

OrderedJson ModelInfoOf(const EngineInfo& info) {
  if (info.architecture.empty()) return OrderedJson::object();
  OrderedJson json{{"general.architecture", info.architecture},
                   {"general.basename", info.model_name},
                   {"general.parameter_count", info.parameters}};
  const auto own = [&](const char* name) { return StrCat(info.architecture, ".", name); };
  json[own("context_length")] = info.max_model_len;
  json[own("vocab_size")] = info.vocab_size;
  if (info.embedding_size > 0) json[own("embedding_length")] = info.embedding_size;
  return json;
}

}  // namespace

Result<std::string> OllamaShow(const EngineInfo& info, const std::string& chat_template,
                               int64_t since, std::string_view body) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  const ModelFacts model{info.model_name, 0, {}};
  ReadOllamaModel(&fields, "model", model);
  ReadOllamaModel(&fields, "name", model);  // as it was spelled before
  fields.Bool("verbose");
  for (const char* name : {"system", "template"}) fields.OnlyValue(name, "");
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  OrderedJson json;
  json["license"] = "";
  json["modelfile"] = StrCat("FROM ", info.model_name, "\n");
  json["parameters"] = ParametersOf(info.sampling_defaults);
  json["template"] = chat_template;
  json["details"] = DetailsOf(info);
  json["model_info"] = ModelInfoOf(info);
  json["capabilities"] = CapabilitiesOf(info, chat_template);
  json["modified_at"] = Rfc3339(since);
  return DumpJson(json);
}

std::string Rfc3339(int64_t seconds) {
  const auto moment = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&moment, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

}  // namespace sluice::server
