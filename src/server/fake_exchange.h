// An Exchange for tests, which keeps what it is answered.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/http/http.h"

namespace sluice::server {

class FakeExchange : public Exchange {
 public:
  void Reply(HttpReply answer) override {
    EXPECT_FALSE(replied || !streamed.empty());
    reply = std::move(answer);
    replied = true;
  }
  void StreamType(const char* content_type) override { stream_type = content_type; }
  bool Stream(std::string_view bytes) override {
    if (slow) return false;
    streamed += bytes;
    return true;
  }
  void EndStream(bool close) override {
    ended = true;
    closed = close;
  }
  void Note(std::string text, OrderedJson more) override {
    if (!text.empty()) note = std::move(text);
    if (more.is_object()) fields.update(more);
  }
  void OnDisconnect(std::function<void()> call) override {
    if (gone) return call();
    disconnect = std::move(call);
  }

  Json body() const { return Json::parse(reply.body); }
  std::string param() const {
    const Json param = body().at("error").at("param");
    return param.is_null() ? "" : param.get<std::string>();
  }
  // The events of the stream, without "data: ".
  std::vector<std::string> events() const {
    std::vector<std::string> list;
    size_t at = 0;
    while (at < streamed.size()) {
      EXPECT_EQ(streamed.compare(at, 6, "data: "), 0);
      const size_t end = streamed.find("\n\n", at);
      list.push_back(streamed.substr(at + 6, end - at - 6));
      at = end + 2;
    }
    return list;
  }

  // The events of a stream that names each: "event: NAME\ndata: JSON\n\n".
  std::vector<std::pair<std::string, Json>> named_events() const {
    std::vector<std::pair<std::string, Json>> list;
    for (size_t at = 0; at < streamed.size();) {
      EXPECT_EQ(streamed.compare(at, 7, "event: "), 0);
      const size_t line = streamed.find('\n', at), end = streamed.find("\n\n", at);
      EXPECT_EQ(streamed.compare(line + 1, 6, "data: "), 0);
      list.emplace_back(streamed.substr(at + 7, line - at - 7),
                        Json::parse(streamed.substr(line + 7, end - line - 7)));
      at = end + 2;
    }
    return list;
  }

  std::atomic<bool> replied = false;  // behind `reply`, for those that wait for another thread's
  bool ended = false, closed = false, slow = false, gone = false;
  HttpReply reply;
  std::string note;
  OrderedJson fields;
  std::string stream_type;
  std::string streamed;
  std::function<void()> disconnect;
};

}  // namespace sluice::server
