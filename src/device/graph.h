// Graph capture and replay. A graph is captured once per bucket after KV memory is bound, and
// replayed with fresh parameters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/types.h"
#include "sluice/status.h"

namespace sluice::device {

class Stream;
class Communicator;  // collectives in comm/; opaque here, null where a device has none

// The work that is captured; called once, on the capturing thread.
using CaptureBody = std::function<Status(Stream&)>;

// Every value that a replay refreshes, on the device and on the host.
struct ReplayParams {
  struct Value {
    std::string name;
    View source;       // host bytes of this step
    View destination;  // the captured buffer, on the device or on the host
  };
  std::vector<Value> values;
};

// The scratch memory of captured ops is their stream's and stays where it is as long as the graph
// lives; whoever captures has reserved what every call needs (Stream::ReserveScratch). The stream
// outlives the graph; a graph may be destroyed while a replay of it is still under way.
class Graph {
 public:
  virtual ~Graph() = default;
  // Copies every source to its destination, in stream order and by the rules of Device::Copy, then
  // runs the captured work. A replay need not wait for the one before.
  // The first call fixes the values (ReplaySignature): each name stands once, and its source is as
  // large as its destination. Later ones give the same names in the same order, with the same sizes
  // and destinations; only the sources may lie elsewhere. Anything else, and another stream than
  // that of the capture, whose scratch memory the work uses, is kInvalidArgument, and nothing is
  // copied or run.
  virtual Status Replay(Stream& stream, const ReplayParams& params) = 0;
};

}  // namespace sluice::device
