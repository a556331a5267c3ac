#include "server/http/request_id.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <random>

#include "base/philox.h"

namespace sluice::server {
namespace {

constexpr size_t kAskedBytesMax = 128;

std::string DrawId() {
  static const uint64_t key = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) ^ device();
  }();
  static std::atomic<uint64_t> counter = 0;
  const uint64_t count = ++counter;
  const auto bits =
      Philox(key, {static_cast<uint32_t>(count), static_cast<uint32_t>(count >> 32), 0, 0});
  char text[40];
  std::snprintf(text, sizeof text, "%08x%08x%08x", bits[0], bits[1], bits[2]);
  return text;
}

}  // namespace

std::string RequestIdOf(std::string_view asked) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  const bool good = !asked.empty() && asked.size() <= kAskedBytesMax &&
                    std::all_of(asked.begin(), asked.end(), plain);
  return good ? std::string(asked) : DrawId();
}

}  // namespace sluice::server
