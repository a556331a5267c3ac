// Beast's way to write a request's body into a MeteredBody. For http.cc alone.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>

#include "server/http/body_budget.h"

namespace sluice::server {

// What a read fails with when the budget is used up.
inline constexpr auto kNoBudget = boost::system::errc::not_enough_memory;

// Beast's way to write a body into a MeteredBody.
struct BudgetedBody {
  using value_type = MeteredBody;
  class reader {
   public:
    template <bool is_request, class Head>
    reader(boost::beast::http::header<is_request, Head>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      if (length) body_.bytes_most = *length;
      error = {};
    }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      size_t bytes = 0;
      for (const boost::asio::const_buffer piece : boost::beast::buffers_range_ref(buffers)) {
        if (!body_.Append({static_cast<const char*>(piece.data()), piece.size()})) {
          error = boost::system::errc::make_error_code(kNoBudget);
          break;
        }
        bytes += piece.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& error) {
      body_.Finish();
      error = {};
    }

   private:
    value_type& body_;
  };
};

}  // namespace sluice::server
