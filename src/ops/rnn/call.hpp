// What the passes of a recurrent network share: one call's memory, rows and geometry. Forward and the gradients of data
// are in layers.cpp, the gradients of weights in weight_gradients.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ops/rnn/memory.hpp"
#include "ops/rnn/stages.hpp"

namespace gpudnn::rnn {

[[nodiscard]] inline const void* element_at(const void* base, std::int64_t index, std::int64_t bytes) noexcept {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + index * bytes;
}
[[nodiscard]] inline void* element_at(void* base, std::int64_t index, std::int64_t bytes) noexcept {
  return base == nullptr ? nullptr : static_cast<char*>(base) + index * bytes;
}

class Call {
 public:
  Call(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args);

 protected:
  // A matrix of each direction of some layers, one behind the other in like steps.
  struct Matrices {
    const void* at = nullptr;
    std::int64_t row = 0;
    std::int64_t steps[2] = {};  // from layer to layer, and from direction to direction
  };

  [[nodiscard]] bool training() const { return problem_.pass != Pass::infer; }
  [[nodiscard]] std::int64_t gates_row() const { return net_.gates_row(training()); }
  [[nodiscard]] const void* weight(std::int64_t at) const {
    return at < 0 ? nullptr : element_at(args_.weights, at, bytes_);
  }
  [[nodiscard]] const LayerReserve& reserve(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] kernels::RnnCopy copy_of(std::int64_t width) const;
  // Rows of the caller's tensor; gathered into `to` where its layout is another.
  const void* gathered(const void* from, std::int64_t width, void* to);
  // Layers from this one on have matrices of like shapes: all, or all but the first.
  [[nodiscard]] int first_of_alike() const { return net_.input == net_.output_width() ? 0 : 1; }
  // What the passes have in common. The states are those of the layer.
  [[nodiscard]] kernels::RnnLayer layer_of(int layer) const;
  // Where h of all steps lies.
  [[nodiscard]] void* output_of(int layer) const;
  // What a layer above the first takes.
  [[nodiscard]] const void* input_of(int layer) const;
  [[nodiscard]] std::int64_t distance(const void* from, const void* to) const {
    return (static_cast<const char*>(to) - static_cast<const char*>(from)) / bytes_;
  }
  // Of `count` layers from `layer` on; of(layer, direction) is where the matrix lies.
  template <class Of>
  [[nodiscard]] Matrices matrices(int layer, int count, std::int64_t row, const Of& of) const {
    Matrices m = {of(layer, 0), row};
    if (count > 1) m.steps[0] = distance(m.at, of(layer + 1, 0));
    if (net_.bidirectional) m.steps[1] = distance(m.at, of(layer, 1));
    return m;
  }
  // Where there is anything to sum.
  Status product(Product p);

  const Stages& stages_;
  const Problem& problem_;
  const Network& net_;
  const Args& args_;
  Status failure_ = GPUDNN_STATUS_SUCCESS;
  Transpose transposes_[kMaxDirections];
  Site site_;
  std::int64_t bytes_;  // of an element
  bool direct_;
  Workspace work_;
  std::vector<LayerReserve> layers_;
  kernels::RnnRows rows_;
  std::int64_t count_ = 0;  // of rows

 private:
  void make_rows();

  std::vector<std::int32_t> table_;
};

// The gradients of weights, and the scratch memory with which their products run at their best.
[[nodiscard]] Status weight_gradients(const Stages& stages, const LaunchSite& site, const Problem& problem,
                                      const Args& args);
[[nodiscard]] Status weight_gradients_scratch(const Stages& stages, const LaunchSite& site, gpudnnHandle_t handle,
                                              const Problem& problem, std::size_t* bytes);

}  // namespace gpudnn::rnn
