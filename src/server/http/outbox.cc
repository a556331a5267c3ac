#include "server/http/outbox.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

// Every HTTP/1.1 client passes over it, as often as it comes.
constexpr std::string_view kInterimAnswer = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

uint64_t Outbox::Begin(const ReplyHead& head) {
  std::lock_guard lock(mutex_);
  head_ = head;
  open_ = true;
  streaming_ = finished_ = woken_ = false;
  status_ = 200;
  note_.clear();
  fields_ = {};
  unsent_ = 0;
  largest_piece_ = 0;
  return ++serial_;
}

bool Outbox::Take(std::string* bytes) {
  std::lock_guard lock(mutex_);
  woken_ = false;
  bytes->clear();
  bytes->swap(waiting_);
  return finished_;
}

void Outbox::Sent(size_t bytes) {
  std::lock_guard lock(mutex_);
  unsent_ -= std::min(unsent_, bytes);
}

bool Outbox::End() {
  std::function<void()> dropped;  // freed without the lock
  std::lock_guard lock(mutex_);
  open_ = false;
  dropped.swap(on_disconnect_);
  return head_.keep_alive;
}

bool Outbox::SendInterim() {
  std::lock_guard lock(mutex_);
  if (!open_ || streaming_ || finished_) return true;
  // HTTP/1.0 has no interim answers (RFC 9110, 15.2).
  if (head_.http_1_0) return !on_disconnect_;
  if (unsent_ > 0) return true;
  waiting_ += kInterimAnswer;
  unsent_ += kInterimAnswer.size();
  Wake();
  return true;
}

void Outbox::Tell(ExchangeRecord* record) {
  std::lock_guard lock(mutex_);
  record->status = gone_ || !finished_ ? kClientLeft : status_;
  record->note = std::exchange(note_, {});
  record->fields = std::exchange(fields_, {});
}

std::function<void()> Outbox::Close() {
  std::lock_guard lock(mutex_);
  gone_ = true;
  open_ = false;
  waiting_ = {};
  std::function<void()> call = std::exchange(on_disconnect_, nullptr);
  return finished_ ? nullptr : call;
}

void Outbox::Wake() {
  if (!std::exchange(woken_, true)) owner_.FlushSoon();
}

void Outbox::Reply(uint64_t serial, HttpReply reply) {
  std::lock_guard lock(mutex_);
  if (!open_ || serial != serial_ || streaming_ || finished_) return;
  if (draining_) head_.keep_alive = false;
  head_.fields += DateField(std::time(nullptr));
  waiting_ += ReplyBytes(head_, reply);
  status_ = reply.status;
  if (!reply.error.empty()) note_ = std::move(reply.error);
  unsent_ += waiting_.size();
  finished_ = true;
  Wake();
}

void Outbox::StreamType(uint64_t serial, const char* content_type) {
  std::lock_guard lock(mutex_);
  if (open_ && serial == serial_) head_.stream_type = content_type;
}

void Outbox::BeginStream() {
  if (std::exchange(streaming_, true)) return;
  if (draining_ || head_.http_1_0) head_.keep_alive = false;
  head_.fields += DateField(std::time(nullptr));
  waiting_ += StreamHead(head_);
}

bool Outbox::Stream(uint64_t serial, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (!open_ || serial != serial_ || finished_ || gone_) return false;
  // One large piece is no sign of a slow reader.
  largest_piece_ = std::max(largest_piece_, bytes.size());
  if (unsent_ > waiting_bytes_max_ + largest_piece_) {
    gone_ = true;
    owner_.CloseSoon();
    return false;
  }
  const size_t before = waiting_.size();
  BeginStream();
  waiting_ += StreamPiece(head_, bytes);
  unsent_ += waiting_.size() - before;
  Wake();
  return true;
}

void Outbox::EndStream(uint64_t serial, bool close) {
  std::lock_guard lock(mutex_);
  if (!open_ || serial != serial_ || finished_) return;
  if (close) head_.keep_alive = false;
  const size_t before = waiting_.size();
  BeginStream();  // a stream that had no event is an answer, too
  waiting_ += StreamEnd(head_);
  unsent_ += waiting_.size() - before;
  finished_ = true;
  Wake();
}

void Outbox::Note(uint64_t serial, std::string note, OrderedJson fields) {
  std::lock_guard lock(mutex_);
  if (!open_ || serial != serial_ || finished_) return;
  if (!note.empty()) note_ = std::move(note);
  if (fields.is_object()) fields_.update(fields);
}

void Outbox::OnDisconnect(uint64_t serial, std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (serial != serial_ || (open_ && finished_)) return;
    if (open_ && !gone_) {
      on_disconnect_ = std::move(call);
      return;
    }
    if (open_) owner_.CloseSoon();
  }
  call();
}

}  // namespace sluice::server
