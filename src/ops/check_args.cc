#include "ops/check_args.h"

namespace sluice::ops {
namespace {

struct ByteRange {
  uintptr_t begin = 0, end = 0;
};

// From the first byte to the last, gaps between strided rows included.
ByteRange RangeOf(const Tensor& t) {
  if (t.data == nullptr || t.size() == 0) return {};
  int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) last += (t.dims[i] - 1) * t.strides[i];
  const auto begin = reinterpret_cast<uintptr_t>(t.data);
  return {begin, begin + static_cast<uintptr_t>((last + 1) * Info(t.dtype).bytes)};
}

bool Overlap(const Tensor& a, const Tensor& b) {
  const ByteRange x = RangeOf(a), y = RangeOf(b);
  return x.begin < y.end && y.begin < x.end;
}

std::string ShapeOf(const Tensor& t) {
  std::string out = "[";
  for (int i = 0; i < t.rank; ++i) out += StrCat(i == 0 ? "" : ", ", t.dims[i]);
  return StrCat(Name(t.dtype), " ", out, "]");
}

}  // namespace

void ArgsChecker::Fail(std::string message) {
  if (status_.ok()) status_ = InvalidArgument(StrCat(op_, ": ", message));
}

ArgsChecker& ArgsChecker::Expect(std::string_view name, const Tensor& t, DType dtype,
                                 std::initializer_list<int64_t> dims) {
  if (!status_.ok()) return *this;
  bool fits = t.dtype == dtype && t.rank == static_cast<int>(dims.size());
  int i = 0;
  for (int64_t dim : dims) {
    if (fits && dim >= 0 && t.dims[i] != dim) fits = false;
    ++i;
  }
  if (!fits) {
    std::string wanted;
    for (int64_t dim : dims) {
      wanted += wanted.empty() ? "" : ", ";
      wanted += dim < 0 ? "any" : StrCat(dim);
    }
    Fail(StrCat(name, " is ", t.rank == 0 ? "missing" : ShapeOf(t), ", expected ",
                sluice::Name(dtype), " [", wanted, "]"));
    return *this;
  }
  if (t.size() == 0) return *this;
  ExpectHere(name, t);
  int64_t dense = 1;
  for (int k = t.rank - 1; k >= 0; --k) {
    const bool strided_rows = k == 0 && t.rank > 1 && t.strides[0] >= dense;
    if (t.dims[k] > 1 && t.strides[k] != dense && !strided_rows) {
      Fail(StrCat(name, " has stride ", t.strides[k], " in dimension ", k, ", expected ", dense));
    }
    dense *= t.dims[k];
  }
  return *this;
}

ArgsChecker& ArgsChecker::ExpectHere(std::string_view name, const Tensor& t) {
  if (!status_.ok()) return *this;
  if (t.data == nullptr) {
    Fail(StrCat(name, " is null"));
  } else if (t.device != device_) {
    Fail(StrCat(name, " lies on ", device::ToString(t.device), ", the call runs on ",
                device::ToString(device_)));
  }
  return *this;
}

ArgsChecker& ArgsChecker::ExpectAbsent(std::string_view name, const Tensor& t) {
  if (status_.ok() && !t.empty()) {
    Fail(StrCat(name, " is given, but the descriptor has none"));
  }
  return *this;
}

ArgsChecker& ArgsChecker::ExpectIf(bool present, std::string_view name, const Tensor& t,
                                   DType dtype, std::initializer_list<int64_t> dims) {
  return present ? Expect(name, t, dtype, dims) : ExpectAbsent(name, t);
}

ArgsChecker& ArgsChecker::ExpectApart(std::string_view name_a, const Tensor& a,
                                      std::string_view name_b, const Tensor& b) {
  if (status_.ok() && Overlap(a, b)) Fail(StrCat(name_a, " and ", name_b, " overlap"));
  return *this;
}

ArgsChecker& ArgsChecker::ExpectApartOrSame(std::string_view name_a, const Tensor& a,
                                            std::string_view name_b, const Tensor& b) {
  const bool same = a.data == b.data && a.strides[0] == b.strides[0];
  return same ? *this : ExpectApart(name_a, a, name_b, b);
}

Status CheckIndices(std::string_view op, std::string_view name, const Tensor& indices, int64_t low,
                    int64_t high) {
  const int32_t* values = indices.ptr<int32_t>();
  for (int64_t i = 0; i < indices.size(); ++i) {
    if (values[i] >= low && values[i] < high) continue;
    return InvalidArgument(StrCat(op, ": ", name, "[", i, "] is ", values[i],
                                  ", outside the range from ", low, " to ", high - 1));
  }
  return OkStatus();
}

}  // namespace sluice::ops
