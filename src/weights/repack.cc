#include "weights/repack.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Rows that are widened at a time.
constexpr int64_t kWidenRows = 256;
// Matrices below this are packed by one thread.
constexpr size_t kParallelBytesMin = 1u << 20;

// A source and its first row in the part.
struct TensorRows {
  const files::FileTensor& tensor;
  const files::FileTensor* scale;  // of F8; or null
  int64_t row;
};

// Packs rows [begin, end) of a source.
Status PackRows(const PartPlan& plan, const TensorRows& source, int64_t begin, int64_t end,
                std::span<std::byte> out) {
  const ops::Linear::Desc& desc = plan.linear.desc();
  const files::FileTensor& tensor = source.tensor;
  if (tensor.dtype != DType::kF8E4M3) {
    const size_t row_bytes = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    return plan.packing->pack(desc, source.row + begin,
                              tensor.data.subspan(static_cast<size_t>(begin) * row_bytes,
                                                  static_cast<size_t>(end - begin) * row_bytes),
                              out);
  }
  for (int64_t at = begin; at < end; at += kWidenRows) {
    const int64_t count = std::min(kWidenRows, end - at);
    const std::vector<std::byte> wide = WidenF8(tensor, source.scale, at, count);
    SLUICE_RETURN_IF_ERROR(plan.packing->pack(desc, source.row + at, wide, out));
  }
  return OkStatus();
}

// Packs a whole source. Threads get rows that share no row group.
Status PackTensor(const PartPlan& plan, const TensorRows& source, int threads,
                  std::span<std::byte> out) {
  const int64_t rows = source.tensor.shape[0];
  if (source.tensor.data.size() < kParallelBytesMin || threads <= 1) {
    return PackRows(plan, source, 0, rows, out);
  }
  const int64_t group = plan.packing->row_group;
  std::vector<int64_t> borders = {0};
  for (int t = 1; t < threads; ++t) {
    const int64_t border = (source.row + rows * t / threads) / group * group - source.row;
    if (border > borders.back()) borders.push_back(border);
  }
  borders.push_back(rows);
  std::vector<Status> results(borders.size() - 1);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < results.size(); ++i) {
      workers.emplace_back(
          [&, i] { results[i] = PackRows(plan, source, borders[i], borders[i + 1], out); });
    }
  }
  for (Status& result : results) SLUICE_RETURN_IF_ERROR(std::move(result));
  return OkStatus();
}

}  // namespace

Result<std::vector<PartPlan>> PlanParts(const ResolvedParam& param, const ops::OpTable& table,
                                        DType activation, std::vector<ops::BindRecord>* records) {
  std::vector<PartPlan> parts;
  int64_t row = 0;
  for (size_t i = 0; i < param.tensors.size(); ++i) {
    const DType dtype = LoadedDType(param.tensors[i]->dtype);
    if (parts.empty() || parts.back().dtype != dtype) {
      PartPlan part;
      part.first = i;
      part.dtype = dtype;
      part.row_begin = row;
      parts.push_back(std::move(part));
    }
    parts.back().count += 1;
    parts.back().rows += param.tensors[i]->shape[0];
    row += param.tensors[i]->shape[0];
  }
  for (PartPlan& part : parts) {
    ops::Linear::Desc desc;
    desc.weight = part.dtype;
    desc.activation = activation;
    desc.n = part.rows;
    desc.k = param.spec.columns;
    desc.bias = param.spec.bias;
    desc.residual = param.spec.residual;
    SLUICE_ASSIGN_OR_RETURN(part.linear, ops::Bind<ops::Linear>(table, desc, records));
    part.packing = &ops::PackingOf(table, part.linear.name());
    part.bytes = part.packing->packed_bytes(desc);
  }
  return parts;
}

Status PackPart(const ResolvedParam& param, const PartPlan& plan, int threads,
                std::span<std::byte> out) {
  CHECK(out.size() == plan.bytes, param.spec.name, ": ", out.size(), " != ", plan.bytes);
  int64_t row = 0;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    const TensorRows tensor{*param.tensors[i], param.scales[i], row};
    SLUICE_RETURN_IF_ERROR(PackTensor(plan, tensor, threads, out));
    row += tensor.tensor.shape[0];
  }
  return OkStatus();
}

}  // namespace sluice::weights
