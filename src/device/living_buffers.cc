#include "device/living_buffers.h"

#include <map>
#include <mutex>

#include "base/str_cat.h"

namespace sluice::device {
namespace {

struct Living {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, View> buffers;
};

// Never destroyed: buffers may be freed while the program ends.
Living& All() {
  static Living* all = new Living;
  return *all;
}

}  // namespace

uint64_t RecordBuffer(const View& view) {
  Living& all = All();
  const std::lock_guard lock(all.mutex);
  all.buffers[++all.last] = view;
  return all.last;
}

void ForgetBuffer(uint64_t number) {
  Living& all = All();
  const std::lock_guard lock(all.mutex);
  all.buffers.erase(number);
}

std::string WhyNotOfItsBuffer(const View& view) {
  if (view.buffer == 0) return "";
  Living& all = All();
  const std::lock_guard lock(all.mutex);
  const auto found = all.buffers.find(view.buffer);
  if (found == all.buffers.end()) return "its buffer was freed";
  const View& whole = found->second;
  if (view.memory != whole.memory || !(view.device == whole.device)) {
    return StrCat("it is said to lie on ", ToString(view.device), ", its buffer lies on ",
                  ToString(whole.device), " or in memory of another kind");
  }
  if (view.data < whole.data || view.data + view.bytes > whole.data + whole.bytes) {
    return StrCat("it ends outside its buffer of ", whole.bytes, " bytes");
  }
  return "";
}

}  // namespace sluice::device
