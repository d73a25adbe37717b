// The order in which attention's engines take their tiles: heads go in sections, whose k and v the L2 holds, and within
// a section a tile of each head, then the next tile of each. Plain data, and the place of a tile without a division.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

struct FlashSections {
  tile::FastDivmod tiles;       // of a section
  tile::FastDivmod heads;       // of a section
  tile::FastDivmod last_heads;  // of the last one, which may have fewer
  tile::FastDivmod batch;       // heads of a batch
  std::uint32_t last = 0;       // section

  FlashSections() = default;
  // `section_heads`: at most `all_heads`, which are whole batches of `batch_heads`.
  FlashSections(std::int64_t section_heads, std::int64_t tiles_of_head, std::int64_t all_heads,
                std::int64_t batch_heads) {
    const auto by = [](std::int64_t divisor) { return tile::FastDivmod(static_cast<std::uint32_t>(divisor)); };
    const std::int64_t sections = (all_heads + section_heads - 1) / section_heads;
    tiles = by(section_heads * tiles_of_head);
    heads = by(section_heads);
    last_heads = by(all_heads - (sections - 1) * section_heads);
    batch = by(batch_heads);
    last = static_cast<std::uint32_t>(sections - 1);
  }
};

struct FlashTilePlace {
  int tile;  // of the head
  int batch, head, batch_head;
};
GPUDNN_HOST_DEVICE FlashTilePlace place_of(const FlashSections& sections, int number) {
  std::uint32_t rest;
  std::uint32_t its;
  std::uint32_t head;
  const std::uint32_t section = sections.tiles.divmod(static_cast<std::uint32_t>(number), &rest);
  const std::uint32_t tile = (section == sections.last ? sections.last_heads : sections.heads).divmod(rest, &its);
  const std::uint32_t batch_head = section * sections.heads.divisor + its;
  const std::uint32_t batch = sections.batch.divmod(batch_head, &head);
  return {static_cast<int>(tile), static_cast<int>(batch), static_cast<int>(head), static_cast<int>(batch_head)};
}

}  // namespace gpudnn::kernels
