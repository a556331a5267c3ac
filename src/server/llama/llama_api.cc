#include "server/llama/llama_api.h"

#include <optional>

#include "base/str_cat.h"
#include "server/shared/accepted_fields.h"

namespace sluice::server {
namespace {

constexpr size_t kFilesMax = 256;

// The fields of both bodies.
void ReadCommon(Fields* fields, const ModelFacts& model, ApiCall* call, Request* request) {
  ReadModel(fields, model);
  ReadShared(fields, model, std::nullopt, call, request);
  ReadPenaltySpan(fields, &request->sampling);
  const int probs = fields->Int("n_probs", 0, limits::kTopLogprobsMax).value_or(0);
  if (probs > 0) call->logprobs = probs;
  request->logprobs = call->logprobs;
  const bool asks_ids = fields->Bool("return_tokens").value_or(call->shows_ids);
  call->shows_ids = asks_ids || model.ids_alone;
  if (request->n != 1) {
    fields->Fail("n", StrCat("n is ", request->n,
                             "; it must be 1 here: ask /v1/completions for "
                             "several answers"));
  }
  ReadAccepted(fields, FieldPlace::kLlamaRequest);
}

// The ids that one family of models was taught.
struct GapTokens {
  const char *before, *after, *middle;
  const char* file;  // stands before each file; null: there is none
};
// Qwen and CodeGemma, StarCoder, SantaCoder, DeepSeek, CodeLlama, GLM, Codestral.
constexpr GapTokens kGapTokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", nullptr},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", nullptr},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", nullptr},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", nullptr},
    {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", nullptr},
};

// The one token that a special text is, or nothing: the vocabulary does not have it.
Result<std::optional<int32_t>> TokenOf(const Engine& engine, const char* text,
                                       const std::atomic<bool>& gone) {
  if (text == nullptr) return std::optional<int32_t>();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          engine.Tokenize(text, false, /*parse_special=*/true, &gone));
  return ids.size() == 1 ? std::optional<int32_t>(ids[0]) : std::nullopt;
}

// Appends a text, in which special strings are a client's text like any other.
Status AppendText(const Engine& engine, const std::string& text, const std::atomic<bool>& gone,
                  std::vector<int32_t>* ids) {
  if (text.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> more,
                          engine.Tokenize(text, false, /*parse_special=*/false, &gone));
  ids->insert(ids->end(), more.begin(), more.end());
  return OkStatus();
}

struct GapIds {
  int32_t before = 0, after = 0, middle = 0;
  std::optional<int32_t> file;
};

// They are tokenized where the request is read, one beside the other.
Status CheckGapBytes(const Infill& infill) {
  size_t bytes = infill.before.size() + infill.after.size() + infill.begun.size();
  for (const Infill::File& file : infill.files) bytes += file.name.size() + file.text.size();
  if (bytes <= limits::kTokenizeBytesMax) return OkStatus();
  return InvalidArgument(
      StrCat("the texts around the gap and the files have ", bytes, " bytes; the limit is ",
             limits::kTokenizeBytesMax, "; send what stands next to the gap, and fewer files"),
      "input_prefix");
}

Result<GapIds> FindGapIds(const Engine& engine, const std::atomic<bool>& gone) {
  for (const GapTokens& names : kGapTokens) {
    SLUICE_ASSIGN_OR_RETURN(const auto before, TokenOf(engine, names.before, gone));
    if (!before) continue;
    SLUICE_ASSIGN_OR_RETURN(const auto after, TokenOf(engine, names.after, gone));
    SLUICE_ASSIGN_OR_RETURN(const auto middle, TokenOf(engine, names.middle, gone));
    if (!after || !middle) continue;
    SLUICE_ASSIGN_OR_RETURN(const auto file, TokenOf(engine, names.file, gone));
    return GapIds{*before, *after, *middle, file};
  }
  return Status(StatusCode::kUnimplemented,
                "the model has no tokens for a gap in a text that this server knows; use a model "
                "that was taught to fill gaps, or /completion");
}

}  // namespace

Result<ApiCall> ParseLlamaCompletion(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ApiCall call;
  Request request;
  ReadCommon(&fields, model, &call, &request);
  const OrderedJson* prompt = fields.Any("prompt");
  if (prompt != nullptr && prompt->is_string() && *prompt != "") {
    request.prompt = prompt->get<std::string>();
  } else if (prompt != nullptr && prompt->is_array() && !prompt->empty()) {
    request.prompt = ReadTokenIds(&fields, "prompt", *prompt, model.vocab_size);
  } else {
    const bool empty = prompt == nullptr || *prompt == "" || prompt->is_array();
    constexpr const char* kWanted = "a string or a list of token ids";
    empty ? fields.Missing("prompt", kWanted) : fields.WrongType("prompt", *prompt, kWanted);
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  call.requests.push_back(std::move(request));
  return call;
}

Result<ApiCall> ParseInfill(std::string_view body, const ModelFacts& model, Infill* infill) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ApiCall call;
  Request request;
  ReadCommon(&fields, model, &call, &request);
  const auto before = fields.String("input_prefix", kTextBytesMax);
  const auto after = fields.String("input_suffix", kTextBytesMax);
  if (!before && !after) {
    fields.Fail("input_prefix", "input_prefix and input_suffix are missing; send one or both");
  }
  infill->before = before.value_or("");
  infill->after = after.value_or("");
  infill->begun = fields.String("prompt", kTextBytesMax).value_or("");
  const OrderedJson* files = fields.Array("input_extra", kFilesMax);
  for (size_t i = 0; files != nullptr && i < files->size() && fields.ok(); ++i) {
    Fields file((*files)[i], StrCat("input_extra[", i, "]."));
    const auto text = file.String("text", kTextBytesMax);
    if (!text) file.Missing("text", "the file's text");
    infill->files.push_back(
        {file.String("filename", kLongNameBytesMax).value_or("tmp"), text.value_or("")});
    fields.Take(file.Finish());
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  SLUICE_RETURN_IF_ERROR(CheckGapBytes(*infill));
  request.prompt = std::vector<int32_t>();
  call.requests.push_back(std::move(request));
  return call;
}

Status FillPrompt(const Engine& engine, const Infill& infill, const std::atomic<bool>& gone,
                  Request* request) {
  SLUICE_ASSIGN_OR_RETURN(const GapIds gap, FindGapIds(engine, gone));
  // What every prompt of the model begins with.
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, engine.Tokenize("", true, false, &gone));
  if (ids.size() > 1) ids.resize(1);
  for (const Infill::File& file : infill.files) {
    if (gap.file) ids.push_back(*gap.file);
    const std::string text =
        gap.file ? StrCat(file.name, "\n", file.text) : StrCat(file.text, "\n");
    SLUICE_RETURN_IF_ERROR(AppendText(engine, text, gone, &ids));
  }
  if (!infill.files.empty() && gap.file) ids.push_back(*gap.file);
  ids.push_back(gap.before);
  SLUICE_RETURN_IF_ERROR(AppendText(engine, infill.before, gone, &ids));
  ids.push_back(gap.after);
  SLUICE_RETURN_IF_ERROR(AppendText(engine, infill.after, gone, &ids));
  ids.push_back(gap.middle);
  SLUICE_RETURN_IF_ERROR(AppendText(engine, infill.begun, gone, &ids));
  request->prompt = std::move(ids);
  for (const int32_t id : {gap.before, gap.after, gap.middle, gap.file.value_or(gap.middle)}) {
    if (request->stop_token_ids.size() < limits::kStopIdsMax) request->stop_token_ids.push_back(id);
  }
  return OkStatus();
}

OrderedJson LlamaProps(const EngineInfo& info, const TokenizerInfo& texts) {
  OrderedJson json;
  json["default_generation_settings"] = OrderedJson{{"n_ctx", info.max_model_len}};
  json["total_slots"] = info.max_num_seqs;
  json["model_alias"] = info.model_name;
  json["model_path"] = info.model_name;
  json["chat_template"] = texts.chat_template;
  json["bos_token"] = texts.bos_token;
  json["eos_token"] = texts.eos_token;
  json["modalities"] = OrderedJson{{"vision", false}, {"audio", false}};
  json["build_info"] = "sluice";
  json["is_sleeping"] = false;
  return json;
}

OrderedJson LlamaSlots(const EngineInfo& info) {
  OrderedJson slots = OrderedJson::array();
  for (int i = 0; i < info.max_num_seqs; ++i) {
    OrderedJson slot;
    slot["id"] = i;
    slot["n_ctx"] = info.max_model_len;
    slot["is_processing"] = i < info.running;
    slots.push_back(std::move(slot));
  }
  return slots;
}

}  // namespace sluice::server
