// sluice quantize: a GGUF file in another number format, with the error of each tensor.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "files/gguf_writer.h"
#include "files/model_files.h"
#include "files/synthetic_model.h"
#include "weights/file_types.h"
#include "weights/requantize.h"

namespace sluice::cli {
namespace {

// The version of the block layouts, as ggml counts them.
constexpr uint32_t kQuantizationVersion = 2;
constexpr double kMebibyte = 1 << 20;

struct QuantizeOptions {
  std::string in, out, type;
  int threads = 0;
  bool force = false, json = false;
};

// Where the work is, on standard error: a bar on a terminal, otherwise a line for every tenth.
class Progress {
 public:
  explicit Progress(uint64_t total) : total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { Clear(); }

  void Advance(uint64_t bytes, const std::string& name) {
    done_ += bytes;
    const int percent = static_cast<int>(total_ == 0 ? 100 : done_ * 100 / total_);
    if (percent == shown_ || (!terminal_ && percent / 10 == shown_ / 10)) return;
    shown_ = percent;
    if (!terminal_) {
      std::cerr << percent << " % at " << name << "\n";
      return;
    }
    constexpr int kWidth = 40, kNameMax = 30;
    const std::string bar(static_cast<size_t>(percent * kWidth / 100), '#');
    std::cerr << "\r[" << std::left << std::setw(kWidth) << bar << "] " << std::right
              << std::setw(3) << percent << " % " << name.substr(0, kNameMax) << "\x1b[K"
              << std::flush;
  }
  // Takes the bar away, so that a line can be printed.
  void Clear() {
    if (terminal_ && shown_ > 0) std::cerr << "\r\x1b[K" << std::flush;
  }

 private:
  const uint64_t total_;
  const bool terminal_;
  uint64_t done_ = 0;
  int shown_ = 0;
};

Result<std::shared_ptr<const files::GgufFile>> OpenInput(const QuantizeOptions& options) {
  if (files::IsSyntheticPath(options.in)) {
    return InvalidArgument(StrCat(Quote(options.in),
                                  " has no file that could be read; sluice quantize reads one GGUF "
                                  "file"),
                           "in");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(options.in));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(StrCat(path, " is a folder; sluice quantize reads one GGUF file"));
  }
  if (std::filesystem::equivalent(path, options.out, error)) {
    return InvalidArgument(
        StrCat(options.out, " is the input itself; choose another name for the output"));
  }
  return files::GgufFile::Open(path);
}

struct NewFile {
  std::vector<std::byte> file_type, quantization_version;  // metadata of `layout` points here
  files::GgufLayout layout;
};

void SetEntry(std::vector<files::GgufEntry>* metadata, const char* key,
              std::span<const std::byte> bytes) {
  const auto entry = std::find_if(metadata->begin(), metadata->end(),
                                  [&](const files::GgufEntry& e) { return e.key == key; });
  if (entry == metadata->end()) {
    metadata->push_back({key, bytes});
  } else {
    entry->bytes = bytes;
  }
}

NewFile Plan(const weights::FileType& type, const files::GgufFile& file) {
  NewFile plan;
  plan.file_type = files::GgufU32(type.number);
  plan.quantization_version = files::GgufU32(kQuantizationVersion);
  plan.layout.metadata = file.entries();
  SetEntry(&plan.layout.metadata, "general.file_type", plan.file_type);
  SetEntry(&plan.layout.metadata, "general.quantization_version", plan.quantization_version);
  plan.layout.alignment = file.alignment();
  const std::vector<DType> types = weights::TensorTypes(type, file);
  for (size_t i = 0; i < types.size(); ++i) {
    const files::FileTensor& tensor = file.tensors()[i];
    plan.layout.tensors.push_back({tensor.name, types[i], tensor.shape});
  }
  return plan;
}

void PrintTensor(const files::FileTensor& tensor, DType type, double rmse) {
  std::cout << std::left << std::setw(32) << Visible(tensor.name) << " " << std::setw(7)
            << Name(tensor.dtype);
  if (type == tensor.dtype) {
    std::cout << " kept" << std::endl;
    return;
  }
  std::cout << " -> " << std::setw(7) << Name(type) << " rmse " << std::scientific
            << std::setprecision(3) << rmse << std::defaultfloat << std::endl;
}

// Writes every tensor; gives what --json says of them.
Result<Json> WriteTensors(const files::GgufFile& file, const files::GgufLayout& layout,
                          const QuantizeOptions& options, files::GgufFileWriter& writer) {
  InterruptGuard interrupt;
  uint64_t total = 0;
  for (const files::GgufTensorLayout& tensor : layout.tensors) total += tensor.bytes();
  Progress progress(total);
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  Json described = Json::array();
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const files::FileTensor& tensor = file.tensors()[i];
    const DType type = layout.tensors[i].dtype;
    const std::string name = Visible(tensor.name);
    const auto sink = [&](std::span<const std::byte> bytes) -> Status {
      if (interrupt.raised()) return {StatusCode::kCancelled, "stopped by the user"};
      SLUICE_RETURN_IF_ERROR(writer.Append(bytes));
      progress.Advance(bytes.size(), name);
      return OkStatus();
    };
    SLUICE_ASSIGN_OR_RETURN(const double rmse,
                            weights::Requantize(file, tensor, type, threads, sink));
    described.push_back({{"name", tensor.name},
                         {"source_type", Name(tensor.dtype)},
                         {"type", Name(type)},
                         {"bytes", layout.tensors[i].bytes()},
                         {"rmse", rmse}});
    if (!options.json) {
      progress.Clear();
      PrintTensor(tensor, type, rmse);
    }
  }
  if (interrupt.raised()) return Status(StatusCode::kCancelled, "stopped by the user");
  return described;
}

// How many tensors have which type now: formats with blocks of 256 fall back where rows don't fit.
std::string CountsOf(const Json& tensors) {
  std::map<std::string, int> counts;
  for (const Json& tensor : tensors) ++counts[tensor["type"].get<std::string>()];
  std::string text;
  for (const auto& [type, count] : counts) {
    text += StrCat(text.empty() ? "" : ", ", count, " in ", type);
  }
  return text;
}

// Codes of codes lose twice.
void WarnOfQuantizedInput(const files::GgufFile& file) {
  for (const files::FileTensor& tensor : file.tensors()) {
    if (!IsQuantized(tensor.dtype)) continue;
    std::cerr
        << "note: the input is quantized already; a file from the original weights is better\n";
    return;
  }
}

Status Quantize(const QuantizeOptions& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (options.threads > cores) {
    return InvalidArgument(StrCat("--threads ", options.threads, " is above the ", cores,
                                  " cores of this machine; 0 uses all of them"));
  }
  SLUICE_ASSIGN_OR_RETURN(const weights::FileType type, weights::FindFileType(options.type));
  SLUICE_ASSIGN_OR_RETURN(const auto file, OpenInput(options));
  const int64_t start = NowMicros();
  const NewFile plan = Plan(type, *file);
  SLUICE_ASSIGN_OR_RETURN(
      const auto writer,
      files::GgufFileWriter::Create(options.out, plan.layout, {.replace = options.force}));
  SLUICE_ASSIGN_OR_RETURN(const Json tensors, WriteTensors(*file, plan.layout, options, *writer));
  SLUICE_RETURN_IF_ERROR(writer->Finish());
  const double seconds = (NowMicros() - start) * 1e-6;
  uint64_t before = 0;
  for (const files::FileTensor& tensor : file->tensors()) before += tensor.data.size();
  uint64_t after = 0;
  for (const files::GgufTensorLayout& tensor : plan.layout.tensors) after += tensor.bytes();
  if (options.json) {
    std::cout << DumpJson(Json{{"output", options.out},
                               {"type", type.name},
                               {"tensors", tensors},
                               {"tensor_bytes_before", before},
                               {"tensor_bytes_after", after},
                               {"file_bytes", writer->size()},
                               {"seconds", seconds}})
              << "\n";
  } else {
    std::cout << std::fixed << std::setprecision(1) << "tensors " << before / kMebibyte
              << " MiB -> " << after / kMebibyte << " MiB in " << seconds << " s: " << options.out
              << " (" << CountsOf(tensors) << ")\n";
    WarnOfQuantizedInput(*file);
  }
  return OkStatus();
}

}  // namespace

Action SetUpQuantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  app.add_option("in", options->in, "a .gguf file, or a name in the model cache")
      ->required()
      ->type_name("IN");
  app.add_option("out", options->out, "the .gguf file to write")->required()->type_name("OUT");
  std::string types;
  for (const weights::FileType& type : weights::FileTypes()) {
    types += StrCat(types.empty() ? "" : " ", type.name);
  }
  app.add_option("--type", options->type, types)->required();
  app.add_option("--threads", options->threads, "threads that convert; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--force", options->force, "replace OUT if it exists");
  app.add_flag("--json", options->json, "print one JSON object");
  return [options] { return Quantize(*options); };
}

}  // namespace sluice::cli
