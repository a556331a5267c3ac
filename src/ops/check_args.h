// ArgsChecker: the shape rules of an op's call, checked before anything is computed. The first
// broken rule becomes the status. Used on one thread; builds no text unless a rule is broken.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/str_cat.h"
#include "ops/tensor.h"
#include "sluice/status.h"

namespace sluice::ops {

class ArgsChecker {
 public:
  // All tensors of the call lie on the device of `main`.
  ArgsChecker(std::string_view op, const Tensor& main) : op_(op), device_(main.device) {}

  // `t` is there with this type and these sizes; -1 stands for any size. Rows (the first dimension)
  // may be strided, the others are dense. A tensor without elements may be null.
  ArgsChecker& Expect(std::string_view name, const Tensor& t, DType dtype,
                      std::initializer_list<int64_t> dims);
  // `t` is there and on the device, whatever its type and sizes.
  ArgsChecker& ExpectHere(std::string_view name, const Tensor& t);
  ArgsChecker& ExpectAbsent(std::string_view name, const Tensor& t);
  // Expect or ExpectAbsent, as `present` says.
  ArgsChecker& ExpectIf(bool present, std::string_view name, const Tensor& t, DType dtype,
                        std::initializer_list<int64_t> dims);
  // The two share no byte.
  ArgsChecker& ExpectApart(std::string_view name_a, const Tensor& a, std::string_view name_b,
                           const Tensor& b);
  // As ExpectApart, but the very same rows are allowed.
  ArgsChecker& ExpectApartOrSame(std::string_view name_a, const Tensor& a, std::string_view name_b,
                                 const Tensor& b);

  bool ok() const { return status_.ok(); }
  void Fail(std::string message);
  const Status& status() const { return status_; }

 private:
  std::string_view op_;
  device::DeviceId device_;
  Status status_;
};

// Every value lies in [low, high); the message names the first that does not.
Status CheckIndices(std::string_view op, std::string_view name, const Tensor& indices, int64_t low,
                    int64_t high);

}  // namespace sluice::ops
