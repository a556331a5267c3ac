#include "exec/activation_dump.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "batch/draft_tree.h"
#include "device/staging.h"
#include "exec/whole_number.h"
#include "files/architectures.h"
#include "files/safetensors_writer.h"

namespace sluice::exec {
namespace {

constexpr char kDumpField[] = "dump-activations";

Status MalformedDump(const std::string& text) {
  return InvalidArgument(
      StrCat("--dump-activations ", Quote(text),
             " is not FOLDER:LAYERS:STEPS, as /tmp/dump:0,11:0-3 is, with layers that ascend"),
      kDumpField);
}

std::span<const std::byte> BytesOf(const std::vector<int32_t>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Result<DumpWanted> ParseDump(const std::string& text) {
  DumpWanted wanted;
  const size_t steps_at = text.rfind(':');
  const size_t layers_at = steps_at == 0 || steps_at == std::string::npos
                               ? std::string::npos
                               : text.rfind(':', steps_at - 1);
  if (layers_at == 0 || layers_at == std::string::npos) return MalformedDump(text);
  wanted.folder = text.substr(0, layers_at);
  std::string_view layers = std::string_view(text).substr(layers_at + 1, steps_at - layers_at - 1);
  for (;;) {
    const size_t comma = layers.find(',');
    const int layer = WholeNumber(layers.substr(0, comma));
    if (layer < 0 || (!wanted.layers.empty() && layer <= wanted.layers.back()))
      return MalformedDump(text);
    wanted.layers.push_back(layer);
    if (comma == std::string_view::npos) break;
    layers.remove_prefix(comma + 1);
  }
  const std::string_view steps = std::string_view(text).substr(steps_at + 1);
  const size_t dash = steps.find('-');
  wanted.first_step = WholeNumber(steps.substr(0, dash));
  wanted.last_step =
      dash == std::string_view::npos ? wanted.first_step : WholeNumber(steps.substr(dash + 1));
  if (wanted.first_step < 0 || wanted.last_step < wanted.first_step) return MalformedDump(text);
  return wanted;
}

Status CheckDump(const DumpWanted& wanted, const files::ModelConfig& config,
                 const EngineOptions& options) {
  if (wanted.layers.back() >= config.stored_layers()) {
    return InvalidArgument(StrCat("--dump-activations names layer ", wanted.layers.back(),
                                  "; the model has ", config.stored_layers(), ", from 0 on"),
                           kDumpField);
  }
  if (files::InfoOf(config.architecture).norm_places != files::NormPlaces::kBefore ||
      config.parallel_norms) {
    return Status(StatusCode::kUnimplemented,
                  StrCat("--dump-activations takes what layers add to the residual stream, and "
                         "those of ",
                         files::ArchitectureName(config.architecture), " end in a norm"),
                  kDumpField);
  }
  constexpr std::string_view kHeads[] = {"mtp", "eagle", "eagle3", "block"};
  if (std::find(std::begin(kHeads), std::end(kHeads), options.speculate) != std::end(kHeads)) {
    return InvalidArgument(StrCat("--dump-activations and --speculate ", options.speculate,
                                  " read hidden states of other layers; take --speculate none"),
                           kDumpField);
  }
  const int64_t bytes = wanted.steps() * options.max_batch_tokens *
                        static_cast<int64_t>(wanted.layers.size()) * config.hidden_size *
                        static_cast<int64_t>(sizeof(float));
  if (bytes <= kDumpBytesMax) return OkStatus();
  return InvalidArgument(StrCat("--dump-activations of ", wanted.steps(), " steps of up to ",
                                options.max_batch_tokens, " tokens and ", wanted.layers.size(),
                                " layers may write ", bytes, " bytes; the limit is ", kDumpBytesMax,
                                ": name fewer steps or layers, or lower --max-batch-tokens"),
                         kDumpField);
}

Result<std::unique_ptr<ActivationDump>> ActivationDump::Make(device::Device& device,
                                                             DumpWanted wanted) {
  std::error_code error;
  if (!std::filesystem::is_directory(wanted.folder, error)) {
    return InvalidArgument(
        StrCat("--dump-activations: ", Quote(wanted.folder), " is not a folder; make it first"),
        kDumpField);
  }
  return std::unique_ptr<ActivationDump>(new ActivationDump(device, std::move(wanted)));
}

void ActivationDump::Take(device::Stream& stream, const batch::BatchPlan& plan,
                          const ops::Tensor& hidden) {
  if (plan.tokens.empty()) return;
  const int64_t step = steps_++;
  if (failed_ || step < wanted_.first_step || step > wanted_.last_step) return;
  const Status status = Write(stream, plan, hidden);
  if (status.ok()) return;
  failed_ = true;
  LogError("--dump-activations: step ", step,
           " and those behind it are not written: ", status.message());
}

Status ActivationDump::Write(device::Stream& stream, const batch::BatchPlan& plan,
                             const ops::Tensor& hidden) {
  const auto tokens = static_cast<int64_t>(plan.tokens.size());
  const auto layers = static_cast<int64_t>(wanted_.layers.size());
  const int64_t width = hidden.dims[1] / layers;
  const size_t row = RowBytes(hidden.dtype, static_cast<size_t>(hidden.dims[1]));
  const size_t part = row / static_cast<size_t>(layers);
  const size_t bytes = static_cast<size_t>(tokens) * row;
  if (staging_.bytes() < bytes) {
    SLUICE_ASSIGN_OR_RETURN(staging_, device::AllocateStaging(device_, bytes));
  }
  device::CopyItem item{staging_.view(), {hidden.data, bytes, hidden.memory, hidden.device}};
  item.destination.bytes = bytes;
  SLUICE_RETURN_IF_ERROR(device_.Copy(stream, {&item, 1}));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  std::vector<int32_t> positions, sequences;
  for (const batch::PlanEntry& entry : plan.entries) {
    const int32_t drafts = entry.tree < 0 ? 0 : entry.logits_count - 1;
    const int32_t root = entry.query_tokens - 1 - drafts;
    const batch::DraftDepths depths =
        batch::Depths(std::span(plan.parents).subspan(std::max(0, entry.tree), drafts));
    for (int32_t i = 0; i < entry.query_tokens; ++i) {
      const bool draft = drafts > 0 && i > root;
      positions.push_back(entry.first_position + (draft ? root + depths[i - root] : i));
      sequences.push_back(static_cast<int32_t>(entry.sequence & 0x7fffffff));
    }
  }
  std::vector<files::SafetensorsTensor> tensors = {
      {"token_ids", DType::kI32, {tokens}, {BytesOf(plan.tokens)}},
      {"positions", DType::kI32, {tokens}, {BytesOf(positions)}},
      {"sequences", DType::kI32, {tokens}, {BytesOf(sequences)}}};
  for (int64_t i = 0; i < layers; ++i) {
    files::SafetensorsTensor& tensor = tensors.emplace_back();
    tensor.name = StrCat("layers.", wanted_.layers[static_cast<size_t>(i)], ".hidden");
    tensor.dtype = hidden.dtype;
    tensor.shape = {tokens, width};
    for (int64_t t = 0; t < tokens; ++t) {
      tensor.pieces.emplace_back(
          staging_.data() + static_cast<size_t>(t) * row + static_cast<size_t>(i) * part, part);
    }
  }
  std::string number = StrCat(steps_ - 1);
  number.insert(0, number.size() < 6 ? 6 - number.size() : 0, '0');
  return files::WriteSafetensors(StrCat(wanted_.folder, "/step-", number, ".safetensors"), tensors,
                                 {.replace = true});
}

}  // namespace sluice::exec
