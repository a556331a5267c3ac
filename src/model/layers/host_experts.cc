#include "model/layers/host_experts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/str_cat.h"
#include "device/part.h"
#include "model/layers/decoder_params.h"
#include "ops/call_list.h"
#include "ops/formats/rows.h"

namespace sluice::model::layers {
namespace {

device::GraphSupport GraphsOf(const device::DeviceFacts& facts) {
  return facts.captures_host_calls ? device::GraphSupport::kFull : device::GraphSupport::kPiecewise;
}

using device::CopyItem;
using device::View;

size_t BytesOf(const ops::Tensor& tensor) {
  return RowBytes(tensor.dtype, static_cast<size_t>(tensor.size()));
}

View ViewOf(const ops::Tensor& tensor) {
  return {tensor.data, BytesOf(tensor), tensor.memory, tensor.device};
}

// The pinned memory through which a step's tokens come to the host and back.
struct StagingBytes {
  size_t x, ids, weights, counted, given;

  StagingBytes(const files::ModelConfig& config, const ModelOptions& options, DType activation) {
    const auto tokens = static_cast<size_t>(options.max_tokens);
    const size_t hidden = tokens * static_cast<size_t>(config.hidden_size);
    const size_t choices = tokens * static_cast<size_t>(config.experts.per_token);
    x = RowBytes(activation, hidden);
    ids = choices * sizeof(int32_t);
    weights = choices * sizeof(float);
    counted = sizeof(int32_t);
    given = hidden * sizeof(float);
  }
  size_t sum() const { return x + ids + weights + counted + given; }
};

// What the host's own ops are bound with: its activations may be of another type.
ModelOptions OnHost(ModelOptions options) {
  options.activation = options.host->facts().activation;
  return options;
}

// A dense tensor to the beginning of `staging`.
CopyItem ToHost(const ops::Tensor& tensor, const device::Buffer& staging) {
  return {staging.view(), ViewOf(tensor)};
}

}  // namespace

HostExperts::HostExperts(device::Device& device, const Binder& binder,
                         const weights::ParameterMap& parameters)
    : device_(device),
      config_(binder.config),
      activation_(binder.options.activation),
      options_(OnHost(binder.options)),
      parameters_(parameters) {}

Result<std::unique_ptr<HostExperts>> HostExperts::Make(device::Device& device, const Binder& binder,
                                                       const weights::ParameterMap& parameters) {
  const device::DeviceFacts& facts = device.facts();
  if (!facts.pinned_memory) {
    return Status(
        StatusCode::kUnimplemented,
        StrCat("experts on the host need host memory that is pinned for ",
               device::ToString(facts.id), ", which it does not do; leave ", "--experts-on out"));
  }
  std::unique_ptr<HostExperts> experts(new HostExperts(device, binder, parameters));
  SLUICE_RETURN_IF_ERROR(experts->TakeMemory());
  SLUICE_RETURN_IF_ERROR(experts->MakeConstants());
  const bool adds = BlocksAdd(binder.config);
  const DType out = adds ? ops::ResidualDType(experts->activation_) : experts->activation_;
  SLUICE_ASSIGN_OR_RETURN(
      experts->combine_,
      binder.Bind<ops::CombineExperts>(
          {.out = out, .top_k = 1, .width = binder.config.hidden_size, .residual = adds}));
  if (binder.options.records != nullptr) {
    ops::BindRecord record;
    record.op = kName;
    record.shape = StrCat(binder.options.host_layers.size(), " layers");
    record.chosen = "experts on the host";
    record.graphs = GraphsOf(facts);
    binder.options.records->push_back(std::move(record));
  }
  return experts;
}

Status HostExperts::TakeMemory() {
  SLUICE_ASSIGN_OR_RETURN(host_stream_, options_.host->CreateStream());
  SLUICE_ASSIGN_OR_RETURN(workspace_, options_.host->Allocate(Activations::Bytes(config_, options_),
                                                              device::MemoryKind::kHost));
  const StagingBytes staging(config_, options_, activation_);
  const auto pin = [&](size_t bytes, device::Buffer* buffer) -> Status {
    SLUICE_ASSIGN_OR_RETURN(*buffer, device_.Allocate(bytes, device::MemoryKind::kPinned));
    return OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(pin(staging.x, &x_));
  SLUICE_RETURN_IF_ERROR(pin(staging.ids, &ids_));
  SLUICE_RETURN_IF_ERROR(pin(staging.weights, &weights_));
  SLUICE_RETURN_IF_ERROR(pin(staging.counted, &counted_));
  return pin(staging.given, &given_);
}

size_t HostExperts::HostBytes(const files::ModelConfig& config, const ModelOptions& options) {
  if (options.host_layers.empty()) return 0;
  return StagingBytes(config, options, options.activation).sum() +
         Activations::Bytes(config, OnHost(options));
}

size_t HostExperts::DeviceBytes(const ModelOptions& options) {
  if (options.host_layers.empty()) return 0;
  return static_cast<size_t>(options.max_tokens) * (sizeof(float) + sizeof(int32_t));
}

Status HostExperts::MakeConstants() {
  const auto tokens = static_cast<size_t>(options_.max_tokens);
  SLUICE_ASSIGN_OR_RETURN(constants_,
                          device_.Allocate(DeviceBytes(options_), device::MemoryKind::kDevice));
  std::vector<float> ones(tokens, 1.0f);
  std::vector<int32_t> places(tokens);
  std::iota(places.begin(), places.end(), 0);
  const View first = device::Part(constants_.view(), 0, tokens * sizeof(float));
  const View second = device::Behind(constants_.view(), first.bytes);
  ones_ = ops::Dense(first, DType::kF32, {options_.max_tokens, 1});
  places_ = ops::Dense(second, DType::kI32, {options_.max_tokens, 1});
  const auto host = [&](void* data, size_t bytes) {
    return View{static_cast<std::byte*>(data), bytes, device::MemoryKind::kHost,
                device_.facts().id};
  };
  const std::array<CopyItem, 2> items = {CopyItem{first, host(ones.data(), first.bytes)},
                                         CopyItem{second, host(places.data(), second.bytes)}};
  SLUICE_ASSIGN_OR_RETURN(const auto stream, device_.CreateStream());
  SLUICE_RETURN_IF_ERROR(device_.Copy(*stream, items));
  return stream->Synchronize();
}

bool HostExperts::Has(int layer) const {
  return std::binary_search(options_.host_layers.begin(), options_.host_layers.end(), layer);
}

Result<ExpertProducts> HostExperts::MakeProducts(int layer) const {
  ModelOptions options = options_;
  std::vector<ops::BindRecord> records;
  options.records = &records;
  const Binder binder{config_, options, parameters_, options_.host->ops()};
  auto products =
      ExpertProducts::Make(binder, layer, config_.experts.count, DType::kF32, /*adds=*/false);
  if (options_.records != nullptr) TellOnHost(&records, options_.records);
  return products;
}

void HostExperts::TellOnHost(std::vector<ops::BindRecord>* of_host,
                             std::vector<ops::BindRecord>* records) {
  for (ops::BindRecord& record : *of_host) {
    record.shape += ", on the host";
    record.scratch_bytes = nullptr;
    records->push_back(std::move(record));
  }
}

Status HostExperts::operator()(device::Stream& stream, const ExpertProducts& products,
                               const DeviceBatch& batch, const Activations& a,
                               const ops::Tensor& residual, const ops::Tensor& out) const {
  const int64_t tokens = batch.tokens();
  const ops::Tensor given = a.expert_out.Rows(0, tokens);
  if (stream.lists_calls()) {
    static_cast<ops::CallList&>(stream).Add(
        {kName, GraphsOf(device_.facts()),
         [this, products = &products, batch, a, given](device::Stream& on) {
           return Exchange(on, *products, batch, a, given);
         }});
  } else {
    SLUICE_RETURN_IF_ERROR(Exchange(stream, products, batch, a, given));
  }
  return combine_(stream, {.y = given,
                           .weights = ones_.Rows(0, tokens),
                           .places = places_.Rows(0, tokens),
                           .residual = residual,
                           .out = out});
}

Status HostExperts::Exchange(device::Stream& stream, const ExpertProducts& products,
                             const DeviceBatch& batch, const Activations& a,
                             const ops::Tensor& given) const {
  const std::array<CopyItem, 4> down = {
      ToHost(a.normed, x_), ToHost(a.expert_ids, ids_), ToHost(a.expert_weights, weights_),
      ToHost(batch.query_start.Rows(batch.sequences(), 1), counted_)};
  SLUICE_RETURN_IF_ERROR(device_.Copy(stream, down));
  // Whoever waits for the stream next finds the error, maybe in a later step: as one of the device
  // it is that of every step that has not ended.
  SLUICE_RETURN_IF_ERROR(stream.CallOnHost([this, products = &products, tokens = batch.tokens()] {
    const Status status = Compute(*products, tokens);
    return status.ok()
               ? status
               : Status(StatusCode::kDevice, StrCat("experts on the host: ", status.message()));
  }));
  const CopyItem up{ViewOf(given), device::Part(given_.view(), 0, BytesOf(given))};
  return device_.Copy(stream, {&up, 1});
}

Status HostExperts::Compute(const ExpertProducts& products, int64_t tokens) const {
  const int64_t rows = std::min<int64_t>(tokens, *reinterpret_cast<int32_t*>(counted_.data()));
  if (rows <= 0) return OkStatus();
  const int64_t each = config_.experts.per_token;
  // What a device that failed leaves behind is not followed.
  const auto* const ids = reinterpret_cast<const int32_t*>(ids_.data());
  const bool known = std::all_of(ids, ids + rows * each,
                                 [&](int32_t id) { return id >= 0 && id < config_.experts.count; });
  if (!known) {
    return Status(StatusCode::kInternal, "the device gave a token an expert that does not exist");
  }
  const auto on_host = [&](const device::Buffer& buffer, DType dtype, int64_t width) {
    const View view{buffer.data(), buffer.bytes(), device::MemoryKind::kHost,
                    options_.host->facts().id};
    return ops::Dense(view, dtype, {rows, width});
  };
  const Activations a = Activations::Slice(workspace_.view(), config_, options_, rows, 0);
  ExpertProducts::Args args;
  args.x = on_host(x_, activation_, config_.hidden_size);
  if (activation_ != DType::kF32) {
    CHECK(options_.activation == DType::kF32, "the host computes in F32");
    ops::DequantizeRow(activation_, x_.data(),
                       {a.normed.ptr<float>(), static_cast<size_t>(args.x.size())});
    args.x = a.normed;
  }
  args.ids = on_host(ids_, DType::kI32, each);
  args.weights = on_host(weights_, DType::kF32, each);
  args.out = on_host(given_, DType::kF32, config_.hidden_size);
  return products(*host_stream_, args, a);
}

}  // namespace sluice::model::layers
