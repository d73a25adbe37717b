// The list of the convolution engines. Each row stands at the end of its engine's file.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

extern const ConvEngine kHostGemm, kHostDirect;
#ifdef GPUDNN_WITH_CUDA
extern const ConvEngine kImplicitGemmSm90, kSmallCSm80, kImplicitGemmSm80, kNhwcTranspose, kDirectSm90,
    kConv1x1NchwSm90, kSmallCFwdSm90, kSmallCDgradSm90, kSmallCWgradSm90, kDirectWgradSm90, kConv1x1SmallCSm80,
    kSmemIm2colWgradSm90, kDepthwiseSimt, kSmallGroupSm80, kFp32SplitSm90, kWinogradSm90, kWinogradSimt,
    kWinogradFusedSimt, kFftSm90, kFftTilingSm90, kFftSimt, kFftTilingSimt, kImplicitGemmSimt, kSlicedKSm80,
    kFewTermsSimt, kIntegerSm90, kIntegerSm80, kIntegerSimt, kDepthwiseToeplitzSm90, kDepthwiseToeplitzWgradSm90;
#endif

std::span<const ConvEngine> engines() noexcept {
  static const ConvEngine list[] = {
#ifdef GPUDNN_WITH_CUDA
      kImplicitGemmSm90,   // f16, bf16, TF32 in NHWC, all directions
      kDirectSm90,         // forward and data gradient, stride 1: image tiles stay in shared memory for all taps
      kDirectWgradSm90,    // filter gradient, stride 1, 16 bits
      kConv1x1NchwSm90,    // 1x1 on NCHW without copies
      kConv1x1SmallCSm80,  // 1x1 over at most 64 channels
      kSmallCFwdSm90,      // up to 8 channels
      kSmallCDgradSm90,
      kSmallCWgradSm90,
      kSmemIm2colWgradSm90,
      kSmallCSm80,
      kSlicedKSm80,                 // small problems forward, 16 bits: the warps of a block share a tile's reduction
      kImplicitGemmSm80,            // mma.sync: any layout
      kFp32SplitSm90,               // f32 without TF32: terms of bf16, in NHWC
      kNhwcTranspose,               // any of the above on packed NHWC copies
      kDepthwiseToeplitzSm90,       // one channel a group, 16 bits, step 1, images of up to 64 columns
      kDepthwiseToeplitzWgradSm90,  // its filter gradient, steps 1 and 2
      kSmallGroupSm80,              // groups of 1, 2, 4 and 8 channels, 16 bits; of 16 in the filter gradient
      kDepthwiseSimt,               // one input channel a group
      kWinogradSm90,                // 3x3 in float by minimal filtering, its products in terms of bf16
      kWinogradSimt,                // the same by multiply-adds, through stored transforms
      kWinogradFusedSimt,           // the same in one kernel: forward and data gradient
      kFftSm90,                     // float by Fourier transforms, its products in terms of bf16: images in few tiles
      kFftTilingSm90,               // the same in tiles that suit the filter
      kFftSimt,                     // the same by multiply-adds: whole images or large tiles
      kFftTilingSimt,               // the same in tiles that suit the filter
      kFewTermsSimt,                // float, short sums: forward, and data gradient of step 1
      kImplicitGemmSimt,            // everything of floating-point numbers
      kIntegerSm90,                 // 8-bit integers in NHWC
      kIntegerSm80,                 // 8-bit integers, channels in vectors of 4 or 16
      kIntegerSimt,                 // everything of 8-bit integers
#endif
      kHostGemm,    // blocked matrix products
      kHostDirect,  // the plain reference: everything
  };
  return list;
}

std::string choice_text(const ConvEngine& engine, const Config& config) {
  const ConvEngine& shown = config.inner != nullptr ? *config.inner : engine;
  std::string text = std::string(shown.name) + ' ' + config.tile_name;
  if (config.split_k != 1) text += " split=" + std::to_string(config.split_k);
  if (config.inner == nullptr) return text;
  return std::string(engine.name) + '(' + text + (config.padded ? ")" : " unpadded)");
}

}  // namespace gpudnn::conv
