// The tensor operations on the host: set, scale, add, transform.
// SPDX-License-Identifier: Apache-2.0
#include "host/tensor.hpp"

#include <cstddef>
#include <cstring>

#include "core/parallel.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using tensor::Args;
using tensor::Operation;
using tensor::Problem;

// Calls body(offset of a, offset of c) for every element of c.
template <class Body>
void for_each(TensorGeometry a, TensorGeometry c, const Body& body) {
  TensorGeometry both[2] = {c, a};
  const int rank = merge_dimensions(both, 2);
  const std::int64_t row = both[0].dims[rank - 1];
  const std::int64_t c_step = both[0].strides[rank - 1];
  const std::int64_t a_step = both[1].strides[rank - 1];
  parallel_for(element_count(both[0]) / row, grain_for(row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t c_row = offset_of(index, rank - 1, both[0].dims, both[0].strides);
      const std::int64_t a_row = offset_of(index, rank - 1, both[0].dims, both[1].strides);
      for (std::int64_t i = 0; i < row; ++i) body(a_row + i * a_step, c_row + i * c_step);
    }
  });
}

// a with c's dims: stride 0 where its own extent is 1.
TensorGeometry broadcast(const TensorGeometry& a, const TensorGeometry& c) {
  TensorGeometry wide = c;
  wide.type = a.type;
  for (int i = 0; i < c.rank; ++i) wide.strides[i] = a.dims[i] == 1 ? 0 : a.strides[i];
  return wide;
}

void set(const Problem& problem, const Args& args) {
  const auto size = static_cast<std::size_t>(data_type_bits(problem.c.type)) / 8;
  auto* const bytes = static_cast<std::byte*>(args.c);
  for_each(problem.c, problem.c, [&](std::int64_t, std::int64_t at) {
    std::memcpy(bytes + static_cast<std::size_t>(at) * size, args.value, size);
  });
}

template <class T>
void scale(const Problem& problem, const Args& args) {
  auto* const c = static_cast<T*>(args.c);
  for_each(problem.c, problem.c,
           [&](std::int64_t, std::int64_t at) { store(c + at, args.alpha * to_double(c[at]), 0); });
}

// c = alpha * a + beta * c
template <class A, class C>
void combine(const Problem& problem, const Args& args) {
  const auto* const a = static_cast<const A*>(args.a);
  auto* const c = static_cast<C*>(args.c);
  for_each(broadcast(problem.a, problem.c), problem.c,
           [&](std::int64_t from, std::int64_t to) { store(c + to, args.alpha * to_double(a[from]), args.beta); });
}

}  // namespace

void tensor(const Problem& problem, const Args& args) {
  if (element_count(problem.c) == 0) return;
  switch (problem.operation) {
    case Operation::set:
      return set(problem, args);
    case Operation::scale:
      return with_floating_type(problem.c.type, [&]<class T>() { scale<T>(problem, args); });
    case Operation::add:
    case Operation::transform:
      return with_floating_type(problem.a.type, [&]<class A>() {
        with_floating_type(problem.c.type, [&]<class C>() { combine<A, C>(problem, args); });
      });
  }
}

}  // namespace gpudnn::host
