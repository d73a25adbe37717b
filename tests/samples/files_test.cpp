// The files of sample 08_resnet: pictures of each kind, folders of them, checkpoints; and what is said of bad ones.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "08_resnet/checkpoint.hpp"
#include "08_resnet/image_set.hpp"
#include "08_resnet/pictures.hpp"

namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string name = fs::temp_directory_path() / "gpudnn-files-XXXXXX";
    folder = mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder); }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  std::string bytes_of(const std::string& name) const {
    std::ifstream stream(folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static std::string what(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path folder;
};

Picture random_picture(int width, int height) {
  std::mt19937 random(std::random_device{}());
  Picture picture{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height) * 3)};
  for (uint8_t& value : picture.pixels) value = static_cast<uint8_t>(random());
  return picture;
}

// A picture of one colour, which JPEG keeps to within a step or two.
void put_jpeg(const fs::path& file, int width, int height, const std::array<uint8_t, 3>& colour) {
  std::FILE* stream = std::fopen(file.c_str(), "wb");
  ASSERT_NE(stream, nullptr);
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr error = {};
  jpeg.err = jpeg_std_error(&error);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, stream);
  jpeg.image_width = static_cast<JDIMENSION>(width), jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = 3, jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<uint8_t> row;
  for (int x = 0; x < width; ++x) row.insert(row.end(), colour.begin(), colour.end());
  for (int y = 0; y < height; ++y) {
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&jpeg, &rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::fclose(stream);
}

TEST_F(Files, PngAndPpmComeBackAsTheyWere) {
  const Picture picture = random_picture(7, 5);
  for (const char* name : {"a.png", "a.PPM"}) {
    write_picture(folder / name, picture);
    const Picture back = read_picture(folder / name);
    EXPECT_EQ(back.width, 7);
    EXPECT_EQ(back.height, 5);
    EXPECT_EQ(back.pixels, picture.pixels) << name;
  }
  EXPECT_EQ(bytes_of("a.png").substr(1, 3), "PNG");
  put("g.pgm", std::string("P5 # gray\n2 1\n255\n") + "\x10\xf0");
  EXPECT_EQ(read_picture(folder / "g.pgm").pixels, (std::vector<uint8_t>{16, 16, 16, 240, 240, 240}));
}

TEST_F(Files, JpegIsRead) {
  put_jpeg(folder / "a.jpg", 20, 9, {200, 60, 30});
  const Picture back = read_picture(folder / "a.jpg");
  EXPECT_EQ(back.width, 20);
  EXPECT_EQ(back.height, 9);
  ASSERT_EQ(back.pixels.size(), 540u);
  for (size_t i = 0; i < back.pixels.size(); ++i) {
    const int wanted = std::array{200, 60, 30}[i % 3];
    EXPECT_NEAR(int{back.pixels[i]}, wanted, 4);
  }
}

TEST_F(Files, ABadPictureIsNamed) {
  write_picture(folder / "a.png", random_picture(30, 30));
  put_jpeg(folder / "a.jpg", 20, 9, {200, 60, 30});
  write_picture(folder / "a.ppm", random_picture(30, 30));
  for (const char* name : {"a.png", "a.ppm"}) {
    put(name, bytes_of(name).substr(0, 60));
    EXPECT_NE(what([&] { read_picture(folder / name); }).find(name), std::string::npos) << name;
  }
  put("a.jpg", "no picture");
  EXPECT_NE(what([&] { read_picture(folder / "a.jpg"); }).find("bad JPEG"), std::string::npos);
  put("a.ppm", "P6\n100000 1\n255\n");
  EXPECT_NE(what([&] { read_picture(folder / "a.ppm"); }).find("found 100000x1"), std::string::npos);
  EXPECT_FALSE(is_picture(folder / "a.txt"));
}

TEST_F(Files, TheMiddleSquareIsScaled) {
  // Six by two pixels, of which the middle two columns count.
  Picture picture{6, 2, std::vector<uint8_t>(36, 255)};
  for (const int i : {2, 3, 8, 9}) std::fill_n(picture.pixels.begin() + i * 3, 3, static_cast<uint8_t>(10 * i));
  EXPECT_EQ(square_of(picture, 1), (std::vector<uint8_t>{55, 55, 55}));
  EXPECT_EQ(square_of(picture, 2), (std::vector<uint8_t>{20, 20, 20, 30, 30, 30, 80, 80, 80, 90, 90, 90}));
  EXPECT_EQ(square_of(picture, 4).size(), 48u);
}

TEST_F(Files, FoldersAreClasses) {
  for (const char* name : {"dog", "cat"}) {
    fs::create_directory(folder / name);
    for (int i = 0; i < 7; ++i) {
      write_picture(folder / name / (std::to_string(i) + ".png"), random_picture(9, 12));
    }
  }
  put("cat/notes.txt", "no picture");
  const Images images = read_folder(folder, 8);
  EXPECT_EQ(images.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(images.train.labels, (std::vector<int>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(images.validate.labels, (std::vector<int>{0, 1}));
  EXPECT_EQ(images.train.pixels.size(), 12 * images.train.bytes_each());
  fs::remove_all(folder / "dog");
  EXPECT_NE(what([&] { read_folder(folder, 8); }).find("found 1 classes"), std::string::npos);
  EXPECT_NE(what([&] { read_folder(folder / "none", 8); }).find("is no folder"), std::string::npos);
}

TEST_F(Files, ACheckpointComesBackOrIsRefused) {
  const Checkpoint c{24, 16, 3, 512, 77, {"cat", "", "dog"}, {1.5f, -0.0f, 3e-42f}};
  write_checkpoint(folder / "c", c);
  const Checkpoint back = read_checkpoint(folder / "c");
  EXPECT_EQ(back.size, 24u);
  EXPECT_EQ(back.width, 16u);
  EXPECT_EQ(back.epochs_done, 3u);
  EXPECT_EQ(back.loss_scale, 512);
  EXPECT_EQ(back.loss_scale_steps, 77u);
  EXPECT_EQ(back.classes, c.classes);
  EXPECT_EQ(back.state, c.state);
  const std::string bytes = bytes_of("c");
  for (size_t size = 0; size < bytes.size(); ++size) {
    put("c", bytes.substr(0, size));
    EXPECT_NE(what([&] { read_checkpoint(folder / "c"); }), "nothing was thrown") << size;
  }
  put("c", bytes + "x");
  EXPECT_NE(what([&] { read_checkpoint(folder / "c"); }).find("expected 3 floats"), std::string::npos);
}

}  // namespace
