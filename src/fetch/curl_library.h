// libcurl, opened when it is first needed: with the 30 libraries that it needs, it would cost every
// start of the program 3 ms (at least, of 180 starts; Debian 12, AMD EPYC). Any thread.
#pragma once

#include <curl/curl.h>

namespace sluice::fetch {

struct CurlLibrary {
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_url) url;
  decltype(&::curl_url_cleanup) url_cleanup;
  decltype(&::curl_url_set) url_set;
  decltype(&::curl_url_get) url_get;
  decltype(&::curl_free) free;
};

// Null where it is not installed, or older than 7.85.
const CurlLibrary* FindCurl();

// REQUIRES: FindCurl() is not null.
const CurlLibrary& Curl();

}  // namespace sluice::fetch
