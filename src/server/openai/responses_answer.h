// The response object of /v1/responses, whole and as typed events, and its place in the store when
// it is complete.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/response_store.h"
#include "server/openai/responses_api.h"
#include "server/shared/answer.h"

namespace sluice::server {

class ResponsesAnswer : public AnswerFormat {
 public:
  // `asked`: what was parsed, but for the call, whose stream_id is the response's id. `store` and
  // `call` must outlive it; `owner`: whose the response will be.
  ResponsesAnswer(const ApiCall& call, AnswerHead head, ResponsesCall asked, std::string owner,
                  ResponseStore* store);

  std::string id() const override { return id_; }
  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Event(int index, const TextDelta& delta, Choice* choice) override;
  std::string End(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string Broken(const Status& status) override;
  std::string Begin() override { return Start(); }
  std::optional<std::string> Now() const override;
  std::string Cancel() override;

 private:
  // The event of that type, with the next number.
  std::string Typed(std::string_view type, OrderedJson fields);
  std::string Start();
  // The item that is open: what the model thinks, says, or calls.
  enum class Item { kNone, kReasoning, kMessage, kCall };
  struct Open {
    Item kind = Item::kNone;
    std::string id, text;       // the text of a call is its arguments
    std::string call_id, name;  // of a call
  };

  // Ends the item that is open and begins another.
  std::string BeginItem(Item kind, const ToolCallDelta& call = {});
  std::string GrowItem(const std::string& text);
  std::string EndItem(std::string_view status);
  OrderedJson ItemJson(std::string_view status, bool whole) const;
  // An event about the item that is open, or about the one part of its content.
  OrderedJson OfItem() const;
  OrderedJson OfText() const;
  OrderedJson PartJson(const std::string& text) const;
  static const char* PrefixOf(Item kind);
  // The type of an event about the text of the item: that it grew, or that it is done.
  std::string TextEvent(const char* what) const;
  std::string Take(const TextDelta& delta);
  OrderedJson Response(std::string_view status) const;
  // The complete response, which the store has from then on.
  OrderedJson Complete(const Choice& choice, const Usage& usage);
  // The conversation with this answer, as chat messages.
  std::string MessagesWithAnswer() const;
  void Store(const OrderedJson& response, std::string_view status, std::string messages);

  const ApiCall& call_;
  const AnswerHead head_;
  const ResponsesCall asked_;
  const std::string owner_;
  ResponseStore* const store_;
  const std::string id_;

  int sequence_ = 0;                           // of the next event
  OrderedJson output_ = OrderedJson::array();  // the items that have ended
  Open open_;
  bool cancelled_ = false;
};

}  // namespace sluice::server
