// The files that the samples read: IDX, PNG, PPM, PGM and checkpoints. The input changes bytes of a good file and cuts
// it off, or stands for the whole file; a reader gives data or throws std::runtime_error with the file's name.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "02_mnist/image_io.hpp"
#include "02_mnist/mnist_data.hpp"
#include "08_resnet/checkpoint.hpp"
#include "08_resnet/pictures.hpp"
#include "bytes.hpp"
#include "check.hpp"

namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }
std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct Kind {
  std::string name;  // of the file
  std::string good;  // its bytes
  void (*read)(const fs::path& folder, const fs::path& file);
};

// Good files in a folder of their own, which goes when the process ends.
struct Files {
  fs::path folder;
  std::vector<Kind> kinds;

  Files() {
    std::string name = fs::temp_directory_path() / "gpudnn-fuzz-XXXXXX";
    folder = mkdtemp(name.data());
    const Picture picture = {5, 4, std::vector<uint8_t>(60, 77)};
    const auto read_colour = [](const fs::path&, const fs::path& file) { (void)read_picture(file); };
    const auto read_gray = [](const fs::path&, const fs::path& file) { (void)read_gray_image(file); };
    for (const char* ending : {"a.png", "a.ppm"}) {
      write_picture(folder / ending, picture);
      kinds.push_back({ending, bytes_of(folder / ending), read_colour});
    }
    kinds.push_back({"g.png", kinds[0].good, read_gray});
    kinds.push_back({"t.pgm", "P2 # text\n3 2\n255\n0 1 2 3 40 255\n", read_gray});
    kinds.push_back({"b.pgm", std::string("P5\n2 2\n255\n") + "\x10\x20\x30\x40", read_gray});
    kinds.push_back({"c.pgm", kinds.back().good, read_colour});

    const auto read_digits = [](const fs::path& from, const fs::path&) { (void)read_mnist(from); };
    const std::string labels("\0\0\x08\x01\0\0\0\x02\x07\x01", 10);
    const std::string images =
        std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c", 16) + std::string(2 * kImagePixels, '\x05');
    put(folder / "t10k-labels-idx1-ubyte", labels);
    put(folder / "t10k-images-idx3-ubyte", images);
    kinds.push_back({"t10k-labels-idx1-ubyte", labels, read_digits});
    kinds.push_back({"t10k-images-idx3-ubyte", images, read_digits});

    write_checkpoint(folder / "c.bin", {12, 4, 3, 1024, 7, {"ring", "cross"}, std::vector<float>(20, 0.5f)});
    kinds.push_back({"c.bin", bytes_of(folder / "c.bin"),
                     [](const fs::path&, const fs::path& file) { (void)read_checkpoint(file); }});
  }
  ~Files() { fs::remove_all(folder); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  gpudnn::fuzz::Bytes bytes(data, size);
  const Kind& kind = files.kinds[bytes.next(static_cast<std::uint32_t>(files.kinds.size()))];
  std::string changed = kind.good;
  if (bytes.next(4) == 0) {
    changed.assign(gpudnn::fuzz::text_of(data, size));
  } else {
    if (bytes.next(4) == 0) changed.resize(bytes.next(static_cast<std::uint32_t>(changed.size() + 1)));
    while (!bytes.empty() && !changed.empty()) {
      // Headers are what can mislead a reader, so half of the changes are there.
      const std::size_t among = bytes.next(2) == 0 && changed.size() > 48 ? 48 : changed.size();
      changed[bytes.next(static_cast<std::uint32_t>(among))] = static_cast<char>(bytes.next(256));
    }
  }
  const fs::path file = files.folder / kind.name;
  put(file, changed);
  try {
    kind.read(files.folder, file);
  } catch (const std::runtime_error& error) {
    gpudnn::fuzz::expect(std::string_view(error.what()).find(files.folder.string()) != std::string_view::npos,
                         "an error that names no file", gpudnn::fuzz::text_of(data, size));
  }
  put(file, kind.good);
  return 0;
}
