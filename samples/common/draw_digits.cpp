// Digits drawn as strokes, for those who have no MNIST files at hand. Each digit is a few curves in the unit square
// (x right, y down), in one of several hands; they are bent, slanted, scaled, turned and moved at random, drawn with a
// pen of random width and softness, and disturbed by noise and stray strokes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "digits.hpp"
#include "random.hpp"

namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;
using Strokes = std::vector<Stroke>;

// Appends a piece of an ellipse; 0 degrees is right, 90 is down.
void arc(Stroke& stroke, Point centre, double radius_x, double radius_y, double from, double to) {
  constexpr int kPieces = 14;
  for (int i = 0; i <= kPieces; ++i) {
    const double angle = (from + (to - from) * i / kPieces) * std::numbers::pi / 180;
    stroke.push_back({centre.x + radius_x * std::cos(angle), centre.y + radius_y * std::sin(angle)});
  }
}

Strokes digit_strokes(int digit, Random& random) {
  Strokes strokes(1);
  Stroke& first = strokes[0];
  switch (digit) {
    case 0:
      arc(first, {0.5, 0.5}, uniform(random, 0.22, 0.38), 0.46, -90, uniform(random, 255, 290));
      break;
    case 1:
      if (chance(random, 0.4)) first.push_back({0.3, 0.24});
      first.insert(first.end(), {{0.5, 0.04}, {0.5, 0.96}});
      if (chance(random, 0.2)) strokes.push_back({{0.28, 0.96}, {0.72, 0.96}});
      break;
    case 2:
      arc(first, {0.5, 0.28}, 0.3, 0.24, uniform(random, 180, 205), 390);
      if (chance(random, 0.4)) {
        arc(first, {0.34, 0.86}, 0.14, 0.09, 90, 330);  // the loop of a written 2
      } else {
        first.push_back({0.18, 0.94});
      }
      first.push_back({0.84, uniform(random, 0.88, 0.96)});
      break;
    case 3:
      if (chance(random, 0.25)) {
        first = {{0.22, 0.06}, {0.76, 0.06}, {0.46, 0.44}};  // flat top
      } else {
        arc(first, {0.46, 0.27}, 0.28, 0.23, uniform(random, 185, 215), 440);
      }
      arc(first, {0.46, 0.71}, 0.33, 0.25, 280, uniform(random, 490, 525));
      break;
    case 4:
      if (chance(random, 0.5)) {
        first = {{0.6, 0.04}, {0.14, 0.64}, {0.88, 0.64}};
        strokes.push_back({{0.62, chance(random, 0.5) ? 0.04 : 0.38}, {0.62, 0.96}});
      } else {
        first = {{0.22, 0.08}, {0.18, 0.54}, {0.78, 0.52}};  // open at the top
        strokes.push_back({{0.74, 0.06}, {0.68, 0.96}});
      }
      break;
    case 5:
      first = {{0.8, 0.06}, {0.3, 0.06}, {0.27, 0.44}};
      arc(first, {0.47, 0.67}, 0.31, 0.28, 235, uniform(random, 490, 515));
      break;
    case 6:
      arc(first, {0.74, 0.66}, 0.52, 0.6, uniform(random, 255, 275), 185);
      arc(first, {0.5, 0.71}, 0.28, uniform(random, 0.18, 0.25), 180, 535);
      break;
    case 7:
      first = {{0.18, 0.07}, {0.82, 0.07}, {uniform(random, 0.3, 0.55), 0.96}};
      if (chance(random, 0.3)) strokes.push_back({{0.36, 0.5}, {0.78, 0.5}});
      break;
    case 8:
      arc(first, {0.5, 0.26}, uniform(random, 0.18, 0.27), 0.22, 90, 445);
      arc(first, {0.5, 0.72}, uniform(random, 0.24, 0.33), 0.24, 270, 625);
      break;
    default:
      arc(first, {0.5, 0.3}, 0.27, uniform(random, 0.2, 0.26), 0, 355);
      if (chance(random, 0.5)) {
        first.push_back({uniform(random, 0.6, 0.76), 0.96});
      } else {
        arc(first, {0.32, 0.34}, 0.45, 0.6, 0, 85);
      }
  }
  return strokes;
}

// Bends and places the strokes: from the unit square to pixel coordinates.
void place(Strokes& strokes, Random& random) {
  const double height = uniform(random, 16, 22), width = height * uniform(random, 0.6, 0.95);
  const double turn = uniform(random, -0.25, 0.25), slant = uniform(random, -0.25, 0.3);
  const double wobble_x = uniform(random, 0, 0.06), wobble_y = uniform(random, 0, 0.06);
  const double phase_x = uniform(random, 0, 6.28), phase_y = uniform(random, 0, 6.28);
  const Point centre = {13.5 + uniform(random, -2, 2), 13.5 + uniform(random, -1.5, 1.5)};
  for (Stroke& stroke : strokes) {
    for (Point& point : stroke) {
      const double bent_x = point.x - 0.5 + wobble_x * std::sin(5 * point.y + phase_x);
      const double bent_y = point.y - 0.5 + wobble_y * std::sin(5 * point.x + phase_y);
      const double x = (bent_x - slant * bent_y) * width, y = bent_y * height;
      point = {centre.x + x * std::cos(turn) - y * std::sin(turn), centre.y + x * std::sin(turn) + y * std::cos(turn)};
    }
  }
}

double squared_distance_to_piece(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  const double t = length2 == 0 ? 0 : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0, 1.0);
  const double x = p.x - a.x - t * dx, y = p.y - a.y - t * dy;
  return x * x + y * y;
}

double distance_to_strokes(Point p, const Strokes& strokes) {
  double nearest = 1e9;
  for (const Stroke& stroke : strokes) {
    for (size_t i = 1; i < stroke.size(); ++i) {
      nearest = std::min(nearest, squared_distance_to_piece(p, stroke[i - 1], stroke[i]));
    }
  }
  return std::sqrt(nearest);
}

void draw_digit(int digit, Random& random, std::vector<uint8_t>& pixels) {
  Strokes strokes = digit_strokes(digit, random);
  place(strokes, random);
  if (chance(random, 0.15)) {  // a stray stroke
    const Point from = {uniform(random, 2, 26), uniform(random, 2, 26)};
    strokes.push_back({from, {from.x + uniform(random, -4, 4), from.y + uniform(random, -4, 4)}});
  }
  const double pen = uniform(random, 0.5, 1.7), softness = uniform(random, 0.6, 1.4);
  const double ink = uniform(random, 170, 255), noise = uniform(random, 0, 40);
  for (int y = 0; y < kImageSize; ++y) {
    for (int x = 0; x < kImageSize; ++x) {
      const double distance = distance_to_strokes({static_cast<double>(x), static_cast<double>(y)}, strokes);
      const double cover = std::clamp((pen + softness - distance) / (2 * softness), 0.0, 1.0);
      const double value = ink * cover + noise * uniform(random, -1, 1);
      pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
}

DigitSet draw_set(size_t count, Random& random) {
  DigitSet digits;
  digits.pixels.reserve(count * kImagePixels);
  for (size_t i = 0; i < count; ++i) {
    const int digit = static_cast<int>(random() % kClasses);
    digits.labels.push_back(static_cast<uint8_t>(digit));
    draw_digit(digit, random, digits.pixels);
  }
  return digits;
}

}  // namespace

TrainTestData draw_digits(size_t train_count, size_t test_count, uint64_t seed) {
  Random random(seed);
  TrainTestData data;
  data.train = draw_set(train_count, random);
  data.test = draw_set(test_count, random);
  return data;
}
