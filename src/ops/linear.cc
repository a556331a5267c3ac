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
                residual ? " +residual" : "",
                adapters > 0 ? StrCat(" adapters=", adapters) : std::string());
}

const LinearPacking& PackingOf(const OpTable& table, std::string_view implementation) {
  const LinearPacking* packing = table.Attached<LinearPacking>(implementation);
  return packing != nullptr ? *packing : kRowMajorPacking;
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
