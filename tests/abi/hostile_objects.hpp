// Objects for hostile_arguments_test: good, bare and of another type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "hostile_calls.hpp"

// The shapes of a good tensor and a good filter.
inline constexpr int kDims[8] = {2, 4, 8, 8};
inline constexpr int kStrides[8] = {256, 64, 8, 1};
inline constexpr int kFilterDims[8] = {4, 4, 3, 3};
inline constexpr int kSeqDims[8] = {2, 2, 1, 4};
inline constexpr int kSeqAxes[8] = {0, 1, 2, 3};
inline constexpr int kSequenceDims[3] = {2, 4, 8};
inline constexpr int kStateDims[3] = {1, 2, 4};
inline constexpr int kStateStrides[3] = {8, 4, 1};
inline constexpr int kSequenceStrides[3] = {32, 8, 1};

// The thread's last-error text, which is cleared.
std::string take_error();

bool is_object(Role role);

// A new object of the role; descriptors are left as they are created.
void* create(Role role);
// Gives a new descriptor its good contents.
void set(Role role, void* object);
// Destroying what a call has destroyed before is a refusal, so this needs not know.
void destroy(Role role, void* object);

// A role whose objects are not of this one's type.
Role another_type(Role role);
