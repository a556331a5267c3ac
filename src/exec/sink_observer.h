// SinkObserver: passes the model's layer events on to a KvSink.
#pragma once

#include <memory>
#include <span>

#include "batch/kv_sink.h"
#include "device/device.h"
#include "model/forward.h"

namespace sluice::exec {

class SinkObserver : public model::LayerObserver {
 public:
  // `events`: one per layer.
  SinkObserver(batch::KvSink& sink, device::Stream& stream,
               std::span<const std::unique_ptr<device::Event>> events)
      : sink_(sink), stream_(stream), events_(events) {}
  Status LayerWritten(int layer, int group) override {
    device::Event& event = *events_[layer];
    SLUICE_RETURN_IF_ERROR(stream_.Record(event));
    const auto handle = event.Done() ? 0 : reinterpret_cast<batch::KvSink::EventHandle>(&event);
    return sink_.LayerWritten(layer, group, handle);
  }

 private:
  batch::KvSink& sink_;
  device::Stream& stream_;
  const std::span<const std::unique_ptr<device::Event>> events_;
};

}  // namespace sluice::exec
