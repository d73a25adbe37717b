// Statuses, last-error texts, the guard around entry points, and the cookies of handles and descriptors.
// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "core/descriptor.hpp"
#include "core/guard.hpp"
#include "gpudnn/gpudnn.h"
#include "support/backend.hpp"

namespace gpudnn {
namespace {

using test::take_error_text;

TEST(ErrorText, NamesTheFunctionAndIsForgottenOnceRead) {
  EXPECT_EQ(gpudnnCreateTensorDescriptor(nullptr), GPUDNN_STATUS_BAD_PARAM);
  const std::string text = take_error_text();
  EXPECT_EQ(text.rfind("gpudnnCreateTensorDescriptor: ", 0), 0u) << text;
  EXPECT_NE(text.find("tensorDesc"), std::string::npos) << text;
  EXPECT_EQ(take_error_text(), "");
}

TEST(ErrorText, IsCutToTheRoomThereIs) {
  EXPECT_EQ(gpudnnCreateTensorDescriptor(nullptr), GPUDNN_STATUS_BAD_PARAM);
  char room[8];
  std::memset(room, 'x', sizeof room);
  gpudnnGetLastErrorString(room, 7);
  EXPECT_STREQ(room, "gpudnn");
  EXPECT_EQ(room[7], 'x') << "written past the room";
  EXPECT_EQ(take_error_text(), "") << "a cut text is forgotten too";
}

TEST(ErrorText, NoRoomChangesNothing) {
  EXPECT_EQ(gpudnnCreateTensorDescriptor(nullptr), GPUDNN_STATUS_BAD_PARAM);
  char untouched = 'x';
  gpudnnGetLastErrorString(nullptr, 100);
  gpudnnGetLastErrorString(&untouched, 0);
  EXPECT_EQ(untouched, 'x');
  EXPECT_NE(take_error_text(), "");
}

TEST(ErrorText, LongTextsFit) {
  const std::string large(5000, 'y');
  EXPECT_EQ(guard("function", [&] { return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s", large.c_str()); }),
            GPUDNN_STATUS_BAD_PARAM);
  const std::string text = take_error_text();
  EXPECT_GT(text.size(), 500u);
  EXPECT_EQ(text.rfind("function: yyy", 0), 0u);
}

TEST(Guard, MapsExceptionsToStatuses) {
  const auto thrown = [](auto raise) {
    return guard("function", [&]() -> Status {
      raise();
      return GPUDNN_STATUS_SUCCESS;
    });
  };
  EXPECT_EQ(thrown([] { throw std::bad_alloc(); }), GPUDNN_STATUS_ALLOC_FAILED);
  EXPECT_NE(take_error_text().find("memory"), std::string::npos);
  EXPECT_EQ(thrown([] { throw std::runtime_error("the cause"); }), GPUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_NE(take_error_text().find("the cause"), std::string::npos);
  EXPECT_EQ(thrown([] { throw 7; }), GPUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_NE(take_error_text(), "");
  EXPECT_EQ(thrown([] {}), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(take_error_text(), "");
}

TEST(Guard, AFailureWithoutATextGetsOne) {
  clear_last_error();
  EXPECT_EQ(guard("function", [] { return GPUDNN_STATUS_EXECUTION_FAILED; }), GPUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_NE(take_error_text().find("GPUDNN_STATUS_EXECUTION_FAILED"), std::string::npos);
}

TEST(Guard, KnowsTheFunctionOnlyWhileItRuns) {
  EXPECT_EQ(current_function(), nullptr);
  (void)guard("outer", [] {
    (void)guard("inner", [] { return GPUDNN_STATUS_SUCCESS; });
    EXPECT_STREQ(current_function(), "outer");
    return GPUDNN_STATUS_SUCCESS;
  });
  EXPECT_EQ(current_function(), nullptr);
}

TEST(StatusNames, AreThoseOfTheInterface) {
  EXPECT_STREQ(gpudnnGetErrorString(GPUDNN_STATUS_SUCCESS), "GPUDNN_STATUS_SUCCESS");
  EXPECT_STREQ(gpudnnGetErrorString(GPUDNN_STATUS_BAD_PARAM), "GPUDNN_STATUS_BAD_PARAM");
  EXPECT_STREQ(gpudnnGetErrorString(GPUDNN_STATUS_NOT_SUPPORTED_SHAPE), "GPUDNN_STATUS_NOT_SUPPORTED_SHAPE");
  ASSERT_NE(gpudnnGetErrorString(static_cast<gpudnnStatus_t>(424242)), nullptr);
}

TEST(Cookies, NullDestroyedAndWrongObjectsAreTold) {
  std::size_t bytes = 0;
  EXPECT_EQ(gpudnnGetTensorSizeInBytes(nullptr, &bytes), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("tensorDesc is null"), std::string::npos);

  gpudnnTensorDescriptor_t tensor = nullptr;
  ASSERT_EQ(gpudnnCreateTensorDescriptor(&tensor), GPUDNN_STATUS_SUCCESS);
  gpudnnFilterDescriptor_t filter = nullptr;
  ASSERT_EQ(gpudnnCreateFilterDescriptor(&filter), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnDestroyFilterDescriptor(reinterpret_cast<gpudnnFilterDescriptor_t>(tensor)), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("is a tensor descriptor"), std::string::npos);
  EXPECT_EQ(gpudnnDestroy(reinterpret_cast<gpudnnHandle_t>(filter)), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("is a filter descriptor"), std::string::npos);
  EXPECT_EQ(gpudnnDestroyFilterDescriptor(filter), GPUDNN_STATUS_SUCCESS);

  EXPECT_EQ(gpudnnDestroyTensorDescriptor(tensor), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnDestroyTensorDescriptor(tensor), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("was destroyed"), std::string::npos);
  EXPECT_EQ(gpudnnGetTensorSizeInBytes(tensor, &bytes), GPUDNN_STATUS_BAD_PARAM);
  (void)take_error_text();
}

TEST(Cookies, APointerIntoAnObjectIsNone) {
  gpudnnTensorDescriptor_t tensor = nullptr;
  ASSERT_EQ(gpudnnCreateTensorDescriptor(&tensor), GPUDNN_STATUS_SUCCESS);
  const auto shifted = reinterpret_cast<gpudnnTensorDescriptor_t>(reinterpret_cast<char*>(tensor) + 1);
  EXPECT_EQ(gpudnnDestroyTensorDescriptor(shifted), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text(), "");
  EXPECT_EQ(gpudnnDestroyTensorDescriptor(tensor), GPUDNN_STATUS_SUCCESS);
}

TEST(Pool, AnEndedObjectIsNotHandedOutAgainAtOnce) {
  struct Thing : Object {
    Thing() : Object{Kind::op_tensor} {}
    int payload[4] = {};
  };
  Thing* const first = Pool<Thing>::create();
  Pool<Thing>::destroy(first);
  for (int i = 0; i < 16; ++i) {
    Thing* const next = Pool<Thing>::create();
    EXPECT_NE(next, first);
    Pool<Thing>::destroy(next);
  }
  EXPECT_EQ(static_cast<Object*>(first)->kind, Kind::destroyed);
}

}  // namespace
}  // namespace gpudnn
