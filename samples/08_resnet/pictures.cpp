// Picture files through libpng and libjpeg, a reader of PPM and PGM, and scaling.
// SPDX-License-Identifier: Apache-2.0
#include "pictures.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#ifdef GPUDNN_SAMPLE_JPEG
#include <csetjmp>
// After <cstdio>, which it needs.
#include <jpeglib.h>
#endif
#ifdef GPUDNN_SAMPLE_PNG
#include <png.h>
#endif

namespace fs = std::filesystem;

namespace {

constexpr int kLargestSide = 16384;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

// Makes room for a picture of that size.
Picture sized(const fs::path& file, uint64_t width, uint64_t height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    fail(file, "expected a picture of 1 to " + std::to_string(kLargestSide) + " pixels a side, found " +
                   std::to_string(width) + "x" + std::to_string(height));
  }
  return {static_cast<int>(width), static_cast<int>(height), std::vector<uint8_t>(width * height * 3)};
}

std::string ending(const fs::path& file) {
  std::string text = file.extension().string();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

#ifdef GPUDNN_SAMPLE_PNG
Picture read_png(const fs::path& file) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> freed(&png, &png_image_free);
  if (png_image_begin_read_from_file(&png, file.c_str()) == 0) fail(file, std::string("bad PNG: ") + png.message);
  Picture picture = sized(file, png.width, png.height);
  png.format = PNG_FORMAT_RGB;
  const png_color ground = {255, 255, 255};  // behind transparent pixels
  if (png_image_finish_read(&png, &ground, picture.pixels.data(), 0, nullptr) == 0) {
    fail(file, std::string("bad PNG: ") + png.message);
  }
  return picture;
}
#endif

#ifdef GPUDNN_SAMPLE_JPEG
struct JpegError {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

// libjpeg leaves by a jump where something is wrong: nothing in here has a destructor, and what it fills is the
// caller's.
bool decode_jpeg(std::FILE* stream, jpeg_decompress_struct* jpeg, JpegError* error, Picture* picture) {
  if (setjmp(error->back) != 0) return false;
  jpeg_create_decompress(jpeg);
  jpeg_stdio_src(jpeg, stream);
  jpeg_read_header(jpeg, TRUE);
  jpeg->out_color_space = JCS_RGB;
  jpeg_start_decompress(jpeg);
  picture->width = static_cast<int>(jpeg->output_width);
  picture->height = static_cast<int>(jpeg->output_height);
  picture->pixels.resize(size_t{jpeg->output_width} * jpeg->output_height * 3);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = picture->pixels.data() + size_t{jpeg->output_scanline} * jpeg->output_width * 3;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

Picture read_jpeg(const fs::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  jpeg_decompress_struct jpeg = {};
  JpegError error = {};
  jpeg.err = jpeg_std_error(&error.base);
  error.base.error_exit = [](j_common_ptr common) {
    auto* const mine = reinterpret_cast<JpegError*>(common->err);
    (*common->err->format_message)(common, mine->text);
    std::longjmp(mine->back, 1);
  };
  error.base.output_message = [](j_common_ptr) {};  // warnings: what is there is taken
  Picture picture;
  const bool good = decode_jpeg(stream.get(), &jpeg, &error, &picture);
  jpeg_destroy_decompress(&jpeg);
  if (!good) fail(file, std::string("bad JPEG: ") + error.text);
  return picture;
}
#endif

// The next number of a PPM or PGM header; comments go from '#' to the end of the line.
int header_number(std::istream& stream, const fs::path& file) {
  while (std::isspace(stream.peek()) || stream.peek() == '#') {
    if (stream.get() == '#') stream.ignore(1 << 20, '\n');
  }
  int value = 0;
  if (!(stream >> value)) fail(file, "bad PPM or PGM: a number is missing in the header");
  return value;
}

// Binary ones, of 8 bits: P6 (colour) and P5 (gray).
Picture read_ppm(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  char magic[2] = {};
  stream.read(magic, 2);
  if (magic[0] != 'P' || (magic[1] != '5' && magic[1] != '6')) fail(file, "expected a PPM (P6) or PGM (P5)");
  const int width = header_number(stream, file), height = header_number(stream, file);
  Picture picture = sized(file, static_cast<uint64_t>(width), static_cast<uint64_t>(height));
  if (const int white = header_number(stream, file); white != 255) {
    fail(file, "expected 255 as the value of white, found " + std::to_string(white));
  }
  stream.get();
  if (magic[1] == '6') {
    stream.read(reinterpret_cast<char*>(picture.pixels.data()), static_cast<std::streamsize>(picture.pixels.size()));
  } else {
    for (size_t i = 0; i < picture.pixels.size(); i += 3) {
      std::fill_n(picture.pixels.begin() + static_cast<std::ptrdiff_t>(i), 3, static_cast<uint8_t>(stream.get()));
    }
  }
  if (!stream) fail(file, "ends within its pixels");
  return picture;
}

}  // namespace

bool is_picture(const fs::path& file) {
  const std::string kind = ending(file);
#ifdef GPUDNN_SAMPLE_PNG
  if (kind == ".png") return true;
#endif
#ifdef GPUDNN_SAMPLE_JPEG
  if (kind == ".jpg" || kind == ".jpeg") return true;
#endif
  return kind == ".ppm" || kind == ".pgm";
}

Picture read_picture(const fs::path& file) {
  const std::string kind = ending(file);
#ifdef GPUDNN_SAMPLE_PNG
  if (kind == ".png") return read_png(file);
#endif
#ifdef GPUDNN_SAMPLE_JPEG
  if (kind == ".jpg" || kind == ".jpeg") return read_jpeg(file);
#endif
  if (kind == ".ppm" || kind == ".pgm") return read_ppm(file);
  fail(file, "is of no kind that this program was built to read");
}

void write_picture(const fs::path& file, const Picture& picture) {
#ifdef GPUDNN_SAMPLE_PNG
  if (ending(file) == ".png") {
    png_image png = {};
    png.version = PNG_IMAGE_VERSION;
    png.width = static_cast<png_uint_32>(picture.width);
    png.height = static_cast<png_uint_32>(picture.height);
    png.format = PNG_FORMAT_RGB;
    if (png_image_write_to_file(&png, file.c_str(), 0, picture.pixels.data(), 0, nullptr) == 0) {
      fail(file, std::string("cannot be written: ") + png.message);
    }
    return;
  }
#endif
  std::ofstream stream(file, std::ios::binary);
  stream << "P6\n" << picture.width << ' ' << picture.height << "\n255\n";
  stream.write(reinterpret_cast<const char*>(picture.pixels.data()),
               static_cast<std::streamsize>(picture.pixels.size()));
  stream.close();
  if (!stream) fail(file, std::string("cannot be written: ") + std::strerror(errno));
}

std::vector<uint8_t> square_of(const Picture& picture, int size) {
  const int side = std::min(picture.width, picture.height);
  const int left = (picture.width - side) / 2, top = (picture.height - side) / 2;
  const double step = static_cast<double>(side) / size;
  std::vector<uint8_t> pixels;
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      // Of a picture that is smaller than the square, the nearest pixel.
      const int x0 = static_cast<int>(x * step), y0 = static_cast<int>(y * step);
      const int x1 = std::max(x0 + 1, static_cast<int>((x + 1) * step)),
                y1 = std::max(y0 + 1, static_cast<int>((y + 1) * step));
      for (int channel = 0; channel < 3; ++channel) {
        int64_t sum = 0;
        for (int v = y0; v < y1; ++v) {
          for (int u = x0; u < x1; ++u) {
            sum += picture.pixels[(static_cast<size_t>(top + v) * static_cast<size_t>(picture.width) +
                                   static_cast<size_t>(left + u)) *
                                      3 +
                                  static_cast<size_t>(channel)];
          }
        }
        pixels.push_back(static_cast<uint8_t>(sum / (int64_t{x1 - x0} * (y1 - y0))));
      }
    }
  }
  return pixels;
}
