#include "ops/streams.h"

#include "ops/check_args.h"

namespace sluice::ops {
namespace {

template <class Desc>
std::string Text(const Desc& desc) {
  return StrCat(Name(desc.activation), " ", desc.streams, " of ", desc.width);
}

int64_t TokensOf(const Tensor& streams) { return streams.rank == 2 ? streams.dims[0] : -1; }

}  // namespace

std::string PredictStreams::Desc::ToString() const {
  return StrCat(Text(*this), add ? " added" : "");
}

std::string CorrectStreams::Desc::ToString() const {
  return StrCat(Text(*this), scaled ? " scaled" : "");
}

std::string LevelStreams::Desc::ToString() const {
  return StrCat(Text(*this), mean ? " mean" : "");
}

Status CheckArgs(const PredictStreams::Desc& desc, const PredictStreams::Args& args) {
  const int64_t tokens = TokensOf(args.streams), streams = desc.streams;
  const DType type = ResidualDType(desc.activation);
  ArgsChecker check(PredictStreams::kName, args.streams);
  check.Expect("streams", args.streams, type, {tokens, streams * desc.width})
      .ExpectIf(desc.add, "added", args.added, desc.activation, {tokens, desc.width})
      .Expect("routes", args.routes, DType::kF32, {tokens, streams})
      .Expect("coefficients", args.coefficients, DType::kF32, {streams * streams, streams})
      .Expect("out", args.out, type, {tokens, desc.width})
      .ExpectApart("streams", args.streams, "out", args.out)
      .ExpectApart("streams", args.streams, "added", args.added)
      .ExpectApart("added", args.added, "out", args.out);
  return check.status();
}

Status CheckArgs(const CorrectStreams::Desc& desc, const CorrectStreams::Args& args) {
  const int64_t tokens = TokensOf(args.streams), streams = desc.streams;
  const DType type = ResidualDType(desc.activation);
  ArgsChecker check(CorrectStreams::kName, args.streams);
  check.Expect("streams", args.streams, type, {tokens, streams * desc.width})
      .Expect("x", args.x, type, {tokens, desc.width})
      .Expect("routes", args.routes, DType::kF32, {tokens, streams})
      .Expect("coefficients", args.coefficients, DType::kF32, {streams, streams})
      .ExpectIf(desc.scaled, "scale", args.scale, DType::kF32, {desc.width})
      .Expect("out", args.out, desc.activation, {tokens, desc.width})
      .ExpectApart("streams", args.streams, "out", args.out)
      .ExpectApart("streams", args.streams, "x", args.x)
      .ExpectApart("x", args.x, "out", args.out);
  return check.status();
}

Status CheckArgs(const LevelStreams::Desc& desc, const LevelStreams::Args& args) {
  const int64_t tokens = TokensOf(args.streams);
  const DType type = ResidualDType(desc.activation);
  ArgsChecker check(LevelStreams::kName, args.streams);
  check.Expect("streams", args.streams, type, {tokens, desc.streams * desc.width})
      .ExpectIf(desc.mean, "out", args.out, type, {tokens, desc.width})
      .ExpectApart("streams", args.streams, "out", args.out);
  return check.status();
}

}  // namespace sluice::ops
