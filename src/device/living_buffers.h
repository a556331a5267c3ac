// Which buffers live, in builds with assertions (without NDEBUG), so that a tensor over memory that
// was freed, that lies outside its buffer or that is said to be of another device is found where
// the tensor is made. A buffer has a number, which its view and every view of a part of it carry;
// views that no buffer gave carry none and are not checked. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "device/types.h"

namespace sluice::device {

#ifdef NDEBUG
inline constexpr bool kRecordsBuffers = false;
#else
inline constexpr bool kRecordsBuffers = true;
#endif

// The number of a new buffer.
uint64_t RecordBuffer(const View& view);
void ForgetBuffer(uint64_t number);

// Why `view` is no part of the buffer whose number it carries: "its buffer was freed". Empty where
// it is, or carries none.
std::string WhyNotOfItsBuffer(const View& view);

}  // namespace sluice::device
