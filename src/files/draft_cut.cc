#include "files/draft_cut.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/eagle_files.h"
#include "files/folder_texts.h"
#include "files/folder_tokenizer.h"
#include "files/gguf.h"
#include "files/gguf_writer.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "files/safetensors_writer.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr char kGgufOutput[] = "output.weight", kGgufEmbedding[] = "token_embd.weight";
constexpr char kCutOutput[] = "lm_head.weight", kCutEmbedding[] = "embed_tokens.weight";

std::vector<int32_t> AllOrThese(const std::vector<int32_t>& ids, int vocab) {
  if (!ids.empty()) return ids;
  std::vector<int32_t> all(static_cast<size_t>(vocab));
  for (int32_t id = 0; id < vocab; ++id) all[static_cast<size_t>(id)] = id;
  return all;
}

Status FindOutput(DraftSource* source) {
  const TensorSource& tensors = *source->tensors;
  if (source->is_gguf) {
    source->output = tensors.Find(kGgufOutput);
    if (source->output == nullptr) source->output = tensors.Find(kGgufEmbedding);
  }
  for (const char* const name : {kCutOutput, kCutEmbedding}) {
    for (const char* const prefix : {"", "model."}) {
      if (source->output == nullptr) source->output = tensors.Find(StrCat(prefix, name));
    }
  }
  const auto rows = static_cast<int64_t>(source->ids.size());
  if (source->output == nullptr || source->output->shape.size() != 2 ||
      source->output->shape[0] != rows)
    return BadModel(
        StrCat(source->path, ": no output matrix of ", rows, " rows is there to be cut"));
  if (tensors.Find(source->output->name + "_scale") == nullptr &&
      tensors.Find(source->output->name + "_scale_inv") == nullptr)
    return OkStatus();
  return InvalidArgument(StrCat(source->path,
                                ": the output matrix has scales beside it, which "
                                "cannot be cut; take the draft in BF16 or as GGUF"));
}

// "d2t" as it is published: how far each id lies behind its own number.
std::vector<int64_t> Offsets(const DraftSource& source, std::span<const int32_t> rows) {
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < rows.size(); ++i)
    offsets.push_back(source.ids[static_cast<size_t>(rows[i])] - static_cast<int64_t>(i));
  return offsets;
}

std::vector<std::span<const std::byte>> RowsOf(const FileTensor& matrix,
                                               std::span<const int32_t> rows) {
  const size_t bytes = matrix.data.size() / static_cast<size_t>(matrix.shape[0]);
  std::vector<std::span<const std::byte>> pieces;
  for (const int32_t row : rows)
    pieces.push_back(matrix.data.subspan(static_cast<size_t>(row) * bytes, bytes));
  return pieces;
}

bool IsMap(std::string_view name) {
  return name == kTargetIds || name == "model.d2t" || name == "t2d" || name == "model.t2d";
}

Status WriteText(const fs::path& path, const std::string& text, bool replace) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path.string(), {.replace = replace}));
  SLUICE_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(text.data(), text.size()))));
  return file->Commit();
}

Status WriteFolder(const DraftSource& source, std::span<const int32_t> rows, const fs::path& out,
                   bool replace) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error)
    return Status(StatusCode::kIo, StrCat(out.string(), " cannot be made: ", error.message()));
  const std::vector<int64_t> offsets = Offsets(source, rows);
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<SafetensorsTensor> tensors;
  for (const FileTensor& tensor : source.tensors->tensors()) {
    const bool output = tensor.name.ends_with(kCutOutput);
    if (!output && !IsMap(tensor.name))
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.data}});
  }
  const FileTensor& matrix = *source.output;
  tensors.push_back({kCutOutput, matrix.dtype, {count, matrix.shape[1]}, RowsOf(matrix, rows)});
  tensors.push_back({kTargetIds, DType::kI64, {count}, {std::as_bytes(std::span(offsets))}});
  SLUICE_RETURN_IF_ERROR(
      WriteSafetensors((out / "model.safetensors").string(), tensors, {.replace = replace}));
  SLUICE_ASSIGN_OR_RETURN(
      const std::string text,
      ReadTextFile((fs::path(source.path) / "config.json").string(), kConfigBytesMax));
  SLUICE_ASSIGN_OR_RETURN(Json config, ParseModelJson(text, "config.json"));
  config["draft_vocab_size"] = count;
  // Beside the weights, as they are: what a tokenizer needs, and what a model's defaults are.
  std::error_code unread;
  for (const fs::directory_entry& entry : fs::directory_iterator(source.path, unread)) {
    const std::string name = entry.path().filename().string();
    if (!IsTokenizerFile(name) && name != "generation_config.json") continue;
    SLUICE_ASSIGN_OR_RETURN(const std::string copied,
                            ReadOptional(entry.path(), kTokenizerBytesMax));
    if (!copied.empty()) SLUICE_RETURN_IF_ERROR(WriteText(out / name, copied, replace));
  }
  return WriteText(out / "config.json", config.dump(2) + "\n", replace);
}

Status WriteGguf(const DraftSource& source, std::span<const int32_t> rows, const std::string& out,
                 bool replace) {
  const auto& file = static_cast<const GgufFile&>(*source.tensors);
  const auto count = static_cast<int64_t>(rows.size());
  GgufLayout layout;
  layout.metadata = file.entries();
  layout.alignment = file.alignment();
  for (const FileTensor& tensor : file.tensors()) {
    if (tensor.name != kGgufOutput && !IsMap(tensor.name))
      layout.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const size_t kept = layout.tensors.size();
  const FileTensor& matrix = *source.output;
  layout.tensors.push_back({kGgufOutput, matrix.dtype, {count, matrix.shape[1]}});
  layout.tensors.push_back({kTargetIds, DType::kI64, {count}});
  const std::vector<std::string> names = [&] {
    std::vector<std::string> list;
    for (size_t i = 0; i < kept; ++i) list.push_back(layout.tensors[i].name);
    return list;
  }();
  SLUICE_ASSIGN_OR_RETURN(const auto writer,
                          GgufFileWriter::Create(out, std::move(layout), {.replace = replace}));
  for (const std::string& name : names)
    SLUICE_RETURN_IF_ERROR(writer->Append(file.Find(name)->data));
  for (const auto& row : RowsOf(matrix, rows)) SLUICE_RETURN_IF_ERROR(writer->Append(row));
  const std::vector<int64_t> offsets = Offsets(source, rows);
  SLUICE_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(offsets))));
  return writer->Finish();
}

}  // namespace

Result<DraftSource> OpenDraftSource(const std::string& path) {
  DraftSource source;
  source.path = path;
  if (IsEagle(path)) {
    SLUICE_ASSIGN_OR_RETURN(EagleFiles eagle, OpenEagle(path));
    if (UsesModelsOutput(eagle.config.form))
      return InvalidArgument(
          StrCat(path,
                 ": the head guesses with its model's output matrix, so there is none to be "
                 "cut; heads of EAGLE-3's form have their own"));
    source.vocab_size = eagle.config.layer.vocab_size;
    source.ids = AllOrThese(eagle.config.target_ids, source.vocab_size);
    source.end_ids.assign(eagle.config.layer.eos_ids.begin(), eagle.config.layer.eos_ids.end());
    source.tensors = std::move(eagle.tensors);
  } else {
    SLUICE_ASSIGN_OR_RETURN(ModelFiles model, OpenModel(path));
    source.is_gguf = model.is_gguf;
    source.vocab_size = model.config.vocab_size;
    source.ids = AllOrThese(model.config.target_ids, source.vocab_size);
    source.end_ids.assign(model.config.eos_ids.begin(), model.config.eos_ids.end());
    source.tensors = std::move(model.tensors);
  }
  SLUICE_RETURN_IF_ERROR(FindOutput(&source));
  return source;
}

Status WriteCutDraft(const DraftSource& source, std::span<const int32_t> rows,
                     const std::string& out, bool replace) {
  return source.is_gguf ? WriteGguf(source, rows, out, replace)
                        : WriteFolder(source, rows, out, replace);
}

}  // namespace sluice::files
