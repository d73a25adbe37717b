// libgpudnn for C++17 and later: owners of handles, descriptors and memory, errors with the library's text, and a
// builder of graphs. Header-only, on the C interface alone; docs/cpp.md is its manual. Since 0.2.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_GPUDNN_HPP_
#define GPUDNN_GPUDNN_HPP_

#include "gpudnn/cpp/error.hpp"
#include "gpudnn/cpp/graph.hpp"
#include "gpudnn/cpp/objects.hpp"

#endif
