// Picture files, through libpng's simplified interface and a reader of PGM.
// SPDX-License-Identifier: Apache-2.0
#include "image_io.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "common/digits.hpp"

namespace fs = std::filesystem;

namespace {

constexpr int kLargestSide = 8192;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

void check_size(const fs::path& file, uint64_t width, uint64_t height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    fail(file, "expected a picture of 1 to " + std::to_string(kLargestSide) + " pixels a side, found " +
                   std::to_string(width) + "x" + std::to_string(height));
  }
}

GrayImage read_png(const fs::path& file) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&png, file.c_str())) fail(file, std::string("bad PNG: ") + png.message);
  if (png.width > kLargestSide || png.height > kLargestSide) {
    const uint32_t width = png.width, height = png.height;
    png_image_free(&png);
    check_size(file, width, height);
  }
  png.format = PNG_FORMAT_GRAY;
  GrayImage image{static_cast<int>(png.width), static_cast<int>(png.height), {}};
  image.pixels.resize(PNG_IMAGE_SIZE(png));
  const png_color white = {255, 255, 255};  // behind transparent pixels
  if (!png_image_finish_read(&png, &white, image.pixels.data(), 0, nullptr)) {
    const std::string message = png.message;
    png_image_free(&png);
    fail(file, "bad PNG: " + message);
  }
  return image;
}

// The next number of a PGM file; numbers are separated by blanks and by comments from '#' to the end of the line.
int pgm_number(std::istream& stream, const fs::path& file, const char* what) {
  int c = stream.get();
  while (c == '#' || std::isspace(c)) {
    if (c == '#') {
      while (c != '\n' && c != EOF) c = stream.get();
    } else {
      c = stream.get();
    }
  }
  int value = 0, digits = 0;
  for (; c != EOF && std::isdigit(c); c = stream.get(), ++digits) value = std::min(value * 10 + (c - '0'), 1000000);
  // The one character after a number is its separator; after the header of P5 the bytes begin behind it.
  if (digits == 0 || (c != EOF && !std::isspace(c))) {
    fail(file, std::string("bad PGM: expected ") + what + ", found " +
                   (c == EOF ? std::string("the end of the file") : "byte " + std::to_string(c)));
  }
  return value;
}

GrayImage read_pgm(const fs::path& file, bool binary) {
  std::ifstream stream(file, std::ios::binary);
  stream.ignore(2);
  GrayImage image;
  image.width = pgm_number(stream, file, "the width");
  image.height = pgm_number(stream, file, "the height");
  check_size(file, static_cast<uint64_t>(image.width), static_cast<uint64_t>(image.height));
  const int white = pgm_number(stream, file, "the value of white");
  if (white < 1 || white > 65535) {
    fail(file, "bad PGM: expected a white of 1 to 65535, found " + std::to_string(white));
  }
  const size_t count = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  image.pixels.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    int value = 0;
    if (!binary) {
      value = pgm_number(stream, file, "a pixel");
    } else {
      for (int byte = 0; byte < (white > 255 ? 2 : 1); ++byte) value = value << 8 | (stream.get() & 0xff);
    }
    if (!stream && binary) {
      fail(file, "bad PGM: expected " + std::to_string(count) + " pixels, found " + std::to_string(i));
    }
    image.pixels.push_back(static_cast<uint8_t>(std::min(value, white) * 255 / white));
  }
  return image;
}

// The dark ground of a picture is what lies along its border.
double border_mean(const GrayImage& image) {
  double sum = 0;
  int count = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      if (y > 0 && y + 1 < image.height && x > 0 && x + 1 < image.width) continue;
      sum += image.pixels[static_cast<size_t>(y) * image.width + x];
      ++count;
    }
  }
  return sum / count;
}

// Mean brightness of the part [x0, x1) x [y0, y1) of a picture, with fractions of pixels.
double area_mean(const GrayImage& image, double x0, double y0, double x1, double y1) {
  double sum = 0, area = 0;
  for (int y = std::max(0, static_cast<int>(y0)); y < std::min<double>(image.height, y1); ++y) {
    for (int x = std::max(0, static_cast<int>(x0)); x < std::min<double>(image.width, x1); ++x) {
      const double covered =
          (std::min(x1, x + 1.0) - std::max<double>(x0, x)) * (std::min(y1, y + 1.0) - std::max<double>(y0, y));
      sum += covered * image.pixels[static_cast<size_t>(y) * image.width + x];
      area += covered;
    }
  }
  return area > 0 ? sum / area : 0;
}

// Cuts a light-on-dark picture to its ink and fits that into 28x28: the longer side becomes 20, the mass is centred.
std::vector<uint8_t> fit_to_28(const GrayImage& image) {
  const uint8_t brightest = *std::max_element(image.pixels.begin(), image.pixels.end());
  int left = image.width, right = -1, top = image.height, bottom = -1;
  double mass = 0, mass_x = 0, mass_y = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const uint8_t pixel = image.pixels[static_cast<size_t>(y) * image.width + x];
      if (pixel < brightest / 4) continue;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
      mass += pixel, mass_x += pixel * (x + 0.5), mass_y += pixel * (y + 0.5);
    }
  }
  const double scale = std::max(right - left + 1, bottom - top + 1) / 20.0;  // picture pixels per result pixel
  const double origin_x = mass_x / mass - 14 * scale, origin_y = mass_y / mass - 14 * scale;
  std::vector<uint8_t> pixels;
  for (int y = 0; y < kImageSize; ++y) {
    for (int x = 0; x < kImageSize; ++x) {
      const double x0 = origin_x + x * scale, y0 = origin_y + y * scale;
      pixels.push_back(static_cast<uint8_t>(std::lround(area_mean(image, x0, y0, x0 + scale, y0 + scale))));
    }
  }
  return pixels;
}

// A font of 3x5 pixels, one octal digit a row, for "0123456789" and ">" .
constexpr std::array<std::array<uint8_t, 5>, 11> kFont = {{
    {7, 5, 5, 5, 7},
    {2, 6, 2, 2, 7},
    {7, 1, 7, 4, 7},
    {7, 1, 7, 1, 7},
    {5, 5, 7, 1, 1},
    {7, 4, 7, 1, 7},
    {7, 4, 7, 5, 7},
    {7, 1, 1, 2, 2},
    {7, 5, 7, 5, 7},
    {7, 5, 7, 1, 7},
    {4, 2, 1, 2, 4},
}};
constexpr uint8_t kDashRows[5] = {0, 0, 7, 0, 0};

// Draws a character with every font pixel as a square of `scale`.
void draw_character(GrayImage& image, char character, int left, int top, int scale) {
  const uint8_t* rows = character == '-' ? kDashRows : kFont[character == '>' ? 10 : character - '0'].data();
  for (int y = 0; y < 5 * scale; ++y) {
    for (int x = 0; x < 3 * scale; ++x) {
      if ((rows[y / scale] >> (2 - x / scale) & 1) == 0) continue;
      image.pixels[static_cast<size_t>(top + y) * image.width + left + x] = 255;
    }
  }
}

}  // namespace

GrayImage read_gray_image(const fs::path& file) {
  if (fs::is_directory(file)) fail(file, "expected a PNG or PGM file, found a directory");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  char begin[8] = {};
  stream.read(begin, sizeof begin);
  const std::string_view magic(begin, static_cast<size_t>(stream.gcount()));
  if (magic == "\x89PNG\r\n\x1a\n") return read_png(file);
  if (magic.starts_with("P5") || magic.starts_with("P2")) return read_pgm(file, magic[1] == '5');
  fail(file, magic.empty() ? "is empty; expected a PNG or PGM picture"
                           : "is neither PNG nor PGM (P2 or P5), by its first bytes");
}

std::vector<uint8_t> normalize_digit(const GrayImage& source, std::vector<std::string>& notes) {
  const auto [darkest, brightest] = std::minmax_element(source.pixels.begin(), source.pixels.end());
  if (*brightest - *darkest < 32) {
    throw std::runtime_error("the picture shows no digit: all its pixels are about " + std::to_string(*brightest) +
                             " of 255 bright");
  }
  GrayImage image = source;
  if (border_mean(image) > (*darkest + *brightest) / 2.0) {
    notes.push_back("dark on light, so inverted");
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(255 - pixel);
  }
  if (image.width == kImageSize && image.height == kImageSize) return image.pixels;
  notes.push_back(std::to_string(image.width) + "x" + std::to_string(image.height) + ", so cut and scaled to 28x28");
  // The ground may be gray: black becomes what is darkest, white what is brightest.
  const auto [low, high] = std::minmax_element(image.pixels.begin(), image.pixels.end());
  const int base = *low, range = *high - *low;
  for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>((pixel - base) * 255 / range);
  return fit_to_28(image);
}

void write_contact_sheet(const fs::path& file, const std::vector<WrongDigit>& digits) {
  constexpr int kZoom = 2, kMargin = 6, kTextScale = 2;
  constexpr int kCellWidth = kImageSize * kZoom + kMargin;
  constexpr int kCellHeight = kImageSize * kZoom + 3 * kMargin + 5 * kTextScale;
  const int columns = 12, rows = std::max(1, (static_cast<int>(digits.size()) + columns - 1) / columns);
  GrayImage sheet{columns * kCellWidth + kMargin, rows * kCellHeight, {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.width) * static_cast<size_t>(sheet.height), 40);

  for (size_t i = 0; i < digits.size(); ++i) {
    const int left = static_cast<int>(i) % columns * kCellWidth + kMargin;
    const int top = static_cast<int>(i) / columns * kCellHeight + kMargin;
    for (int y = 0; y < kImageSize * kZoom; ++y) {
      for (int x = 0; x < kImageSize * kZoom; ++x) {
        sheet.pixels[static_cast<size_t>(top + y) * sheet.width + left + x] =
            digits[i].pixels[static_cast<size_t>(y / kZoom) * kImageSize + x / kZoom];
      }
    }
    const char text[] = {static_cast<char>('0' + digits[i].label), '-', '>', static_cast<char>('0' + digits[i].guess)};
    constexpr int kAdvance = 4 * kTextScale;
    int text_left = left + (kImageSize * kZoom - 4 * kAdvance) / 2;
    for (const char character : text) {
      draw_character(sheet, character, text_left, top + kImageSize * kZoom + kMargin, kTextScale);
      text_left += kAdvance;
    }
  }

  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(sheet.width);
  png.height = static_cast<png_uint_32>(sheet.height);
  png.format = PNG_FORMAT_GRAY;
  if (!png_image_write_to_file(&png, file.c_str(), 0, sheet.pixels.data(), 0, nullptr)) {
    fail(file, std::string("cannot be written: ") + png.message);
  }
}
