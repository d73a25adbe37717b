// Backend descriptors for hostile_arguments_test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hostile_calls.hpp"

bool is_backend(Role role);
void* create_backend(Role role);
// A tensor with everything set; finalized; a plan of y = exp(x); the pack of its pointers.
int set_backend(Role role, void* object);
