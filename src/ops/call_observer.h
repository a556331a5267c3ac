// CallObserver: is told of the calls of ops on a stream, before and behind each, by Bound
// (ops/op.h). A stream has one where device::Stream::Observe gave it one, for measurements; graphs
// hold no calls, so it learns of none that are replayed. One thread, that of the stream.
#pragma once

#include <string_view>

#include "device/device.h"
#include "sluice/status.h"

namespace sluice::ops {

// A call of an op, as long as it is made.
struct ObservedCall {
  ObservedCall(std::string_view op_name, std::string_view implementation_name)
      : op(op_name), implementation(implementation_name) {}
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  virtual ~ObservedCall() = default;

  const std::string_view op, implementation;
};

template <class Op>
struct CallOf final : ObservedCall {
  CallOf(std::string_view implementation_name, const typename Op::Desc& of,
         const typename Op::Args& with)
      : ObservedCall(Op::kName, implementation_name), desc(of), args(with) {}

  const typename Op::Desc& desc;
  const typename Op::Args& args;
};

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // An error is that of the call, which is not made.
  virtual Status Before(device::Stream& stream, const ObservedCall& call) = 0;
  // The call was put on the stream, without an error.
  virtual Status Behind(device::Stream& stream, const ObservedCall& call) = 0;
};

}  // namespace sluice::ops
