// libgpudnn for C++: errors, as exceptions or as values.
//
// What can fail comes in two forms: the plain one throws gpudnn::Error, and the one whose name begins with try_ returns
// gpudnn::Status. Without exceptions (-fno-exceptions) the plain form prints the text and ends the program.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_ERROR_HPP_
#define GPUDNN_CPP_ERROR_HPP_

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpudnn/gpudnn.h"

namespace gpudnn {

// The outcome of a call: true where it went well, else a status and the sentence that explains it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(gpudnnStatus_t code, std::string text) : code_(code), text_(std::move(text)) {}
  explicit operator bool() const noexcept { return code_ == GPUDNN_STATUS_SUCCESS; }
  [[nodiscard]] gpudnnStatus_t code() const noexcept { return code_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  gpudnnStatus_t code_ = GPUDNN_STATUS_SUCCESS;
  std::string text_;
};

// What the plain forms throw; what() is "NAME_OF_THE_STATUS: sentence".
class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status)
      : std::runtime_error(std::string(gpudnnGetErrorString(status.code())) + ": " + status.text()),
        code_(status.code()) {}
  [[nodiscard]] gpudnnStatus_t code() const noexcept { return code_; }

 private:
  gpudnnStatus_t code_;
};

// The outcome of a call of the C interface that has just returned `code`, with the library's own text, which names the
// function, the argument, its value and what would be legal.
inline Status status_of(gpudnnStatus_t code) {
  if (code == GPUDNN_STATUS_SUCCESS) return {};
  char text[1024] = "";
  gpudnnGetLastErrorString(text, sizeof text);
  return {code, text};
}

inline void check(const Status& status) {
  if (status) return;
#if defined(__cpp_exceptions)
  throw Error(status);
#else
  std::fprintf(stderr, "%s: %s\n", gpudnnGetErrorString(status.code()), status.text().c_str());
  std::abort();
#endif
}
inline void check(gpudnnStatus_t code) {
  if (code != GPUDNN_STATUS_SUCCESS) check(status_of(code));
}

}  // namespace gpudnn

// Hands a failure on, in functions that return gpudnn::Status.
#define GPUDNN_CPP_TRY(expression)                                         \
  do {                                                                     \
    if (::gpudnn::Status status_ = (expression); !status_) return status_; \
  } while (false)

#endif
