// Loading a library under test.
// SPDX-License-Identifier: Apache-2.0
#include "api_table.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace gpudnn::bench {
namespace {

template <class Function>
bool resolve(void* object, const std::string& name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(object, name.c_str()));
  return *function != nullptr;
}

bool resolve_all(void* object, Library* library, std::string* why) {
  Api& api = library->api;
  for (const char* prefix : {"gpudnn", "cudnn"}) {
    if (resolve(object, std::string(prefix) + "GetVersion", &api.GetVersion)) {
      library->prefix = prefix;
      break;
    }
  }
  if (library->prefix.empty()) return *why = "it has neither gpudnnGetVersion nor cudnnGetVersion", false;
#define GPUDNN_BENCH_RESOLVE(name) \
  if (!resolve(object, library->prefix + #name, &api.name)) return *why = "it lacks " + library->prefix + #name, false;
  GPUDNN_BENCH_FUNCTIONS(GPUDNN_BENCH_RESOLVE)
#undef GPUDNN_BENCH_RESOLVE
  (void)resolve(object, library->prefix + "GetLastErrorString", &api.GetLastErrorString);
  (void)resolve(object, library->prefix + "SetCallback", &api.SetCallback);
  (void)resolve(object, library->prefix + "GetBackend", &api.GetBackend);
  (void)resolve(object, library->prefix + "GetLibraryVersion", &api.GetLibraryVersion);
  return true;
}

std::string dotted(std::size_t version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

}  // namespace

Library::~Library() {
  if (handle != nullptr) (void)api.Destroy(handle);
}

std::unique_ptr<Library> open_library(const std::string& path, std::string* why) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  auto library = std::make_unique<Library>();
  library->path = path;
  const auto start = Clock::now();
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return *why = dlerror(), nullptr;
  if (!resolve_all(object, library.get(), why)) return *why = path + ": " + *why, nullptr;
  const auto opened = Clock::now();
  if (const gpudnnStatus_t status = library->api.Create(&library->handle); status != GPUDNN_STATUS_SUCCESS) {
    library->handle = nullptr;
    return *why = path + ": no handle: " + failure_text(*library, status), nullptr;
  }
  const auto created = Clock::now();
  library->open_seconds = seconds(start, opened);
  library->create_seconds = seconds(opened, created);
  return library;
}

gpudnnBackend_t backend(const Library& library) {
  gpudnnBackend_t backend = GPUDNN_BACKEND_CUDA;
  if (library.api.GetBackend != nullptr) (void)library.api.GetBackend(library.handle, &backend);
  return backend;
}

std::string version_text(const Library& library) {
  std::string text = library.prefix + ' ';
  const std::string interface_version = dotted(library.api.GetVersion());
  text += library.api.GetLibraryVersion == nullptr
              ? interface_version + " ("
              : dotted(library.api.GetLibraryVersion()) + " (interface " + interface_version + ", ";
  const std::size_t runtime = library.api.GetCudartVersion();
  if (runtime == 0) return text + "no CUDA)";
  return text + "CUDA runtime " + std::to_string(runtime / 1000) + '.' + std::to_string(runtime % 1000 / 10) + ')';
}

std::string failure_text(const Library& library, gpudnnStatus_t status) {
  std::string text = library.api.GetErrorString(status);
  if (library.api.GetLastErrorString != nullptr) {
    char message[1024] = "";
    library.api.GetLastErrorString(message, sizeof message);
    if (message[0] != '\0') text += std::string(": ") + message;
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace gpudnn::bench
