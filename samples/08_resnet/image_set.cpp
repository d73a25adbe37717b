// Reading folders of images, and drawing shapes.
// SPDX-License-Identifier: Apache-2.0
#include "image_set.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "common/random.hpp"
#include "pictures.hpp"

namespace fs = std::filesystem;

namespace {

// By name, so that a folder gives the same set on every machine.
std::vector<fs::path> sorted(const fs::path& folder, bool folders) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (folders ? entry.is_directory() : entry.is_regular_file() && is_picture(entry.path())) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void add(ImageSet& set, const fs::path& file, int label) {
  const std::vector<uint8_t> pixels = square_of(read_picture(file), set.size);
  set.pixels.insert(set.pixels.end(), pixels.begin(), pixels.end());
  set.labels.push_back(label);
}

struct Point {
  double x, y;
};

// Whether a point of a shape's own square, from -1 to 1 in both directions, is inside.
using Shape = bool (*)(Point);
struct Kind {
  const char* name;
  Shape inside;
};
constexpr std::array<Kind, 6> kShapes = {{
    {"cross", [](Point p) { return std::min(std::abs(p.x), std::abs(p.y)) < 0.3; }},
    {"disc", [](Point p) { return p.x * p.x + p.y * p.y < 0.9; }},
    {"ring", [](Point p) { return std::abs(std::hypot(p.x, p.y) - 0.72) < 0.22; }},
    {"square", [](Point p) { return std::max(std::abs(p.x), std::abs(p.y)) < 0.8; }},
    {"stripes", [](Point p) { return std::fmod(p.y + 1, 0.67) < 0.33; }},
    {"triangle", [](Point p) { return p.y < 0.8 && p.y > 2 * std::abs(p.x) - 0.9; }},
}};

void draw(ImageSet& set, int label, Random& random) {
  const double size = set.size, radius = size * uniform(random, 0.26, 0.42), turn = uniform(random, -0.4, 0.4);
  const Point centre = {uniform(random, radius, size - radius), uniform(random, radius, size - radius)};
  double ink[3], ground[3];
  for (double& value : ink) value = uniform(random, 130, 255);
  for (double& value : ground) value = uniform(random, 0, 90);
  const double noise = uniform(random, 5, 25);
  for (int y = 0; y < set.size; ++y) {
    for (int x = 0; x < set.size; ++x) {
      const double u = (x + 0.5 - centre.x) / radius, v = (y + 0.5 - centre.y) / radius;
      const Point p = {u * std::cos(turn) + v * std::sin(turn), v * std::cos(turn) - u * std::sin(turn)};
      const bool within = std::max(std::abs(p.x), std::abs(p.y)) < 1 && kShapes[static_cast<size_t>(label)].inside(p);
      for (int c = 0; c < 3; ++c) {
        const double value = (within ? ink : ground)[c] + noise * uniform(random, -1, 1);
        set.pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  set.labels.push_back(label);
}

}  // namespace

Images read_folder(const fs::path& folder, int size) {
  if (!fs::is_directory(folder)) throw std::runtime_error(folder.string() + ": is no folder");
  const bool split = fs::is_directory(folder / "train") && fs::is_directory(folder / "val");
  Images images;
  images.train.size = images.validate.size = size;
  for (const fs::path& kind : sorted(split ? folder / "train" : folder, true)) {
    const auto label = static_cast<int>(images.classes.size());
    const std::vector<fs::path> files = sorted(kind, false);
    if (files.empty()) continue;
    images.classes.push_back(kind.filename().string());
    for (size_t i = 0; i < files.size(); ++i)
      add(!split && i % 5 == 4 ? images.validate : images.train, files[i], label);
    if (!split) continue;
    const fs::path other = folder / "val" / kind.filename();
    if (!fs::is_directory(other)) continue;
    for (const fs::path& file : sorted(other, false)) add(images.validate, file, label);
  }
  if (images.classes.size() < 2 || images.validate.count() == 0) {
    throw std::runtime_error(folder.string() +
                             ": expected a folder for each class with at least 5 pictures in it (or " +
                             "such folders in train and val), found " + std::to_string(images.classes.size()) +
                             " classes, " + std::to_string(images.train.count()) + " pictures to train and " +
                             std::to_string(images.validate.count()) + " to validate");
  }
  return images;
}

Images draw_shapes(int train_count, int validate_count, int size, uint64_t seed) {
  Random random(seed);
  Images images;
  for (const Kind& shape : kShapes) images.classes.emplace_back(shape.name);
  images.train.size = images.validate.size = size;
  for (int i = 0; i < train_count; ++i) draw(images.train, static_cast<int>(random() % kShapes.size()), random);
  for (int i = 0; i < validate_count; ++i) draw(images.validate, static_cast<int>(random() % kShapes.size()), random);
  return images;
}
