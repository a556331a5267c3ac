#include "ops/linear.h"

#include <cstring>

#include "ops/expect_weight.h"
#include "ops/formats/format.h"

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

std::string_view Name(WeightScales scales) {
  constexpr std::string_view kNames[] = {"", " scaled by tensor", " scaled by row",
                                         " scaled by block"};
  return kNames[static_cast<size_t>(scales)];
}

std::string_view Name(ActivationScales scales) {
  constexpr std::string_view kNames[] = {"", " in F8 by tensor", " in F8 by row",
                                         " in F8 by block"};
  return kNames[static_cast<size_t>(scales)];
}

constexpr LinearPacking kRowMajorPacking = {LayoutId::kRowMajor, 1, &RowMajorBytes, &CopyRows};

}  // namespace

std::string Linear::Desc::ToString() const {
  return StrCat(Name(weight), Name(weight_scales), " ", n, "x", k, " on ", Name(activation),
                Name(x_scales), bias ? " +bias" : "", residual ? " +residual" : "",
                f32_out ? " to F32" : "", ordered ? ", ordered columns" : "");
}

std::vector<int64_t> ScaleShape(const Linear::Desc& desc) {
  switch (desc.weight_scales) {
    case WeightScales::kRow:
      return {desc.n};
    case WeightScales::kBlock:
      return {(desc.n + kScaleBlock - 1) / kScaleBlock, (desc.k + kScaleBlock - 1) / kScaleBlock};
    default:
      return {1};
  }
}

Support NoWeightScales(const Linear::Desc& desc) {
  return desc.weight_scales == WeightScales::kNone
             ? Support::Yes()
             : Support::No(StrCat("weights", Name(desc.weight_scales)));
}

const LinearPacking& PackingOf(const OpTable& table, std::string_view implementation) {
  const LinearPacking* packing = table.Attached<LinearPacking>(implementation);
  return packing != nullptr ? *packing : kRowMajorPacking;
}

bool TakesCodes(const OpTable& table, std::string_view implementation, const Linear::Desc& desc) {
  return desc.x_scales == ActivationScales::kBlock &&
         table.Attached<TakesCodedRows>(implementation) != nullptr;
}

Status CheckLinearArgs(const Linear::Desc& desc, const Linear::Args& args, LayoutId layout,
                       bool takes_codes) {
  const PackedWeight* weight = args.weight;
  if (weight == nullptr || weight->data.empty() || weight->dtype != desc.weight ||
      weight->layout != layout || weight->n != desc.n || weight->k != desc.k) {
    return InvalidArgument(StrCat("linear: the weight given is not the ", desc.ToString(),
                                  " in layout ", static_cast<uint32_t>(layout)));
  }
  const int64_t m = args.x.rank == 2 ? args.x.dims[0] : -1;
  const bool coded =
      takes_codes && desc.x_scales == ActivationScales::kBlock && !args.x_scales.empty();
  const int64_t groups = (desc.k + kScaleBlock - 1) / kScaleBlock;
  ArgsChecker check(Linear::kName, args.x);
  check.Expect("x", args.x, coded ? DType::kF8E4M3 : desc.activation, {m, desc.k})
      .ExpectIf(coded, "x_scales", args.x_scales, DType::kF32, {groups, m})
      .ExpectHere("weight", weight->data)
      .ExpectIf(desc.bias, "bias", args.bias, desc.activation, {desc.n})
      .ExpectIf(desc.residual, "residual", args.residual, OutDType(desc), {m, desc.n})
      .Expect("out", args.out, OutDType(desc), {m, desc.n})
      .ExpectApart("x", args.x, "out", args.out)
      .ExpectApartOrSame("residual", args.residual, "out", args.out);
  ExpectScales(desc, *weight, check);
  return check.status();
}

Status CheckPackedRows(const Linear::Desc& desc, int64_t first_row, size_t bytes) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  if (!WholeBlocks(desc.weight, desc.k) || row_bytes == 0 || bytes % row_bytes != 0) {
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
