#include "ops/linear.h"

#include <cstring>

namespace sluice::ops {

namespace {

size_t RowMajorBytes(const Linear::Desc& desc) {
  return RowBytes(desc.weight, static_cast<size_t>(desc.k)) * static_cast<size_t>(desc.n);
}

Status CopyRows(const Linear::Desc& desc, int64_t first_row, std::span<const std::byte> rows,
                std::span<std::byte> packed) {
  SLUICE_RETURN_IF_ERROR(CheckPackedRows(desc, first_row, rows.size()));
  if (packed.size() != RowMajorBytes(desc)) {
    return InvalidArgument(StrCat("the packed weight has ", packed.size(), " bytes, ",
                                  desc.ToString(), " needs ", RowMajorBytes(desc)));
  }
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  if (!rows.empty()) std::memcpy(packed.data() + first_row * row_bytes, rows.data(), rows.size());
  return OkStatus();
}

constexpr LinearPacking kRowMajorPacking = {LayoutId::kRowMajor, 1, &RowMajorBytes, &CopyRows};

}  // namespace

std::string Linear::Desc::ToString() const {
  return StrCat(Name(weight), " ", n, "x", k, " on ", Name(activation), bias ? " +bias" : "",
                residual ? " +residual" : "", f32_out ? " to F32" : "",
                adapters > 0 ? StrCat(" adapters=", adapters) : std::string());
}

const LinearPacking& PackingOf(const OpTable& table, std::string_view implementation) {
  const LinearPacking* packing = table.Attached<LinearPacking>(implementation);
  return packing != nullptr ? *packing : kRowMajorPacking;
}

namespace {

Status CheckMatrix(const Tensor& tensor, std::string_view what, DType dtype, int64_t rows,
                   int64_t columns) {
  if (!tensor.empty() && tensor.dtype == dtype && tensor.rank == 2 && tensor.dims[0] == rows &&
      tensor.dims[1] == columns && tensor.strides[1] == 1 &&
      (rows <= 1 || tensor.strides[0] >= columns)) {
    return OkStatus();
  }
  return InvalidArgument(StrCat("linear: ", what, " must be ", Name(dtype), " [", rows, ", ",
                                columns, "] with dense rows, not ", Name(tensor.dtype), " [",
                                tensor.dims[0], ", ", tensor.dims[1], "]"));
}

}  // namespace

Status CheckLinearArgs(const Linear::Desc& desc, const Linear::Args& args, LayoutId layout) {
  const PackedWeight* weight = args.weight;
  if (weight == nullptr || weight->data.empty() || weight->dtype != desc.weight ||
      weight->layout != layout || weight->n != desc.n || weight->k != desc.k) {
    return InvalidArgument(StrCat("linear: the weight given is not the ", desc.ToString(),
                                  " in layout ", static_cast<uint32_t>(layout)));
  }
  const int64_t m = args.x.dims[0];
  if (m == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckMatrix(args.x, "x", desc.activation, m, desc.k));
  SLUICE_RETURN_IF_ERROR(CheckMatrix(args.out, "out", OutDType(desc), m, desc.n));
  if (desc.residual) {
    SLUICE_RETURN_IF_ERROR(CheckMatrix(args.residual, "residual", desc.activation, m, desc.n));
  }
  const Tensor& bias = args.bias;
  if (desc.bias && (bias.empty() || bias.dtype != desc.activation || bias.size() != desc.n)) {
    return InvalidArgument(
        StrCat("linear: bias must be ", Name(desc.activation), " [", desc.n, "]"));
  }
  return OkStatus();
}

Status CheckPackedRows(const Linear::Desc& desc, int64_t first_row, size_t bytes) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  if (desc.k % Info(desc.weight).block != 0 || row_bytes == 0 || bytes % row_bytes != 0) {
    return InvalidArgument(
        StrCat(bytes, " bytes are no whole rows of ", desc.k, " elements of ", Name(desc.weight)));
  }
  const int64_t count = static_cast<int64_t>(bytes / row_bytes);
  if (first_row < 0 || first_row > desc.n || count > desc.n - first_row) {
    return InvalidArgument(StrCat("rows ", first_row, " to ", first_row + count,
                                  " lie outside the ", desc.n, " rows of the weight"));
  }
  return OkStatus();
}

}  // namespace sluice::ops
