#include "fetch/curl_library.h"

#include <dlfcn.h>

#include <memory>

#include "base/check.h"

namespace sluice::fetch {
namespace {

constexpr char kFile[] = "libcurl.so.4";
constexpr unsigned kVersionLeast = 0x075500;  // 7.85 has the newest of the options that are set

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

std::unique_ptr<const CurlLibrary> Open() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  auto curl = std::make_unique<CurlLibrary>();
  const bool found =
      library != nullptr && Find(library, "curl_version_info", &curl->version_info) &&
      Find(library, "curl_global_init", &curl->global_init) &&
      Find(library, "curl_easy_init", &curl->easy_init) &&
      Find(library, "curl_easy_cleanup", &curl->easy_cleanup) &&
      Find(library, "curl_easy_reset", &curl->easy_reset) &&
      Find(library, "curl_easy_setopt", &curl->easy_setopt) &&
      Find(library, "curl_easy_perform", &curl->easy_perform) &&
      Find(library, "curl_easy_getinfo", &curl->easy_getinfo) &&
      Find(library, "curl_easy_strerror", &curl->easy_strerror) &&
      Find(library, "curl_slist_append", &curl->slist_append) &&
      Find(library, "curl_slist_free_all", &curl->slist_free_all) &&
      Find(library, "curl_url", &curl->url) &&
      Find(library, "curl_url_cleanup", &curl->url_cleanup) &&
      Find(library, "curl_url_set", &curl->url_set) &&
      Find(library, "curl_url_get", &curl->url_get) && Find(library, "curl_free", &curl->free);
  if (!found || curl->version_info(CURLVERSION_NOW)->version_num < kVersionLeast) return nullptr;
  if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return nullptr;
  return curl;
}

}  // namespace

const CurlLibrary* FindCurl() {
  // It stays open: threads that it has started may outlive any object of ours.
  static const CurlLibrary* const curl = Open().release();
  return curl;
}

const CurlLibrary& Curl() {
  const CurlLibrary* const curl = FindCurl();
  CHECK(curl != nullptr, "libcurl is not there");
  return *curl;
}

}  // namespace sluice::fetch
