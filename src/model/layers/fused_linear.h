// A matrix product whose matrix may lie in parts (rows in different number formats). Each part
// writes its own columns of the output. Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/binder.h"
#include "ops/group_quant.h"
#include "ops/linear.h"

namespace sluice::model::layers {

// Rows that products read: as they are, as codes, or both, as whoever makes them gives them.
struct LinearRows {
  LinearRows(const ops::Tensor& as_they_are, const ops::CodedRows& as_codes = {})
      : plain(as_they_are), coded(as_codes) {}
  ops::Tensor plain;
  ops::CodedRows coded;
};
// In which of the two forms a block reads what the norm before it gives.
struct RowsRead {
  bool plain = true, codes = false;
};

class FusedLinear {
 public:
  // The matrix `name` with its bias `name` + "_bias", where the model has one.
  static FusedLinear Make(const Binder& binder, const std::string& name);

  // out = x W^T (+ bias) (+ residual). x [tokens, columns], out and residual [tokens, rows].
  // `residual` is empty unless the matrix was declared with one, and may be `out`.
  // REQUIRES: x has the form that reads() names.
  Status operator()(device::Stream& stream, const LinearRows& x, const ops::Tensor& residual,
                    const ops::Tensor& out) const;

  // Codes where every part's implementation takes some; it reads plain rows, too, where no codes
  // are given.
  RowsRead reads() const { return {.plain = !takes_codes_, .codes = takes_codes_}; }

 private:
  const weights::Parameter* weight_ = nullptr;
  ops::Tensor bias_;
  bool takes_codes_ = false;
};

}  // namespace sluice::model::layers
