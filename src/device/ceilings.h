// The most that a device can do, measured on it: what a figure of speed is held against. A meter is
// an interface, as Device is, since whoever asks for one sees no backend; it is for one thread at a
// time, while nothing else runs on the device, and the Device must outlive it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::device {

// Of several runs.
struct Spread {
  double median = 0, min = 0, max = 0;
};
// REQUIRES: `runs` is not empty.
Spread SpreadOf(std::vector<double> runs);

struct MeterOptions {
  int runs = 5;                   // a figure is their median
  double seconds_per_run = 0.02;  // at least
};

class CeilingMeter {
 public:
  virtual ~CeilingMeter() = default;

  // Bytes per second of all compute units reading `bytes` again and again, by the fastest of a few
  // orders of access. The memory stays until the meter goes or is asked for more. kOutOfMemory when
  // `bytes` are more than what is free.
  virtual Result<Spread> ReadBandwidth(size_t bytes) = 0;

  struct Instruction {
    std::string name;      // "avx512_int8": instruction set and operands, as kernels are named
    std::string spelling;  // "vpdpbusd, 512 bits"
  };
  // Those that this device has, whichever set its kernels are bound to.
  virtual std::vector<Instruction> Instructions() const = 0;
  // Multiply-adds per second of all compute units on operands in registers. kInvalidArgument for a
  // name that Instructions() lacks.
  virtual Result<Spread> Peak(std::string_view instruction) = 0;

  // The name of the instruction that the linear kernel uses which this device chooses for `weight`
  // in [n, k]; empty where it is none of Instructions().
  virtual std::string LinearInstruction(DType weight, int64_t n, int64_t k) const = 0;
};

}  // namespace sluice::device
