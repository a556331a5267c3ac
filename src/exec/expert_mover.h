// ExpertMover: moves experts from slot to slot on a device between steps, as a Balancer wants it,
// and keeps the map there that the model's layers read. Bytes are copied on the stream of the
// steps, so many between two of them at most; nobody waits. A slot's bytes are copied while no map
// names it, and it is named once the stream has passed them, with the copy of the layer's map that
// the next step finds. Step thread only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "experts/balancer.h"
#include "model/model.h"
#include "sluice/options.h"
#include "weights/expert_slots.h"

namespace sluice::exec {

// What the options make of the experts of a model. ranks is 1 where they stay where they are.
struct ExpertRanks {
  experts::MapShape shape;
  experts::BalanceInterval interval;
  std::string interval_text;
  size_t step_bytes = 0;  // copied between two steps, at most

  // ModelOptions::expert_slots.
  int slots() const { return shape.ranks > 1 ? shape.slots() : 0; }
};

// kInvalidArgument with one sentence: the options do not fit one another, or the model.
Result<ExpertRanks> ExpertRanksOf(const files::ModelConfig& config, const EngineOptions& options);

class ExpertMover {
 public:
  // `device` and `model` must outlive it. REQUIRES: the model was loaded with ranks.slots(), which
  // are some.
  static Result<std::unique_ptr<ExpertMover>> Make(device::Device& device, model::Model& model,
                                                   const ExpertRanks& ranks);
  // Device memory that Make takes for a model with so many slots.
  static size_t DeviceBytes(const files::ModelConfig& config, int slots);

  // model::ForwardContext::expert_maps.
  const ops::Tensor& maps() const { return maps_; }
  experts::Balancer& balancer() { return balancer_; }

  // Before a step is put on the stream: puts copies there that the step then follows, unless those
  // of an earlier call are still on their way. Plans by `loads`.
  Status Advance(device::Stream& stream, const experts::Loads& loads);
  // What is on the stream may be lost: what was copied and not named yet is copied again.
  void Lost() { lost_ = true; }

 private:
  struct Moving {
    experts::SlotCopy copy;
    size_t done = 0;  // bytes of it on the stream
  };
  // What the experts of a layer have.
  struct Layer {
    std::vector<std::string> parameters;
    std::vector<std::vector<weights::SlotMemory>> memory;  // by parameter
    size_t slot_bytes = 0;
  };

  ExpertMover(device::Device& device, model::Model& model, const ExpertRanks& ranks);
  Status TakeMemory();
  // Names the slots whose bytes are there.
  void EndCopies();
  // Puts the next bytes of a copy into copies_, as many as `budget` has.
  void Continue(Moving* moving, size_t* budget);
  // Puts those rows of the map there that have changed.
  Status SendMaps(device::Stream& stream);

  device::Device& device_;
  model::Model& model_;
  const size_t step_bytes_;
  experts::Balancer balancer_;
  std::vector<Layer> layers_;  // with experts
  device::Buffer map_memory_, staging_;
  ops::Tensor maps_;  // in map_memory_
  std::unique_ptr<device::Event> passed_;
  std::vector<uint64_t> sent_;  // version of each layer's map on the device
  std::vector<Moving> moving_;
  std::vector<device::CopyItem> copies_;  // scratch
  uint64_t weights_version_ = 0;          // that moving_ copies
  bool lost_ = false;
};

}  // namespace sluice::exec
