#include "text/grammar_compiler/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sluice::text {
namespace {

struct Head {
  uint32_t kind;
  uint32_t bytes;
};

bool SendAll(int socket, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, char* bytes, size_t size, int wait_ms_max) {
  while (size > 0) {
    pollfd waiting = {socket, POLLIN, 0};
    const int ready = poll(&waiting, 1, wait_ms_max);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t received = recv(socket, bytes, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    bytes += received;
    size -= static_cast<size_t>(received);
  }
  return true;
}

}  // namespace

bool SendFrame(int socket, FrameKind kind, std::string_view bytes) {
  if (bytes.size() > kFrameBytesMax) return false;
  const Head head = {static_cast<uint32_t>(kind), static_cast<uint32_t>(bytes.size())};
  char head_bytes[sizeof(head)];
  std::memcpy(head_bytes, &head, sizeof(head));
  return SendAll(socket, head_bytes, sizeof(head)) && SendAll(socket, bytes.data(), bytes.size());
}

std::optional<Frame> ReceiveFrame(int socket, int wait_ms_max) {
  char head_bytes[sizeof(Head)];
  if (!ReceiveAll(socket, head_bytes, sizeof(head_bytes), wait_ms_max)) return std::nullopt;
  Head head;
  std::memcpy(&head, head_bytes, sizeof(head));
  if (head.kind > static_cast<uint32_t>(FrameKind::kMemoryExceeded) ||
      head.bytes > kFrameBytesMax) {
    return std::nullopt;
  }
  Frame frame = {static_cast<FrameKind>(head.kind), std::string(head.bytes, '\0')};
  if (!ReceiveAll(socket, frame.bytes.data(), frame.bytes.size(), wait_ms_max)) return std::nullopt;
  return frame;
}

}  // namespace sluice::text
