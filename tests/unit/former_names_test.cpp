// Tuning caches of earlier builds.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "ops/conv/select/heuristics.hpp"

namespace gpudnn::conv {
namespace {

// What tuning caches of earlier versions hold: engines by their former names, tiles by number.
TEST(FormerNames, RowsOfFormerCachesNameTheSameChoices) {
  ConvEngine inner;
  inner.name = "direct_sm90";
  ConvEngine outer;
  outer.name = "nhwc_transpose";
  Choice choice = {&inner, {.tile = 3, .split_k = 2, .tile_name = "x"}, 0, 0, Source::model};
  EXPECT_EQ(old_choice_text(choice), "halo_sm90 tile=3 split_k=2");
  EXPECT_TRUE(names({"halo_sm90 tile=3 split_k=2", 1}, choice));
  EXPECT_TRUE(names({"direct_sm90 x split=2", 1}, choice));
  EXPECT_FALSE(names({"halo_sm90 tile=2 split_k=2", 1}, choice));
  EXPECT_FALSE(names({"direct_sm90 x", 1}, choice));
  choice.engine = &outer;
  choice.config.inner = &inner;
  choice.config.padded = true;
  EXPECT_TRUE(names({"nhwc_transpose(direct_sm90 x split=2)", 1}, choice));
  EXPECT_TRUE(names({"via_nhwc tile=" + std::to_string(1 << 20 | 4 << 12 | 3) + " split_k=2", 1}, choice));
  choice.config.padded = false;
  EXPECT_TRUE(names({"nhwc_transpose(direct_sm90 x split=2 unpadded)", 1}, choice));
}

}  // namespace
}  // namespace gpudnn::conv
