// Parts of views, which carry the number of their buffer on.
#pragma once

#include "device/types.h"

namespace sluice::device {

// REQUIRES: offset + bytes are within the view.
inline View Part(View view, size_t offset, size_t bytes) {
  view.data += offset;
  view.bytes = bytes;
  return view;
}
// The same to the end of the view.
inline View Behind(const View& view, size_t offset) {
  return Part(view, offset, view.bytes - offset);
}

}  // namespace sluice::device
