// What a layer needs while it is built: the loaded parameters, the device's ops and the model's
// sizes. Used on the loading thread only.
#pragma once

#include <string_view>
#include <vector>

#include "base/check.h"
#include "files/model_config.h"
#include "model/model.h"
#include "ops/op.h"
#include "weights/parameters.h"

namespace sluice::model::layers {

class HostExperts;

struct Binder {
  const files::ModelConfig& config;
  const ModelOptions& options;
  const weights::ParameterMap& parameters;
  const ops::OpTable& table;
  const HostExperts* host_experts = nullptr;  // of the layers that have some; null: none has

  template <class Op>
  Result<ops::Bound<Op>> Bind(const typename Op::Desc& desc) const {
    return ops::Bind<Op>(table, desc, options.records);
  }
  // Unbound where the device has none that is faster than its parts.
  template <class Op>
  ops::Bound<Op> BindIfFast(const typename Op::Desc& desc) const {
    std::vector<ops::BindRecord> found;
    auto bound = ops::Bind<Op>(table, desc, &found);
    if (!bound.ok() || !found.front().slow.empty()) return {};
    if (options.records != nullptr) options.records->push_back(found.front());
    return *bound;
  }
  // REQUIRES: the architecture's params declare `name`, and it is not optional.
  const weights::Parameter* Get(std::string_view name) const {
    const weights::Parameter* parameter = parameters.Find(name);
    CHECK(parameter != nullptr, "no parameter ", name);
    return parameter;
  }
};

}  // namespace sluice::model::layers
