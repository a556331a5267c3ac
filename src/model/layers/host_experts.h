// Layers whose experts lie in the host's memory and are computed there, in the order of the stream
// of the device that does the rest: what experts read and which each token takes is copied to the
// host, the host's own ops run over the weights as they lie there, and what they give is copied
// back and added on the device. A row's numbers depend on that row alone, as those of any op do.
//
// All layers and all steps in flight share one set of buffers: the stream keeps them apart, since
// what it copies there, computes and copies back for one layer is done before it gets to the next
// (device::Stream::CallOnHost). A pass on one stream at a time; the model must outlive its graphs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/expert_products.h"

namespace sluice::model::layers {

class HostExperts {
 public:
  static constexpr std::string_view kName = "host_experts";

  // `parameters`: of the experts of ModelOptions::host_layers, on ModelOptions::host. All must
  // outlive it. kUnimplemented where `device` pins no host memory.
  static Result<std::unique_ptr<HostExperts>> Make(device::Device& device, const Binder& binder,
                                                   const weights::ParameterMap& parameters);
  // Of the model's device, that Make takes.
  static size_t DeviceBytes(const ModelOptions& options);
  // Of the host beside the experts' weights, pinned memory among it.
  static size_t HostBytes(const files::ModelConfig& config, const ModelOptions& options);

  // Adds what was bound on the host to what was bound on the device, of whose memory it takes none.
  static void TellOnHost(std::vector<ops::BindRecord>* of_host,
                         std::vector<ops::BindRecord>* records);

  bool Has(int layer) const;
  // The experts of the layer, to be computed on the host. REQUIRES: Has(layer).
  Result<ExpertProducts> MakeProducts(int layer) const;

  // out = what the experts make of a.normed by a.expert_ids and a.expert_weights (+ residual, where
  // blocks add). Rows of padding get any numbers. Uses a.expert_out. `products` must outlive what
  // is put on the stream.
  Status operator()(device::Stream& stream, const ExpertProducts& products,
                    const DeviceBatch& batch, const Activations& a, const ops::Tensor& residual,
                    const ops::Tensor& out) const;

 private:
  HostExperts(device::Device& device, const Binder& binder,
              const weights::ParameterMap& parameters);
  Status TakeMemory();
  Status MakeConstants();
  // Brings the rows to the host and back as `given` on the device, F32 [tokens, hidden size].
  Status Exchange(device::Stream& stream, const ExpertProducts& products, const DeviceBatch& batch,
                  const Activations& a, const ops::Tensor& given) const;
  // What the stream calls, for up to `tokens` tokens: from staging to staging.
  Status Compute(const ExpertProducts& products, int64_t tokens) const;

  device::Device& device_;
  const files::ModelConfig& config_;
  const DType activation_;  // on the device
  ModelOptions options_;    // the model's, with the activation type of the host
  const weights::ParameterMap& parameters_;
  std::unique_ptr<device::Stream> host_stream_;
  device::Buffer workspace_;  // of the host: Activations
  // Pinned; so many rows as a step has tokens at most.
  device::Buffer x_, ids_, weights_, counted_, given_;
  // On the device: each row once and whole, which makes a sum with a residual of combine_.
  device::Buffer constants_;
  ops::Tensor ones_, places_;  // F32, I32 [max_tokens, 1]
  ops::Bound<ops::CombineExperts> combine_;
};

}  // namespace sluice::model::layers
