// Statuses, refusals and the thread's last-error text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/data_type.hpp"

namespace gpudnn {

// Sets the thread's last-error text to "<entry point>: <message>" and returns `status`. A good message names the
// argument, its value and what would be legal. Cold: what leads to it lies apart from the code of calls that go well.
[[nodiscard, gnu::cold, gnu::format(printf, 2, 3)]] Status refuse(Status status, const char* format, ...) noexcept;

// The same, for a status that already carries a text (a callee refused): keeps the text.
[[nodiscard]] const char* last_error_text() noexcept;
void clear_last_error() noexcept;
// Sets the text as it stands: a layer above the library tells of its own error.
void set_last_error(Status status, const char* text) noexcept;
// "name: text" if the thread's last call failed with that status and its text has not been taken, else the name. The
// text lives for ever; after too many different ones only the name is given.
[[nodiscard]] const char* describe_error(Status status, const char* name) noexcept;
// Copies the text, cut to fit and always terminated, and clears it.
void take_last_error(char* message, std::size_t size) noexcept;

// The name of a status, such as "GPUDNN_STATUS_BAD_PARAM"; a text for unknown values too.
[[nodiscard]] const char* status_name(Status status) noexcept;

}  // namespace gpudnn

// Every refusal goes through this macro: `return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "stride is %d; it must ...")`.
#define GPUDNN_REFUSE(status, ...) ::gpudnn::refuse((status), __VA_ARGS__)

// Refuses unless the condition holds.
#define GPUDNN_REQUIRE(condition, status, ...)                     \
  do {                                                             \
    if (!(condition)) return GPUDNN_REFUSE((status), __VA_ARGS__); \
  } while (false)

// Hands a callee's failure on; its text stands.
#define GPUDNN_TRY(expression)                                                             \
  do {                                                                                     \
    if (const ::gpudnn::Status status_ = (expression); status_ != GPUDNN_STATUS_SUCCESS) { \
      return status_;                                                                      \
    }                                                                                      \
  } while (false)
