// sluice_linear_rows [device]: a row's bits from every implementation of linear on the device do
// not depend on the rows around it. Each case is run with many rows, with the first ones of them
// and row by row; outputs must agree in every bit. Some rows are held against products in double
// precision, so that the bits that agree are right ones. `device` as --device has it; default: cpu.
// Exits with 1 when one differs, with 2 when the device is absent.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "device/resolver.h"
#include "ops/formats/rows.h"
#include "ops/host_array.h"
#include "ops/linear.h"

namespace {

using namespace sluice;
using ops::Array;
using ops::Linear;
using ops::Tensor;

struct Shape {
  int64_t n, k;
};
// The last one is for devices that have other kernels where there is much to do.
constexpr Shape kShapes[] = {{200, 1536}, {77, 256}, {6400, 2304}};
// Rows of W that differ; making more takes quantizers long.
constexpr int64_t kDistinct = 37;
constexpr int64_t kRows = 300;
constexpr int64_t kBatches[] = {2, 5, 8, 9, 16, 17, 31, 33, 64, 65, 100, kRows};
// Rows that are also computed alone.
constexpr int64_t kAlone[] = {0, 1, 7, 8, 15, 30, 32, 63, 64, 99, 299};

constexpr DType kWeights[] = {DType::kF32,  DType::kF16,  DType::kBF16,   DType::kF8E4M3,
                              DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0,
                              DType::kQ5_1, DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,
                              DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kMXFP4};

struct Machine {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
};

device::View HostView(std::vector<std::byte>& bytes, const Machine& machine) {
  return {bytes.data(), bytes.size(), device::MemoryKind::kHost, machine.device->facts().id};
}

Result<device::Buffer> Upload(Machine& machine, std::vector<std::byte> bytes) {
  SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                          machine.device->Allocate(bytes.size(), device::MemoryKind::kDevice));
  const device::CopyItem item = {buffer.view(), HostView(bytes, machine)};
  SLUICE_RETURN_IF_ERROR(machine.device->Copy(*machine.stream, {&item, 1}));
  return buffer;
}

// Normal numbers where the format has a quantizer, otherwise its bits with small scales.
std::vector<std::byte> Weight(DType dtype, int64_t n, int64_t k) {
  ops::TestNoise noise(static_cast<uint64_t>(n * k));
  const size_t row_bytes = RowBytes(dtype, static_cast<size_t>(k));
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(n));
  if (!ops::CanQuantize(dtype)) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>((noise.Next() & 0xbf) | 4);
    return bytes;
  }
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t r = 0; r < std::min(n, kDistinct); ++r) {
    for (float& value : row) value = noise.Value();
    ops::QuantizeRow(dtype, row, bytes.data() + r * row_bytes);
  }
  for (int64_t r = kDistinct; r < n; ++r) {
    std::memcpy(&bytes[r * row_bytes], &bytes[r % kDistinct * row_bytes], row_bytes);
  }
  return bytes;
}

// The rows [first, first + count) of x through `bound`; the outputs' bytes. What a kernel leaves
// out keeps a byte that another call has otherwise, so that it counts as a difference.
Result<std::vector<std::byte>> Run(Machine& machine, const ops::Bound<Linear>& bound,
                                   const ops::PackedWeight& weight, const Tensor& x, int64_t first,
                                   int64_t count) {
  const Linear::Desc& desc = bound.desc();
  const DType type = ops::OutDType(desc);
  std::vector<std::byte> bytes(RowBytes(type, static_cast<size_t>(count * desc.n)),
                               std::byte(0x50 + count % 16));
  SLUICE_ASSIGN_OR_RETURN(device::Buffer out, Upload(machine, bytes));
  Linear::Args args;
  args.x = x.Rows(first, count);
  args.weight = &weight;
  args.out = ops::Dense(out.view(), type, {count, desc.n});
  SLUICE_RETURN_IF_ERROR(bound(*machine.stream, args));
  SLUICE_RETURN_IF_ERROR(machine.stream->Synchronize());
  const device::CopyItem item = {HostView(bytes, machine), out.view()};
  SLUICE_RETURN_IF_ERROR(machine.device->Copy(*machine.stream, {&item, 1}));
  return bytes;
}

struct Count {
  int64_t outputs = 0, different = 0;
  double error = 0.0;  // the largest of a case, |got - expected| / |expected| over its outputs
};

// What rounding x to int8 or bf16, or sums in F32 alone, may be off by.
double ErrorMax(ops::Arithmetic arithmetic, DType activation) {
  if (arithmetic == ops::Arithmetic::kInt8) return 2e-2;
  const bool rounds = arithmetic == ops::Arithmetic::kBf16;
  return rounds && activation == DType::kF32 ? 5e-3 : 4e-6;
}

// Some rows of x times some of W in double precision against `got`, in F32.
double ErrorOf(const Linear::Desc& desc, const std::vector<std::byte>& w, const Array& x,
               const std::vector<std::byte>& got) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  std::vector<float> row(static_cast<size_t>(desc.k));
  double off = 0.0, size = 0.0;
  for (int64_t column = 0; column < desc.n; column += 5) {
    ops::DequantizeRow(desc.weight, w.data() + column * row_bytes, row);
    for (const int64_t token : {0, 9, 130}) {
      double sum = 0.0;
      for (int64_t i = 0; i < desc.k; ++i) {
        sum += double{row[i]} * double{x.At(static_cast<size_t>(token * desc.k + i))};
      }
      float value = 0.0f;
      std::memcpy(&value, got.data() + (token * desc.n + column) * sizeof value, sizeof value);
      off += (value - sum) * (value - sum);
      size += sum * sum;
    }
  }
  return std::sqrt(off / size);
}

Status CompareRows(Machine& machine, const ops::Bound<Linear>& bound,
                   const ops::PackedWeight& weight, const Tensor& x,
                   const std::vector<std::byte>& all, Count* count) {
  const size_t row_bytes = all.size() / kRows;
  const auto compare = [&](const std::vector<std::byte>& part, int64_t first) {
    const size_t size = row_bytes / static_cast<size_t>(bound.desc().n);
    for (size_t i = 0; i < part.size(); i += size) {
      ++count->outputs;
      if (std::memcmp(&part[i], &all[first * row_bytes + i], size) != 0) ++count->different;
    }
  };
  for (const int64_t rows : kBatches) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> part,
                            Run(machine, bound, weight, x, 0, rows));
    compare(part, 0);
  }
  for (const int64_t row : kAlone) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> part,
                            Run(machine, bound, weight, x, row, 1));
    compare(part, row);
  }
  return OkStatus();
}

// One implementation with one kind of weight.
Status CheckCase(Machine& machine, const ops::Implementation<Linear>& implementation,
                 const Linear::Desc& desc, Count* count) {
  const ops::Bound<Linear> bound(&implementation, desc);
  const ops::LinearPacking& packing = ops::PackingOf(machine.device->ops(), implementation.name);
  const std::vector<std::byte> rows = Weight(desc.weight, desc.n, desc.k);
  std::vector<std::byte> packed(packing.packed_bytes(desc));
  SLUICE_RETURN_IF_ERROR(packing.pack(desc, 0, rows, packed));
  SLUICE_ASSIGN_OR_RETURN(device::Buffer memory, Upload(machine, packed));
  ops::PackedWeight weight = {{}, desc.weight, packing.layout, desc.n, desc.k};
  weight.data = ops::Dense(memory.view(), DType::kU8, {static_cast<int64_t>(memory.view().bytes)});
  Array x(desc.activation, {kRows, desc.k});
  ops::TestNoise noise(3);
  noise.Fill(x);
  SLUICE_ASSIGN_OR_RETURN(device::Buffer x_memory, Upload(machine, x.bytes()));
  const Tensor on_device = ops::Dense(x_memory.view(), desc.activation, {kRows, desc.k});
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> all,
                          Run(machine, bound, weight, on_device, 0, kRows));
  const double error = ErrorOf(desc, rows, x, all);
  count->error = std::max(count->error, error);
  if (!(error <= ErrorMax(implementation.arithmetic, desc.activation))) {
    return Status(StatusCode::kInternal, StrCat("error ", error));
  }
  return CompareRows(machine, bound, weight, on_device, all, count);
}

// Prints a line per implementation; the number of outputs that differ, -1 after an error.
int64_t CheckImplementation(Machine& machine, const ops::Implementation<Linear>& implementation) {
  Count count;
  bool failed = false;
  for (const DType weight : kWeights) {
    for (const DType activation : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const Shape& shape : kShapes) {
        const Linear::Desc desc = {.weight = weight,
                                   .activation = activation,
                                   .n = shape.n,
                                   .k = shape.k,
                                   .f32_out = true};
        const bool large = shape.n > 1000;
        if (large && !machine.device->facts().device_memory) continue;
        if (!implementation.supports(desc, machine.device->facts()).ok) continue;
        const int64_t before = count.different;
        const Status status = CheckCase(machine, implementation, desc, &count);
        if (status.ok() && count.different == before) continue;
        std::printf("  %s: %s\n", desc.ToString().c_str(),
                    status.ok() ? "rows differ" : status.message().c_str());
        failed = failed || !status.ok();
      }
    }
  }
  std::printf("%-24s %lld of %lld outputs differ, error %.1e\n",
              std::string(implementation.name).c_str(), static_cast<long long>(count.different),
              static_cast<long long>(count.outputs), count.error);
  return failed ? -1 : count.different;
}

int Fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const auto resolution =
      device::ResolveDevice(argc > 1 ? argv[1] : "cpu", device::LinkedBackends());
  if (!resolution.ok()) return Fail(resolution.status());
  Machine machine;
  auto opened = resolution->Open({});
  if (!opened.ok()) return Fail(opened.status());
  machine.device = std::move(opened).value();
  auto stream = machine.device->CreateStream();
  if (!stream.ok()) return Fail(stream.status());
  machine.stream = std::move(stream).value();
  bool same = true;
  for (const auto& implementation : machine.device->ops().List<Linear>()) {
    if (implementation.name == "ref_linear") continue;  // takes one row at a time
    same = CheckImplementation(machine, implementation) == 0 && same;
  }
  return same ? 0 : 1;
}
